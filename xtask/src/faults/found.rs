//! What was found at points, and the table of it.

use super::points::{KINDS, Point};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was found at a point; empty lists where all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Found {
    /// Left on the machine before `recover`.
    pub(super) before: Vec<String>,
    /// Left on the machine after it.
    pub(super) after: Vec<String>,
    /// Slices on record that are none.
    pub(super) torn: Vec<String>,
    /// Numbers that nobody measured.
    pub(super) invented: Vec<String>,
    /// Panics and crashes.
    pub(super) panics: Vec<String>,
    /// What took longer than it may: judged again with nothing beside.
    pub(super) slow: Vec<String>,
    /// Codes that there are not, text that steers a terminal or is markup, slices that are missing.
    pub(super) wrong: Vec<String>,
}

/// So many things of a list are told: what a killed server leaves fills pages.
const TOLD: usize = 2;

/// What the lists are called, as columns.
const COLUMNS: [&str; 7] = ["left", "after recover", "torn", "invented", "panics", "slow", "wrong"];

impl Found {
    fn lists(&self) -> [&[String]; 7] {
        let Self { before, after, torn, invented, panics, slow, wrong } = self;
        [before, after, torn, invented, panics, slow, wrong]
    }

    /// The first things of each list, behind what it is called, and how many more there are.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'static str, String)> {
        COLUMNS.into_iter().zip(self.lists()).flat_map(|(column, list)| {
            let more = list.len().saturating_sub(TOLD);
            let more = (more > 0).then(|| format!("and {more} more"));
            let first = list.iter().take(TOLD).cloned();
            first.chain(more).map(move |what| (column, what))
        })
    }

    /// Whether nothing is wrong. What is left until somebody recovers is not: where the guardian
    /// is killed too, nobody is left who could put it back.
    pub(super) fn is_well(&self) -> bool {
        self.lists()[1..].iter().all(|list| list.is_empty())
    }

    /// Whether something took too long, which others beside it may explain, and which may explain
    /// what else is wrong.
    pub(super) fn is_slow(&self) -> bool {
        !self.slow.is_empty()
    }
}

/// The table: a line for each kind of fault, and how many points had something of each column.
pub(super) fn table(all: &BTreeMap<(u64, u32), Found>) -> String {
    let width = |column: &str| column.len().max(6);
    let mut text = format!("{:<32} points", "fault");
    for column in COLUMNS {
        let _ = write!(text, "  {column:>0$}", width(column));
    }
    let mut sum = [0; 8];
    let mut line = |name: &str, row: [usize; 8]| {
        let _ = write!(text, "\n{name:<32} {:6}", row[0]);
        for (column, count) in COLUMNS.iter().zip(&row[1..]) {
            let _ = write!(text, "  {count:>0$}", width(column));
        }
    };
    for (kind, name) in KINDS {
        let of_it = all.iter().filter(|((seed, n), _)| Point::drawn(*seed, *n).kind == kind);
        let mut row = [0; 8];
        for (_, found) in of_it {
            row[0] += 1;
            for (count, list) in row[1..].iter_mut().zip(found.lists()) {
                *count += usize::from(!list.is_empty());
            }
        }
        line(name, row);
        sum.iter_mut().zip(row).for_each(|(total, count)| *total += count);
    }
    line("all", sum);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(list: &str) -> Vec<String> {
        vec![list.to_owned()]
    }

    #[test]
    fn each_point_counts_once_in_each_column_that_it_has_something_of() {
        let left = Found { before: vec!["a".into(), "b".into()], ..Found::default() };
        let torn = Found { torn: one("x"), slow: one("y"), ..Found::default() };
        let all = BTreeMap::from([((1, 0), left), ((1, 1), torn), ((1, 2), Found::default())]);
        let table = table(&all);
        let last = table.lines().last().unwrap();
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(words, ["all", "3", "1", "0", "1", "0", "0", "1", "0"]);
        let wide = table.lines().next().unwrap().len();
        assert!(table.lines().all(|line| line.len() == wide), "{table}");
        assert_eq!(table.lines().count(), KINDS.len() + 2);
    }

    #[test]
    fn of_a_long_list_the_first_are_told() {
        let before = ["a", "b", "c", "d"].map(ToOwned::to_owned).to_vec();
        let found = Found { before, slow: one("x"), ..Found::default() };
        let told: Vec<_> = found.told().collect();
        let told: Vec<_> = told.iter().map(|(column, what)| (*column, what.as_str())).collect();
        assert_eq!(told, [("left", "a"), ("left", "b"), ("left", "and 2 more"), ("slow", "x")]);
    }

    #[test]
    fn only_what_is_left_until_recover_is_well() {
        assert!(Found { before: one("x"), ..Found::default() }.is_well());
        let slow = Found { slow: one("x"), ..Found::default() };
        assert!(!slow.is_well() && slow.is_slow());
        let worse = Found { after: one("y"), ..slow };
        assert!(!worse.is_well() && worse.is_slow());
        assert!(!Found::default().is_slow());
        assert_eq!(
            worse.told().map(|(column, _)| column).collect::<Vec<_>>(),
            ["after recover", "slow"]
        );
    }
}

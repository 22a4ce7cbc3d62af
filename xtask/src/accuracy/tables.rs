//! Tables of scores: by family, by form of build, and what is taken for what.

use super::kept::KeptScore;
use super::score::{Marks, Outcome, Scored};
use super::tools::Tool;
use kneepoint_stats::interval::median;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const NOTHING: &str = "none";
const HEAD: &str = "runs | void | failed | top 1 | top 3 | kind | place | share off, points | \
                    covered | gain off | forecast off | false alarms | seconds";

/// Every table, as Markdown.
pub(super) fn all(scored: &[Scored]) -> String {
    judged(scored) + &beside_tools(scored)
}

/// The tables of Kneepoint alone.
fn judged(scored: &[Scored]) -> String {
    let every: BTreeMap<&str, Vec<&Scored>> = BTreeMap::from([("all", scored.iter().collect())]);
    let mut text = scores("family", &grouped(scored, |one| &one.family), &every);
    text.push('\n');
    text.push_str(&scores("build", &grouped(scored, |one| &one.form), &BTreeMap::new()));
    text.push('\n');
    text.push_str(&confusion(scored));
    text
}

/// The same of scores that have added up: of the `newest` of them, a line for each version, and
/// what other tools show on the runs of any.
pub(super) fn of_versions(kept: &[KeptScore], newest: &[Scored]) -> String {
    let every: Vec<Scored> = kept.iter().map(|one| one.scored.clone()).collect();
    let mut versions: BTreeMap<&str, Vec<&Scored>> = BTreeMap::new();
    for one in kept {
        versions.entry(&one.commit).or_default().push(&one.scored);
    }
    let by_commit = scores("commit", &versions, &BTreeMap::new());
    format!("{}\n{by_commit}{}", judged(newest), beside_tools(&every))
}

/// How often Kneepoint and other tools show a planted place first, where these were tried.
fn beside_tools(scored: &[Scored]) -> String {
    let tried: Vec<(&Scored, &Marks)> = scored
        .iter()
        .filter(|one| !one.tools.is_empty())
        .filter_map(|one| Some((one, marks(one)?)))
        .collect();
    if tried.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.as_str()).collect();
    let mut text = format!(
        "\n| place shown first | runs | Kneepoint | {} |\n|{}\n",
        names.join(" | "),
        "---|".repeat(names.len() + 3)
    );
    let mut families: BTreeMap<&str, Vec<(&Scored, &Marks)>> = BTreeMap::new();
    for (one, marks) in &tried {
        families.entry(&one.family).or_default().push((one, marks));
    }
    for (family, runs) in families.iter().chain([(&"all", &tried)]) {
        let part = |is: &dyn Fn(&(&Scored, &Marks)) -> bool| {
            share(runs.iter().filter(|run| is(run)).count(), runs.len())
        };
        let others = names.iter().map(|name| part(&|run| run.0.tools.get(*name) == Some(&true)));
        let others: Vec<String> = others.collect();
        let own = part(&|run| run.1.place);
        let _ = writeln!(text, "| {family} | {} | {own} | {} |", runs.len(), others.join(" | "));
    }
    text
}

/// What else was tried on the same runs, a line for each rule.
pub(super) fn rules(tried: &[(&str, Vec<Scored>)]) -> String {
    let row_of = |(name, scored): &(&str, Vec<Scored>)| {
        format!("| {name} | {} |\n", row(&scored.iter().collect::<Vec<_>>()).join(" | "))
    };
    let lines: String = tried.iter().map(row_of).collect();
    format!("{}{lines}", head("idle cores charged to"))
}

fn grouped<'a>(
    scored: &'a [Scored],
    by: impl Fn(&'a Scored) -> &'a str,
) -> BTreeMap<&'a str, Vec<&'a Scored>> {
    let mut groups: BTreeMap<&str, Vec<&Scored>> = BTreeMap::new();
    for one in scored {
        groups.entry(by(one)).or_default().push(one);
    }
    groups
}

type Groups<'a> = BTreeMap<&'a str, Vec<&'a Scored>>;

fn scores(what: &str, groups: &Groups<'_>, last: &Groups<'_>) -> String {
    let mut text = head(what);
    for (name, group) in groups.iter().chain(last) {
        let _ = writeln!(text, "| {name} | {} |", row(group).join(" | "));
    }
    text
}

fn head(what: &str) -> String {
    let columns = HEAD.split('|').count();
    format!("| {what} | {HEAD} |\n|{}\n", "---|".repeat(columns + 1))
}

/// The cells of a group, in the order of [`HEAD`].
fn row(group: &[&Scored]) -> Vec<String> {
    let count = |is: fn(&Outcome) -> bool| group.iter().filter(|one| is(&one.outcome)).count();
    let failed = |one: &Outcome| matches!(one, Outcome::Failed { .. });
    let marks: Vec<&Marks> = group.iter().filter_map(|one| marks(one)).collect();
    // A run of a planted cause that failed found nothing.
    let lost = group.iter().filter(|one| failed(&one.outcome) && one.planted.is_some()).count();
    let planted = marks.len() + lost;
    let part = |is: fn(&Marks) -> bool| share(marks.iter().filter(|one| is(one)).count(), planted);
    let covered: Vec<bool> = marks.iter().flat_map(|one| one.covered.iter().copied()).collect();
    let errors = marks.iter().flat_map(|one| one.share_errors.iter());
    let off = errors.map(|error| 100.0 * error.abs()).collect::<Vec<f64>>();
    let ratios = |of: fn(&Marks) -> Option<f64>| {
        let off: Vec<f64> = marks.iter().filter_map(|one| of(one)).map(from_one).collect();
        middle(&off, 0, " %")
    };
    let nulls = count(|one| matches!(one, Outcome::Null { .. }));
    let alarms = count(|one| matches!(one, Outcome::Null { alarm: true }));
    let seconds: Vec<f64> = group.iter().map(|one| one.seconds).collect();
    vec![
        group.len().to_string(),
        count(|one| *one == Outcome::Void).to_string(),
        count(|one| matches!(one, Outcome::Failed { .. })).to_string(),
        part(|one| one.top_1),
        part(|one| one.top_3),
        part(|one| one.kind),
        part(|one| one.place),
        middle(&off, 0, ""),
        share(covered.iter().filter(|one| **one).count(), covered.len()),
        ratios(|one| one.gain_ratio),
        ratios(|one| one.forecast_ratio),
        if nulls == 0 { String::new() } else { format!("{alarms} of {nulls}") },
        middle(&seconds, 0, ""),
    ]
}

fn marks(one: &Scored) -> Option<&Marks> {
    match &one.outcome {
        Outcome::Planted(marks) => Some(marks),
        _ => None,
    }
}

/// How far a ratio is from 1 in percent, as much for half as for twice.
fn from_one(ratio: f64) -> f64 {
    100.0 * (ratio.ln().abs().exp() - 1.0)
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand runs")]
fn share(part: usize, of: usize) -> String {
    match of {
        0 => String::new(),
        _ => format!("{:.0} %", 100.0 * part as f64 / of as f64),
    }
}

fn middle(values: &[f64], digits: usize, unit: &str) -> String {
    match values {
        [] => String::new(),
        _ => format!("{:.digits$}{unit}", median(values)),
    }
}

/// Planted causes against kinds of the first cause.
fn confusion(scored: &[Scored]) -> String {
    let counted = scored.iter().filter(|one| one.outcome != Outcome::Void);
    let pairs: Vec<(&str, &str)> = counted
        .map(|one| {
            let planted = one.planted.as_deref().unwrap_or(NOTHING);
            (planted, one.first.as_deref().unwrap_or(NOTHING))
        })
        .collect();
    let columns: BTreeSet<&str> = pairs.iter().map(|(_, first)| *first).collect();
    let rows: BTreeSet<&str> = pairs.iter().map(|(planted, _)| *planted).collect();
    let names: Vec<&str> = columns.iter().copied().collect();
    let mut text = format!(
        "| planted, and kind of the first cause | {} |\n|{}\n",
        names.join(" | "),
        "---|".repeat(columns.len() + 1)
    );
    for planted in rows {
        let cell = |first: &&str| {
            let same = |pair: &&(&str, &str)| **pair == (planted, *first);
            match pairs.iter().filter(same).count() {
                0 => String::new(),
                count => count.to_string(),
            }
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let _ = writeln!(text, "| {planted} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(
        family: &str,
        planted: Option<&str>,
        first: Option<&str>,
        outcome: Outcome,
    ) -> Scored {
        Scored {
            specimen: "x".to_owned(),
            family: family.to_owned(),
            form: "debug".to_owned(),
            planted: planted.map(str::to_owned),
            first: first.map(str::to_owned),
            outcome,
            seconds: 20.0,
            tools: BTreeMap::new(),
        }
    }

    fn some() -> Vec<Scored> {
        let right = Marks {
            top_1: true,
            top_3: true,
            kind: true,
            place: true,
            share_errors: vec![-0.1],
            covered: vec![true],
            gain_ratio: Some(0.5),
            forecast_ratio: None,
        };
        let failed = Outcome::Failed { why: "it died".to_owned() };
        vec![
            scored("locks", Some("mutex"), Some("lock"), Outcome::Planted(right)),
            scored("locks", Some("mutex"), Some("kernel"), Outcome::Planted(Marks::default())),
            scored("locks", Some("mutex"), None, failed),
            scored("locks", Some("mutex"), Some("other"), Outcome::Void),
            scored("nulls", None, None, Outcome::Null { alarm: false }),
            scored("nulls", None, Some("lock"), Outcome::Null { alarm: true }),
        ]
    }

    #[test]
    fn a_failed_run_counts_against_and_a_void_one_for_nothing() {
        let text = all(&some());
        let locks = "| locks | 4 | 1 | 1 | 33 % | 33 % | 33 % | 33 % | 10 | 100 % | 100 % |  |  | \
                     20 |";
        assert!(text.contains(locks), "{text}");
        let nulls = "| nulls | 2 | 0 | 0 |  |  |  |  |  |  |  |  | 1 of 2 | 20 |";
        assert!(text.contains(nulls), "{text}");
        assert!(text.contains("| all | 6 | 1 | 1 | 33 % |"), "{text}");
    }

    #[test]
    fn other_tools_stand_beside_where_they_were_tried() {
        let mut all = some();
        assert_eq!(beside_tools(&all), "");
        for one in &mut all[..2] {
            let right = one.first.as_deref() == Some("kernel");
            one.tools = Tool::ALL.iter().map(|tool| (tool.as_str().to_owned(), right)).collect();
        }
        let text = beside_tools(&all);
        assert!(text.contains("| locks | 2 | 50 % | 50 % | 50 % | 50 % |"), "{text}");
        assert!(text.contains("| all | 2 |"), "{text}");
    }

    #[test]
    fn rows_are_as_wide_as_their_heads() {
        let wide = |line: &str| line.matches('|').count();
        let text = all(&some());
        for table in text.split("\n\n") {
            let widths: BTreeSet<usize> = table.lines().map(wide).collect();
            assert_eq!(widths.len(), 1, "{table}");
        }
    }

    #[test]
    fn each_version_has_its_line() {
        let kept = some().into_iter().zip(["a1", "a1", "a1", "a1", "b2", "b2"]);
        let kept =
            kept.map(|(scored, commit)| KeptScore { commit: commit.to_owned(), seed: 1, scored });
        let kept: Vec<KeptScore> = kept.collect();
        let text = of_versions(&kept, &crate::accuracy::kept::newest(&kept, None).unwrap());
        assert!(text.contains("| all | 2 | 0 | 0 |  |"), "{text}");
        assert!(text.contains("| a1 | 4 | 1 | 1 | 33 % |"), "{text}");
        assert!(text.contains("| b2 | 2 | 0 | 0 |  |"), "{text}");
    }

    #[test]
    fn what_is_taken_for_what_is_counted() {
        let text = confusion(&some());
        assert!(
            text.starts_with("| planted, and kind of the first cause | kernel | lock | none |")
        );
        assert!(text.contains("| mutex | 1 | 1 | 1 |"), "{text}");
        assert!(text.contains("| none |  | 1 | 1 |"), "{text}");
        assert_eq!(confusion(&[]).lines().count(), 2);
    }
}

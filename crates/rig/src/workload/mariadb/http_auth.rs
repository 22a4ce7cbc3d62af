//! super-smack's table and dictionary, drawn from a seed.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write as _;

/// Rows of one INSERT statement.
const ROWS_A_STATEMENT: usize = 1000;
/// super-smack takes about so many bytes of a dictionary's file between the words that it keeps,
/// divided into its size.
const DICTIONARY_STEPS: usize = 45_000;

/// The rows of the table, and of the file from which the dictionary is read.
pub(super) struct HttpAuth {
    /// Key, password, user and group of each row.
    rows: Vec<(String, String, usize, u32)>,
}

impl HttpAuth {
    /// So many rows.
    pub(super) fn draw(rows: u32, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rows = (1..=rows as usize).map(|row| {
            let name = format!("{}{row}", letters(&mut random, 12));
            (name, letters(&mut random, 25), row, random.next_u32() >> 1)
        });
        Self { rows: rows.collect() }
    }

    /// Statements that make and fill the table.
    pub(super) fn statements(&self, engine: &str) -> String {
        let mut text = format!(
            "CREATE TABLE http_auth (username CHAR(25) NOT NULL PRIMARY KEY, \
             pass CHAR(25), uid INTEGER NOT NULL, gid INTEGER NOT NULL) ENGINE={engine};\n"
        );
        for chunk in self.rows.chunks(ROWS_A_STATEMENT) {
            let values: Vec<_> = chunk
                .iter()
                .map(|(name, pass, user, group)| format!("('{name}','{pass}',{user},{group})"))
                .collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "INSERT INTO http_auth VALUES {};", values.join(","));
        }
        text
    }

    /// The keys that clients ask for: those of every so many lines of the file that super-smack
    /// would have made.
    pub(super) fn words(&self) -> Vec<&str> {
        let bytes: usize = self
            .rows
            .iter()
            .map(|(name, pass, user, group)| format!("{name},{pass},{user},{group}\n").len())
            .sum();
        let step = (bytes / DICTIONARY_STEPS).max(1);
        let kept = self.rows.iter().skip(step - 1).step_by(step);
        kept.map(|(name, ..)| name.as_str()).collect()
    }
}

/// So many letters from a to y.
fn letters(random: &mut Pcg64Mcg, count: usize) -> String {
    (0..count).map(|_| char::from(b'a' + (random.next_u32() % 25) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_small_one_of_super_smack() {
        let table = HttpAuth::draw(90_000, 7);
        let words = table.words();
        assert!((650..850).contains(&words.len()), "{}", words.len());
        let (name, pass, user, _) = &table.rows[123];
        assert_eq!((name.len(), pass.len(), *user), (15, 25, 124));
        assert!(name.ends_with("124") && name[..12].bytes().all(|b| (b'a'..=b'y').contains(&b)));
        let known: std::collections::BTreeSet<_> = table.rows.iter().map(|row| &row.0).collect();
        assert!(words.iter().all(|word| known.contains(&(*word).to_owned())));
        assert_eq!(known.len(), 90_000);
    }

    #[test]
    fn statements_hold_each_row_once_and_a_seed_says_which() {
        let text = HttpAuth::draw(2500, 7).statements("MyISAM");
        assert_eq!(text.matches("INSERT").count(), 3);
        assert_eq!(text.matches("('").count(), 2500);
        assert_eq!(text, HttpAuth::draw(2500, 7).statements("MyISAM"));
        assert_ne!(text, HttpAuth::draw(2500, 8).statements("MyISAM"));
    }
}

//! A number in what a program printed.

use crate::workload::settings::written;
use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

/// A pattern with exactly one group: the number.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Reads it as a regular expression.
    ///
    /// # Errors
    /// What is wrong with it, to be put after its name.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| {
            let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            format!("is no regular expression: {reason}")
        })?;
        match regex.captures_len() {
            2 => Ok(Self(regex)),
            1 => Err("needs one group around the number, as ([0-9.]+)".to_owned()),
            groups => Err(format!(
                "needs one group, the number, and has {}: write (?:...) for the others",
                groups - 1
            )),
        }
    }

    /// Whether it matches anywhere.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The first number that it finds in `texts`.
    ///
    /// # Errors
    /// There is none, or it is no number.
    pub(super) fn first(&self, texts: &[&str]) -> Result<f64, String> {
        let found = texts.iter().find_map(|text| self.0.captures(text)?.get(1));
        let found = found.ok_or_else(|| self.unmatched())?;
        number(found.as_str())
    }

    fn unmatched(&self) -> String {
        format!("nothing it printed matches {:?}", self.0.as_str())
    }

    /// The number in the first of `texts` that has a match.
    ///
    /// # Errors
    /// There is none, it is no number, or different ones match.
    pub(super) fn find(&self, texts: &[&str]) -> Result<f64, String> {
        for text in texts {
            let found: Vec<&str> =
                self.0.captures_iter(text).filter_map(|c| Some(c.get(1)?.as_str())).collect();
            let Some(first) = found.first() else { continue };
            if let Some(other) = found.iter().find(|other| *other != first) {
                return Err(format!(
                    "{:?} matches different numbers ({first}, {other}); make it match one",
                    self.0.as_str()
                ));
            }
            return number(first);
        }
        Err(self.unmatched())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        written(from, Self::parse)
    }
}

/// A number as tools print it: `1234.5`, `1,234,567`, `12.3k`. Zero is one: nothing was done.
///
/// # Errors
/// It is none, below zero, or too great.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, scale) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let plain = ungrouped(digits.trim_end());
    match plain.parse::<f64>().map(|value| value * scale) {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Ok(value) => Err(format!("the number it printed is no throughput: {value}")),
        Err(_) => Err(format!("{text:?} is no number")),
    }
}

/// Without the commas between groups of three digits; anything else is left as it is.
fn ungrouped(digits: &str) -> String {
    let whole = digits.split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let grouped = (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3);
    if grouped { digits.replace(',', "") } else { digits.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_number_is_found_and_contradictions_are_not_guessed() {
        let pattern = Pattern::parse("rate: ([0-9.,kM]+)").unwrap();
        assert_eq!(pattern.find(&["", "rate: 1,234.5"]), Ok(1234.5));
        assert_eq!(pattern.find(&["rate: 2.5k\nrate: 2.5k", ""]), Ok(2500.0));
        assert!(pattern.find(&["rate: 1\nrate: 2"]).unwrap_err().contains("different numbers"));
        assert!(pattern.find(&["", "nothing"]).unwrap_err().contains("matches"));
        assert_eq!(pattern.find(&["rate: 0.0"]), Ok(0.0));
        assert!(pattern.find(&["rate: ..,"]).unwrap_err().contains("no number"));
    }

    #[test]
    fn the_first_number_is_one_that_others_may_follow() {
        let pattern = Pattern::parse("total:([0-9]+)").unwrap();
        assert_eq!(pattern.first(&["x", "a\ntotal:12\ntotal:13"]), Ok(12.0));
        assert!(pattern.first(&["total:", ""]).unwrap_err().contains("matches"));
    }

    #[test]
    fn a_pattern_needs_exactly_one_group() {
        assert!(Pattern::parse("[0-9]+").unwrap_err().contains("needs one group around"));
        assert!(Pattern::parse("(a)([0-9]+)").unwrap_err().contains("and has 2"));
        assert!(Pattern::parse("([0-9]+").unwrap_err().contains("no regular expression"));
        assert!(Pattern::parse("(?:a|b)([0-9]+)").is_ok());
    }

    #[test]
    fn what_is_no_throughput_is_refused() {
        for bad in ["", "nan", "inf", "-1", "1,2", ",", "k", "1e999", "1,23,456"] {
            assert!(number(bad).is_err(), "{bad} passed");
        }
        assert_eq!(number("1,234,567"), Ok(1_234_567.0));
        assert_eq!(number("1.5M"), Ok(1_500_000.0));
        assert_eq!(number("1e3"), Ok(1000.0));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}") {
            prop_assert!(number(&text).map_or(true, |value| value.is_finite() && value >= 0.0));
        }
    }
}

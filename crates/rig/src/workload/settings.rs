//! Settings from text: a reader that hands out typed values and, at the end, refuses the names
//! that nobody has asked for.

use super::SettingError;
use crate::environment::Variables;
use crate::treatment::ENVIRONMENT;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Reads the settings of one variant. Whoever has read all there are calls [`Reader::finish`].
pub(super) struct Reader<'a> {
    workload: &'static str,
    texts: &'a BTreeMap<String, String>,
    /// Names that were asked for: those that the workload knows.
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// For the settings of this workload, as written.
    pub(super) fn new(workload: &'static str, texts: &'a BTreeMap<String, String>) -> Self {
        Self { workload, texts, known: Vec::new() }
    }

    /// One of some words.
    ///
    /// # Errors
    /// It is none of them.
    pub(super) fn one_of<T: Clone>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, SettingError> {
        self.parsed(name, default, |text| {
            let chosen = choices.iter().find(|(word, _)| *word == text);
            chosen.map(|(_, choice)| choice.clone()).ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                format!("must be {}", listed(&words))
            })
        })
    }

    /// One of some words, itself.
    ///
    /// # Errors
    /// It is none of them.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, SettingError> {
        let choices: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
        self.one_of(name, &choices, default)
    }

    /// Something that is on or off.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn switch(
        &mut self,
        name: &'static str,
        default: bool,
    ) -> Result<bool, SettingError> {
        self.one_of(name, &[("on", true), ("off", false)], default)
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// It is no number, or outside.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, SettingError> {
        self.parsed(name, default, |text| number(text, &range))
    }

    /// A size such as `64MiB`, in MiB, within a range of these.
    ///
    /// # Errors
    /// It has another unit or none, is no whole number, or outside.
    pub(super) fn mebibytes(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, SettingError> {
        self.parsed(name, default, |text| {
            let size = text.strip_suffix("MiB").and_then(|size| number(size, &range).ok());
            let (least, most) = (range.start(), range.end());
            size.ok_or_else(|| format!("must be {least}MiB to {most}MiB, such as {default}MiB"))
        })
    }

    /// Variables of the system's environment.
    ///
    /// # Errors
    /// They are no `NAME=VALUE` words.
    pub(super) fn environment(&mut self) -> Result<Variables, SettingError> {
        self.parsed(ENVIRONMENT, Variables::default(), Variables::parse)
    }

    /// Anything else: `read` makes a value of the text, or says what it `must be`.
    ///
    /// # Errors
    /// What `read` says, with the setting's name before it and the text behind it.
    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, SettingError> {
        self.known.push(name);
        let Some(text) = self.texts.get(name) else { return Ok(default) };
        read(text).map_err(|wrong| refusal(name, format!("{name} {wrong} (found {text:?})")))
    }

    /// Whether a setting is written at all.
    pub(super) fn given(&self, name: &str) -> bool {
        self.texts.contains_key(name)
    }

    /// Refuses what nobody has asked for.
    ///
    /// # Errors
    /// A name that the workload does not know; all that it knows are listed.
    pub(super) fn finish(mut self) -> Result<(), SettingError> {
        let mut names = self.texts.keys();
        let Some(name) = names.find(|name| !self.known.contains(&name.as_str())) else {
            return Ok(());
        };
        self.known.sort_unstable();
        let (workload, known) = (self.workload, self.known.join(", "));
        Err(refusal(name, format!("{workload} has no setting {name:?}; there are: {known}")))
    }
}

/// The error that a setting cannot be.
pub(super) fn refusal(setting: &str, problem: impl Into<String>) -> SettingError {
    SettingError { setting: setting.to_owned(), problem: problem.into() }
}

/// A whole number within a range, else what it must be.
pub(super) fn number(text: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("must be {} to {}", range.start(), range.end()))
}

/// `a`, `a or b`, `a, b or c`.
fn listed(words: &[&str]) -> String {
    match words {
        [.., last] if words.len() > 1 => {
            format!("{} or {last}", words[..words.len() - 1].join(", "))
        }
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_written_is_read_and_what_is_not_has_its_default() {
        let texts = texts(&[("kind", "b"), ("count", "7"), ("size", "32MiB"), ("sync", "off")]);
        let mut reader = Reader::new("it", &texts);
        assert_eq!(reader.one_of("kind", &[("a", 1), ("b", 2)], 1), Ok(2));
        assert_eq!(reader.word("other", &["x", "y"], "y"), Ok("y"));
        assert_eq!(reader.number("count", 1..=9, 1), Ok(7));
        assert_eq!(reader.number("absent", 1..=9, 4), Ok(4));
        assert_eq!(reader.mebibytes("size", 16..=64, 16), Ok(32));
        assert_eq!(reader.switch("sync", true), Ok(false));
        assert!(reader.given("size") && !reader.given("absent"));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_reported_with_its_name_what_is_allowed_and_what_was_found() {
        let texts = texts(&[("kind", "c"), ("count", "10"), ("size", "64"), ("small", "8MiB")]);
        let mut reader = Reader::new("it", &texts);
        let kind = reader.one_of("kind", &[("a", 1), ("b", 2), ("d", 3)], 1).unwrap_err();
        assert_eq!(kind.setting, "kind");
        assert_eq!(kind.problem, "kind must be a, b or d (found \"c\")");
        let count = reader.number("count", 1..=9, 1).unwrap_err();
        assert_eq!(count.problem, "count must be 1 to 9 (found \"10\")");
        for name in ["size", "small"] {
            let problem = reader.mebibytes(name, 16..=64, 32).unwrap_err().problem;
            let wanted = format!("{name} must be 16MiB to 64MiB, such as 32MiB (found ");
            assert!(problem.starts_with(&wanted), "{problem}");
        }
    }

    #[test]
    fn a_name_that_nobody_asked_for_is_refused_with_those_that_there_are() {
        let texts = texts(&[("cuont", "1")]);
        let mut reader = Reader::new("it", &texts);
        reader.number("size", 1..=9, 1).unwrap();
        reader.number("count", 1..=9, 1).unwrap();
        let error = reader.finish().unwrap_err();
        assert_eq!(error.setting, "cuont");
        assert_eq!(error.problem, "it has no setting \"cuont\"; there are: count, size");
    }

    #[test]
    fn words_are_listed_as_people_do() {
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b"]), "a or b");
        assert_eq!(listed(&["a", "b", "c"]), "a, b or c");
    }

    proptest! {
        #[test]
        fn a_number_is_read_exactly_where_it_lies_within_the_range(
            value in any::<u32>(), bounds in any::<(u32, u32)>()
        ) {
            let range = bounds.0.min(bounds.1)..=bounds.0.max(bounds.1);
            let found = number(&value.to_string(), &range);
            prop_assert_eq!(found.ok(), range.contains(&value).then_some(value));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}") {
            let texts = texts(&[("x", &text)]);
            let mut reader = Reader::new("it", &texts);
            let _ = reader.mebibytes("x", 1..=9, 1);
            let _ = reader.number("x", 1..=9, 1);
            prop_assert!(reader.finish().is_ok());
        }
    }
}

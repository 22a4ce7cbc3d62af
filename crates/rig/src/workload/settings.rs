//! Settings from text to types, by serde: which there are and what each may be stands in the types
//! of the workload, and every refusal names the setting, what is possible and what was found.

use super::SettingError;
use crate::environment::Variables;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::RangeInclusive;

/// Reads settings that are all in one type.
///
/// # Errors
/// The first that is malformed, else a name that the type does not have.
pub(super) fn read<T: DeserializeOwned>(
    workload: &str,
    texts: &BTreeMap<String, String>,
) -> Result<T, SettingError> {
    let mut reader = Reader::new(workload, texts);
    let settings = reader.part()?;
    reader.finish()?;
    Ok(settings)
}

/// Reads the settings of one variant into several types. Whoever has read all calls
/// [`Reader::finish`].
pub(super) struct Reader<'a> {
    /// What a refusal of an unknown name begins with.
    pub(super) unknown: String,
    texts: &'a BTreeMap<String, String>,
    /// Names of all types that were read.
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// For the settings of this workload, as written.
    pub(super) fn new(workload: &str, texts: &'a BTreeMap<String, String>) -> Self {
        Self { unknown: format!("{workload} has no setting"), texts, known: Vec::new() }
    }

    /// Those that a structure has; what is absent has its default there.
    ///
    /// # Errors
    /// One of them is malformed.
    pub(super) fn part<T: Deserialize<'a>>(&mut self) -> Result<T, SettingError> {
        let mut at = None;
        let settings = Settings { texts: self.texts, known: &mut self.known, at: &mut at };
        T::deserialize(settings).map_err(|Wrong(problem)| match at {
            Some((name, text)) => refusal(name, format!("{name} {problem} (found {text:?})")),
            None => refusal("", problem),
        })
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
        let (unknown, known) = (self.unknown, self.known.join(", "));
        Err(refusal(name, format!("{unknown} {name:?}; there are: {known}")))
    }
}

/// The error that a setting cannot be.
pub(super) fn refusal(setting: &str, problem: impl Into<String>) -> SettingError {
    SettingError { setting: setting.to_owned(), problem: problem.into() }
}

/// A whole number within a range.
///
/// # Errors
/// It is no number, or outside.
pub(super) fn within<'de, D, const LEAST: u32, const MOST: u32>(from: D) -> Result<u32, D::Error>
where
    D: Deserializer<'de>,
{
    written(from, |text| number(text, &(LEAST..=MOST)))
}

/// A size such as `64MiB`, in MiB, within a range of these; `SUCH` is one that people might mean.
///
/// # Errors
/// It has another unit or none, is no whole number, or outside.
pub(super) fn mebibytes<'de, D, const LEAST: u32, const MOST: u32, const SUCH: u32>(
    from: D,
) -> Result<u32, D::Error>
where
    D: Deserializer<'de>,
{
    written(from, |text| {
        let size = text.strip_suffix("MiB").and_then(|size| number(size, &(LEAST..=MOST)).ok());
        size.ok_or_else(|| format!("must be {LEAST}MiB to {MOST}MiB, such as {SUCH}MiB"))
    })
}

/// Something that is on or off.
///
/// # Errors
/// It is neither.
pub(super) fn switch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    written(from, |text| match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    })
}

/// Anything else: `read` makes a value of the text, or says what it `must be`. Where settings are
/// sent on as JSON, a number or a truth is read as its text.
///
/// # Errors
/// What `read` says.
pub(super) fn written<'de, D: Deserializer<'de>, T>(
    from: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Written<F>(F);

    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Written<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the text of a setting")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<T, E> {
            self.visit_str(if is_on { "on" } else { "off" })
        }
    }

    from.deserialize_any(Written(read))
}

/// One of some words, itself.
///
/// # Errors
/// It is none of them.
pub(super) fn word<'de, D: Deserializer<'de>>(
    from: D,
    words: &[&'static str],
) -> Result<String, D::Error> {
    written(from, |text| match words.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be {}", listed(words))),
    })
}

/// The variables of a system's environment, for workloads that read them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Environment {
    /// What is set there.
    pub(super) environment: Variables,
}

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        written(from, Self::parse)
    }
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

/// What is wrong with a text, to be put behind its name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Wrong(String);

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(problem.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("must be {}", listed(expected)))
    }
}

/// A setting's name and text.
type At<'de> = Option<(&'de str, &'de str)>;

/// The settings as a structure that is read.
struct Settings<'de, 'r> {
    texts: &'de BTreeMap<String, String>,
    known: &'r mut Vec<&'static str>,
    /// Where reading has come to.
    at: &'r mut At<'de>,
}

impl<'de> Deserializer<'de> for Settings<'de, '_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_map(Texts { texts: self.texts.iter(), fields: None, at: self.at })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.known.extend(fields);
        visitor.visit_map(Texts { texts: self.texts.iter(), fields: Some(fields), at: self.at })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Names and texts, one after the other.
struct Texts<'de, 'r> {
    texts: btree_map::Iter<'de, String, String>,
    /// Those that count; all where absent.
    fields: Option<&'static [&'static str]>,
    at: &'r mut At<'de>,
}

impl<'de> MapAccess<'de> for Texts<'de, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        let fields = self.fields;
        let counts = |name: &str| fields.is_none_or(|fields| fields.contains(&name));
        let next = self.texts.find(|(name, _)| counts(name));
        *self.at = next.map(|(name, text)| (name.as_str(), text.as_str()));
        let name = next.map(|(name, _)| seed.deserialize(BorrowedStrDeserializer::new(name)));
        name.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let (_, text) = self.at.ok_or_else(|| Wrong::custom("has no text"))?;
        seed.deserialize(Text(text))
    }
}

/// The text of a setting.
struct Text<'de>(&'de str);

impl<'de> Deserializer<'de> for Text<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        #[default]
        A,
        TwoWords,
        C,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        kind: Kind,
        #[serde(deserialize_with = "within::<_, 1, 9>")]
        count: u32,
        #[serde(deserialize_with = "mebibytes::<_, 16, 64, 32>")]
        size: u32,
        #[serde(deserialize_with = "switch")]
        sync: bool,
        word: Option<String>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Other {
        #[serde(rename = "other-name")]
        other: String,
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_written_is_read_and_what_is_not_has_its_default() {
        let pairs = [("kind", "two-words"), ("size", "32MiB"), ("sync", "on"), ("word", "w")];
        let expected =
            Part { kind: Kind::TwoWords, count: 0, size: 32, sync: true, word: Some("w".into()) };
        assert_eq!(read("it", &texts(&pairs)), Ok(expected));
        assert_eq!(read("it", &texts(&[])), Ok(Part::default()));
    }

    #[test]
    fn what_cannot_be_is_reported_with_its_name_what_is_allowed_and_what_was_found() {
        let problem = |name: &str, text: &str| {
            let error = read::<Part>("it", &texts(&[(name, text)])).unwrap_err();
            assert_eq!(error.setting, name);
            error.problem
        };
        assert_eq!(problem("kind", "b"), "kind must be a, two-words or c (found \"b\")");
        assert_eq!(problem("count", "10"), "count must be 1 to 9 (found \"10\")");
        assert_eq!(problem("sync", "yes"), "sync must be on or off (found \"yes\")");
        for text in ["64", "8MiB"] {
            let wanted = format!("size must be 16MiB to 64MiB, such as 32MiB (found {text:?})");
            assert_eq!(problem("size", text), wanted);
        }
    }

    #[test]
    fn a_name_that_nobody_asked_for_is_refused_with_those_that_there_are() {
        let error = read::<Part>("it", &texts(&[("cuont", "1")])).unwrap_err();
        assert_eq!(error.setting, "cuont");
        let known = "count, kind, size, sync, word";
        assert_eq!(error.problem, format!("it has no setting \"cuont\"; there are: {known}"));
    }

    #[test]
    fn several_types_share_the_settings() {
        let texts = texts(&[("count", "7"), ("other-name", "x")]);
        let mut reader = Reader::new("it", &texts);
        assert_eq!(reader.part::<Part>().unwrap().count, 7);
        assert_eq!(reader.part::<Other>(), Ok(Other { other: "x".into() }));
        assert_eq!(reader.finish(), Ok(()));
        let mut reader = Reader::new("it", &texts);
        reader.part::<Other>().unwrap();
        assert!(reader.finish().unwrap_err().problem.ends_with("there are: other-name"));
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
            for name in ["kind", "count", "size", "sync", "word"] {
                let read = read::<Part>("it", &texts(&[(name, &text)]));
                prop_assert!(read.is_ok() || read.unwrap_err().setting == name);
            }
        }
    }
}

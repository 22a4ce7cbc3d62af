//! Levels as people write them: `4`, or `2C` for twice the cores of the machine.

use crate::workload::MOST_CLIENTS;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A number of clients, fixed or as a multiple of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LevelSpec {
    /// So many clients on every machine.
    Clients(u32),
    /// So many clients for each core.
    PerCore(u32),
}

/// Why a text is not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// It is a number, but not a usable one.
    #[error("levels must be 1 to {MOST_CLIENTS} (found {found})")]
    OutOfRange {
        /// The text.
        found: String,
    },
    /// It is no number.
    #[error(
        "a level is a number such as 4, or a multiple of the cores such as 2C (found {found:?})"
    )]
    NotALevel {
        /// The text.
        found: String,
    },
}

impl LevelSpec {
    /// The number of clients on a machine with `cores` cores: 1 to [`MOST_CLIENTS`]. A multiple
    /// that exceeds the limit is cut off there.
    #[must_use]
    pub fn resolve(self, cores: u32) -> u32 {
        match self {
            Self::Clients(clients) => clients,
            Self::PerCore(factor) => factor.saturating_mul(cores),
        }
        .clamp(1, MOST_CLIENTS)
    }
}

impl fmt::Display for LevelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(clients) => write!(f, "{clients}"),
            Self::PerCore(factor) => write!(f, "{factor}C"),
        }
    }
}

impl FromStr for LevelSpec {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let text = text.trim();
        let digits = text.strip_suffix(['C', 'c']);
        let number = digits.unwrap_or(text);
        let unsigned = number.strip_prefix('-').unwrap_or(number);
        if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(LevelError::NotALevel { found: text.to_owned() });
        }
        match number.parse() {
            Ok(value @ 1..=MOST_CLIENTS) if digits.is_some() => Ok(Self::PerCore(value)),
            Ok(value @ 1..=MOST_CLIENTS) => Ok(Self::Clients(value)),
            _ => Err(LevelError::OutOfRange { found: text.to_owned() }),
        }
    }
}

/// The levels of a comma-separated list such as `1,2,4C`, in the order written.
///
/// # Errors
/// The first item that is not a level, an empty one included.
pub fn parse_list(text: &str) -> Result<Vec<LevelSpec>, LevelError> {
    text.split(',').map(str::parse).collect()
}

/// The numbers of clients that `levels` mean on a machine with `cores` cores: ascending, each
/// once.
#[must_use]
pub fn resolve_all(levels: &[LevelSpec], cores: u32) -> Vec<u32> {
    levels.iter().map(|level| level.resolve(cores)).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn levels_that_coincide_are_kept_once_and_in_order() {
        let levels = parse_list("8C,1, 2 ,1c,2C").unwrap();
        assert_eq!(resolve_all(&levels, 2), [1, 2, 4, 16]);
        assert_eq!(resolve_all(&levels, 1), [1, 2, 8]);
        assert_eq!(resolve_all(&levels, 1000), [1, 2, 1000, 2000, 4096]);
    }

    #[test]
    fn what_is_no_level_is_refused_with_the_reason() {
        let message = |text: &str| parse_list(text).unwrap_err().to_string();
        assert_eq!(message("0"), "levels must be 1 to 4096 (found 0)");
        assert_eq!(message("1,0C"), "levels must be 1 to 4096 (found 0C)");
        assert_eq!(message("-3"), "levels must be 1 to 4096 (found -3)");
        assert_eq!(message("4097"), "levels must be 1 to 4096 (found 4097)");
        assert!(message("99999999999999999999").starts_with("levels must be 1 to 4096"));
        for text in ["", "1,,2", "C", "two", "1.5C", "+-1", "1 2"] {
            assert!(message(text).starts_with("a level is a number"), "{text}: {}", message(text));
        }
    }

    proptest! {
        #[test]
        fn a_level_survives_being_written(value in 1..=MOST_CLIENTS, cores in 1u32..9000) {
            for level in [LevelSpec::Clients(value), LevelSpec::PerCore(value)] {
                prop_assert_eq!(level.to_string().parse::<LevelSpec>().unwrap(), level);
                prop_assert!((1..=MOST_CLIENTS).contains(&level.resolve(cores)));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}") {
            let _ = parse_list(&text);
        }
    }
}

//! Why the parameters of a fitted law should not be used.
//!
//! The JSON has these reasons as one sentence, so they are spelt here, as names are.

use crate::units::Ratio;
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt;

/// One reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// There are too few levels for any fit.
    FewPoints {
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Too few levels differ in what the law hangs on.
    FewLevels {
        /// How many do.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A parameter lies where the fit was not allowed to go on.
    AtBound {
        /// Its name.
        parameter: String,
    },
    /// A parameter may as well be nothing.
    WithinError {
        /// Its name.
        parameter: String,
    },
    /// The law has another shape than the curve.
    OtherShape {
        /// Root mean square of the relative residuals.
        residual: Ratio,
    },
    /// The search did not end.
    NotConverged,
    /// There is a parameter without a finite value.
    NotFinite,
    /// As somebody else says it.
    Said(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewPoints { found, needed } => {
                write!(f, "points for a fit: {found} found, at least {needed} needed; measure more")
            }
            Self::FewLevels { found, needed } => {
                write!(f, "{found} levels with different min(clients, cores), {needed} needed")
            }
            Self::AtBound { parameter } => write!(f, "{parameter} is at its bound"),
            Self::WithinError { parameter } => {
                write!(f, "{parameter} is smaller than its standard error")
            }
            Self::OtherShape { residual } => {
                write!(f, "the curve has another shape: residual {:.0} %", 100.0 * residual.0)
            }
            Self::NotConverged => f.write_str("the fit did not converge"),
            Self::NotFinite => f.write_str("the fit has no finite value"),
            Self::Said(words) => f.write_str(words),
        }
    }
}

impl Unfit {
    /// All reasons in one sentence; none where there is none.
    #[must_use]
    pub fn sentence(reasons: &[Self]) -> Option<String> {
        let said: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

pub(crate) fn serialize<S: Serializer>(reasons: &[Unfit], to: S) -> Result<S::Ok, S::Error> {
    match Unfit::sentence(reasons) {
        Some(sentence) => to.serialize_some(&sentence),
        None => to.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Unfit>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(Unfit::Said).into_iter().collect())
}

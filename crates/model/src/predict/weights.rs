//! Which members are averaged for which shape, and how wide intervals are.

use super::{Member, Shape};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was chosen for one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Members that are averaged.
    pub members: Vec<Member>,
    /// Lower end of the 90 % interval of ln X, in units of 0.1 + ln(n / last n).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Series that this was learnt from.
    pub series: usize,
}

/// All choices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// For shapes of which there were too few series.
    pub any: Option<Choice>,
    /// By shape.
    pub shape: BTreeMap<Shape, Choice>,
}

impl Weights {
    /// Those of `weights.toml`.
    ///
    /// # Errors
    /// Never, as long as the tests pass: the file is part of the program.
    pub fn shipped() -> Result<Self, toml::de::Error> {
        toml::from_str(include_str!("weights.toml"))
    }

    /// The choice for a shape.
    #[must_use]
    pub fn choice(&self, shape: Shape) -> Choice {
        let hold = || Choice { members: vec![Member::Hold], low: -1.0, high: 1.0, series: 0 };
        self.shape.get(&shape).or(self.any.as_ref()).cloned().unwrap_or_else(hold)
    }
}

//! The shape of a curve at its end, which decides what continues it.

use super::known::Known;
use serde::{Deserialize, Serialize};

/// Shape by the last slope of ln X over ln n: 1 is a straight line through the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The level asked for has no more than the min(clients, cores) that were measured.
    AtCores,
    /// Above 0.8.
    Rising,
    /// Above 0.5.
    Bending,
    /// Above 0.2.
    Flattening,
    /// Above 0.
    Level,
    /// Above -0.4.
    Falling,
    /// The rest.
    Collapsing,
}

impl Shape {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::AtCores,
        Self::Rising,
        Self::Bending,
        Self::Flattening,
        Self::Level,
        Self::Falling,
        Self::Collapsing,
    ];

    pub(super) fn of(known: &Known, target: f64) -> Self {
        if target <= f64::from(known.last()) {
            return Self::AtCores;
        }
        match known.slope(0) {
            slope if slope > 0.8 => Self::Rising,
            slope if slope > 0.5 => Self::Bending,
            slope if slope > 0.2 => Self::Flattening,
            slope if slope > 0.0 => Self::Level,
            slope if slope > -0.4 => Self::Falling,
            _ => Self::Collapsing,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::AtCores => "at its cores",
            Self::Rising => "rising",
            Self::Bending => "bending",
            Self::Flattening => "flattening",
            Self::Level => "level",
            Self::Falling => "falling",
            Self::Collapsing => "collapsing",
        }
    }
}

/// What errors of ln X are measured in: they grow with the distance in ln n.
pub(super) fn scale(known: &Known, target: f64) -> f64 {
    0.1 + (target.ln() - known.ln_n[known.len() - 1]).max(0.0)
}

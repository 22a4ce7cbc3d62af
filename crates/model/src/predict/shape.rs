//! The shape of a curve at its end, which decides what continues it.

use super::known::Known;
use serde::{Deserialize, Serialize};

/// Slope above which a curve is nearly straight.
const STRAIGHT: f64 = 0.8;
/// Slope below which it collapses.
const COLLAPSING: f64 = -0.4;
/// Fall of the slope in one doubling that no saturation explains: under Amdahl's law the slope
/// falls by at most log₂ 9/8 = 0.17 in a doubling.
const BREAK: f64 = 0.3;

/// Shape by the last slope of ln X over ln n: 1 is a straight line through the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The level asked for has no more than the min(clients, cores) that were measured.
    AtCores,
    /// Above 0.8 a doubling before, and by more than 0.3 below that now.
    Breaking,
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
    pub const ALL: [Self; 8] = [
        Self::AtCores,
        Self::Breaking,
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
        let (slope, before) = (known.slope(0), known.slope(1));
        if before > STRAIGHT && slope > COLLAPSING && before - slope > BREAK {
            return Self::Breaking;
        }
        match slope {
            slope if slope > STRAIGHT => Self::Rising,
            slope if slope > 0.5 => Self::Bending,
            slope if slope > 0.2 => Self::Flattening,
            slope if slope > 0.0 => Self::Level,
            slope if slope > COLLAPSING => Self::Falling,
            _ => Self::Collapsing,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::AtCores => "at its cores",
            Self::Breaking => "breaking",
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

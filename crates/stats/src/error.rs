//! What can be wrong with the numbers that a caller hands in.

use thiserror::Error;

/// Why no estimate could be made. Each is one line: what, where, what to do.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StatsError {
    /// Not enough of something.
    #[error("{what}: {found} found, at least {needed} needed; measure more")]
    TooFew {
        /// What there was too little of.
        what: &'static str,
        /// How many are needed.
        needed: usize,
        /// How many there were.
        found: usize,
    },
    /// A value whose logarithm is needed was zero, negative or not a number.
    #[error("value {index} is {value}: only positive finite values can be compared as ratios")]
    NotPositive {
        /// Position in the input.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Levels never met in a common block, so no ratio between them is free of drift.
    #[error(
        "level {level} shares no block with level 0, even indirectly; measure both in one block"
    )]
    NotConnected {
        /// The first level that is cut off.
        level: usize,
    },
    /// A level number below the greatest one has no observation.
    #[error("level {level} has no observation; number the levels without gaps")]
    EmptyLevel {
        /// The level.
        level: usize,
    },
    /// Information fractions must grow and end at 1 at the latest.
    #[error("information fraction {index} is {value}: fractions must grow strictly within (0, 1]")]
    BadFraction {
        /// Position.
        index: usize,
        /// The fraction.
        value: f64,
    },
    /// A start value outside its bounds, bounds in the wrong order, or a value that is not finite.
    #[error("parameter {index}: start {start} must be finite and lie within [{low}, {high}]")]
    BadParameter {
        /// Position.
        index: usize,
        /// Start value.
        start: f64,
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// The least-squares iteration failed.
    #[error("least squares failed: {reason}; check the start values and the residuals")]
    FitFailed {
        /// In words.
        reason: &'static str,
    },
}

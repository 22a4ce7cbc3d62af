//! Statistics that Kneepoint needs and that know nothing of threads, locks or operations.
//!
//! `f64` slices go in, values come out. Randomness comes only from [`random::Generator`], which is
//! built from an explicit seed, so the same input and seed give the same bits.
//!
//! | module | idea |
//! |---|---|
//! | [`interval`] | a value with its interval; quantiles; mean and median intervals |
//! | [`two_way`] | levels measured in blocks: log-additive model with block resampling |
//! | [`paired`] | the effect of one variant over another from pairs |
//! | [`sequential`] | nominal levels for looking more than once |
//! | [`verdict`] | better, worse, without effect, or not known yet: the one rule |
//! | [`holm`] | adjusted p-values for several questions |
//! | [`change_point`] | when does a series stop warming up? |
//! | [`two_groups`] | do values fall into two groups with nothing between? |
//! | [`bounded`] | nonlinear least squares with bounds |
//! | [`distribution`] | normal and Student quantiles |
//! | [`random`] | the seeded generator |

pub mod bounded;
pub mod change_point;
pub mod distribution;
mod error;
pub mod holm;
pub mod interval;
mod linear;
pub mod paired;
pub mod random;
pub mod sequential;
pub mod two_groups;
pub mod two_way;
pub mod verdict;

pub use bounded::{BoundedFit, Parameter};
pub use error::StatsError;
pub use interval::Interval;
pub use paired::{Pair, PairedEffect, Scope};
pub use sequential::Spending;
pub use two_way::{Observation, TwoWay};

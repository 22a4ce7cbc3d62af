//! From a measured run to its twin, without hand work.
//!
//! The structure follows from what was seen: threads that serve a client each, or a generator and
//! a server that pass requests; the locks that cost most; CPU of an operation at each level. The
//! CPU is *measured*, level by level. How much of it is done under a lock, in how many visits, and
//! how long an idle core takes to begin are *fitted*: simulated throughput and waiting come as near
//! to the measured as they can, by least squares. What does not fit is said.

mod fit;
mod forecast;
mod observed;
mod text;

pub use fit::{Calibrated, calibrate};
pub use forecast::{Asked, Oracle, Tried, experiments, next};
pub use observed::{Observed, ObservedLevel, ObservedLock};
pub use text::{Parameters, twin_text};

/// Why a run has no twin, or its twin no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// The run does not hold what a twin needs.
    #[error("no twin can be calibrated: {0}")]
    Missing(String),
    /// The twin does not behave as the system did.
    #[error("the calibrated twin misses {0}; it is not used")]
    Misses(String),
    /// Too far from what was measured.
    #[error("{0}")]
    Far(String),
    /// What was asked for cannot be simulated.
    #[error("{0}")]
    Cannot(String),
}

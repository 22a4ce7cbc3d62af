//! From a measured run to its twin, without hand work.
//!
//! The structure follows from what was seen: threads that serve a client each, or a generator and
//! a server that pass requests; the locks that cost most; CPU of an operation at each level. The
//! CPU is *measured*, level by level. How much of it is done under a lock, in how many visits, and
//! how long an idle core takes to begin are *fitted*: simulated throughput and waiting come as near
//! to the measured as they can, by least squares. What does not fit is said.

mod awake;
mod confined;
mod fit;
mod forecast;
mod library;
mod observed;
mod passing;
mod text;
mod waits;

pub use confined::ConfinedThreads;
pub use fit::{Calibrated, calibrate};
pub use forecast::{Asked, Oracle, Tried, experiments, next};
pub use library::Library;
pub use observed::{CountedLock, CpuCause, Observed, ObservedLevel, ObservedLock, Stage};
pub use passing::Passing;
pub use text::{Parameters, twin_text};

use kneepoint_vocab::findings::NoTwin;

/// What went wrong in a twin's text, in a change of it or in its simulation.
fn failed(why: impl std::fmt::Display) -> NoTwin {
    NoTwin::Failed { why: why.to_string() }
}

//! Laws of scaling: what a system could do at most, and what shape its curve has.
//!
//! * [`bounds`]: operational bounds, which need no fit and hold for any system.
//! * [`usl`]: the universal scalability law.
//! * [`amdahl`]: its special case without coherency.
//! * [`decision`]: which treatments of a run are decided; the lab and the analysis share it.
//! * [`cross`]: the cells of a 2×2 of variants, block by block.
//! * [`proven`]: whether a variant was shown to be what it claims to be.
//! * [`calibrate`]: from a measured run to a twin of it, and what that says of changes.
//! * [`predict`]: forecasts from throughput alone, with intervals that were checked.
//! * [`queueing`]: queues with exact results, open and closed.
//! * [`sim`]: the simulator of threads, cores, schedulers and locks; [`twin`]: the file it runs;
//!   [`sweep`]: many levels of it.
//! * [`recorded`]: a simulated run as a run directory holds it.
//! * [`law`]: what both fits share: effective clients, relative residuals, identifiability.
//!
//! A law describes the levels it was fitted to. What the levels cannot determine is said in
//! [`LawFit::unfit`] rather than printed as a number.

pub mod amdahl;
pub mod bounds;
pub mod calibrate;
pub mod cross;
pub mod decision;
pub mod law;
pub mod predict;
pub mod proven;
pub mod queueing;
pub mod recorded;
pub mod sim;
pub mod sweep;
pub mod twin;
pub mod usl;

pub use law::{LawFit, Point};

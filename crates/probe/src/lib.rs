//! What watches the machine: eBPF accounting, perf, `/proc`, unwinding, symbols. It reports
//! facts and judges nothing.
//!
//! A [`Probe`] is loaded once, before the workload starts; each window is [`Probe::open`]ed and
//! [`Probe::close`]d and yields an [`Observation`]. [`CpuMeter`], [`Instruments`], [`calls`] and
//! the [`Census`] need no probe.

pub mod calls;
pub mod capability;
mod census;
mod collector;
pub mod host;
mod instruments;
mod meter;
pub mod proc;
pub mod stack;
mod sys;
mod target;
mod thinning;

pub use capability::{Capability, capabilities};
pub use census::Census;
pub use collector::{Observation, Probe, ProbeError, ProbeOptions};
pub use host::host;
pub use instruments::Instruments;
pub use meter::{CpuMeter, MeterReading};
pub use target::Target;
pub use thinning::{LOOK, Switching};

//! The words of Kneepoint: what is measured, what is found, and in which units.
//!
//! Types only, with serde: no I/O, no clock, no randomness. Everything left of the
//! [`RunRecord`] measures; everything right of it is a pure function of it.
//!
//! * [`units`]: newtypes, so that seconds are never added to cores.
//! * [`names`]: which functions stand between a program and what it waits for.
//! * [`plan`]: what a run is going to do: levels, variants, slices.
//! * [`fact`]: what a probe saw in one window.
//! * [`trial`]: one slice of one variant at one level, and its facts.
//! * [`record`]: a whole run, as it lies in the run directory.
//! * [`environment`]: which variables change what is measured.
//! * [`findings`]: what the analysis concluded, each number with an interval.
//! * [`profile`]: the same of one level of a system that ran already.
//! * [`comparison`]: what several runs say beside each other.
//! * [`recording`]: what the slices held, for tools that read profiles and traces.

mod aside;
mod called;
pub mod comparison;
pub mod environment;
mod estimate;
pub mod fact;
pub mod findings;
mod instruments;
mod key;
mod machine;
pub mod names;
mod next;
pub mod plan;
pub mod profile;
pub mod record;
pub mod recording;
mod relief;
mod stability;
pub mod trial;
mod unfit;
pub mod units;

pub use comparison::Comparison;
pub use fact::{
    Behind, CallCount, CollectorCost, CoreTime, DeviceCounters, EndedBy, Fact, Holders, LockUse,
    Loss, MachineCounters, Pressure, StackId, StackKind, StackWeight, TakenAt, TaskCpu, TaskOwner,
    ThreadRole, ThreadTime, Tier, Wait, WaitKey, WaitReason, Waker,
};
pub use findings::{Estimate, Findings};
pub use key::CauseKey;
pub use machine::MachineName;
pub use names::Names;
pub use plan::{
    Clients, Crossing, Level, LevelOrder, Plan, ProtocolName, VariantId, VariantPlan, VariantRole,
};
pub use profile::Profile;
pub use record::{
    CodeKind, EndFile, FileSum, Frame, Host, Module, Proof, Proven, RunEnd, RunRecord, SCHEMA,
    SourceLine, StackRecord, StoppedBy, VariantStart,
};
pub use recording::Recording;
pub use relief::Relief;
pub use stability::{ClassStability, Failure, FirstFailure, Stability, StabilityFindings};
pub use trial::{
    CountCheck, Disposition, GROSS, Interference, Latency, Phase, Settling, TrialId, TrialRecord,
    Window,
};
pub use units::{Cores, Count, Nanos, PerSecond, Ratio, Seconds, Unit};

//! Whether what runs under overload still works: per slice as it was seen, and as a finding.

use crate::plan::Level;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that broke under the load: a finding about the machine, not an error of Kneepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The class of load, or `kernel` where the kernel itself complained.
    pub class: String,
    /// When it was noticed, from the begin of the load.
    pub after: Nanos,
    /// What was said, one line.
    pub text: String,
}

/// Whether what ran under the load still worked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stability {
    /// Classes of load that ran.
    pub classes: Vec<String>,
    /// Whether the kernel's own log was watched.
    pub kernel_log: bool,
    /// What broke, in order.
    pub failures: Vec<Failure>,
}

/// What still worked under the load, by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StabilityFindings {
    /// Classes of load, in the order they were first seen.
    pub classes: Vec<ClassStability>,
    /// Slices in whose load the kernel's own log was watched.
    pub kernel_watched: u32,
    /// Whether it could be watched in all of them.
    pub kernel_always: bool,
}

/// How one class of load fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassStability {
    /// The class, or `kernel`.
    pub class: String,
    /// Slices that ran it.
    pub runs: u32,
    /// Of these, slices in which it failed.
    pub failed: u32,
    /// The earliest failure.
    pub first: Option<FirstFailure>,
}

/// The failure that came soonest after the begin of its load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstFailure {
    /// At which level.
    pub level: Level,
    /// How long after the begin of that slice's load.
    pub after: Nanos,
    /// What was said.
    pub text: String,
}

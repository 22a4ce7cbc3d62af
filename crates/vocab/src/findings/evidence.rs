//! What makes a cause one, in figures. The words are the report's.

use super::{HolderState, Name};
use crate::plan::Level;
use crate::record::CodeKind;
use crate::units::{Cores, Count, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What makes a cause one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseEvidence {
    /// C at the level.
    pub of: Cores,
    /// What the lost cores do or wait for.
    pub charge: Charge,
    /// The saturated thread that serves the waits, where there is one.
    pub served_by: Option<ServedBy>,
    /// The thread that ends nearly all of the waits, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<WokenBy>,
    /// Devices that the waits are for.
    pub devices: Vec<DeviceStage>,
    /// Threads of the kernel that work for these devices.
    pub workers: Vec<DeviceWorker>,
}

/// What the lost cores do or wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "charge", rename_all = "kebab-case")]
pub enum Charge {
    /// Extra CPU of one function, or of one way into the kernel.
    Function {
        /// CPU that one takes here.
        cpu: Seconds,
        /// CPU that one takes where it takes least.
        least: Seconds,
        /// That level, where there is one.
        least_at: Option<Level>,
        /// Lost cores.
        cores: Cores,
        /// What its instructions do, where that is what it takes more for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<CodeShare>,
    },
    /// Extra CPU that no single function stands for.
    OtherFunctions {
        /// Lost cores.
        cores: Cores,
        /// Whether there were stacks to tell functions apart.
        stacks: bool,
    },
    /// Cores idle for a wait, and CPU that it brings with it.
    Wait {
        /// Its figures.
        wait: WaitEvidence,
    },
    /// Cores idle beside threads that were woken for them.
    Scheduler {
        /// So many.
        idle: Cores,
        /// That the threads may not run on all cores, where so it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confined: Option<Confined>,
    },
    /// The load generator has no more to give.
    FullGenerator {
        /// Cores that it uses.
        own: Cores,
        /// Cores that idle for its next request.
        idle: Cores,
    },
}

/// Threads that may not run on all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confined {
    /// Cores that each of them may run on.
    pub cpus: u32,
    /// Cores of the level.
    pub of: u32,
}

impl Charge {
    /// What the instructions of a function do, where that is what it takes more CPU for.
    #[must_use]
    pub fn code(&self) -> Option<CodeKind> {
        match self {
            Self::Function { code, .. } => code.map(|code| code.kind),
            _ => None,
        }
    }
}

/// What code does in most of the CPU that it takes more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeShare {
    /// What.
    pub kind: CodeKind,
    /// Its share of all CPU that the function takes.
    pub share: Ratio,
}

/// One thread that others wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WokenBy {
    /// Its name.
    pub name: String,
    /// The part of the waits that it ended.
    pub share: Ratio,
    /// Cores that it used.
    pub busy: Cores,
    /// Whether it stops the clients: most operations do without such a wait, and the clients that
    /// wait do so at once, while it or another thread that serves none of them works.
    #[serde(default)]
    pub stops: bool,
}

/// What a wait costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitEvidence {
    /// Cores that idle for it.
    pub idle: Cores,
    /// Cores that work for it, where they are worth a word.
    pub work: Option<WaitWork>,
    /// Waits each second, where these were counted.
    pub rate: Option<PerSecond>,
    /// Their mean length.
    pub mean: Seconds,
    /// What holders were doing most often when a wait began, and in what share.
    pub holder: Option<(HolderState, Ratio)>,
    /// Whether those who wait sleep for a time of their own and look again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls: bool,
    /// Share of the time in which nobody has it, since whoever gets it next has to wake first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convoy: Option<Ratio>,
    /// Share of the waits of threads that were just woken from a condition, and want the lock back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_wake: Option<Ratio>,
    /// Of a condition: the share of the waits for its lock of threads that it has just let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub herd: Option<Ratio>,
    /// Of a lock: the share of the waits in which its holder waited for another lock, which are
    /// charged to that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Ratio>,
    /// Of a lock: the share of the idle cores that waits for other locks bring, whose holders
    /// waited for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_outer: Option<Ratio>,
    /// Of a lock inside a library: cores that the kernel keeps busy for that library, and that
    /// another implementation need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<Cores>,
    /// Objects that are one cause together.
    pub objects: u32,
}

/// Cores that work for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitWork {
    /// How many.
    pub cores: Cores,
    /// Whether they spin; else they pass the lock on.
    pub spins: bool,
}

/// A saturated thread that serves waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedBy {
    /// What the waits are for.
    pub waits_for: Name,
    /// The thread's name.
    pub name: String,
    /// Cores that it kept busy.
    pub busiest: Cores,
}

/// A device that waits are for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStage {
    /// Its name.
    pub name: String,
    /// Whether it passes on no more, however many wait.
    pub full: bool,
    /// Share of time with a request in flight.
    pub busy: Ratio,
    /// Mean number of requests in flight.
    pub in_flight: Count,
}

/// A thread of the kernel that works for a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWorker {
    /// Its name.
    pub name: String,
    /// Cores that it keeps busy.
    pub cores: Cores,
}

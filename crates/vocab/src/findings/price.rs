//! The price of an operation, C / X, and why it rises.
//!
//! Core-seconds of the whole machine for one operation, idle cores included: the core ledger
//! divided by the throughput. Its lines add up to it at every level, so from one level to another
//! it rises by the sum of what its lines rise by.

use super::{CauseKind, Estimate, LineKind, Name};
use crate::plan::Level;
use crate::units::{Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an operation costs at each level, and what makes it dearer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// Levels on the cores of the best one, ascending.
    pub levels: Vec<LevelPrice>,
    /// The level of the greatest throughput: an operation costs least there.
    pub best: Level,
    /// Price at the last level over that at the best one.
    pub last_over_best: Estimate<Ratio>,
    /// What makes the throughput fall; absent where it does not fall significantly.
    pub fall: Option<Fall>,
}

/// The price at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelPrice {
    /// The level.
    pub level: Level,
    /// C / X.
    pub price: Estimate<Seconds>,
    /// Lines of the core ledger over X, the same ones at every level; they add up to the price.
    pub parts: Vec<PricePart>,
    /// What keeps the level below its bound, greatest first, by the rules of causes; none where it
    /// gives what its bound allows.
    pub limits: Vec<Limit>,
}

/// One part of a price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PricePart {
    /// Which.
    pub line: PriceLine,
    /// Core-seconds for one operation.
    pub price: Estimate<Seconds>,
}

/// What a part of the price is paid for. Names are those of causes and of ledger lines: they hold
/// for all levels, and for another run of the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum PriceLine {
    /// D_ref: the CPU of an operation where it takes least.
    Useful,
    /// CPU above D_ref in one function, or in one way into the kernel.
    Function {
        /// Its name.
        name: Name,
        /// Whether it is work of the kernel.
        kernel: bool,
    },
    /// CPU above D_ref in all other functions.
    OtherFunctions,
    /// A lock, a device, or whatever else is waited for: cores that idle for it, and the CPU
    /// above D_ref that its waits bring with them.
    Wait {
        /// Its kind.
        kind: CauseKind,
        /// Its name.
        name: Name,
    },
    /// The same of all other waits.
    OtherWaits,
    /// Cores that idle beside runnable threads.
    Scheduler,
    /// The load generator's CPU on the system's cores.
    Generator,
    /// Cores that idle because no request is there: the load generator's turn.
    NoRequest,
    /// Threads of the kernel.
    KernelThreads,
    /// Taken by the hypervisor.
    Steal,
    /// Interrupts.
    Interrupts,
    /// Other processes.
    Others,
    /// Kneepoint itself.
    Kneepoint,
    /// Cores that so few clients do not ask for.
    Unused,
    /// What the ledger could not place.
    Unaccounted,
}

impl PriceLine {
    /// The kind of line that it is in the core ledger.
    #[must_use]
    pub const fn kind(&self) -> LineKind {
        match self {
            Self::Useful => LineKind::Useful,
            Self::Function { kernel: false, .. } | Self::OtherFunctions => LineKind::ExtraCpu,
            Self::Function { kernel: true, .. } | Self::KernelThreads => LineKind::Kernel,
            Self::Wait { kind, .. } => match kind {
                CauseKind::Lock => LineKind::IdleLock,
                CauseKind::KernelLock => LineKind::IdleKernelLock,
                CauseKind::Device => LineKind::IdleDevice,
                CauseKind::Thread => LineKind::IdleThread,
                _ => LineKind::IdleOther,
            },
            Self::OtherWaits => LineKind::IdleOther,
            Self::Scheduler => LineKind::IdleScheduler,
            Self::Generator => LineKind::Generator,
            Self::NoRequest | Self::Unused => LineKind::IdleNoWork,
            Self::Steal | Self::Interrupts => LineKind::Interrupt,
            Self::Others | Self::Kneepoint => LineKind::Others,
            Self::Unaccounted => LineKind::Unaccounted,
        }
    }
}

/// A cause that keeps a level below its bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// What it is.
    pub line: PriceLine,
    /// Lost core-seconds for one operation.
    pub price: Estimate<Seconds>,
    /// Its part of all that is lost at the level.
    pub share: Estimate<Ratio>,
}

/// Why throughput falls: what makes an operation dearer than at the best level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fall {
    /// The best level.
    pub from: Level,
    /// The level of the least throughput behind it.
    pub to: Level,
    /// What an operation costs more there.
    pub rise: Estimate<Seconds>,
    /// The parts of the rise: what rises most first, what falls most last. They add up to it.
    pub steps: Vec<Step>,
}

/// What one part of the price contributes to its rise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Which part.
    pub line: PriceLine,
    /// The cause it is, by `id` in the findings' `causes`, where it is one of these.
    pub cause: Option<String>,
    /// Price at the worse level less that at the best one.
    pub rise: Estimate<Seconds>,
    /// The part of the rise that is idle cores; the rest is CPU.
    pub idle: Seconds,
    /// Its part of all that rises; none for what does not.
    pub share: Option<Estimate<Ratio>>,
}

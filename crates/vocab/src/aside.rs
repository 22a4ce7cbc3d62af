//! What a run tells besides what is lost: how idle time came to its lines, bounds that are reached,
//! gains above the number of clients, levels that did not come to rest, and code without names.

use crate::called::Name;
use crate::estimate::Estimate;
use crate::plan::Level;
use crate::units::{Cores, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the idle cores of a level came to their lines. The four add up to all that idled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleAccount {
    /// Charged to the wait of the thread that ended the idle stretch, or to the scheduler.
    pub charged: Estimate<Cores>,
    /// Idle beside threads that had been woken, given to what they had waited for in proportion to
    /// the number of wake-ups.
    pub handed_over: Estimate<Cores>,
    /// Charged to nobody, and shared out over what was blocked or runnable meanwhile: the weakest
    /// part.
    pub spread: Estimate<Cores>,
    /// The part of that which went elsewhere than what was charged; all of it where hardly anything
    /// was charged.
    pub doubtful: Estimate<Cores>,
    /// Cores that so few clients did not ask for.
    pub unused: Estimate<Cores>,
}

/// What the holder of a lock was doing.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum HolderState {
    /// On a core.
    #[serde(rename = "running")]
    Running,
    /// Willing to run, not on a core.
    #[serde(rename = "waiting for a core")]
    Runnable,
    /// Itself blocked.
    #[serde(rename = "blocked")]
    Blocked,
    /// The lock word held no live thread of the system.
    #[serde(rename = "not known")]
    Unknown,
}

impl HolderState {
    /// Its words, as they stand in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "waiting for a core",
            Self::Blocked => "blocked",
            Self::Unknown => "not known",
        }
    }
}

/// What a throughput cannot exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// C / D: all cores work, at the least CPU for an operation.
    Cores,
    /// N / R(1): each client goes round as fast as one that nobody disturbs.
    Clients,
}

/// A level that gives what its bound allows: there is nothing to explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtBound {
    /// The level.
    pub level: Level,
    /// Which bound it is at.
    pub bound: Bound,
    /// Cores that the system is busy on, with a load generator that shares them.
    pub busy: Estimate<Cores>,
    /// C.
    pub of: Cores,
    /// Functions and ways into the kernel that the CPU goes to, greatest first.
    pub functions: Vec<BusyFunction>,
    /// What cores idle for most that a client waits for, where that is much: one client alone waits
    /// for it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<IdleFor>,
}

/// Cores that idle for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleFor {
    /// What is waited for.
    pub name: Name,
    /// How many.
    pub idle: Cores,
}

/// A function with its part of the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusyFunction {
    /// Its name; `kernel: read` for a way into the kernel.
    pub name: Name,
    /// Its part of the system's CPU, by stacks.
    pub share: Ratio,
}

/// More clients gain more than their number says: the fewer ones are slowed down by something that
/// the more ones do not meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Superlinear {
    /// The level with fewer clients.
    pub from: Level,
    /// The next level, on the same cores.
    pub to: Level,
    /// Throughput at `to` over that at `from`; its lower end lies above `clients`. The interval
    /// allows for all steps of the curve together.
    pub ratio: Estimate<Ratio>,
    /// Clients at `to` over those at `from`.
    pub clients: Ratio,
    /// What the ledgers of both levels show it to be.
    pub reason: GainReason,
    /// What they say; absent where one of them has no ledger.
    pub evidence: Option<GainEvidence>,
}

/// Why fewer clients are slower than their number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GainReason {
    /// They leave cores asleep, which have to be woken for most operations.
    SleepingCores,
    /// An operation takes more CPU with fewer clients.
    DearerOperations,
    /// The ledgers do not tell.
    Open,
}

/// What the ledgers of both levels say of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainEvidence {
    /// Idle cores at the level with fewer clients.
    pub idle: Cores,
    /// Of an operation there: idle core-time while a thread had been woken already.
    pub waking: Seconds,
    /// The same with more clients.
    pub waking_with_more: Seconds,
    /// CPU of an operation with fewer clients.
    pub cpu: Seconds,
    /// The same with more clients.
    pub cpu_with_more: Seconds,
}

/// A level whose throughput was not of one piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unsteady {
    /// The level.
    pub level: Level,
    /// Slices of the baseline whose clients did not come to rest, or changed their pace within the
    /// window.
    pub slices: u32,
    /// Slices of the baseline that tell their course.
    pub of: u32,
    /// Two throughputs that its slices fall into; absent where they are one.
    pub regimes: Option<Regimes>,
}

/// Two throughputs that the slices of one level fall into, such as threads that found different
/// cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Regimes {
    /// Geometric mean of the slower slices.
    pub low: PerSecond,
    /// That of the faster ones.
    pub high: PerSecond,
    /// How many are slower.
    pub low_slices: u32,
    /// How many are faster.
    pub high_slices: u32,
}

/// A module of which stacks show addresses only: its symbols are not on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nameless {
    /// Its base name.
    pub module: String,
    /// The builds of it that were mapped, by the id that their linker noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build_ids: Vec<String>,
    /// Part of the CPU whose innermost function has no name, at the level of the causes.
    pub on_cpu: Ratio,
    /// Part of the blocked time whose innermost function outside the C library has none.
    pub waits: Ratio,
}

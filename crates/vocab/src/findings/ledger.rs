//! The two ledgers of a level: where its cores went, and what an operation spends its life on.

use super::{CoreName, Estimate, IdleAccount, ThreadName};
use crate::plan::Level;
use crate::units::{Cores, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The two ledgers of one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelLedger {
    /// The level.
    pub level: Level,
    /// Where the cores went; the lines add up to C.
    pub core: CoreLedger,
    /// What an operation waits for; the lines add up to N / X.
    pub thread: ThreadLedger,
    /// Part of the CPU of the system's threads in which they give up their cores of their own
    /// accord (`sched_yield`), where it is not little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yielding: Option<Ratio>,
}

/// What a ledger line stands for; one accent colour each.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// X · D_ref.
    Useful,
    /// Extra user CPU per operation by function.
    ExtraCpu,
    /// Extra kernel CPU per operation.
    Kernel,
    /// The load generator.
    Generator,
    /// irq, steal.
    Interrupt,
    /// Other processes, Kneepoint included.
    Others,
    /// Idle for a user lock.
    IdleLock,
    /// Idle for a kernel lock.
    IdleKernelLock,
    /// Idle for a device or file.
    IdleDevice,
    /// Idle for a pipe, socket, poll or another process.
    IdleThread,
    /// Idle for a timer, a fault or anything else.
    IdleOther,
    /// Idle while a thread was runnable.
    IdleScheduler,
    /// Idle for want of clients: unused cores.
    IdleNoWork,
    /// On a core (thread ledger).
    Running,
    /// Waiting for a core (thread ledger).
    Runnable,
    /// What the ledger could not place.
    Unaccounted,
}

impl LineKind {
    /// Whether cores idle in such a line.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        matches!(
            self,
            Self::IdleLock
                | Self::IdleKernelLock
                | Self::IdleDevice
                | Self::IdleThread
                | Self::IdleOther
                | Self::IdleScheduler
                | Self::IdleNoWork
        )
    }
}

/// One line of the core ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreLine {
    /// Its kind.
    pub kind: LineKind,
    /// What it counts.
    pub name: CoreName,
    /// Cores.
    pub cores: Estimate<Cores>,
    /// The cause it belongs to, by [`super::Cause::id`].
    pub cause: Option<String>,
}

/// Where C cores went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreLedger {
    /// Lines; they add up to `total` with the unaccounted line.
    pub lines: Vec<CoreLine>,
    /// C.
    pub total: Cores,
    /// |unaccounted| / C.
    pub unaccounted: Ratio,
    /// How what idled came to its lines.
    #[serde(default)]
    pub idle: Option<IdleAccount>,
    /// CPU seconds of the system for one operation, D.
    pub demand: Estimate<Seconds>,
    /// The least D over the levels, D_ref.
    pub demand_reference: Seconds,
}

/// One line of the thread ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadLine {
    /// Its kind.
    pub kind: LineKind,
    /// What it counts.
    pub name: ThreadName,
    /// Thread-seconds for one operation.
    pub per_operation: Estimate<Seconds>,
    /// The cause it belongs to.
    pub cause: Option<String>,
}

/// What an operation spends its life on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadLedger {
    /// Lines; they add up to `per_operation` with the unaccounted line.
    pub lines: Vec<ThreadLine>,
    /// Client threads × window / operations = N / X.
    pub per_operation: Seconds,
    /// |unaccounted| / (threads × window).
    pub unaccounted: Ratio,
    /// Threads that wait for work and are part of no operation.
    pub idle_threads: u32,
}

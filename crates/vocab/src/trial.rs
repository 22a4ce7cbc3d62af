//! One slice: one variant at one level for one window, with all that was seen in it.

use crate::fact::Fact;
use crate::machine::MachineName;
use crate::plan::{Level, VariantId};
use crate::stability::Stability;
use crate::units::{Nanos, PerSecond, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which part of the design a trial belongs to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the sweep: is the system steady yet?
    WarmUp,
    /// Locks are counted, which costs throughput: the slice says nothing of that.
    Census,
    /// The baseline over all levels.
    Sweep,
    /// All variants at the focus level.
    Effects,
}

impl Phase {
    /// Whether its slices measure throughput.
    #[must_use]
    pub const fn measures(self) -> bool {
        matches!(self, Self::Sweep | Self::Effects)
    }
}

/// Which trial.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct TrialId {
    /// Part of the design.
    pub phase: Phase,
    /// Block within the phase, from 0.
    pub block: u32,
    /// Position within the block, from 0; a repeated slice keeps its position.
    pub position: u32,
    /// Repetition because of interference, from 0.
    pub attempt: u32,
    /// Variant.
    #[serde(rename = "arm")]
    pub variant: VariantId,
    /// Start of that variant: processes started so far for it, from 0.
    pub start: u32,
    /// Level.
    pub level: Level,
}

/// The measured part of a trial, on the run's own clock (zero at the run's begin).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// When it opened.
    pub begin: Nanos,
    /// How long it was.
    pub length: Nanos,
}

/// Response time of the operations of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 95th percentile; not every generator reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Nanos>,
    /// 99th percentile.
    pub p99: Nanos,
    /// Longest; not every generator reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Nanos>,
}

/// How the clients of a slice came to rest before its window, and whether they stayed so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settling {
    /// From the start of the clients to the begin of the window.
    pub after: Nanos,
    /// Whether the series was steady from the begin of the window to its end.
    pub steady: bool,
    /// Length of one step of `series`.
    pub step: Nanos,
    /// Throughput in equal steps from the start of the clients to the end of the window.
    pub series: Vec<PerSecond>,
}

/// What else used the machine in the window, as shares of its capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// CPU of processes that are neither the system under test nor Kneepoint.
    #[serde(rename = "foreign")]
    pub others: Ratio,
    /// Steal by the hypervisor.
    pub steal: Ratio,
}

/// The same operations as the load generator and as the server itself counted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountCheck {
    /// The server's counter, e.g. `Questions` or `xact_commit`.
    pub counter: String,
    /// What the generator says it asked for, in the counter's own unit.
    pub generator: u64,
    /// By how much the counter rose.
    pub server: u64,
}

impl CountCheck {
    /// |server ÷ generator − 1|; 1 where only one of them counted anything.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "operation counts are far below 2^53")]
    pub fn disagreement(&self) -> Ratio {
        match (self.generator, self.server) {
            (0, 0) => Ratio(0.0),
            (0, _) => Ratio(1.0),
            (asked, served) => Ratio((served as f64 / asked as f64 - 1.0).abs()),
        }
    }
}

/// Whether a trial counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Disposition {
    /// It counts.
    Kept,
    /// Something else disturbed it; it was put back to the end of its block.
    #[serde(rename = "polluted")]
    Disturbed,
    /// Disturbed, and no repetition was left: it counts for what it is worth, and the report says
    /// so.
    #[serde(rename = "kept-polluted")]
    KeptDisturbed,
    /// Grossly disturbed, and no repetition was left: it does not count.
    Spoiled {
        /// What happened.
        reason: String,
    },
    /// The system failed; there is no number.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// One line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Which trial.
    pub id: TrialId,
    /// Its window.
    pub window: Window,
    /// Operations that ended in `counted_over`.
    pub operations: u64,
    /// The wall time over which they were counted, by the generator's own clock.
    pub counted_over: Nanos,
    /// Operations of each client, in client order.
    pub per_client: Vec<u64>,
    /// Response times.
    pub latency: Option<Latency>,
    /// The generator's count against the server's own, where the server has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<CountCheck>,
    /// What broke, where the workload looks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stability: Option<Stability>,
    /// How the clients settled, where the workload can be asked for its count at any instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// What else ran.
    #[serde(rename = "pollution")]
    pub interference: Interference,
    /// Whether it counts.
    pub disposition: Disposition,
    /// The machine that the facts are of.
    #[serde(default, skip_serializing_if = "MachineName::is_local")]
    pub machine: MachineName,
    /// What the probe saw; empty where the collector was detached.
    pub facts: Vec<Fact>,
}

impl TrialRecord {
    /// Throughput X of the window; zero for a failed trial.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "operation counts are far below 2^53")]
    pub fn throughput(&self) -> PerSecond {
        let seconds = self.counted_over.seconds().0;
        PerSecond(if seconds > 0.0 { self.operations as f64 / seconds } else { 0.0 })
    }

    /// Whether it enters the analysis of throughput, for which something must have been done.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.is_kept() && self.operations > 0
    }

    /// Whether it was measured well, and not one operation ended in it: everything starved or
    /// stood still. It enters no estimate, whose logarithms know no zero, but is a finding.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.is_kept() && self.operations == 0 && self.counted_over > Nanos(0)
    }

    fn is_kept(&self) -> bool {
        matches!(self.disposition, Disposition::Kept | Disposition::KeptDisturbed)
    }

    /// What it is worth beside an undisturbed slice, above 0 and at most 1: inversely proportional
    /// to its variance. What others take shifts throughput by about as much as they take, and a
    /// slice scatters by some 5 % without them.
    #[must_use]
    pub fn weight(&self) -> f64 {
        match self.disposition {
            Disposition::KeptDisturbed => {
                1.0 / (1.0 + (self.interference.share().0.max(0.0) / SCATTER).powi(2))
            }
            _ => 1.0,
        }
    }
}

/// Where others took more than this share of capacity, a slice says nothing beside one in which
/// they took less.
pub const GROSS: Ratio = Ratio(0.2);
/// How much an undisturbed slice scatters, roughly.
const SCATTER: f64 = 0.05;

impl Interference {
    /// All that others took.
    #[must_use]
    pub fn share(&self) -> Ratio {
        Ratio(self.others.0 + self.steal.0)
    }
}

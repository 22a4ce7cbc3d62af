//! What the analysis concluded: the only thing that a report reads.

mod calls;
mod caveat;
mod chain;
mod conclusion;
mod cross;
mod curve;
mod difference;
mod evidence;
mod ledger;
mod line;
mod locks;
pub mod price;
mod stall;

use crate::fact::Tier;
use crate::plan::{Level, ProtocolName, VariantId, VariantRole};
use crate::record::{Host, Proof, Proven, SourceLine, StoppedBy};
use crate::stability::StabilityFindings;
use crate::trial::Latency;
use crate::units::{Cores, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::aside::{
    AtBound, Bound, BusyFunction, GainEvidence, GainReason, HolderState, IdleAccount, IdleFor,
    Nameless, Regimes, Superlinear, Unsteady,
};
pub use crate::called::{LockWork, Name, Place};
pub use crate::estimate::Estimate;
pub use crate::instruments::{
    Bottleneck, Counts, DeviceLine, Generator, LevelInstruments, PressureLine, TaskLine, Vmstat,
};
pub use crate::key::{CauseKey, CauseKind};
pub use crate::next::{Altered, Next, NoTwin, Residual, TwinForecast, Undetermined, WhatIf};
pub use crate::unfit::Unfit;
pub use calls::{CallRow, CallTable};
pub use caveat::{Caveat, CaveatReason, Disturbance, Severity, Unseen};
pub use chain::{ChainLink, ChainNode};
pub use conclusion::Conclusion;
pub use cross::{Cross, CrossFigures, Interaction};
pub use curve::Curve;
pub use difference::{DifferenceNode, Side, StackDifference};
pub use evidence::{
    CauseEvidence, Charge, CodeShare, Confined, DeviceStage, DeviceWorker, ServedBy, WaitEvidence,
    WaitWork, WokenBy,
};
pub use ledger::{CoreLedger, CoreLine, LevelLedger, LineKind, ThreadLedger, ThreadLine};
pub use line::{CoreName, ThreadName, ThreadsName};
pub use locks::{LockRow, LockTable};
use price::Price;
pub use stall::{Stall, StalledThreads};

/// Everything that a report can say about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// Version of this structure, for `--json` readers.
    pub schema: u32,
    /// The recipe's name.
    pub recipe: String,
    /// The recipe's one line.
    pub summary: String,
    /// What one operation is, in the plural.
    pub operation: String,
    /// The story, clause by clause, in the order in which the headline says it.
    pub conclusions: Vec<Conclusion>,
    /// Whether the verdicts can be relied on; `caveats` says why not. Exit code 4 if false.
    pub trustworthy: bool,
    /// The machine.
    pub host: Host,
    /// How it was measured.
    pub protocol: Protocol,
    /// The A/A control.
    pub noise: Noise,
    /// Throughput against level.
    pub curve: Curve,
    /// The same for every number of cores, ascending; empty where only one was measured.
    #[serde(default)]
    pub by_cores: Vec<CoresCurve>,
    /// Curves of the treatments that the sweep measured beside the baseline, in the recipe's order.
    #[serde(default)]
    pub treated: Vec<TreatedCurve>,
    /// Where cores and threads went, one a level.
    pub ledgers: Vec<LevelLedger>,
    /// The level at which causes are ranked: where the curve falls short of its bound most.
    pub focus: Level,
    /// The level at which treatments were tried, where there were some and it is another one.
    #[serde(default)]
    pub effects_at: Option<Level>,
    /// What is lost at the focus level; absent where no facts were collected.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// That the focus level gives what its bound allows, where it does.
    #[serde(default)]
    pub at_bound: Option<AtBound>,
    /// How locks are used and waited for; absent where none were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockTable>,
    /// System calls of an operation; absent where none were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallTable>,
    /// Causes at the focus level, greatest first, those that may be nothing last. None where
    /// nothing worth it is lost.
    pub causes: Vec<Cause>,
    /// Who waits for whom at the focus level; absent where no single wait was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainNode>,
    /// What an operation costs at each level, and why throughput falls where it does; absent where
    /// no facts were collected.
    #[serde(default)]
    pub price: Option<Price>,
    /// On-CPU flame graph at the focus level.
    pub on_cpu: Option<FlameNode>,
    /// Stacks of the best level beside the last, and of variants beside what they are compared
    /// with, where both sides have some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<StackDifference>,
    /// Treatments, in the recipe's order.
    pub effects: Vec<Effect>,
    /// Pairs of treatments that were measured together as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crosses: Vec<Cross>,
    /// The load generator; absent where the clients live in the system under test.
    #[serde(default)]
    pub generator: Option<Generator>,
    /// Counts of the generator against those of the server; absent where there are none.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// What broke under the load; absent where the workload does not look for that.
    #[serde(default)]
    pub stability: Option<StabilityFindings>,
    /// What `vmstat`, `top -H` and `iostat` would have shown, one a level.
    #[serde(default)]
    pub instruments: Vec<LevelInstruments>,
    /// What collected, what it missed and what it cost.
    pub collector: Collector,
    /// Everything that limits what was said.
    pub caveats: Vec<Caveat>,
    /// Steps of the curve that gain more than the number of clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superlinear: Vec<Superlinear>,
    /// Levels whose throughput was not of one piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsteady: Vec<Unsteady>,
    /// Modules without symbols, those with most of the CPU first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameless: Vec<Nameless>,
    /// Where slices passed without an operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// What next, by a twin of the run; absent where nobody asked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// The lost cores of a level, all causes together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// The sum of what single causes lose.
    pub cores: Estimate<Cores>,
    /// C.
    pub of: Cores,
    /// Below this part of C there is nothing to explain.
    pub least: Ratio,
    /// Whether it was explained: enough is lost, and the level falls short of its bound.
    pub explained: bool,
}

/// The scaling curve on so many cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoresCurve {
    /// Cores of the system under test.
    pub cores: u32,
    /// Its curve.
    pub curve: Curve,
    /// Throughput at its peak over that at the peak of the fewest cores.
    pub over_fewest: Estimate<Ratio>,
}

/// The scaling curve of a treatment that was measured at every level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TreatedCurve {
    /// The variant.
    pub variant: VariantId,
    /// One line for people.
    pub label: String,
    /// Its curve on the focus's cores.
    pub curve: Curve,
    /// The same for every number of cores, ascending; empty where only one was measured.
    pub by_cores: Vec<CoresCurve>,
    /// Throughput at its peak over its own at the fewest clients, on the focus's cores.
    pub speedup: Estimate<Ratio>,
    /// The same of the baseline.
    pub baseline_speedup: Estimate<Ratio>,
    /// `speedup` over `baseline_speedup`: it scales further where the interval lies above 1.
    pub further: Estimate<Ratio>,
    /// Throughput at its peak over that at the baseline's.
    pub over_baseline: Estimate<Ratio>,
}

/// How the run was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// Which protocol.
    #[serde(default)]
    pub name: ProtocolName,
    /// Half-width of the interval of the throughput at the peak, as a share of it; absent where
    /// there is no interval.
    #[serde(default)]
    pub precision: Option<Ratio>,
    /// Wall time of the run.
    pub elapsed: Seconds,
    /// Slices that count.
    pub slices: u32,
    /// Slices put back to the end of their block because something disturbed them.
    pub repeated: u32,
    /// Slices kept although disturbed.
    pub kept_disturbed: u32,
    /// Slices that failed.
    pub failed: u32,
    /// Window of a slice.
    pub slice: Seconds,
    /// Sweep blocks done.
    pub sweep_blocks: u32,
    /// Effect blocks done.
    pub effect_blocks: u32,
    /// Starts of each variant.
    pub starts: u32,
    /// The seed.
    pub seed: u64,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
    /// Whether warm-up had ended by the change-point test.
    pub steady: bool,
    /// Mean CPU of other processes over slices that count, share of capacity.
    pub others: Ratio,
    /// Mean steal over slices that count, share of capacity.
    pub steal: Ratio,
}

/// The A/A control: the baseline against another start of itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Ratio of the two; its interval should hold 1, or intervals of this run say too much.
    pub ratio: Estimate<Ratio>,
    /// The noise floor: the largest deviation from 1 inside that interval.
    pub floor: Ratio,
    /// Pairs.
    pub pairs: u32,
}

/// One level of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// The level.
    pub level: Level,
    /// Throughput X.
    pub throughput: Estimate<PerSecond>,
    /// Operational bound min(N / R(1), C / D_ref).
    pub ideal: PerSecond,
    /// Response times, median over slices.
    pub latency: Option<Latency>,
    /// Switches off a core each second, where the collector counts them.
    pub switches: Option<PerSecond>,
    /// Slices that count.
    pub slices: u32,
}

/// Where adding clients stops paying.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The smallest level whose X is at least 95 % of the peak's.
    pub level: Level,
    /// Smallest and largest level among those holding 95 % of the resamples.
    pub low: Level,
    /// See `low`.
    pub high: Level,
    /// Still rising significantly at the last level: the knee lies beyond it.
    pub beyond_last: bool,
}

/// The curve after its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Still rising at the last level.
    Rising,
    /// Level after the peak, as far as the intervals tell.
    Flat,
    /// Falls after the peak, significantly.
    Retrograde,
    /// Falls below 0.7 of the peak.
    Collapse,
}

/// A law fitted to the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// `USL` or `Amdahl`.
    pub law: String,
    /// Parameters with standard errors.
    pub parameters: Vec<FitParameter>,
    /// Fitted throughput at each level of the curve.
    pub fitted: Vec<PerSecond>,
    /// Root mean square of the relative residuals.
    pub residual: Ratio,
    /// Why the parameters should not be used, where that is so.
    #[serde(rename = "not_identifiable", with = "crate::unfit")]
    #[schemars(with = "Option<String>")]
    pub unfit: Vec<Unfit>,
}

/// One parameter of a fitted law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitParameter {
    /// Its name in words: `contention`, `coherency`, `throughput of one client`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its standard error, where it could be had.
    pub error: Option<f64>,
}

/// A line of the core ledger, charged with lost throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable within the report, e.g. `lock-1`.
    pub id: String,
    /// The same in every run.
    pub key: CauseKey,
    /// Its kind.
    pub kind: CauseKind,
    /// Its name, e.g. `mutex in sqlite3BtreeEnter`.
    pub name: Name,
    /// Where the source of the function lies that names it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
    /// Path that names it, innermost first, e.g. `sqlite3BtreeEnter`, `sqlite3VdbeEnter`.
    pub path: Vec<String>,
    /// Its part of the lost cores.
    pub share: Estimate<Ratio>,
    /// Cores lost to it.
    pub lost: Estimate<Cores>,
    /// For waits: number each second.
    pub waits: Option<Estimate<PerSecond>>,
    /// For waits: mean length.
    pub wait_mean: Option<Seconds>,
    /// For waits: longest seen.
    pub wait_longest: Option<Seconds>,
    /// For waits: blocked seconds for one operation.
    pub wait_per_operation: Option<Estimate<Seconds>>,
    /// For locks: what holders were doing when a wait began; shares that add up to 1.
    pub holders: Vec<(HolderState, Ratio)>,
    /// Stacks at the start of the waits, or on a core, weighted by time.
    pub stacks: Option<FlameNode>,
    /// Stacks of those who ended the waits.
    pub waker_stacks: Option<FlameNode>,
    /// Share of the weight of `stacks` whose stack reached the outermost frame.
    pub stacks_complete: Option<Ratio>,
    /// A treatment that was better, and is over the baseline.
    pub cured_by: Option<VariantId>,
    /// What makes it a cause.
    pub evidence: CauseEvidence,
    /// Another cause that this one follows from, by id.
    pub follows_from: Option<String>,
}

/// A node of a flame graph: outermost frame at the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlameNode {
    /// Function, or `all`.
    pub name: String,
    /// Whether it is a function of the kernel.
    #[serde(default)]
    pub kernel: bool,
    /// Seconds in it and below, over all slices of the level.
    pub weight: Seconds,
    /// Children, heaviest first.
    pub children: Vec<FlameNode>,
}

/// Verdict on a treatment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the other variant.
    Better,
    /// Worse than the other variant.
    Worse,
    /// No effect of `smallest` or more, which is below the smallest that matters.
    NoEffect {
        /// The smallest effect that the interval excludes.
        smallest: Ratio,
    },
    /// The interval allows both.
    Undecided {
        /// Seconds of further measuring that would decide, estimated.
        needs: Seconds,
    },
    /// Not proven active: no ratio is shown.
    Invalid,
}

/// A treatment against the variant it adds to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The variant.
    pub variant: VariantId,
    /// Its role.
    pub role: VariantRole,
    /// Its words.
    pub label: String,
    /// The variant it is compared with.
    pub over: VariantId,
    /// What it changes.
    pub changes: Vec<String>,
    /// Paired ratio of throughputs; absent where the variant was not proven active.
    pub ratio: Option<Estimate<Ratio>>,
    /// Its own throughput.
    pub throughput: Option<Estimate<PerSecond>>,
    /// Pairs.
    pub pairs: u32,
    /// Starts of the variant.
    pub starts: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// p-value after Holm's correction over the treatments.
    pub p_holm: Option<f64>,
    /// Proofs that it was active.
    pub proofs: Vec<Proof>,
    /// Whether they show that its changes were.
    #[serde(default)]
    pub proven: Proven,
    /// Ratios of single pairs, for the picture.
    pub pair_ratios: Vec<Ratio>,
}

/// What collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Collector {
    /// The tier that spoke; absent where there are no facts.
    pub tier: Option<Tier>,
    /// What that tier cannot see.
    pub cannot_see: Vec<Unseen>,
    /// Run time of the eBPF programs over the machine's capacity, at the focus level.
    pub programs: Option<Estimate<Ratio>>,
    /// Kneepoint's own CPU over the machine's capacity, at the focus level.
    pub reader: Option<Ratio>,
    /// Throughput with the collector over throughput without, as counted.
    pub on_off: Option<Estimate<Ratio>>,
    /// Share of the counted time that the collector's windows cover, at the focus level.
    #[serde(default)]
    pub covered: Option<Ratio>,
    /// Throughput while the collector watches over throughput without it:
    /// 1 − (1 − `on_off`) ÷ `covered`, and never below 0.
    #[serde(default)]
    pub on_off_active: Option<Estimate<Ratio>>,
    /// Running by the collector over running by `schedstat`, over all slices.
    pub running_check: Option<Ratio>,
    /// The greatest |running check − 1| of a level, and which level.
    pub running_worst: Option<(Level, Ratio)>,
    /// What `schedstat` has more there for each wait that ended; none where it has less.
    #[serde(default)]
    pub running_per_wait: Option<Seconds>,
    /// Runnable by the collector over runnable by `schedstat`.
    pub runnable_check: Option<Ratio>,
    /// Stacks taken.
    pub stacks: u64,
    /// Share of them that reached the outermost frame.
    pub stacks_complete: Option<Ratio>,
    /// Share of them that ended in code of a just-in-time compiler instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks_cut_compiled: Option<Ratio>,
    /// What was lost, summed over the run.
    pub losses: Vec<(String, u64)>,
}

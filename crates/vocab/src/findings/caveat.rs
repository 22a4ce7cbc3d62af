//! What limits what was said, as data. The words are the report's.

use super::{Regimes, Stall};
use crate::estimate::Estimate;
use crate::instruments::Bottleneck;
use crate::plan::Level;
use crate::units::{Cores, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that limits what was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Caveat {
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub reason: CaveatReason,
}

/// How much a caveat matters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Limits a number.
    Warning,
    /// Makes the result not trustworthy.
    Serious,
}

/// What limits what was said, with the figures that show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "caveat", rename_all = "kebab-case")]
pub enum CaveatReason {
    /// No slice or window counts.
    NothingMeasured,
    /// Results of another tool: nothing was measured here.
    Imported {
        /// How many.
        results: u32,
        /// At how many levels.
        levels: u32,
    },
    /// It ended with an error.
    Failed {
        /// In its own words.
        error: String,
    },
    /// The run has no end, or somebody stopped it.
    CutOff {
        /// Sweep blocks that it had done.
        blocks: u32,
        /// Whether these are too few to rely on.
        too_few: bool,
    },
    /// A profile has no end.
    WatchCutOff,
    /// The system was not steady when measuring began.
    NotSteady,
    /// Slices failed.
    FailedSlices {
        /// How many.
        slices: u32,
    },
    /// The run directory is not as the run has written it.
    Damaged {
        /// In how many places.
        places: u32,
        /// The first of them.
        first: String,
    },
    /// A run that was cut off left something that cannot be read.
    Torn {
        /// In how many places.
        places: u32,
        /// The first of them.
        first: String,
    },
    /// It stopped as soon as each verdict was final.
    StoppedDecided,
    /// What the run itself noted.
    Remark {
        /// In its own words.
        text: String,
    },
    /// Slices passed without an operation.
    Stalled {
        /// Where, and what the threads did meanwhile.
        stall: Stall,
    },
    /// Variables of the calling shell that nobody asked for change how the system runs.
    Environment {
        /// Their names and values.
        variables: Vec<(String, String)>,
    },
    /// Disturbed slices had to be kept.
    KeptDisturbed {
        /// How many.
        slices: u32,
        /// What was taken in the worst of them.
        worst: Disturbance,
        /// What was taken in the mean.
        mean: Disturbance,
        /// Whether the result cannot be relied on for it.
        spoils: bool,
    },
    /// Many slices were disturbed, and taken once more.
    Repeated {
        /// Their share of all.
        share: Ratio,
    },
    /// Slices were too disturbed to count.
    TooDisturbed {
        /// How many.
        slices: u32,
        /// What others took of capacity in the first of them.
        taken: Ratio,
        /// What the run noted of it, where it did.
        noted: Option<String>,
    },
    /// Server and load generator counted differently.
    CountsDiffer {
        /// By this share.
        off: Ratio,
    },
    /// The load generator limits the throughput.
    GeneratorLimits {
        /// By what.
        bottleneck: Bottleneck,
        /// Cores that only it could use.
        own_cores: u32,
    },
    /// A single thread has no more to give.
    SaturatedThread {
        /// Its name.
        name: String,
        /// Cores that it kept busy.
        busiest: Cores,
        /// Where.
        level: Level,
    },
    /// Fewer cores are faster.
    FewerCoresFaster {
        /// How many are fastest.
        cores: u32,
        /// The most that were measured.
        than: u32,
        /// Throughput of the former over that of the latter.
        ratio: Estimate<Ratio>,
    },
    /// Too few pairs for a verdict.
    FewPairs {
        /// The treatment's words.
        label: String,
        /// Its pairs.
        pairs: u32,
        /// So many are needed.
        needed: u32,
    },
    /// There was no A/A control.
    NoControl,
    /// The A/A control differs from the baseline.
    ControlDiffers {
        /// By this share.
        off: Ratio,
    },
    /// The A/A control's interval is wider than the smallest effect that matters.
    ControlTooWide {
        /// The noise floor.
        floor: Ratio,
        /// The smallest effect of interest.
        smallest: Ratio,
        /// Pairs of the control.
        pairs: u32,
    },
    /// Effects come from few starts.
    FewStarts {
        /// So many.
        starts: u32,
    },
    /// A published or imported protocol with one repetition.
    SingleRepetition,
    /// Too few sweep blocks for intervals.
    FewBlocks,
    /// The curve of a treatment with a start that was not proven is left out.
    UnprovenCurve {
        /// The treatment's words.
        label: String,
    },
    /// Only one level was measured.
    SingleLevel,
    /// The machine is small.
    SmallMachine {
        /// Its cores.
        cores: u32,
    },
    /// The focus level has no ledger.
    NoLedger,
    /// The core ledger leaves much open.
    CoreLedgerOpen {
        /// This share of all core-time.
        share: Ratio,
        /// Where.
        level: Level,
    },
    /// The ledger of a profile leaves much open.
    Unaccounted {
        /// This share of all core-time.
        share: Ratio,
    },
    /// Much idle time was charged to no wait, and shared out.
    IdleSharedOut {
        /// This share of all cores.
        share: Ratio,
        /// Where.
        level: Level,
    },
    /// The thread ledger leaves much open.
    ThreadLedgerOpen {
        /// This share of all thread-time.
        share: Ratio,
        /// Where.
        level: Level,
    },
    /// No thread was seen to serve one client, so that there is no thread ledger.
    NoClientThreads {
        /// Where.
        level: Level,
    },
    /// A level's throughput was not of one piece.
    UnsteadyLevel {
        /// The level.
        level: Level,
        /// Slices that did not come to rest.
        slices: u32,
        /// Slices that tell their course.
        of: u32,
        /// Whether so many of them are a trait of the level.
        restless: bool,
        /// Two throughputs that the slices fall into, where they do.
        regimes: Option<Regimes>,
    },
    /// Much of what was seen is code without names.
    NamelessCode {
        /// Base name of its module.
        module: String,
        /// The builds of it that were mapped.
        build_ids: Vec<String>,
        /// Its part of the CPU, where that is worth a word.
        on_cpu: Option<Ratio>,
        /// Its part of the blocked time, where that is worth a word.
        waits: Option<Ratio>,
    },
    /// Only the unprivileged collector ran.
    FallbackCollector,
    /// Running time differs from the kernel's own count.
    ClocksDiffer {
        /// By this share.
        off: Ratio,
        /// At worst here.
        level: Level,
        /// What `schedstat` has more for each wait; none where it has less.
        per_wait: Option<Seconds>,
    },
    /// No stacks were taken.
    NoStacks,
    /// Few stacks reach the outermost frame.
    CutStacks {
        /// This share of them.
        complete: Ratio,
        /// This share ends in code of a just-in-time compiler instead.
        compiled: Ratio,
    },
    /// The collector lost events.
    LostEvents {
        /// What, and how many.
        losses: Vec<(String, u64)>,
    },
    /// Collecting costs throughput.
    CollectorCosts {
        /// Throughput with the collector over that without.
        ratio: Estimate<Ratio>,
    },
    /// The collector watched a part of the time that operations were counted over.
    Thinned {
        /// So much of it.
        covered: Ratio,
    },
    /// A profile saw no thread.
    NoThreads,
    /// A profile has a single window.
    SingleWindow,
    /// A profile watched for less than a second.
    ShortWatch,
    /// A profile is of one level.
    OneLevelSeen,
}

/// Shares of capacity that the system under test did not get.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// What other processes took.
    pub others: Ratio,
    /// What the hypervisor took.
    pub steal: Ratio,
}

/// What a collector cannot see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// Waits that spin in user space without blocking.
    UserSpins,
    /// Which thread of several readers holds a shared lock.
    SharedHolders,
    /// Number and length of single waits, and who ended them.
    SingleWaits,
    /// Waits much shorter than the interval between two readings.
    ShortWaits,
    /// Locks inside the kernel.
    KernelLocks,
    /// Which wait a core was idle for.
    IdleReasons,
    /// Threads that ended within a window.
    EndedThreads,
}

//! What a run comes to, clause by clause: what the headline says. The words are the report's.

use super::price::PriceLine;
use super::{AtBound, CauseKind, Knee, Name, Stall};
use crate::estimate::Estimate;
use crate::plan::{Level, VariantId};
use crate::record::CodeKind;
use crate::units::{Cores, PerSecond, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One clause of the story: where it stops scaling, why, or what helps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "conclusion", rename_all = "kebab-case")]
pub enum Conclusion {
    /// Slices of the baseline passed without an operation.
    Stalled {
        /// The worst of them.
        stall: Stall,
    },
    /// There is no throughput at all.
    NothingMeasured,
    /// One level has no curve.
    SingleLevel {
        /// The level.
        level: Level,
    },
    /// Still rises at the last level.
    StillRises {
        /// The last level.
        level: Level,
        /// Its throughput.
        throughput: Estimate<PerSecond>,
    },
    /// Scales as far as the cores reach.
    ScalesFully {
        /// Where they are used up.
        level: Level,
        /// Its throughput.
        throughput: Estimate<PerSecond>,
    },
    /// Stops scaling, without a fall.
    StopsScaling {
        /// Where.
        knee: Knee,
        /// Throughput there.
        throughput: Estimate<PerSecond>,
    },
    /// Falls from the first level on.
    NeverScales {
        /// The first level.
        best: Level,
        /// Its throughput.
        throughput: Estimate<PerSecond>,
        /// The level of the least throughput.
        worst: Level,
        /// Its throughput.
        worst_throughput: Estimate<PerSecond>,
    },
    /// Falls behind its best level.
    Falls {
        /// The best level.
        best: Level,
        /// Its throughput.
        throughput: Estimate<PerSecond>,
        /// The level of the least throughput behind it.
        worst: Level,
        /// Its throughput.
        worst_throughput: Estimate<PerSecond>,
        /// The worse over the best, where that ratio was estimated.
        ratio: Option<Estimate<Ratio>>,
    },
    /// Fewer cores do more than all.
    FewerCores {
        /// How many do most.
        cores: u32,
        /// The most that were measured.
        than: u32,
        /// Throughput of the former over that of the latter.
        ratio: Estimate<Ratio>,
    },
    /// The load generator limits the throughput.
    GeneratorLimits {
        /// Cores that only it could use.
        own_cores: u32,
    },
    /// Nothing is wrong: the level gives what its bound allows.
    AtBound {
        /// Which bound, and where the CPU goes.
        at: AtBound,
    },
    /// Hardly anything is lost.
    NothingLost {
        /// Cores that are.
        cores: Cores,
        /// C.
        of: Cores,
    },
    /// What the first cause is remains open.
    Unsettled {
        /// Its kind.
        kind: CauseKind,
        /// Its name, where the kind alone does not tell which.
        name: Option<Name>,
        /// What its instructions do, where that is what it takes more CPU for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<CodeKind>,
        /// The most that its share may be; absent where it was measured once.
        share_at_most: Option<Ratio>,
    },
    /// The first cause of the loss.
    Loss {
        /// Its kind.
        kind: CauseKind,
        /// Its name, where the kind alone does not tell which.
        name: Option<Name>,
        /// What its instructions do, where that is what it takes more CPU for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<CodeKind>,
        /// Its part of the lost cores.
        share: Estimate<Ratio>,
    },
    /// What makes throughput fall, where that is not the first cause of the loss.
    Fall {
        /// A wait or a function.
        line: PriceLine,
        /// Its part of all that rises.
        share: Estimate<Ratio>,
    },
    /// A single thread has no more to give.
    SaturatedThread {
        /// Its name.
        name: String,
        /// Cores that it kept busy.
        busiest: Cores,
    },
    /// A treatment helps.
    Cure {
        /// The variant.
        variant: VariantId,
        /// Its words.
        label: String,
        /// Throughput with it over that without.
        ratio: Option<Estimate<Ratio>>,
        /// Whether it was shown to be active.
        proven: bool,
    },
    /// Each verdict says that its treatment does not help.
    NothingHelps,
    /// The only treatment's verdict is open.
    Undecided {
        /// Its words.
        label: String,
    },
    /// No treatment is shown to help, and some verdicts are open.
    NoneShown {
        /// Treatments.
        tried: u32,
        /// Verdicts that are open.
        undecided: u32,
        /// Treatments that were not proven active.
        unproven: u32,
    },
    /// A treatment scales further than the baseline.
    ScalesFurther {
        /// The variant.
        variant: VariantId,
        /// Its words.
        label: String,
        /// Throughput at its peak over its own at the fewest clients.
        speedup: Estimate<Ratio>,
        /// Where its peak is.
        peak: Level,
    },
}

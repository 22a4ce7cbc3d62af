//! What the comparison of several runs concluded.

use crate::fact::Tier;
use crate::findings::{CoreName, Estimate, LineKind, Name};
use crate::plan::{Clients, Level, ProtocolName};
use crate::units::{Nanos, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Two or more runs of one experiment, each against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this structure, for `--json` readers.
    pub schema: u32,
    /// The recipe's name.
    pub recipe: String,
    /// What one operation is, in the plural.
    pub operation: String,
    /// The runs, in the order they were given.
    pub runs: Vec<ComparedRun>,
    /// Every run but the first against the first.
    pub pairs: Vec<RunPair>,
    /// Conditions that are not the same in all runs.
    pub not_alike: Vec<Unlike>,
    /// What limits the comparison, the gravest first.
    pub caveats: Vec<ComparisonCaveat>,
    /// Conditions that were asked for, with their answers.
    pub conditions: Vec<ConditionAnswer>,
    /// Whether every run can be relied on. Exit code 4 if not.
    pub trustworthy: bool,
}

/// What limits a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "caveat", rename_all = "kebab-case")]
pub enum ComparisonCaveat {
    /// A run is not trustworthy.
    NotTrustworthy {
        /// Its name.
        run: String,
    },
    /// A run has a single repetition.
    SingleRepetition {
        /// Its name.
        run: String,
    },
    /// A run was measured on few starts of the system.
    FewStarts {
        /// Its name.
        run: String,
        /// How many.
        starts: u32,
    },
    /// A run has few repetitions.
    FewRepetitions {
        /// Its name.
        run: String,
        /// How many.
        blocks: u32,
    },
    /// Another tool measured a run.
    OtherTool {
        /// Its name.
        run: String,
    },
    /// A run did not run to its end.
    CutShort {
        /// Its name.
        run: String,
    },
    /// The runs are of two commands, which may count two things.
    CommandsDiffer,
    /// Levels that only one of the runs has are left out.
    LevelsLeftOut,
}

/// A run that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Its name in this comparison, unique.
    pub name: String,
    /// Begin, RFC 3339 in UTC.
    pub begun: String,
    /// Version of the Kneepoint that measured.
    pub kneepoint: String,
    /// Its recipe's one line, or its command.
    pub summary: String,
    /// The level of the greatest throughput, over all cores.
    pub peak: Level,
    /// Starts of the system that its sweep was measured on.
    pub starts: u32,
    /// Whether the verdicts of its own report can be relied on.
    pub trustworthy: bool,
    /// Its A/A control's noise floor; absent where there were no pairs.
    pub noise_floor: Option<Ratio>,
}

/// A run against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPair {
    /// Name of the run.
    pub run: String,
    /// Name of the run that it is compared with.
    pub over: String,
    /// Throughput at the run's own peak over that at the first run's.
    pub peak: LevelRatio,
    /// Throughput at every level that both have, ascending.
    pub levels: Vec<LevelRatio>,
    /// Clients of levels that only one of the two has, ascending.
    pub unmatched: Vec<u32>,
    /// What one operation costs; absent where one of the runs has no ledger at a common level.
    pub price: Option<PricePair>,
}

/// Throughput of two runs at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelRatio {
    /// Clients; at the peak those of the run that is compared.
    pub clients: u32,
    /// Clients of the first run: another number only at the peak.
    pub over_clients: u32,
    /// Cores of the system, where a run has several numbers of them.
    pub cores: Option<u32>,
    /// Throughput of the first run.
    pub over: Estimate<PerSecond>,
    /// Throughput of the run.
    pub run: Estimate<PerSecond>,
    /// Second over first; without interval where one of them has none.
    pub ratio: Estimate<Ratio>,
    /// What the ratio says.
    pub verdict: RatioVerdict,
}

/// What the ratio of two throughputs says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum RatioVerdict {
    /// The interval lies above 1.
    Faster,
    /// The interval lies below 1.
    Slower,
    /// The interval holds 1.
    NotDistinguishable {
        /// A difference of this size
        difference: Ratio,
        /// would show after so many more seconds of measuring, both runs together; absent where
        /// the interval is as narrow already, or nobody knows how long the runs took.
        needs: Option<Seconds>,
    },
    /// One of the runs has a single repetition: there is no interval.
    NoInterval,
}

/// What one operation costs in two runs at one level: core-seconds of the machine, idle ones too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PricePair {
    /// The level in the run.
    pub level: Level,
    /// The level in the first run.
    pub over_level: Level,
    /// Cores over throughput in the first run: the sum of its lines.
    pub over: Estimate<Seconds>,
    /// The same in the run.
    pub run: Estimate<Seconds>,
    /// Its parts; those that changed most come first.
    pub lines: Vec<PriceLine>,
}

/// A part of the price of an operation in two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriceLine {
    /// Which part: a cause in either run, or a line of the core ledger.
    pub part: ComparedPart,
    /// Its kind; of a cause, that of its greatest line.
    pub kind: LineKind,
    /// In the first run; absent where that has no such line.
    pub over: Option<Estimate<Seconds>>,
    /// In the run; absent where that has no such line.
    pub run: Option<Estimate<Seconds>>,
}

/// What a part of the price is paid for, in two runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum ComparedPart {
    /// A cause in either run.
    Cause {
        /// Its name, in the first run where that has it.
        name: Name,
    },
    /// A line of the core ledger that is no cause.
    Line {
        /// What it counts.
        name: CoreName,
    },
}

/// A condition in which runs differ, with its value in each run, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Unlike {
    /// The model of the CPU.
    Cpu {
        /// As the kernel names it.
        values: Vec<String>,
    },
    /// How many CPUs the machine has.
    Cores {
        /// How many.
        values: Vec<u32>,
    },
    /// The machine's memory.
    Memory {
        /// In bytes.
        values_bytes: Vec<u64>,
    },
    /// The kernel.
    Kernel {
        /// Name and release.
        values: Vec<String>,
    },
    /// The operating system's distribution.
    Distribution {
        /// As it names itself.
        values: Vec<String>,
    },
    /// The version of Kneepoint.
    Kneepoint {
        /// As it was written.
        values: Vec<String>,
    },
    /// The command that was measured.
    Command {
        /// As it was typed.
        values: Vec<String>,
    },
    /// What a recipe says of itself.
    Summary {
        /// Its line for people.
        values: Vec<String>,
    },
    /// The protocol.
    Protocol {
        /// Which.
        values: Vec<ProtocolName>,
    },
    /// Where the clients live.
    Clients {
        /// In the system or apart.
        values: Vec<Clients>,
    },
    /// Cores that only the load generator uses.
    GeneratorCores {
        /// How many.
        values: Vec<u32>,
    },
    /// The length of a slice's window.
    Window {
        /// In nanoseconds.
        values_ns: Vec<Nanos>,
    },
    /// How much the collector could see.
    Collector {
        /// Null where nothing was collected.
        values: Vec<Option<Tier>>,
    },
    /// CPU of other processes.
    OtherProcesses {
        /// As a share of the capacity.
        values: Vec<Ratio>,
    },
    /// What the hypervisor took.
    Steal {
        /// As a share of the capacity.
        values: Vec<Ratio>,
    },
    /// The noise floor of A/A.
    Noise {
        /// As a share of the throughput.
        values: Vec<Ratio>,
    },
    /// What machine, system or environment say under a name of their own.
    Named {
        /// The name, e.g. `governor`, `cache size` or `LD_PRELOAD`.
        name: String,
        /// Null where a run has none.
        values: Vec<Option<String>>,
    },
}

/// A condition that the caller set, and whether it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionAnswer {
    /// As it was asked, e.g. `throughput < -5%`.
    pub asked: String,
    /// The answer.
    pub answer: Answer,
    /// The run and the level that decide it; absent where no run has such a level.
    #[serde(rename = "where")]
    pub place: Option<ConditionPlace>,
    /// The ratio there, with an interval that allows for the number of ratios looked at; absent
    /// where no run has such a level.
    pub ratio: Option<Estimate<Ratio>>,
}

/// What decides a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionPlace {
    /// Name of the run.
    pub run: String,
    /// Whether it is the run's peak, whatever its clients.
    pub peak: bool,
    /// Clients.
    pub clients: u32,
    /// Cores of the system, where a run has several numbers of them.
    pub cores: Option<u32>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Somewhere the whole interval meets it.
    Holds,
    /// Nowhere any part of an interval meets it.
    DoesNotHold,
    /// Neither can be said.
    Undecided,
}

/// Why runs say nothing of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomparable {
    /// There are not two.
    TooFew,
    /// A run is a profile of one level, whose load nobody knows.
    Profile {
        /// Its name.
        run: String,
    },
    /// Nothing was measured in a run.
    Empty {
        /// Its name.
        run: String,
    },
    /// They count different things.
    Operations {
        /// What they count.
        of: Apart,
    },
    /// They are runs of different recipes.
    Recipes {
        /// The recipes.
        of: Apart,
    },
    /// There is no level that both have.
    NoCommonLevel {
        /// Name of the first run.
        first: String,
        /// Name of the other.
        run: String,
    },
}

/// Two runs, and in what they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Name of the first run.
    pub first: String,
    /// What it has.
    pub first_has: String,
    /// Name of the other.
    pub run: String,
    /// What that has.
    pub run_has: String,
}

/// Why a text is no condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCondition {
    /// It does not look like one.
    Form,
    /// No ratio can lie below its limit.
    Limit,
}

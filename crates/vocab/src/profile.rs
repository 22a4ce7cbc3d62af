//! What a profile concluded: one level of a system that ran already. Nothing in it speaks of
//! scaling, and of operations only where somebody counted them.

use crate::findings::{
    Cause, Caveat, ChainNode, Collector, CoreLine, Estimate, FlameNode, LineKind, ThreadsName,
};
use crate::instruments::LevelInstruments;
use crate::record::{Host, StoppedBy};
use crate::units::{Cores, Count, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that a report can say about a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Version of this structure, for `--json` readers.
    pub schema: u32,
    /// What was watched, e.g. `mariadbd 4242`.
    pub subject: String,
    /// Its processes and what counts its operations, as `name, value`.
    pub settings: Vec<(String, String)>,
    /// Whether it can be relied on; `caveats` says why not. Exit code 4 if false.
    pub trustworthy: bool,
    /// The machine.
    pub host: Host,
    /// Windows that count.
    pub windows: u32,
    /// Their length, all together.
    pub watched: Seconds,
    /// Why it ended.
    pub stopped_by: StoppedBy,
    /// What was counted; absent where nobody counted.
    pub operations: Option<Operations>,
    /// C.
    pub cores: Cores,
    /// Cores that the system kept busy.
    pub busy: Estimate<Cores>,
    /// Where the cores went; the lines add up to C.
    pub core_lines: Vec<CoreLine>,
    /// |unaccounted| / C.
    pub unaccounted: Ratio,
    /// Mean number of threads that there were.
    pub threads: Count,
    /// What they did; mean numbers of threads that add up to `threads`.
    pub thread_lines: Vec<ThreadsLine>,
    /// Switches off a core.
    pub switches: Option<PerSecond>,
    /// Locks, devices and the scheduler: what cores idle for and threads wait for, the most first.
    pub causes: Vec<ProfileCause>,
    /// Who waits for whom; absent where no single wait was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainNode>,
    /// On-CPU flame graph.
    pub on_cpu: Option<FlameNode>,
    /// What `vmstat`, `top -H` and `iostat` would have shown.
    pub instruments: Option<LevelInstruments>,
    /// What collected, what it missed and what it cost.
    pub collector: Collector,
    /// Everything that limits what was said.
    pub caveats: Vec<Caveat>,
}

/// Operations that a command of the user's counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// How many ended each second.
    pub rate: Estimate<PerSecond>,
    /// CPU seconds of the system for one.
    pub cpu: Estimate<Seconds>,
}

/// Something that threads did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsLine {
    /// Its kind.
    pub kind: LineKind,
    /// What they did.
    pub name: ThreadsName,
    /// How many threads did it, in the mean: thread-seconds each second.
    pub threads: Estimate<Count>,
    /// Thread-seconds for one operation; absent where nobody counted.
    pub per_operation: Option<Estimate<Seconds>>,
    /// The cause it belongs to, by [`Cause::id`].
    pub cause: Option<String>,
}

/// Something that cores idle for or threads wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileCause {
    /// What it is. Its share is that of all cores.
    #[serde(flatten)]
    pub cause: Cause,
    /// Threads that wait for it, in the mean.
    pub threads: Estimate<Count>,
}

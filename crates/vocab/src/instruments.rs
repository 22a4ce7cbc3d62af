//! The part of the findings that speaks of the machine and the load generator.

use crate::fact::TaskOwner;
use crate::findings::Estimate;
use crate::plan::Level;
use crate::units::{Cores, Count, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load generator, watched like the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Cores that it kept busy at the focus level.
    pub cores: Estimate<Cores>,
    /// Cores that only it could use; 0 where it shared those of the system.
    pub own_cores: u32,
    /// Its busiest thread at the focus level, where threads were seen.
    pub busiest: Option<TaskLine>,
    /// Why it limits the throughput, where it does.
    pub bottleneck: Option<Bottleneck>,
    /// It limits because it has no more to give: then its CPU is lost throughput. Else only what
    /// it takes above its usual price is.
    #[serde(default)]
    pub saturated: bool,
    /// CPU seconds that it takes for one operation at the level of the causes.
    #[serde(default)]
    pub per_operation: Option<Estimate<Seconds>>,
    /// CPU seconds that the system takes for one operation there.
    #[serde(default)]
    pub system_per_operation: Option<Estimate<Seconds>>,
    /// Name of the system's busiest thread there, where threads were seen.
    #[serde(default)]
    pub system: Option<String>,
}

/// Why a load generator limits the throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "bottleneck", rename_all = "kebab-case")]
pub enum Bottleneck {
    /// One of its threads has no more to give.
    Thread {
        /// Its name.
        name: String,
        /// Cores that it kept busy.
        busiest: Cores,
        /// Cores of the system that idle for its next request.
        idle: Cores,
        /// Of so many.
        of: Cores,
    },
    /// Cores of its own are busy.
    OwnCores {
        /// So many.
        busy: Cores,
        /// Of so many.
        of: u32,
    },
    /// It takes more of the shared cores than the system.
    Outweighs {
        /// What it takes.
        generator: Cores,
        /// What the system takes.
        system: Cores,
    },
}

/// Counts of the generator against those of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The server's counter.
    pub counter: String,
    /// Trials in which both counted.
    pub trials: u32,
    /// The worst |server ÷ generator − 1|.
    pub worst: Ratio,
}

/// The classic instruments at one level, means over its sweep slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelInstruments {
    /// The level.
    pub level: Level,
    /// The line of `vmstat`.
    pub vmstat: Option<Vmstat>,
    /// Threads by CPU, most first, those of one owner and name together.
    pub tasks: Vec<TaskLine>,
    /// Block devices that were used.
    pub devices: Vec<DeviceLine>,
    /// Pressure.
    pub pressure: Vec<PressureLine>,
}

/// A line of `vmstat`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Vmstat {
    /// Mean number of runnable threads.
    pub runnable: Count,
    /// Mean number of threads blocked on a device.
    pub blocked: Count,
    /// Interrupts.
    pub interrupts: PerSecond,
    /// Context switches.
    pub switches: PerSecond,
    /// User CPU, share of capacity.
    pub user: Ratio,
    /// Kernel CPU.
    pub system: Ratio,
    /// Idle.
    pub idle: Ratio,
    /// Idle with a device request pending.
    pub iowait: Ratio,
    /// Taken by the hypervisor.
    pub steal: Ratio,
    /// The sum of the five: 1, or the kernel's ticks missed something.
    pub sum: Ratio,
}

/// Threads of one owner and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskLine {
    /// Whose they are.
    pub owner: TaskOwner,
    /// Their name.
    pub name: String,
    /// How many were seen at work in one slice, at most.
    pub threads: u32,
    /// Cores that they kept busy together.
    pub cores: Cores,
    /// Cores that the busiest of them kept busy: 1 is a saturated thread.
    pub busiest: Cores,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLine {
    /// Its name.
    pub name: String,
    /// Reads completed.
    pub reads: PerSecond,
    /// Writes completed.
    pub writes: PerSecond,
    /// Bytes read each second.
    pub read_bytes: PerSecond,
    /// Bytes written each second.
    pub written_bytes: PerSecond,
    /// Mean time of a request from its start to its end; absent where the device counts none.
    pub response: Option<Seconds>,
    /// Mean number of requests in flight.
    pub in_flight: Count,
    /// Share of time with a request in flight. Not how busy a device with many channels is.
    pub busy: Ratio,
}

/// Time lost for want of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PressureLine {
    /// `cpu`, `io` or `memory`.
    pub resource: String,
    /// `machine`, or a control group's path.
    pub scope: String,
    /// Share of time in which some thread was stalled.
    pub some: Ratio,
    /// Share of time in which all were stalled.
    pub full: Ratio,
}

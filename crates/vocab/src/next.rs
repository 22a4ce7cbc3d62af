//! What a twin that was calibrated from the run says of changes and levels nobody measured.

use crate::plan::Level;
use crate::units::{PerSecond, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What next: forecasts by the run's twin, or why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    /// Why nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<NoTwin>,
    /// How far the twin is off at the measured levels: root mean square of the logarithms.
    #[serde(default)]
    pub error: Ratio,
    /// Measured against simulated, one for each level.
    #[serde(default)]
    pub residuals: Vec<Residual>,
    /// Changes tried on the twin, those that bring most first.
    #[serde(default)]
    pub what_if: Vec<WhatIf>,
    /// More clients and more cores.
    #[serde(default)]
    pub levels: Vec<TwinForecast>,
    /// What the levels at hand do not determine.
    #[serde(default)]
    pub open: Vec<Undetermined>,
}

/// Why a run has no twin, or its twin no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum NoTwin {
    /// Nobody watched the threads.
    NotWatched,
    /// Fewer than two levels have ledgers.
    FewLevels,
    /// The CPU of an operation is not known at every level.
    NoDemand,
    /// No thread is known to serve one client.
    SharedThreads,
    /// No twin of this structure can be simulated at the measured levels.
    NoStructure,
    /// What a variant brought has no interval above nothing.
    NoRatio,
    /// The twin does not behave as the system did.
    Misses {
        /// Clients of the level where it is worst.
        clients: u32,
        /// What it simulates there, over what was measured.
        ratio: Ratio,
    },
    /// Too many clients for what was measured.
    ManyClients {
        /// So many were asked for.
        clients: u32,
        /// The most that were measured.
        measured: u32,
        /// So many times that are the most that can be asked for.
        times: u32,
    },
    /// Too many cores for what was measured.
    ManyCores {
        /// So many were asked for.
        cores: u32,
        /// So many were measured.
        measured: u32,
        /// So many times that are the most that can be asked for.
        times: u32,
    },
    /// No level has more clients than cores, so nobody knows what they cost each other.
    NoCrowd {
        /// So many cores were measured.
        cores: u32,
    },
    /// So few clients leave cores asleep, which a twin does not know.
    Asleep {
        /// So many were asked for.
        clients: u32,
        /// The fewest that keep the cores awake.
        from: u32,
    },
    /// Threads give up their cores in an operation. What that costs, where a lock no longer keeps
    /// others from running, is not known.
    Yields {
        /// The part of one operation's CPU that it is where nobody else runs.
        part: Ratio,
    },
    /// The twin's text, a change or the simulation of it is wrong; that says why.
    Failed {
        /// In its own words.
        why: String,
    },
}

impl NoTwin {
    /// Whether another level might have an answer.
    #[must_use]
    pub const fn is_far(&self) -> bool {
        matches!(self, Self::ManyClients { .. } | Self::ManyCores { .. } | Self::NoCrowd { .. })
    }
}

/// What the measured levels do not determine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Undetermined {
    /// How long an idle core takes to begin.
    Start,
    /// What fewer clients bring, which leave cores asleep.
    Asleep {
        /// The fewest that keep them awake.
        from: u32,
    },
    /// What a lock less brings, where threads give up their cores in an operation.
    Yields {
        /// The part of one operation's CPU that it is where nobody else runs.
        part: Ratio,
    },
    /// How often an operation visits its locks.
    Visits,
    /// How long an operation holds a lock.
    Held {
        /// The lock.
        lock: String,
        /// The fewest clients that were measured.
        low: u32,
        /// The most.
        most: u32,
    },
}

/// One level, measured and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Residual {
    /// Clients.
    pub clients: u32,
    /// As measured.
    pub measured: PerSecond,
    /// As simulated.
    pub simulated: PerSecond,
}

impl Residual {
    /// Simulated over measured, as a natural logarithm.
    #[must_use]
    pub fn off(&self) -> f64 {
        (self.simulated.0 / self.measured.0).ln()
    }
}

/// A forecast by a calibrated twin. Its intervals are of 90 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TwinForecast {
    /// The level.
    pub level: Level,
    /// Throughput.
    pub throughput: PerSecond,
    /// Lower end of its interval.
    pub low: PerSecond,
    /// Upper end.
    pub high: PerSecond,
    /// Over the system as it is, with as many clients on the measured cores.
    pub ratio: Ratio,
    /// Lower end of its interval.
    pub ratio_low: Ratio,
    /// Upper end.
    pub ratio_high: Ratio,
}

/// A change tried on the twin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// The change.
    pub change: Altered,
    /// Whether it takes away the first cause of the loss.
    #[serde(default)]
    pub first_cause: bool,
    /// What it brings.
    pub forecast: TwinForecast,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Altered {
    /// What the lock protects is done without it.
    Without {
        /// The lock.
        lock: String,
    },
    /// Another implementation of the library that the lock is in: neither the lock nor what the
    /// kernel does for the library.
    Library {
        /// The lock.
        lock: String,
    },
    /// The lock is split, and each visit takes one part.
    Split {
        /// The lock.
        lock: String,
        /// Into so many.
        parts: u32,
    },
    /// Its waiters spin in order, each at a place of its own.
    Queued {
        /// The lock.
        lock: String,
    },
    /// The CPU that a cause costs an operation is saved.
    Saved {
        /// The cause.
        cause: String,
    },
    /// All cores are faster.
    Faster {
        /// By this factor.
        factor: Ratio,
    },
    /// There are more cores.
    Cores {
        /// So many.
        cores: u32,
    },
}

//! The system calls that an operation makes, and how they end.

use crate::plan::Level;
use crate::units::{Count, PerSecond, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// System calls that the census saw, the most frequent first. All figures are those of one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTable {
    /// Where they were counted.
    pub level: Level,
    /// Operations of the window; absent where they were counted over more than that.
    pub operations: Option<Count>,
    /// The calls.
    pub rows: Vec<CallRow>,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// Its name, e.g. `futex`.
    pub name: String,
    /// How often an operation makes it, where the operations of the window are known.
    pub per_operation: Option<Count>,
    /// How often it was made each second of the window, in which probes slow the system.
    pub rate: PerSecond,
    /// The part that ended with an error.
    pub failing: Ratio,
    /// The most frequent error, e.g. `EAGAIN`, where there was one.
    pub error: Option<String>,
    /// Whether it fails each time, with an error that says it can never do anything else: none that
    /// asks to wait or to try again.
    pub in_vain: bool,
}

//! Slices without an operation.

use crate::fact::WaitReason;
use crate::plan::{Level, VariantId};
use crate::units::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slices in which not one operation ended, and what the threads did meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The variant.
    pub variant: VariantId,
    /// The level.
    pub level: Level,
    /// Slices without an operation.
    pub slices: u32,
    /// All slices of the variant at the level that were measured well.
    pub of: u32,
    /// Shares of the time of the threads that serve clients, or of all where none is known to;
    /// absent where nobody watched.
    pub threads: Option<StalledThreads>,
}

/// What threads did in slices without an operation, as shares of their time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StalledThreads {
    /// On a core.
    pub running: Ratio,
    /// Willing to run.
    pub runnable: Ratio,
    /// Blocked.
    pub blocked: Ratio,
    /// What they were blocked on most.
    pub mostly_on: Option<WaitReason>,
}

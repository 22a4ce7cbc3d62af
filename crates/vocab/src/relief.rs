//! What a variant that fits any program may relieve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of loss that more than one program has, and that can be relieved from outside.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Relief {
    /// Waiting and work inside the C library's malloc.
    Malloc,
    /// Page faults, and the lock of the address space that they take.
    Faults,
    /// Waking threads and moving them from core to core.
    WakeUps,
}

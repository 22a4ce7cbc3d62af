//! The locks of a run: how they are used by one client, and how they are waited for.

use super::{Estimate, Name};
use crate::plan::Level;
use crate::units::{Count, PerSecond, Ratio, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Locks that the census saw, those that are held most of the time first. Counts are those of one
/// window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockTable {
    /// Where locks were counted: so few clients that few wait.
    pub level: Level,
    /// Where waits were counted.
    pub waits_at: Level,
    /// Operations of the window; absent where they were counted over more than that.
    pub operations: Option<Count>,
    /// The locks.
    pub rows: Vec<LockRow>,
    /// Locks that are left out since little is made of them.
    pub more: u32,
}

/// One lock, or several of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockRow {
    /// Its name, as a cause would have it.
    pub name: Name,
    /// Who takes it, innermost first.
    pub path: Vec<String>,
    /// The cause that it is, by [`super::Cause::id`].
    pub cause: Option<String>,
    /// Distinct locks of this name.
    pub objects: u32,
    /// How often it is taken for an operation, where the operations of the window are known.
    pub taken: Option<Count>,
    /// Of these, the part that others may hold it beside: readers.
    pub shared: Ratio,
    /// The part of the time in which it is held, at so few clients; absent where there are several
    /// locks, as the next three, or where it was never found held.
    pub busy: Option<Estimate<Ratio>>,
    /// How long it is held each time, in the mean, where it is known how often that is.
    pub held: Option<Estimate<Seconds>>,
    /// How long for an operation.
    pub held_per_operation: Option<Estimate<Seconds>>,
    /// The most operations that it leaves room for, however many cores there are: held by one at a
    /// time, for so long each. Absent where readers share it.
    pub at_most: Option<Estimate<PerSecond>>,
    /// How often an operation sleeps for it, where waits were counted.
    pub waits: Option<Count>,
    /// How long each.
    pub wait: Option<Seconds>,
    /// The longest.
    pub wait_longest: Option<Seconds>,
}

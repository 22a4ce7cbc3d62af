//! Who waits for whom, down to who works.

use super::{HolderState, LineKind, Name};
use crate::units::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the threads of a level: what they do or wait for and, further on, what those do who
/// end the waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainNode {
    /// What the threads do, or who ends their waits.
    pub link: ChainLink,
    /// How many threads of the first node it stands for, in the mean: thread-seconds each second.
    pub threads: Count,
    /// What it comes from, greatest first. Adds up to no more than `threads`; what is missing is
    /// not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<ChainNode>,
}

/// A link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ChainLink {
    /// Threads that serve a client each.
    Clients {
        /// Their name (`comm`), of most of them.
        name: String,
    },
    /// Other threads of the system.
    Threads {
        /// Their name (`comm`).
        name: String,
    },
    /// All threads of a system whose clients are not known.
    System,
    /// On a core.
    OnCore,
    /// Willing to run, not on a core.
    Runnable,
    /// Waits for the next request.
    Request,
    /// Waits for something.
    Wait {
        /// What for.
        name: Name,
        /// Its kind.
        line: LineKind,
        /// The cause that it is, by [`super::Cause::id`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// Waits for other things, each of little weight.
    OtherWaits,
    /// The holder of the lock, by what it did when the wait began.
    Holder {
        /// What.
        state: HolderState,
    },
    /// No thread of the system: a timer, an interrupt, another process.
    Outside,
}

//! What lines of the ledgers count. The words are the report's.

use super::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a line of the core ledger counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum CoreName {
    /// Operations at their least CPU.
    Useful,
    /// CPU above that in one function, or in one way into the kernel.
    Function {
        /// Its name.
        name: Name,
        /// The lock whose work it is, by the name of its waits.
        lock: Option<Name>,
    },
    /// CPU above that in all other functions.
    OtherFunctions,
    /// CPU above that, of which no function has much.
    SpreadFunctions,
    /// CPU above that, which no stack tells apart.
    Unnamed,
    /// The load generator.
    Generator,
    /// Threads of the kernel.
    KernelThreads,
    /// Taken by the hypervisor.
    Steal,
    /// Interrupts.
    Interrupts,
    /// Other processes.
    Others,
    /// Kneepoint itself.
    Kneepoint,
    /// Idle for one thing that is waited for.
    Wait {
        /// Its name.
        name: Name,
    },
    /// Idle for other waits.
    OtherWaits,
    /// Idle because no request is there.
    NoRequest,
    /// Idle beside runnable threads.
    Scheduler,
    /// Idle because there is nothing to do.
    Unused,
    /// What the ledger could not place.
    Unaccounted,
}

/// What a line of the thread ledger counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum ThreadName {
    /// On a core, in one function or in one way into the kernel.
    Function {
        /// Its name.
        name: Name,
        /// Whether the name says what is done; else it is the function it is done in.
        says_all: bool,
    },
    /// On a core, of which no function has much.
    Running,
    /// On a core, in all other functions.
    RunningElsewhere,
    /// Waiting for a core.
    Runnable,
    /// Blocked on one thing.
    Wait {
        /// Its name.
        name: Name,
    },
    /// Waiting for the next request.
    NoRequest,
    /// Blocked on other things.
    OtherWaits,
    /// What the ledger could not place.
    Unaccounted,
}

/// What threads of a profile do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum ThreadsName {
    /// On a core.
    Running,
    /// Waiting for a core.
    Runnable,
    /// Waiting for one thing.
    Wait {
        /// Its name.
        name: Name,
    },
    /// Waiting for requests or other processes.
    NoRequest,
    /// Waiting for something that seldom comes.
    Asleep,
    /// Waiting for other things.
    OtherWaits,
}

//! The simulator of threads, cores, schedulers and locks.
//!
//! One replication runs on one thread; replications run beside each other. Time is counted in
//! whole picoseconds, so what the ledgers add up to is exact, and events at one instant happen in
//! the order in which they were scheduled. The same seed gives the same bits on any number of
//! worker threads.

mod agenda;
mod facts;
mod ledger;
mod list;
mod machine;
mod program;
mod random;
mod replicate;
mod steady;
mod thread;

pub use agenda::Agenda;
pub use facts::{facts, stacks, window};
pub use ledger::{Account, ClassAccount, LedgerLine, LockAccount, SimulatedLedger};
pub use program::{
    BusSpec, ChannelSpec, ClassSpec, Compiled, DeviceSpec, LockKind, LockSpec, Op, Placement,
    Prefer, SchedulerSpec, SemaphoreSpec, SourceSpec,
};
pub use random::{Draws, Law};
pub use replicate::{Replicated, replicate, seed_of};
pub use steady::{Outcome, Settings, simulate};

/// A point of simulated time, or a length of it, in picoseconds.
pub type Ticks = u64;

/// Picoseconds in a second.
pub const SECOND: f64 = 1e12;

/// Seconds as picoseconds, rounded; at most 2^62 (53 days).
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub fn ticks(seconds: f64) -> Ticks {
    (seconds * SECOND).round().clamp(0.0, 4.6e18) as Ticks
}

/// Picoseconds as seconds.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "a relative error of 1e-16 is no matter")]
pub fn seconds(ticks: Ticks) -> f64 {
    ticks as f64 / SECOND
}

/// Why a simulation gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// Threads wait for each other in a circle.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// Nothing is left to happen, or nothing that completes an operation.
    #[error("no progress: {0}")]
    NoProgress(String),
    /// More events than allowed.
    #[error("{events} events were not enough for {wanted} operations: give a greater budget")]
    Budget {
        /// Events spent.
        events: u64,
        /// Operations wanted.
        wanted: u64,
    },
    /// A program releases what it does not hold, replies to nobody, and the like.
    #[error("{0}")]
    Program(String),
}

//! Queues with exact results, which the simulator and every approximation are held against.
//!
//! * [`open`]: arrivals from outside: one station of c servers, and several in a row.
//! * [`closed`]: N clients that go round among stations of one or more servers, and think.
//!
//! They hold where service times are exponential (or, at stations without a queue, anything), all
//! clients are alike and nobody holds two things at once. A thread that waits for a lock while it
//! keeps a core does the latter: there the simulator answers, and these do not.

pub mod closed;
pub mod open;
mod scaled;

pub use closed::{Closed, Servers, Solved, Station};
pub use open::{Queue, Stage};

/// A network that has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueueError {
    /// A length of time or a rate that is negative or not finite.
    #[error("{0} has to be a finite number of at least 0")]
    Number(&'static str),
    /// No servers.
    #[error("a station has at least one server")]
    NoServer,
    /// Every client goes round in no time.
    #[error("no station takes time, so throughput has no limit")]
    NoDemand,
    /// Work arrives as fast as it can be done, or faster.
    #[error("the queue grows without end: {0:.3} servers are needed and {1} are there")]
    Overloaded(f64, u32),
    /// More clients than are worth the wait.
    #[error("{0} clients are more than {1}, the most that are solved for")]
    TooMany(u32, u32),
}

//! How a lock goes from one to the next.

/// How a lock goes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Whoever comes first when it is free takes it, before those that were woken for it.
    Barging,
    /// It is handed to the one that waited longest, who has to be woken.
    HandedOn,
    /// Who waits spins as long as the owner is on a core.
    Adaptive,
    /// Its release wakes all who wait, of whom one takes it.
    WakesAll,
}

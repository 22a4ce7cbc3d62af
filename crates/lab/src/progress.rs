//! What a run tells while it runs; how it looks is the caller's business.

use kneepoint_vocab::{Nanos, PerSecond};

/// Receives the progress of a run.
pub trait Progress {
    /// `done` of about `total` has passed by the plan; `doing` says what comes next.
    fn step(&mut self, done: Nanos, total: Nanos, doing: &str);
    /// What the last slice gave.
    fn measured(&mut self, _throughput: PerSecond) {}
    /// Something worth telling at once.
    fn remark(&mut self, text: &str);
}

/// Tells nobody.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _done: Nanos, _total: Nanos, _doing: &str) {}
    fn remark(&mut self, _text: &str) {}
}

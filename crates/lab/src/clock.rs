//! The run's own clock: nanoseconds since the run began.

use kneepoint_vocab::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Zero at the run's begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begin: Instant,
    /// What it showed when it began: more than zero where a run goes on.
    before: Nanos,
}

impl Clock {
    pub(crate) fn begin() -> Self {
        Self::at(Nanos(0))
    }

    /// One that shows so much already.
    pub(crate) fn at(before: Nanos) -> Self {
        Self { begin: Instant::now(), before }
    }

    pub(crate) fn now(&self) -> Nanos {
        let passed = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos(self.before.0.saturating_add(passed))
    }
}

/// Sleeps for `length`, or until `stop` is set: a Ctrl-C is not kept waiting by a long window.
pub(crate) fn sleep(length: Nanos, stop: &AtomicBool) {
    const LOOK: Duration = Duration::from_millis(50);
    let end = Instant::now() + length.duration();
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

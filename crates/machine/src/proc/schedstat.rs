//! `/proc/PID/task/TID/schedstat`: the kernel's own count of running and runnable time.

/// What the scheduler counted for one thread since its birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// On a core, ns. For a thread on a core it lags by up to one tick.
    pub running: u64,
    /// Runnable without a core, ns.
    pub runnable: u64,
    /// Times it got a core.
    pub slices: u64,
}

impl SchedStat {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            running: self.running.saturating_sub(earlier.running),
            runnable: self.runnable.saturating_sub(earlier.runnable),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }
}

/// The three numbers of the file; `None` for anything else.
#[must_use]
pub fn parse(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(SchedStat { running: next()?, runnable: next()?, slices: next()? })
}

/// Reads one thread's; `None` where it is gone.
#[must_use]
pub fn read(pid: u32, tid: u32) -> Option<SchedStat> {
    parse(&super::text(&format!("{pid}/task/{tid}/schedstat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_or_nothing() {
        let found = parse("1200 34 5\n").unwrap();
        assert_eq!(found, SchedStat { running: 1200, runnable: 34, slices: 5 });
        assert_eq!(parse("1200 34"), None);
        assert_eq!(parse("a b c"), None);
    }

    #[test]
    fn differences_never_fall_below_zero() {
        let older = SchedStat { running: 10, runnable: 9, slices: 1 };
        let newer = SchedStat { running: 12, runnable: 3, slices: 1 };
        assert_eq!(newer.since(older), SchedStat { running: 2, runnable: 0, slices: 0 });
    }

    #[test]
    fn own_thread_is_readable() {
        let own = crate::own_pid();
        assert!(read(own, own).is_some());
    }
}

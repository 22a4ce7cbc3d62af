//! What others take of the cores meanwhile.

use std::fs;

/// Clock ticks of all cores until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Of any use, idle included.
    all: u64,
    /// Not idle, or taken by the hypervisor.
    busy: u64,
    /// Of this process and its children that have ended.
    own: u64,
}

impl Times {
    /// Until now; none without `/proc`.
    pub(super) fn now() -> Option<Self> {
        let cores = fs::read_to_string("/proc/stat").ok()?;
        Self::read(&cores, &fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// From `/proc/stat` and `/proc/self/stat`.
    fn read(cores: &str, process: &str) -> Option<Self> {
        let number = |word: &str| word.parse::<u64>().ok();
        // cpu user nice system idle iowait irq softirq steal guest guest_nice; proc_stat(5)
        let words = cores.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let ticks: Vec<u64> = words.take(8).map_while(number).collect();
        if ticks.len() < 8 {
            return None;
        }
        let all = ticks.iter().sum::<u64>();
        // proc_pid_stat(5): the name is second; utime, stime, cutime and cstime are 14th to 17th.
        let (_, behind_name) = process.rsplit_once(')')?;
        let own: Vec<u64> =
            behind_name.split_ascii_whitespace().skip(11).map_while(number).collect();
        let own = own.get(..4)?.iter().sum();
        Some(Self { all, busy: all - ticks[3] - ticks[4], own })
    }

    /// Share of all cores' time that went to others between two moments.
    pub(super) fn others_since(self, before: Self) -> f64 {
        let since = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&before));
        let others = since(|it| it.busy).saturating_sub(since(|it| it.own));
        #[allow(clippy::cast_precision_loss, reason = "clock ticks of minutes")]
        let share = others as f64 / since(|it| it.all).max(1) as f64;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_is_busy_and_not_ours() {
        let process = |own| format!("7 (a (b) c) S 1 7 7 0 -1 4 1 2 3 4 {own} 2 3 5 20 0 1 0\n");
        let before = Times::read("cpu  10 1 20 60 2 0 3 4 0 0\ncpu0 1\n", &process(10)).unwrap();
        assert_eq!(before, Times { all: 100, busy: 38, own: 20 });
        let after = Times::read("cpu  70 1 20 80 12 0 3 14 0 0\n", &process(60)).unwrap();
        assert!((after.others_since(before) - 0.2).abs() < 1e-9);
        assert!(before.others_since(after).abs() < 1e-9);
        assert_eq!(Times::read("cpu 1 2\n", &process(1)), None);
        assert_eq!(Times::read("cpu  10 1 20 60 2 0 3 4 0 0\n", "7 (x) S 1"), None);
        assert!(Times::now().is_some());
    }
}

//! Timers on threads that take stacks of what runs, without privileges.
//!
//! The kernel starts such a timer at each switch to its thread and cancels it at the next one.
//! Where switches are many, threads have timers in the first part of a window only, and the more
//! stacks are taken in it. What the switches are, the window before says.

use super::ON_CPU_HZ;
use crate::stack::Clocks;
use crate::{sys, thinning};
use std::time::Duration;

/// Most stacks a second of CPU.
const MOST_HZ: u64 = 997;
/// The least time that threads have timers in a window, ns.
const LEAST_TIMED: u64 = 20_000_000;
/// A window that has the timers of all has them so many times as long.
const FOR_ALL: u64 = 8;
/// What is taken for granted of the window before the first.
const UNKNOWN: LastWindow = LastWindow { switches: 50_000.0, length: 1_000_000_000 };

/// What a window says of the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastWindow {
    /// Switches a second and core.
    pub(super) switches: f64,
    /// ns.
    pub(super) length: u64,
}

/// Timers on the threads, in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    /// Stacks a second of CPU.
    pub(super) hz: u64,
    /// How long the threads have them, ns.
    pub(super) length: u64,
}

impl Timing {
    /// As many stacks in all, however short; the first window takes it that switches are many.
    /// Where it is to be `sparing`, that window's stacks have to do for all: the kernel looks for
    /// timers at every switch of every thread while anyone has had one within the last second.
    pub(super) fn after(last: Option<LastWindow>, sparing: bool) -> Self {
        let LastWindow { switches, length } = last.unwrap_or(UNKNOWN);
        let share = thinning::timed(switches).0;
        if share >= 1.0 {
            return Self { hz: ON_CPU_HZ, length: u64::MAX };
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of a window, and a frequency that is capped"
        )]
        let (hz, length) = ((ON_CPU_HZ as f64 / share) as u64, (length as f64 * share) as u64);
        let length = match (sparing, last) {
            (true, Some(_)) => 0,
            (true, None) => length.max(LEAST_TIMED).saturating_mul(FOR_ALL),
            (false, _) => length.max(LEAST_TIMED),
        };
        Self { hz: hz.min(MOST_HZ), length }
    }
}

/// Timers on the threads, and until when they stay, monotonic ns.
pub(super) struct Timers {
    clocks: Clocks,
    until: u64,
}

impl Timers {
    pub(super) fn new(clocks: Clocks, until: u64) -> Self {
        Self { clocks, until }
    }
}

/// Sleeps so long. Timers whose time is over meanwhile are taken off then.
pub(super) fn rest(interval: Duration, timers: &mut Option<Timers>) {
    let now = sys::monotonic();
    let left = |timers: &Timers| Duration::from_nanos(timers.until.saturating_sub(now));
    let Some(left) = timers.as_ref().map(left).filter(|left| *left < interval) else {
        std::thread::sleep(interval);
        return;
    };
    std::thread::sleep(left);
    if let Some(over) = timers.take() {
        over.clocks.take_off();
    }
    std::thread::sleep(interval.saturating_sub(left));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{StackCollector, StackOptions};

    #[test]
    fn timers_stay_for_as_long_as_they_are_cheap_and_take_the_more() {
        let after = |switches, ms: u64| {
            Timing::after(Some(LastWindow { switches, length: ms * 1_000_000 }), false)
        };
        assert_eq!(after(1_000.0, 500), Timing { hz: ON_CPU_HZ, length: u64::MAX });
        assert_eq!(after(25_000.0, 500), Timing { hz: ON_CPU_HZ * 10, length: 50_000_000 });
        assert_eq!(after(1e9, 100), Timing { hz: MOST_HZ, length: LEAST_TIMED });
        assert!(Timing::after(None, false).length < 100_000_000, "nothing is known of the first");
    }

    #[test]
    fn the_first_window_s_stacks_do_for_all_where_they_are_dear() {
        let after = |last: Option<f64>| {
            let window = |switches| LastWindow { switches, length: 1_000_000_000 };
            Timing::after(last.map(window), true).length
        };
        assert_eq!(after(None), 8 * Timing::after(None, false).length);
        assert_eq!(after(Some(25_000.0)), 0);
        assert_eq!(after(Some(1_000.0)), u64::MAX, "they are cheap");
    }

    /// Perf events that this process has open.
    fn open_timers() -> usize {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("perf_event")).count()
    }

    #[test]
    fn timers_come_off_when_their_time_is_over() {
        let cpus = crate::proc::tasks::allowed_cpus();
        let options =
            StackOptions { cpus, on_cpu_hz: ON_CPU_HZ, stack_bytes: 1024, system_wide: false };
        let busy = std::thread::spawn(|| {
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_millis(300) {
                std::hint::black_box((0..500_u64).sum::<u64>());
            }
        });
        let own = [kneepoint_machine::own_pid()];
        let mut stacks = StackCollector::open(&options).unwrap();
        let before = open_timers();
        let clocks = match stacks.begin_at(&own, MOST_HZ) {
            Ok(clocks) => clocks,
            Err(error) => {
                println!("SKIP timers_come_off_when_their_time_is_over: {error}");
                return;
            }
        };
        let with = open_timers();
        let until = sys::monotonic() + 50_000_000;
        let mut timers = Some(Timers::new(clocks, until));
        rest(Duration::from_millis(10), &mut timers);
        assert!(timers.is_some() && open_timers() == with && with >= before + 2);
        rest(Duration::from_millis(100), &mut timers);
        assert!(timers.is_none() && open_timers() < with);
        busy.join().unwrap();
        assert!(!stacks.end().on_cpu.is_empty(), "what they took is there");
    }
}

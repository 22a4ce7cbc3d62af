//! How much of a slice is watched where threads switch very often, and for how much of it threads
//! have timers.
//!
//! The collector's programs run at each switch and each wake-up, so that watching costs by the
//! switch. Where that would be dear, the window is the last part of the time that operations are
//! counted over: throughput is of all of it, the ledger of the part
//! (docs/decisions/0098-many-switches-are-watched-for-a-part-of-the-time.md).

use kneepoint_machine::proc::stat::read_switches;
use kneepoint_vocab::{Nanos, Ratio};
use std::time::Instant;

/// What a switch and the wake-up before it cost while a window is open, in seconds: measured by
/// `cargo xtask bench-probe` on two threads that pass bytes back and forth on one core.
const SWITCH: f64 = 250e-9;
/// The part of the throughput that watching may take.
const MOST: f64 = 0.01;
/// Less than this part of a slice says too little of it.
const LEAST: f64 = 0.2;
/// What a timer on a thread costs at each switch to it, in seconds: the kernel starts and cancels
/// one of its own. From what many threads lost with timers all the time
/// (docs/decisions/0100-timers-on-threads-for-a-part-of-the-time.md).
const TIMER_SWITCH: f64 = 2e-6;
/// The part of the throughput that timers may take, and the least of the time that threads have
/// one.
const TIMERS_MOST: f64 = 0.005;
const TIMERS_LEAST: f64 = 0.02;
/// So long switches are counted before what they say is believed.
pub const LOOK: Nanos = Nanos::from_millis(50);

/// The part of the time that is watched where each core switches so often a second; 0.2 to 1.
pub(crate) fn share(switches: f64) -> Ratio {
    Ratio(affordable(switches * SWITCH, MOST).max(LEAST))
}

/// The part of the time that threads have timers where each core switches so often a second; 0.02
/// to 1.
pub(crate) fn timed(switches: f64) -> Ratio {
    Ratio(affordable(switches * TIMER_SWITCH, TIMERS_MOST).max(TIMERS_LEAST))
}

/// The part of the time that what costs `cost` may go on, where it may cost `most` in all.
fn affordable(cost: f64, most: f64) -> f64 {
    if cost > most { most / cost } else { 1.0 }
}

/// Counts the machine's switches.
#[derive(Debug)]
pub struct Switching {
    begun: Instant,
    switches: Option<u64>,
}

impl Switching {
    /// Begins to count.
    #[must_use]
    pub fn start() -> Self {
        Self { begun: Instant::now(), switches: read_switches() }
    }

    /// How much longer to count before [`LOOK`] has passed.
    #[must_use]
    pub fn left(&self) -> Nanos {
        let passed = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos(LOOK.0.saturating_sub(passed))
    }

    /// Switches a second since the start on each of so many cores; 0 where nothing tells.
    #[must_use]
    pub fn per_core(&self, cores: usize) -> f64 {
        let switched = self.switches.zip(read_switches());
        let more = switched.map_or(0, |(then, now)| now.saturating_sub(then));
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let (more, cores) = (more as f64, cores.max(1) as f64);
        more / self.begun.elapsed().as_secs_f64().max(f64::MIN_POSITIVE) / cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_switches_the_less_is_watched() {
        assert_eq!(share(0.0), Ratio(1.0));
        assert_eq!(share(40_000.0), Ratio(1.0), "1 % of a core");
        assert!((share(80_000.0).0 - 0.5).abs() < 1e-9, "2 % of a core");
        assert_eq!(share(1e7), Ratio(LEAST));
        assert_eq!(share(f64::NAN).0.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn timers_are_on_threads_for_as_long_as_they_are_cheap() {
        assert_eq!(timed(0.0), Ratio(1.0));
        assert_eq!(timed(2_500.0), Ratio(1.0), "0.5 % of a core");
        assert!((timed(25_000.0).0 - 0.1).abs() < 1e-9);
        assert_eq!(timed(f64::INFINITY), Ratio(TIMERS_LEAST));
    }

    #[test]
    fn switches_of_the_machine_are_counted() {
        let switching = Switching::start();
        while switching.left() > Nanos(0) {
            std::thread::sleep(switching.left().duration());
        }
        let (one, two) = (switching.per_core(1), switching.per_core(2));
        assert!(one > 0.0 && two > 0.0 && two < one, "this thread alone switched: {one} {two}");
    }
}

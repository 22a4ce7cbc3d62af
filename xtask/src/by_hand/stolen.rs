//! What the hypervisor takes meanwhile. Kneepoint repeats slices in which it took something, so
//! seconds by hand in which it did are left out too: else the two would not speak of one machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(100);
/// A generator needs some time until its first second begins.
const LATE: f64 = 0.3;
/// A second in which more than this share of the cores' time was taken is left out.
const MOST: f64 = 0.02;

/// What was taken until a moment of a run.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Seconds since its begin.
    at: f64,
    stolen: u64,
    all: u64,
}

/// Looks at one run.
#[derive(Debug, Default)]
pub(super) struct Stolen(Vec<Look>);

impl Stolen {
    /// Does something, and looks meanwhile.
    pub(super) fn during<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (begun, over) = (Instant::now(), AtomicBool::new(false));
        let look = || {
            let mut looks = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
                let at = begun.elapsed().as_secs_f64();
                looks.extend(times(&text).map(|(stolen, all)| Look { at, stolen, all }));
                std::thread::sleep(EVERY);
            }
            looks
        };
        std::thread::scope(|scope| {
            let looks = scope.spawn(look);
            let done = work();
            over.store(true, Ordering::Relaxed);
            (done, Self(looks.join().unwrap_or_default()))
        })
    }

    /// Whether the second that ends there was left alone.
    pub(super) fn left_alone(&self, end: f64) -> bool {
        let inside = |look: &&Look| (end - 1.0..=end + LATE).contains(&look.at);
        let mut looks = self.0.iter().filter(inside);
        let (Some(first), Some(last)) = (looks.next(), looks.next_back()) else { return true };
        let (stolen, all) = (last.stolen - first.stolen, last.all - first.all);
        #[allow(clippy::cast_precision_loss, reason = "clock ticks of a second")]
        let share = stolen as f64 / all.max(1) as f64;
        share <= MOST
    }
}

/// Clock ticks taken by the hypervisor, and all, of the first line of `/proc/stat`.
fn times(text: &str) -> Option<(u64, u64)> {
    // cpu user nice system idle iowait irq softirq steal guest guest_nice; proc_stat(5)
    let words = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    (ticks.len() == 8).then(|| (ticks[7], ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_what_was_taken() {
        let text = "cpu  10 1 20 60 2 0 3 4 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(times(text), Some((4, 100)));
        assert_eq!(times("cpu 1 2\n"), None);
        assert_eq!(times(""), None);
    }

    #[test]
    fn a_second_is_judged_by_what_was_taken_in_it() {
        let looks = (0..50_u32).map(|tenth| Look {
            at: f64::from(tenth) / 10.0,
            stolen: if tenth < 35 { 0 } else { 40 },
            all: 20 * u64::from(tenth),
        });
        let seen = Stolen(looks.collect());
        assert!(seen.left_alone(1.0) && seen.left_alone(3.0));
        assert!(!seen.left_alone(4.0));
        assert!(seen.left_alone(40.0), "nobody looked");
        let (done, seen) = Stolen::during(|| 7);
        assert!(done == 7 && seen.0.len() <= 2, "{seen:?}");
    }
}

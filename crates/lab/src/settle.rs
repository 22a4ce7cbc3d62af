//! How the clients of a slice come to rest: the course of their throughput, and whether it is
//! steady.
//!
//! Clients that have just started are slower than they will be: connections are made one after
//! another, caches are cold, threads find their cores. The window opens once the latest steps no
//! longer drift, at most after a while; whether it was steady from end to end is reported
//! afterwards.

use anyhow::{Result, ensure};
use kneepoint_rig::{System, Tally};
use kneepoint_stats::change_point::change_points;
use kneepoint_stats::interval::mean;
use kneepoint_vocab::{Nanos, PerSecond, Settling};

/// How often the count is asked for: one step of the series.
pub(crate) const STEP: Nanos = Nanos::from_millis(100);
/// Steps that are looked at to tell whether the clients have settled.
const RECENT: usize = 8;
/// The two halves of the recent steps may differ by this share whatever the noise,
const SMALL: f64 = 0.05;
/// and by this one where noise explains it.
const LARGE: f64 = 0.15;
/// Two regimes of a window that differ by less are one.
const REGIMES: f64 = 0.10;
/// Steps that make a regime.
const SHORTEST: usize = 3;

/// The counts of a slice from the start of its clients on.
#[derive(Debug, Default)]
pub(crate) struct Course {
    tallies: Vec<Tally>,
}

impl Course {
    /// Asks the system for its count; false where it has none to tell.
    pub(crate) fn look(&mut self, system: &mut dyn System) -> Result<bool> {
        let Some(tally) = system.progress()? else { return Ok(false) };
        if let Some(last) = self.tallies.last() {
            ensure!(
                tally.operations >= last.operations,
                "the count of operations ran backwards, from {} to {}",
                last.operations,
                tally.operations
            );
        }
        if self.tallies.last().is_none_or(|last| tally.at > last.at) {
            self.tallies.push(tally);
        }
        Ok(true)
    }

    pub(crate) fn settled(&self) -> bool {
        settled(&rates(&self.tallies))
    }

    /// The record of it, for a window that opened so long after the start of the clients; none
    /// where nothing was reported.
    pub(crate) fn settling(&self, after: Nanos) -> Option<Settling> {
        let series = rates(&self.tallies);
        if series.is_empty() {
            return None;
        }
        let opened = usize::try_from(after.0 / STEP.0).unwrap_or(usize::MAX);
        Some(Settling {
            after,
            steady: steady(series.get(opened..).unwrap_or_default()),
            step: STEP,
            series: series.into_iter().map(PerSecond).collect(),
        })
    }
}

/// Operations a second in equal steps from the first tally on. Between two tallies they ended
/// evenly.
#[allow(clippy::cast_precision_loss, reason = "counts and nanoseconds are far below 2^53")]
fn rates(tallies: &[Tally]) -> Vec<f64> {
    let (Some(first), Some(last)) = (tallies.first(), tallies.last()) else { return Vec::new() };
    let count_at = |at: u64| {
        let after = tallies.partition_point(|tally| tally.at.0 < at).clamp(1, tallies.len() - 1);
        let (left, right) = (tallies[after - 1], tallies[after]);
        let part = (at - left.at.0) as f64 / (right.at.0 - left.at.0) as f64;
        left.operations as f64 + part * (right.operations - left.operations) as f64
    };
    let steps = (last.at.0 - first.at.0) / STEP.0;
    let edges: Vec<f64> = match steps {
        0 => Vec::new(),
        _ => (0..=steps).map(|step| count_at(first.at.0 + step * STEP.0)).collect(),
    };
    edges.windows(2).map(|edge| (edge[1] - edge[0]) / STEP.seconds().0).collect()
}

/// Whether the latest steps drift no more: the means of their halves differ by little, or by no
/// more than twice the standard error of that difference.
#[allow(clippy::cast_precision_loss, reason = "a few steps")]
fn settled(series: &[f64]) -> bool {
    let Some(from) = series.len().checked_sub(RECENT) else { return false };
    let (left, right) = series[from..].split_at(RECENT / 2);
    let (before, after) = (mean(left), mean(right));
    let difference = (after - before).abs();
    let level = f64::midpoint(before, after);
    let variance = |part: &[f64], mean: f64| {
        let squares: f64 = part.iter().map(|x| (x - mean).powi(2)).sum();
        squares / (part.len() - 1) as f64 / part.len() as f64
    };
    let error = (variance(left, before) + variance(right, after)).sqrt();
    level > 0.0 && (difference <= SMALL * level || difference <= (2.0 * error).min(LARGE * level))
}

/// Whether a window was of one regime: no two stretches between change points differ by much.
fn steady(series: &[f64]) -> bool {
    let mut edges = change_points(series);
    edges.insert(0, 0);
    edges.push(series.len());
    let stretches = edges.windows(2).map(|edge| &series[edge[0]..edge[1]]);
    let means: Vec<f64> = stretches.filter(|part| part.len() >= SHORTEST).map(mean).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    means.iter().all(|mean| *mean <= least * (1.0 + REGIMES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_stats::random::Generator;

    fn noisy(level: impl Fn(usize) -> f64, steps: usize, noise: f64, seed: u64) -> Vec<f64> {
        let mut generator = Generator::new(seed);
        (0..steps).map(|step| level(step) * (1.0 + noise * generator.normal())).collect()
    }

    /// The step after which the series first counts as settled.
    fn settles(series: &[f64]) -> Option<usize> {
        (1..=series.len()).find(|length| settled(&series[..*length]))
    }

    #[test]
    fn quiet_clients_settle_at_once() {
        for seed in 0..50 {
            let series = noisy(|_| 4000.0, 40, 0.03, seed);
            assert!(settles(&series).unwrap() <= RECENT + 4, "{series:?}");
        }
    }

    #[test]
    fn a_step_from_2400_to_4900_is_waited_out_and_seen() {
        for seed in 0..50 {
            let series = noisy(|step| if step < 6 { 2400.0 } else { 4900.0 }, 40, 0.05, seed);
            let after = settles(&series).unwrap();
            assert!(after >= 6 + RECENT / 2, "{after}: {series:?}");
            let window = noisy(|step| if step < 12 { 2400.0 } else { 4900.0 }, 24, 0.05, seed);
            assert!(!steady(&window), "{window:?}");
        }
    }

    #[test]
    fn a_slow_start_is_waited_out() {
        let mut early = 0;
        for seed in 0..50 {
            let level = |step: usize| 4900.0 - 2500.0 * (-(step as f64) / 8.0).exp();
            let series = noisy(level, 60, 0.03, seed);
            let after = settles(&series).unwrap();
            early += u32::from(level(after) < 0.9 * 4900.0);
        }
        assert!(early <= 5, "{early} of 50 opened 10 % below");
    }

    #[test]
    fn a_window_that_drifts_from_2400_to_4900_is_not_steady() {
        for seed in 0..50 {
            let window = noisy(|step| 2400.0 + 2500.0 * step as f64 / 29.0, 30, 0.05, seed);
            assert!(!steady(&window), "{window:?}");
        }
    }

    #[test]
    fn noise_alone_is_seldom_two_regimes() {
        let alarms = (0..200).filter(|seed| !steady(&noisy(|_| 4000.0, 24, 0.06, *seed))).count();
        assert!(alarms <= 10, "{alarms} of 200");
        assert!(steady(&[]) && steady(&[1.0]));
    }

    #[test]
    fn clients_that_stand_still_have_not_settled() {
        assert!(!settled(&[0.0; 20]) && !settled(&[5.0; RECENT - 1]) && settled(&[5.0; RECENT]));
    }

    #[test]
    fn tallies_at_odd_times_become_equal_steps() {
        let tally = |millis, operations| Tally { at: Nanos::from_millis(millis), operations };
        // 1000 a second from 50 ms on, then 2000 a second.
        let tallies = [tally(50, 10), tally(130, 90), tally(250, 210), tally(450, 610)];
        let found = rates(&tallies);
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        assert!(near(found[0], 1000.0) && near(found[1], 1000.0) && near(found[2], 2000.0));
        assert_eq!(found.len(), 4);
        assert!(rates(&tallies[..1]).is_empty() && rates(&[]).is_empty());
    }

    #[test]
    fn the_window_is_judged_from_its_begin() {
        let mut course = Course::default();
        let mut operations = 0;
        for step in 0..=40 {
            course.tallies.push(Tally { at: Nanos(step * STEP.0), operations });
            operations += if step < 12 { 100 } else { 400 };
        }
        let from = |millis| course.settling(Nanos::from_millis(millis)).unwrap();
        assert!(from(1200).steady && !from(500).steady);
        assert_eq!(from(1200).series.len(), 40);
        assert_eq!(Course::default().settling(Nanos(0)), None);
    }
}

//! Replications beside each other: the same seeds give the same bits on any number of workers.

use super::SimError;
use super::program::Compiled;
use super::steady::{Outcome, Settings, simulate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A scenario to simulate, and how.
#[derive(Clone, Copy, Debug)]
pub struct Replicated<'a> {
    /// What.
    pub twin: &'a Compiled,
    /// How; its seed is that of the replication.
    pub settings: Settings,
}

/// Simulates all scenarios on `workers` threads; results in the order of the scenarios.
#[must_use]
pub fn replicate(jobs: &[Replicated<'_>], workers: usize) -> Vec<Result<Outcome, SimError>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Outcome, SimError>>>> =
        Mutex::new((0..jobs.len()).map(|_| None).collect());
    let work = || {
        while let Some((index, job)) = claim(jobs, &next) {
            let outcome = simulate(job.twin, &job.settings);
            let mut all = results.lock().unwrap_or_else(|poison| poison.into_inner());
            all[index] = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers.clamp(1, jobs.len().max(1)) {
            // Where no thread is to be had, those that there are do all of it.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let done = results.into_inner().unwrap_or_else(|poison| poison.into_inner());
    done.into_iter().flatten().collect()
}

fn claim<'a, 'b>(
    jobs: &'b [Replicated<'a>],
    next: &AtomicUsize,
) -> Option<(usize, &'b Replicated<'a>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

/// The seed of a replication, far from those of its neighbours (Steele, Lea and Flood 2014).
#[must_use]
pub fn seed_of(seed: u64, replication: u64) -> u64 {
    let mut z = seed.wrapping_add(replication.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! How long to simulate: warm-up, batch means, a stopping rule.
//!
//! The warm-up is judged by the marginal standard error rule (White 1997) on batches of operations:
//! what precedes the least standard error of the rest is deleted, and the trial goes on as long as
//! that is half of it. Then batches of equal numbers of operations are gathered, doubled in length
//! while neighbours are correlated, until the interval of their mean is narrow enough.

use super::ledger::{Account, SimulatedLedger};
use super::machine::Machine;
use super::program::Compiled;
use super::{SimError, seconds};
use kneepoint_stats::distribution::student_quantile;
use kneepoint_vocab::{PerSecond, Ratio, Seconds};
use std::sync::OnceLock;

/// How to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all chance.
    pub seed: u64,
    /// Half width of the interval of throughput, relative to it, at which to stop.
    pub precision: Ratio,
    /// Confidence of that interval.
    pub confidence: Ratio,
    /// Most events.
    pub budget: u64,
    /// Operations of the first batches, at least one for each client: fewer give a quicker and
    /// rougher answer.
    pub batch: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            precision: Ratio(0.01),
            confidence: Ratio(CONFIDENCE),
            budget: 1_000_000_000,
            batch: 64,
        }
    }
}

/// What one replication gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Operations each second.
    pub throughput: PerSecond,
    /// Half width of its interval, relative to it.
    pub half_width: Ratio,
    /// Whether the precision asked for was reached and the warm-up ended.
    pub settled: bool,
    /// Mean time from start to end of an operation; of what lies in the window, for the first.
    pub response: Seconds,
    /// The ledgers.
    pub ledger: SimulatedLedger,
    /// What they were made from.
    pub account: Account,
    /// Operations deleted as warm-up.
    pub warm_up: u64,
    /// Events in all.
    pub events: u64,
}

/// The usual confidence.
const CONFIDENCE: f64 = 0.95;
/// Batches of the first look, and of the trial of the warm-up.
const FEWEST: usize = 30;
const PILOT: usize = 20;
/// Batches at which pairs are joined.
const MOST: usize = 60;
/// Correlation of neighbours above which batches are too short.
const CORRELATED: f64 = 0.25;
const PILOT_DOUBLINGS: u32 = 12;

/// Simulates one replication until throughput is known well enough.
///
/// # Errors
/// Deadlock, no progress, a program that does what cannot be done, or nothing known within the
/// budget. A budget that ends after the first look gives an outcome that is not `settled`.
pub fn simulate(twin: &Compiled, settings: &Settings) -> Result<Outcome, SimError> {
    let mut machine = Machine::new(twin, settings.seed);
    let first = u64::from(twin.clients()).max(settings.batch).max(1);
    let (mut length, warm, warm_up) = warm_up(&mut machine, first, settings.budget)?;
    machine.forget();
    let mut durations: Vec<f64> = Vec::with_capacity(MOST);
    let mut mark = machine.now;
    let mut operations = 0;
    let (mut known, mut half_width) = (false, f64::INFINITY);
    loop {
        // A batch ends with the operation that fills it; some end at the same instant.
        operations += length;
        match machine.run_until(operations, settings.budget) {
            Err(SimError::Budget { .. }) if durations.len() >= FEWEST => break,
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        durations.push(seconds(machine.now - mark));
        mark = machine.now;
        let full = durations.len() == MOST;
        if durations.len() >= FEWEST && durations.len().is_multiple_of(10) {
            half_width = relative_half_width(&durations, settings.confidence.0);
            known = half_width <= settings.precision.0 && correlation(&durations) < CORRELATED;
            if known {
                break;
            }
        }
        if full {
            durations = join(&durations);
            length *= 2;
        }
    }
    let account = machine.close();
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let completed = account.operations as f64;
    let throughput = completed / seconds(account.window());
    Ok(Outcome {
        throughput: PerSecond(throughput),
        half_width: Ratio(half_width),
        settled: warm && known,
        response: Seconds(seconds(account.response) / completed.max(1.0)),
        ledger: SimulatedLedger::of(twin, &account),
        account,
        warm_up,
        events: machine.events,
    })
}

/// Runs until the beginning is over: the length of a batch, whether it is over, operations so far.
fn warm_up(
    machine: &mut Machine<'_>,
    first: u64,
    budget: u64,
) -> Result<(u64, bool, u64), SimError> {
    let mut length = first;
    let mut durations = Vec::new();
    let (mut operations, mut mark) = (0, 0);
    for _ in 0..=PILOT_DOUBLINGS {
        while durations.len() < PILOT {
            operations += length;
            match machine.run_until(operations, budget / 2) {
                // As many operations again fit into the rest: a first look at shorter batches.
                Err(SimError::Budget { .. }) if length > first => {
                    let done = machine.account.operations;
                    return Ok(((done / (2 * FEWEST as u64)).max(1), false, done));
                }
                over => over?,
            }
            durations.push(seconds(machine.now - mark));
            mark = machine.now;
        }
        if deleted(&durations) < PILOT / 2 {
            return Ok((length, true, operations));
        }
        durations = join(&durations);
        length *= 2;
    }
    Ok((length, false, operations))
}

/// Batches to delete: where the standard error of the mean of the rest is least.
#[allow(clippy::cast_precision_loss, reason = "few batches")]
fn deleted(durations: &[f64]) -> usize {
    let error = |from: usize| {
        let rest = &durations[from..];
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        rest.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count * count)
    };
    let candidates = 0..=durations.len() / 2;
    candidates.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0)
}

#[allow(clippy::cast_precision_loss, reason = "few batches")]
fn relative_half_width(durations: &[f64], confidence: f64) -> f64 {
    let count = durations.len() as f64;
    let mean = durations.iter().sum::<f64>() / count;
    let square = durations.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1.0);
    student(confidence, durations.len()) * (square / count).sqrt() / mean
}

/// Quantile of Student's distribution for the mean of so many batches. Looks are frequent and their
/// numbers few, so those of the usual confidence are kept.
#[allow(clippy::cast_precision_loss, reason = "few batches")]
fn student(confidence: f64, count: usize) -> f64 {
    static USUAL: OnceLock<Vec<f64>> = OnceLock::new();
    let of = |confidence: f64, count: usize| {
        student_quantile(0.5 + 0.5 * confidence, count as f64 - 1.0)
    };
    if confidence.to_bits() != CONFIDENCE.to_bits() {
        return of(confidence, count);
    }
    let usual = USUAL.get_or_init(|| (2..=MOST).map(|count| of(CONFIDENCE, count)).collect());
    usual.get(count.wrapping_sub(2)).copied().unwrap_or_else(|| of(confidence, count))
}

/// Correlation of neighbouring batches.
#[allow(clippy::cast_precision_loss, reason = "few batches")]
fn correlation(durations: &[f64]) -> f64 {
    let mean = durations.iter().sum::<f64>() / durations.len() as f64;
    let all: f64 = durations.iter().map(|x| (x - mean) * (x - mean)).sum();
    let near: f64 = durations.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    if all > 0.0 { near / all } else { 0.0 }
}

fn join(durations: &[f64]) -> Vec<f64> {
    durations.chunks_exact(2).map(|two| two[0] + two[1]).collect()
}

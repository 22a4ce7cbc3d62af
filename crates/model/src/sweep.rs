//! Many levels of a twin: seeds beside each other, their mean and its interval.

use crate::sim::{
    LedgerLine, LockAccount, Outcome, Replicated, Settings, SimError, replicate, seed_of,
};
use crate::twin::{Twin, TwinError, Wanted};
use kneepoint_stats::distribution::student_quantile;
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::{Cores, Level, PerSecond, Ratio, Seconds};
use serde::Serialize;

/// Replications of each level.
pub const SEEDS: u32 = 5;
/// What one replication is asked for, relative to the precision of the mean of all: with five seeds
/// the interval of the mean is then about as wide as asked.
const EACH: f64 = 1.5;
/// Operations that the first look at a level takes at least, for each client.
const FIRST_LOOK: f64 = 50.0;
/// Memory that simulated machines may take at once, bytes.
const MEMORY: u64 = 4 << 30;

/// How to sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sweep {
    /// Seed of all chance.
    pub seed: u64,
    /// Half width of the interval of throughput that is aimed at.
    pub precision: Ratio,
    /// Events in all.
    pub budget: u64,
    /// Worker threads; they change nothing but how long it takes.
    pub workers: usize,
}

/// Why nothing was simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SweepError {
    /// The twin cannot be simulated at some level.
    #[error(transparent)]
    Twin(#[from] TwinError),
    /// More events than allowed.
    #[error(
        "about {0:.1e} events are needed and {1:.1e} allowed: give fewer levels, a coarser \
         --precision, or --budget {0:.0e}"
    )]
    Budget(f64, f64),
    /// More memory than allowed.
    #[error("about {0} GiB of memory are needed for {1} clients on {2} cores, 4 are allowed")]
    Memory(u64, u32, u32),
}

/// One level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The level.
    pub level: Level,
    /// Mean throughput over the seeds.
    pub throughput: PerSecond,
    /// Half width of its 95 % interval, relative to it.
    pub half_width: Ratio,
    /// Mean time of an operation.
    pub response: Seconds,
    /// Busy cores.
    pub busy: Cores,
    /// Where cores were; in all C.
    pub core: Vec<Line>,
    /// Where an operation's time goes; in all N / X.
    pub thread: Vec<Line>,
    /// Locks.
    pub locks: Vec<Locked>,
    /// Whether every seed reached its precision within the budget.
    pub settled: bool,
    /// Events of all seeds.
    pub events: u64,
}

/// A line of a ledger: cores, or seconds of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its kind, as in a measured ledger.
    pub kind: LineKind,
    /// The object; empty where there is none. Copies of one object are one line.
    pub object: String,
    /// Mean over the seeds.
    pub amount: f64,
}

/// A lock, its copies taken together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Locked {
    /// Its name.
    pub name: String,
    /// Part of the window in which a copy was held.
    pub held: f64,
    /// Times taken for one operation.
    pub visits: f64,
}

/// Simulates all levels.
///
/// # Errors
/// A twin that is wrong at a level, or that needs more than is allowed.
pub fn sweep(
    twin: &Twin,
    levels: &[Level],
    how: &Sweep,
) -> Result<Vec<Result<Simulated, SimError>>, SweepError> {
    let outcomes = outcomes(twin, levels, how)?;
    // A twin may have a number of clients of its own.
    let own = levels.iter().map(|level| match twin.compile(wanted(level)) {
        Ok(it) if it.clients() > 0 => Level { clients: it.clients(), ..*level },
        _ => *level,
    });
    Ok(outcomes.iter().zip(own).map(|(seeds, level)| together(twin, level, seeds)).collect())
}

fn wanted(level: &Level) -> Wanted {
    Wanted { clients: Some(level.clients), cores: Some(level.cores) }
}

/// Simulates all levels: for each, what every seed gave.
///
/// # Errors
/// A twin that is wrong at a level, or that needs more than is allowed.
pub fn outcomes(
    twin: &Twin,
    levels: &[Level],
    how: &Sweep,
) -> Result<Vec<Vec<Result<Outcome, SimError>>>, SweepError> {
    let mut needs = Vec::with_capacity(levels.len());
    for level in levels {
        let estimate = twin.estimate(wanted(level));
        let at_once = estimate.memory.saturating_mul(how.workers as u64);
        if at_once > MEMORY {
            return Err(SweepError::Memory(at_once >> 30, level.clients, level.cores));
        }
        let looks = FIRST_LOOK * f64::from(level.clients.max(64));
        let narrow = (2.0 / (EACH * how.precision.0)).powi(2);
        needs.push(estimate.events_per_operation * looks.max(narrow) * f64::from(SEEDS));
    }
    let all: f64 = needs.iter().sum();
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let budget = how.budget as f64;
    if all > budget {
        return Err(SweepError::Budget(all, budget));
    }
    let compiled = levels.iter().map(|level| twin.compile(wanted(level)));
    let compiled = compiled.collect::<Result<Vec<_>, _>>()?;
    let mut jobs = Vec::new();
    for (index, twin) in compiled.iter().enumerate() {
        for number in 0..SEEDS {
            let place = index as u64 * u64::from(SEEDS) + u64::from(number);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            let budget = (budget * needs[index] / all / f64::from(SEEDS)) as u64;
            let settings = Settings {
                seed: seed_of(how.seed, place),
                precision: Ratio(EACH * how.precision.0),
                budget,
                ..Settings::default()
            };
            jobs.push(Replicated { twin, settings });
        }
    }
    let outcomes = replicate(&jobs, how.workers);
    Ok(outcomes.chunks(SEEDS as usize).map(<[_]>::to_vec).collect())
}

/// The mean over the seeds of a level, or the first failure.
fn together(
    twin: &Twin,
    level: Level,
    seeds: &[Result<Outcome, SimError>],
) -> Result<Simulated, SimError> {
    let outcomes = seeds.iter().cloned().collect::<Result<Vec<Outcome>, SimError>>()?;
    let rates: Vec<f64> = outcomes.iter().map(|it| it.throughput.0).collect();
    let average = mean(rates.iter().copied());
    let square = mean(rates.iter().map(|x| (x - average) * (x - average)));
    let others = f64::from(SEEDS - 1);
    let half = student_quantile(0.975, others) * (square / others).sqrt();
    let mut core = Vec::new();
    let mut thread = Vec::new();
    let mut locks: Vec<Locked> = Vec::new();
    let part = 1.0 / f64::from(SEEDS);
    for outcome in &outcomes {
        add(&mut core, twin, &outcome.ledger.core, |cores: &Cores| part * cores.0);
        add(&mut thread, twin, &outcome.ledger.thread, |it: &Seconds| part * it.0);
        outcome.ledger.locks.iter().for_each(|lock| add_lock(&mut locks, twin, lock, part));
    }
    let idle: f64 = core.iter().filter(|line| line.kind.is_idle()).map(|line| line.amount).sum();
    Ok(Simulated {
        level,
        throughput: PerSecond(average),
        half_width: Ratio(half / average),
        response: Seconds(mean(outcomes.iter().map(|it| it.response.0))),
        busy: Cores((f64::from(level.cores) - idle).max(0.0)),
        core,
        thread,
        locks,
        settled: outcomes.iter().all(|it| it.settled),
        events: outcomes.iter().map(|it| it.events).sum(),
    })
}

#[allow(clippy::cast_precision_loss, reason = "few seeds")]
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn add<U>(all: &mut Vec<Line>, twin: &Twin, lines: &[LedgerLine<U>], amount: impl Fn(&U) -> f64) {
    for line in lines {
        let object = twin.object(&line.object);
        let found = all.iter_mut().find(|it| it.kind == line.kind && it.object == object);
        match found {
            Some(own) => own.amount += amount(&line.amount),
            None => all.push(Line {
                kind: line.kind,
                object: object.to_owned(),
                amount: amount(&line.amount),
            }),
        }
    }
}

fn add_lock(all: &mut Vec<Locked>, twin: &Twin, lock: &LockAccount, part: f64) {
    let name = twin.object(&lock.name);
    let copies = twin.lock.get(name).map_or(1, |it| it.copies);
    let (held, visits) = (part * lock.held.0 / f64::from(copies), part * lock.visits);
    match all.iter_mut().find(|it| it.name == name) {
        Some(own) => {
            own.held += held;
            own.visits += visits;
        }
        None => all.push(Locked { name: name.to_owned(), held, visits }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = include_str!("../tests/twins/network.toml");

    fn levels(clients: &[u32]) -> Vec<Level> {
        clients.iter().map(|&clients| Level { clients, cores: 8 }).collect()
    }

    fn how(workers: usize) -> Sweep {
        Sweep { seed: 4, precision: Ratio(0.02), budget: 100_000_000, workers }
    }

    #[test]
    fn a_curve_has_intervals_and_ledgers_that_add_up() {
        let text = NETWORK.replace("count = 64", "count = \"clients\"");
        let twin = Twin::parse(&text).expect("valid");
        let curve = sweep(&twin, &levels(&[1, 8, 64]), &how(2)).expect("allowed");
        for (point, exact) in curve.iter().zip([1.0 / 1.4e-6, f64::NAN, 7.9991e6]) {
            let point = point.as_ref().expect("simulated");
            assert!(point.settled && point.half_width.0 < 0.04, "{point:?}");
            let away = (point.throughput.0 / exact - 1.0).abs();
            assert!(exact.is_nan() || away < 0.03, "{} {exact}", point.throughput.0);
            let cores: f64 = point.core.iter().map(|line| line.amount).sum();
            assert!((cores / 8.0 - 1.0).abs() < 1e-9);
            let life: f64 = point.thread.iter().map(|line| line.amount).sum();
            let expected = f64::from(point.level.clients) / point.throughput.0;
            assert!((life / expected - 1.0).abs() < 0.01, "{life} {expected}");
            let device = point.thread.iter().filter(|line| line.object == "lock").count();
            assert_eq!(device, 1, "four copies are one line: {:?}", point.thread);
        }
        assert_eq!(sweep(&twin, &levels(&[1, 8, 64]), &how(7)).expect("allowed"), curve);
    }

    #[test]
    fn what_would_take_too_much_is_not_begun() {
        let twin = Twin::parse(NETWORK).expect("valid");
        let small = Sweep { budget: 1000, ..how(1) };
        let refused = sweep(&twin, &levels(&[64]), &small).expect_err("too many events");
        assert!(refused.to_string().contains("--budget"), "{refused}");
        let text = NETWORK.replace("count = 64", "count = \"clients\"");
        let twin = Twin::parse(&text).expect("valid");
        let refused = sweep(&twin, &levels(&[u32::MAX]), &how(16)).expect_err("too much memory");
        assert!(matches!(refused, SweepError::Memory(..)), "{refused}");
    }
}

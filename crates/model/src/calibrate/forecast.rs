//! What a calibrated twin says of levels and changes that nobody measured.
//!
//! An interval has three parts, as logarithms: how far the twin is off at the levels that it was
//! fitted to, how far sets of parameters that fit as well differ in their answer, and the distance
//! from what was measured. How often such intervals hold the truth is counted on runs whose upper
//! levels were kept from the calibration (docs/prediction.md).

use super::CalibrateError;
use super::fit::{Calibrated, parse};
use super::observed::Observed;
use super::text::Parameters;
use crate::sim::{Replicated, Settings, replicate, seed_of};
use crate::twin::{Change, LockType, Twin, Wanted};
use kneepoint_vocab::findings::{Altered, Next, TwinForecast, WhatIf};
use kneepoint_vocab::{Findings, Level, PerSecond, Ratio};

/// Seeds of one answer.
const SEEDS: u64 = 3;
/// Precision of one.
const PRECISION: f64 = 0.015;
/// Events of one at most.
const EVENTS: u64 = 20_000_000;
/// 5 % and 95 % of a normal distribution.
const Z: f64 = 1.645;
/// Least standard error of a forecast: that of the machine from day to day.
const LEAST: f64 = 0.03;
/// Standard error that each doubling beyond what was measured adds.
const DOUBLING: f64 = 0.05;
/// A doubling of the cores adds more: what they share was not seen at work.
const CORES: f64 = 0.12;
/// A change of the system adds this: the CPU of an operation may change with it.
const CHANGED: f64 = 0.05;
/// Beyond the measured levels by more than this, nothing is said.
const FURTHEST: u32 = 8;
const MOST_CORES: u32 = 4;
/// Parts that a lock is split into on trial, and how much faster cores are.
const PARTS: u32 = 16;
const FASTER: f64 = 1.1;
/// A twin that is off by more than this at an upper level is not used.
const USABLE: f64 = 0.25;

/// What is asked: a level, and changes of the system.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The level.
    pub level: Level,
    /// Changes, all at once.
    pub changes: Vec<Change>,
}

/// What the twin answers.
///
/// # Errors
/// A twin that misses what was measured, a level too far away, a change that cannot be made.
pub fn forecast(
    twin: &Calibrated,
    asked: &Asked,
    seed: u64,
    workers: usize,
) -> Result<TwinForecast, CalibrateError> {
    usable(twin)?;
    let seen = &twin.observed;
    let Level { clients, cores } = asked.level;
    if clients > FURTHEST.saturating_mul(seen.most())
        || cores > MOST_CORES.saturating_mul(seen.cores)
    {
        let far = format!(
            "{clients} clients on {cores} cores are too far from what was measured, up to {} on {}: \
             measure to at least {} on {}",
            seen.most(),
            seen.cores,
            clients.div_ceil(FURTHEST),
            cores.div_ceil(MOST_CORES)
        );
        return Err(CalibrateError::Far(far));
    }
    crowds(twin, asked)?;
    let plain = Asked { level: Level { clients, cores: seen.cores }, changes: Vec::new() };
    let sets: Vec<&Parameters> = std::iter::once(&twin.best).chain(&twin.others).collect();
    let mut answers = Vec::with_capacity(sets.len());
    for set in sets {
        let own = parse(seen, set)?;
        let base = answer(&own, &plain, seed, workers)?;
        let changed = if *asked == plain { base } else { answer(&own, asked, seed, workers)? };
        answers.push((base, changed));
        if without(asked) {
            // Whether the CPU that crowding adds goes with the lock is not known: both are tried.
            let mut eased = own;
            eased.cores.crowding.clear();
            answers.push((base, answer(&eased, asked, seed, workers)?));
        }
    }
    // A cause pays for the CPU that its waits bring with them, so the second is the better guess.
    if without(asked) {
        answers.swap(0, 1);
    }
    let (base, changed) = answers[0];
    let doublings = |most: u32, asked: u32| (f64::from(asked) / f64::from(most)).log2().max(0.0);
    let far = DOUBLING * doublings(seen.most(), clients) + CORES * doublings(seen.cores, cores);
    let changes = if asked.changes.is_empty() { 0.0 } else { CHANGED };
    let spread_of = |value: &dyn Fn(&(f64, f64)) -> f64| {
        let best = value(&answers[0]).ln();
        answers.iter().map(|it| (value(it).ln() - best).abs()).fold(0.0, f64::max) / Z
    };
    let error = |spread: f64| {
        let parts = [twin.error.0.max(LEAST), spread, far, changes];
        Z * parts.iter().map(|it| it * it).sum::<f64>().sqrt()
    };
    let wide = error(spread_of(&|it| it.1));
    // A ratio is free of what the twin is off by in both; what is changed is not.
    let ratio = changed / base;
    let narrow = if *asked == plain { 0.0 } else { error(spread_of(&|it| it.1 / it.0)) };
    Ok(TwinForecast {
        level: asked.level,
        throughput: PerSecond(changed),
        low: PerSecond(changed * (-wide).exp()),
        high: PerSecond(changed * wide.exp()),
        ratio: Ratio(ratio),
        ratio_low: Ratio(ratio * (-narrow).exp()),
        ratio_high: Ratio(ratio * narrow.exp()),
    })
}

fn without(asked: &Asked) -> bool {
    asked.changes.iter().any(|change| matches!(change, Change::Without(_)))
}

/// What clients that wait for a core cost each other is measured or not known.
fn crowds(twin: &Calibrated, asked: &Asked) -> Result<(), CalibrateError> {
    let seen = &twin.observed;
    if seen.most() <= seen.cores && asked.level.clients > asked.level.cores {
        return Err(CalibrateError::Far(format!(
            "no level with more clients than the {} cores was measured, so what they cost each \
             other is not known: measure {} clients",
            seen.cores,
            2 * seen.cores
        )));
    }
    Ok(())
}

/// Whether the twin does at the upper levels what the system did.
fn usable(twin: &Calibrated) -> Result<(), CalibrateError> {
    let from = twin.residuals.len() / 2;
    let upper = twin.residuals[from..].iter();
    let worst = upper.max_by(|a, b| a.off().abs().total_cmp(&b.off().abs()));
    match worst {
        Some(it) if it.off().abs() > USABLE => Err(CalibrateError::Misses(format!(
            "{} clients by {:+.0} %",
            it.clients,
            100.0 * (it.off().exp() - 1.0)
        ))),
        _ => Ok(()),
    }
}

/// Mean throughput over the seeds.
fn answer(twin: &Twin, asked: &Asked, seed: u64, workers: usize) -> Result<f64, CalibrateError> {
    let cannot = |what: String| CalibrateError::Cannot(what);
    let mut own = twin.clone();
    for change in &asked.changes {
        own = own.with(change).map_err(|it| cannot(it.to_string()))?;
    }
    let Level { clients, cores } = asked.level;
    let wanted = Wanted { clients: Some(clients), cores: Some(cores) };
    let compiled = own.compile(wanted).map_err(|it| cannot(it.to_string()))?;
    let jobs: Vec<Replicated<'_>> = (0..SEEDS)
        .map(|number| Replicated {
            twin: &compiled,
            settings: Settings {
                seed: seed_of(seed, number),
                precision: Ratio(PRECISION),
                budget: EVENTS,
                ..Settings::default()
            },
        })
        .collect();
    let mut sum = 0.0;
    for outcome in replicate(&jobs, workers) {
        sum += outcome.map_err(|it| cannot(it.to_string()))?.throughput.0;
    }
    #[allow(clippy::cast_precision_loss, reason = "few seeds")]
    Ok(sum / SEEDS as f64)
}

/// What the twin says to the usual cures at a level: each lock gone, split, of another kind, the
/// CPU of a cause saved; faster and more cores. Greatest gain first.
///
/// # Errors
/// As [`forecast`].
pub fn experiments(
    twin: &Calibrated,
    clients: u32,
    seed: u64,
    workers: usize,
) -> Result<Vec<WhatIf>, CalibrateError> {
    let seen = &twin.observed;
    let mut wanted = Vec::new();
    for lock in &seen.locks {
        let lock = || lock.name.clone();
        wanted.push(Altered::Without { lock: lock() });
        wanted.push(Altered::Split { lock: lock(), parts: PARTS });
        wanted.push(Altered::Queued { lock: lock() });
    }
    for (cause, _) in &seen.cpu {
        wanted.push(Altered::Saved { cause: cause.clone() });
    }
    wanted.push(Altered::Faster { factor: Ratio(FASTER) });
    wanted.push(Altered::Cores { cores: 2 * seen.cores });
    let mut all = Vec::new();
    for change in wanted {
        let forecast = forecast(twin, &asked(seen, &change, clients), seed, workers)?;
        let first_cause = match &change {
            Altered::Without { lock: name } | Altered::Saved { cause: name } => {
                seen.first_cause.as_ref() == Some(name)
            }
            _ => false,
        };
        all.push(WhatIf { change, first_cause, forecast });
    }
    all.sort_by(|a, b| b.forecast.ratio.0.total_cmp(&a.forecast.ratio.0));
    Ok(all)
}

/// A change at so many clients, as it is asked of the twin.
fn asked(seen: &Observed, change: &Altered, clients: u32) -> Asked {
    let mut level = Level { clients, cores: seen.cores };
    let changes = match change {
        Altered::Without { lock } => vec![Change::Without(lock.clone())],
        Altered::Split { lock, parts } => vec![Change::Split(lock.clone(), *parts)],
        Altered::Queued { lock } => vec![Change::Kind(lock.clone(), LockType::Mcs)],
        Altered::Saved { cause } => {
            // CPU that falls by a part takes as long as on cores that are faster in proportion.
            let part = seen.cpu.iter().find(|(name, _)| name == cause).map_or(0.0, |it| it.1.0);
            vec![Change::Speed(1.0 / (1.0 - part.clamp(0.0, 0.95)))]
        }
        Altered::Faster { factor } => vec![Change::Speed(factor.0)],
        Altered::Cores { cores } => {
            level.cores = *cores;
            Vec::new()
        }
    };
    Asked { level, changes }
}

/// What next: the twin of a run, calibrated, and what it says of changes at the level where causes
/// are ranked and of twice the clients and cores; or why there is none. The same findings give the
/// same answer on any number of workers.
#[must_use]
pub fn next(findings: &Findings, workers: usize) -> Next {
    answered(findings, workers)
        .unwrap_or_else(|why| Next { why_not: Some(why.to_string()), ..Next::default() })
}

fn answered(findings: &Findings, workers: usize) -> Result<Next, CalibrateError> {
    let seed = findings.protocol.seed;
    let seen = Observed::of(findings)?;
    let twin = super::calibrate(&seen, seed, workers)?;
    let (most, cores) = (seen.most(), seen.cores);
    let clients = findings.focus.clients;
    let what_if = experiments(&twin, clients, seed, workers)?;
    let mut levels = Vec::new();
    for level in [
        Level { clients: most, cores: 2 * cores },
        Level { clients: 2 * most, cores },
        Level { clients: 2 * most, cores: 2 * cores },
    ] {
        match forecast(&twin, &Asked { level, changes: Vec::new() }, seed, workers) {
            Ok(one) => levels.push(one),
            Err(CalibrateError::Far(_)) => {}
            Err(other) => return Err(other),
        }
    }
    let Calibrated { error, residuals, open, .. } = twin;
    Ok(Next { why_not: None, error, residuals, what_if, levels, open })
}

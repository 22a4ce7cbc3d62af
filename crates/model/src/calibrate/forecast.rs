//! What a calibrated twin says of levels and changes that nobody measured.
//!
//! An interval has three parts, as logarithms: how far the twin is off at the levels that it was
//! fitted to, how far sets of parameters that fit as well differ in their answer, and the distance
//! from what was measured. How often such intervals hold the truth is counted on runs whose upper
//! levels were kept from the calibration (docs/prediction.md).

use super::CalibrateError;
use super::fit::{Calibrated, parse};
use super::text::Parameters;
use crate::sim::{Replicated, Settings, replicate, seed_of};
use crate::twin::{Change, LockType, Twin, Wanted};
use kneepoint_vocab::{Level, PerSecond, Ratio};
use serde::Serialize;

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
const DOUBLING: f64 = 0.08;
/// A doubling of the cores adds more: what they share was not seen at work.
const CORES: f64 = 0.12;
/// A change of the system adds this: the CPU of an operation may change with it.
const CHANGED: f64 = 0.05;
/// Beyond the measured levels by more than this, nothing is said.
const FURTHEST: u32 = 8;
const MOST_CORES: u32 = 4;
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

/// A forecast by a calibrated twin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TwinForecast {
    /// The level.
    pub level: Level,
    /// Throughput.
    pub throughput: PerSecond,
    /// Lower end of its 90 % interval.
    pub low: PerSecond,
    /// Upper end.
    pub high: PerSecond,
    /// Over the system as it is, at the same clients on the measured cores.
    pub ratio: Ratio,
    /// Lower end of its 90 % interval.
    pub ratio_low: Ratio,
    /// Upper end.
    pub ratio_high: Ratio,
}

/// A change of the system, tried on its twin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// What is changed: `without mutex in f`, `twice the cores`.
    pub change: String,
    /// What it brings.
    pub forecast: TwinForecast,
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
    if clients > FURTHEST.saturating_mul(seen.most()) || cores > MOST_CORES.saturating_mul(seen.cores)
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
fn answer(
    twin: &Twin,
    asked: &Asked,
    seed: u64,
    workers: usize,
) -> Result<f64, CalibrateError> {
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

/// What the twin says to the usual cures at a level: each lock gone, split, of another kind; faster
/// and more cores. Greatest gain first.
///
/// # Errors
/// As [`forecast`].
pub fn experiments(
    twin: &Calibrated,
    clients: u32,
    seed: u64,
    workers: usize,
) -> Result<Vec<WhatIf>, CalibrateError> {
    let cores = twin.observed.cores;
    let here = Level { clients, cores };
    let mut wanted: Vec<(String, Asked)> = Vec::new();
    for lock in &twin.observed.locks {
        let name = || lock.name.clone();
        let one = |change| Asked { level: here, changes: vec![change] };
        wanted.push((format!("without {}", name()), one(Change::Without(name()))));
        wanted.push((format!("{} split in 16", name()), one(Change::Split(name(), 16))));
        let spins = one(Change::Kind(name(), LockType::Mcs));
        wanted.push((format!("{} as an MCS lock", name()), spins));
    }
    let faster = Asked { level: here, changes: vec![Change::Speed(1.1)] };
    wanted.push(("cores 1.1 times as fast".to_owned(), faster));
    let twice = Asked { level: Level { clients, cores: 2 * cores }, changes: Vec::new() };
    wanted.push(("twice the cores".to_owned(), twice));
    let mut all = Vec::new();
    for (change, asked) in wanted {
        all.push(WhatIf { change, forecast: forecast(twin, &asked, seed, workers)? });
    }
    all.sort_by(|a, b| b.forecast.ratio.0.total_cmp(&a.forecast.ratio.0));
    Ok(all)
}

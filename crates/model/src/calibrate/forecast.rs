//! What a calibrated twin says of levels and changes that nobody measured.
//!
//! An interval has three parts, as logarithms: how far the twin is off at the levels that it was
//! fitted to, how far sets of parameters that fit as well differ in their answer, and the distance
//! from what was measured. How often such intervals hold the truth is counted on runs whose upper
//! levels were kept from the calibration (docs/prediction.md).

use super::failed;
use super::fit::{Calibrated, parse, usable};
use super::library::Library;
use super::observed::{CpuCause, Observed};
use crate::sim::{Replicated, Settings, replicate, seed_of};
use crate::twin::{Change, LockType, Twin, Wanted};
use kneepoint_vocab::findings::{
    Altered, Estimate, Next, NoTwin, TwinForecast, Undetermined, WhatIf,
};
use kneepoint_vocab::{Findings, Level, PerSecond, Ratio};
use std::collections::BTreeMap;

/// Seeds of one answer.
const SEEDS: u64 = 2;
/// Precision of one: well below the least error of a forecast.
const PRECISION: f64 = 0.02;
/// That of sets of parameters that fit as well: of them only the greatest difference counts.
const PRECISION_OF_OTHERS: f64 = 0.04;
/// Events of one at most: where visits to a lock are rare, operations differ so much that precision
/// would take many times as many.
const EVENTS: u64 = 500_000;
const EVENTS_OF_CLIENT: u64 = 5_000;
/// Operations of a batch.
const BATCH: u64 = 32;
/// 5 % and 95 % of a normal distribution.
const Z: f64 = 1.645;
/// 97.5 % of it: intervals of measured ratios are of 95 %.
const Z_95: f64 = 1.96;
/// Least standard error of a forecast: that of the machine from day to day.
const LEAST: f64 = 0.03;
/// Standard error that each doubling beyond what was measured adds, where the CPU of an operation
/// stays what it is; where it changes with the clients it may go on doing so.
const DOUBLING: f64 = 0.05;
/// A doubling of the cores adds more: what they share was not seen at work.
const CORES: f64 = 0.25;
/// A change of the system adds this: the CPU of an operation may change with it.
const CHANGED: f64 = 0.05;
/// Standard error of the logarithm of a variant's ratio after one doubling, as a part of it.
const ELSEWHERE: f64 = 0.25;
/// Beyond the measured levels by more than this, nothing is said.
const FURTHEST: u32 = 8;
const MOST_CORES: u32 = 4;
/// Most of the CPU that can be saved: a lock that is spun for may take nearly all.
const MOST_SAVED: f64 = 0.999;
/// Parts that a lock is split into on trial, and how much faster cores are.
const PARTS: u32 = 16;
const FASTER: f64 = 1.1;

/// What is asked: a level, and changes of the system.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The level.
    pub level: Level,
    /// Changes, all at once.
    pub changes: Vec<Change>,
}

/// What a variant brought at the level where it was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// The level.
    pub level: Level,
    /// Throughput over that of the baseline, with its interval of 95 %.
    pub ratio: Estimate<Ratio>,
}

/// A calibrated twin that can be asked.
#[derive(Debug)]
pub struct Oracle<'a> {
    of: &'a Calibrated,
    /// With the best parameters, then with others that fit as well.
    twins: Vec<Twin>,
    /// Answers for the system as it is, by clients.
    plain: BTreeMap<u32, Vec<f64>>,
    seed: u64,
    workers: usize,
}

impl<'a> Oracle<'a> {
    /// Of a calibrated twin.
    ///
    /// # Errors
    /// A twin that misses what was measured.
    pub fn new(of: &'a Calibrated, seed: u64, workers: usize) -> Result<Self, NoTwin> {
        usable(of)?;
        let sets = std::iter::once(&of.best).chain(&of.others);
        let twins = sets.map(|set| parse(&of.observed, set)).collect::<Result<_, _>>()?;
        Ok(Self { of, twins, plain: BTreeMap::new(), seed, workers })
    }

    /// What the twin answers.
    ///
    /// # Errors
    /// A level too far away, a change that cannot be made.
    pub fn ask(&mut self, asked: &Asked) -> Result<TwinForecast, NoTwin> {
        let seen = &self.of.observed;
        let (level, changes) = match &seen.confined {
            Some(confined) => confined.placed(asked.level, &asked.changes),
            None => (asked.level, asked.changes.clone()),
        };
        let (changes, guess) = as_understood(seen, &changes);
        self.answer(&Asked { level, changes }, guess)
    }

    /// What the twin answers, and how far that is from a better guess of what changes, where there
    /// is one.
    fn answer(
        &mut self,
        asked: &Asked,
        guess: Option<Vec<Change>>,
    ) -> Result<TwinForecast, NoTwin> {
        near(&self.of.observed, asked)?;
        let (most, measured) = (self.of.observed.most(), self.of.observed.cores);
        let Level { clients, cores } = asked.level;
        let here = Asked { level: Level { clients, cores: measured }, changes: Vec::new() };
        let mut base = match self.plain.get(&clients) {
            Some(known) => known.clone(),
            None => self.answers(&here, &self.twins)?,
        };
        self.plain.insert(clients, base.clone());
        let same = *asked == here;
        let mut changed = if same { base.clone() } else { self.answers(asked, &self.twins)? };
        if let Some(changes) = guess {
            let guess = Asked { level: asked.level, changes };
            changed.insert(0, self.answers(&guess, &self.twins[..1])?[0]);
            base.insert(0, base[0]);
        }
        let doublings = |from: u32, to: u32| (f64::from(to) / f64::from(from)).log2().max(0.0);
        let each = DOUBLING + self.of.observed.drift();
        let far = each * doublings(most, clients) + CORES * doublings(measured, cores);
        let changes = if asked.changes.is_empty() { 0.0 } else { CHANGED };
        let error = |values: &[f64]| {
            let away = values.iter().map(|x| (x / values[0]).ln().abs()).fold(0.0, f64::max);
            let parts = [self.of.error.0.max(LEAST), away / Z, far, changes];
            Z * parts.iter().map(|it| it * it).sum::<f64>().sqrt()
        };
        let ratios: Vec<f64> = changed.iter().zip(&base).map(|(a, b)| a / b).collect();
        let wide = error(&changed);
        let narrow = if same { 0.0 } else { error(&ratios) };
        Ok(forecast(asked.level, (changed[0], wide), (ratios[0], narrow)))
    }

    /// What the twin answers to one of the usual cures, at so many clients.
    ///
    /// # Errors
    /// As [`Oracle::ask`].
    pub fn ask_change(&mut self, change: &Altered, clients: u32) -> Result<TwinForecast, NoTwin> {
        let seen = &self.of.observed;
        let asked = asked(seen, change, clients);
        let is_it = |cause: &CpuCause| *change == Altered::Saved { cause: cause.name.clone() };
        if seen.cpu.iter().any(|cause| cause.contends && is_it(cause)) {
            // What is taken away with it is more than its own part wherever that was measured: all
            // the CPU that crowding adds is the better guess.
            return self.answer(&asked, Some(vec![Change::Uncrowded]));
        }
        if let Altered::Library { lock } = change {
            let alone = library(seen, lock).map_or(0.0, |it| it.alone.0);
            let gone = Change::Without(lock.clone());
            return self.answer(&asked, Some(vec![gone, Change::Uncrowded, saved(alone)]));
        }
        self.ask(&asked)
    }

    /// What the twin answers, times what a variant brought where it was tried, beyond what the
    /// changes bring there by themselves. That it brings as much elsewhere is assumed: each
    /// doubling of clients or cores from there may take away or add a quarter of it, which widens
    /// the interval. With a lock that the variant replaces among the changes, tried at one client,
    /// the variant's part is what it costs itself, where nobody waits.
    ///
    /// # Errors
    /// As [`Oracle::ask`]; a ratio that is none.
    pub fn ask_tried(&mut self, asked: &Asked, tried: &Tried) -> Result<TwinForecast, NoTwin> {
        let Estimate { value, low, high, .. } = tried.ratio;
        if !(low.0 > 0.0 && value.0.is_finite() && high.0.is_finite()) {
            return Err(NoTwin::NoRatio);
        }
        let plain = self.ask(asked)?;
        let (known, unsure) = self.known_there(asked, tried.level)?;
        let rest = value.0 / known;
        let level = asked.level;
        let doublings = |a: u32, b: u32| (f64::from(a) / f64::from(b)).log2().abs();
        let far = doublings(level.clients, tried.level.clients)
            + doublings(level.cores, tried.level.cores);
        let own = (high.0 / low.0).ln() / (2.0 * Z_95);
        let elsewhere = (far * DOUBLING).hypot(far.sqrt() * ELSEWHERE * rest.ln().abs());
        let added = (Z * own.hypot(elsewhere)).hypot(unsure);
        let wide = (plain.high.0 / plain.throughput.0).ln().hypot(added);
        let narrow = (plain.ratio_high.0 / plain.ratio.0).ln().hypot(added);
        let (throughput, ratio) = (plain.throughput.0 * rest, plain.ratio.0 * rest);
        Ok(forecast(level, (throughput, wide), (ratio, narrow)))
    }

    /// What the changes bring by themselves at a level, and how far the logarithm of that is sure.
    /// One client waits for nobody, and needs no more CPU than one client does.
    fn known_there(&mut self, asked: &Asked, level: Level) -> Result<(f64, f64), NoTwin> {
        let is_faster = asked.changes.iter().any(|change| matches!(change, Change::Speed(_)));
        if asked.changes.is_empty() || level.clients == 1 && !is_faster {
            return Ok((1.0, 0.0));
        }
        let there = self.ask(&Asked { level, changes: asked.changes.clone() })?;
        Ok((there.ratio.0, (there.ratio_high.0 / there.ratio.0).ln()))
    }

    /// Throughput that each of these twins gives, the best first, with the changes: its mean over
    /// the seeds.
    fn answers(&self, asked: &Asked, twins: &[Twin]) -> Result<Vec<f64>, NoTwin> {
        let Level { clients, cores } = asked.level;
        let wanted = Wanted { clients: Some(clients), cores: Some(cores) };
        let mut compiled = Vec::with_capacity(twins.len());
        for twin in twins {
            let mut own = twin.clone();
            for change in &asked.changes {
                own = own.with(change).map_err(failed)?;
            }
            compiled.push(own.compile(wanted).map_err(failed)?);
        }
        let settings = |set: usize, number: u64| Settings {
            seed: seed_of(self.seed, number),
            precision: Ratio(if set == 0 { PRECISION } else { PRECISION_OF_OTHERS }),
            budget: EVENTS + EVENTS_OF_CLIENT * u64::from(clients),
            batch: BATCH,
            ..Settings::default()
        };
        let jobs: Vec<Replicated<'_>> = compiled
            .iter()
            .enumerate()
            .flat_map(|(set, twin)| {
                (0..SEEDS).map(move |it| Replicated { twin, settings: settings(set, it) })
            })
            .collect();
        let mut rates = Vec::with_capacity(jobs.len());
        for outcome in replicate(&jobs, self.workers) {
            rates.push(outcome.map_err(failed)?.throughput.0);
        }
        #[allow(clippy::cast_possible_truncation, reason = "few seeds")]
        let seeds = SEEDS as usize;
        Ok(rates.chunks(seeds).map(kneepoint_stats::interval::mean).collect())
    }
}

/// Whether a level lies near enough to what was measured, and what crowding and giving up cores
/// cost there is known.
fn near(seen: &Observed, asked: &Asked) -> Result<(), NoTwin> {
    let Level { clients, cores } = asked.level;
    let (most, measured) = (seen.most(), seen.cores);
    if let Some(from) = seen.awake.filter(|from| clients < *from) {
        return Err(NoTwin::Asleep { clients, from });
    }
    if clients > FURTHEST.saturating_mul(most) {
        return Err(NoTwin::ManyClients { clients, measured: most, times: FURTHEST });
    }
    if cores > MOST_CORES.saturating_mul(measured) {
        return Err(NoTwin::ManyCores { cores, measured, times: MOST_CORES });
    }
    if most <= measured && clients > cores {
        return Err(NoTwin::NoCrowd { cores: measured });
    }
    let frees = |change: &Change| !matches!(change, Change::Speed(_) | Change::Uncrowded);
    match seen.yielding {
        Some(part) if clients > cores && asked.changes.iter().any(frees) => {
            Err(NoTwin::Yields { part })
        }
        _ => Ok(()),
    }
}

/// Changes as the twin understands them, and a better guess where locks go and nothing is known of
/// the CPU that goes with them. What costs CPU alone is no lock of the twin: its part is saved.
/// Whether the CPU that crowding adds goes with a lock is not known: both are tried. A cause pays
/// for the CPU that its waits bring, so that it goes is the better guess.
fn as_understood(seen: &Observed, asked: &[Change]) -> (Vec<Change>, Option<Vec<Change>>) {
    let of_cpu = |name: &String| seen.cpu.iter().find(|cause| cause.name == *name);
    let (mut plain, mut guess) = (Vec::new(), Vec::new());
    let is_known = asked.iter().any(|change| matches!(change, Change::Speed(_)));
    let mut eases = false;
    for change in asked {
        let cause = match change {
            Change::Without(name) => of_cpu(name),
            _ => None,
        };
        match cause {
            Some(cause) => {
                plain.push(saved(cause.part.0));
                if !cause.contends {
                    guess.push(saved(cause.part.0));
                }
                eases |= cause.contends;
            }
            None => {
                plain.push(change.clone());
                guess.push(change.clone());
                eases |= matches!(change, Change::Without(_));
            }
        }
    }
    guess.push(Change::Uncrowded);
    (plain, (eases && !is_known).then_some(guess))
}

/// What the twin says to the usual cures at a level: each lock gone, split, of another kind, the
/// CPU of a cause saved; faster and more cores. Greatest gain first. Without those that nothing is
/// known of, since threads give up their cores.
///
/// # Errors
/// As [`Oracle::ask`].
pub fn experiments(oracle: &mut Oracle<'_>, clients: u32) -> Result<Vec<WhatIf>, NoTwin> {
    let seen = &oracle.of.observed;
    let mut wanted = Vec::new();
    for lock in seen.locks.iter().filter(|lock| lock.waits > 0.0) {
        let name = || lock.name.clone();
        wanted.push(Altered::Without { lock: name() });
        if lock.library.is_some() {
            wanted.push(Altered::Library { lock: name() });
        }
        if lock.stage.is_none() {
            wanted.push(Altered::Split { lock: name(), parts: PARTS });
            wanted.push(Altered::Queued { lock: name() });
        }
    }
    for cause in &seen.cpu {
        let name = cause.name.clone();
        wanted.push(match cause.is_lock {
            true => Altered::Without { lock: name },
            false => Altered::Saved { cause: name },
        });
    }
    wanted.push(Altered::Faster { factor: Ratio(FASTER) });
    match &seen.confined {
        Some(confined) => wanted.push(Altered::Without { lock: confined.name.clone() }),
        None => wanted.push(Altered::Cores { cores: 2 * seen.cores }),
    }
    let mut all = Vec::new();
    for change in wanted {
        let forecast = match oracle.ask_change(&change, clients) {
            Err(NoTwin::Yields { .. }) => continue,
            answer => answer?,
        };
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
        Altered::Library { lock } => {
            let part = library(seen, lock).map_or(0.0, |it| it.part.0);
            vec![Change::Without(lock.clone()), saved(part)]
        }
        Altered::Saved { cause } => {
            let part = seen.cpu.iter().find(|it| it.name == *cause).map_or(0.0, |it| it.part.0);
            vec![saved(part)]
        }
        Altered::Faster { factor } => vec![Change::Speed(factor.0)],
        Altered::Cores { cores } => {
            level.cores = *cores;
            Vec::new()
        }
    };
    Asked { level, changes }
}

/// What the kernel does for the library that a lock is in.
fn library(seen: &Observed, lock: &str) -> Option<Library> {
    seen.locks.iter().find(|it| it.name == lock)?.library
}

/// A part of the CPU saved: it takes as long then as on cores that are faster in proportion.
fn saved(part: f64) -> Change {
    Change::Speed(1.0 / (1.0 - part.clamp(0.0, MOST_SAVED)))
}

/// What next: the twin of a run, calibrated, and what it says of changes at the level where causes
/// are ranked and of twice the clients and cores; or why there is none. The same findings give the
/// same answer on any number of workers.
#[must_use]
pub fn next(findings: &Findings, workers: usize) -> Next {
    answered(findings, workers).unwrap_or_else(|why| Next { why_not: Some(why), ..Next::default() })
}

fn answered(findings: &Findings, workers: usize) -> Result<Next, NoTwin> {
    let seed = findings.protocol.seed;
    let seen = Observed::of(findings)?;
    let twin = super::calibrate(&seen, seed, workers)?;
    let (most, cores) = (seen.most(), seen.cores);
    let mut oracle = Oracle::new(&twin, seed, workers)?;
    let what_if = experiments(&mut oracle, findings.focus.clients)?;
    let mut levels = Vec::new();
    let mut wanted = vec![Level { clients: 2 * most, cores }];
    if seen.confined.is_none() {
        let more = |clients| Level { clients, cores: 2 * cores };
        wanted = vec![more(most), wanted[0], more(2 * most)];
    }
    for level in wanted {
        match oracle.ask(&Asked { level, changes: Vec::new() }) {
            Ok(one) => levels.push(one),
            Err(why) if why.is_far() => {}
            Err(other) => return Err(other),
        }
    }
    let Calibrated { error, residuals, mut open, .. } = twin;
    let yielding = seen.yielding.filter(|_| !seen.locks.is_empty());
    open.extend(yielding.map(|part| Undetermined::Yields { part }));
    Ok(Next { why_not: None, error, residuals, what_if, levels, open })
}

/// A throughput and a ratio with intervals of so much of their logarithms to both sides.
fn forecast(level: Level, of: (f64, f64), to_base: (f64, f64)) -> TwinForecast {
    let ((throughput, wide), (ratio, narrow)) = (of, to_base);
    TwinForecast {
        level,
        throughput: PerSecond(throughput),
        low: PerSecond(throughput * (-wide).exp()),
        high: PerSecond(throughput * wide.exp()),
        ratio: Ratio(ratio),
        ratio_low: Ratio(ratio * (-narrow).exp()),
        ratio_high: Ratio(ratio * narrow.exp()),
    }
}

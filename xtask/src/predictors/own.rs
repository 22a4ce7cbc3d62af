//! `cargo xtask predictors --runs DIR...`: calibrated twins on runs of this machine. The last level
//! is taken out of the record, and forecast from what is left; a lock that a variant cures is taken
//! away from the twin, beside what the variant brought. With `--cores`, a run on few cores
//! forecasts one on more.

use anyhow::{Result, anyhow, bail};
use kneepoint_model::calibrate::{Asked, Observed, Oracle, calibrate};
use kneepoint_report::terminal::next as words;
use kneepoint_vocab::findings::{Altered, NoTwin, TwinForecast};
use kneepoint_vocab::{Findings, Level, RunRecord};
use std::path::Path;

const SEED: u64 = 1;
const WORKERS: usize = 2;

pub(super) fn run(directories: &[&str]) -> Result<()> {
    let (mut off, mut held) = (Vec::new(), 0);
    println!(
        "| run | level | forecast | 90 % interval | measured | off |\n|---|---|---|---|---|---|"
    );
    for directory in directories {
        let record = kneepoint_lab::open(Path::new(directory))?;
        let findings = kneepoint_analysis::analyse(&record);
        match last_level(record, &findings) {
            Ok((row, error, inside)) => {
                println!("| {directory}, {row}");
                off.push(error.abs());
                held += usize::from(inside);
            }
            Err(why) => println!("| {directory}, {} | {why} | | | | |", findings.recipe),
        }
        if let Err(why) = cures(&findings) {
            println!("| {directory}, {} without its lock | {why} | | | | |", findings.recipe);
        }
    }
    summed_up(&off, held)
}

/// Pairs of run directories of the same program, on fewer and on more cores: what the first says
/// of each level of the second with as many clients as were measured in both.
pub(super) fn on_more_cores(directories: &[&str]) -> Result<()> {
    let (mut off, mut held) = (Vec::new(), 0);
    println!(
        "| run | clients | cores | forecast | 90 % interval | measured | off |\n\
         |---|---|---|---|---|---|---|"
    );
    let (pairs, []) = directories.as_chunks::<2>() else {
        bail!("--cores wants pairs of run directories: fewer cores, more cores");
    };
    for [few, more] in pairs {
        match forecast_more(few, more) {
            Ok(rows) => {
                for (row, error, inside) in rows {
                    println!("| {row}");
                    off.push(error.abs());
                    held += usize::from(inside);
                }
            }
            Err(why) => println!("| {few} | {why} | | | | | |"),
        }
    }
    summed_up(&off, held)
}

fn forecast_more(few: &str, more: &str) -> Result<Vec<(String, f64, bool)>> {
    let (known, truth) = (findings(few)?, findings(more)?);
    let seen = Observed::of(&known).map_err(none)?;
    let twin = calibrate(&seen, SEED, WORKERS).map_err(none)?;
    let mut oracle = Oracle::new(&twin, SEED, WORKERS).map_err(none)?;
    let mut rows = Vec::new();
    for point in &truth.curve.points {
        let (level, measured) = (point.level, point.throughput.value.0);
        if level.clients > seen.most() || level.cores <= seen.cores || level.clients < level.cores {
            continue;
        }
        let said = oracle.ask(&Asked { level, changes: Vec::new() }).map_err(none)?;
        let at = format!("{} | {} from {}", level.clients, level.cores, seen.cores);
        rows.push(compared(&seen.name, &at, &said, measured));
    }
    Ok(rows)
}

fn summed_up(off: &[f64], held: usize) -> Result<()> {
    if off.is_empty() {
        bail!("no run has a forecast that was measured");
    }
    let median = 100.0 * kneepoint_stats::interval::median(off);
    println!("\nmedian {median:.1} % over {} forecasts, {held} within their intervals", off.len());
    Ok(())
}

fn findings(directory: &str) -> Result<Findings> {
    Ok(kneepoint_analysis::analyse(&kneepoint_lab::open(Path::new(directory))?))
}

fn none(why: NoTwin) -> anyhow::Error {
    anyhow!(words::no_twin(&why))
}

/// What the levels before the last say of it.
fn last_level(record: RunRecord, whole: &Findings) -> Result<(String, f64, bool)> {
    let [.., _, before, last] = &whole.curve.points[..] else { bail!("too few levels") };
    let known = kneepoint_analysis::analyse(&without_above(record, before.level.clients));
    let seen = Observed::of(&known).map_err(none)?;
    let twin = calibrate(&seen, SEED, WORKERS).map_err(none)?;
    let level = Level { clients: last.level.clients, cores: seen.cores };
    let asked = Asked { level, changes: Vec::new() };
    let said = Oracle::new(&twin, SEED, WORKERS).and_then(|mut it| it.ask(&asked));
    let said = said.map_err(none)?;
    let at = format!("{} from {}", level.clients, before.level.clients);
    Ok(compared(&seen.name, &at, &said, last.throughput.value.0))
}

/// The run as if no level above so many clients had been measured, so that none has a part in what
/// is found: which locks there are, what waits for them cost, when a stage is full.
fn without_above(mut record: RunRecord, clients: u32) -> RunRecord {
    record.trials.retain(|trial| trial.id.level.clients <= clients);
    record.plan.levels.retain(|level| level.clients <= clients);
    record.plan.focus.clients = record.plan.focus.clients.min(clients);
    record
}

/// A row of the table, the error, and whether the interval holds the truth.
fn compared(name: &str, at: &str, said: &TwinForecast, truth: f64) -> (String, f64, bool) {
    let (value, low, high) = (said.throughput.0, said.low.0, said.high.0);
    let error = value / truth - 1.0;
    let row = format!(
        "{name} | {at} | {value:.0} | {low:.0}–{high:.0} | {truth:.0} | {:+.1} % |",
        100.0 * error
    );
    (row, error, low <= truth && truth <= high)
}

/// Locks that a variant cured: what the twin says of them gone, and of another library where the
/// lock is in one, beside the variant.
fn cures(findings: &Findings) -> Result<()> {
    let seen = Observed::of(findings).map_err(none)?;
    let twin = calibrate(&seen, SEED, WORKERS).map_err(none)?;
    let cured = findings.causes.iter().find_map(|cause| {
        let name = cause.name.to_string();
        let lock = twin.observed.locks.iter().find(|lock| lock.name == name)?;
        let effect =
            findings.effects.iter().find(|it| Some(&it.variant) == cause.cured_by.as_ref())?;
        Some((lock, effect))
    });
    let Some((lock, effect)) = cured else { return Ok(()) };
    let Some(ratio) = effect.ratio else { return Ok(()) };
    let mut oracle = Oracle::new(&twin, SEED, WORKERS).map_err(none)?;
    let level = findings.effects_at.unwrap_or(findings.focus);
    let gone = Altered::Without { lock: lock.name.clone() };
    let another = lock.library.map(|_| Altered::Library { lock: lock.name.clone() });
    for (change, what) in [(Some(gone), "lock gone"), (another, "another library")] {
        let Some(change) = change else { continue };
        let said = oracle.ask_change(&change, level.clients).map_err(none)?;
        println!(
            "| {}: {}, {what} | {} | {:.2} | {:.2}–{:.2} | {:.2} | {:+.1} % |",
            findings.recipe,
            effect.label,
            level.clients,
            said.ratio.0,
            said.ratio_low.0,
            said.ratio_high.0,
            ratio.value.0,
            100.0 * (said.ratio.0 / ratio.value.0 - 1.0)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_kept_back_has_no_part_in_what_is_found() {
        let folder = crate::root().join("fixtures/runs/sqlite-shared-cache");
        let mut record = kneepoint_lab::open(&folder).expect("a run");
        let levels = |of: &Findings| -> Vec<u32> {
            of.curve.points.iter().map(|point| point.level.clients).collect()
        };
        let all = levels(&kneepoint_analysis::analyse(&record));
        let [kept @ .., most] = &all[..] else { panic!("{all:?}") };
        let before = *kept.last().expect("levels below");
        let known = kneepoint_analysis::analyse(&without_above(record.clone(), before));
        assert_eq!(levels(&known), kept);
        assert!(known.focus.clients <= before && !known.causes.is_empty(), "{:?}", known.focus);
        // Whatever was measured there, the same is said.
        for trial in record.trials.iter_mut().filter(|it| it.id.level.clients == *most) {
            trial.operations /= 2;
        }
        assert_eq!(kneepoint_analysis::analyse(&without_above(record, before)), known);
    }
}

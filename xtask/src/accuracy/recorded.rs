//! The score of today's rules on recorded runs: a rule that mends one diagnosis must not spoil
//! another.

use super::run::{folders, rescored};
use super::score::{Marks, Outcome, Scored};
use super::specimen::Specimen;
use anyhow::{Context, Result, ensure};
use kneepoint_stats::interval::median;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One run of each specimen, with debug information, 14 s each, on two cores.
const RUNS: &str = "fixtures/accuracy/two-cores.tar.gz";
/// The least part of the runs in which the first cause has to be the planted one. What is missing
/// is known: docs/accuracy.md.
const TOP_1: f64 = 0.93;
/// The least part of the shares' intervals that have to hold what specimens measured.
const COVERED: f64 = 0.8;
/// Shares may differ from what specimens measured by so many points in the median.
const SHARE_OFF: f64 = 0.10;

/// Findings of a run directory, as `kneepoint report --json` prints them.
fn findings(directory: &Path) -> Result<Value> {
    let record = kneepoint_lab::open(directory)?;
    let findings = kneepoint_analysis::analyse(&record);
    Ok(serde_json::from_str(&kneepoint_report::json::render(&findings))?)
}

fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let status =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(into).status().context("tar")?;
    ensure!(status.success(), "tar: {status}");
    Ok(())
}

/// All runs, judged on as many threads as there are cores.
fn judged(kept: &Path) -> Result<Vec<Scored>> {
    let specimens = Specimen::all(&crate::root().join("specimens"))?;
    let folders = folders(kept)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut scored = Vec::new();
    std::thread::scope(|scope| {
        let parts = folders.chunks(folders.len().div_ceil(threads).max(1)).map(|part| {
            let specimens = &specimens;
            let judge = move |folder| rescored(specimens, folder, findings);
            scope.spawn(move || part.iter().map(|f| judge(f.as_path())).collect::<Vec<_>>())
        });
        for part in parts.collect::<Vec<_>>() {
            scored.extend(part.join().into_iter().flatten());
        }
    });
    Ok(scored.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

#[test]
#[allow(clippy::cast_precision_loss, reason = "a few dozen runs")]
fn todays_rules_find_what_was_planted_in_recorded_runs() {
    let folder = tempfile::tempdir().unwrap();
    unpack(&crate::root().join(RUNS), folder.path()).unwrap();
    let scored = judged(folder.path()).unwrap();
    let planted: Vec<(&Scored, &Marks)> = scored
        .iter()
        .filter_map(|one| match &one.outcome {
            Outcome::Planted(marks) => Some((one, marks)),
            _ => None,
        })
        .collect();
    assert!(planted.len() >= 40, "{} runs of {}", planted.len(), scored.len());
    let alarms = scored.iter().filter(|one| one.outcome == Outcome::Null { alarm: true });
    assert_eq!(alarms.map(|one| &one.specimen).collect::<Vec<_>>(), Vec::<&String>::new());
    let wrong: Vec<&str> = planted
        .iter()
        .filter(|(_, marks)| !marks.top_1)
        .map(|(one, _)| one.specimen.as_str())
        .collect();
    let right = 1.0 - wrong.len() as f64 / planted.len() as f64;
    assert!(right >= TOP_1, "only {right:.2} of the first causes are right; wrong: {wrong:?}");
    let errors: Vec<f64> =
        planted.iter().flat_map(|(_, marks)| &marks.share_errors).map(|e| e.abs()).collect();
    let off = median(&errors);
    assert!(off <= SHARE_OFF, "shares are off by {off:.2} in the median");
    let covered: Vec<bool> =
        planted.iter().flat_map(|(_, marks)| marks.covered.iter().copied()).collect();
    let held = covered.iter().filter(|one| **one).count() as f64 / covered.len() as f64;
    assert!(held >= COVERED, "only {held:.2} of the intervals of shares hold the truth");
}

//! The score of today's rules on recorded runs: a rule that mends one diagnosis must not spoil
//! another.

use super::rules::judged;
use super::score::{Marks, Outcome, Scored};
use super::specimen::Specimen;
use anyhow::{Context, Result, ensure};
use kneepoint_analysis::Charging;
use kneepoint_stats::interval::median;
use std::path::Path;
use std::process::Command;

/// One run of each specimen, with debug information, 14 s each, on two cores.
const RUNS: &str = "fixtures/accuracy/two-cores.tar.gz";
/// The least part of the runs in which the first cause has to be the planted one. What is missing
/// is known: docs/accuracy.md.
const TOP_1: f64 = 0.93;
/// The least part of the shares' intervals that have to hold what specimens measured.
const COVERED: f64 = 0.85;
/// Shares may differ from what specimens measured by so many points in the median.
const SHARE_OFF: f64 = 0.10;

/// Rules whose shares are off by so nearly as much in the median are alike.
const ALIKE: f64 = 0.01;

fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let status =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(into).status().context("tar")?;
    ensure!(status.success(), "tar: {status}");
    Ok(())
}

/// What came of the recorded runs by a rule for idle cores.
fn recorded(rule: Charging) -> Vec<Scored> {
    let folder = tempfile::tempdir().unwrap();
    unpack(&crate::root().join(RUNS), folder.path()).unwrap();
    let specimens = Specimen::all(&crate::root().join("specimens")).unwrap();
    judged(folder.path(), &specimens, rule).unwrap()
}

/// The runs of planted causes.
fn of_planted(scored: &[Scored]) -> Vec<(&Scored, &Marks)> {
    let planted = scored.iter().filter_map(|one| match &one.outcome {
        Outcome::Planted(marks) => Some((one, marks)),
        _ => None,
    });
    planted.collect()
}

#[test]
fn todays_rules_find_what_was_planted_in_recorded_runs() {
    let scored = recorded(Charging::default());
    is_good_enough(&scored);
    let (right, off) = found(&scored);
    for rule in Charging::ALL.into_iter().filter(|rule| *rule != Charging::default()) {
        let (others, by) = found(&recorded(rule));
        let best = (right, ALIKE - off) >= (others, -by);
        assert!(best, "{}: {others} and off by {by:.3}, {right} and {off:.3}", rule.as_str());
    }
}

/// How many first causes are right, and by how much shares are off in the median.
fn found(scored: &[Scored]) -> (usize, f64) {
    let planted = of_planted(scored);
    let errors = planted.iter().flat_map(|(_, marks)| &marks.share_errors);
    let errors: Vec<f64> = errors.map(|error| error.abs()).collect();
    (planted.iter().filter(|(_, marks)| marks.top_1).count(), median(&errors))
}

#[allow(clippy::cast_precision_loss, reason = "a few dozen runs")]
fn is_good_enough(scored: &[Scored]) {
    let planted = of_planted(scored);
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
    let (_, off) = found(scored);
    assert!(off <= SHARE_OFF, "shares are off by {off:.2} in the median");
    let covered: Vec<bool> =
        planted.iter().flat_map(|(_, marks)| marks.covered.iter().copied()).collect();
    let held = covered.iter().filter(|one| **one).count() as f64 / covered.len() as f64;
    assert!(held >= COVERED, "only {held:.2} of the intervals of shares hold the truth");
}

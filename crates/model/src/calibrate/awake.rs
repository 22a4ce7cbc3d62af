//! Levels whose cores stay awake. With few clients a core sleeps between operations, and waking it
//! takes longer than they do: no twin has cores that sleep more or less deeply, so that it is
//! calibrated without such levels, if enough are left.

use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{CurvePoint, GainReason, LevelLedger};

/// Least levels that calibrate a twin.
pub(super) const LEAST_LEVELS: usize = 2;

/// A level's throughput beside its ledger.
pub(super) type Watched<'a> = (&'a CurvePoint, &'a LevelLedger);

/// The fewest clients that keep the cores awake: those behind the steps, from the first level on,
/// each of which brings more throughput than clients because cores sleep or work is dearer before.
fn fewest(findings: &Findings, pairs: &[Watched<'_>]) -> Option<u32> {
    let wakes = |from: u32, to: u32| {
        findings.superlinear.iter().any(|step| {
            (step.from.clients, step.to.clients) == (from, to)
                && matches!(step.reason, GainReason::SleepingCores | GainReason::DearerOperations)
        })
    };
    let clients = |pair: &Watched<'_>| pair.0.level.clients;
    let steps = pairs.windows(2).take_while(|step| wakes(clients(&step[0]), clients(&step[1])));
    steps.last().map(|step| clients(&step[1]))
}

/// Levels to calibrate with, and the fewest clients of them where others are left out.
pub(super) fn awake<'a>(
    findings: &Findings,
    pairs: Vec<Watched<'a>>,
) -> (Vec<Watched<'a>>, Option<u32>) {
    let Some(fewest) = fewest(findings, &pairs) else { return (pairs, None) };
    let left: Vec<Watched<'a>> =
        pairs.iter().filter(|(point, _)| point.level.clients >= fewest).copied().collect();
    if left.len() < LEAST_LEVELS { (pairs, None) } else { (left, Some(fewest)) }
}

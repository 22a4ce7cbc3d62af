//! Slices in which nothing was done: everything starved, or stood still.
//!
//! Such a slice is a measurement, not a failure, but no estimate of throughput can use it: those
//! are means of logarithms. So it is reported by itself, with what the threads did meanwhile.

use crate::number::seconds;
use kneepoint_vocab::findings::{Caveat, CaveatReason, Severity, Stall, StalledThreads};
use kneepoint_vocab::{
    Fact, Level, Ratio, RunRecord, ThreadRole, TrialRecord, VariantId, WaitReason,
};
use std::collections::BTreeMap;

/// Where slices passed without an operation, by variant and level.
pub(crate) fn stalls(record: &RunRecord) -> Vec<Stall> {
    let mut cells: BTreeMap<(&VariantId, Level), (Vec<&TrialRecord>, u32)> = BTreeMap::new();
    for trial in record.trials.iter().filter(|trial| trial.id.phase.measures()) {
        let cell = cells.entry((&trial.id.variant, trial.id.level)).or_default();
        if trial.is_stalled() {
            cell.0.push(trial);
        }
        cell.1 += u32::from(trial.is_stalled() || trial.counts());
    }
    let stalled = cells.into_iter().filter(|(_, (stalled, _))| !stalled.is_empty());
    stalled
        .map(|((variant, level), (trials, of))| Stall {
            variant: variant.clone(),
            level,
            slices: crate::number::tally(trials.len()),
            of,
            threads: threads(&trials),
        })
        .collect()
}

/// What the threads of these slices did: those of clients, or all where none is known to be one.
fn threads(trials: &[&TrialRecord]) -> Option<StalledThreads> {
    let facts = || trials.iter().flat_map(|trial| &trial.facts);
    let of_clients = facts().any(|fact| match fact {
        Fact::ThreadTime(time) => time.role == Some(ThreadRole::Client),
        _ => false,
    });
    let counts = |role: Option<ThreadRole>| !of_clients || role == Some(ThreadRole::Client);
    let [mut running, mut runnable, mut blocked] = [0.0; 3];
    let mut reasons: BTreeMap<WaitReason, f64> = BTreeMap::new();
    for fact in facts() {
        match fact {
            Fact::ThreadTime(time) if counts(time.role) => {
                running += seconds(time.running);
                runnable += seconds(time.runnable_woken) + seconds(time.runnable_preempted);
                blocked += seconds(time.blocked);
            }
            Fact::Wait(wait) if counts(Some(wait.role)) => {
                *reasons.entry(wait.key.reason).or_default() += seconds(wait.blocked);
            }
            _ => {}
        }
    }
    let all: f64 = running + runnable + blocked;
    let share = |part: f64| Ratio(part / all);
    (all > 0.0).then(|| StalledThreads {
        running: share(running),
        runnable: share(runnable),
        blocked: share(blocked),
        mostly_on: reasons.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(reason, _)| reason),
    })
}

/// One caveat for each.
pub(crate) fn caveats(stalls: &[Stall]) -> Vec<Caveat> {
    let of = |stall: &Stall| Caveat {
        severity: Severity::Warning,
        reason: CaveatReason::Stalled { stall: stall.clone() },
    };
    stalls.iter().map(of).collect()
}

/// The baseline's worst stall.
pub(crate) fn worst(record: &RunRecord) -> Option<Stall> {
    let own = stalls(record).into_iter().filter(|stall| stall.variant.0 == VariantId::BASELINE);
    let share = |stall: &Stall| f64::from(stall.slices) / f64::from(stall.of.max(1));
    own.max_by(|a, b| share(a).total_cmp(&share(b)))
}

//! Slices in which nothing was done: everything starved, or stood still.
//!
//! Such a slice is a measurement, not a failure, but no estimate of throughput can use it: those
//! are means of logarithms. So it is reported by itself, with what the threads did meanwhile.

use crate::number::seconds;
use crate::words;
use kneepoint_vocab::findings::{Caveat, Severity, Stall, StalledThreads};
use kneepoint_vocab::{
    Fact, Level, Phase, Ratio, RunRecord, ThreadRole, TrialRecord, VariantId, WaitReason,
};
use std::collections::BTreeMap;

/// Where slices passed without an operation, by variant and level.
pub(crate) fn stalls(record: &RunRecord) -> Vec<Stall> {
    let mut cells: BTreeMap<(&VariantId, Level), (Vec<&TrialRecord>, u32)> = BTreeMap::new();
    for trial in record.trials.iter().filter(|trial| trial.id.phase != Phase::WarmUp) {
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
    let text = |stall: &Stall| {
        let used = if stall.slices < stall.of {
            "the throughput of that level is of its other slices"
        } else {
            "that level has no throughput"
        };
        format!("{}; {used}.", sentence(stall))
    };
    let of = |stall| Caveat { severity: Severity::Warning, text: text(stall) };
    stalls.iter().map(of).collect()
}

/// The headline, with the baseline's worst stall before everything else.
pub(crate) fn before(record: &RunRecord, headline: String) -> String {
    let own = stalls(record).into_iter().filter(|stall| stall.variant.0 == VariantId::BASELINE);
    let share = |stall: &Stall| f64::from(stall.slices) / f64::from(stall.of.max(1));
    let worst = own.max_by(|a, b| share(a).total_cmp(&share(b)));
    worst.map_or(headline.clone(), |stall| format!("{}. {headline}", sentence(&stall)))
}

/// `No operation ended in 3 of 4 slices at 8 clients: threads were 97 % blocked, ...`.
fn sentence(stall: &Stall) -> String {
    let clients = words::counted(stall.level.clients, "client");
    let of = if stall.variant.0 == VariantId::BASELINE {
        String::new()
    } else {
        format!(" of {}", stall.variant)
    };
    let mut text =
        format!("No operation ended in {} of {} slices{of} at {clients}", stall.slices, stall.of);
    if let Some(threads) = &stall.threads {
        let on = threads.mostly_on.filter(|_| threads.blocked.0 > 0.005).map_or("", on);
        text += &format!(
            ": threads were {} running, {} runnable, {} blocked{on}",
            words::percent(threads.running.0),
            words::percent(threads.runnable.0),
            words::percent(threads.blocked.0),
        );
    }
    text
}

/// What they waited for, to follow `blocked`.
const fn on(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Futex { .. } => ", mostly on a futex",
        WaitReason::UserLock => ", mostly on a user lock",
        WaitReason::Condition => ", mostly on a condition variable",
        WaitReason::KernelLock => ", mostly on a kernel lock",
        WaitReason::Device => ", mostly on a device",
        WaitReason::Pipe => ", mostly on a pipe",
        WaitReason::Socket => ", mostly on a socket",
        WaitReason::Poll => ", mostly in poll",
        WaitReason::Timer => ", mostly on a timer",
        WaitReason::PageFault => ", mostly on page faults",
        WaitReason::File => ", mostly on a file",
        WaitReason::Process => ", mostly on another process",
        WaitReason::Other => "",
    }
}

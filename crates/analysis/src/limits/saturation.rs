//! Single threads that have no more to give.
//!
//! A thread on one core cannot do more than that core does, however many cores idle beside it. It
//! loses nothing by itself: those who wait for it do. So a saturated thread is named, and the
//! waits that it serves are charged to it: kernel workers serve waits for devices and files, other
//! threads of the system those for another thread.

use crate::limits::generator::SATURATED;
use kneepoint_vocab::findings::{Cause, CauseKind, LevelInstruments, Name, ServedBy, TaskLine};
use kneepoint_vocab::units::Cores;
use kneepoint_vocab::{Fact, Level, TaskOwner, ThreadRole, TrialRecord};
use std::collections::BTreeSet;

/// Saturated threads at `level`, the busiest first. The system's client threads are none: each
/// serves its client, and busy clients are what a measurement is for; nor are those that run
/// whatever task comes next, since another one may run it.
pub(crate) fn saturated(
    instruments: &[LevelInstruments],
    level: Level,
    trials: &[&TrialRecord],
) -> Vec<TaskLine> {
    let clients: BTreeSet<&str> = trials
        .iter()
        .flat_map(|trial| &trial.facts)
        .filter_map(|fact| match fact {
            Fact::ThreadTime(time) if time.role != Some(ThreadRole::Other) => {
                Some(time.name.as_str())
            }
            _ => None,
        })
        .collect();
    let mut found: Vec<TaskLine> = instruments
        .iter()
        .filter(|found| found.level == level)
        .flat_map(|found| &found.tasks)
        .filter(|task| match task.owner {
            TaskOwner::Kernel | TaskOwner::Generator => true,
            TaskOwner::System => !clients.contains(task.name.as_str()),
            TaskOwner::Kneepoint | TaskOwner::Other => false,
        })
        .filter(|task| task.busiest.0 >= SATURATED)
        .cloned()
        .collect();
    found.sort_by(|a, b| b.busiest.0.total_cmp(&a.busiest.0));
    found
}

/// Charges waits to the saturated thread that serves them: the wait chain goes on in it.
pub(crate) fn follow(causes: &mut [Cause], saturated: &[TaskLine]) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for cause in causes.iter_mut() {
        let Some((name, busiest)) = server(cause, saturated) else { continue };
        let waits_for = cause.name.clone();
        cause.evidence.served_by = Some(ServedBy { waits_for, name: name.clone(), busiest });
        // The greatest goes by the thread's name: several of one name tell nobody which is meant.
        if !named.insert(name.clone()) {
            continue;
        }
        cause.kind = CauseKind::Thread;
        cause.name = Name::SaturatedThread(name);
        cause.path.insert(0, cause.name.to_string());
    }
}

/// The saturated thread that serves the waits of a cause, with the cores that it keeps busy: the
/// one that was seen to end them, whatever it is called, else the busiest that may.
fn server(cause: &Cause, saturated: &[TaskLine]) -> Option<(String, Cores)> {
    let serves = match cause.kind {
        CauseKind::Device => TaskOwner::Kernel,
        CauseKind::Thread => TaskOwner::System,
        _ => return None,
    };
    let seen = cause.evidence.woken_by.as_ref().filter(|by| by.busy.0 >= SATURATED);
    seen.map(|by| (by.name.clone(), by.busy)).or_else(|| {
        let task = saturated.iter().find(|task| task.owner == serves)?;
        Some((task.name.clone(), task.busiest))
    })
}

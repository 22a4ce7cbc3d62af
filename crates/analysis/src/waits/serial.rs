//! One thread that does the work of all clients: an event loop, an interpreter of one thread.
//!
//! Where no thread is known to serve one client, and one does nearly all that the program does,
//! more clients and more cores find nobody to run for them. The cores that idle meanwhile are
//! that thread's, whatever its helpers sleep on: they wait for the work that it would give them.

use super::seen::heaviest;
use crate::frames::names::is_unnamed;
use crate::frames::naming::{naming_frames, working_function};
use crate::frames::stacks::Stacks;
use crate::number::{quotient, seconds};
use kneepoint_vocab::{Clients, Fact, StackKind, TaskOwner, ThreadRole, TrialRecord};
use std::collections::BTreeMap;

/// Callers that are told of the code that takes most of its time.
const CALLERS: usize = 3;

/// It does at least this part of what the program does,
const ALL_BUT: f64 = 0.9;
/// and is on a core for this part of the time: else it waits itself, and what for is the answer.
pub(crate) const BUSY: f64 = 0.75;
/// Clients of a thread that others keep busy queue for it at their own level too, where it is on a
/// core for this part of the time.
pub(crate) const QUEUED_FOR: f64 = 0.6;

/// The name of the thread that does nearly all the work of a slice with several clients, and is on
/// a core for `least` of the time, where there is one and clients have no threads of their own.
pub(crate) fn thread(trial: &TrialRecord, clients: Clients, least: f64) -> Option<&str> {
    if clients != Clients::Inside || trial.id.level.clients < 2 {
        return None;
    }
    let mut all = 0.0;
    for fact in &trial.facts {
        match fact {
            Fact::ThreadTime(time) if time.role == Some(ThreadRole::Client) => return None,
            Fact::CoreTime(core) if core.cores > 1 => {
                all = quotient(seconds(core.system) * f64::from(core.cores), seconds(core.total));
            }
            _ => {}
        }
    }
    let tasks = trial.facts.iter().filter_map(|fact| match fact {
        Fact::Task(task) if task.owner == TaskOwner::System => {
            Some((task.name.as_str(), quotient(seconds(task.cpu), seconds(task.over))))
        }
        _ => None,
    });
    let (name, busy) = tasks.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (busy >= least && all > 0.0 && busy >= ALL_BUT * all).then_some(name)
}

/// Where such slices spend most of their CPU: the function, and those that call it.
pub(crate) fn code(trials: &[&TrialRecord], stacks: &Stacks<'_>, clients: Clients) -> Vec<String> {
    let mut functions: BTreeMap<&str, f64> = BTreeMap::new();
    let mut chains: BTreeMap<(&str, Vec<String>), f64> = BTreeMap::new();
    let serial = trials.iter().filter(|trial| thread(trial, clients, BUSY).is_some());
    for fact in serial.flat_map(|trial| &trial.facts) {
        let Fact::Stack(stack) = fact else { continue };
        if stack.kind != StackKind::OnCpu {
            continue;
        }
        let frames = stacks.frames(stack.stack);
        let Some(working) = working_function(stacks.known, frames) else { continue };
        *functions.entry(&working.function).or_default() += seconds(stack.weight);
        let mut chain = naming_frames(stacks.known, frames);
        chain.truncate(CALLERS);
        *chains.entry((working.function.as_str(), chain)).or_default() += seconds(stack.weight);
    }
    let Some((most, _)) = heaviest(&functions) else { return Vec::new() };
    chains.retain(|(function, _), _| *function == most && !is_unnamed(function));
    heaviest(&chains).map(|((_, chain), _)| chain).unwrap_or_default()
}

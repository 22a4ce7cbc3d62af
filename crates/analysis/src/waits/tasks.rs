//! Threads that the tasks of a runtime share: no thread's life is an operation's, whoever's CPU
//! makes it look like a client.

use crate::frames::names::{Catalogue, begins};
use crate::frames::stacks::Stacks;
use kneepoint_vocab::{
    Fact, Frame, RunRecord, StackId, StackKind, StackRecord, ThreadRole, TrialRecord, WaitKey,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The record without clients among threads, where one that is taken for a client runs tasks of a
/// runtime in some slice: which task a thread runs changes, so that its waits are nobody's.
pub(crate) fn shared(record: &RunRecord) -> Cow<'_, RunRecord> {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    let workers: BTreeSet<StackId> = (record.stacks.iter())
        .filter(|stack| runs_tasks(stacks.known, &stack.frames))
        .map(|stack: &StackRecord| stack.id)
        .collect();
    if workers.is_empty() || !record.trials.iter().any(|trial| has_workers(trial, &workers)) {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        match fact {
            Fact::ThreadTime(time) if time.role == Some(ThreadRole::Client) => {
                time.role = None;
            }
            Fact::Wait(wait) => wait.role = ThreadRole::Other,
            Fact::Waker(waker) => {
                let roles = waker.by.iter_mut().map(|by| &mut by.role).chain([&mut waker.role]);
                roles.flatten().for_each(|role| *role = ThreadRole::Other);
            }
            _ => {}
        }
    }
    Cow::Owned(record)
}

/// Whether a stack is one of a thread that runs whatever task comes next.
fn runs_tasks(known: Catalogue, frames: &[Frame]) -> bool {
    known.parking().any(|row| frames.iter().any(|frame| begins(&frame.function, &row.workers)))
}

/// Whether a client of a slice waits where such threads do.
fn has_workers(trial: &TrialRecord, workers: &BTreeSet<StackId>) -> bool {
    let of_clients: BTreeSet<&WaitKey> = (trial.facts.iter())
        .filter_map(|fact| match fact {
            Fact::Wait(wait) if wait.role == ThreadRole::Client => Some(&wait.key),
            _ => None,
        })
        .collect();
    trial.facts.iter().any(|fact| match fact {
        Fact::Stack(stack) => {
            stack.kind == StackKind::OffCpu
                && workers.contains(&stack.stack)
                && stack.wait.as_ref().is_some_and(|key| of_clients.contains(key))
        }
        _ => false,
    })
}

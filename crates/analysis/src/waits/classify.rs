//! What a wait was for, where the record leaves it open: a futex wait a lock or a condition, a
//! sleep in the kernel one of its locks.
//!
//! The record holds such waits as they were called. The C library's mutexes wait with `FUTEX_WAIT`
//! or `FUTEX_LOCK_PI` and no timeout; `FUTEX_WAIT_BITSET` serves condition variables, semaphores
//! and the locks of other libraries alike. So the stacks of those who wait for a word decide, by
//! the library functions in them (`names.toml`), and the operation where there is no stack that
//! tells. This is the only place that judges; runs of schema 1 hold what their collector had
//! judged, and keep it.
//!
//! Some locks of the kernel make no lock event. Where most of the stacks of one kind of wait sleep
//! in functions that are known to wait for such a lock, that is what the wait is for. So it is with
//! reads of files that have no type, as of a counter (`eventfd`) or a timer.

use crate::frames::names::{Catalogue, in_kernel};
use crate::frames::naming::{LOCK, machinery};
use crate::frames::stacks::Stacks;
use crate::number::seconds;
use kneepoint_vocab::{
    Fact, Holders, RunRecord, StackKind, TrialRecord, VariantId, WaitKey, WaitReason,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Parts of the operation that tell nothing about who waits: private words, the clock.
const FLAGS: u16 = !0x7f;
const WAIT: u16 = 0;
const LOCK_PI: u16 = 6;
const LOCK_PI2: u16 = 13;
/// The system call, as x86-64 numbers it.
const READ: i32 = 0;

/// A word in one start of one variant.
type Word = (VariantId, u32, u64);
/// A kind of wait that is known by its reason and the system call alone.
type Sleep = (WaitReason, i32);

/// The record with every futex wait distinguished, and sleeping for the kernel's locks by their
/// names.
pub(crate) fn classified(record: &RunRecord) -> Cow<'_, RunRecord> {
    let facts = || record.trials.iter().flat_map(|trial| &trial.facts);
    let slept_for = slept_for(record);
    let read = read(record);
    if slept_for.is_empty()
        && read.is_empty()
        && !facts().filter_map(key).any(|key| is_raw(key.reason))
    {
        return Cow::Borrowed(record);
    }
    let locks = locks(record);
    let known = Catalogue::with(&record.plan.names);
    let mut record = record.clone();
    name_sleeps(&mut record, &slept_for, &read);
    for trial in &mut record.trials {
        let (variant, start) = (trial.id.variant.clone(), trial.id.start);
        for fact in &mut trial.facts {
            for key in keys_mut(fact).into_iter().filter(|key| is_raw(key.reason)) {
                let lock = locks.get(&(variant.clone(), start, key.object)).copied();
                let lock = lock.unwrap_or_else(|| is_lock_by_call(key.reason));
                key.reason = if lock { WaitReason::UserLock } else { WaitReason::Condition };
                key.object_name.take_if(|name| known.is_waiting_place(name));
            }
            if let Fact::Wait(wait) = fact
                && wait.key.reason == WaitReason::Condition
            {
                // Where a mutex names its owner a condition has something else.
                wait.holders = Holders::default();
            }
        }
    }
    Cow::Owned(record)
}

fn sleep(key: &WaitKey) -> Option<Sleep> {
    let tells_nothing = matches!(key.reason, WaitReason::Device | WaitReason::Other);
    (tells_nothing && key.object == 0).then_some((key.reason, key.syscall))
}

/// The kernel locks that most of a kind of sleeping is for.
fn slept_for(record: &RunRecord) -> BTreeMap<Sleep, &'static str> {
    by_stacks(record, sleep, Catalogue::sleeps_for)
}

/// Reads of a file that is none.
fn unknown_read(key: &WaitKey) -> Option<Sleep> {
    (key.reason == WaitReason::Poll && key.syscall == READ).then_some((key.reason, key.syscall))
}

/// What most of such reads are of.
fn read(record: &RunRecord) -> BTreeMap<Sleep, WaitReason> {
    by_stacks(record, unknown_read, Catalogue::reads)
}

/// What `tells` says of most stacks of each kind of wait that `kind` finds.
fn by_stacks<T: Copy + Ord>(
    record: &RunRecord,
    kind: fn(&WaitKey) -> Option<Sleep>,
    tells: fn(Catalogue, &[&str]) -> Option<T>,
) -> BTreeMap<Sleep, T> {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    let mut votes: BTreeMap<Sleep, BTreeMap<Option<T>, f64>> = BTreeMap::new();
    for fact in record.trials.iter().flat_map(|trial| &trial.facts) {
        let Fact::Stack(stack) = fact else { continue };
        let key = stack.wait.as_ref().filter(|_| stack.kind == StackKind::OffCpu);
        let Some(of) = key.and_then(kind) else { continue };
        let frames = stacks.frames(stack.stack).iter().filter(|frame| in_kernel(frame));
        let functions: Vec<&str> = frames.map(|frame| frame.function.as_str()).collect();
        let told = tells(stacks.known, &functions);
        *votes.entry(of).or_default().entry(told).or_default() += seconds(stack.weight);
    }
    let most = votes.into_iter().filter_map(|(of, told)| {
        let all: f64 = told.values().sum();
        let (told, weight) = told.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        told.filter(|_| weight * 2.0 > all).map(|told| (of, told))
    });
    most.collect()
}

fn name_sleeps(
    record: &mut RunRecord,
    slept_for: &BTreeMap<Sleep, &'static str>,
    read: &BTreeMap<Sleep, WaitReason>,
) {
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        for key in keys_mut(fact) {
            if let Some(lock) = sleep(key).and_then(|sleep| slept_for.get(&sleep)) {
                key.reason = WaitReason::KernelLock;
                key.object_name = Some((*lock).to_owned());
            } else if let Some(reason) = unknown_read(key).and_then(|of| read.get(&of)) {
                key.reason = *reason;
            }
        }
    }
}

/// Whether the word is a lock, for words of which stacks tell.
fn locks(record: &RunRecord) -> BTreeMap<Word, bool> {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    let mut votes: BTreeMap<Word, f64> = BTreeMap::new();
    for trial in &record.trials {
        for (word, vote) in trial.facts.iter().filter_map(|fact| vote(trial, fact, &stacks)) {
            *votes.entry(word).or_default() += vote;
        }
    }
    votes.into_iter().map(|(word, vote)| (word, vote > 0.0)).collect()
}

/// The weight of a stack for its word being a lock, negative against.
fn vote(trial: &TrialRecord, fact: &Fact, stacks: &Stacks<'_>) -> Option<(Word, f64)> {
    let Fact::Stack(stack) = fact else { return None };
    let key =
        stack.wait.as_ref().filter(|key| stack.kind == StackKind::OffCpu && key.object != 0)?;
    let word = machinery(stacks.known, stacks.frames(stack.stack));
    let reported = is_raw(key.reason) && word != LOCK;
    let weight = seconds(stack.weight);
    let vote = if stacks.known.is_lock(word) { weight } else { -weight };
    reported.then(|| ((trial.id.variant.clone(), trial.id.start, key.object), vote))
}

fn is_raw(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Futex { .. })
}

fn is_lock_by_call(reason: WaitReason) -> bool {
    match reason {
        WaitReason::Futex { operation, timed } => match operation & !FLAGS {
            WAIT => !timed,
            LOCK_PI | LOCK_PI2 => true,
            _ => false,
        },
        other => other == WaitReason::UserLock,
    }
}

fn key(fact: &Fact) -> Option<&WaitKey> {
    match fact {
        Fact::Wait(wait) => Some(&wait.key),
        Fact::Waker(waker) => Some(&waker.key),
        Fact::Stack(stack) => stack.wait.as_ref(),
        _ => None,
    }
}

/// Every key of a fact.
fn keys_mut(fact: &mut Fact) -> Vec<&mut WaitKey> {
    match fact {
        Fact::Wait(wait) => vec![&mut wait.key],
        Fact::Waker(waker) => {
            let behind = waker.behind.iter_mut().map(|behind| &mut behind.key);
            std::iter::once(&mut waker.key).chain(behind).collect()
        }
        Fact::Stack(stack) => stack.wait.iter_mut().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_tells_where_no_stack_does() {
        let is_lock = |operation, timed| is_lock_by_call(WaitReason::Futex { operation, timed });
        assert!(is_lock(128, false) && is_lock(0, false) && is_lock(128 | 6, true));
        assert!(!is_lock(128, true) && !is_lock(137, false) && !is_lock(393, false));
    }
}

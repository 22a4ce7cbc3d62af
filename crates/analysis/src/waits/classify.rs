//! What a futex wait was for: a lock, or a condition.
//!
//! The record holds such waits as they were called. The C library's mutexes wait with `FUTEX_WAIT`
//! or `FUTEX_LOCK_PI` and no timeout; `FUTEX_WAIT_BITSET` serves condition variables, semaphores
//! and the locks of other libraries alike. So the stacks of those who wait for a word decide, by
//! the library functions in them (`names.toml`), and the operation where there is no stack that
//! tells. This is the only place that judges; runs of schema 1 hold what their collector had
//! judged, and keep it.

use crate::frames::names::Catalogue;
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

/// A word in one start of one variant.
type Word = (VariantId, u32, u64);

/// The record with every futex wait distinguished.
pub(crate) fn classified(record: &RunRecord) -> Cow<'_, RunRecord> {
    let facts = || record.trials.iter().flat_map(|trial| &trial.facts);
    if !facts().filter_map(key).any(|key| is_raw(key.reason)) {
        return Cow::Borrowed(record);
    }
    let locks = locks(record);
    let mut record = record.clone();
    for trial in &mut record.trials {
        let (variant, start) = (trial.id.variant.clone(), trial.id.start);
        for fact in &mut trial.facts {
            let Some(key) = key_mut(fact).filter(|key| is_raw(key.reason)) else { continue };
            let lock = locks.get(&(variant.clone(), start, key.object)).copied();
            let lock = lock.unwrap_or_else(|| is_lock_by_call(key.reason));
            key.reason = if lock { WaitReason::UserLock } else { WaitReason::Condition };
            if let Fact::Wait(wait) = fact
                && !lock
            {
                // Where a mutex names its owner a condition has something else.
                wait.holders = Holders::default();
            }
        }
    }
    Cow::Owned(record)
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

fn key_mut(fact: &mut Fact) -> Option<&mut WaitKey> {
    match fact {
        Fact::Wait(wait) => Some(&mut wait.key),
        Fact::Waker(waker) => Some(&mut waker.key),
        Fact::Stack(stack) => stack.wait.as_mut(),
        _ => None,
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

//! CPU that the hand-offs of a lock cost: the futex calls, spinning and atomic operations inside
//! its own lock and unlock functions.
//!
//! An idle core that waits for a lock and a core that is busy passing it on are two faces of one
//! cause. A stack taken on a core belongs to a lock when its innermost frames are lock machinery
//! and the function that called the machinery is one that a waiter of that lock, or a thread
//! that woke one, was seen in. So the link is by evidence of this run, not by words.

use crate::groups::Groups;
use crate::naming::{begins_in_machinery, naming_frames};
use crate::number::seconds;
use crate::stacks::Stacks;
use kneepoint_vocab::findings::CauseKind;
use kneepoint_vocab::{Fact, Frame, StackKind, TrialRecord};
use std::collections::BTreeMap;

/// Which lock the callers of lock machinery pass on.
pub(crate) struct LockWork {
    callers: BTreeMap<String, usize>,
}

impl LockWork {
    /// From the stacks of waiters and wakers.
    pub(crate) fn build(trials: &[&TrialRecord], groups: &Groups, stacks: &Stacks<'_>) -> Self {
        let mut weights: BTreeMap<String, BTreeMap<usize, f64>> = BTreeMap::new();
        for trial in trials {
            for fact in &trial.facts {
                let Fact::Stack(stack) = fact else { continue };
                let Some(key) = stack.wait.as_ref().filter(|_| stack.kind != StackKind::OnCpu)
                else {
                    continue;
                };
                let group = groups.of(trial, key).filter(|group| {
                    groups.list.get(*group).is_some_and(|what| what.kind == CauseKind::Lock)
                });
                let caller = caller(stacks.frames(stack.stack));
                if let (Some(group), Some(caller)) = (group, caller) {
                    *weights.entry(caller).or_default().entry(group).or_default() +=
                        seconds(stack.weight);
                }
            }
        }
        let heaviest = |groups: BTreeMap<usize, f64>| {
            groups.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        };
        let callers = weights
            .into_iter()
            .filter_map(|(caller, groups)| Some((caller, heaviest(groups)?.0)))
            .collect();
        Self { callers }
    }

    /// The lock group whose work a stack taken on a core is.
    pub(crate) fn of(&self, frames: &[Frame]) -> Option<usize> {
        self.callers.get(&caller(frames)?).copied()
    }
}

/// The function that called the lock machinery which the stack begins in.
fn caller(frames: &[Frame]) -> Option<String> {
    begins_in_machinery(frames).then(|| naming_frames(frames).into_iter().next()).flatten()
}

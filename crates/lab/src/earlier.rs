//! What a run that was cut off had measured, for the one that goes on with it.

use crate::schedule::Planned;
use kneepoint_vocab::{Disposition, Fact, Phase, RunRecord, StackId, StackRecord, TrialRecord};
use std::collections::BTreeMap;

/// Slices on record that the steps have not come to yet, and the stack table.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// In the order in which they were taken, without their facts and without those of the warm-up.
    trials: Vec<TrialRecord>,
    /// Whether the steps are still among those on record: nothing has been started yet.
    pub(crate) replaying: bool,
    /// Ids of the stacks on record, by what they are.
    stacks: BTreeMap<String, StackId>,
    /// Ids on record of stacks that the collector has reported, by its own ids.
    given: BTreeMap<StackId, StackId>,
    /// Whether the ids of the collector may be those of others on record.
    renumbers: bool,
}

impl Earlier {
    /// What is on record.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let slices = record.trials.iter().filter(|trial| trial.id.phase != Phase::WarmUp);
        let bare = slices.map(|trial| TrialRecord { facts: Vec::new(), ..trial.clone() });
        Self {
            trials: bare.collect(),
            replaying: true,
            stacks: record.stacks.iter().map(|stack| (name(stack), stack.id)).collect(),
            given: BTreeMap::new(),
            renumbers: true,
        }
    }

    /// Whether any slice on record is still to come.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.trials.is_empty()
    }

    /// All attempts at a slice.
    pub(crate) fn take(&mut self, planned: &Planned) -> Vec<TrialRecord> {
        let of_it = |trial: &mut TrialRecord| {
            let id = &trial.id;
            let place = (id.phase, id.block, id.position, id.level);
            place == (planned.phase, planned.block, planned.position, planned.level)
                && id.variant == planned.variant
        };
        self.trials.extract_if(.., of_it).collect()
    }

    /// All that no step has asked for.
    pub(crate) fn take_rest(&mut self) -> Vec<TrialRecord> {
        std::mem::take(&mut self.trials)
    }

    /// Gives the stacks of a trial the ids that they have on record, or new ones; returns those
    /// that are not on record yet.
    pub(crate) fn renumber(
        &mut self,
        trial: &mut TrialRecord,
        stacks: Vec<StackRecord>,
    ) -> Vec<StackRecord> {
        if !self.renumbers {
            return stacks;
        }
        let mut new = Vec::new();
        for mut stack in stacks {
            let reported = stack.id;
            let key = name(&stack);
            let next = self.stacks.values().max().map_or(0, |last| last.0 + 1);
            let id = *self.stacks.entry(key).or_insert(StackId(next));
            self.given.insert(reported, id);
            if id.0 == next {
                stack.id = id;
                new.push(stack);
            }
        }
        for fact in &mut trial.facts {
            let named: Vec<&mut StackId> = match fact {
                Fact::Stack(weight) => vec![&mut weight.stack],
                Fact::LockUse(lock) => lock.stacks.iter_mut().map(|at| &mut at.stack).collect(),
                _ => Vec::new(),
            };
            for stack in named {
                if let Some(id) = self.given.get(stack) {
                    *stack = *id;
                }
            }
        }
        new
    }
}

/// Whether a slice needs no further attempt.
pub(crate) fn stands(trial: &TrialRecord) -> bool {
    matches!(
        trial.disposition,
        Disposition::Kept | Disposition::KeptDisturbed | Disposition::Spoiled { .. }
    )
}

/// What a stack is, without its id.
fn name(stack: &StackRecord) -> String {
    // Records are made of what JSON knows.
    serde_json::to_string(&(&stack.frames, stack.truncated)).unwrap_or_default()
}

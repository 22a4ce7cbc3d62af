//! Threads that a runtime has for itself: its timer, its collector, its idle workers. They wake by
//! themselves and end idle stretches of cores, but nobody waits for them.

use crate::frames::names::Catalogue;
use crate::frames::stacks::Stacks;
use crate::number::{quotient, seconds};
use kneepoint_vocab::{Fact, Frame, StackKind, TrialRecord, WaitKey};
use std::collections::BTreeMap;

/// By key, the blocked thread-seconds of helpers and of all, as stacks show them.
pub(crate) struct Helpers<'a>(BTreeMap<&'a WaitKey, (f64, f64)>);

impl<'a> Helpers<'a> {
    pub(crate) fn of(trial: &'a TrialRecord, stacks: &Stacks<'_>) -> Self {
        let mut found: BTreeMap<&WaitKey, (f64, f64)> = BTreeMap::new();
        for fact in &trial.facts {
            if let Fact::Stack(stack) = fact
                && stack.kind == StackKind::OffCpu
                && let Some(key) = &stack.wait
            {
                let (helpers, all) = found.entry(key).or_default();
                let weight = seconds(stack.weight);
                *all += weight;
                if is_helper(stacks.known, stacks.frames(stack.stack)) {
                    *helpers += weight;
                }
            }
        }
        Self(found)
    }

    /// The part of the waits of a key that is helpers'; none where no stack tells.
    pub(crate) fn share(&self, key: &WaitKey) -> f64 {
        self.0.get(key).map_or(0.0, |(helpers, all)| quotient(*helpers, *all))
    }
}

fn is_helper(known: Catalogue, frames: &[Frame]) -> bool {
    frames.iter().any(|frame| known.is_helper(&frame.function))
}

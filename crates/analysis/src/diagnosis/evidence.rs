//! What the slices of a level hold about one cause: stacks, holders, longest wait.

use crate::diagnosis::flame::Flame;
use crate::frames::stacks::Stacks;
use crate::ledgers::slices::Slice;
use crate::number::{count, quotient, seconds};
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::{FlameNode, HolderState};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{Fact, StackWeight, TrialRecord, Wait};

/// The slices of a level with the stack table.
pub(crate) struct Evidence<'a> {
    slices: &'a [&'a Slice<'a>],
    stacks: &'a Stacks<'a>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(slices: &'a [&'a Slice<'a>], stacks: &'a Stacks<'a>) -> Self {
        Self { slices, stacks }
    }

    fn chosen(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> impl Iterator<Item = &'a StackWeight> {
        self.slices
            .iter()
            .flat_map(|slice| slice.trial.facts.iter().map(|fact| (slice.trial, fact)))
            .filter_map(move |(trial, fact)| match fact {
                Fact::Stack(stack) if choose(trial, stack) => Some(stack),
                _ => None,
            })
    }

    /// The flame graph of the chosen stacks.
    pub(crate) fn flame(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> Option<FlameNode> {
        let mut flame = Flame::default();
        for stack in self.chosen(choose) {
            flame.add(self.stacks.frames(stack.stack), seconds(stack.weight));
        }
        flame.finish()
    }

    /// The chosen stacks, and whether each reached the outermost frame.
    pub(crate) fn weights(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> impl Iterator<Item = (&'a StackWeight, bool)> {
        let stacks = self.stacks;
        self.chosen(choose).map(move |stack| (stack, stacks.complete(stack.stack)))
    }

    fn waits(&self, groups: &Groups, group: usize) -> impl Iterator<Item = &'a Wait> {
        self.slices
            .iter()
            .flat_map(|slice| slice.trial.facts.iter().map(|fact| (slice.trial, fact)))
            .filter_map(move |(trial, fact)| match fact {
                Fact::Wait(wait) if groups.of(trial, &wait.key) == Some(group) => Some(wait),
                _ => None,
            })
    }

    /// Longest single wait in seconds; none where the tier does not see single waits.
    pub(crate) fn longest(&self, groups: &Groups, group: usize) -> Option<f64> {
        let longest =
            self.waits(groups, group).map(|wait| seconds(wait.longest)).fold(0.0, f64::max);
        (longest > 0.0).then_some(longest)
    }

    /// What holders were doing when a wait began, as shares.
    pub(crate) fn holders(&self, groups: &Groups, group: usize) -> Vec<(HolderState, Ratio)> {
        let mut sums = [0.0; 4];
        for wait in self.waits(groups, group) {
            let holders = wait.holders;
            let counts = [holders.running, holders.runnable, holders.blocked, holders.unknown];
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += count(n));
        }
        let all: f64 = sums.iter().sum();
        if all <= 0.0 {
            return Vec::new();
        }
        let states = [
            HolderState::Running,
            HolderState::Runnable,
            HolderState::Blocked,
            HolderState::Unknown,
        ];
        states.into_iter().zip(sums).map(|(state, n)| (state, Ratio(quotient(n, all)))).collect()
    }
}

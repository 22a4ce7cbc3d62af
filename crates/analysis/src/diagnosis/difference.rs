//! Stacks of two sides laid upon each other: the best level and the last, a variant and what it is
//! compared with.
//!
//! Both sides are in thread-seconds of one operation. How much that is in all is taken from the
//! ledgers, which count every switch; stacks say how it is shared out.

use crate::diagnosis::flame::{OTHERS, WIDEST, drawn};
use crate::frames::names::in_kernel;
use crate::frames::stacks::Stacks;
use crate::ledgers::row::{Row, mean_row, per_operation};
use crate::ledgers::slices::{Slice, sweep_at};
use crate::number::{finite, quotient, seconds};
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::{
    CauseKind, Curve, DifferenceNode, Effect, Side, StackDifference, Verdict,
};
use kneepoint_vocab::units::Seconds;
use kneepoint_vocab::{
    Fact, Frame, Level, Phase, StackKind, StackWeight, TrialRecord, VariantId, VariantRole,
};
use std::collections::BTreeMap;

/// Nodes lighter than this part of the mean of both sides are summed in [`OTHERS`].
const LIGHTEST: f64 = 5e-3;
/// Less than this part of the other side needs no stacks to be believed.
const NOTHING: f64 = 0.02;

/// What differences are made of.
pub(crate) struct Given<'a> {
    pub(crate) curve: &'a Curve,
    pub(crate) effects: &'a [Effect],
    /// Where treatments were tried.
    pub(crate) tried: Level,
    pub(crate) slices: &'a [Slice<'a>],
    pub(crate) stacks: &'a Stacks<'a>,
    pub(crate) groups: &'a Groups,
}

impl Given<'_> {
    /// First the levels, then the variants that were shown to be better or worse: where nothing
    /// is known to differ, a picture of differences would show chance.
    pub(crate) fn differences(&self) -> Vec<StackDifference> {
        let mut found = Vec::new();
        if let Some(last) = self.curve.points.last().map(|point| point.level)
            && last != self.curve.peak
        {
            let side = |level| Side { variant: VariantId::new(VariantId::BASELINE), level };
            let (before, after) = (side(self.curve.peak), side(last));
            let slices = [sweep_at(self.slices, before.level), sweep_at(self.slices, after.level)];
            found.extend(self.of_both_kinds(&before, &after, &slices));
        }
        let shown = |effect: &&Effect| {
            effect.role == VariantRole::Treatment
                && matches!(effect.verdict, Verdict::Better | Verdict::Worse)
        };
        for effect in self.effects.iter().filter(shown) {
            let side = |variant: &VariantId| Side { variant: variant.clone(), level: self.tried };
            let (before, after) = (side(&effect.over), side(&effect.variant));
            let slices = [self.tried_with(&effect.over), self.tried_with(&effect.variant)];
            found.extend(self.of_both_kinds(&before, &after, &slices));
        }
        found
    }

    fn tried_with(&self, variant: &VariantId) -> Vec<&Slice<'_>> {
        let of = |slice: &&Slice<'_>| {
            let id = &slice.trial.id;
            id.phase == Phase::Effects && id.level == self.tried && &id.variant == variant
        };
        self.slices.iter().filter(of).collect()
    }

    fn of_both_kinds(
        &self,
        before: &Side,
        after: &Side,
        slices: &[Vec<&Slice<'_>>; 2],
    ) -> Vec<StackDifference> {
        let kinds = [StackKind::OnCpu, StackKind::OffCpu].into_iter();
        let merged = kinds.filter_map(|of| {
            let root = self.merged(of, slices)?;
            Some(StackDifference { of, before: before.clone(), after: after.clone(), root })
        });
        merged.collect()
    }

    /// None where a side lacks stacks of time that the ledger has: with one client nobody waits,
    /// and that is a side as well.
    fn merged(&self, of: StackKind, slices: &[Vec<&Slice<'_>>; 2]) -> Option<DifferenceNode> {
        let wholes = [self.per_operation(of, &slices[0])?, self.per_operation(of, &slices[1])?];
        let least = NOTHING * wholes[0].max(wholes[1]);
        let mut root = Node::default();
        for (side, (slices, whole)) in slices.iter().zip(wholes).enumerate() {
            let chosen = self.chosen(of, slices);
            let sum: f64 = chosen.iter().map(|stack| seconds(stack.weight)).sum();
            if sum <= 0.0 && whole > least {
                return None;
            }
            for stack in chosen {
                let weight = quotient(seconds(stack.weight), sum) * whole;
                root.add(self.stacks.frames(stack.stack), side, weight);
            }
        }
        let whole = root.both();
        (whole > 0.0).then(|| root.finish("all", LIGHTEST * whole))
    }

    /// Thread-seconds of one operation that the stacks of a kind share out.
    fn per_operation(&self, of: StackKind, slices: &[&Slice<'_>]) -> Option<f64> {
        let rows: Vec<(&Row, f64)> =
            slices.iter().map(|slice| (&slice.row, slice.trial.weight())).collect();
        let row = mean_row(&rows)?;
        Some(match of {
            StackKind::OnCpu => row.demand(),
            _ => {
                let groups = 0..self.groups.list.len();
                let waited: f64 =
                    groups.filter(|group| self.is_blamed(*group)).map(|one| row.waited[one]).sum();
                per_operation(waited, &row)
            }
        })
    }

    fn chosen<'s>(&self, of: StackKind, slices: &[&'s Slice<'_>]) -> Vec<&'s StackWeight> {
        let facts = slices
            .iter()
            .flat_map(|slice| slice.trial.facts.iter().map(|fact| (slice.trial, fact)));
        let chosen = facts.filter_map(|(trial, fact)| match fact {
            Fact::Stack(stack) if stack.kind == of && self.is_of_interest(trial, stack) => {
                Some(stack)
            }
            _ => None,
        });
        chosen.collect()
    }

    /// All time on a core; of waits those for locks and devices, not those for work.
    fn is_of_interest(&self, trial: &TrialRecord, stack: &StackWeight) -> bool {
        let Some(wait) = &stack.wait else { return stack.kind == StackKind::OnCpu };
        self.groups.of(trial, wait).is_some_and(|group| self.is_blamed(group))
    }

    fn is_blamed(&self, group: usize) -> bool {
        let kind = self.groups.list[group].kind;
        matches!(kind, CauseKind::Lock | CauseKind::KernelLock | CauseKind::Device)
    }
}

/// Before and after of a node.
#[derive(Default)]
struct Node<'a> {
    sides: [f64; 2],
    kernel: bool,
    children: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    /// Adds a stack (frames innermost first) to one side.
    fn add(&mut self, frames: &'a [Frame], side: usize, weight: f64) {
        self.sides[side] += weight;
        let mut node = self;
        for frame in drawn(frames) {
            node = node.children.entry(frame.function.as_str()).or_default();
            node.kernel |= in_kernel(frame);
            node.sides[side] += weight;
        }
    }

    fn both(&self) -> f64 {
        self.sides[0] + self.sides[1]
    }

    fn finish(self, name: &str, least: f64) -> DifferenceNode {
        let [before, after] = self.sides.map(|side| Seconds(finite(side)));
        let mut entries: Vec<(&str, Node<'_>)> = self.children.into_iter().collect();
        entries.sort_by(|a, b| b.1.both().total_cmp(&a.1.both()).then(a.0.cmp(b.0)));
        let (mut children, mut others) = (Vec::new(), [0.0, 0.0]);
        for (child, below) in entries {
            if children.len() < WIDEST && below.both() >= least {
                children.push(below.finish(child, least));
            } else {
                others[0] += below.sides[0];
                others[1] += below.sides[1];
            }
        }
        if others[0] + others[1] > 0.0 {
            let [before, after] = others.map(|side| Seconds(finite(side)));
            let (name, kernel) = (OTHERS.to_owned(), self.kernel);
            children.push(DifferenceNode { name, kernel, before, after, children: Vec::new() });
        }
        DifferenceNode { name: name.to_owned(), kernel: self.kernel, before, after, children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str) -> Frame {
        Frame { function: name.to_owned(), module: "app".to_owned() }
    }

    #[test]
    fn both_sides_stand_at_every_node() {
        let (work, spin) = ([frame("work"), frame("main")], [frame("spin"), frame("main")]);
        let mut root = Node::default();
        root.add(&work, 0, 2e-6);
        root.add(&work, 1, 2e-6);
        root.add(&spin, 1, 6e-6);
        let root = root.finish("all", 0.0);
        let main = &root.children[0];
        assert!((main.before.0 - 2e-6).abs() < 1e-15 && (main.after.0 - 8e-6).abs() < 1e-15);
        let names: Vec<&str> = main.children.iter().map(|child| child.name.as_str()).collect();
        assert_eq!(names, ["spin", "work"]);
        assert_eq!(main.children[0].before, Seconds(0.0));
        assert!((main.children[0].change().0 - 6e-6).abs() < 1e-15);
        assert!((main.mean().0 - 5e-6).abs() < 1e-15);
    }

    #[test]
    fn what_is_small_on_both_sides_is_summed() {
        let stacks = [[frame("a")], [frame("b")], [frame("c")]];
        let mut root = Node::default();
        for (stack, weight) in stacks.iter().zip([1.0, 0.001, 0.001]) {
            root.add(stack, 0, weight);
        }
        let root = root.finish("all", 0.01);
        let names: Vec<&str> = root.children.iter().map(|child| child.name.as_str()).collect();
        assert_eq!(names, ["a", "(others)"]);
        assert!((root.children[1].before.0 - 0.002).abs() < 1e-12);
    }
}

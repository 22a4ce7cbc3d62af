//! Weighted stacks merged into a flame graph.

use crate::frames::names::KERNEL;
use crate::number::finite;
use kneepoint_vocab::Frame;
use kneepoint_vocab::findings::FlameNode;
use kneepoint_vocab::units::Seconds;
use std::collections::BTreeMap;

/// What is too light to be a node of its own, at each node together.
pub(super) const OTHERS: &str = "(others)";

/// Children kept at a node; the rest is summed in [`OTHERS`], so that a report stays small.
pub(crate) const WIDEST: usize = 40;
/// Nodes lighter than this part of the whole are summed in [`OTHERS`].
const LIGHTEST: f64 = 5e-4;
/// Most frames of a stack that are drawn. A frame is two levels of the JSON, and usual readers of
/// JSON go 128 deep.
const DEEPEST: usize = 60;
// Findings, differences, one of them, its graph, then children and node by turns.
const _: () = assert!(4 + 2 * DEEPEST <= 128);

#[derive(Default)]
struct Node<'a> {
    weight: f64,
    kernel: bool,
    children: BTreeMap<&'a str, Node<'a>>,
}

/// Builds a flame graph: add stacks, then finish.
#[derive(Default)]
pub(crate) struct Flame<'a> {
    root: Node<'a>,
}

impl<'a> Flame<'a> {
    /// Adds a stack (frames innermost first) of `seconds`.
    pub(crate) fn add(&mut self, frames: &'a [Frame], seconds: f64) {
        if seconds <= 0.0 || !seconds.is_finite() {
            return;
        }
        self.root.weight += seconds;
        let mut node = &mut self.root;
        for frame in drawn(frames) {
            node = node.children.entry(frame.function.as_str()).or_default();
            node.kernel |= frame.module == KERNEL;
            node.weight += seconds;
        }
    }

    /// The graph, children heaviest first; none where no stack was added.
    pub(crate) fn finish(self) -> Option<FlameNode> {
        let least = self.root.weight * LIGHTEST;
        (self.root.weight > 0.0).then(|| finish_node("all", self.root, least))
    }
}

/// The frames of a stack (innermost first) that are drawn, outermost first: of a deep one what lies
/// just below the innermost is left out.
pub(crate) fn drawn(frames: &[Frame]) -> impl Iterator<Item = &Frame> {
    let left_out = frames.len().saturating_sub(DEEPEST);
    let kept = move |place: usize| place == 0 || place > left_out;
    frames.iter().enumerate().rev().filter(move |(place, _)| kept(*place)).map(|(_, frame)| frame)
}

fn finish_node(name: &str, node: Node<'_>, least: f64) -> FlameNode {
    let mut entries: Vec<(&str, Node<'_>)> = node.children.into_iter().collect();
    entries.sort_by(|a, b| b.1.weight.total_cmp(&a.1.weight).then(a.0.cmp(b.0)));
    let mut children = Vec::new();
    let mut others = 0.0;
    for (child, below) in entries {
        if children.len() < WIDEST && below.weight >= least {
            children.push(finish_node(child, below, least));
        } else {
            others += below.weight;
        }
    }
    if others > 0.0 {
        let weight = Seconds(finite(others));
        let name = OTHERS.to_owned();
        children.push(FlameNode { name, kernel: node.kernel, weight, children: Vec::new() });
    }
    let (name, weight) = (name.to_owned(), Seconds(finite(node.weight)));
    FlameNode { name, kernel: node.kernel, weight, children }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(name: &str) -> Frame {
        Frame { function: name.to_owned(), module: "app".to_owned() }
    }

    #[test]
    fn outermost_frame_is_at_the_root_and_heaviest_first() {
        let light = [frame("leaf"), frame("main")];
        let heavy = [frame("other"), frame("main")];
        let mut flame = Flame::default();
        flame.add(&light, 1.0);
        flame.add(&heavy, 3.0);
        let root = flame.finish().unwrap();
        assert_eq!(root.children[0].name, "main");
        assert_eq!(root.children[0].children[0].name, "other");
        assert!((root.weight.0 - 4.0).abs() < 1e-12);
        assert_eq!(Flame::default().finish(), None);
    }

    #[test]
    fn a_deep_stack_keeps_its_ends() {
        for length in [DEEPEST, DEEPEST + 1, 300] {
            let stack: Vec<Frame> = (0..length).map(|place| frame(&place.to_string())).collect();
            let names: Vec<&str> = drawn(&stack).map(|frame| frame.function.as_str()).collect();
            assert_eq!(names.len(), DEEPEST);
            assert_eq!(names[0], (length - 1).to_string());
            assert_eq!(names.last(), Some(&"0"));
        }
    }

    #[test]
    fn frames_of_the_kernel_are_distinguished() {
        let kernel = Frame { function: "do_futex".to_owned(), module: KERNEL.to_owned() };
        let stack = [kernel, frame("main")];
        let mut flame = Flame::default();
        flame.add(&stack, 1.0);
        let root = flame.finish().unwrap();
        assert!(!root.kernel && !root.children[0].kernel && root.children[0].children[0].kernel);
    }

    fn check(node: &FlameNode) {
        let below: f64 = node.children.iter().map(|child| child.weight.0).sum();
        assert!(below <= node.weight.0 * (1.0 + 1e-9), "{} holds {below}", node.name);
        node.children.iter().for_each(check);
    }

    proptest! {
        #[test]
        fn children_never_outweigh_their_parent(
            stacks in prop::collection::vec(
                (prop::collection::vec(0_u8..5, 0..6), 0.0_f64..10.0),
                0..60,
            )
        ) {
            let frames: Vec<(Vec<Frame>, f64)> = stacks
                .into_iter()
                .map(|(names, w)| (names.iter().map(|n| frame(&n.to_string())).collect(), w))
                .collect();
            let mut flame = Flame::default();
            for (stack, weight) in &frames {
                flame.add(stack, *weight);
            }
            if let Some(root) = flame.finish() {
                let sum: f64 = frames.iter().map(|(_, weight)| weight).sum();
                prop_assert!((root.weight.0 - sum).abs() < 1e-9 * sum.max(1.0));
                check(&root);
            }
        }
    }
}

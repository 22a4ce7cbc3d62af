//! One lock in several processes.
//!
//! A command is a new process in each slice, and its lock has another address in each. But address
//! spaces are laid out by whole pages: a lock of the program's own data, or of a heap that grew in
//! the same order, keeps its place within the page. So locks of different starts and slices are one
//! where that place is the same, and one of the functions that want the one wants the other, or the
//! same few functions want both, each time another one of them most.
//! Without this the name of a lock that two functions want about equally often would be drawn anew
//! in each process, and the lock would be two causes.
//!
//! Objects of the kernel lie anywhere, in the same process as well: a directory's lock is another
//! one in each. They are one where the functions say so.

use super::node::Node;
use super::seen::Seen;
use kneepoint_vocab::VariantId;
use std::collections::{BTreeMap, BTreeSet};

/// Addresses below this are a place within a page.
pub(super) const PAGE: u64 = 4096;
/// A function is one of those that want a lock if at least this part of its stacks is by it.
const WANTS: f64 = 0.2;
/// Or, however often, this part of the stacks of either lock at least is by functions that want
/// both.
const SHARED: f64 = 0.5;

/// One lock, or anything else that is waited for.
pub(super) struct Lock {
    /// At least one.
    pub(super) nodes: Vec<Node>,
    pub(super) seen: Seen,
}

/// The nodes, those that are one lock in several processes together.
pub(super) fn locks(seen: BTreeMap<Node, Seen>) -> Vec<Lock> {
    let mut locks: Vec<Lock> = Vec::new();
    let mut places: BTreeMap<Option<u64>, Vec<Lock>> = BTreeMap::new();
    for (node, seen) in seen {
        match node {
            Node::Object { kernel: true, .. } if seen.stacks <= 0.0 => {
                locks.push(Lock { nodes: vec![node], seen });
            }
            Node::Object { kernel, address, .. } => {
                let lock = Lock { nodes: vec![node], seen };
                let place = if kernel { None } else { Some(address % PAGE) };
                places.entry(place).or_default().push(lock);
            }
            _ => locks.push(Lock { nodes: vec![node], seen }),
        }
    }
    for mut place in places.into_values() {
        // The lock that most is known of first; of equal ones that with the least node.
        place.sort_by(|a, b| {
            b.seen.stacks.total_cmp(&a.seen.stacks).then_with(|| a.nodes.cmp(&b.nodes))
        });
        let mut one: Vec<Lock> = Vec::new();
        for lock in place {
            match one.iter_mut().find(|known| is_same(known, &lock)) {
                Some(known) => {
                    known.seen.merge(&lock.seen);
                    known.nodes.extend(lock.nodes);
                }
                None => one.push(lock),
            }
        }
        locks.extend(one);
    }
    locks
}

/// Whether both are one lock: of one kind, and wanted by the same functions; where nobody saw by
/// which, of different starts.
fn is_same(one: &Lock, other: &Lock) -> bool {
    let starts = |lock: &Lock| lock.nodes.iter().map(start).collect::<BTreeSet<_>>();
    if one.seen.stacks <= 0.0 && other.seen.stacks <= 0.0 {
        return starts(one).is_disjoint(&starts(other));
    }
    let (one, other) = (&one.seen, &other.seen);
    let wants = |seen: &Seen, function: &str| {
        seen.first.get(function).is_some_and(|weight| *weight >= WANTS * seen.stacks)
    };
    let mut common = one.first.keys().filter(|name| other.first.contains_key(*name));
    one.machinery() == other.machinery()
        && (common.any(|name| wants(one, name) && wants(other, name))
            || (shared(one, other) >= SHARED && shared(other, one) >= SHARED))
}

/// The part of the stacks of `one` that are by functions which want `other` as well.
fn shared(one: &Seen, other: &Seen) -> f64 {
    let both = one.first.iter().filter(|(name, _)| other.first.contains_key(*name));
    both.map(|(_, weight)| weight).sum::<f64>() / one.stacks
}

/// The start of an object that a node is.
fn start(node: &Node) -> Option<(VariantId, u32)> {
    match node {
        Node::Object { variant, start, .. } => Some((variant.clone(), *start)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::kernel_locks::Machinery;

    fn node(start: u32, address: u64) -> Node {
        Node::Object { variant: VariantId::new("a"), start, kernel: false, address }
    }

    fn seen(votes: &[(&str, f64)]) -> Seen {
        let mut seen = Seen::default();
        for (name, weight) in votes {
            seen.vote(Machinery::User("mutex"), vec![(*name).to_owned()], *weight);
        }
        seen
    }

    fn counted(all: &[(Node, Seen)]) -> Vec<usize> {
        let found = locks(all.iter().cloned().collect());
        found.iter().map(|lock| lock.nodes.len()).collect()
    }

    #[test]
    fn a_lock_keeps_its_place_within_the_page() {
        let one = (node(0, 0x5551_2340), seen(&[("put", 5.0), ("take", 4.0)]));
        let again = (node(1, 0x5580_1340), seen(&[("put", 3.0), ("take", 4.0)]));
        assert_eq!(counted(&[one.clone(), again]), [2]);
        let elsewhere = (node(1, 0x5580_1380), seen(&[("put", 3.0), ("take", 4.0)]));
        assert_eq!(counted(&[one.clone(), elsewhere]), [1, 1]);
        let other = (node(1, 0x5580_1340), seen(&[("log", 3.0)]));
        assert_eq!(counted(&[one, other]), [1, 1]);
    }

    #[test]
    fn locks_without_stacks_are_one_in_different_starts() {
        let bare = |start, address| (node(start, address), Seen::default());
        assert_eq!(counted(&[bare(0, 0x5551_2340), bare(1, 0x5580_1340)]), [2]);
        assert_eq!(counted(&[bare(0, 0x5551_2340), bare(0, 0x5580_1340)]), [1, 1]);
    }

    #[test]
    fn objects_of_the_kernel_are_one_by_the_functions_that_want_them() {
        let of_kernel = |address, votes: &[(&str, f64)]| {
            (
                Node::Object { variant: VariantId::new("a"), start: 0, kernel: true, address },
                seen(votes),
            )
        };
        let one = of_kernel(0x1040, &[("do_unlinkat", 5.0), ("path_openat", 4.0)]);
        let again = of_kernel(0x2080, &[("path_openat", 5.0), ("do_unlinkat", 3.0)]);
        assert_eq!(counted(&[one.clone(), again]), [2]);
        assert_eq!(counted(&[one.clone(), of_kernel(0x2080, &[("lookup_slow", 5.0)])]), [1, 1]);
        assert_eq!(counted(&[one, of_kernel(0x2080, &[])]), [1, 1]);
    }

    #[test]
    fn a_function_that_seldom_wants_a_lock_unites_nothing() {
        let one = (node(0, 0x1040), seen(&[("put", 9.0), ("log", 1.0)]));
        let other = (node(1, 0x2040), seen(&[("log", 9.0), ("take", 1.0)]));
        assert_eq!(counted(&[one, other]), [1, 1]);
    }

    #[test]
    fn functions_that_take_turns_at_a_lock_want_one() {
        let one = (node(0, 0x1040), seen(&[("reset", 1.0), ("bind", 1.0), ("step", 9.0)]));
        let other = (node(1, 0x2040), seen(&[("reset", 9.0), ("bind", 1.0), ("step", 1.0)]));
        assert_eq!(counted(&[one.clone(), other]), [2]);
        let more = (node(1, 0x2040), seen(&[("reset", 9.0), ("send", 4.0)]));
        assert_eq!(counted(&[one, more]), [1, 1]);
    }
}

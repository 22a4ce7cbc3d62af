//! What unites nodes to one group: the kind of thing and what stands for its name.

use super::node::Node;
use super::processes::{Lock, PAGE};
use super::seen::Seen;
use crate::frames::kernel_locks::{self, Class};
use crate::frames::names::Catalogue;
use crate::frames::naming::LOCK;
use kneepoint_vocab::WaitReason;
use kneepoint_vocab::findings::Place;
use std::collections::BTreeMap;

/// What has no owner, by its word in `names.toml`.
const SEMAPHORE: &str = "semaphore";
/// Objects without a name, lighter than this part of all blocked time, are one group.
const UNNAMED_APART: f64 = 0.01;

/// What kind of thing unites nodes. Groups stand in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Condition,
    KernelLock,
    KernelSpinLock,
    Lock,
    /// With a proven name, as the next two.
    NamedCondition,
    NamedKernelLock,
    NamedLock,
    /// Anything else, by its reason.
    Reason,
    /// A lock that is made of several words of memory, some waited for as a condition.
    WholeLock,
}

/// What unites nodes: a kind, and what stands for the name.
pub(super) type Union = (Kind, Place);

/// A place, where there is a name for it.
fn within(name: String) -> Place {
    if name.is_empty() { Place::Nowhere } else { Place::In(name) }
}

/// What a kernel lock that only spinning shows is called together with.
#[derive(Default)]
pub(super) struct SleptFor {
    /// By the first caller of those who sleep for it: those who spin in the same caller want the
    /// same lock. Of several locks of one caller it is the one that was waited for most.
    by_caller: BTreeMap<String, (f64, Union)>,
    /// By what locks of their kind are called, whoever wants them.
    by_kind: BTreeMap<String, Vec<Union>>,
}

impl SleptFor {
    pub(super) fn build(known: Catalogue, locks: &[Lock], all_blocked: f64) -> Self {
        let mut slept_for = Self::default();
        for Lock { nodes, seen: what } in locks {
            let node = &nodes[0];
            let kernel = match node {
                Node::Object { kernel, .. } | Node::Named { kernel, .. } => *kernel,
                Node::Reason { reason, .. } => *reason == WaitReason::KernelLock,
                Node::Spin { .. } | Node::Polled { .. } => false,
            };
            if !kernel {
                continue;
            }
            let union = union_of(known, nodes, what, all_blocked);
            let called = match node {
                Node::Named { name, .. } => Some(name.as_str()),
                _ => union
                    .1
                    .function()
                    .and_then(|of| kernel_locks::kind(known, what.machinery(), of)),
            };
            if let Some(called) = called {
                let of_kind = slept_for.by_kind.entry(called.to_owned()).or_default();
                if !of_kind.contains(&union) {
                    of_kind.push(union.clone());
                }
            }
            for (caller, weight) in &what.first {
                let most = slept_for.by_caller.get(caller);
                if most.is_none_or(|(heaviest, _)| weight > heaviest) {
                    slept_for.by_caller.insert(caller.clone(), (*weight, union.clone()));
                }
            }
        }
        slept_for
    }

    /// The lock that `spinning` in `caller` wants: the one that is slept for there, else the only
    /// one of its kind that anybody sleeps for.
    pub(super) fn lock(&self, known: Catalogue, spinning: &Seen, caller: &str) -> Option<Union> {
        if let Some((_, union)) = self.by_caller.get(caller) {
            return Some(union.clone());
        }
        let of_kind = self.by_kind.get(kernel_locks::kind(known, spinning.machinery(), caller)?)?;
        match &of_kind[..] {
            [only] => Some(only.clone()),
            _ => None,
        }
    }
}

/// What unites `nodes`, of which `seen` is known, where `all_blocked` seconds are waited in all.
pub(super) fn union_of(known: Catalogue, nodes: &[Node], seen: &Seen, all_blocked: f64) -> Union {
    match &nodes[0] {
        Node::Named { kernel: true, name } => (Kind::NamedKernelLock, within(name.clone())),
        Node::Named { name, .. } => match runtime_of(known, seen, name) {
            Some(runtime) => (Kind::WholeLock, within(runtime)),
            None if is_lock(known, seen) => (Kind::NamedLock, within(name.clone())),
            None => match condition_of_many(name, seen) {
                Some(place) => (Kind::Condition, place),
                None => (Kind::NamedCondition, within(name.clone())),
            },
        },
        Node::Object { kernel, address, .. } => {
            let place = match seen.name() {
                Some(name) => within(name),
                None if seen.all_blocked() >= UNNAMED_APART * all_blocked => {
                    Place::At(match nodes.len() {
                        1 => format!("{address:#x}"),
                        _ => format!("{:#x} of a page", address % PAGE),
                    })
                }
                None => Place::Nowhere,
            };
            let name = place.function().unwrap_or_default();
            if *kernel {
                (Kind::KernelLock, place)
            } else if known.is_runtime_lock(name) {
                (Kind::WholeLock, place)
            } else if known.is_own_lock(name) {
                (Kind::WholeLock, seen.called_by(known, name))
            } else {
                (if is_lock(known, seen) { Kind::Lock } else { Kind::Condition }, place)
            }
        }
        Node::Polled { caller } => (Kind::Lock, within(caller.clone())),
        Node::Spin { sleeps: true, caller } => (Kind::KernelLock, within(caller.clone())),
        Node::Spin { sleeps: false, caller } => {
            // What is called the same is one lock, or many of one kind, whoever wants it.
            let named = known.kernel_lock(Class::Spin, caller).unwrap_or(caller);
            (Kind::KernelSpinLock, within(named.to_owned()))
        }
        Node::Reason { reason, syscall } => {
            match seen.name().filter(|_| *reason == WaitReason::KernelLock) {
                Some(name) => (Kind::KernelLock, within(name)),
                None => (Kind::Reason, within(format!("{reason:?} {syscall}"))),
            }
        }
    }
}

/// A condition within a variable, by the variable and the function that waits: a program keeps one
/// for each of its threads or slots, which are waited for in turn.
fn condition_of_many(name: &str, seen: &Seen) -> Option<Place> {
    let (variable, _) = name.split_once("+0x")?;
    Some(Place::Within { function: seen.name()?, variable: variable.to_owned() })
}

/// The runtime whose lock a variable of this name is.
fn runtime_of(known: Catalogue, seen: &Seen, variable: &str) -> Option<String> {
    let by_variable = || known.variable_of_runtime(variable).filter(|_| seen.stacks <= 0.0);
    seen.runtime(known).or_else(|| by_variable().map(str::to_owned))
}

/// Whether it is a lock; else a condition. A futex wait with a bitset may be a condition
/// variable's or a mutex's (Rust's standard mutex waits so); the stack's machinery decides, the
/// reason only where there is none. A semaphore has no owner: it is a lock unless one thread lets
/// all others go by it.
fn is_lock(known: Catalogue, seen: &Seen) -> bool {
    match seen.machinery().word() {
        LOCK => seen.reason() != WaitReason::Condition,
        SEMAPHORE => !seen.is_signalled(),
        word => known.is_lock(word),
    }
}

//! Threads that a condition let go before they could go on.
//!
//! Where more threads are woken than can go on (a thundering herd), those who wait for the
//! condition's lock again, or find nothing and wait for the condition once more, wait for one
//! thing by two objects. The condition then belongs to the lock, as long as what is waited for the
//! lock by threads just let go is at least what is waited for the condition: else the condition is
//! waited for as well, by threads that nobody woke.

use super::processes::Lock;
use super::seen::{Seen, heaviest};
use super::union::{Kind, Union};
use crate::frames::kernel_locks::Machinery;
use crate::frames::naming::CONDITION;
use crate::number::quotient;
use std::collections::{BTreeMap, BTreeSet};

/// So much of a lock's waits are by threads that a condition just let go, where they are a herd.
pub(crate) const LEAST_AFTER_WAKE: f64 = 0.25;

/// Threads that a condition just let go wait for its lock for so much of what they waited for the
/// condition, at least, where they are a herd: whoever wakes one that can go on, while holding the
/// lock, makes it wait for a moment.
pub(crate) const HERD_WAITS: f64 = 0.1;

/// What is known of one lock or condition: seconds of waits, and of stacks that stand for them.
#[derive(Default)]
struct Waited {
    blocked: f64,
    sampled: f64,
    /// Stacks by the function that waited.
    by: BTreeMap<String, f64>,
    /// Those of threads that a condition just let go, by the function that waited for it.
    back: BTreeMap<String, f64>,
}

impl Waited {
    fn add(&mut self, seen: &Seen) {
        self.blocked += seen.all_blocked();
        self.sampled += seen.sampled();
        for (into, from) in [(&mut self.by, &seen.first), (&mut self.back, &seen.back)] {
            for (function, weight) in from {
                *into.entry(function.clone()).or_default() += weight;
            }
        }
    }

    /// Seconds of waits by threads that a condition in `function` just let go.
    fn back(&self, function: &str) -> f64 {
        let stacks = self.back.get(function).copied().unwrap_or_default();
        quotient(stacks, self.sampled) * self.blocked
    }
}

/// Gives each condition whose threads wait for its lock again the lock's union; which of `locks`
/// they are.
pub(super) fn join(locks: &[Lock], unions: &mut [Union]) -> BTreeSet<usize> {
    let (mut wanted, mut waited) = (BTreeMap::<Union, Waited>::new(), BTreeMap::new());
    for (lock, union) in locks.iter().zip(unions.iter()) {
        if is_lock(union) {
            wanted.entry(union.clone()).or_default().add(&lock.seen);
        } else if is_condition(lock, union) {
            let of_condition: &mut Waited = waited.entry(union.clone()).or_default();
            of_condition.add(&lock.seen);
        }
    }
    let mut joined = BTreeSet::new();
    for (condition, of) in waited {
        let Some(lock) = wanted_back(&of, &wanted).cloned() else { continue };
        for at in (0..unions.len()).filter(|at| unions[*at] == condition).collect::<Vec<_>>() {
            unions[at] = lock.clone();
            joined.insert(at);
        }
    }
    joined
}

fn is_lock(union: &Union) -> bool {
    matches!(union.0, Kind::Lock | Kind::NamedLock)
}

fn is_condition(lock: &Lock, union: &Union) -> bool {
    matches!(union.0, Kind::Condition | Kind::NamedCondition)
        && lock.seen.machinery() == Machinery::User(CONDITION)
}

/// The lock that those want back who waited for the condition.
fn wanted_back<'a>(condition: &Waited, wanted: &'a BTreeMap<Union, Waited>) -> Option<&'a Union> {
    let (function, weight) = heaviest(&condition.by)?;
    let all: f64 = condition.by.values().sum();
    let back = |of: &Waited| of.back(&function);
    let most = wanted.iter().max_by(|a, b| back(a.1).total_cmp(&back(b.1)));
    let (lock, of) = most.filter(|_| weight * 2.0 >= all)?;
    let is_herd = back(of) >= condition.blocked && back(of) >= LEAST_AFTER_WAKE * of.blocked;
    is_herd.then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::*;
    use kneepoint_vocab::findings::Place;
    use kneepoint_vocab::{VariantId, WaitReason};

    fn object(address: u64, word: &'static str, by: &str, seconds: f64) -> Lock {
        let variant = VariantId::new("a");
        let mut seen = Seen::default();
        seen.blocked.insert(WaitReason::Condition, seconds);
        seen.vote(Machinery::User(word), vec![by.to_owned()], seconds);
        Lock { nodes: vec![Node::Object { variant, start: 0, kernel: false, address }], seen }
    }

    /// A condition waited for in `join` for so many seconds, and a lock that is waited for 10
    /// seconds, `back` of them by threads let go in `function`.
    fn joined(condition: f64, function: &str, back: f64) -> bool {
        let mut lock = object(1, "mutex", "join", 10.0);
        lock.seen.back.insert(function.to_owned(), back);
        let locks = [object(2, CONDITION, "join", condition), lock];
        let named = |kind, name: &str| (kind, Place::In(name.to_owned()));
        let mut unions = [named(Kind::Condition, "join"), named(Kind::NamedLock, "room")];
        let joined = join(&locks, &mut unions);
        assert_eq!(joined.contains(&0), unions[0] == unions[1]);
        !joined.is_empty()
    }

    #[test]
    fn a_condition_belongs_to_the_lock_that_its_threads_want_back() {
        assert!(joined(2.0, "join", 9.0));
        assert!(joined(8.5, "join", 9.0));
        assert!(!joined(9.5, "join", 9.0), "it is waited for longer than the lock");
        assert!(!joined(2.0, "depart", 9.0), "others were let go");
        assert!(!joined(1.0, "join", 2.0), "who was let go makes little of the lock's waits");
    }

    #[test]
    fn what_is_made_of_conditions_stays_itself() {
        let mut lock = object(1, "mutex", "join", 10.0);
        lock.seen.back.insert("join".to_owned(), 10.0);
        let locks = [object(2, "barrier", "join", 1.0), lock];
        let in_join = Place::In("join".to_owned());
        let mut unions = [(Kind::Condition, in_join.clone()), (Kind::Lock, in_join)];
        assert!(join(&locks, &mut unions).is_empty());
    }
}

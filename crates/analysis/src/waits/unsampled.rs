//! Objects whose waits have no stack in the sample.
//!
//! A stack is taken by chance, the likelier the longer the wait, and stands for all waits like it:
//! the stacks for one reason stand for all the time that was waited for it, whatever the object
//! (Horvitz and Thompson, 1952). Where many objects are waited for in turn, most have no stack, and
//! the stacks of the others stand for more time than those were waited for. What they stand for
//! beyond that is the time of the objects without one.

use super::node::Node;
use super::processes::Lock;
use super::union::Union;
use kneepoint_vocab::WaitReason;
use kneepoint_vocab::findings::Place;
use std::collections::BTreeMap;

/// Gives each lock without stacks the union whose stacks stand for the most time beyond its own;
/// where none stands for half of what the lock was waited for, it keeps its own.
pub(super) fn apportion(locks: &[Lock], unions: &mut [Union]) {
    let mut beyond: BTreeMap<(WaitReason, Union), f64> = BTreeMap::new();
    for (lock, union) in locks.iter().zip(unions.iter()) {
        if lock.seen.sampled() > 0.0 && is_object(lock) && !matches!(union.1, Place::At(_)) {
            let of_union = beyond.entry((lock.seen.reason(), union.clone())).or_default();
            *of_union += lock.seen.sampled() - lock.seen.all_blocked();
        }
    }
    let mut without: Vec<(f64, usize)> = locks
        .iter()
        .enumerate()
        .filter(|(_, lock)| lock.seen.sampled() <= 0.0 && is_object(lock))
        .map(|(at, lock)| (lock.seen.all_blocked(), at))
        .collect();
    without.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (blocked, at) in without {
        let reason = locks[at].seen.reason();
        let of_reason = beyond.iter_mut().filter(|((of, _), _)| *of == reason);
        let Some(((_, union), left)) = of_reason.max_by(|a, b| a.1.total_cmp(b.1)) else {
            continue;
        };
        if *left >= blocked / 2.0 {
            *left -= blocked;
            unions[at] = union.clone();
        }
    }
}

/// Whether only its address tells which object it is.
fn is_object(lock: &Lock) -> bool {
    matches!(lock.nodes[0], Node::Object { .. })
}

#[cfg(test)]
mod tests {
    use super::super::seen::Seen;
    use super::super::union::Kind;
    use super::*;
    use crate::frames::kernel_locks::Machinery;
    use kneepoint_vocab::VariantId;

    /// A condition that was waited for `blocked` seconds, of which the stacks stand for `sampled`.
    fn lock(address: u64, blocked: f64, sampled: f64) -> Lock {
        let variant = VariantId::new("a");
        let node = Node::Object { variant, start: 0, kernel: false, address };
        let mut seen = Seen::default();
        seen.blocked.insert(WaitReason::Condition, blocked);
        if sampled > 0.0 {
            seen.vote(Machinery::User("condition"), vec!["wait".to_owned()], sampled);
        }
        Lock { nodes: vec![node], seen }
    }

    fn called(name: &str) -> Union {
        (Kind::Condition, Place::In(name.to_owned()))
    }

    fn nameless() -> Union {
        (Kind::Condition, Place::Nowhere)
    }

    #[test]
    fn what_stacks_stand_for_beyond_their_objects_is_of_those_without() {
        let locks = [lock(1, 3.0, 9.0), lock(2, 4.0, 0.0), lock(3, 2.0, 0.0)];
        let mut unions = [called("book"), nameless(), nameless()];
        apportion(&locks, &mut unions);
        assert_eq!(unions, [called("book"), called("book"), called("book")]);
    }

    #[test]
    fn of_two_names_each_gets_what_its_stacks_stand_for() {
        let locks = [lock(1, 3.0, 8.0), lock(2, 1.0, 3.0), lock(3, 5.0, 0.0), lock(4, 2.0, 0.0)];
        let mut unions = [called("book"), called("pay"), nameless(), nameless()];
        apportion(&locks, &mut unions);
        assert_eq!(unions[2..], [called("book"), called("pay")]);
    }

    #[test]
    fn what_no_stack_stands_for_keeps_no_name() {
        let locks = [lock(1, 3.0, 3.1), lock(2, 4.0, 0.0)];
        let mut unions = [called("book"), nameless()];
        apportion(&locks, &mut unions);
        assert_eq!(unions, [called("book"), nameless()]);
        let mut other = lock(2, 4.0, 0.0);
        other.seen.blocked = [(WaitReason::UserLock, 4.0)].into();
        apportion(&[lock(1, 3.0, 8.0), other], &mut unions);
        assert_eq!(unions[1], nameless(), "another kind of wait");
    }
}

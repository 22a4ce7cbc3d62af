//! What a census has counted, by lock.

use super::wire::{Use, UseKey, kind};
use super::words::Looked;
use crate::stack::MarkedStack;
use kneepoint_vocab::{LockUse, StackId, TakenAt};
use std::collections::BTreeMap;

/// Locks that are kept: those that are taken most often.
const MOST_LOCKS: usize = 256;

/// What the programs have counted, and the names and stacks for it.
pub(super) struct Counted<'a> {
    pub(super) uses: &'a [(UseKey, Use)],
    pub(super) marked: &'a [MarkedStack],
    /// By process and address.
    pub(super) names: &'a BTreeMap<(u32, u64), Option<String>>,
    /// What was found of their words.
    pub(super) looked: &'a Looked,
}

impl Counted<'_> {
    /// The locks, the most often taken first, and how many more there were.
    pub(super) fn locks(&self) -> (Vec<LockUse>, u64) {
        let mut stacks: BTreeMap<u64, Vec<&MarkedStack>> = BTreeMap::new();
        for mark in self.marked {
            stacks.entry(mark.id).or_default().push(mark);
        }
        let mut locks: BTreeMap<(u32, u64), LockUse> = BTreeMap::new();
        for (key, one) in self.uses.iter().filter(|(_, one)| one.count > 0) {
            let place = (key.process, key.lock);
            let lock = locks.entry(place).or_insert_with(|| LockUse {
                object: key.lock,
                object_name: self.names.get(&place).cloned().flatten(),
                ..LockUse::default()
            });
            lock.taken += one.count;
            lock.shared += if key.how == kind::BY_READER { one.count } else { 0 };
            lock.stacks.extend(taken_at(stacks.get(&one.id).map_or(&[], Vec::as_slice), one.count));
        }
        for (place, lock) in &mut locks {
            let looks = self.looked.get(place).copied().unwrap_or_default();
            (lock.looks, lock.held) = (looks.all, looks.held);
        }
        let mut locks: Vec<LockUse> = locks.into_values().collect();
        locks.sort_by(|a, b| b.taken.cmp(&a.taken).then(a.object.cmp(&b.object)));
        let left_out = locks.len().saturating_sub(MOST_LOCKS);
        locks.truncate(MOST_LOCKS);
        (locks, left_out as u64)
    }
}

/// Shares out how often a lock was taken from one place over the stacks that were taken there: each
/// stands for 1 ÷ the probability with which it was.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "estimates of counts, positive and far below 2^53"
)]
fn taken_at(marks: &[&MarkedStack], count: u64) -> Vec<TakenAt> {
    let mut weights: BTreeMap<StackId, f64> = BTreeMap::new();
    for mark in marks {
        *weights.entry(mark.stack).or_default() += 1.0 / mark.p.max(1) as f64;
    }
    let all: f64 = weights.values().sum();
    let of = |(stack, weight): (StackId, f64)| TakenAt {
        stack,
        times: ((weight / all * count as f64).round() as u64).max(1),
    };
    weights.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::words::Looks;
    use super::*;

    fn used(lock: u64, caller: u64, how: u32, id: u64, count: u64) -> (UseKey, Use) {
        (UseKey { lock, caller, process: 7, how }, Use { id, begun: count + 1, count })
    }

    fn mark(id: u64, p: u64, stack: u32) -> MarkedStack {
        MarkedStack { id, kind: 4, p, tid: 1, taken_in: 1, stack: StackId(stack) }
    }

    #[test]
    fn uses_of_one_lock_from_several_places_are_summed() {
        let uses = [
            used(128, 1, kind::MUTEX, 3, 1),
            used(64, 1, kind::MUTEX, 1, 4),
            used(64, 2, kind::BY_READER, 2, 2),
            used(192, 1, kind::MUTEX, 4, 0),
        ];
        let marked = [mark(1, 1 << 32, 10), mark(1, 1 << 31, 11), mark(2, 1 << 32, 12)];
        let names = BTreeMap::from([((7, 64), Some("app:queue".to_owned()))]);
        let looked = Looked::from([((7, 64), Looks { all: 90, held: 30 })]);
        let counted = Counted { uses: &uses, marked: &marked, names: &names, looked: &looked };
        let (locks, left_out) = counted.locks();
        assert_eq!(left_out, 0);
        let brief: Vec<_> = locks.iter().map(|one| (one.object, one.taken, one.shared)).collect();
        assert_eq!(brief, [(64, 6, 2), (128, 1, 0)], "the most often taken first");
        let queue = &locks[0];
        assert_eq!((queue.looks, queue.held), (90, 30));
        assert_eq!(queue.object_name.as_deref(), Some("app:queue"));
        let stacks: Vec<_> = queue.stacks.iter().map(|at| (at.stack.0, at.times)).collect();
        assert_eq!(stacks, [(10, 1), (11, 3), (12, 2)], "1 to 2 of four, and both of two");
    }

    #[test]
    fn of_many_locks_those_taken_most_often_are_kept() {
        let uses: Vec<_> = (1..=300).map(|lock| used(lock, 0, kind::MUTEX, lock, lock)).collect();
        let (names, looked) = (BTreeMap::new(), Looked::new());
        let counted = Counted { uses: &uses, marked: &[], names: &names, looked: &looked };
        let (locks, left_out) = counted.locks();
        assert_eq!((locks.len(), left_out, locks[0].object), (MOST_LOCKS, 44, 300));
    }
}

//! Off-CPU stacks: joins the stacks taken at a block or a wake-up with how long the wait lasted.
//!
//! A wait's stack is taken with probability p fixed before the wait's length is known, so
//! length ÷ p estimates the blocked time it stands for without bias (Horvitz and Thompson, 1952).

use super::window::{Objects, wait_key};
use super::wire::{WaitId, WaitRecord, reason};
use crate::stack::{MarkedStack, WindowStacks};
use kneepoint_vocab::{Frame, Nanos, StackId, StackKind, StackRecord, StackWeight};
use std::collections::{BTreeMap, BTreeSet};

/// `kind` of a mark taken where a thread blocked; wakers have 2.
const BLOCK: u32 = 1;
/// `kind` of a mark taken at a tick.
const TICK: u32 = 3;

/// Frames from the innermost that are searched for a lock's own functions.
const DEPTH: usize = 14;

const LOCKS: [&str; 12] = [
    "lock_contended",
    "read_contended",
    "write_contended",
    "pthread_mutex_lock",
    "lll_lock_wait",
    "pthread_rwlock_",
    "RawMutex::lock_slow",
    "lock_shared_slow",
    "lock_exclusive_slow",
    "pthread_spin_lock",
    "mutex_lock_full",
    "_L_lock",
];
const CONDITIONS: [&str; 5] =
    ["pthread_cond_", "Condvar::wait", "futex::Condvar", "Parker::park", "sem_wait"];

/// Locks that are made of a semaphore for each waiter, so that its call is the innermost.
const LOCKS_OVER_SEMAPHORES: [&str; 1] = ["LWLock"];

/// Whether the innermost synchronisation call of a stack is a lock: `None` where it shows none.
fn shows_lock(record: &StackRecord) -> Option<bool> {
    let user = || record.frames.iter().filter(|frame| frame.module != "[kernel]").take(DEPTH);
    let over = |frame: &Frame| LOCKS_OVER_SEMAPHORES.iter().any(|l| frame.function.starts_with(l));
    if user().any(over) {
        return Some(true);
    }
    user().find_map(|frame| {
        let has = |word: &&str| frame.function.contains(*word);
        if LOCKS.iter().any(has) {
            Some(true)
        } else if CONDITIONS.iter().any(has) {
            Some(false)
        } else {
            None
        }
    })
}

/// What the stacks of a run have shown about futex words.
#[derive(Debug, Default)]
pub(crate) struct LockLore {
    stacks: BTreeSet<StackId>,
    objects: Objects,
    pids: Vec<u32>,
}

impl LockLore {
    /// A window on `pids` begins; words of other processes are forgotten.
    pub(crate) fn begin(&mut self, pids: &[u32]) {
        if self.pids != pids {
            self.pids = pids.to_vec();
            self.objects = Objects::default();
        }
    }

    /// Learns from new stacks and from which waits they belong to.
    pub(crate) fn learn(
        &mut self,
        new: &[StackRecord],
        marked: &[MarkedStack],
        waits: &BTreeMap<u64, (WaitId, u64)>,
    ) {
        let locks = new.iter().filter(|record| shows_lock(record) == Some(true));
        self.stacks.extend(locks.map(|record| record.id));
        for mark in marked.iter().filter(|mark| mark.kind == BLOCK) {
            if let Some((wait, _)) = waits.get(&mark.id)
                && wait.reason == reason::FUTEX
                && self.stacks.contains(&mark.stack)
            {
                self.objects.locks.insert(wait.object);
            }
        }
    }

    /// Looks new futex words up; `find` names the global variable at an address.
    pub(crate) fn name(
        &mut self,
        words: impl Iterator<Item = u64>,
        mut find: impl FnMut(u64) -> Option<String>,
    ) {
        for word in words {
            self.objects.names.entry(word).or_insert_with(|| find(word));
        }
    }

    /// What is known.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }
}

/// Counts the stacks taken at ticks as stacks on a core.
pub(crate) fn take_ticks(stacks: &mut WindowStacks) {
    let (ticks, marked) =
        std::mem::take(&mut stacks.marked).into_iter().partition(|mark| mark.kind == TICK);
    stacks.marked = marked;
    for mark in ticks {
        *stacks.on_cpu.entry(mark.stack).or_default() += 1;
    }
}

/// Waits by mark: what for and how long.
pub(crate) fn by_mark(records: &[WaitRecord]) -> BTreeMap<u64, (WaitId, u64)> {
    records.iter().map(|record| (record.id, (record.wait, record.blocked))).collect()
}

/// Weighted stacks of the window, and the marks without a known wait.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "weights are estimates; 2^53 ns are 104 days"
)]
pub(crate) fn weights(
    marked: &[MarkedStack],
    waits: &BTreeMap<u64, (WaitId, u64)>,
    objects: &Objects,
) -> (Vec<StackWeight>, u64) {
    let mut sums = BTreeMap::new();
    let mut orphans = 0;
    for mark in marked {
        let Some((wait, blocked)) = waits.get(&mark.id) else {
            orphans += 1;
            continue;
        };
        let kind = if mark.kind == BLOCK { StackKind::OffCpu } else { StackKind::Waker };
        let entry = sums.entry((kind, mark.stack, wait_key(wait, objects))).or_insert((0.0, 0));
        entry.0 += *blocked as f64 * (1_u64 << 32) as f64 / mark.p.max(1) as f64;
        entry.1 += 1;
    }
    let weight = |((kind, stack, wait), (weight, count)): ((_, _, _), (f64, u64))| StackWeight {
        kind,
        stack,
        wait: Some(wait),
        weight: Nanos(weight as u64),
        count,
    };
    (sums.into_iter().map(weight).collect(), orphans)
}

/// On-CPU stacks, weighted so that they add up to the running time of the system.
pub(crate) fn on_cpu(counts: &BTreeMap<StackId, u64>, running: Nanos) -> Vec<StackWeight> {
    let total = u128::from(counts.values().sum::<u64>().max(1));
    let share = |count: u64| u64::try_from(u128::from(running.0) * u128::from(count) / total);
    let weight = |(stack, count): (&StackId, &u64)| StackWeight {
        kind: StackKind::OnCpu,
        stack: *stack,
        wait: None,
        weight: Nanos(share(*count).unwrap_or(u64::MAX)),
        count: *count,
    };
    counts.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(object: u64) -> WaitId {
        WaitId { comm: [0; 16], object, nr: 202, op: 137, reason: reason::FUTEX, role: 1 }
    }

    fn stack(id: u32, functions: &[&str]) -> StackRecord {
        let frame = |function: &&str| Frame { function: (*function).into(), module: "a".into() };
        StackRecord {
            id: StackId(id),
            frames: functions.iter().map(frame).collect(),
            truncated: false,
        }
    }

    fn mark(id: u64, kind: u32, p: u64, stack: u32) -> MarkedStack {
        MarkedStack { id, kind, p, tid: 1, stack: StackId(stack) }
    }

    #[test]
    fn weight_is_length_over_probability() {
        let waits = BTreeMap::from([(1, (wait(16), 1000)), (2, (wait(16), 3000))]);
        let marked = [
            mark(1, 1, 1 << 30, 0),
            mark(2, 1, 1 << 32, 0),
            mark(2, 2, 1 << 32, 5),
            mark(9, 1, 1, 0),
        ];
        let (found, orphans) = weights(&marked, &waits, &Objects::default());
        assert_eq!(orphans, 1);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].kind, found[0].weight, found[0].count),
            (StackKind::OffCpu, Nanos(7000), 2)
        );
        assert_eq!((found[1].kind, found[1].weight), (StackKind::Waker, Nanos(3000)));
    }

    #[test]
    fn ticks_are_stacks_on_a_core_and_no_waits() {
        let mut stacks = WindowStacks {
            marked: vec![mark(0, 3, 1 << 32, 4), mark(1, 1, 1 << 32, 0), mark(0, 3, 1 << 32, 4)],
            ..WindowStacks::default()
        };
        take_ticks(&mut stacks);
        assert_eq!(stacks.on_cpu, BTreeMap::from([(StackId(4), 2)]));
        assert_eq!(stacks.marked, [mark(1, 1, 1 << 32, 0)]);
    }

    #[test]
    fn the_innermost_call_decides_between_lock_and_condition() {
        assert_eq!(
            shows_lock(&stack(0, &["syscall", "Mutex::lock_contended", "main"])),
            Some(true)
        );
        assert_eq!(
            shows_lock(&stack(0, &["pthread_cond_wait", "pthread_mutex_lock"])),
            Some(false)
        );
        assert_eq!(
            shows_lock(&stack(0, &["sem_wait", "PGSemaphoreLock", "LWLockAcquire"])),
            Some(true)
        );
        assert_eq!(shows_lock(&stack(0, &["poll", "main"])), None);
    }

    #[test]
    fn lore_is_forgotten_with_the_process() {
        let mut lore = LockLore::default();
        lore.begin(&[7]);
        let waits = BTreeMap::from([(1, (wait(16), 1000))]);
        lore.learn(&[stack(3, &["lock_contended"])], &[mark(1, 1, 1, 3)], &waits);
        lore.begin(&[7]);
        assert!(lore.objects().locks.contains(&16));
        lore.begin(&[8]);
        assert!(lore.objects().locks.is_empty());
    }

    #[test]
    fn on_cpu_weights_add_up_to_the_running_time() {
        let counts = BTreeMap::from([(StackId(0), 1), (StackId(1), 3)]);
        let found = on_cpu(&counts, Nanos(4000));
        assert_eq!(found.iter().map(|stack| stack.weight).sum::<Nanos>(), Nanos(4000));
        assert_eq!(found[1].weight, Nanos(3000));
    }
}

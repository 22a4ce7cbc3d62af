//! Off-CPU stacks: joins the stacks taken at a block or a wake-up with how long the wait lasted.
//!
//! A wait's stack is taken with probability p fixed before the wait's length is known, so
//! length ÷ p estimates the blocked time it stands for without bias (Horvitz and Thompson, 1952).

use super::window::{Harvest, Objects, role_of, wait_key};
use super::wire::{Core, Thread, WaitRecord, name_of};
use crate::stack::{MarkedStack, WindowStacks};
use kneepoint_vocab::{
    Behind, EndedBy, Nanos, StackId, StackKind, StackWeight, ThreadRole, WaitKey, Waker,
};
use std::collections::BTreeMap;

/// `kind` of a mark taken where a thread blocked.
const BLOCK: u32 = 1;
/// `kind` of a mark taken where a thread woke another.
const WAKE: u32 = 2;
/// `kind` of a mark taken at a tick.
const TICK: u32 = 3;
/// Names of those who end the waits of one key that are kept.
const MOST_NAMES: usize = 8;
/// Locks that are kept of those that the holders of one waited for.
const MOST_BEHIND: usize = 4;

/// Sampled waits by mark.
pub(crate) type Records = BTreeMap<u64, WaitRecord>;

/// What was looked up about futex words.
#[derive(Debug, Default)]
pub(crate) struct LockLore {
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
pub(crate) fn by_mark(records: Vec<WaitRecord>) -> Records {
    records.into_iter().map(|record| (record.id, record)).collect()
}

/// Blocked time that a marked wait of this length stands for, in ns.
#[allow(clippy::cast_precision_loss, reason = "an estimate; 2^53 ns are 104 days")]
fn stands_for(mark: &MarkedStack, blocked: u64) -> f64 {
    blocked as f64 * (1_u64 << 32) as f64 / mark.p.max(1) as f64
}

/// Weighted stacks of the window, and the marks without a known wait. Who ended a wait was
/// looked for in this share of the wake-ups.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "estimates, positive")]
pub(crate) fn weights(
    marked: &[MarkedStack],
    waits: &Records,
    objects: &Objects,
    wakers_share: f64,
) -> (Vec<StackWeight>, u64) {
    let mut sums = BTreeMap::new();
    let mut orphans = 0;
    for mark in marked {
        let Some(WaitRecord { wait, blocked, .. }) = waits.get(&mark.id) else {
            orphans += 1;
            continue;
        };
        let (kind, role, share) = match mark.kind {
            BLOCK => (StackKind::OffCpu, Some(role_of(wait.role.into())), 1.0),
            _ => (StackKind::Waker, None, wakers_share.max(1e-6)),
        };
        let key = (kind, mark.stack, wait_key(wait, objects), role);
        let entry = sums.entry(key).or_insert((0.0, 0));
        entry.0 += stands_for(mark, *blocked) / share;
        entry.1 += 1;
    }
    let weight = |((kind, stack, wait, role), (weight, count)): (_, (f64, u64))| StackWeight {
        kind,
        stack,
        wait: Some(wait),
        role,
        weight: Nanos(weight as u64),
        count,
    };
    (sums.into_iter().map(weight).collect(), orphans)
}

/// For each key the thread that ended most of its waits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "estimates, positive")]
pub(crate) fn wakers(marked: &[MarkedStack], waits: &Records, harvest: &Harvest) -> Vec<Waker> {
    let mut ended: BTreeMap<WaitKey, Ended> = BTreeMap::new();
    for mark in marked.iter().filter(|mark| mark.kind == WAKE) {
        let Some(record) = waits.get(&mark.id) else { continue };
        let of_key = ended.entry(wait_key(&record.wait, &harvest.objects)).or_default();
        *of_key.by.entry(mark.taken_in).or_default() += stands_for(mark, record.blocked);
        let behind = &record.behind;
        if behind.length > 0 {
            let waited_for = wait_key(&behind.wait(), &harvest.objects);
            *of_key.behind.entry(waited_for).or_default() += stands_for(mark, behind.length);
        }
    }
    let known: BTreeMap<u32, &Thread> =
        harvest.threads.iter().map(|(tid, thread)| (*tid, thread)).collect();
    let who = |tid: u32| match known.get(&tid) {
        Some(thread) => (name_of(&thread.comm), Some(role_of(u64::from(thread.role)))),
        None => (String::new(), None),
    };
    let most = |(key, Ended { by, behind }): (WaitKey, Ended)| {
        let of: f64 = by.values().sum();
        let by_name = by_name(by.iter().map(|(tid, ended)| (who(*tid), *ended)));
        let (tid, ended) = by.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (name, role) = who(tid);
        let (ended, of) = (Nanos(ended as u64), Nanos(of as u64));
        Some(Waker { key, tid, name, role, ended, of, by: by_name, behind: heaviest(behind) })
    };
    ended.into_iter().filter_map(most).collect()
}

/// Blocked time of one key, in ns.
#[derive(Default)]
struct Ended {
    /// By the thread that ended it.
    by: BTreeMap<u32, f64>,
    /// By what that thread waited for itself meanwhile.
    behind: BTreeMap<WaitKey, f64>,
}

/// What holders waited for, most first.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "estimates, positive")]
fn heaviest(behind: BTreeMap<WaitKey, f64>) -> Vec<Behind> {
    let all = behind.into_iter();
    let mut all: Vec<Behind> =
        all.map(|(key, blocked)| Behind { key, blocked: Nanos(blocked as u64) }).collect();
    all.sort_by(|a, b| b.blocked.cmp(&a.blocked).then_with(|| a.key.cmp(&b.key)));
    all.truncate(MOST_BEHIND);
    all
}

/// Blocked time by the names of those who ended it, most first.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "estimates, positive")]
fn by_name(threads: impl Iterator<Item = ((String, Option<ThreadRole>), f64)>) -> Vec<EndedBy> {
    let mut sums: BTreeMap<(String, Option<ThreadRole>), f64> = BTreeMap::new();
    for (who, ended) in threads {
        *sums.entry(who).or_default() += ended;
    }
    let all = sums.into_iter();
    let mut by: Vec<EndedBy> = all
        .map(|((name, role), ended)| EndedBy { name, role, ended: Nanos(ended as u64) })
        .collect();
    by.sort_by(|a, b| b.ended.cmp(&a.ended).then_with(|| a.name.cmp(&b.name)));
    by.truncate(MOST_NAMES);
    by
}

/// Of all wake-ups the share that was looked at for who ends waits: cores that switch very often
/// are left alone after a while. 1 where there was none.
#[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub(crate) fn wakers_share(cores: &[Core]) -> f64 {
    let all: u64 = cores.iter().map(|core| core.wakings).sum();
    let unseen: u64 = cores.iter().map(|core| core.unseen).sum();
    1.0 - unseen as f64 / all.max(1) as f64
}

/// On-CPU stacks, weighted so that they add up to the running time of the system.
pub(crate) fn on_cpu(counts: &BTreeMap<StackId, u64>, running: Nanos) -> Vec<StackWeight> {
    let total = u128::from(counts.values().sum::<u64>().max(1));
    let share = |count: u64| u64::try_from(u128::from(running.0) * u128::from(count) / total);
    let weight = |(stack, count): (&StackId, &u64)| StackWeight {
        kind: StackKind::OnCpu,
        stack: *stack,
        wait: None,
        role: None,
        weight: Nanos(share(*count).unwrap_or(u64::MAX)),
        count: *count,
    };
    counts.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::super::wire::{self, WaitId, reason};
    use super::*;

    fn wait(object: u64) -> WaitId {
        WaitId { comm: [0; 16], object, nr: 202, op: 137, reason: reason::FUTEX, role: 1 }
    }

    /// Records of waits for word 16, by mark and length.
    fn records<const N: usize>(waits: [(u64, u64); N]) -> Records {
        let record = |(id, blocked)| WaitRecord {
            id,
            p: 1 << 32,
            blocked,
            wait: wait(16),
            behind: wire::Behind::default(),
        };
        by_mark(waits.map(record).to_vec())
    }

    fn mark(id: u64, kind: u32, p: u64, stack: u32) -> MarkedStack {
        MarkedStack { id, kind, p, tid: 1, taken_in: 40 + stack, stack: StackId(stack) }
    }

    #[test]
    fn wakers_stand_for_all_by_the_share_that_was_looked_at() {
        let core = |wakings, unseen| Core { wakings, unseen, ..Core::default() };
        let share = wakers_share(&[core(6_000, 3_000), core(2_000, 0)]);
        assert!((share - 0.625).abs() < 1e-12, "{share}");
        assert!((wakers_share(&[core(0, 0)]) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn weight_is_length_over_probability() {
        let waits = records([(1, 1000), (2, 3000)]);
        let marked = [
            mark(1, 1, 1 << 30, 0),
            mark(2, 1, 1 << 32, 0),
            mark(2, 2, 1 << 32, 5),
            mark(9, 1, 1, 0),
        ];
        let (found, orphans) = weights(&marked, &waits, &Objects::default(), 0.5);
        assert_eq!(orphans, 1);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].kind, found[0].weight, found[0].count),
            (StackKind::OffCpu, Nanos(7000), 2)
        );
        assert_eq!((found[1].kind, found[1].weight), (StackKind::Waker, Nanos(6000)));
    }

    #[test]
    fn the_thread_that_ends_most_of_the_waits_is_named() {
        let mut comm = [0; 16];
        comm[..6].copy_from_slice(b"server");
        let harvest = Harvest {
            threads: vec![(45, Thread { comm, ..Thread::default() })],
            ..Harvest::default()
        };
        let waits = records([(1, 1000), (2, 3000)]);
        let marked = [
            mark(1, 1, 1 << 32, 7),
            mark(1, 2, 1 << 32, 6),
            mark(2, 2, 1 << 32, 5),
            mark(9, 2, 1 << 32, 6),
        ];
        let found = wakers(&marked, &waits, &harvest);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].tid, found[0].name.as_str()), (45, "server"));
        assert_eq!((found[0].ended, found[0].of), (Nanos(3000), Nanos(4000)));
        assert_eq!(found[0].role, Some(ThreadRole::Other));
        let by: Vec<_> = found[0].by.iter().map(|by| (by.name.as_str(), by.ended)).collect();
        assert_eq!(by, [("server", Nanos(3000)), ("", Nanos(1000))]);
        let unknown = wakers(&marked[..2], &waits, &harvest);
        assert_eq!((unknown[0].name.as_str(), unknown[0].role), ("", None));
    }

    #[test]
    fn what_holders_waited_for_is_told_in_proportion() {
        let mut waits = records([(1, 1000), (2, 3000), (3, 500)]);
        let behind = |object, length| {
            let WaitId { nr, op, reason, .. } = wait(object);
            wire::Behind { object, length, nr, op, reason, pad: 0 }
        };
        waits.get_mut(&1).unwrap().behind = behind(32, 800);
        waits.get_mut(&2).unwrap().behind = behind(48, 1000);
        let marked = [mark(1, 2, 1 << 31, 0), mark(2, 2, 1 << 32, 0), mark(3, 1, 1 << 32, 0)];
        let found = wakers(&marked, &waits, &Harvest::default());
        assert_eq!((found.len(), found[0].of), (1, Nanos(5000)), "who ended the third is unknown");
        let told: Vec<_> = found[0].behind.iter().map(|it| (it.key.object, it.blocked)).collect();
        assert_eq!(told, [(32, Nanos(1600)), (48, Nanos(1000))]);
        assert_eq!(found[0].behind[0].key.reason, found[0].key.reason);
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
    fn names_are_forgotten_with_the_process() {
        let mut lore = LockLore::default();
        lore.begin(&[7]);
        lore.name([16].into_iter(), |_| Some("app:all".to_owned()));
        lore.begin(&[7]);
        assert_eq!(lore.objects().names[&16].as_deref(), Some("app:all"));
        lore.begin(&[8]);
        assert!(lore.objects().names.is_empty());
    }

    #[test]
    fn on_cpu_weights_add_up_to_the_running_time() {
        let counts = BTreeMap::from([(StackId(0), 1), (StackId(1), 3)]);
        let found = on_cpu(&counts, Nanos(4000));
        assert_eq!(found.iter().map(|stack| stack.weight).sum::<Nanos>(), Nanos(4000));
        assert_eq!(found[1].weight, Nanos(3000));
    }
}

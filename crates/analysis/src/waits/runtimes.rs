//! Waits at a thread's own parking place.
//!
//! A runtime that schedules its own tasks parks each thread at a place of the thread's own. The
//! address then says nothing of what is waited for, and where the runtime's scheduler parks it
//! (Go), neither does its stack: it found no task that could run. What the tasks wait for instead
//! is told, in this order and within one slice,
//!
//! 1. by the parked thread's own stack, where its caller is on it (the Java monitor);
//! 2. by the stacks of those who woke such threads, where these show with what a task was let go
//!    (`sync.(*Mutex).Unlock` called by `main.post`);
//! 3. by stacks on a core inside such a primitive, where it spins or queues.
//!
//! A thread that sleeps for a moment before it looks for a task again is as if parked. One that
//! polls for all tasks waits for what they wait for of each other as far as their waits for the
//! world outside would have overlapped ([`outside`](super::outside)); where nothing tells what that
//! is, it is a wait of the runtime's tasks, unseen.
//!
//! A waker that shows no primitive (the runtime preempts a task, a timer) says nothing, and counts
//! for none. Where nothing tells, the wait stays the scheduler's. Everything is shared out in
//! proportion to the time that the telling stacks stand for, so sums stay as they were. CPU of the
//! scheduler itself, on a stack of its own, goes the same way.

use crate::frames::names::{Catalogue, begins, in_kernel};
use crate::frames::naming::is_interrupted;
use crate::frames::stacks::Stacks;
use crate::number::{count, quotient};
use crate::waits::outside::{Outside, Polled, parts_of};
use crate::waits::parking::{cut, looks_for_tasks, parked, stands_for};
use crate::waits::tasks;
use kneepoint_vocab::names::Parking;
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::{
    CodeKind, Fact, Frame, RunRecord, StackId, StackKind, StackRecord, StackWeight, ThreadRole,
    TrialRecord, Wait, WaitKey, WaitReason,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The record with every wait at a parking place told by what it was for, as far as stacks tell,
/// and without clients among threads that tasks share.
pub(crate) fn told(record: &RunRecord) -> Cow<'_, RunRecord> {
    match tasks::shared(record) {
        Cow::Borrowed(record) => waits_told(record),
        Cow::Owned(record) => Cow::Owned(waits_told(&record).into_owned()),
    }
}

fn waits_told(record: &RunRecord) -> Cow<'_, RunRecord> {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    if !record.stacks.iter().any(|stack| parked(stacks.known, &stack.frames).is_some()) {
        return Cow::Borrowed(record);
    }
    let mut causes = Causes::new(stacks.known, &record.stacks);
    let outside = Outside::of(record, &stacks);
    let facts: Vec<Option<Vec<Fact>>> = record
        .trials
        .iter()
        .map(|trial| Slice::of(trial, &stacks, &outside, &mut causes))
        .collect();
    if facts.iter().all(Option::is_none) {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    for (trial, facts) in record.trials.iter_mut().zip(facts) {
        if let Some(facts) = facts {
            trial.facts = facts;
        }
    }
    record.stacks.append(&mut causes.new);
    Cow::Owned(record)
}

/// What is waited for: the stack that tells it, and an address that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    object: u64,
    stack: StackId,
}

/// Weights of causes, in thread-time.
type Weights = BTreeMap<Cause, u64>;

/// Stacks that were cut to what is waited for.
struct Causes {
    known: Catalogue,
    next: u32,
    by_frames: BTreeMap<(Vec<(String, String)>, bool), StackId>,
    new: Vec<StackRecord>,
}

impl Causes {
    fn new(known: Catalogue, stacks: &[StackRecord]) -> Self {
        let last = stacks.iter().map(|stack| stack.id.0).max();
        let next = last.map_or(0, |last| last.saturating_add(1));
        Self { known, next, by_frames: BTreeMap::new(), new: Vec::new() }
    }

    /// The stack of these frames, a new one if there was none.
    fn stack(&mut self, frames: Vec<Frame>, truncated: bool) -> StackId {
        let key = frames.iter().map(|f| (f.function.clone(), f.module.clone())).collect();
        let found = self.by_frames.entry((key, truncated));
        *found.or_insert_with(|| {
            let id = StackId(self.next);
            self.next = self.next.saturating_add(1);
            self.new.push(StackRecord {
                id,
                frames,
                truncated,
                code: CodeKind::Other,
                sources: Vec::new(),
                modules: Vec::new(),
            });
            id
        })
    }

    /// What tasks wait for of each other where no stack shows it.
    fn unseen(&mut self, row: &Parking) -> (Cause, u64) {
        let (function, module) = (format!("tasks of {}", row.of), String::new());
        let frames = vec![Frame { function, module }];
        (Cause { object: stands_for(&frames), stack: self.stack(frames, false) }, 1)
    }

    /// What `frames` wait for or let go.
    fn cause(&mut self, row: &Parking, frames: &[Frame], complete: bool) -> Option<Cause> {
        let cut = cut(self.known, row, frames)?;
        let object = stands_for(&cut);
        Some(Cause { object, stack: self.stack(cut, !complete) })
    }
}

/// A smaller part of what is polled for all tasks is not worth a word where no stack shows what
/// they wait for of each other.
const LEAST_UNSEEN: f64 = 0.25;

/// A parked thread's wait, but for its object.
const PARKED: WaitKey = WaitKey {
    reason: WaitReason::Futex { operation: 128, timed: false },
    object: 0,
    object_name: None,
    syscall: 202,
};

/// Waits of threads that poll for all tasks, or sleep for a moment before they look for one again.
#[derive(Default)]
struct Polls {
    seen: Polled,
    /// What those who ended them let tasks go by.
    direct: Weights,
    /// Whether they are naps.
    naps: bool,
    /// The part of them that is for what tasks wait for of each other.
    part: f64,
}

impl Polls {
    fn told_directly(&self) -> f64 {
        quotient(self.direct.values().copied().map(count).sum(), self.seen.for_tasks).min(1.0)
    }

    /// The same part of those stacks of the key that poll for tasks.
    fn part_of_stacks(&self) -> f64 {
        quotient(self.part, self.seen.part())
    }
}

/// One slice, as its stacks tell it.
#[derive(Default)]
struct Slice {
    /// By key, what the stacks of the parked threads themselves tell.
    own: BTreeMap<WaitKey, Weights>,
    /// Keys of client threads of which no stack was taken,
    unseen: BTreeSet<WaitKey>,
    /// and what those of the others tell together.
    alike: Weights,
    /// Keys of threads that the scheduler parked.
    parked: BTreeMap<WaitKey, u64>,
    /// What wakers tell, else those who spin.
    others: Weights,
    /// The runtime that parks them.
    row: Option<&'static Parking>,
    /// Keys of threads that poll for all tasks.
    polled: BTreeMap<WaitKey, Polls>,
}

impl Slice {
    /// The facts of `trial` with its parked waits told; absent where it has none that tell.
    fn of(
        trial: &TrialRecord,
        stacks: &Stacks<'_>,
        outside: &Outside,
        causes: &mut Causes,
    ) -> Option<Vec<Fact>> {
        let mut slice = Self::read(trial, stacks, causes);
        let for_each_other = outside.for_each_other(trial, stacks);
        if slice.others.is_empty() && for_each_other >= LEAST_UNSEEN {
            slice.others = slice.row.map(|row| causes.unseen(row)).into_iter().collect();
        }
        if slice.own.is_empty() && (slice.others.is_empty() || !slice.waits_for_tasks()) {
            return None;
        }
        let untold = slice.others.is_empty();
        for polls in slice.polled.values_mut() {
            if untold && polls.direct.is_empty() {
                polls.part = 0.0;
                continue;
            }
            let part = polls.told_directly().max(for_each_other);
            // No task is in the timer that ends a nap.
            polls.part *= if polls.naps { 1.0 } else { part };
        }
        let told = trial.facts.iter().flat_map(|fact| slice.tell(fact, stacks, causes));
        Some(told.collect())
    }

    fn read(trial: &TrialRecord, stacks: &Stacks<'_>, causes: &mut Causes) -> Self {
        let polled = polled(trial, stacks);
        let mut slice = Self { unseen: of_clients(trial), polled, ..Self::default() };
        let clients = slice.unseen.clone();
        let weights = || {
            trial.facts.iter().filter_map(|fact| match fact {
                Fact::Stack(stack) => Some(stack),
                _ => None,
            })
        };
        let mut rows: Vec<&'static Parking> = Vec::new();
        for stack in weights().filter(|stack| stack.kind == StackKind::OffCpu) {
            if let Some(key) = &stack.wait {
                slice.unseen.remove(key);
            }
            let Some((row, frames)) = parked(stacks.known, stacks.frames(stack.stack)) else {
                continue;
            };
            if looks_for_tasks(stacks, stack) {
                rows.push(row);
            }
            let Some(key) = stack.wait.as_ref().filter(|key| key.object != 0) else { continue };
            let complete = stacks.complete(stack.stack);
            match causes.cause(row, frames, complete) {
                Some(cause) => {
                    let of_key = slice.own.entry(key.clone()).or_default();
                    *of_key.entry(cause).or_default() += stack.weight.0.max(1);
                }
                None if row.by_wakers => {
                    *slice.parked.entry(key.clone()).or_default() += stack.weight.0;
                    rows.push(row);
                }
                None => {}
            }
        }
        for (_, told) in slice.own.iter().filter(|(key, _)| clients.contains(key)) {
            for (cause, weight) in told {
                *slice.alike.entry(*cause).or_default() += weight;
            }
        }
        slice.row = rows.first().copied();
        let Some(row) = slice.row else { return slice };
        let mut tell = |stack: &StackWeight| {
            causes.cause(row, stacks.frames(stack.stack), stacks.complete(stack.stack))
        };
        let mut spinning = Weights::new();
        for stack in weights() {
            let into = match stack.kind {
                StackKind::Waker => &mut slice.others,
                StackKind::OnCpu => &mut spinning,
                StackKind::OffCpu => continue,
            };
            let frames = stacks.frames(stack.stack);
            if stack.kind == StackKind::Waker && is_interrupted(stacks.known, frames) {
                continue;
            }
            let key = stack.wait.as_ref();
            let polls = key.and_then(|key| slice.polled.get_mut(key));
            let woke = key.is_none_or(|key| slice.parked.contains_key(key)) || polls.is_some();
            if woke && let Some(cause) = tell(stack) {
                let weight = stack.weight.0.max(1);
                *into.entry(cause).or_default() += weight;
                if let Some(polls) = polls {
                    *polls.direct.entry(cause).or_default() += weight;
                }
            }
        }
        if slice.others.is_empty() {
            slice.others = spinning;
        }
        slice
    }

    /// What is known of a key that is a parking place. Where no stack was taken of a client's, it
    /// is one like those of the others.
    fn of_key(&self, key: &WaitKey) -> Option<&Weights> {
        if self.unseen.contains(key) {
            return Some(&self.alike).filter(|weights| !weights.is_empty());
        }
        let own = self.own.get(key).filter(|_| !self.parked.contains_key(key));
        own.or_else(|| self.parked.contains_key(key).then_some(&self.others))
            .filter(|weights| !weights.is_empty())
    }

    fn tell(&self, fact: &Fact, stacks: &Stacks<'_>, causes: &mut Causes) -> Vec<Fact> {
        match fact {
            Fact::Wait(wait) => match self.of_key(&wait.key) {
                Some(weights) => waits(wait, &wait.key, weights),
                None => self.polled_wait(wait),
            },
            Fact::Stack(stack) => {
                self.stacks(stack, stacks, causes).unwrap_or_else(|| vec![fact.clone()])
            }
            _ => vec![fact.clone()],
        }
    }

    fn stacks(
        &self,
        stack: &StackWeight,
        stacks: &Stacks<'_>,
        causes: &mut Causes,
    ) -> Option<Vec<Fact>> {
        let frames = stacks.frames(stack.stack);
        let Some(key) = &stack.wait else {
            return self.scheduler(stack, stacks, causes);
        };
        let Some(weights) = self.of_key(key) else {
            return self.polled_stack(stack, stacks, key);
        };
        let own = parked(stacks.known, frames)
            .filter(|_| !self.parked.contains_key(key) && stack.kind == StackKind::OffCpu)
            .and_then(|(row, frames)| causes.cause(row, frames, stacks.complete(stack.stack)));
        let one: Weights = own.map(|cause| (cause, 1)).into_iter().collect();
        let weights = if one.is_empty() { weights } else { &one };
        let off = stack.kind == StackKind::OffCpu;
        Some(shared(weights, [stack.weight.0, stack.count], |cause, [weight, count]| {
            Fact::Stack(StackWeight {
                stack: if off { cause.stack } else { stack.stack },
                wait: Some(WaitKey { object: cause.object, object_name: None, ..key.clone() }),
                weight: Nanos(weight),
                count,
                ..stack.clone()
            })
        }))
    }

    /// Whether threads wait for whatever tasks wait for.
    fn waits_for_tasks(&self) -> bool {
        !self.parked.is_empty() || !self.polled.is_empty()
    }

    /// What those who end these waits let tasks go by, else all who wake threads or spin.
    fn of_polls<'a>(&'a self, polls: &'a Polls) -> &'a Weights {
        if polls.direct.is_empty() { &self.others } else { &polls.direct }
    }

    fn polled_wait(&self, wait: &Wait) -> Vec<Fact> {
        let Some(polls) = self.polled.get(&wait.key) else {
            return vec![Fact::Wait(wait.clone())];
        };
        let whole = [wait.blocked.0, wait.count, wait.idle_charged.0];
        let away = whole.map(|all| portion(all, polls.part));
        let [blocked, count, idle] = away;
        let with = |[blocked, count, idle]: [u64; 3]| Wait {
            blocked: Nanos(blocked),
            count,
            idle_charged: Nanos(idle),
            ..wait.clone()
        };
        let stays =
            with([wait.blocked.0 - blocked, wait.count - count, wait.idle_charged.0 - idle]);
        std::iter::once(Fact::Wait(stays))
            .chain(waits(&with(away), &PARKED, self.of_polls(polls)))
            .collect()
    }

    fn polled_stack(
        &self,
        stack: &StackWeight,
        stacks: &Stacks<'_>,
        key: &WaitKey,
    ) -> Option<Vec<Fact>> {
        let polls = self.polled.get(key)?;
        let part = match stack.kind {
            StackKind::OffCpu if looks_for_tasks(stacks, stack) => polls.part_of_stacks(),
            StackKind::Waker => polls.part,
            _ => return None,
        };
        let away = [stack.weight.0, stack.count].map(|all| portion(all, part));
        let stays = Fact::Stack(StackWeight {
            weight: Nanos(stack.weight.0 - away[0]),
            count: stack.count - away[1],
            ..stack.clone()
        });
        let off = stack.kind == StackKind::OffCpu;
        let told = shared(self.of_polls(polls), away, |cause, [weight, count]| {
            Fact::Stack(StackWeight {
                stack: if off { cause.stack } else { stack.stack },
                wait: Some(WaitKey { object: cause.object, ..PARKED }),
                weight: Nanos(weight),
                count,
                ..stack.clone()
            })
        });
        Some(std::iter::once(stays).chain(told).collect())
    }

    /// CPU of a runtime's scheduler on a stack of its own: what the kernel does for it stays, the
    /// rest becomes what is waited for.
    fn scheduler(
        &self,
        stack: &StackWeight,
        stacks: &Stacks<'_>,
        causes: &mut Causes,
    ) -> Option<Vec<Fact>> {
        let frames = stacks.frames(stack.stack);
        let user = frames.iter().position(|frame| !in_kernel(frame))?;
        let schedules = stacks.known.parking().any(|row| {
            let inside = |list: &[String]| frames[user..].iter().any(|f| begins(&f.function, list));
            frames[user..].iter().all(|frame| begins(&frame.function, &row.own))
                && inside(&row.scheduler)
                && !inside(&row.apart)
        });
        if !schedules || !self.waits_for_tasks() || self.others.is_empty() {
            return None;
        }
        let told: Weights = self
            .others
            .iter()
            .map(|(cause, weight)| {
                let cut = causes.new.iter().find(|new| new.id == cause.stack);
                let outward = cut.map_or_else(Vec::new, |cut| cut.frames.clone());
                let whole: Vec<Frame> = frames[..user].iter().cloned().chain(outward).collect();
                (Cause { stack: causes.stack(whole, true), ..*cause }, *weight)
            })
            .collect();
        Some(shared(&told, [stack.weight.0, stack.count], |cause, [weight, count]| {
            let stack = StackWeight { stack: cause.stack, ..stack.clone() };
            Fact::Stack(StackWeight { weight: Nanos(weight), count, ..stack })
        }))
    }
}

fn is_futex(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Futex { .. } | WaitReason::UserLock | WaitReason::Condition)
}

/// Keys of futex waits of client threads.
fn of_clients(trial: &TrialRecord) -> BTreeSet<WaitKey> {
    let keys = trial.facts.iter().filter_map(|fact| match fact {
        Fact::Wait(wait) if wait.role == ThreadRole::Client => Some(&wait.key),
        _ => None,
    });
    keys.filter(|key| is_futex(key.reason)).cloned().collect()
}

/// Keys of threads that look for all tasks, before it is known what for.
fn polled(trial: &TrialRecord, stacks: &Stacks<'_>) -> BTreeMap<WaitKey, Polls> {
    let parts = parts_of(trial, |one| looks_for_tasks(stacks, one));
    let polls = |seen: Polled, naps| Polls { seen, part: seen.part(), naps, ..Polls::default() };
    let each = parts.into_iter().map(|(key, seen)| {
        let naps = key.reason == WaitReason::Timer;
        (key, polls(seen, naps))
    });
    each.collect()
}

/// A part of a sum, rounded.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the sum, which is far below 2^53"
)]
fn portion(all: u64, part: f64) -> u64 {
    ((count(all) * part).round() as u64).min(all)
}

/// A wait as several with the key of a parked thread, by object.
fn waits(wait: &Wait, key: &WaitKey, weights: &Weights) -> Vec<Fact> {
    let mut by_object: Weights = Weights::new();
    for (cause, weight) in weights {
        let one = Cause { object: cause.object, stack: StackId(0) };
        *by_object.entry(one).or_default() += weight;
    }
    let whole = [wait.blocked.0, wait.count, wait.idle_charged.0];
    shared(&by_object, whole, |cause, [blocked, count, idle]| {
        Fact::Wait(Wait {
            key: WaitKey { object: cause.object, object_name: None, ..key.clone() },
            blocked: Nanos(blocked),
            count,
            idle_charged: Nanos(idle),
            longest: Nanos(wait.longest.0.min(blocked)),
            // The words of a parking place name no owner.
            holders: kneepoint_vocab::Holders::default(),
            ..wait.clone()
        })
    })
}

/// Shares `whole` out by weight; the last takes what rounding leaves, so that sums stay.
fn shared<const N: usize>(
    weights: &Weights,
    whole: [u64; N],
    make: impl Fn(&Cause, [u64; N]) -> Fact,
) -> Vec<Fact> {
    let all: u128 = weights.values().map(|weight| u128::from(*weight)).sum();
    let mut before: u128 = 0;
    let mut facts = Vec::new();
    for (cause, weight) in weights {
        let after = before + u128::from(*weight);
        let part = whole.map(|whole| {
            let up_to = |at: u128| u64::try_from(u128::from(whole) * at / all.max(1)).unwrap_or(0);
            up_to(after) - up_to(before)
        });
        facts.push(make(cause, part));
        before = after;
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::WaitReason;

    #[test]
    fn what_is_shared_out_adds_up() {
        let cause = |object| Cause { object, stack: StackId(0) };
        let weights: Weights = [(cause(8), 1), (cause(16), 2), (cause(24), 4)].into();
        let key =
            WaitKey { reason: WaitReason::UserLock, object: 7, object_name: None, syscall: 202 };
        let wait = Wait {
            role: kneepoint_vocab::ThreadRole::Other,
            name: "app".to_owned(),
            key,
            blocked: Nanos(1000),
            count: 10,
            longest: Nanos(900),
            idle_charged: Nanos(99),
            holders: kneepoint_vocab::Holders::default(),
        };
        let parts = waits(&wait, &wait.key, &weights);
        let sum = |of: fn(&Wait) -> u64| -> u64 {
            let each = parts.iter().filter_map(|fact| match fact {
                Fact::Wait(wait) => Some(of(wait)),
                _ => None,
            });
            each.sum()
        };
        assert_eq!(parts.len(), 3);
        assert_eq!(sum(|wait| wait.blocked.0), 1000);
        assert_eq!((sum(|wait| wait.count), sum(|wait| wait.idle_charged.0)), (10, 99));
    }
}

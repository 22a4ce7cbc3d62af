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
//! A waker that shows no primitive (the runtime preempts a task, a timer) says nothing, and counts
//! for none. Where nothing tells, the wait stays the scheduler's. Everything is shared out in
//! proportion to the time that the telling stacks stand for, so sums stay as they were. CPU of the
//! scheduler itself, on a stack of its own, goes the same way.

use crate::frames::names::{Catalogue, in_kernel, is_unnamed};
use crate::frames::naming::is_interrupted;
use crate::frames::stacks::Stacks;
use kneepoint_vocab::names::Parking;
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::{
    CodeKind, Fact, Frame, RunRecord, StackId, StackKind, StackRecord, StackWeight, ThreadRole,
    TrialRecord, Wait, WaitKey, WaitReason,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The record with every wait at a parking place told by what it was for, as far as stacks tell.
pub(crate) fn told(record: &RunRecord) -> Cow<'_, RunRecord> {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    if !record.stacks.iter().any(|stack| parked(stacks.known, &stack.frames).is_some()) {
        return Cow::Borrowed(record);
    }
    let mut causes = Causes::new(stacks.known, &record.stacks);
    let facts: Vec<Option<Vec<Fact>>> =
        record.trials.iter().map(|trial| Slice::of(trial, &stacks, &mut causes)).collect();
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

    /// What `frames` wait for or let go.
    fn cause(&mut self, row: &Parking, frames: &[Frame], complete: bool) -> Option<Cause> {
        let cut = cut(self.known, row, frames)?;
        let object = stands_for(&cut);
        Some(Cause { object, stack: self.stack(cut, !complete) })
    }
}

/// The runtime at whose parking place a stack waits, and where on the stack that shows.
fn parked(known: Catalogue, frames: &[Frame]) -> Option<(&'static Parking, &[Frame])> {
    let user = frames.iter().position(|frame| !in_kernel(frame))?;
    let user = &frames[user..];
    known
        .parking()
        .find(|row| user.iter().any(|f| begins(&f.function, &row.sleep)))
        .map(|r| (r, user))
}

/// The primitive that a task waits for or lets go, and who called it: the frames from there
/// outward.
/// Functions of the runtime between the two are left out. Where the caller has no name the
/// primitive stands alone, if the runtime's row says that this is enough.
fn cut(known: Catalogue, row: &Parking, frames: &[Frame]) -> Option<Vec<Frame>> {
    let in_c = |frame: &Frame| known.in_c_library(frame);
    let is = |frame: &Frame, list: &[String]| begins(&frame.function, list);
    let first = frames.iter().position(|frame| is(frame, &row.primitives))?;
    let inside = |frame: &Frame| {
        is(frame, &row.primitives) || is(frame, &row.own) || is_unnamed(&frame.function)
    };
    // What a primitive calls (`sync.(*Once).Do`) is no part of it.
    if !frames[..first].iter().all(|frame| in_kernel(frame) || inside(frame) || in_c(frame)) {
        return None;
    }
    let outward = frames[first..].iter().position(|frame| !inside(frame));
    let caller = outward.map_or(frames.len(), |at| first + at);
    let primitive = frames[first..caller].iter().rfind(|frame| is(frame, &row.primitives))?;
    if caller == frames.len() && !row.alone {
        return None;
    }
    Some(std::iter::once(primitive).chain(&frames[caller..]).cloned().collect())
}

/// An address that no lock has, the same wherever the same function wants the same primitive. The
/// words of one object (to lock, to unlock) are one: only the primitive's type counts.
fn stands_for(cut: &[Frame]) -> u64 {
    let of = |frame: &Frame| {
        let bare = frame.function.split('(').next().unwrap_or_default().to_owned();
        let typed = frame.function.starts_with("sync.(").then(|| frame.function.split(')').next());
        typed.flatten().map_or(bare, str::to_owned)
    };
    let family = cut.first().map(of).unwrap_or_default();
    let family = family.rsplit_once("::").map_or(family.as_str(), |(of, _)| of);
    let caller = cut.get(1).map_or("", |frame| frame.function.as_str());
    // FNV-1a, of 64 bits; 8-byte aligned, in the half that belongs to the kernel.
    let hash =
        family.bytes().chain([0]).chain(caller.bytes()).fold(0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3_u64)
        });
    (hash | 1 << 63) & !7
}

fn begins(function: &str, prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| function.starts_with(prefix.as_str()))
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
}

impl Slice {
    /// The facts of `trial` with its parked waits told; absent where it has none that tell.
    fn of(trial: &TrialRecord, stacks: &Stacks<'_>, causes: &mut Causes) -> Option<Vec<Fact>> {
        let slice = Self::read(trial, stacks, causes);
        if slice.own.is_empty() && (slice.parked.is_empty() || slice.others.is_empty()) {
            return None;
        }
        let told = trial.facts.iter().flat_map(|fact| slice.tell(fact, stacks, causes));
        Some(told.collect())
    }

    fn read(trial: &TrialRecord, stacks: &Stacks<'_>, causes: &mut Causes) -> Self {
        let mut slice = Self { unseen: of_clients(trial), ..Self::default() };
        let clients = slice.unseen.clone();
        let weights = || {
            trial.facts.iter().filter_map(|fact| match fact {
                Fact::Stack(stack) => Some(stack),
                _ => None,
            })
        };
        let mut rows: Vec<&Parking> = Vec::new();
        for stack in weights().filter(|stack| stack.kind == StackKind::OffCpu) {
            if let Some(key) = &stack.wait {
                slice.unseen.remove(key);
            }
            let Some((row, frames)) = parked(stacks.known, stacks.frames(stack.stack)) else {
                continue;
            };
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
        let Some(row) = rows.first() else { return slice };
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
            let woke = stack.wait.as_ref().is_none_or(|key| slice.parked.contains_key(key));
            if woke && let Some(cause) = tell(stack) {
                *into.entry(cause).or_default() += stack.weight.0.max(1);
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
                Some(weights) => waits(wait, weights),
                None => vec![fact.clone()],
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
        let weights = self.of_key(key)?;
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
        if !schedules || self.parked.is_empty() || self.others.is_empty() {
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

/// A wait as several, by object.
fn waits(wait: &Wait, weights: &Weights) -> Vec<Fact> {
    let mut by_object: Weights = Weights::new();
    for (cause, weight) in weights {
        let one = Cause { object: cause.object, stack: StackId(0) };
        *by_object.entry(one).or_default() += weight;
    }
    let whole = [wait.blocked.0, wait.count, wait.idle_charged.0];
    shared(&by_object, whole, |cause, [blocked, count, idle]| {
        Fact::Wait(Wait {
            key: WaitKey { object: cause.object, object_name: None, ..wait.key.clone() },
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

    fn frames(functions: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| Frame { function: (*name).to_owned(), module: "app".to_owned() };
        functions.iter().map(frame).collect()
    }

    fn of(row: &str, functions: &[&str]) -> Option<Vec<String>> {
        let known = Catalogue::built_in();
        let row = known.parking().find(|one| one.of == row).expect("the row is there");
        let cut = cut(known, row, &frames(functions))?;
        Some(cut.into_iter().map(|frame| frame.function).collect())
    }

    #[test]
    fn a_waker_s_stack_is_cut_to_the_primitive_and_its_caller() {
        let woke = [
            "runtime.futex.abi0",
            "runtime.wakep",
            "runtime.systemstack.abi0",
            "internal/sync.(*Mutex).unlockSlow",
            "sync.(*Mutex).Unlock",
            "main.(*ledger).post",
            "main.main.func1",
        ];
        let cut = ["sync.(*Mutex).Unlock", "main.(*ledger).post", "main.main.func1"];
        assert_eq!(of("Go", &woke).unwrap(), cut);
        assert_eq!(of("Go", &["runtime.wakep", "runtime.gopreempt_m"]), None);
        let inside = ["main.load", "sync.(*Pool).Get", "main.main"];
        assert_eq!(of("Go", &inside), None, "what a primitive calls is no part of it");
        let stub = ["os::park()", "ObjectMonitor::enter(JavaThread*)", "[anonymous]+0x6aaa7"];
        assert_eq!(of("Java monitors", &stub).unwrap(), ["ObjectMonitor::enter(JavaThread*)"]);
        assert_eq!(of("Go", &["sync.(*Mutex).Lock"]), None);
    }

    #[test]
    fn locking_and_unlocking_stand_for_one_lock() {
        let object = |functions: &[&str]| stands_for(&frames(functions));
        let lock = object(&["sync.(*Mutex).Lock", "main.post"]);
        assert_eq!(lock, object(&["sync.(*Mutex).Unlock", "main.post"]));
        assert_ne!(lock, object(&["sync.(*RWMutex).Lock", "main.post"]));
        assert_ne!(lock, object(&["sync.(*Mutex).Lock", "main.log"]));
        let monitor = object(&["ObjectMonitor::enter(JavaThread*)", "Book.post"]);
        assert_eq!(monitor, object(&["ObjectMonitor::exit(bool)", "Book.post"]));
    }

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
        let parts = waits(&wait, &weights);
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

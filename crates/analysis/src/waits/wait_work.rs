//! CPU that a wait brings with it: going to sleep, waking the next, spinning before, the system
//! calls of all that.
//!
//! An idle core that waits and a core that is busy with the waiting are two faces of one cause. So
//! a stack taken on a core belongs to a wait when the stacks of this run say so, not when its words
//! do. In this order:
//!
//! 1. *Lock managers.* Everything inside a lock manager's own sleeping functions, below a function
//!    that was seen waiting in them, is that lock's; everything inside its waking functions is the
//!    lock's that is waited for most.
//! 2. *Lock machinery.* The innermost user frames are machinery, and the function that called it
//!    is one that a waiter of that lock, or a thread that woke one, was seen in.
//! 3. *Kernel locks* that are spun for, or taken and given back while others wait for them.
//! 4. *Futex calls* that no stack explains are those of the lock that makes most of the waits, and
//!    so are the interrupts by which a core hears that who was woken wants it.
//! 5. *Other waits* (pipes, sockets, devices, timers): the scheduler's part of a system call by
//!    whose function waiters of that kind, or those who woke them, entered it. What the call does
//!    beside that is its own work.
//! 6. *Calls that hold a contended lock*: the system call that takes a kernel's, and a library's
//!    function that takes its own (`held.rs`).
//!
//! Waits for a request are the clients': switching for them, and waking the clients, is one kind
//! of kernel work, whichever call it is in.

use crate::frames::names::{Catalogue, ENTRY_AND_EXIT, PREEMPTION, in_kernel};
use crate::frames::naming::{begins_in_machinery, is_interrupted, naming_frames, wakes_by_manager};
use crate::frames::stacks::{Function, Stacks, function_of, way_in};
use crate::number::{count, seconds};
use crate::waits::groups::Groups;
use crate::waits::held::Held;
use crate::waits::requests::is_request_key;
use kneepoint_vocab::findings::{CauseKind, LineKind, LockWork, Name};
use kneepoint_vocab::{Clients, Fact, Frame, StackKind, StackWeight, TrialRecord, WaitReason};
use std::collections::BTreeMap;

/// Switching for requests, and waking those who wait for an answer: kernel work under this name.
const FOR_REQUESTS: &str = "switches between requests and answers";
/// The system call that user locks wait and wake by,
const FUTEX: &str = "futex";
/// and the one that gives up the core.
const YIELD: &str = "sched_yield";

/// A wait group, or the wait for a request.
type Whose = Option<usize>;

/// Weights by whose they are.
type Votes = BTreeMap<Whose, f64>;

/// Which wait the CPU of a stack belongs to.
pub(crate) struct WaitWork {
    known: Catalogue,
    clients: Clients,
    /// By the function that called lock machinery.
    callers: BTreeMap<String, usize>,
    /// By the way into the kernel and the function that took it.
    sites: BTreeMap<Site, Whose>,
    /// The lock of lock managers that is waited for most.
    managed: Option<usize>,
    /// The lock or condition that makes most of the futex waits, where one does.
    futex: Option<usize>,
    held: Held,
}

/// A system call, and the function that made it.
type Site = (String, String);

impl WaitWork {
    /// From the stacks of waiters and wakers.
    pub(crate) fn build(
        trials: &[&TrialRecord],
        groups: &Groups,
        stacks: &Stacks<'_>,
        clients: Clients,
    ) -> Self {
        let mut seen = Seen::default();
        for trial in trials {
            for fact in &trial.facts {
                match fact {
                    Fact::Stack(stack) => seen.add(trial, stack, groups, stacks, clients),
                    Fact::Wait(wait) => {
                        if let Some(group) = groups.of(trial, &wait.key)
                            && is_futex(wait.key.reason)
                        {
                            *seen.futex.entry(Some(group)).or_default() += count(wait.count);
                        }
                    }
                    _ => {}
                }
            }
        }
        let all_futex: f64 = seen.futex.values().sum();
        let most = heaviest(&seen.futex).filter(|(_, weight)| weight * 2.0 > all_futex);
        let callers = seen
            .callers
            .iter()
            .filter_map(|(caller, votes)| Some((caller.clone(), heaviest(votes)?.0?)));
        let sites =
            seen.sites.iter().filter_map(|(site, votes)| Some((site.clone(), heaviest(votes)?.0)));
        Self {
            known: stacks.known,
            clients,
            callers: callers.collect(),
            sites: sites.collect(),
            managed: heaviest(&seen.managed).and_then(|(group, _)| group),
            futex: most.and_then(|(group, _)| group),
            held: Held::build(trials, groups, stacks),
        }
    }

    /// What a stack taken on a core counts for.
    pub(crate) fn classify(&self, frames: &[Frame], groups: &Groups) -> Function {
        let frames = ticked(self.known, frames);
        let plain = spinning(self.known, frames).unwrap_or_else(|| function_of(self.known, frames));
        let group = match self.whose(frames, groups) {
            Some(Some(group)) => group,
            Some(None) => {
                let name = Name::Kernel(FOR_REQUESTS.to_owned());
                return Function { kind: LineKind::Kernel, name, lock: None };
            }
            None => match self.held.lock(self.known, frames) {
                Some(group) => return of_holder(plain, group, groups),
                None => return plain,
            },
        };
        let what = &groups.list[group];
        let work = match (plain.kind, &plain.name) {
            (LineKind::Kernel, _) if what.kind == CauseKind::KernelLock => LockWork::Spinning,
            (LineKind::Kernel, Name::Kernel(entry))
                if entry == FUTEX || self.known.is_nobody_s(entry) =>
            {
                LockWork::FutexCalls
            }
            (LineKind::Kernel, _) => LockWork::SystemCalls,
            _ => LockWork::Functions,
        };
        let name = Name::Work { work, of: Box::new(what.name.clone()) };
        Function { kind: plain.kind, name, lock: Some(group) }
    }

    /// Whether the core was told that a thread which another core woke wants it.
    fn is_rescheduled(&self, frames: &[Frame]) -> bool {
        frames.iter().any(|frame| in_kernel(frame) && self.known.is_rescheduling(&frame.function))
    }

    fn whose(&self, frames: &[Frame], groups: &Groups) -> Option<Whose> {
        if let Some(group) = groups.polled_for(frames) {
            return Some(Some(group));
        }
        if wakes_by_manager(self.known, frames) && self.managed.is_some() {
            return Some(self.managed);
        }
        if let Some(caller) = machinery_caller(self.known, frames)
            && let Some(group) = self.callers.get(&caller)
        {
            return Some(Some(*group));
        }
        if let Some(group) = groups.spun_for(frames) {
            return Some(Some(group));
        }
        let entry = way_in(self.known, frames)?.to_owned();
        if entry == FUTEX || self.is_rescheduled(frames) {
            return self.futex.map(Some);
        }
        let switching =
            || frames.iter().any(|f| in_kernel(f) && self.known.is_switching(&f.function));
        if !self.known.is_waiting_call(&entry) && !switching() {
            return None;
        }
        let site =
            naming_frames(self.known, frames).into_iter().next().map(|name| (entry.clone(), name));
        match site.and_then(|site| self.sites.get(&site)) {
            Some(whose) => Some(*whose),
            None if self.clients == Clients::Apart && self.known.is_exchange(&entry) => Some(None),
            None => None,
        }
    }
}

/// What a holder of the lock `group` does.
fn of_holder(plain: Function, group: usize, groups: &Groups) -> Function {
    let work = match plain.kind {
        LineKind::Kernel => LockWork::SystemCalls,
        _ => LockWork::Functions,
    };
    let of = Box::new(groups.list[group].name.clone());
    Function { kind: plain.kind, name: Name::Work { work, of }, lock: Some(group) }
}

/// What the stacks of waiters and wakers vote for.
#[derive(Default)]
struct Seen {
    callers: BTreeMap<String, Votes>,
    sites: BTreeMap<Site, Votes>,
    managed: Votes,
    futex: Votes,
}

impl Seen {
    fn add(
        &mut self,
        trial: &TrialRecord,
        stack: &StackWeight,
        groups: &Groups,
        stacks: &Stacks<'_>,
        clients: Clients,
    ) {
        let Some(key) = stack.wait.as_ref().filter(|_| stack.kind != StackKind::OnCpu) else {
            return;
        };
        let (frames, weight) = (stacks.frames(stack.stack), seconds(stack.weight));
        if let Some(group) = groups.polled_for(frames) {
            *self.managed.entry(Some(group)).or_default() += weight;
            return;
        }
        if wakes_by_manager(stacks.known, frames) || is_interrupted(stacks.known, frames) {
            return;
        }
        let whose = match clients {
            Clients::Apart if is_request_key(stacks.known, key) => None,
            _ => match groups.of(trial, key) {
                Some(group) => Some(group),
                None => return,
            },
        };
        if let Some(caller) =
            machinery_caller(stacks.known, frames).filter(|_| is_futex(key.reason))
        {
            *self.callers.entry(caller).or_default().entry(whose).or_default() += weight;
        } else if let Some(entry) = way_in(stacks.known, frames).map(str::to_owned)
            && let Some(name) = naming_frames(stacks.known, frames).into_iter().next()
        {
            *self.sites.entry((entry, name)).or_default().entry(whose).or_default() += weight;
        }
    }
}

fn heaviest(votes: &Votes) -> Option<(Whose, f64)> {
    let best = votes.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    best.map(|(whose, weight)| (*whose, *weight))
}

fn is_futex(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::UserLock | WaitReason::Condition)
}

/// What the clock's tick came in the midst of: it comes by the time, whatever runs, and is no more
/// of an operation where operations take longer. Other interrupts may be an operation's.
fn ticked(known: Catalogue, frames: &[Frame]) -> &[Frame] {
    let of_clock = |frame: &Frame| in_kernel(frame) && known.is_tick(&frame.function);
    let deferred = |frame: &Frame| in_kernel(frame) && known.is_deferred(&frame.function);
    match frames.iter().rposition(of_clock) {
        Some(at) if at + 1 < frames.len() && !frames[..at].iter().any(deferred) => {
            &frames[at + 1..]
        }
        _ => frames,
    }
}

/// A thread that yields its core to spin on is at work in the function that spins.
fn spinning(known: Catalogue, frames: &[Frame]) -> Option<Function> {
    let in_call = |entry: &str| {
        let called = frames.iter().find(|frame| !in_kernel(frame));
        entry == ENTRY_AND_EXIT
            && called.is_some_and(|frame| frame.function.trim_start_matches('_') == YIELD)
    };
    let yields = way_in(known, frames).is_some_and(|entry| entry == YIELD || in_call(entry));
    let name = naming_frames(known, frames).into_iter().next().filter(|_| yields)?;
    Some(Function { kind: LineKind::ExtraCpu, name: Name::Own(name), lock: None })
}

/// The function that called the lock machinery which the stack begins in, where the kernel does
/// nothing below it but a futex call, or the way into one and out of it, where who was woken may
/// take the core.
fn machinery_caller(known: Catalogue, frames: &[Frame]) -> Option<String> {
    let no_other_call = |entry: &str| {
        known.is_waiting_call(entry) || entry == ENTRY_AND_EXIT || entry == PREEMPTION
    };
    let in_futex = way_in(known, frames).is_none_or(no_other_call);
    let begins = in_futex && begins_in_machinery(known, frames);
    let caller = begins.then(|| naming_frames(known, frames).into_iter().next()).flatten();
    caller.filter(|caller| !known.is_plumbing(caller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::names::KERNEL;

    fn stack(kernel: &[&str], user: &[&str]) -> Vec<Frame> {
        let frame = |module: &'static str| {
            move |function: &&str| Frame {
                function: (*function).to_owned(),
                module: module.to_owned(),
            }
        };
        kernel.iter().map(frame(KERNEL)).chain(user.iter().map(frame("app"))).collect()
    }

    #[test]
    fn a_tick_is_the_time_of_what_it_interrupts() {
        let known = Catalogue::built_in();
        let tick = ["hrtimer_interrupt", "sysvec_apic_timer_interrupt"];
        assert_eq!(ticked(known, &stack(&tick, &["mix", "main"])), stack(&[], &["mix", "main"]));
        let deferred = [&["net_rx_action", "handle_softirqs"], &tick[1..]].concat();
        let frames = stack(&deferred, &["mix"]);
        assert_eq!(ticked(known, &frames), frames, "what it does then may be anybody's");
        let idle = stack(&tick, &[]);
        assert_eq!(ticked(known, &idle), idle);
    }

    #[test]
    fn the_way_into_a_call_and_out_of_it_is_its_caller_s() {
        let known = Catalogue::built_in();
        let lock = ["__lll_lock_wake_private", "take", "main"];
        for way in [
            &["do_syscall_64", "entry_SYSCALL_64_after_hwframe"][..],
            &["__schedule", "exit_to_user_mode_loop", "do_syscall_64"],
        ] {
            assert_eq!(machinery_caller(known, &stack(way, &lock)).as_deref(), Some("take"));
        }
        assert_eq!(machinery_caller(known, &stack(&["__x64_sys_read"], &lock)), None);
        let yields = stack(&["entry_SYSCALL_64_after_hwframe"], &["__sched_yield", "take", "main"]);
        assert_eq!(spinning(known, &yields).map(|it| it.name.to_string()).as_deref(), Some("take"));
    }
}

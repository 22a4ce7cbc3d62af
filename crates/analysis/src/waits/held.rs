//! Calls whose CPU is a lock's: what its holder does with shared data is dearer because others want
//! it too.
//!
//! A system call that takes a contended lock of the kernel, and a function of a library that takes
//! a contended lock of its own, cannot be mended apart from that lock. Where the waiting and the
//! spinning for it is a good part of all that threads spend in the call, what the call takes more
//! than at the cheapest level is the lock's.

use crate::frames::names::{Catalogue, in_kernel};
use crate::frames::naming::{naming_frames, working_function};
use crate::frames::stacks::{Stacks, function_of};
use crate::number::seconds;
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::{CauseKind, Name};
use kneepoint_vocab::{Fact, Frame, StackKind, StackWeight, TrialRecord};
use std::collections::BTreeMap;

/// A lock is a call's business from this part of the time in the call on.
const CONTENDED: f64 = 0.1;

/// What takes a lock by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// A way into the kernel.
    Call(String),
    /// A function of a library.
    Library(String),
}

/// The contended lock of each holder, by wait group.
pub(super) struct Held(BTreeMap<Holder, usize>);

/// Thread-seconds in a holder.
#[derive(Default)]
struct Spent {
    working: f64,
    /// Waiting and spinning, by wait group.
    locked: BTreeMap<usize, f64>,
}

impl Held {
    pub(super) fn build(trials: &[&TrialRecord], groups: &Groups, stacks: &Stacks<'_>) -> Self {
        let mut spent: BTreeMap<Holder, Spent> = BTreeMap::new();
        for trial in trials {
            for fact in &trial.facts {
                let Fact::Stack(stack) = fact else { continue };
                note(&mut spent, trial, stack, groups, stacks);
            }
        }
        let contended = spent.into_iter().filter_map(|(holder, spent)| {
            let all = spent.working + spent.locked.values().sum::<f64>();
            let most = spent.locked.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            (most.1 >= CONTENDED * all).then_some((holder, most.0))
        });
        Self(contended.collect())
    }

    /// The lock that the CPU of a stack is part of.
    pub(super) fn lock(&self, known: Catalogue, frames: &[Frame]) -> Option<usize> {
        self.0.get(&working_in(known, frames)?).copied()
    }
}

fn note(
    spent: &mut BTreeMap<Holder, Spent>,
    trial: &TrialRecord,
    stack: &StackWeight,
    groups: &Groups,
    stacks: &Stacks<'_>,
) {
    let (known, frames) = (stacks.known, stacks.frames(stack.stack));
    let weight = seconds(stack.weight);
    let (holder, lock) = match (stack.kind, &stack.wait) {
        (StackKind::OnCpu, _) => (working_in(known, frames), groups.spun_for(frames)),
        (StackKind::OffCpu, Some(key)) => {
            let Some(group) = groups.of(trial, key) else { return };
            let holder = match groups.list[group].kind {
                CauseKind::KernelLock => call(known, frames),
                CauseKind::Lock => library(known, waiting_function(known, frames), frames),
                _ => None,
            };
            (holder, Some(group))
        }
        _ => return,
    };
    // The scheduler's own lock is nobody's call.
    let scheduler = |group: &usize| groups.list[*group].name == Name::RunQueueLock;
    let Some(holder) = holder.filter(|_| !lock.as_ref().is_some_and(scheduler)) else { return };
    let entry = spent.entry(holder).or_default();
    match lock {
        Some(group) => *entry.locked.entry(group).or_default() += weight,
        None => entry.working += weight,
    }
}

/// Where a thread was at work.
fn working_in(known: Catalogue, frames: &[Frame]) -> Option<Holder> {
    if frames.iter().any(in_kernel) {
        return call(known, frames);
    }
    library(known, working_function(known, frames), frames)
}

/// The way into the kernel that a stack took, unless it is work with a name of its own.
fn call(known: Catalogue, frames: &[Frame]) -> Option<Holder> {
    match function_of(known, frames).name {
        Name::Kernel(entry) if !known.is_nobody_s(&entry) => Some(Holder::Call(entry)),
        _ => None,
    }
}

/// The innermost user function that is no lock's machinery.
fn waiting_function(known: Catalogue, frames: &[Frame]) -> Option<&Frame> {
    frames.iter().filter(|f| !in_kernel(f)).find(|f| !known.is_plumbing(&f.function))
}

/// The function of a library that `innermost` is part of.
fn library(known: Catalogue, innermost: Option<&Frame>, frames: &[Frame]) -> Option<Holder> {
    innermost.filter(|frame| frame.module.contains(".so"))?;
    naming_frames(known, frames).into_iter().next().map(Holder::Library)
}

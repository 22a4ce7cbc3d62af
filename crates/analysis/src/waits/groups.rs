//! Wait keys merged into causes of waiting.
//!
//! A key's object is an address, different in every process. One object is one lock, so all
//! its waits belong together whatever their callers; objects of different processes, or of
//! one kind, belong together when the same function names them. Hence: united by object, then
//! by name. Other waits (device, socket, timer ...) are united by their reason.

use super::node::Node;
use super::objects::Objects;
use super::pools::LIMIT;
use super::processes::{Lock, PAGE, locks};
use super::seen::{CALLED_BY, Seen, heaviest};
use crate::frames::kernel_locks;
use crate::frames::names::{Catalogue, KERNEL};
use crate::frames::naming::{LOCK, kernel_naming_frames, machinery, naming_frames, polled_names};
use crate::frames::stacks::Stacks;
use crate::number::seconds;
use kneepoint_vocab::findings::{CauseKind, LineKind};
use kneepoint_vocab::{
    CauseKey, Fact, Frame, StackKind, StackWeight, TrialRecord, Wait, WaitKey, WaitReason,
};
use std::collections::{BTreeMap, BTreeSet};

/// Objects without a name, lighter than this part of all blocked time, are one group.
const UNNAMED_APART: f64 = 0.01;

/// All that is waited for under one name.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: CauseKey,
    pub(crate) kind: CauseKind,
    pub(crate) line: LineKind,
    pub(crate) name: String,
    /// Innermost first.
    pub(crate) path: Vec<String>,
    /// Distinct objects within one slice, at most; 0 where the reason has no object.
    pub(crate) objects: usize,
}

/// The groups of a run.
pub(crate) struct Groups {
    pub(crate) list: Vec<Group>,
    index: BTreeMap<Node, usize>,
    objects: Objects,
    known: Catalogue,
    /// Kernel locks by the first caller of those who wait or spin for them.
    kernel_callers: BTreeMap<String, usize>,
}

impl Groups {
    /// From the waits of `trials`, and the stacks that wait or spin.
    pub(crate) fn build(trials: &[&TrialRecord], stacks: &Stacks<'_>) -> Self {
        let mut notes = Notes { objects: Objects::build(trials, stacks), seen: BTreeMap::new() };
        for trial in trials {
            for fact in &trial.facts {
                match fact {
                    Fact::Wait(wait) => notes.wait(trial, wait),
                    Fact::Stack(stack) => notes.stack(trial, stack, stacks),
                    _ => {}
                }
            }
        }
        let mut groups = unite(notes.seen, stacks);
        groups.objects = notes.objects;
        groups.count_objects(trials);
        groups
    }

    /// Objects are counted within one slice: a command is a new process in each, and the same lock
    /// has another address there.
    fn count_objects(&mut self, trials: &[&TrialRecord]) {
        for trial in trials {
            let mut of_slice: BTreeMap<usize, BTreeSet<(bool, u64)>> = BTreeMap::new();
            for fact in &trial.facts {
                let Fact::Wait(wait) = fact else { continue };
                let node = Node::of(&self.objects, trial, &wait.key);
                let Some(group) = self.index.get(&node) else { continue };
                let object = match node {
                    Node::Object { kernel, address, .. } => (kernel, address),
                    Node::Named { kernel, .. } if wait.key.object != 0 => {
                        (kernel, self.objects.begin(trial, wait.key.object))
                    }
                    _ => continue,
                };
                of_slice.entry(*group).or_default().insert(object);
            }
            for (group, objects) in of_slice {
                let most = &mut self.list[group].objects;
                *most = (*most).max(objects.len());
            }
        }
    }

    /// The group of a wait of `trial`.
    pub(crate) fn of(&self, trial: &TrialRecord, key: &WaitKey) -> Option<usize> {
        self.index.get(&Node::of(&self.objects, trial, key)).copied()
    }

    /// The lock that a stack of polling threads waits for.
    pub(crate) fn polled_for(&self, frames: &[Frame]) -> Option<usize> {
        let caller = polled_names(self.known, frames)?.into_iter().next()?;
        self.index.get(&Node::Polled { caller }).copied()
    }

    /// The kernel lock that a stack taken on a core spins for, or that others wait for and it takes
    /// or gives back.
    pub(crate) fn spun_for(&self, frames: &[Frame]) -> Option<usize> {
        if let Some(spinning) = kernel_locks::spinning(self.known, frames) {
            return self.index.get(&Node::spun(&spinning)?).copied();
        }
        let caller = kernel_locks::touching(self.known, frames)?;
        self.kernel_callers.get(&caller).copied()
    }
}

/// What a run says of each thing that is waited for.
struct Notes {
    objects: Objects,
    seen: BTreeMap<Node, Seen>,
}

impl Notes {
    fn wait(&mut self, trial: &TrialRecord, wait: &Wait) {
        let entry = self.of(trial, &wait.key);
        *entry.blocked.entry(wait.key.reason).or_default() += seconds(wait.blocked);
    }

    fn of(&mut self, trial: &TrialRecord, key: &WaitKey) -> &mut Seen {
        self.seen.entry(Node::of(&self.objects, trial, key)).or_default()
    }

    fn stack(&mut self, trial: &TrialRecord, stack: &StackWeight, stacks: &Stacks<'_>) {
        let weight = seconds(stack.weight);
        let (known, frames) = (stacks.known, stacks.frames(stack.stack));
        if frames.is_empty() || weight <= 0.0 {
            return;
        }
        match (stack.kind, &stack.wait) {
            (StackKind::OffCpu, Some(key)) if key.reason == WaitReason::KernelLock => {
                let word =
                    kernel_locks::class(known, frames).map_or("kernel lock", kernel_locks::word);
                self.of(trial, key).vote(word, kernel_naming_frames(known, frames), weight);
            }
            (StackKind::OffCpu, Some(key)) => {
                if let Some(names) = polled_names(known, frames).filter(|names| !names.is_empty()) {
                    let node = Node::Polled { caller: names[0].clone() };
                    self.seen.entry(node).or_default().vote(LOCK, names, weight);
                }
                self.of(trial, key).vote(
                    machinery(known, frames),
                    naming_frames(known, frames),
                    weight,
                );
            }
            (StackKind::OnCpu, _) => {
                let Some(spinning) = kernel_locks::spinning(known, frames) else { return };
                let Some(node) = Node::spun(&spinning) else { return };
                let entry = self.seen.entry(node).or_default();
                entry.vote(kernel_locks::word(spinning.class), spinning.names, weight);
            }
            _ => {}
        }
    }
}

const KERNEL_LOCK: &str = "kernel lock";
/// A lock that is made of several words of memory, some waited for as a condition.
const WHOLE_LOCK: &str = "whole lock";
const KERNEL_SPIN_LOCK: &str = "kernel spin lock";

/// The frame in the key of a lock that nothing names.
const UNNAMED: &str = "unnamed";

/// What unites nodes: `(kind word, name)`.
type Union = (String, String);

/// Sleeping kernel locks by the first caller of their waiters: those who spin in the same caller
/// want the same lock. Of several locks of one caller it is the one that was waited for most.
fn by_caller(known: Catalogue, locks: &[Lock], all_blocked: f64) -> BTreeMap<String, Union> {
    let mut most: BTreeMap<String, (f64, Union)> = BTreeMap::new();
    for Lock { nodes, seen: what } in locks {
        let node = &nodes[0];
        let kernel = match node {
            Node::Object { kernel, .. } | Node::Named { kernel, .. } => *kernel,
            Node::Reason { reason, .. } => *reason == WaitReason::KernelLock,
            Node::Spin { .. } | Node::Polled { .. } => false,
        };
        for (caller, weight) in what.first.iter().filter(|_| kernel) {
            if most.get(caller).is_none_or(|(heaviest, _)| weight > heaviest) {
                most.insert(caller.clone(), (*weight, union_key(known, nodes, what, all_blocked)));
            }
        }
    }
    most.into_iter().map(|(caller, (_, union))| (caller, union)).collect()
}

fn union_key(known: Catalogue, nodes: &[Node], seen: &Seen, all_blocked: f64) -> Union {
    match &nodes[0] {
        Node::Named { kernel: false, .. } if seen.runtime(known).is_some() => {
            (WHOLE_LOCK.to_owned(), seen.runtime(known).unwrap_or_default())
        }
        Node::Named { kernel: false, name }
            if seen.stacks <= 0.0 && known.variable_of_runtime(name).is_some() =>
        {
            (WHOLE_LOCK.to_owned(), known.variable_of_runtime(name).unwrap_or_default().to_owned())
        }
        Node::Named { kernel, name } => {
            let kind = if *kernel { "kernel lock" } else { lock_or_condition(known, seen) };
            match condition_of_many(kind, name, seen) {
                Some(name) => (kind.to_owned(), name),
                None => (format!("named {kind}"), name.clone()),
            }
        }
        Node::Object { kernel, address, .. } => {
            let kind = if *kernel { KERNEL_LOCK } else { lock_or_condition(known, seen) };
            let name = seen.name().unwrap_or_else(|| {
                if seen.all_blocked() >= UNNAMED_APART * all_blocked {
                    match nodes.len() {
                        1 => format!("{address:#x}"),
                        _ => format!("{:#x} of a page", address % PAGE),
                    }
                } else {
                    String::new()
                }
            });
            if *kernel {
                (kind.to_owned(), name)
            } else if known.is_runtime_lock(&name) {
                (WHOLE_LOCK.to_owned(), name)
            } else if known.is_own_lock(&name) {
                (WHOLE_LOCK.to_owned(), seen.called_by(known, &name))
            } else {
                (kind.to_owned(), name)
            }
        }
        Node::Polled { caller } => (LOCK.to_owned(), caller.clone()),
        Node::Spin { sleeps: true, caller } => (KERNEL_LOCK.to_owned(), caller.clone()),
        Node::Spin { sleeps: false, caller } => (KERNEL_SPIN_LOCK.to_owned(), caller.clone()),
        Node::Reason { reason: WaitReason::KernelLock, .. } if seen.name().is_some() => {
            (KERNEL_LOCK.to_owned(), seen.name().unwrap_or_default())
        }
        Node::Reason { reason, syscall } => ("reason".to_owned(), format!("{reason:?} {syscall}")),
    }
}

/// A condition within a variable, by the variable and the function that waits: a program keeps one
/// for each of its threads or slots, which are waited for in turn.
fn condition_of_many(kind: &str, name: &str, seen: &Seen) -> Option<String> {
    let (variable, _) = name.split_once("+0x").filter(|_| kind == "condition")?;
    Some(format!("{} of {variable}", seen.name()?))
}

/// A futex wait with a bitset may be a condition variable's or a mutex's (Rust's standard
/// mutex waits so); the stack's machinery decides, the reason only where there is none.
fn lock_or_condition(known: Catalogue, seen: &Seen) -> &'static str {
    let word = seen.machinery();
    let lock =
        if word == LOCK { seen.reason() != WaitReason::Condition } else { known.is_lock(word) };
    if lock { LOCK } else { "condition" }
}

fn unite(seen: BTreeMap<Node, Seen>, stacks: &Stacks<'_>) -> Groups {
    let all_blocked: f64 = seen.values().map(Seen::all_blocked).sum();
    let locks = locks(seen);
    let by_caller = by_caller(stacks.known, &locks, all_blocked);
    let mut united: BTreeMap<Union, (Seen, Vec<Node>)> = BTreeMap::new();
    for Lock { nodes, seen: what } in locks {
        let union = match &nodes[0] {
            Node::Spin { sleeps: true, caller } => by_caller.get(caller).cloned(),
            _ => None,
        };
        let union = union.unwrap_or_else(|| union_key(stacks.known, &nodes, &what, all_blocked));
        let entry = united.entry(union).or_default();
        entry.0.merge(&what);
        entry.1.extend(nodes);
    }
    let mut groups = Groups {
        list: Vec::new(),
        index: BTreeMap::new(),
        objects: Objects::default(),
        known: stacks.known,
        kernel_callers: BTreeMap::new(),
    };
    for ((kind, name), (what, nodes)) in united {
        for node in &nodes {
            groups.index.insert(node.clone(), groups.list.len());
        }
        let group = describe(&kind, &name, &what, &nodes, stacks);
        if group.kind == CauseKind::KernelLock {
            let callers = what.first.keys().map(|caller| (caller.clone(), groups.list.len()));
            groups.kernel_callers.extend(callers);
        }
        groups.list.push(group);
    }
    groups
}

fn describe(kind: &str, name: &str, what: &Seen, nodes: &[Node], stacks: &Stacks<'_>) -> Group {
    let (known, reason) = (stacks.known, what.reason());
    let mut path = path_from(name.split(CALLED_BY).next().unwrap_or(name), what);
    if let (Some(frame), Some(first)) = (known.runtime_frame(name), path.first_mut()) {
        frame.clone_into(first);
    }
    let (frame, module) = key(kind, name, &path, stacks).unwrap_or((reason.as_str(), ""));
    let (frame, module) = (frame.to_owned(), module.to_owned());
    let (cause, line, name) = match kind {
        "named lock" => (CauseKind::Lock, LineKind::IdleLock, with_word(what.machinery(), name)),
        "named kernel lock" => {
            (CauseKind::KernelLock, LineKind::IdleKernelLock, what.with_caller(name))
        }
        "named condition" => {
            (CauseKind::Thread, LineKind::IdleThread, with_word(what.machinery(), name))
        }
        KERNEL_LOCK | KERNEL_SPIN_LOCK => {
            let name = kernel_locks::name(known, what.machinery(), name);
            (CauseKind::KernelLock, LineKind::IdleKernelLock, name)
        }
        WHOLE_LOCK if known.is_runtime_lock(name) => {
            (CauseKind::Lock, LineKind::IdleLock, format!("{name} ({frame})"))
        }
        WHOLE_LOCK => (CauseKind::Lock, LineKind::IdleLock, lock_name(LOCK, name)),
        LOCK => (CauseKind::Lock, LineKind::IdleLock, lock_name(what.machinery(), name)),
        "condition" => {
            let word = Some(what.machinery()).filter(|word| ["barrier", "channel"].contains(word));
            let name = lock_name(word.unwrap_or("condition"), name);
            (CauseKind::Thread, LineKind::IdleThread, name)
        }
        _ => reason_words(reason, nodes),
    };
    let frame = if kind == KERNEL_SPIN_LOCK { format!("{frame} (spin)") } else { frame };
    Group { key: CauseKey::new(cause, frame, module), kind: cause, line, name, path, objects: 0 }
}

/// The naming frame and its module, which are the same in every run; absent where a reason is all
/// that is known.
fn key<'a>(
    kind: &str,
    name: &'a str,
    path: &'a [String],
    stacks: &Stacks<'a>,
) -> Option<(&'a str, &'a str)> {
    let module = |frame: &str| stacks.module_of(frame);
    match kind {
        "named lock" if name.starts_with(LIMIT) => {
            let caller = path.first()?;
            Some((caller.as_str(), module(caller).unwrap_or_default()))
        }
        "named lock" | "named condition" => {
            let (module, variable) = name.split_once(':').unwrap_or(("", name));
            Some((variable, module))
        }
        _ if name.is_empty() || name.starts_with("0x") => Some((UNNAMED, "")),
        "named kernel lock" | KERNEL_LOCK | KERNEL_SPIN_LOCK => Some((name, KERNEL)),
        WHOLE_LOCK | LOCK | "condition" => {
            let frame = stacks.known.runtime_frame(name).unwrap_or(name);
            let first = frame.split(CALLED_BY).next().unwrap_or(frame);
            let outward = || path.iter().find_map(|frame| module(frame));
            Some((frame, module(first).or_else(outward).unwrap_or_default()))
        }
        _ => None,
    }
}

/// The heaviest chain that holds the name, from the name outward; else the heaviest chain.
fn path_from(name: &str, what: &Seen) -> Vec<String> {
    let holding: BTreeMap<Vec<String>, f64> = what
        .chains
        .iter()
        .filter_map(|(chain, weight)| {
            let at = chain.iter().position(|frame| frame == name)?;
            Some((chain[at..].to_vec(), *weight))
        })
        .collect();
    let chains = if holding.is_empty() { &what.chains } else { &holding };
    heaviest(chains).map(|(chain, _)| chain).unwrap_or_default()
}

/// A variable's name, after the word for what it is where that is neither mutex nor condition.
fn with_word(word: &str, name: &str) -> String {
    let plain = [LOCK, "mutex", "condition"].contains(&word) || name.starts_with(LIMIT);
    if plain { name.to_owned() } else { format!("{word} {name}") }
}

fn lock_name(word: &str, name: &str) -> String {
    if name.is_empty() {
        format!("{word}s without a name")
    } else if name.starts_with("0x") {
        format!("{word} at {name}")
    } else {
        format!("{word} in {name}")
    }
}

fn reason_words(reason: WaitReason, nodes: &[Node]) -> (CauseKind, LineKind, String) {
    let (kind, line, words) = match reason {
        WaitReason::Futex { .. } => (CauseKind::Lock, LineKind::IdleLock, "a futex"),
        WaitReason::UserLock => (CauseKind::Lock, LineKind::IdleLock, "a user lock"),
        WaitReason::Condition => (CauseKind::Thread, LineKind::IdleThread, "a condition variable"),
        WaitReason::KernelLock => {
            (CauseKind::KernelLock, LineKind::IdleKernelLock, "a kernel lock")
        }
        WaitReason::Device => (CauseKind::Device, LineKind::IdleDevice, "a device"),
        WaitReason::File => (CauseKind::Device, LineKind::IdleDevice, "a file"),
        WaitReason::Pipe => (CauseKind::Thread, LineKind::IdleThread, "a pipe"),
        WaitReason::Socket => (CauseKind::Thread, LineKind::IdleThread, "a socket"),
        WaitReason::Poll => (CauseKind::Thread, LineKind::IdleThread, "poll"),
        WaitReason::Process => (CauseKind::Thread, LineKind::IdleThread, "another process"),
        WaitReason::Timer => (CauseKind::Other, LineKind::IdleOther, "a timer"),
        WaitReason::PageFault => (CauseKind::Other, LineKind::IdleOther, "a page fault"),
        WaitReason::Other => (CauseKind::Other, LineKind::IdleOther, "something else"),
    };
    let call = nodes.iter().find_map(|node| match node {
        Node::Reason { reason: WaitReason::Other, syscall } if *syscall >= 0 => Some(*syscall),
        _ => None,
    });
    let words = call.map_or_else(|| words.to_owned(), |call| format!("system call {call}"));
    (kind, line, words)
}

/// Whether a thread that serves no client waits for work when it waits for this.
pub(crate) fn is_wait_for_work(reason: WaitReason) -> bool {
    matches!(
        reason,
        WaitReason::Condition
            | WaitReason::Pipe
            | WaitReason::Socket
            | WaitReason::Poll
            | WaitReason::Timer
            | WaitReason::Process
    )
}

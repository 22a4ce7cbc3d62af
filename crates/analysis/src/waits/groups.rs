//! Wait keys merged into causes of waiting.
//!
//! A key's object is an address, different in every process. One object is one lock, so all
//! its waits belong together whatever their callers; objects of different processes, or of
//! one kind, belong together when the same function names them. Hence: united by object, then
//! by name. Other waits (device, socket, timer ...) are united by their reason.

use crate::frames::kernel_locks::{self, Class, Spinning};
use crate::frames::names::{is_own_lock, is_runtime_lock};
use crate::frames::naming::{LOCK, kernel_naming_frames, machinery, naming_frames, polled_names};
use crate::frames::stacks::Stacks;
use crate::number::seconds;
use kneepoint_vocab::findings::{CauseKind, LineKind};
use kneepoint_vocab::{
    Fact, Frame, StackKind, StackWeight, TrialRecord, VariantId, Wait, WaitKey, WaitReason,
};
use std::collections::{BTreeMap, BTreeSet};

/// Frames of a chain that are kept as a cause's path.
const PATH: usize = 5;
/// Frames outward from the first choice that are tried for one that most stacks agree on.
const NAMING_DEPTH: usize = 4;
/// Objects without a name, lighter than this part of all blocked time, are one group.
const UNNAMED_APART: f64 = 0.01;

/// What is waited for, within one process or by a name that holds across processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    /// A lock known by its address in one start of one variant.
    Object { variant: VariantId, start: u32, kernel: bool, address: u64 },
    /// A lock with a proven name.
    Named { kernel: bool, name: String },
    /// A kernel lock that was spun for, by the first caller outside lock machinery.
    Spin { sleeps: bool, caller: String },
    /// A user lock whose waiters poll a descriptor, by the first caller outside lock machinery.
    Polled { caller: String },
    /// Anything else, by its reason, and by system call where the reason says nothing.
    Reason { reason: WaitReason, syscall: i32 },
}

fn node_of(trial: &TrialRecord, key: &WaitKey) -> Node {
    let kernel = key.reason == WaitReason::KernelLock;
    let lock = kernel || matches!(key.reason, WaitReason::UserLock | WaitReason::Condition);
    match (&key.object_name, key.object) {
        (Some(name), _) if lock => Node::Named { kernel, name: name.clone() },
        (None, address) if lock && address != 0 => Node::Object {
            variant: trial.id.variant.clone(),
            start: trial.id.start,
            kernel,
            address,
        },
        _ => {
            let syscall = if key.reason == WaitReason::Other { key.syscall } else { 0 };
            Node::Reason { reason: key.reason, syscall }
        }
    }
}

/// All that is waited for under one name.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) kind: CauseKind,
    pub(crate) line: LineKind,
    pub(crate) name: String,
    /// Innermost first.
    pub(crate) path: Vec<String>,
    /// Distinct objects within one slice, at most; 0 where the reason has no object.
    pub(crate) objects: usize,
}

/// What the record says of one node.
#[derive(Default)]
struct Seen {
    blocked: BTreeMap<WaitReason, f64>,
    machinery: BTreeMap<&'static str, f64>,
    first: BTreeMap<String, f64>,
    within: BTreeMap<String, (f64, f64)>,
    chains: BTreeMap<Vec<String>, f64>,
    stacks: f64,
}

/// The groups of a run.
pub(crate) struct Groups {
    pub(crate) list: Vec<Group>,
    index: BTreeMap<Node, usize>,
    /// Kernel locks by the first caller of those who wait or spin for them.
    kernel_callers: BTreeMap<String, usize>,
}

impl Groups {
    /// From the waits of `trials`, and the stacks that wait or spin.
    pub(crate) fn build(trials: &[&TrialRecord], stacks: &Stacks<'_>) -> Self {
        let mut seen: BTreeMap<Node, Seen> = BTreeMap::new();
        for trial in trials {
            for fact in &trial.facts {
                match fact {
                    Fact::Wait(wait) => note_wait(&mut seen, trial, wait),
                    Fact::Stack(stack) => note_stack(&mut seen, trial, stack, stacks),
                    _ => {}
                }
            }
        }
        let mut groups = unite(seen);
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
                let node = node_of(trial, &wait.key);
                let (Node::Object { kernel, address, .. }, Some(group)) =
                    (&node, self.index.get(&node))
                else {
                    continue;
                };
                of_slice.entry(*group).or_default().insert((*kernel, *address));
            }
            for (group, objects) in of_slice {
                let most = &mut self.list[group].objects;
                *most = (*most).max(objects.len());
            }
        }
    }

    /// The group of a wait of `trial`.
    pub(crate) fn of(&self, trial: &TrialRecord, key: &WaitKey) -> Option<usize> {
        self.index.get(&node_of(trial, key)).copied()
    }

    /// The lock that a stack of polling threads waits for.
    pub(crate) fn polled_for(&self, frames: &[Frame]) -> Option<usize> {
        let caller = polled_names(frames)?.into_iter().next()?;
        self.index.get(&Node::Polled { caller }).copied()
    }

    /// The kernel lock that a stack taken on a core spins for, or that others wait for and it takes
    /// or gives back.
    pub(crate) fn spun_for(&self, frames: &[Frame]) -> Option<usize> {
        if let Some(spinning) = kernel_locks::spinning(frames) {
            return self.index.get(&spin_node(&spinning)?).copied();
        }
        let caller = kernel_locks::touching(frames)?;
        self.kernel_callers.get(&caller).copied()
    }
}

fn spin_node(spinning: &Spinning) -> Option<Node> {
    let caller = spinning.names.first()?.clone();
    Some(Node::Spin { sleeps: spinning.class != Class::Spin, caller })
}

fn note_wait(seen: &mut BTreeMap<Node, Seen>, trial: &TrialRecord, wait: &Wait) {
    let entry = seen.entry(node_of(trial, &wait.key)).or_default();
    *entry.blocked.entry(wait.key.reason).or_default() += seconds(wait.blocked);
}

fn note_stack(
    seen: &mut BTreeMap<Node, Seen>,
    trial: &TrialRecord,
    stack: &StackWeight,
    stacks: &Stacks<'_>,
) {
    let weight = seconds(stack.weight);
    let frames = stacks.frames(stack.stack);
    if frames.is_empty() || weight <= 0.0 {
        return;
    }
    match (stack.kind, &stack.wait) {
        (StackKind::OffCpu, Some(key)) if key.reason == WaitReason::KernelLock => {
            let word = kernel_locks::class(frames).map_or("kernel lock", Class::word);
            let entry = seen.entry(node_of(trial, key)).or_default();
            entry.vote(word, kernel_naming_frames(frames), weight);
        }
        (StackKind::OffCpu, Some(key)) => {
            if let Some(names) = polled_names(frames).filter(|names| !names.is_empty()) {
                let node = Node::Polled { caller: names[0].clone() };
                seen.entry(node).or_default().vote(LOCK, names, weight);
            }
            let entry = seen.entry(node_of(trial, key)).or_default();
            entry.vote(machinery(frames), naming_frames(frames), weight);
        }
        (StackKind::OnCpu, _) => {
            let Some(spinning) = kernel_locks::spinning(frames) else { return };
            let Some(node) = spin_node(&spinning) else { return };
            seen.entry(node).or_default().vote(spinning.class.word(), spinning.names, weight);
        }
        _ => {}
    }
}

/// The heaviest entry; ties go to the least key, so that the choice is the same every time.
fn heaviest<K: Ord + Clone>(weights: &BTreeMap<K, f64>) -> Option<(K, f64)> {
    let mut best: Option<(&K, f64)> = None;
    for (key, weight) in weights {
        if best.is_none_or(|(_, most)| *weight > most) {
            best = Some((key, *weight));
        }
    }
    best.map(|(key, weight)| (key.clone(), weight))
}

impl Seen {
    /// A stack of `weight` votes for a kind of lock and for its names, innermost first.
    fn vote(&mut self, word: &'static str, names: Vec<String>, weight: f64) {
        self.stacks += weight;
        *self.machinery.entry(word).or_default() += weight;
        let Some(first) = names.first() else { return };
        *self.first.entry(first.clone()).or_default() += weight;
        for (depth, name) in names.iter().take(NAMING_DEPTH).enumerate() {
            if names[..depth].contains(name) {
                continue;
            }
            let (sum, depths) = self.within.entry(name.clone()).or_default();
            *sum += weight;
            *depths += weight * crate::number::size(depth);
        }
        *self.chains.entry(names.into_iter().take(PATH).collect()).or_default() += weight;
    }

    /// The first choice of most stacks, else the innermost frame that most stacks share, else
    /// the heaviest first choice.
    fn name(&self) -> Option<String> {
        let (first, weight) = heaviest(&self.first)?;
        if weight * 2.0 >= self.stacks {
            return Some(first);
        }
        let shared = self
            .within
            .iter()
            .filter(|(_, (sum, _))| *sum * 2.0 >= self.stacks)
            .min_by(|a, b| (a.1.1 / a.1.0).total_cmp(&(b.1.1 / b.1.0)));
        Some(shared.map_or(first, |(name, _)| name.clone()))
    }

    /// `name`, with the caller that most stacks agree on.
    fn with_caller(&self, name: &str) -> String {
        match heaviest(&self.first) {
            Some((caller, weight)) if weight * 2.0 >= self.stacks => format!("{name} ({caller})"),
            _ => name.to_owned(),
        }
    }

    /// The lock of a language's runtime that most of its stacks are for.
    fn runtime(&self) -> Option<String> {
        self.name().filter(|name| is_runtime_lock(name))
    }

    /// `name`, which is a method of the program's own lock type, with the function that called it
    /// in most stacks: objects of one type that different functions use are different locks.
    fn called_by(&self, name: &str) -> String {
        let mut callers: BTreeMap<&str, f64> = BTreeMap::new();
        for (chain, weight) in &self.chains {
            let at = chain.iter().position(|frame| frame == name);
            let outward = at.map_or(&[][..], |at| &chain[at + 1..]);
            if let Some(caller) = outward.iter().find(|frame| !is_own_lock(frame)) {
                *callers.entry(caller).or_default() += weight;
            }
        }
        match heaviest(&callers) {
            Some((caller, weight)) if weight * 2.0 >= self.stacks => {
                format!("{name}{CALLED_BY}{caller}")
            }
            _ => name.to_owned(),
        }
    }

    fn reason(&self) -> WaitReason {
        heaviest(&self.blocked).map_or(WaitReason::Other, |(reason, _)| reason)
    }

    fn all_blocked(&self) -> f64 {
        self.blocked.values().sum()
    }

    fn machinery(&self) -> &'static str {
        heaviest(&self.machinery).map_or(LOCK, |(word, _)| word)
    }

    fn merge(&mut self, other: &Self) {
        for (reason, blocked) in &other.blocked {
            *self.blocked.entry(*reason).or_default() += blocked;
        }
        for (word, weight) in &other.machinery {
            *self.machinery.entry(word).or_default() += weight;
        }
        for (name, weight) in &other.first {
            *self.first.entry(name.clone()).or_default() += weight;
        }
        for (chain, weight) in &other.chains {
            *self.chains.entry(chain.clone()).or_default() += weight;
        }
        self.stacks += other.stacks;
    }
}

/// Stands between a lock's own method and the function that called it.
const CALLED_BY: &str = " < ";
const KERNEL_LOCK: &str = "kernel lock";
/// A lock that is made of several words of memory, some waited for as a condition.
const WHOLE_LOCK: &str = "whole lock";
const KERNEL_SPIN_LOCK: &str = "kernel spin lock";

/// What unites nodes: `(kind word, name)`.
type Union = (String, String);

/// Sleeping kernel locks by the first caller of their waiters: those who spin in the same caller
/// want the same lock. Of several locks of one caller it is the one that was waited for most.
fn by_caller(seen: &BTreeMap<Node, Seen>, all_blocked: f64) -> BTreeMap<String, Union> {
    let mut most: BTreeMap<String, (f64, Union)> = BTreeMap::new();
    for (node, what) in seen {
        let kernel = match node {
            Node::Object { kernel, .. } | Node::Named { kernel, .. } => *kernel,
            Node::Reason { reason, .. } => *reason == WaitReason::KernelLock,
            Node::Spin { .. } | Node::Polled { .. } => false,
        };
        for (caller, weight) in what.first.iter().filter(|_| kernel) {
            if most.get(caller).is_none_or(|(heaviest, _)| weight > heaviest) {
                most.insert(caller.clone(), (*weight, union_key(node, what, all_blocked)));
            }
        }
    }
    most.into_iter().map(|(caller, (_, union))| (caller, union)).collect()
}

fn union_key(node: &Node, seen: &Seen, all_blocked: f64) -> Union {
    match node {
        Node::Named { kernel: false, .. } if seen.runtime().is_some() => {
            (WHOLE_LOCK.to_owned(), seen.runtime().unwrap_or_default())
        }
        Node::Named { kernel, name } => {
            let kind = if *kernel { "kernel lock" } else { lock_or_condition(seen) };
            (format!("named {kind}"), name.clone())
        }
        Node::Object { kernel, address, .. } => {
            let kind = if *kernel { KERNEL_LOCK } else { lock_or_condition(seen) };
            let name = seen.name().unwrap_or_else(|| {
                if seen.all_blocked() >= UNNAMED_APART * all_blocked {
                    format!("{address:#x}")
                } else {
                    String::new()
                }
            });
            if *kernel {
                (kind.to_owned(), name)
            } else if is_runtime_lock(&name) {
                (WHOLE_LOCK.to_owned(), name)
            } else if is_own_lock(&name) {
                (WHOLE_LOCK.to_owned(), seen.called_by(&name))
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

/// A futex wait with a bitset may be a condition variable's or a mutex's (Rust's standard
/// mutex waits so); the stack's machinery decides, the reason only where there is none.
fn lock_or_condition(seen: &Seen) -> &'static str {
    match (seen.machinery(), seen.reason()) {
        ("mutex" | "reader-writer lock" | "semaphore", _) => LOCK,
        ("condition" | "barrier" | "channel", _) | (_, WaitReason::Condition) => "condition",
        _ => LOCK,
    }
}

fn unite(seen: BTreeMap<Node, Seen>) -> Groups {
    let all_blocked: f64 = seen.values().map(Seen::all_blocked).sum();
    let by_caller = by_caller(&seen, all_blocked);
    let mut united: BTreeMap<Union, (Seen, Vec<Node>)> = BTreeMap::new();
    for (node, what) in seen {
        let union = match &node {
            Node::Spin { sleeps: true, caller } => by_caller.get(caller).cloned(),
            _ => None,
        };
        let union = union.unwrap_or_else(|| union_key(&node, &what, all_blocked));
        let entry = united.entry(union).or_default();
        entry.0.merge(&what);
        entry.1.push(node);
    }
    let mut groups =
        Groups { list: Vec::new(), index: BTreeMap::new(), kernel_callers: BTreeMap::new() };
    for ((kind, name), (what, nodes)) in united {
        for node in &nodes {
            groups.index.insert(node.clone(), groups.list.len());
        }
        let group = describe(&kind, &name, &what, &nodes);
        if group.kind == CauseKind::KernelLock {
            let callers = what.first.keys().map(|caller| (caller.clone(), groups.list.len()));
            groups.kernel_callers.extend(callers);
        }
        groups.list.push(group);
    }
    groups
}

fn describe(kind: &str, name: &str, what: &Seen, nodes: &[Node]) -> Group {
    let reason = what.reason();
    let path = path_from(name.split(CALLED_BY).next().unwrap_or(name), what);
    let (cause, line, name) = match kind {
        "named lock" => (CauseKind::Lock, LineKind::IdleLock, name.to_owned()),
        "named kernel lock" => {
            (CauseKind::KernelLock, LineKind::IdleKernelLock, what.with_caller(name))
        }
        "named condition" => (CauseKind::Thread, LineKind::IdleThread, name.to_owned()),
        KERNEL_LOCK | KERNEL_SPIN_LOCK => {
            let name = kernel_locks::name(what.machinery(), name);
            (CauseKind::KernelLock, LineKind::IdleKernelLock, name)
        }
        WHOLE_LOCK if is_runtime_lock(name) => {
            (CauseKind::Lock, LineKind::IdleLock, name.to_owned())
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
    Group { kind: cause, line, name, path, objects: 0 }
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

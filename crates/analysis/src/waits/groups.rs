//! Wait keys merged into causes of waiting.
//!
//! A key's object is an address, different in every process. One object is one lock, so all
//! its waits belong together whatever their callers; objects of different processes, or of
//! one kind, belong together when the same function names them. Hence: united by object, then
//! by name. Other waits (device, socket, timer ...) are united by their reason.

use super::counted;
use super::node::Node;
use super::objects::Objects;
use super::pools::Pools;
use super::processes::{Lock, locks};
use super::seen::{Seen, heaviest};
use super::union::{Kind, SleptFor, Union, union_of};
use super::{herd, serial, unsampled};
use crate::frames::kernel_locks::{self, Machinery};
use crate::frames::names::{Catalogue, KERNEL, numbered_call};
use crate::frames::naming::{CONDITION, LOCK, kernel_naming_frames, polled_names};
use crate::frames::stacks::Stacks;
use crate::number::{count, seconds};
use kneepoint_vocab::findings::{CauseKind, LineKind, Name, Place};
use kneepoint_vocab::{
    CauseKey, Clients, Fact, Frame, LockUse, StackKind, StackWeight, ThreadRole, TrialRecord, Wait,
    WaitKey, WaitReason, Waker,
};
use std::collections::{BTreeMap, BTreeSet};

/// What taking a lock once weighs beside the seconds of waits for it: next to nothing, so that it
/// names a lock only where no wait does.
const TAKEN: f64 = 1e-12;

/// All that is waited for under one name.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: CauseKey,
    pub(crate) kind: CauseKind,
    pub(crate) line: LineKind,
    pub(crate) name: Name,
    /// Innermost first.
    pub(crate) path: Vec<String>,
    /// Distinct objects within one slice, at most; 0 where the reason has no object.
    pub(crate) objects: usize,
    /// Conditions whose threads want this lock back are a part of it.
    with_conditions: bool,
}

/// The groups of a run.
pub(crate) struct Groups {
    pub(crate) list: Vec<Group>,
    index: BTreeMap<Node, usize>,
    /// Conditions that belong to the lock that their threads want back.
    conditions: BTreeSet<Node>,
    objects: Objects,
    known: Catalogue,
    /// Kernel locks by the first caller of those who wait or spin for them.
    kernel_callers: BTreeMap<String, usize>,
    /// The group that stands for the one thread that does all the work, where there is such.
    serial: Option<usize>,
}

impl Groups {
    /// From the waits of `trials`, the stacks that wait or spin, and the locks that were counted.
    pub(crate) fn build(
        trials: &[&TrialRecord],
        counted: Option<&TrialRecord>,
        stacks: &Stacks<'_>,
        pools: &Pools,
        clients: Clients,
    ) -> Self {
        let mut notes = Notes { objects: Objects::build(trials, stacks), seen: BTreeMap::new() };
        for trial in trials {
            for fact in &trial.facts {
                match fact {
                    Fact::Wait(wait) => notes.wait(trial, wait),
                    Fact::Stack(stack) => notes.stack(trial, stack, stacks),
                    Fact::Waker(waker) => notes.waker(trial, waker),
                    _ => {}
                }
            }
        }
        for (trial, lock) in
            counted.iter().flat_map(|trial| counted::locks(trial).map(|lock| (*trial, lock)))
        {
            notes.taken(trial, lock, stacks);
        }
        notes.seen.values_mut().for_each(|seen| seen.name_by_enders(stacks.known));
        let mut groups = unite(notes.seen, stacks, pools);
        groups.objects = notes.objects;
        groups.count_objects(trials);
        let mut busy = trials.iter().filter_map(|it| serial::thread(it, clients, serial::BUSY));
        if let Some(thread) = busy.next() {
            groups.add_serial(thread, serial::code(trials, stacks, clients));
        }
        groups
    }

    fn add_serial(&mut self, thread: &str, path: Vec<String>) {
        self.serial = Some(self.list.len());
        self.list.push(Group {
            key: CauseKey::new(CauseKind::Thread, thread.to_owned(), String::new()),
            kind: CauseKind::Thread,
            line: LineKind::IdleThread,
            name: Name::SerialThread(thread.to_owned()),
            path,
            objects: 0,
            with_conditions: false,
        });
    }

    /// The group of the one thread that does the work of all clients, where `trial` shows such.
    pub(crate) fn serial(&self, trial: &TrialRecord, clients: Clients) -> Option<usize> {
        self.serial.filter(|_| serial::thread(trial, clients, serial::QUEUED_FOR).is_some())
    }

    /// Objects are counted within one slice: a command is a new process in each, and the same lock
    /// has another address there.
    fn count_objects(&mut self, trials: &[&TrialRecord]) {
        for trial in trials {
            let mut of_slice: BTreeMap<usize, BTreeSet<(bool, u64)>> = BTreeMap::new();
            for fact in &trial.facts {
                let Fact::Wait(wait) = fact else { continue };
                let node = Node::of(&self.objects, trial, &wait.key);
                if self.conditions.contains(&node) {
                    continue;
                }
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

    /// Whether a thread that serves no client waits for work when it waits for this group. A lock
    /// that is made of conditions is a lock, whoever waits for it; a condition that belongs to a
    /// lock stays one.
    pub(crate) fn is_for_work(&self, group: usize, reason: WaitReason) -> bool {
        let group = &self.list[group];
        is_wait_for_work(reason) && (group.kind != CauseKind::Lock || group.with_conditions)
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

    fn waker(&mut self, trial: &TrialRecord, waker: &Waker) {
        let entry = self.of(trial, &waker.key);
        entry.ended += seconds(waker.of);
        if waker.role == Some(ThreadRole::Other) {
            entry.ended_by_one += seconds(waker.ended);
        }
    }

    fn of(&mut self, trial: &TrialRecord, key: &WaitKey) -> &mut Seen {
        self.seen.entry(Node::of(&self.objects, trial, key)).or_default()
    }

    fn taken(&mut self, trial: &TrialRecord, lock: &LockUse, stacks: &Stacks<'_>) {
        let entry = self.of(trial, &lock.key());
        for at in &lock.stacks {
            let (known, frames) = (stacks.known, stacks.frames(at.stack));
            entry.vote_of_user(known, frames, TAKEN * count(at.times));
        }
    }

    fn stack(&mut self, trial: &TrialRecord, stack: &StackWeight, stacks: &Stacks<'_>) {
        let weight = seconds(stack.weight);
        let (known, frames) = (stacks.known, stacks.frames(stack.stack));
        if frames.is_empty() || weight <= 0.0 {
            return;
        }
        match (stack.kind, &stack.wait) {
            (StackKind::OffCpu, Some(key)) if key.reason == WaitReason::KernelLock => {
                let shown = Machinery::Kernel(kernel_locks::class(known, frames));
                self.of(trial, key).vote(shown, kernel_naming_frames(known, frames), weight);
            }
            (StackKind::OffCpu, Some(key)) => {
                if let Some(names) = polled_names(known, frames).filter(|names| !names.is_empty()) {
                    let node = Node::Polled { caller: names[0].clone() };
                    let shown = Machinery::User(LOCK);
                    self.seen.entry(node).or_default().vote(shown, names, weight);
                }
                let node = Node::of(&self.objects, trial, key);
                // All sleeps are one thing, whoever sleeps: clients give it its name.
                let aside = stack.role == Some(ThreadRole::Other)
                    && matches!(node, Node::Reason { reason: WaitReason::Timer, .. });
                let weight = if aside { ASIDE * weight } else { weight };
                self.seen.entry(node).or_default().vote_of_user(known, frames, weight);
            }
            (StackKind::Waker, Some(key)) => self.of(trial, key).ender(known, frames, weight),
            (StackKind::OnCpu, _) => {
                let Some(spinning) = kernel_locks::spinning(known, frames) else { return };
                let Some(node) = Node::spun(&spinning) else { return };
                let entry = self.seen.entry(node).or_default();
                entry.vote(Machinery::Kernel(Some(spinning.class)), spinning.names, weight);
            }
            _ => {}
        }
    }
}

/// What the stack of a thread that serves no client counts of one that does.
const ASIDE: f64 = 1e-3;
/// The frame in the key of a lock that nothing names.
const UNNAMED: &str = "unnamed";
/// Conditions that are called by what is made of them, or what they are made of.
const MADE_OF_CONDITIONS: [&str; 4] = ["barrier", "channel", "semaphore", "unseen condition"];

/// What is known of all nodes that are united.
#[derive(Default)]
struct United {
    place: Option<Place>,
    seen: Seen,
    nodes: Vec<Node>,
    with_conditions: bool,
}

fn unite(seen: BTreeMap<Node, Seen>, stacks: &Stacks<'_>, pools: &Pools) -> Groups {
    let all_blocked: f64 = seen.values().map(Seen::all_blocked).sum();
    let locks = locks(seen);
    let slept_for = SleptFor::build(stacks.known, &locks, all_blocked);
    let mut united: BTreeMap<(Kind, String), United> = BTreeMap::new();
    let mut unions: Vec<Union> = locks
        .iter()
        .map(|Lock { nodes, seen: what }| {
            let slept_for = match &nodes[0] {
                Node::Spin { sleeps: true, caller } => slept_for.lock(stacks.known, what, caller),
                _ => None,
            };
            slept_for.unwrap_or_else(|| union_of(stacks.known, nodes, what, all_blocked))
        })
        .collect();
    unsampled::apportion(&locks, &mut unions);
    let joined = herd::join(&locks, &mut unions);
    let mut conditions = BTreeSet::new();
    for (at, (Lock { nodes, seen: what }, (kind, place))) in
        locks.into_iter().zip(unions).enumerate()
    {
        let entry = united.entry((kind, place.to_string())).or_default();
        entry.place.get_or_insert(place);
        entry.seen.merge(&what);
        if joined.contains(&at) {
            entry.with_conditions = true;
            conditions.extend(nodes.iter().cloned());
        }
        entry.nodes.extend(nodes);
    }
    let mut groups = Groups {
        list: Vec::new(),
        index: BTreeMap::new(),
        conditions,
        objects: Objects::default(),
        known: stacks.known,
        kernel_callers: BTreeMap::new(),
        serial: None,
    };
    for ((kind, _), united) in united {
        for node in &united.nodes {
            groups.index.insert(node.clone(), groups.list.len());
        }
        let group = describe(kind, &united, stacks, pools);
        if group.kind == CauseKind::KernelLock {
            let first = united.seen.first.keys();
            let callers = first.map(|caller| (caller.clone(), groups.list.len()));
            groups.kernel_callers.extend(callers);
        }
        groups.list.push(group);
    }
    groups
}

fn describe(kind: Kind, united: &United, stacks: &Stacks<'_>, pools: &Pools) -> Group {
    let (known, what) = (stacks.known, &united.seen);
    let reason = what.reason();
    let place = united.place.clone().unwrap_or(Place::Nowhere);
    let own = place.function().unwrap_or_default();
    let runtime = known.runtime_frame(own);
    let mut path = path_from(own, what);
    if let (Some(frame), Some(first)) = (runtime, path.first_mut()) {
        frame.clone_into(first);
    }
    let named = matches!(kind, Kind::NamedLock | Kind::NamedCondition);
    let limit = pools.limit(own).filter(|_| named);
    let (frame, module) = match limit {
        Some(_) => path.first().map(|caller| (caller.clone(), in_module(stacks, caller))),
        None => key(kind, &place, &path, stacks),
    }
    .unwrap_or_else(|| {
        let call = call_of(&united.nodes).filter(|call| known.waits_in(call).is_some());
        (call.unwrap_or_else(|| reason.as_str().to_owned()), String::new())
    });
    let frame = if kind == Kind::KernelSpinLock { format!("{frame} (spin)") } else { frame };
    let word = what.machinery().word();
    let name = match kind {
        Kind::NamedLock | Kind::NamedCondition => match limit {
            Some(limit) => limit.clone(),
            // A lock with the condition that its threads wait for.
            None if united.with_conditions => {
                Name::Variable { word: CONDITION.to_owned(), name: own.to_owned() }
            }
            None => variable(word, own),
        },
        Kind::NamedKernelLock => what.with_caller(own.to_owned()),
        Kind::KernelLock | Kind::KernelSpinLock => {
            kernel_locks::name(known, what.machinery(), &place)
        }
        Kind::WholeLock => match runtime {
            Some(frame) => Name::Known { name: own.to_owned(), of: frame.to_owned() },
            None => Name::object(LOCK, place),
        },
        Kind::Lock => Name::object(word, place),
        Kind::Condition => {
            let word = Some(word).filter(|word| MADE_OF_CONDITIONS.contains(word));
            Name::object(word.unwrap_or(CONDITION), place)
        }
        Kind::Reason => reason_name(known, reason, &united.nodes, &path),
    };
    let (kind, line) = match kind {
        _ if limit.is_some() => (CauseKind::Lock, LineKind::IdleLock),
        Kind::NamedLock | Kind::WholeLock | Kind::Lock => (CauseKind::Lock, LineKind::IdleLock),
        Kind::NamedKernelLock | Kind::KernelLock | Kind::KernelSpinLock => {
            (CauseKind::KernelLock, LineKind::IdleKernelLock)
        }
        Kind::NamedCondition | Kind::Condition => (CauseKind::Thread, LineKind::IdleThread),
        Kind::Reason => match call_of(&united.nodes).and_then(|call| known.waits_in(&call)) {
            Some(waits) if waits.lock => (CauseKind::KernelLock, LineKind::IdleKernelLock),
            Some(_) => (CauseKind::Thread, LineKind::IdleThread),
            None => of_reason(reason),
        },
    };
    let key = CauseKey::new(kind, frame, module);
    let with_conditions = united.with_conditions;
    Group { key, kind, line, name, path, objects: 0, with_conditions }
}

fn in_module(stacks: &Stacks<'_>, function: &str) -> String {
    stacks.module_of(function).unwrap_or_default().to_owned()
}

/// The naming frame and its module, which are the same in every run; absent where a reason is all
/// that is known.
fn key(
    kind: Kind,
    place: &Place,
    path: &[String],
    stacks: &Stacks<'_>,
) -> Option<(String, String)> {
    let own = place.function().unwrap_or_default();
    match (kind, place) {
        (Kind::Reason, _) => None,
        (Kind::NamedLock | Kind::NamedCondition, _) => {
            let (module, variable) = own.split_once(':').unwrap_or(("", own));
            Some((variable.to_owned(), module.to_owned()))
        }
        (_, Place::Nowhere | Place::At(_)) => Some((UNNAMED.to_owned(), String::new())),
        (Kind::NamedKernelLock | Kind::KernelLock | Kind::KernelSpinLock, _) => {
            Some((own.to_owned(), KERNEL.to_owned()))
        }
        (Kind::WholeLock | Kind::Lock | Kind::Condition, _) => {
            let runtime = stacks.known.runtime_frame(own);
            let frame = runtime.map_or_else(|| place.to_string(), str::to_owned);
            let outward = || path.iter().find_map(|frame| stacks.module_of(frame));
            let module = stacks.module_of(runtime.unwrap_or(own)).or_else(outward);
            Some((frame, module.unwrap_or_default().to_owned()))
        }
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

/// A variable, with the word for what it is where that is neither mutex nor condition.
fn variable(word: &str, name: &str) -> Name {
    match word {
        LOCK | "mutex" | CONDITION => Name::from(name),
        _ => Name::Variable { word: word.to_owned(), name: name.to_owned() },
    }
}

const fn of_reason(reason: WaitReason) -> (CauseKind, LineKind) {
    match reason {
        WaitReason::Futex { .. } | WaitReason::UserLock => (CauseKind::Lock, LineKind::IdleLock),
        WaitReason::KernelLock => (CauseKind::KernelLock, LineKind::IdleKernelLock),
        WaitReason::Device | WaitReason::File => (CauseKind::Device, LineKind::IdleDevice),
        WaitReason::Condition
        | WaitReason::Pipe
        | WaitReason::Socket
        | WaitReason::EventCounter
        | WaitReason::Poll
        | WaitReason::Process => (CauseKind::Thread, LineKind::IdleThread),
        WaitReason::Timer | WaitReason::PageFault | WaitReason::Other => {
            (CauseKind::Other, LineKind::IdleOther)
        }
    }
}

/// A reason that says nothing goes by the system call, and a sleep by the function that sleeps.
fn reason_name(known: Catalogue, reason: WaitReason, nodes: &[Node], path: &[String]) -> Name {
    if let (WaitReason::Timer, Some(function)) = (reason, path.first()) {
        return Name::sleep(function.clone());
    }
    match call_of(nodes) {
        None => Name::Wait(reason),
        Some(call) => match known.waits_in(&call) {
            Some(waits) => Name::Known { name: waits.name.clone(), of: call },
            None => Name::SystemCall(call),
        },
    }
}

/// The system call of waits of which nothing else is known, by name; by number where it has none.
fn call_of(nodes: &[Node]) -> Option<String> {
    let number = nodes.iter().find_map(|node| match node {
        Node::Reason { reason: WaitReason::Other, syscall } if *syscall >= 0 => Some(*syscall),
        _ => None,
    })?;
    Some(numbered_call(number).map_or_else(|| number.to_string(), str::to_owned))
}

/// Whether a thread that serves no client waits for work when it waits for this.
fn is_wait_for_work(reason: WaitReason) -> bool {
    matches!(
        reason,
        WaitReason::Condition
            | WaitReason::Pipe
            | WaitReason::Socket
            | WaitReason::EventCounter
            | WaitReason::Poll
            | WaitReason::Timer
            | WaitReason::Process
    )
}

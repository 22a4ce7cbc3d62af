//! Which functions stand between a program and what it waits for: the form of the built-in list,
//! and of what a recipe adds to it under `[names]`.

use crate::key::CauseKind;
use crate::relief::Relief;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of functions. A *part* is looked for anywhere in a name, a *prefix* at its beginning, a
/// *function* is a whole name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Functions of locks that name nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub plumbing: Plumbing,
    /// Methods of lock objects.
    #[serde(skip_serializing_if = "is_default")]
    pub methods: Methods,
    /// Kinds of locks, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kind: Vec<Kind>,
    /// The C library.
    #[serde(skip_serializing_if = "is_default")]
    pub c_library: CLibrary,
    /// Locks inside a library.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Inside>,
    /// Locks of language runtimes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<Runtime>,
    /// Work that language runtimes do for themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<RuntimeWork>,
    /// Objects of several words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub object: Vec<Object>,
    /// Runtimes that park threads at places of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parking: Vec<Parking>,
    /// Lock managers whose waiters poll a descriptor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manager: Vec<Manager>,
    /// Functions in which a runtime's own threads wait for something to do, by the beginning of
    /// the name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub helpers: Vec<String>,
    /// Causes that variants which fit any program may relieve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relieved: Vec<Relieved>,
    /// The kernel.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: Kernel,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Names {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        is_default(self)
    }

    /// Adds `more`; its lists are tried first where an order matters.
    pub fn extend(&mut self, more: &Self) {
        self.plumbing.extend(&more.plumbing);
        self.methods.names.extend_from_slice(&more.methods.names);
        self.methods.libraries.extend_from_slice(&more.methods.libraries);
        first(&mut self.kind, &more.kind);
        self.c_library.modules.extend_from_slice(&more.c_library.modules);
        self.c_library.own_work.extend_from_slice(&more.c_library.own_work);
        self.c_library.calls.extend(more.c_library.calls.clone());
        first(&mut self.inside, &more.inside);
        first(&mut self.runtime, &more.runtime);
        first(&mut self.work, &more.work);
        first(&mut self.object, &more.object);
        first(&mut self.parking, &more.parking);
        first(&mut self.manager, &more.manager);
        self.helpers.extend_from_slice(&more.helpers);
        first(&mut self.relieved, &more.relieved);
        self.kernel.extend(&more.kernel);
    }
}

fn first<T: Clone>(list: &mut Vec<T>, more: &[T]) {
    list.splice(0..0, more.iter().cloned());
}

/// Functions of locks that name nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Plumbing {
    /// Parts of the lower-case name.
    pub parts: Vec<String>,
    /// Prefixes.
    pub prefixes: Vec<String>,
    /// Parts that make a name with `mutex` in it plumbing.
    pub mutex_verbs: Vec<String>,
    /// Functions that only start threads or pass a call on.
    pub scaffold: Vec<String>,
    /// Functions of standard libraries, by the beginning of the name: who calls them names what is
    /// waited for, as long as someone does.
    pub standard: Vec<String>,
    /// Functions in which a stack of a runtime's own begins, by the beginning of the name.
    pub outermost: Vec<String>,
    /// Prefixes of variables at which a library's waiters for any primitive wait.
    pub waiting_places: Vec<String>,
    /// Prefixes of functions that park a thread for any primitive: none tells the kind of it.
    pub parkers: Vec<String>,
    /// Prefixes of operations on single words, whose time is their caller's.
    pub primitives: Vec<String>,
    /// Parts of the same.
    pub primitive_parts: Vec<String>,
}

impl Plumbing {
    fn extend(&mut self, more: &Self) {
        self.parts.extend_from_slice(&more.parts);
        self.prefixes.extend_from_slice(&more.prefixes);
        self.mutex_verbs.extend_from_slice(&more.mutex_verbs);
        self.scaffold.extend_from_slice(&more.scaffold);
        self.standard.extend_from_slice(&more.standard);
        self.outermost.extend_from_slice(&more.outermost);
        self.waiting_places.extend_from_slice(&more.waiting_places);
        self.parkers.extend_from_slice(&more.parkers);
        self.primitives.extend_from_slice(&more.primitives);
        self.primitive_parts.extend_from_slice(&more.primitive_parts);
    }
}

/// Methods of lock objects, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Methods {
    /// Methods of objects that are locks.
    pub names: Vec<String>,
    /// Prefixes of types whose methods name nothing.
    pub libraries: Vec<String>,
}

/// A kind of lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Its word.
    pub word: String,
    /// Whether it is held by somebody.
    pub lock: bool,
    /// Parts of the lower-case names of its functions.
    pub parts: Vec<String>,
    /// Prefixes of modules whose own threads wait for it, where their functions have no names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

/// The C library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CLibrary {
    /// Prefixes of its modules.
    pub modules: Vec<String>,
    /// Functions named like a system call that do work of their own.
    pub own_work: Vec<String>,
    /// System calls by the functions that make them under another name.
    pub calls: BTreeMap<String, String>,
}

/// A lock inside a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Inside {
    /// What it is called.
    pub name: String,
    /// Functions that take it.
    pub functions: Vec<String>,
    /// Parts of names of the same.
    pub parts: Vec<String>,
    /// Whether the library returns memory to the kernel and takes it again.
    pub gives_memory_back: bool,
}

/// A lock of a language's runtime: one, whatever words, conditions and functions it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Runtime {
    /// What it is called.
    pub name: String,
    /// The function that it goes by.
    pub frame: String,
    /// Functions that take it, give it or sleep for it.
    pub functions: Vec<String>,
    /// Prefixes of the runtime's modules.
    pub modules: Vec<String>,
    /// Functions that a stripped module still names, and that wait for it.
    pub callers: Vec<String>,
    /// Variables that it lies in.
    pub variables: Vec<String>,
}

/// A type of objects that are made of several futex words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// The type.
    pub of: String,
    /// Its length in bytes.
    pub extent: u64,
    /// Its alignment in bytes; at least 1.
    pub align: std::num::NonZeroU64,
    /// Its words that are waited for.
    pub words: Vec<Words>,
}

/// Words of an object that the same functions wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Their offsets in bytes.
    pub at: Vec<u64>,
    /// Parts of the functions' names.
    pub parts: Vec<String>,
}

/// A runtime that parks each thread at a place of the thread's own, whatever it waits for. All
/// lists are prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parking {
    /// Whose it is.
    pub of: String,
    /// Functions that a parked thread stands in.
    pub sleep: Vec<String>,
    /// Functions by which tasks wait for each other and let each other go.
    pub primitives: Vec<String>,
    /// The runtime's other functions.
    pub own: Vec<String>,
    /// Functions of its scheduler.
    pub scheduler: Vec<String>,
    /// Functions whose work is no scheduling for anybody.
    pub apart: Vec<String>,
    /// Functions that show a thread which runs whatever task comes next.
    pub workers: Vec<String>,
    /// Whether only those who wake such a thread tell what it waited for.
    pub by_wakers: bool,
    /// Whether a primitive tells enough where its caller has no name.
    pub alone: bool,
}

/// A lock manager whose waiters poll a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manager {
    /// Whose it is.
    pub of: String,
    /// Functions that a waiter stands in.
    pub sleep: Vec<String>,
    /// Functions that wake one.
    pub wake: Vec<String>,
}

/// The kernel's functions and calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kernel {
    /// Parts of lock machinery and the scheduler.
    pub plumbing: Vec<String>,
    /// Functions of the same.
    pub plumbing_whole: Vec<String>,
    /// Functions that take or give back a lock without waiting.
    pub touches: Vec<String>,
    /// Prefixes of the way into a system call; what follows is the call.
    pub calls: Vec<String>,
    /// Prefixes of what lies outside every call's own.
    pub entries: Vec<String>,
    /// Parts of what serves a page fault.
    pub page_faults: Vec<String>,
    /// Parts of what serves an interrupt.
    pub interrupts: Vec<String>,
    /// Parts of what serves the clock's tick,
    #[serde(default)]
    pub ticks: Vec<String>,
    /// of what does the work that interrupts put off,
    #[serde(default)]
    pub deferred: Vec<String>,
    /// and of what tells a core that a thread was woken.
    #[serde(default)]
    pub rescheduling: Vec<String>,
    /// Parts of what reads a counter (`eventfd`),
    #[serde(default)]
    pub counters: Vec<String>,
    /// or a timer, as a file.
    #[serde(default)]
    pub timers: Vec<String>,
    /// Prefixes of going to sleep and waking others.
    pub switching: Vec<String>,
    /// Calls that do nothing but wait or wake.
    pub waiting_calls: Vec<String>,
    /// What is waited for in calls that tell it.
    pub waits: Vec<WaitingCall>,
    /// Calls by which requests come and answers go.
    pub exchange_calls: Vec<String>,
    /// Numbers of the calls by which requests come.
    pub receiving: Vec<i32>,
    /// Slow paths of locks.
    pub slow_path: Vec<SlowPath>,
    /// Locks that their callers tell.
    pub lock: Vec<KernelLock>,
    /// Locks that threads sleep for without the kernel's lock events.
    pub sleep: Vec<KernelSleep>,
    /// Work that says more than the call which brings it about.
    pub work: Vec<KernelWork>,
}

impl Kernel {
    fn extend(&mut self, more: &Self) {
        for (mine, theirs) in [
            (&mut self.plumbing, &more.plumbing),
            (&mut self.plumbing_whole, &more.plumbing_whole),
            (&mut self.touches, &more.touches),
            (&mut self.calls, &more.calls),
            (&mut self.entries, &more.entries),
            (&mut self.page_faults, &more.page_faults),
            (&mut self.interrupts, &more.interrupts),
            (&mut self.ticks, &more.ticks),
            (&mut self.deferred, &more.deferred),
            (&mut self.rescheduling, &more.rescheduling),
            (&mut self.counters, &more.counters),
            (&mut self.timers, &more.timers),
            (&mut self.switching, &more.switching),
            (&mut self.waiting_calls, &more.waiting_calls),
            (&mut self.exchange_calls, &more.exchange_calls),
        ] {
            mine.extend_from_slice(theirs);
        }
        self.receiving.extend_from_slice(&more.receiving);
        first(&mut self.slow_path, &more.slow_path);
        first(&mut self.lock, &more.lock);
        first(&mut self.sleep, &more.sleep);
        first(&mut self.work, &more.work);
        first(&mut self.waits, &more.waits);
    }
}

/// What threads wait for in system calls of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitingCall {
    /// What it is called.
    pub name: String,
    /// The calls.
    pub calls: Vec<String>,
    /// A lock; else something that another thread has to send.
    pub lock: bool,
}

/// A lock of the kernel that no event tells of, by those who sleep for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelSleep {
    /// What it is called.
    pub name: String,
    /// Parts of the names of functions in which a thread sleeps for it.
    pub parts: Vec<String>,
    /// Parts of the names of their callers, one of which has to be there; any, where there is none.
    #[serde(default)]
    pub below: Vec<String>,
}

/// Work that a language's runtime does for itself, in whichever functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeWork {
    /// What it is called.
    pub name: String,
    /// Beginnings of names of functions, with all that these call.
    pub prefixes: Vec<String>,
}

/// Work of the kernel with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelWork {
    /// What it is called.
    pub name: String,
    /// Parts of its functions' names.
    pub parts: Vec<String>,
    /// It is one thing, whichever calls bring it about.
    #[serde(default)]
    pub alone: bool,
}

/// Causes that variants which fit any program may relieve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relieved {
    /// By which kind of relief.
    pub by: Relief,
    /// Their kinds.
    pub kinds: Vec<CauseKind>,
    /// Prefixes of the frames that name them.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Parts of the same. Any frame, where neither is given.
    #[serde(default)]
    pub parts: Vec<String>,
}

/// What kind of kernel lock.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum KernelLockClass {
    /// A reader-writer semaphore.
    Rwsem,
    /// A mutex.
    Mutex,
    /// A spin lock, which nobody sleeps for.
    Spin,
}

/// The slow paths of a class of kernel locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowPath {
    /// The class.
    pub class: KernelLockClass,
    /// Parts of the functions' names.
    pub parts: Vec<String>,
}

/// A kernel lock that its callers tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelLock {
    /// What it is called.
    pub name: String,
    /// Its class.
    pub class: KernelLockClass,
    /// Parts of its callers' names.
    #[serde(default)]
    pub parts: Vec<String>,
    /// Its callers.
    #[serde(default)]
    pub functions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_comes_first_where_the_order_matters() {
        let kind = |word: &str| Kind { word: word.to_owned(), ..Kind::default() };
        let mut names = Names { kind: vec![kind("mutex")], ..Names::default() };
        let mut more = Names { kind: vec![kind("latch")], ..Names::default() };
        more.plumbing.parts.push("my_lock".to_owned());
        assert!(!more.is_empty() && Names::default().is_empty());
        names.extend(&more);
        assert_eq!(names.kind, [kind("latch"), kind("mutex")]);
        assert_eq!(names.plumbing.parts, ["my_lock"]);
    }
}

//! Names of plumbing: which functions of libraries, runtimes, servers and the kernel stand between
//! a program and what it waits for. All of them are in `names.toml`, to which a recipe may add;
//! here is what they mean.

use kneepoint_vocab::names::{
    Inside, KernelLockClass, KernelWork, Names, Parking, Relieved, Runtime, RuntimeWork,
    WaitingCall,
};
use kneepoint_vocab::{CauseKey, Frame, Relief, WaitReason};
use std::sync::{LazyLock, Mutex, PoisonError};
use syscalls::x86_64::Sysno;

/// Base name under which kernel frames are recorded.
pub(crate) const KERNEL: &str = "[kernel]";

/// Ways into the kernel that the program did not ask for by a call or a fault.
pub(crate) const INTERRUPT: &str = "interrupt";
pub(crate) const ENTRY_AND_EXIT: &str = "entry and exit";
/// Another thread was given the core on the way out of the kernel: what a preemption costs.
pub(crate) const PREEMPTION: &str = "preemption";

/// The file, read once.
static BUILT_IN: LazyLock<Names> =
    LazyLock::new(|| toml::from_str(include_str!("names.toml")).unwrap_or_default());

/// The names that hold for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Catalogue(&'static Names);

impl Catalogue {
    /// What is built in.
    pub(crate) fn built_in() -> Self {
        Self(&BUILT_IN)
    }

    /// What is built in, with what a recipe adds. A run's own names are kept until the program
    /// ends: there are few, and all that is said of the run refers to them.
    pub(crate) fn with(more: &Names) -> Self {
        static KEPT: Mutex<Vec<(&'static Names, &'static Names)>> = Mutex::new(Vec::new());
        if more.is_empty() {
            return Self::built_in();
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, all)) = kept.iter().find(|(known, _)| *known == more) {
            return Self(all);
        }
        let mut all = BUILT_IN.clone();
        all.extend(more);
        let all: &'static Names = Box::leak(Box::new(all));
        kept.push((Box::leak(Box::new(more.clone())), all));
        Self(all)
    }
}

impl Catalogue {
    /// Whether the frame is code of the C library.
    pub(crate) fn in_c_library(self, frame: &Frame) -> bool {
        begins(&frame.module, &self.0.c_library.modules)
    }

    /// The system call that a function of the C library is for, e.g. `read` for `__libc_read`; none
    /// where it does more than to make it.
    pub(crate) fn wrapped_call(self, frame: &Frame) -> Option<&'static str> {
        let library = &self.0.c_library;
        let bare = frame.function.trim_start_matches("__GI_").trim_start_matches('_');
        let name = bare.strip_prefix("libc_").unwrap_or(bare).trim_end_matches("_nocancel");
        let name = library.calls.get(name).map_or(name, String::as_str);
        let call = name.parse::<Sysno>().ok().filter(|_| self.in_c_library(frame))?.name();
        (!is_one(call, &library.own_work)).then_some(call)
    }

    /// Whether the function only starts a thread or passes on a call.
    pub(crate) fn is_scaffold(self, function: &str) -> bool {
        let bare = function.split('(').next().unwrap_or(function).trim_end();
        [function, bare].iter().any(|name| is_one(name, &self.0.plumbing.scaffold))
    }

    /// Whether the function is a standard library's, which names nothing while someone calls it.
    pub(crate) fn is_standard(self, function: &str) -> bool {
        begins(function, &self.0.plumbing.standard)
    }

    /// Whether a stack of its own begins in the function.
    pub(crate) fn is_outermost(self, function: &str) -> bool {
        begins(function, &self.0.plumbing.outermost)
    }

    /// Whether the function is an operation on a single word, whose time is its caller's.
    pub(crate) fn is_primitive(self, function: &str) -> bool {
        let known = &self.0.plumbing;
        begins(function, &known.primitives) || holds(function, &known.primitive_parts)
    }

    /// Whether the function is a method of a lock that the program itself has written.
    pub(crate) fn is_own_lock(self, function: &str) -> bool {
        let lower = function.to_ascii_lowercase();
        let known = &self.0.methods;
        !self.is_worded(function, &lower)
            && method(&lower).is_some_and(|(of, name)| {
                is_one(name, &known.names) && !self.of_library(of) && !begins(of, &known.libraries)
            })
    }

    /// A type may stand in namespaces: `innodb::ssux_lock_impl<true>`.
    fn of_library(self, of: &str) -> bool {
        let libraries = &self.0.methods.libraries;
        of.split("::").any(|part| begins(part, libraries))
    }

    fn is_worded(self, function: &str, lower: &str) -> bool {
        let words = &self.0.plumbing;
        self.is_scaffold(function)
            || holds(lower, &words.parts)
            || (lower.contains("mutex") && holds(lower, &words.mutex_verbs))
            || begins(function, &words.prefixes)
            || self.is_primitive(function)
    }

    /// Whether threads wait at a variable of a library's for whatever its primitives are.
    pub(crate) fn is_waiting_place(self, variable: &str) -> bool {
        let (_, name) = variable.split_once(':').unwrap_or(("", variable));
        begins(name, &self.0.plumbing.waiting_places)
    }

    /// Whether the function is plumbing of user locks: it names nothing.
    pub(crate) fn is_plumbing(self, function: &str) -> bool {
        let lower = function.to_ascii_lowercase();
        let known = &self.0.methods;
        self.is_worded(function, &lower)
            || self.manager_sleeps(function)
            || self.manager_wakes(function)
            || method(&lower).is_some_and(|(of, name)| {
                is_one(name, &known.names) && (self.of_library(of) || begins(of, &known.libraries))
            })
    }

    /// The lock inside a library that the function takes.
    pub(crate) fn inside(self, function: &str) -> Option<&'static str> {
        let bare = function.trim_start_matches("__GI_");
        known(&self.0.inside, bare)
    }

    /// Whether a lock inside a library is that of one which returns memory to the kernel and takes
    /// it again.
    pub(crate) fn gives_memory_back(self, inside: &str) -> bool {
        self.0.inside.iter().any(|known| known.name == inside && known.gives_memory_back)
    }

    /// Whether a lock inside a library is called so.
    pub(crate) fn is_inside(self, name: &str) -> bool {
        self.0.inside.iter().any(|known| known.name == name)
    }

    /// The lock of a language's runtime that the function takes, gives or sleeps for.
    pub(crate) fn runtime(self, function: &str) -> Option<&'static str> {
        let bare = function.split(['(', ' ']).next().unwrap_or(function);
        let one = self.0.runtime.iter().find(|runtime| is_one(bare, &runtime.functions));
        one.map(|runtime| runtime.name.as_str())
    }

    /// The lock of a language's runtime that functions without a name wait for: those of `module`,
    /// on behalf of `caller`.
    pub(crate) fn stripped_runtime(self, module: &str, caller: &str) -> Option<&'static str> {
        let fits = |one: &&Runtime| begins(module, &one.modules) && is_one(caller, &one.callers);
        self.0.runtime.iter().find(fits).map(|runtime| runtime.name.as_str())
    }

    /// Whether this is what a runtime's lock is called.
    pub(crate) fn is_runtime_lock(self, name: &str) -> bool {
        self.runtime_frame(name).is_some()
    }

    /// The function that a runtime's lock of this name goes by.
    pub(crate) fn runtime_frame(self, name: &str) -> Option<&'static str> {
        let one = self.0.runtime.iter().find(|runtime| runtime.name == name);
        one.map(|runtime| runtime.frame.as_str())
    }

    /// The runtime in whose variable a word lies: `libpython3.11.so.1.0:_PyRuntime+0x1b0`.
    pub(crate) fn variable_of_runtime(self, word: &str) -> Option<&'static str> {
        let (module, variable) = word.split_once(':')?;
        let variable = variable.split('+').next().unwrap_or(variable);
        let fits =
            |one: &&Runtime| begins(module, &one.modules) && is_one(variable, &one.variables);
        self.0.runtime.iter().find(fits).map(|runtime| runtime.name.as_str())
    }

    /// Where an object begins, and how long it is, of which threads wait for the word at `address`
    /// within `function`; absent where the function is not known to wait for a part of something.
    pub(crate) fn object(self, function: &str, address: u64) -> Option<(u64, u64)> {
        self.0.object.iter().find_map(|object| {
            let begin =
                |at: &u64| address.checked_sub(*at).filter(|from| *from % object.align == 0);
            let words = object.words.iter().find(|words| holds(function, &words.parts))?;
            Some((words.at.iter().find_map(begin)?, object.extent))
        })
    }

    /// What kind of lock the function shows: `mutex`, `condition` ...
    pub(crate) fn kind(self, function: &str) -> Option<&'static str> {
        let lower = function.to_ascii_lowercase();
        self.0.kind.iter().find(|kind| holds(&lower, &kind.parts)).map(|kind| kind.word.as_str())
    }

    /// What a function without a name in this module waits for.
    pub(crate) fn kind_of_module(self, module: &str) -> Option<&'static str> {
        let is_of = |kind: &&kneepoint_vocab::names::Kind| begins(module, &kind.modules);
        self.0.kind.iter().find(is_of).map(|kind| kind.word.as_str())
    }

    /// Whether the function parks a thread for whatever calls it.
    pub(crate) fn is_parker(self, function: &str) -> bool {
        begins(function, &self.0.plumbing.parkers)
    }

    /// Whether what is called by this word of `kind` is a lock.
    pub(crate) fn is_lock(self, word: &str) -> bool {
        self.0.kind.iter().any(|kind| kind.word == word && kind.lock)
    }

    /// Runtimes that park threads at places of their own.
    pub(crate) fn parking(self) -> impl Iterator<Item = &'static Parking> {
        self.0.parking.iter()
    }

    /// Whether those who wait for a lock manager that polls stand in the function.
    pub(crate) fn manager_sleeps(self, function: &str) -> bool {
        self.0.manager.iter().any(|manager| is_one(function, &manager.sleep))
    }

    /// Whether the function is a lock manager's that wakes those who wait so.
    pub(crate) fn manager_wakes(self, function: &str) -> bool {
        self.0.manager.iter().any(|manager| is_one(function, &manager.wake))
    }

    /// Whether a thread that stands in the function is a runtime's own, which has nothing to do
    /// while it waits.
    pub(crate) fn is_helper(self, function: &str) -> bool {
        begins(function, &self.0.helpers)
    }

    /// Whether a kernel function is lock machinery or the scheduler.
    pub(crate) fn kernel_plumbing(self, function: &str) -> bool {
        let known = &self.0.kernel;
        holds(function, &known.plumbing) || is_one(function, &known.plumbing_whole)
    }

    /// Whether a kernel function takes or gives back a lock without waiting for it.
    pub(crate) fn kernel_touches(self, function: &str) -> bool {
        is_one(function, &self.0.kernel.touches)
    }

    /// `__x64_sys_futex` and its like on other architectures -> `futex`.
    pub(crate) fn system_call(self, function: &str) -> Option<&str> {
        let prefixes = &self.0.kernel.calls;
        let name = prefixes.iter().find_map(|prefix| function.strip_prefix(prefix.as_str()));
        name.filter(|name| !name.is_empty())
    }

    /// Whether a kernel function lies outside every system call's own.
    pub(crate) fn is_entry(self, function: &str) -> bool {
        begins(function, &self.0.kernel.entries)
    }

    /// Whether a kernel function serves a page fault.
    pub(crate) fn is_page_fault(self, function: &str) -> bool {
        holds(function, &self.0.kernel.page_faults)
    }

    /// Whether a way into the kernel is no call of the program's.
    pub(crate) fn is_nobody_s(self, entry: &str) -> bool {
        matches!(entry, INTERRUPT | ENTRY_AND_EXIT | PREEMPTION)
    }

    /// Whether a kernel function serves the clock's tick.
    pub(crate) fn is_tick(self, function: &str) -> bool {
        holds(function, &self.0.kernel.ticks)
    }

    /// Whether a kernel function serves the interrupt that tells a core to look for whom to run.
    pub(crate) fn is_rescheduling(self, function: &str) -> bool {
        holds(function, &self.0.kernel.rescheduling)
    }

    /// Whether a kernel function does what an interrupt has put off.
    pub(crate) fn is_deferred(self, function: &str) -> bool {
        holds(function, &self.0.kernel.deferred)
    }

    /// Whether a kernel function serves an interrupt.
    pub(crate) fn is_interrupt(self, function: &str) -> bool {
        holds(function, &self.0.kernel.interrupts)
    }

    /// Whether a kernel function puts a thread to sleep or wakes one.
    pub(crate) fn is_switching(self, function: &str) -> bool {
        begins(function, &self.0.kernel.switching)
    }

    /// The class of kernel lock whose slow path the function is.
    pub(crate) fn slow_path(self, function: &str) -> Option<KernelLockClass> {
        let mut paths = self.0.kernel.slow_path.iter();
        paths.find(|path| holds(function, &path.parts)).map(|path| path.class)
    }

    /// What a kernel lock is called of which its caller tells.
    pub(crate) fn kernel_lock(self, class: KernelLockClass, caller: &str) -> Option<&'static str> {
        let mut locks = self.0.kernel.lock.iter().filter(|lock| lock.class == class);
        let found = locks
            .find(|l| l.name == caller || holds(caller, &l.parts) || is_one(caller, &l.functions));
        found.map(|lock| lock.name.as_str())
    }

    /// The kernel lock that a thread sleeps for in these functions, innermost first, of which the
    /// kernel gives no event.
    pub(crate) fn sleeps_for(self, functions: &[&str]) -> Option<&'static str> {
        let one = |parts: &[String]| functions.iter().any(|function| holds(function, parts));
        let mut locks = self.0.kernel.sleep.iter();
        let found =
            locks.find(|lock| one(&lock.parts) && (lock.below.is_empty() || one(&lock.below)));
        found.map(|lock| lock.name.as_str())
    }

    /// What a read waits for in these functions, where its file has no type.
    pub(crate) fn reads(self, functions: &[&str]) -> Option<WaitReason> {
        let one = |parts: &[String]| functions.iter().any(|function| holds(function, parts));
        let kernel = &self.0.kernel;
        let counter = one(&kernel.counters).then_some(WaitReason::EventCounter);
        counter.or_else(|| one(&kernel.timers).then_some(WaitReason::Timer))
    }

    /// Kernel work that these functions do, where it has a name of its own.
    pub(crate) fn kernel_work(self, functions: &[&str]) -> Option<&'static KernelWork> {
        let does = |parts: &[String]| functions.iter().any(|function| holds(function, parts));
        self.0.kernel.work.iter().find(|work| does(&work.parts))
    }

    /// Work that a language's runtime does for itself in a stack of these functions, by its name.
    pub(crate) fn runtime_work(self, frames: &[Frame]) -> Option<&'static str> {
        let does = |work: &&RuntimeWork| {
            frames.iter().any(|frame| begins(&frame.function, &work.prefixes))
        };
        self.0.work.iter().find(does).map(|work| work.name.as_str())
    }

    /// What may relieve a cause, whichever program it is of.
    pub(crate) fn relief(self, key: &CauseKey) -> Option<Relief> {
        let named = |row: &Relieved| {
            row.prefixes.is_empty() && row.parts.is_empty()
                || begins(&key.frame, &row.prefixes)
                || holds(&key.frame, &row.parts)
        };
        let mut rows = self.0.relieved.iter();
        rows.find(|row| row.kinds.contains(&key.kind) && named(row)).map(|row| row.by)
    }

    /// What threads wait for in the system call, where that is known.
    pub(crate) fn waits_in(self, call: &str) -> Option<&'static WaitingCall> {
        self.0.kernel.waits.iter().find(|waits| is_one(call, &waits.calls))
    }

    /// Whether requests come or answers go by the system call.
    pub(crate) fn is_exchange(self, call: &str) -> bool {
        is_one(call, &self.0.kernel.exchange_calls)
    }

    /// Whether requests come by the system call of this number, as `x86_64` counts.
    pub(crate) fn is_receiving(self, call: i32) -> bool {
        self.0.kernel.receiving.contains(&call)
    }

    /// Whether a system call does nothing but wait or wake.
    pub(crate) fn is_waiting_call(self, call: &str) -> bool {
        is_one(call, &self.0.kernel.waiting_calls)
    }
}

/// The system call of this number, as `x86_64` counts.
pub(crate) fn numbered_call(number: i32) -> Option<&'static str> {
    Some(Sysno::new(usize::try_from(number).ok()?)?.name())
}

fn holds(text: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| text.contains(part.as_str()))
}

pub(crate) fn begins(text: &str, prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix.as_str()))
}

/// The type whose method a function of Go is: `main.(*book)` of `main.(*book).post`.
pub(crate) fn receiver(function: &str) -> Option<&str> {
    let end = function.rfind(").").filter(|end| function[..*end].contains("(*"))?;
    Some(&function[..=end])
}

fn is_one(text: &str, names: &[String]) -> bool {
    names.iter().any(|name| name == text)
}

/// Whether the frame is code of the kernel.
pub(crate) fn in_kernel(frame: &Frame) -> bool {
    frame.module == KERNEL
}

/// Whether nothing but an address is known of the function: `mariadbd+0xde2c20`.
pub(crate) fn is_unnamed(function: &str) -> bool {
    function.rsplit_once("+0x").is_some_and(|(_, offset)| {
        !offset.is_empty() && offset.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The type and the method, without arguments and types: `Fifo::lock(int)` -> `Fifo`, `lock`.
fn method(lower: &str) -> Option<(&str, &str)> {
    const NAMELESS: &str = "(anonymous namespace)";
    let mut brackets = lower.match_indices('(').map(|(at, _)| at);
    let arguments = brackets.find(|&at| !lower[at..].starts_with(NAMELESS));
    lower[..arguments.unwrap_or(lower.len())].rsplit_once("::")
}

fn known(list: &'static [Inside], function: &str) -> Option<&'static str> {
    let one = list
        .iter()
        .find(|known| is_one(function, &known.functions) || holds(function, &known.parts));
    one.map(|known| known.name.as_str())
}

#[cfg(test)]
mod tests;

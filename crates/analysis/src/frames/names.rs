//! Names of plumbing: which functions of libraries, runtimes, servers and the kernel stand between
//! a program and what it waits for. All of them are in `names.toml`; here is what they mean.

use kneepoint_vocab::Frame;
use serde::Deserialize;
use std::sync::LazyLock;

/// Base name under which kernel frames are recorded.
pub(crate) const KERNEL: &str = "[kernel]";

/// The file, read once.
static NAMES: LazyLock<Names> =
    LazyLock::new(|| toml::from_str(include_str!("names.toml")).unwrap_or_default());

/// Everything that the file holds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    plumbing: Plumbing,
    methods: Methods,
    kind: Vec<Kind>,
    c_library: CLibrary,
    inside: Vec<Known>,
    runtime: Vec<Known>,
    manager: Vec<Manager>,
    kernel: Kernel,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plumbing {
    parts: Vec<String>,
    prefixes: Vec<String>,
    mutex_verbs: Vec<String>,
    scaffold: Vec<String>,
    primitives: Vec<String>,
    primitive_parts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Methods {
    names: Vec<String>,
    libraries: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    word: String,
    parts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CLibrary {
    modules: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Known {
    name: String,
    functions: Vec<String>,
    parts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manager {
    #[allow(dead_code, reason = "tells readers of the file whose functions these are")]
    of: String,
    sleep: Vec<String>,
    wake: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    plumbing: Vec<String>,
    plumbing_whole: Vec<String>,
    touches: Vec<String>,
    calls: Vec<String>,
    entries: Vec<String>,
    page_faults: Vec<String>,
    interrupts: Vec<String>,
    switching: Vec<String>,
    waiting_calls: Vec<String>,
}

fn holds(text: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| text.contains(part.as_str()))
}

fn begins(text: &str, prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix.as_str()))
}

fn is_one(text: &str, names: &[String]) -> bool {
    names.iter().any(|name| name == text)
}

/// Whether the frame is code of the kernel.
pub(crate) fn in_kernel(frame: &Frame) -> bool {
    frame.module == KERNEL
}

/// Whether the frame is code of the C library.
pub(crate) fn in_c_library(frame: &Frame) -> bool {
    begins(&frame.module, &NAMES.c_library.modules)
}

/// Whether the function only starts a thread or passes on a call.
pub(crate) fn is_scaffold(function: &str) -> bool {
    is_one(function, &NAMES.plumbing.scaffold)
}

/// Whether nothing but an address is known of the function: `mariadbd+0xde2c20`.
pub(crate) fn is_unnamed(function: &str) -> bool {
    function.rsplit_once("+0x").is_some_and(|(_, offset)| {
        !offset.is_empty() && offset.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Whether the function is an operation on a single word, whose time is its caller's.
pub(crate) fn is_primitive(function: &str) -> bool {
    let known = &NAMES.plumbing;
    begins(function, &known.primitives) || holds(function, &known.primitive_parts)
}

/// The type and the method, without arguments and types: `Fifo::lock(int)` -> `Fifo`, `lock`.
fn method(lower: &str) -> Option<(&str, &str)> {
    lower.split('(').next().unwrap_or(lower).rsplit_once("::")
}

/// Whether the function is a method of a lock that the program itself has written.
pub(crate) fn is_own_lock(function: &str) -> bool {
    let lower = function.to_ascii_lowercase();
    let known = &NAMES.methods;
    !is_worded(function, &lower)
        && method(&lower).is_some_and(|(of, name)| {
            is_one(name, &known.names) && !of_library(of) && !begins(of, &known.libraries)
        })
}

/// A type may stand in namespaces: `innodb::ssux_lock_impl<true>`.
fn of_library(of: &str) -> bool {
    let libraries = &NAMES.methods.libraries;
    of.split("::").any(|part| begins(part, libraries))
}

fn is_worded(function: &str, lower: &str) -> bool {
    let words = &NAMES.plumbing;
    is_scaffold(function)
        || holds(lower, &words.parts)
        || (lower.contains("mutex") && holds(lower, &words.mutex_verbs))
        || begins(function, &words.prefixes)
        || is_primitive(function)
}

/// Whether the function is plumbing of user locks: it names nothing.
pub(crate) fn is_plumbing(function: &str) -> bool {
    let lower = function.to_ascii_lowercase();
    let known = &NAMES.methods;
    is_worded(function, &lower)
        || manager_sleeps(function)
        || manager_wakes(function)
        || method(&lower).is_some_and(|(of, name)| {
            is_one(name, &known.names) && (of_library(of) || begins(of, &known.libraries))
        })
}

/// The lock inside a library that the function takes.
pub(crate) fn inside(function: &str) -> Option<&'static str> {
    let bare = function.trim_start_matches("__GI_");
    known(&NAMES.inside, bare)
}

/// The lock of a language's runtime that the function takes, gives or sleeps for.
pub(crate) fn runtime(function: &str) -> Option<&'static str> {
    known(&NAMES.runtime, function.split(['(', ' ']).next().unwrap_or(function))
}

fn known(list: &'static [Known], function: &str) -> Option<&'static str> {
    let one = list
        .iter()
        .find(|known| is_one(function, &known.functions) || holds(function, &known.parts));
    one.map(|known| known.name.as_str())
}

/// Whether this is what a runtime's lock is called.
pub(crate) fn is_runtime_lock(name: &str) -> bool {
    NAMES.runtime.iter().any(|runtime| runtime.name == name)
}

/// What kind of lock the function shows: `mutex`, `condition` ...
pub(crate) fn kind(function: &str) -> Option<&'static str> {
    let lower = function.to_ascii_lowercase();
    NAMES.kind.iter().find(|kind| holds(&lower, &kind.parts)).map(|kind| kind.word.as_str())
}

/// Whether those who wait for a lock manager that polls stand in the function.
pub(crate) fn manager_sleeps(function: &str) -> bool {
    NAMES.manager.iter().any(|manager| is_one(function, &manager.sleep))
}

/// Whether the function is a lock manager's that wakes those who wait so.
pub(crate) fn manager_wakes(function: &str) -> bool {
    NAMES.manager.iter().any(|manager| is_one(function, &manager.wake))
}

/// Whether a kernel function is lock machinery or the scheduler.
pub(crate) fn kernel_plumbing(function: &str) -> bool {
    let known = &NAMES.kernel;
    holds(function, &known.plumbing) || is_one(function, &known.plumbing_whole)
}

/// Whether a kernel function takes or gives back a lock without waiting for it.
pub(crate) fn kernel_touches(function: &str) -> bool {
    is_one(function, &NAMES.kernel.touches)
}

/// `__x64_sys_futex` and its like on other architectures -> `futex`.
pub(crate) fn system_call(function: &str) -> Option<&str> {
    let prefixes = &NAMES.kernel.calls;
    let name = prefixes.iter().find_map(|prefix| function.strip_prefix(prefix.as_str()));
    name.filter(|name| !name.is_empty())
}

/// Whether a kernel function lies outside every system call's own.
pub(crate) fn is_entry(function: &str) -> bool {
    begins(function, &NAMES.kernel.entries)
}

/// Whether a kernel function serves a page fault.
pub(crate) fn is_page_fault(function: &str) -> bool {
    holds(function, &NAMES.kernel.page_faults)
}

/// Whether a kernel function serves an interrupt.
pub(crate) fn is_interrupt(function: &str) -> bool {
    holds(function, &NAMES.kernel.interrupts)
}

/// Whether a kernel function puts a thread to sleep or wakes one.
pub(crate) fn is_switching(function: &str) -> bool {
    begins(function, &NAMES.kernel.switching)
}

/// Whether a system call does nothing but wait or wake.
pub(crate) fn is_waiting_call(call: &str) -> bool {
    is_one(call, &NAMES.kernel.waiting_calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read() {
        let names: Names = toml::from_str(include_str!("names.toml")).unwrap();
        assert!(names.plumbing.parts.iter().all(|part| *part == part.to_ascii_lowercase()));
        assert!(names.methods.libraries.iter().all(|part| *part == part.to_ascii_lowercase()));
    }

    #[test]
    fn plumbing_is_known_by_words_beginnings_and_methods_of_libraries() {
        for function in [
            "pthread_mutex_lock",
            "__lll_lock_wait_private",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "pthreadMutexEnter",
            "lockBtreeMutex",
            "btreeLockCarefully",
            "ssux_lock_impl<true>::wr_wait(unsigned int)",
            "std::mutex::lock()",
            "MyMutex::acquire",
            "WaitLatch",
            "LWLockAcquire",
            "start_thread",
            "core::sync::atomic::atomic_load<u32>",
        ] {
            assert!(is_plumbing(function), "{function}");
            assert!(!is_own_lock(function), "{function}");
        }
        for function in
            ["sqlite3BtreeEnter", "ha_commit_trans", "app::ledger::post", "XactLockTableWait"]
        {
            assert!(!is_plumbing(function) && !is_own_lock(function), "{function}");
        }
    }

    #[test]
    fn methods_of_the_program_s_own_locks_name_them() {
        for function in [
            "spec::Fifo::lock",
            "spec::Pool::acquire",
            "<app::Gate as Lock>::lock",
            "Fifo::unlock()",
        ] {
            assert!(is_own_lock(function) && !is_plumbing(function), "{function}");
        }
    }

    #[test]
    fn locks_inside_libraries_and_runtimes_have_names() {
        assert_eq!(inside("__GI__IO_fwrite"), Some("stdio stream"));
        assert_eq!(inside("_int_malloc"), Some("malloc"));
        assert_eq!(inside("__random"), Some("random"));
        assert_eq!(inside("__GI___dl_iterate_phdr"), Some("dl_iterate_phdr"));
        assert_eq!(inside("qsort"), None);
        assert_eq!(runtime("take_gil"), Some("Python interpreter lock"));
        assert_eq!(runtime("runtime.notesleep"), Some("Go scheduler"));
        assert_eq!(runtime("main.work"), None);
    }

    #[test]
    fn kinds_are_recognised_by_the_first_word_that_fits() {
        assert_eq!(kind("std::sync::barrier::Barrier::wait"), Some("barrier"));
        assert_eq!(kind("std::sync::mpmc::list::Channel<T>::recv"), Some("channel"));
        assert_eq!(kind("pthread_cond_wait"), Some("condition"));
        assert_eq!(kind("pthread_rwlock_rdlock"), Some("reader-writer lock"));
        assert_eq!(kind("__new_sem_wait_slow64"), Some("semaphore"));
        assert_eq!(kind("pthread_mutex_cond_lock"), Some("mutex"));
        assert_eq!(kind("work"), None);
    }

    #[test]
    fn lock_managers_that_poll_sleep_and_wake() {
        assert!(manager_sleeps("ProcSleep") && !manager_sleeps("ProcLockWakeup"));
        assert!(manager_wakes("ProcLockWakeup") && !manager_wakes("PostgresMain"));
    }

    #[test]
    fn the_kernel_s_functions_are_distinguished() {
        assert_eq!(system_call("__x64_sys_futex"), Some("futex"));
        assert_eq!(system_call("ksys_read"), Some("read"));
        assert_eq!(system_call("vfs_read"), None);
        assert!(is_entry("entry_SYSCALL_64_after_hwframe") && !is_entry("vfs_read"));
        assert!(is_page_fault("asm_exc_page_fault") && is_interrupt("asm_sysvec_call_function"));
        assert!(kernel_plumbing("rwsem_down_write_slowpath") && !kernel_plumbing("pipe_write"));
        assert!(kernel_touches("mutex_unlock") && !kernel_touches("pipe_write"));
        assert!(is_switching("finish_task_switch.isra.0") && !is_switching("copy_page"));
        assert!(is_waiting_call("kill") && !is_waiting_call("write"));
    }

    #[test]
    fn an_address_is_no_name() {
        assert!(is_unnamed("mariadbd+0xde2c20") && is_unnamed("libc.so.6+0x8f1"));
        assert!(!is_unnamed("operator+0x") && !is_unnamed("do_command"));
    }

    #[test]
    fn modules_of_the_c_library() {
        let frame = |module: &str| Frame { function: String::new(), module: module.to_owned() };
        assert!(in_c_library(&frame("libc.so.6")) && in_c_library(&frame("ld-linux-x86-64.so.2")));
        assert!(!in_c_library(&frame("mariadbd")) && in_kernel(&frame("[kernel]")));
    }
}

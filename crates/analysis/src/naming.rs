//! Which frame of a waiting stack names the lock.
//!
//! The innermost frames of a wait are the lock's own machinery (`futex_wait`,
//! `pthread_mutex_lock`, a wrapper of the program). The first frame outside that machinery is
//! the function that wanted the lock, and names it. Wrappers are known by their words, since
//! static helpers may or may not be inlined away.

use crate::stacks::KERNEL;
use kneepoint_vocab::Frame;

/// What the innermost telling frame of the machinery shows about a futex wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machinery {
    /// A mutex.
    Mutex,
    /// A reader-writer lock.
    ReadWrite,
    /// A semaphore.
    Semaphore,
    /// A condition variable, a parked thread, a barrier: waiting for another thread's word.
    Condition,
    /// Nothing that tells.
    Unknown,
}

/// Words of lock machinery in a lower-case function name.
const LOCK_WORDS: [&str; 26] = [
    "pthread_",
    "__lll_",
    "futex",
    "lock_wait",
    "lockcarefully",
    "lock_contended",
    "lock_slow",
    "lockslow",
    "spin_lock",
    "spinlock",
    "rwlock",
    "rw_lock",
    "rwsem",
    "semaphore",
    "sem_wait",
    "sem_timedwait",
    "std::sync::",
    "std::sys::",
    "parking_lot",
    "lock_api::",
    "condvar",
    "condition_variable",
    "mutex_enter",
    "mutexenter",
    "tts_lock",
    "lll_lock",
];

/// Functions that only start threads or call closures: they name nothing.
const SCAFFOLD: [&str; 10] = [
    "start_thread",
    "clone3",
    "__clone3",
    "clone",
    "__clone",
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "syscall",
    "unknown",
];

/// Functions of the C library that hold a lock of their own, and the name the lock goes by.
fn library_lock(function: &str) -> Option<&'static str> {
    const MALLOC: [&str; 17] = [
        "malloc",
        "__libc_malloc",
        "_int_malloc",
        "__libc_free",
        "free",
        "cfree",
        "_int_free",
        "calloc",
        "__libc_calloc",
        "realloc",
        "__libc_realloc",
        "_int_realloc",
        "memalign",
        "_int_memalign",
        "arena_get2",
        "malloc_consolidate",
        "sysmalloc",
    ];
    let bare = function.trim_start_matches("__GI_");
    if MALLOC.contains(&bare) || bare.contains("arena_get") || bare.contains("_int_free") {
        return Some("malloc");
    }
    if ["rand", "random", "__random", "srandom", "__srandom"].contains(&bare) {
        return Some("random");
    }
    if bare.contains("dl_iterate_phdr") {
        return Some("dl_iterate_phdr");
    }
    let stdio = ["fwrite", "fputs", "fputc", "putc", "puts", "fprintf", "printf", "vfprintf"];
    if bare.starts_with("_IO_") || stdio.contains(&bare) {
        return Some("stdio stream");
    }
    None
}

fn in_c_library(frame: &Frame) -> bool {
    let module = frame.module.as_str();
    ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl", "ld.so", "[vdso]"]
        .iter()
        .any(|prefix| module.starts_with(prefix))
}

/// The method of a lock object: what follows the last `::`, without arguments and types.
fn is_lock_method(lower: &str) -> bool {
    const METHODS: [&str; 12] = [
        "lock",
        "try_lock",
        "lock_shared",
        "rdlock",
        "wrlock",
        "rd_lock",
        "wr_lock",
        "rd_wait",
        "wr_wait",
        "u_lock",
        "acquire",
        "acquire_shared",
    ];
    let bare = lower.split('(').next().unwrap_or(lower);
    bare.rsplit_once("::").is_some_and(|(_, method)| METHODS.contains(&method))
}

fn is_machinery(function: &str) -> bool {
    let lower = function.to_ascii_lowercase();
    SCAFFOLD.contains(&function)
        || is_lock_method(&lower)
        || LOCK_WORDS.iter().any(|word| lower.contains(word))
        || (lower.contains("mutex")
            && ["lock", "enter", "acquire", "wait", "take"].iter().any(|verb| lower.contains(verb)))
        || [
            "core::ops::",
            "core::panic",
            "std::panic",
            "std::rt::",
            "std::thread",
            "<alloc::",
            "<core::",
            "<std::",
        ]
        .iter()
        .any(|prefix| function.starts_with(prefix))
}

/// The frames that may name a user lock, innermost first; the first is the first choice.
///
/// Frames of the C library count only where they hold a lock of their own (allocator, `rand`,
/// stdio). Where everything is machinery the innermost user frame outside the C library
/// stands in, so that a wait is not left without any name that its stack offers.
pub(crate) fn naming_frames(frames: &[Frame]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for frame in frames.iter().filter(|frame| frame.module != KERNEL) {
        if in_c_library(frame) {
            // Once a caller in the program is found, the C library further out only starts it.
            if let Some(name) = library_lock(&frame.function).filter(|_| names.is_empty()) {
                names.push(name.to_owned());
            }
        } else if !is_machinery(&frame.function) && names.last() != Some(&frame.function) {
            names.push(frame.function.clone());
        }
    }
    if names.is_empty() {
        let user = frames.iter().find(|frame| frame.module != KERNEL && !in_c_library(frame));
        names.extend(
            user.filter(|f| !SCAFFOLD.contains(&f.function.as_str())).map(|f| f.function.clone()),
        );
    }
    names
}

/// Whether the innermost user frame is lock machinery, and what the kernel does below it, if it
/// does anything, is a futex call.
pub(crate) fn begins_in_machinery(frames: &[Frame]) -> bool {
    let mut kernel = frames.iter().filter(|frame| frame.module == KERNEL).peekable();
    let in_futex = kernel.peek().is_none() || kernel.any(|frame| frame.function.contains("futex"));
    let user = frames.iter().find(|frame| frame.module != KERNEL);
    in_futex && user.is_some_and(|frame| is_machinery(&frame.function))
}

/// The frames that may name a kernel lock: kernel functions outside the lock's slow path and
/// the scheduler, innermost first.
pub(crate) fn kernel_naming_frames(frames: &[Frame]) -> Vec<String> {
    const MACHINERY: [&str; 26] = [
        "wake_up_q",
        "mutex_unlock",
        "mutex_optimistic_spin",
        "up_write",
        "up_read",
        "_raw_",
        "spin_rq_lock",
        "task_rq_lock",
        "inode_lock",
        "inode_unlock",
        "xfs_ilock",
        "xfs_iunlock",
        "schedule",
        "slowpath",
        "mutex_lock",
        "mutex_spin",
        "osq_lock",
        "down_read",
        "down_write",
        "rwsem",
        "rt_mutex",
        "percpu_down",
        "percpu_rwsem",
        "io_schedule",
        "spin_lock",
        "asm_",
    ];
    frames
        .iter()
        .filter(|frame| frame.module == KERNEL)
        .map(|frame| frame.function.clone())
        .filter(|function| {
            !MACHINERY.iter().any(|word| function.contains(word))
                && !["down", "__down", "do_syscall_64", "x64_sys_call"].contains(&function.as_str())
        })
        .collect()
}

/// What the innermost telling frame shows. A condition variable that takes its mutex again is
/// a mutex wait: the mutex frame lies further in.
pub(crate) fn machinery(frames: &[Frame]) -> Machinery {
    for frame in frames.iter().filter(|frame| frame.module != KERNEL) {
        let lower = frame.function.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if has(&["condvar", "cond_wait", "cond_timedwait", "cond_clockwait", "condition_variable"])
            || has(&["::park", "parker", "barrier", "pthread_join", "clockjoin"])
        {
            return Machinery::Condition;
        }
        if has(&["rwlock", "rw_lock", "shared_mutex"]) {
            return Machinery::ReadWrite;
        }
        if has(&["sem_wait", "sem_timedwait", "sem_clockwait", "semaphore"]) {
            return Machinery::Semaphore;
        }
        if has(&["mutex", "lll_lock", "lock_contended", "lock_slow"]) {
            return Machinery::Mutex;
        }
    }
    Machinery::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        frames
            .iter()
            .map(|(function, module)| Frame {
                function: (*function).to_owned(),
                module: (*module).to_owned(),
            })
            .collect()
    }

    #[test]
    fn shared_cache_mutex_is_named_through_its_wrappers() {
        let frames = stack(&[
            ("futex_wait", KERNEL),
            ("__lll_lock_wait", "libc.so.6"),
            ("pthread_mutex_lock", "libc.so.6"),
            ("pthreadMutexEnter", "kneepoint"),
            ("lockBtreeMutex", "kneepoint"),
            ("btreeLockCarefully", "kneepoint"),
            ("sqlite3BtreeEnter", "kneepoint"),
            ("sqlite3VdbeEnter", "kneepoint"),
            ("sqlite3_step", "kneepoint"),
            ("start_thread", "libc.so.6"),
        ]);
        let names = naming_frames(&frames);
        assert_eq!(&names[..2], ["sqlite3BtreeEnter", "sqlite3VdbeEnter"]);
        assert_eq!(machinery(&frames), Machinery::Mutex);
    }

    #[test]
    fn a_lock_inside_the_c_library_is_named_by_what_it_guards() {
        let frames = stack(&[
            ("__lll_lock_wait_private", "libc.so.6"),
            ("_int_free", "libc.so.6"),
            ("my_free", "mariadbd"),
        ]);
        assert_eq!(naming_frames(&frames), ["malloc", "my_free"]);
        let unnamed = stack(&[("libc.so.6+0x8f1", "libc.so.6"), ("handle", "app")]);
        assert_eq!(naming_frames(&unnamed), ["handle"]);
    }

    #[test]
    fn rust_standard_mutex_is_a_mutex_named_by_its_caller() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", "app"),
            ("std::sync::poison::mutex::Mutex<T>::lock", "app"),
            ("app::ledger::post", "app"),
        ]);
        assert_eq!(naming_frames(&frames), ["app::ledger::post"]);
        assert_eq!(machinery(&frames), Machinery::Mutex);
    }

    #[test]
    fn methods_of_lock_objects_are_machinery() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("ssux_lock_impl<true>::wr_wait(unsigned int)", "mariadbd"),
            ("buf_page_get_low(page_id_t, unsigned long)", "mariadbd"),
        ]);
        assert_eq!(naming_frames(&frames), ["buf_page_get_low(page_id_t, unsigned long)"]);
    }

    #[test]
    fn a_mutex_taken_again_after_a_condition_is_a_mutex() {
        let wait = stack(&[("pthread_cond_wait", "libc.so.6"), ("worker", "app")]);
        assert_eq!(machinery(&wait), Machinery::Condition);
        let again = stack(&[
            ("pthread_mutex_cond_lock", "libc.so.6"),
            ("pthread_cond_wait", "libc.so.6"),
            ("worker", "app"),
        ]);
        assert_eq!(machinery(&again), Machinery::Mutex);
    }

    #[test]
    fn kernel_lock_is_named_by_the_function_that_took_it() {
        let frames = stack(&[
            ("schedule_preempt_disabled", KERNEL),
            ("rwsem_down_write_slowpath", KERNEL),
            ("down_write_killable", KERNEL),
            ("__vm_munmap", KERNEL),
            ("__x64_sys_munmap", KERNEL),
        ]);
        assert_eq!(kernel_naming_frames(&frames)[0], "__vm_munmap");
    }

    #[test]
    fn only_futex_calls_are_lock_machinery_in_the_kernel() {
        let futex = [("wake_up_q", KERNEL), ("futex_wake", KERNEL), ("pthread_mutex_unlock", "c")];
        assert!(begins_in_machinery(&stack(&futex)));
        assert!(begins_in_machinery(&stack(&[("pthread_mutex_lock", "c"), ("post", "app")])));
        let fault = [("exc_page_fault", KERNEL), ("pthread_mutex_lock", "c")];
        assert!(!begins_in_machinery(&stack(&fault)));
        assert!(!begins_in_machinery(&stack(&[("post", "app"), ("pthread_mutex_lock", "c")])));
        assert!(!begins_in_machinery(&[]));
    }

    #[test]
    fn all_machinery_still_offers_a_name() {
        let frames = stack(&[("__lll_lock_wait", "libc.so.6"), ("my_rwlock_rdlock", "app")]);
        assert_eq!(naming_frames(&frames), ["my_rwlock_rdlock"]);
        assert!(naming_frames(&[]).is_empty());
    }
}

//! Which frame of a waiting stack names the lock.
//!
//! The innermost frames of a wait are the lock's own machinery (`futex_wait`, `pthread_mutex_lock`,
//! a wrapper of the program). The first frame outside that machinery is the function that wanted
//! the lock, and names it. Which functions are machinery is data (`names.toml`). Frames of which
//! only the address is known are machinery too, as long as a frame further out has a name: what
//! calls the futex in a stripped program is mostly a lock's own wrapper.

use crate::frames::names::{
    in_c_library, in_kernel, inside, is_own_lock, is_plumbing, is_primitive, is_scaffold,
    is_unnamed, is_waiting_call, kernel_plumbing, kind, manager_sleeps, manager_wakes, runtime,
};
use kneepoint_vocab::Frame;

/// The word for a lock whose stacks do not tell which kind it is.
pub(crate) const LOCK: &str = "lock";

/// The frames that may name a user lock, innermost first; the first is the first choice.
///
/// A lock of a language's runtime goes by the runtime's name. Frames of the C library count only
/// where the lock is inside it: known ones by what they guard (allocator, stdio), others by the
/// function of the library that was called. Where everything is machinery the innermost user frame
/// outside the C library stands in, so that a wait is not left without any name that its stack
/// offers.
pub(crate) fn naming_frames(frames: &[Frame]) -> Vec<String> {
    // Whatever a runtime's function calls, it calls for the runtime's lock.
    let runtime_at = frames.iter().rposition(|f| !in_kernel(f) && runtime(&f.function).is_some());
    let frames = &frames[runtime_at.unwrap_or(0)..];
    let user = || frames.iter().filter(|frame| !in_kernel(frame));
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if names.last() != Some(&name) {
            names.push(name);
        }
    };
    let library = user().take_while(|frame| in_c_library(frame)).collect::<Vec<_>>();
    let mut known = false;
    for name in library.iter().filter_map(|frame| inside(&frame.function)) {
        add(name.to_owned());
        known = true;
    }
    let caller = user().find(|frame| !in_c_library(frame)).map(|frame| frame.function.as_str());
    if let Some(name) = inside_c_library(&library, caller).filter(|_| !known) {
        add(name);
    }
    for frame in user().filter(|frame| !in_c_library(frame)) {
        if let Some(name) = runtime(&frame.function) {
            add(name.to_owned());
        } else if !is_plumbing(&frame.function) && !is_unnamed(&frame.function) {
            add(frame.function.clone());
        }
    }
    if names.is_empty() {
        let stands_in = user().find(|frame| !in_c_library(frame) && !is_scaffold(&frame.function));
        names.extend(stands_in.map(|frame| frame.function.clone()));
    }
    names
}

/// A lock that the C library holds for itself, by the function of it that was called: the outermost
/// of its frames, unless that one is a lock's own, or only passes a call on.
fn inside_c_library(library: &[&Frame], caller: Option<&str>) -> Option<String> {
    let called = library.last()?;
    let own = |frame: &&&Frame| {
        is_plumbing(&frame.function) || is_waiting_call(frame.function.trim_start_matches('_'))
    };
    if library.iter().any(|frame| own(&frame)) && (own(&called) || is_unnamed(&called.function)) {
        return None;
    }
    match (is_unnamed(&called.function), caller) {
        (false, _) => Some(called.function.clone()),
        (true, Some(caller)) => Some(format!("{} called by {caller}", called.module)),
        (true, None) => None,
    }
}

/// Whether the innermost user frame is lock machinery, whatever the kernel does below it.
pub(crate) fn begins_in_machinery(frames: &[Frame]) -> bool {
    let user = frames.iter().find(|frame| !in_kernel(frame));
    user.is_some_and(|frame| {
        is_plumbing(&frame.function)
            || is_own_lock(&frame.function)
            || { in_c_library(frame) && is_unnamed(&frame.function) }
            || runtime(&frame.function).is_some()
    })
}

/// Whether the stack has a frame of a lock manager that wakes those who poll for its locks.
pub(crate) fn wakes_by_manager(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| manager_wakes(&frame.function))
}

/// Frames that may name the lock which a polling thread waits for, innermost first; absent where
/// its stack shows none.
pub(crate) fn polled_names(frames: &[Frame]) -> Option<Vec<String>> {
    let outermost = frames.iter().rposition(|frame| manager_sleeps(&frame.function))?;
    Some(naming_frames(&frames[outermost + 1..]))
}

/// The innermost user function whose time a stack shows: operations on single words are a part of
/// it.
pub(crate) fn working_function(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !is_primitive(&frame.function)).or(frames.first())
}

/// The frames that may name a kernel lock: kernel functions outside the lock's slow path and
/// the scheduler, innermost first.
pub(crate) fn kernel_naming_frames(frames: &[Frame]) -> Vec<String> {
    let kernel = frames.iter().filter(|frame| in_kernel(frame));
    kernel.map(|frame| frame.function.clone()).filter(|name| !kernel_plumbing(name)).collect()
}

/// What the innermost telling frame shows: `mutex`, `condition` ... A condition variable that takes
/// its mutex again is a mutex wait: the mutex frame lies further in.
pub(crate) fn machinery(frames: &[Frame]) -> &'static str {
    let user = frames.iter().filter(|frame| !in_kernel(frame));
    user.filter_map(|frame| kind(&frame.function)).next().unwrap_or(LOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::names::KERNEL;

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
        assert_eq!(machinery(&frames), "mutex");
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
        assert_eq!(naming_frames(&unnamed)[0], "libc.so.6 called by handle");
        let public = [("libc.so.6+0x8f1", "libc.so.6"), ("localtime_r", "libc.so.6")];
        assert_eq!(naming_frames(&stack(&public))[0], "localtime_r");
        let wrapped = [("libc.so.6+0x8f1", "libc.so.6"), ("pthread_mutex_lock", "libc.so.6")];
        let wrapped = [&wrapped[..], &[("handle", "app")]].concat();
        assert_eq!(naming_frames(&stack(&wrapped)), ["handle"]);
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
        assert_eq!(machinery(&frames), "mutex");
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
        assert_eq!(machinery(&wait), "condition");
        let again = stack(&[
            ("pthread_mutex_cond_lock", "libc.so.6"),
            ("pthread_cond_wait", "libc.so.6"),
            ("worker", "app"),
        ]);
        assert_eq!(machinery(&again), "mutex");
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
    fn stacks_that_begin_in_machinery() {
        let futex = [("wake_up_q", KERNEL), ("futex_wake", KERNEL), ("pthread_mutex_unlock", "c")];
        assert!(begins_in_machinery(&stack(&futex)));
        assert!(begins_in_machinery(&stack(&[("pthread_mutex_lock", "c"), ("post", "app")])));
        assert!(begins_in_machinery(&stack(&[("Fifo::lock", "app"), ("post", "app")])));
        assert!(!begins_in_machinery(&stack(&[("post", "app"), ("pthread_mutex_lock", "c")])));
        assert!(!begins_in_machinery(&[]));
    }

    #[test]
    fn an_address_that_calls_the_futex_is_plumbing() {
        let frames = |caller| {
            stack(&[
                ("futex_wait", KERNEL),
                ("syscall", "libc.so.6"),
                ("mariadbd+0xde2c20", "mariadbd"),
                ("mariadbd+0xde1000", "mariadbd"),
                (caller, "mariadbd"),
                ("do_command", "mariadbd"),
            ])
        };
        assert_eq!(naming_frames(&frames("ha_commit_trans"))[0], "ha_commit_trans");
        assert_eq!(naming_frames(&frames("ha_index_read_map"))[0], "ha_index_read_map");
        let bare =
            stack(&[("syscall", "libc.so.6"), ("app+0x10", "app"), ("start_thread", "libc.so.6")]);
        assert_eq!(naming_frames(&bare), ["app+0x10"]);
    }

    #[test]
    fn a_lock_of_the_program_s_own_type_is_named_by_its_method() {
        let wait = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sync::poison::condvar::Condvar::wait", "app"),
            ("app::Pool::acquire", "app"),
            ("app::client", "app"),
        ]);
        assert_eq!(naming_frames(&wait), ["app::Pool::acquire", "app::client"]);
    }

    #[test]
    fn a_lock_of_a_runtime_is_one_by_whatever_function() {
        let condition = [("pthread_cond_timedwait", "libc.so.6"), ("PyCOND_TIMEDWAIT", "python3")];
        let take = stack(&[&condition[..], &[("take_gil", "python3")]].concat());
        let drop = stack(&[("pthread_mutex_lock", "libc.so.6"), ("drop_gil", "python3")]);
        assert_eq!(naming_frames(&take)[0], naming_frames(&drop)[0]);
    }

    #[test]
    fn a_barrier_is_a_barrier() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sys::sync::condvar::futex::Condvar::wait", "app"),
            ("std::sync::barrier::Barrier::wait", "app"),
            ("app::phase", "app"),
        ]);
        assert_eq!(naming_frames(&frames), ["app::phase"]);
    }

    #[test]
    fn all_machinery_still_offers_a_name() {
        let frames = stack(&[("__lll_lock_wait", "libc.so.6"), ("my_rwlock_rdlock", "app")]);
        assert_eq!(naming_frames(&frames), ["my_rwlock_rdlock"]);
        assert!(naming_frames(&[]).is_empty());
    }
}

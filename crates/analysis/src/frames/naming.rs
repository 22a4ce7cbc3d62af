//! Which frame of a waiting stack names the lock.
//!
//! The innermost frames of a wait are the lock's own machinery (`futex_wait`, `pthread_mutex_lock`,
//! a wrapper of the program). The first frame outside that machinery is the function that wanted
//! the lock, and names it. Which functions are machinery is data (`names.toml`). Frames of which
//! only the address is known are machinery too, as long as a frame further out has a name: what
//! calls the futex in a stripped program is mostly a lock's own wrapper.

use crate::frames::names::{Catalogue, in_kernel, is_unnamed};
use kneepoint_vocab::Frame;

/// What names count that the program has given, that a standard library has, and that stand in.
const OWN: f64 = 1.0;
const OF_STANDARD: f64 = 1e-3;
const STAND_IN: f64 = 1e-6;
/// Functions without a name that are told of a stack.
const WITHOUT_NAMES: usize = 3;

/// The word for a lock whose stacks do not tell which kind it is.
pub(crate) const LOCK: &str = "lock";
/// The word for what threads wait for until another one says that it has come.
pub(crate) const CONDITION: &str = "condition";

/// The frames that may name a user lock, innermost first; the first is the first choice.
///
/// A lock of a language's runtime goes by the runtime's name. Frames of the C library count only
/// where the lock is inside it: known ones by what they guard (allocator, stdio), others by the
/// function of the library that was called. Functions of standard libraries count only where no
/// other does. Where everything is machinery the innermost user frame outside the C library stands
/// in, so that a wait is not left without any name that its stack offers.
pub(crate) fn naming_frames(known: Catalogue, frames: &[Frame]) -> Vec<String> {
    naming(known, frames).0
}

/// The same, with what these names count beside others for the same lock, of equally heavy stacks:
/// the program's own decide, a standard library's where there are none of these, and machinery's
/// where there are none at all.
pub(crate) fn naming(known: Catalogue, frames: &[Frame]) -> (Vec<String>, f64) {
    // Whatever a runtime's function calls, it calls for the runtime's lock.
    let runtime_at =
        frames.iter().rposition(|f| !in_kernel(f) && known.runtime(&f.function).is_some());
    let frames = &frames[runtime_at.unwrap_or(0)..];
    if let Some(name) = runtime_without_names(known, frames) {
        let callers = frames.iter().filter(|f| !in_kernel(f) && !known.in_c_library(f));
        let callers = callers.map(|frame| frame.function.as_str()).filter(|name| !is_unnamed(name));
        return (std::iter::once(name).chain(callers).map(str::to_owned).collect(), OWN);
    }
    let user = || frames.iter().filter(|frame| !in_kernel(frame));
    let of_library = of_c_library(known, frames);
    let (mut own, mut standard) = (Vec::<String>::new(), Vec::new());
    for frame in user().filter(|frame| !known.in_c_library(frame)) {
        if let Some(name) = known.runtime(&frame.function) {
            own.push(name.to_owned());
        } else if !known.is_plumbing(bare(frame)) && !is_unnamed(&frame.function) {
            let list = if known.is_standard(&frame.function) { &mut standard } else { &mut own };
            list.push(frame.function.clone());
        }
    }
    if own.is_empty() && standard.is_empty() {
        own = without_names(known, frames);
    }
    let is_told = !of_library.is_empty() || own.first().is_some_and(|name| !is_unnamed(name));
    let mut names = [of_library, own].concat();
    names.dedup();
    if !names.is_empty() {
        return (names, if is_told { OWN } else { STAND_IN });
    }
    if !standard.is_empty() {
        return (standard, OF_STANDARD);
    }
    let stands_in =
        user().find(|frame| !known.in_c_library(frame) && !known.is_scaffold(&frame.function));
    (stands_in.map(|frame| frame.function.clone()).into_iter().collect(), STAND_IN)
}

/// What the C library's innermost frames show: known locks inside it by what they guard, others by
/// the function that was called.
fn of_c_library(known: Catalogue, frames: &[Frame]) -> Vec<String> {
    let user = || frames.iter().filter(|frame| !in_kernel(frame));
    let library = user().take_while(|frame| known.in_c_library(frame)).collect::<Vec<_>>();
    let inside = library.iter().filter_map(|frame| known.inside(&frame.function));
    let names: Vec<String> = inside.map(str::to_owned).collect();
    if !names.is_empty() {
        return names;
    }
    let caller = user().find(|frame| !known.in_c_library(frame));
    let caller = caller.map(|frame| frame.function.as_str());
    inside_c_library(known, &library, caller).into_iter().collect()
}

/// The innermost functions of a program of which nothing but the address is known, unless one with
/// a name stands before them. Code without a file has no lasting address.
fn without_names(known: Catalogue, frames: &[Frame]) -> Vec<String> {
    let user = frames.iter().filter(|frame| !in_kernel(frame) && !known.in_c_library(frame));
    let unnamed = user.take_while(|frame| is_unnamed(&frame.function));
    let lasting = unnamed.filter(|frame| !frame.module.starts_with('['));
    lasting.take(WITHOUT_NAMES).map(|frame| frame.function.clone()).collect()
}

/// The function without the name of the program's own crate: in a program called `rwlock` a
/// function `rwlock::update` is nobody's lock.
fn bare(frame: &Frame) -> &str {
    let Some((crate_name, rest)) = frame.function.split_once("::") else { return &frame.function };
    let file = frame.module.split(".so").next().unwrap_or_default();
    let file = file.strip_prefix("lib").filter(|_| file != frame.module).unwrap_or(file);
    let same = crate_name.len() == file.len()
        && crate_name.bytes().zip(file.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'));
    if same { rest } else { &frame.function }
}

/// The lock of a stripped runtime: between a wait of the C library and a function that the runtime
/// exports lie only functions of the runtime, at least one, of which nothing but the address is
/// known.
fn runtime_without_names(known: Catalogue, frames: &[Frame]) -> Option<&'static str> {
    let mut user = frames.iter().filter(|frame| !in_kernel(frame)).peekable();
    let mut called = None;
    // A runtime may call it by a function of its own, which it exports.
    let waits = |frame: &&&Frame| known.in_c_library(frame) || known.is_plumbing(bare(frame));
    while let Some(frame) = user.next_if(|frame| waits(&frame)) {
        called = Some(frame);
    }
    called.filter(|frame| known.is_plumbing(bare(frame)))?;
    let first = user.next().filter(|frame| is_unnamed(&frame.function))?;
    let caller = user.find(|frame| !is_unnamed(&frame.function))?;
    (caller.module == first.module)
        .then(|| known.stripped_runtime(&first.module, &caller.function))
        .flatten()
}

/// A lock that the C library holds for itself, by the function of it that was called: the outermost
/// of its frames, unless that one is a lock's own, or only passes a call on.
fn inside_c_library(known: Catalogue, library: &[&Frame], caller: Option<&str>) -> Option<String> {
    let called = library.last()?;
    let own = |frame: &&&Frame| {
        known.is_plumbing(bare(frame))
            || known.is_waiting_call(frame.function.trim_start_matches('_'))
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

/// Whether the innermost user frame is lock machinery, whatever the kernel does below it; what such
/// a function of the same file calls that has no name, as code in assembly, is a part of it.
pub(crate) fn begins_in_machinery(known: Catalogue, frames: &[Frame]) -> bool {
    let user = || frames.iter().filter(|frame| !in_kernel(frame));
    let Some(innermost) = user().next() else { return false };
    let nameless = |frame: &Frame| is_unnamed(&frame.function) && frame.module == innermost.module;
    let called = || user().find(|frame| !nameless(frame));
    let is_machinery = |frame: &Frame| {
        known.is_plumbing(bare(frame))
            || known.is_own_lock(&frame.function)
            || known.runtime(&frame.function).is_some()
    };
    is_machinery(innermost)
        || known.in_c_library(innermost) && is_unnamed(&innermost.function)
        || called().is_some_and(|frame| frame.module == innermost.module && is_machinery(frame))
}

/// Whether an interrupt is on the stack: what it wakes, a timer or a device, is nothing that the
/// thread did on whose core it came.
pub(crate) fn is_interrupted(known: Catalogue, frames: &[Frame]) -> bool {
    frames.iter().any(|frame| in_kernel(frame) && known.is_interrupt(&frame.function))
}

/// Whether the stack has a frame of a lock manager that wakes those who poll for its locks.
pub(crate) fn wakes_by_manager(known: Catalogue, frames: &[Frame]) -> bool {
    frames.iter().any(|frame| known.manager_wakes(&frame.function))
}

/// Frames that may name the lock which a polling thread waits for, innermost first; absent where
/// its stack shows none.
pub(crate) fn polled_names(known: Catalogue, frames: &[Frame]) -> Option<Vec<String>> {
    let outermost = frames.iter().rposition(|frame| known.manager_sleeps(&frame.function))?;
    Some(naming_frames(known, &frames[outermost + 1..]))
}

/// The innermost user function whose time a stack shows: operations on single words are a part of
/// it.
pub(crate) fn working_function(known: Catalogue, frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !known.is_primitive(&frame.function)).or(frames.first())
}

/// The frames that may name a kernel lock: kernel functions outside the lock's slow path and
/// the scheduler, innermost first.
pub(crate) fn kernel_naming_frames(known: Catalogue, frames: &[Frame]) -> Vec<String> {
    let kernel = frames.iter().filter(|frame| in_kernel(frame));
    let names = kernel.map(|frame| frame.function.clone());
    names.filter(|name| !known.kernel_plumbing(name) && !known.is_entry(name)).collect()
}

/// What the innermost telling frame shows: `mutex`, `condition` ... A condition variable that takes
/// its mutex again is a mutex wait: the mutex frame lies further in.
pub(crate) fn machinery(known: Catalogue, frames: &[Frame]) -> &'static str {
    let user = || frames.iter().filter(|frame| !in_kernel(frame));
    let telling = user().filter(|frame| !known.is_parker(&frame.function));
    let told = telling.filter_map(|frame| known.kind(bare(frame))).next();
    // Threads of a library's own, or one that called a function of it that has a name. Else a
    // function of the library took the place of the one that the program called, as for a lock.
    let alone = || {
        let mut outside = user().filter(|frame| !known.in_c_library(frame));
        let innermost = outside.next().filter(|frame| is_unnamed(&frame.function))?;
        let word = known.kind_of_module(&innermost.module)?;
        let called =
            outside.find(|frame| frame.module != innermost.module || !is_unnamed(&frame.function));
        called.is_none_or(|frame| frame.module == innermost.module).then_some(word)
    };
    told.or_else(alone).unwrap_or(LOCK)
}

/// Whether a thread that a condition just let go wants its lock back: the condition's function
/// calls the lock's.
pub(crate) fn wants_back(known: Catalogue, frames: &[Frame]) -> bool {
    let mut kinds = frames.iter().filter_map(|frame| known.kind(&frame.function));
    known.is_lock(machinery(known, frames)) && kinds.any(|kind| kind == CONDITION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Catalogue {
        Catalogue::built_in()
    }

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
    fn who_parks_a_thread_for_a_primitive_tells_nothing_of_its_kind() {
        let parked = |primitive: &'static str| {
            stack(&[
                ("futex_wait", KERNEL),
                ("parking_lot_core::parking_lot::park", "app"),
                (primitive, "app"),
                ("place", "app"),
            ])
        };
        let kind = |primitive| machinery(known(), &parked(primitive));
        assert_eq!(kind("parking_lot::raw_mutex::RawMutex::lock_slow"), "mutex");
        assert_eq!(kind("dashmap::lock::RawRwLock::lock_exclusive_slow"), "reader-writer lock");
        assert_eq!(kind("parking_lot::condvar::Condvar::wait_until_internal"), "condition");
        let named = naming_frames(known(), &parked("dashmap::lock::RawRwLock::lock_shared_slow"));
        assert_eq!(named, ["place"]);
    }

    #[test]
    fn a_library_s_own_threads_wait_at_its_barrier() {
        let library = "libgomp.so.1.0.0";
        let own = |outer: &'static str, module: &'static str| {
            let frames =
                [("libgomp.so.1.0.0+0x1f780", library), (outer, module), ("clone3", "libc.so.6")];
            machinery(known(), &stack(&frames))
        };
        assert_eq!(own("libgomp.so.1.0.0+0x1cc40", library), "barrier");
        assert_eq!(own("GOMP_parallel", library), "barrier");
        assert_eq!(own("GOMP_critical_name_start", library), "mutex");
        assert_eq!(own("post_manifest", "app"), LOCK, "a jump to the lock's own function");
        let critical = [
            ("libgomp.so.1.0.0+0x1ef10", library),
            ("post_manifest", "app"),
            ("GOMP_parallel", library),
        ];
        assert_eq!(machinery(known(), &stack(&critical)), LOCK, "in the region, not at its end");
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
        let names = naming_frames(known(), &frames);
        assert_eq!(&names[..2], ["sqlite3BtreeEnter", "sqlite3VdbeEnter"]);
        assert_eq!(machinery(known(), &frames), "mutex");
    }

    #[test]
    fn what_a_deferred_call_is_wrapped_in_names_nothing() {
        let frames = stack(&[
            ("sync.(*Mutex).Unlock", "app"),
            ("main.(*ledger).post.deferwrap1", "app"),
            ("main.(*ledger).post", "app"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["main.(*ledger).post"]);
    }

    #[test]
    fn who_calls_a_standard_library_names_the_wait() {
        let waiting = [
            ("pthread_cond_wait", "libc.so.6"),
            ("std::condition_variable::wait(std::unique_lock<std::mutex>&)", "libstdc++.so.6"),
            ("std::wait<take_turn(long int)::<lambda()> >", "app"),
        ];
        let callers = [("take_turn(long)", "app"), ("void std::__invoke_impl<void>()", "app")];
        let whole = stack(&[&waiting[..], &callers[..]].concat());
        assert_eq!(naming_frames(known(), &whole), ["take_turn(long)"]);
        let without = naming_frames(known(), &stack(&waiting));
        assert_eq!(without, ["std::wait<take_turn(long int)::<lambda()> >"]);
        let strength = |frames: &[Frame]| naming(known(), frames).1;
        let parked = stack(&[("Parker::park(bool, long)", "libjvm.so")]);
        assert!(strength(&parked) < strength(&stack(&waiting)));
        assert!(strength(&stack(&waiting)) < strength(&whole));
    }

    #[test]
    fn who_calls_a_sleep_names_it() {
        let frames = stack(&[
            ("clock_nanosleep", "libc.so.6"),
            ("usleep", "libc.so.6"),
            ("held_work", "queue"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["held_work"]);
    }

    #[test]
    fn java_s_synchronizers_are_told_apart_where_stacks_are_cut() {
        let of = |function: &str| {
            let frames = stack(&[(function, "[anonymous]")]);
            machinery(known(), &frames)
        };
        let queued = "java.util.concurrent.locks.AbstractQueuedSynchronizer";
        assert_eq!(of(&format!("{queued}.acquire")), "j.u.c. lock");
        assert_eq!(of(&format!("{queued}.acquireSharedInterruptibly")), "condition");
        assert_eq!(of(&format!("{queued}$ConditionObject.await")), "condition");
    }

    #[test]
    fn who_was_interrupted_woke_nobody() {
        let wakes = [("futex_wake", KERNEL), ("__x64_sys_futex", KERNEL), ("unlock", "app")];
        assert!(!is_interrupted(known(), &stack(&wakes)));
        let timer = [("hrtimer_interrupt", KERNEL), ("asm_sysvec_apic_timer_interrupt", KERNEL)];
        let whole: Vec<_> = timer.into_iter().chain(wakes).collect();
        assert!(is_interrupted(known(), &stack(&whole)));
    }

    #[test]
    fn a_lock_inside_the_c_library_is_named_by_what_it_guards() {
        let frames = stack(&[
            ("__lll_lock_wait_private", "libc.so.6"),
            ("_int_free", "libc.so.6"),
            ("my_free", "mariadbd"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["malloc", "my_free"]);
        let unnamed = stack(&[("libc.so.6+0x8f1", "libc.so.6"), ("handle", "app")]);
        assert_eq!(naming_frames(known(), &unnamed)[0], "libc.so.6 called by handle");
        let public = [("libc.so.6+0x8f1", "libc.so.6"), ("localtime_r", "libc.so.6")];
        assert_eq!(naming_frames(known(), &stack(&public))[0], "localtime_r");
        let wrapped = [("libc.so.6+0x8f1", "libc.so.6"), ("pthread_mutex_lock", "libc.so.6")];
        let wrapped = [&wrapped[..], &[("handle", "app")]].concat();
        assert_eq!(naming_frames(known(), &stack(&wrapped)), ["handle"]);
    }

    #[test]
    fn rust_standard_mutex_is_a_mutex_named_by_its_caller() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", "app"),
            ("std::sync::poison::mutex::Mutex<T>::lock", "app"),
            ("app::ledger::post", "app"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["app::ledger::post"]);
        assert_eq!(machinery(known(), &frames), "mutex");
    }

    #[test]
    fn what_machinery_calls_is_a_part_of_it() {
        let begins = |caller| {
            let frames =
                [("libjvm.so+0xa99a72", "libjvm.so"), caller, ("Shop.serve", "[anonymous]")];
            begins_in_machinery(known(), &stack(&frames))
        };
        assert!(begins(("ObjectMonitor::TrySpin", "libjvm.so")));
        assert!(!begins(("TaskTerminator::offer_termination", "libjvm.so")));
        assert!(!begins(("parking_lot::raw_mutex::lock", "app")), "of another file");
    }

    #[test]
    fn what_a_virtual_machine_does_for_a_lock_is_the_lock_s() {
        let java = [
            ("ObjectMonitor::TrySpin", "libjvm.so"),
            ("ObjectMonitor::enter", "libjvm.so"),
            ("SharedRuntime::monitor_enter_helper", "libjvm.so"),
            ("Runtime1::monitorenter", "libjvm.so"),
            ("monitorenter_nofpu Runtime1 stub", "[anonymous]"),
            ("Shop.serve", "[anonymous]"),
        ];
        assert_eq!(naming_frames(known(), &stack(&java))[0], "Shop.serve");
        let python = [
            ("sem_clockwait", "libc.so.6"),
            ("PyThread_acquire_lock_timed", "python3.11"),
            ("acquire_timed", "python3.11"),
            ("rlock_acquire", "python3.11"),
        ];
        assert_eq!(naming_frames(known(), &stack(&python))[0], "rlock_acquire");
    }

    #[test]
    fn a_program_named_like_a_lock_is_no_lock() {
        let frames = stack(&[
            ("std::sys::pal::unix::futex::futex_wait", "rw-lock"),
            ("<std::sys::sync::rwlock::futex::RwLock>::write_contended", "rw-lock"),
            ("rw_lock::update", "rw-lock"),
            ("rw_lock::client", "rw-lock"),
        ]);
        assert_eq!(naming_frames(known(), &frames)[0], "rw_lock::update");
        assert_eq!(machinery(known(), &frames), "reader-writer lock");
        let other = stack(&[("syscall", "libc.so.6"), ("rw_lock::wait", "app"), ("post", "app")]);
        assert_eq!(naming_frames(known(), &other)[0], "post");
    }

    #[test]
    fn methods_of_lock_objects_are_machinery() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("ssux_lock_impl<true>::wr_wait(unsigned int)", "mariadbd"),
            ("buf_page_get_low(page_id_t, unsigned long)", "mariadbd"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["buf_page_get_low(page_id_t, unsigned long)"]);
    }

    #[test]
    fn a_mutex_taken_again_after_a_condition_is_a_mutex() {
        let wait = stack(&[("pthread_cond_wait", "libc.so.6"), ("worker", "app")]);
        assert_eq!(machinery(known(), &wait), "condition");
        let again = stack(&[
            ("pthread_mutex_cond_lock", "libc.so.6"),
            ("pthread_cond_wait", "libc.so.6"),
            ("worker", "app"),
        ]);
        assert_eq!(machinery(known(), &again), "mutex");
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
        assert_eq!(kernel_naming_frames(known(), &frames)[0], "__vm_munmap");
    }

    #[test]
    fn stacks_that_begin_in_machinery() {
        let futex = [("wake_up_q", KERNEL), ("futex_wake", KERNEL), ("pthread_mutex_unlock", "c")];
        assert!(begins_in_machinery(known(), &stack(&futex)));
        assert!(begins_in_machinery(
            known(),
            &stack(&[("pthread_mutex_lock", "c"), ("post", "app")])
        ));
        assert!(begins_in_machinery(known(), &stack(&[("Fifo::lock", "app"), ("post", "app")])));
        assert!(!begins_in_machinery(
            known(),
            &stack(&[("post", "app"), ("pthread_mutex_lock", "c")])
        ));
        assert!(!begins_in_machinery(known(), &[]));
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
        assert_eq!(naming_frames(known(), &frames("ha_commit_trans"))[0], "ha_commit_trans");
        assert_eq!(naming_frames(known(), &frames("ha_index_read_map"))[0], "ha_index_read_map");
        let bare =
            stack(&[("syscall", "libc.so.6"), ("app+0x10", "app"), ("start_thread", "libc.so.6")]);
        assert_eq!(naming_frames(known(), &bare), ["app+0x10"]);
    }

    #[test]
    fn a_lock_of_the_program_s_own_type_is_named_by_its_method() {
        let wait = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sync::poison::condvar::Condvar::wait", "app"),
            ("app::Pool::acquire", "app"),
            ("app::client", "app"),
        ]);
        assert_eq!(naming_frames(known(), &wait), ["app::Pool::acquire", "app::client"]);
    }

    #[test]
    fn a_lock_of_a_runtime_is_one_by_whatever_function() {
        let condition = [("pthread_cond_timedwait", "libc.so.6"), ("PyCOND_TIMEDWAIT", "python3")];
        let take = stack(&[&condition[..], &[("take_gil", "python3")]].concat());
        let drop = stack(&[("pthread_mutex_lock", "libc.so.6"), ("drop_gil", "python3")]);
        assert_eq!(naming_frames(known(), &take)[0], naming_frames(known(), &drop)[0]);
    }

    #[test]
    fn a_stripped_runtime_is_known_by_what_it_exports() {
        let inside =
            [("pthread_cond_timedwait", "libc.so.6"), ("python3.11+0x11cd84", "python3.11")];
        let by = |caller| stack(&[&inside[..], &[(caller, "python3.11"), ("work", "m")]].concat());
        let names = naming_frames(known(), &by("_PyEval_EvalFrameDefault"));
        assert_eq!(names, ["Python interpreter lock", "_PyEval_EvalFrameDefault", "work"]);
        let work = [("memcpy", "libc.so.6"), ("python3.11+0x11cd84", "python3.11")];
        let work = [&work[..], &[("_PyEval_EvalFrameDefault", "python3.11")]].concat();
        assert_eq!(runtime_without_names(known(), &stack(&work)), None);
        let another = naming_frames(known(), &by("PyThread_acquire_lock_timed"));
        assert_eq!(another[0], "work", "no other lock of the runtime is it");
        let ruby = [
            ("pthread_cond_wait", "libc.so.6"),
            ("rb_native_cond_wait", "libruby-3.1.so.3.1.2"),
            ("libruby-3.1.so.3.1.2+0x210fd0", "libruby-3.1.so.3.1.2"),
            ("rb_threadptr_execute_interrupts", "libruby-3.1.so.3.1.2"),
        ];
        assert_eq!(naming_frames(known(), &stack(&ruby))[0], "Ruby interpreter lock");
    }

    #[test]
    fn a_stripped_program_s_functions_go_by_their_addresses() {
        let own = [("app+0x1c70", "app"), ("app+0x1970", "app")];
        let asks = stack(&[&[("recv", "libc.so.6")], &own[..]].concat());
        assert_eq!(naming_frames(known(), &asks), ["recv", "app+0x1c70", "app+0x1970"]);
        let lock = stack(&[&[("__lll_lock_wait", "libc.so.6")], &own[..]].concat());
        assert_eq!(naming_frames(known(), &lock), ["app+0x1c70", "app+0x1970"]);
        let named = stack(&[&[("recv", "libc.so.6")], &own[..], &[("serve", "app")]].concat());
        assert_eq!(naming_frames(known(), &named), ["recv", "serve"]);
        let jit = [("recv", "libc.so.6"), ("[anonymous]+0x9250", "[anonymous]")];
        assert_eq!(naming_frames(known(), &stack(&jit)), ["recv"]);
    }

    #[test]
    fn a_barrier_is_a_barrier() {
        let frames = stack(&[
            ("syscall", "libc.so.6"),
            ("std::sys::sync::condvar::futex::Condvar::wait", "app"),
            ("std::sync::barrier::Barrier::wait", "app"),
            ("app::phase", "app"),
        ]);
        assert_eq!(naming_frames(known(), &frames), ["app::phase"]);
    }

    #[test]
    fn all_machinery_still_offers_a_name() {
        let frames = stack(&[("__lll_lock_wait", "libc.so.6"), ("my_rwlock_rdlock", "app")]);
        assert_eq!(naming_frames(known(), &frames), ["my_rwlock_rdlock"]);
        assert!(naming_frames(known(), &[]).is_empty());
    }
}

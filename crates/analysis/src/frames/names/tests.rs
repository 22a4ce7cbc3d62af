//! The built-in list against names as they come in stacks.

use super::*;

fn known() -> Catalogue {
    Catalogue::built_in()
}

#[test]
fn the_file_is_read() {
    let names: Names = toml::from_str(include_str!("../names.toml")).unwrap();
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
        "ssux_lock_impl<true>::wr_wait",
        "(anonymous namespace)::ssux_lock_impl<true>::wr_wait((anonymous namespace)::Word*)",
        "std::mutex::lock()",
        "std::mutex::lock",
        "MyMutex::acquire",
        "WaitLatch",
        "LWLockAcquire",
        "start_thread",
        "core::sync::atomic::atomic_load<u32>",
    ] {
        assert!(known().is_plumbing(function), "{function}");
        assert!(!known().is_own_lock(function), "{function}");
    }
    for function in
        ["sqlite3BtreeEnter", "ha_commit_trans", "app::ledger::post", "XactLockTableWait"]
    {
        assert!(!known().is_plumbing(function) && !known().is_own_lock(function), "{function}");
    }
}

#[test]
fn every_lock_library_is_known() {
    for (library, functions) in [
        ("glibc", ["__lll_lock_wait", "pthread_rwlock_wrlock"]),
        ("parking_lot", ["parking_lot::raw_mutex::RawMutex::lock_slow", "lock_api::Mutex::lock"]),
        ("std", ["std::sys::sync::condvar::futex::Condvar::wait", "std::sync::mpmc::recv"]),
        ("abseil", ["absl::lts::Mutex::LockSlow", "AbslInternalPerThreadSemWait_lts"]),
        ("folly", ["folly::SharedMutexImpl<false>::lockShared", "folly::Baton<true>::wait"]),
        ("libuv", ["uv_mutex_lock", "uv_cond_timedwait"]),
        ("InnoDB", ["PolicyMutex<TTASEventMutex>::enter", "sync_array_wait_event"]),
        ("SQLite", ["sqlite3_mutex_enter", "lockBtreeMutex"]),
        ("PostgreSQL", ["LWLockAcquire", "WaitEventSetWait"]),
        ("RocksDB", ["rocksdb::port::Mutex::Lock", "rocksdb::InstrumentedCondVar::Wait"]),
        ("Go", ["sync.(*Mutex).lockSlow", "runtime.semacquire1"]),
        ("JVM", ["ObjectMonitor::enter(JavaThread*)", "Unsafe_Park"]),
    ] {
        for function in functions {
            assert!(known().is_plumbing(function), "{library}: {function}");
        }
    }
    for (allocator, module) in [("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc.so")] {
        assert_eq!(known().stripped_runtime(module, "malloc"), Some(allocator));
    }
    assert_eq!(known().runtime("je_malloc_mutex_lock_slow"), Some("jemalloc"));
    assert_eq!(known().kind("ObjectMonitor::enter(JavaThread*)"), Some("Java monitor"));
    assert_eq!(known().kind("ObjectMonitor::wait(long)"), Some("condition"));
}

#[test]
fn methods_of_the_program_s_own_locks_name_them() {
    for function in
        ["spec::Fifo::lock", "spec::Pool::acquire", "<app::Gate as Lock>::lock", "Fifo::unlock()"]
    {
        assert!(known().is_own_lock(function) && !known().is_plumbing(function), "{function}");
    }
}

#[test]
fn locks_inside_libraries_and_runtimes_have_names() {
    assert_eq!(known().inside("__GI__IO_fwrite"), Some("stdio stream"));
    assert_eq!(known().inside("_int_malloc"), Some("malloc"));
    assert_eq!(known().inside("__random"), Some("random"));
    assert_eq!(known().inside("__GI___dl_iterate_phdr"), Some("dl_iterate_phdr"));
    assert_eq!(known().inside("qsort"), None);
    assert!(known().is_inside("random") && !known().is_inside("qsort"));
    assert!(known().gives_memory_back("malloc") && !known().gives_memory_back("random"));
    assert_eq!(known().runtime("take_gil"), Some("Python interpreter lock"));
    assert_eq!(known().runtime("runtime.notesleep"), Some("Go scheduler"));
    assert_eq!(known().runtime("main.work"), None);
    let python = Some("Python interpreter lock");
    assert_eq!(known().stripped_runtime("python3.11", "PyEval_RestoreThread"), python);
    assert_eq!(known().stripped_runtime("python3.11", "PyThread_acquire_lock_timed"), None);
    assert_eq!(known().stripped_runtime("app", "PyEval_RestoreThread"), None);
    assert_eq!(known().runtime_frame("Python interpreter lock"), Some("take_gil"));
    assert_eq!(known().variable_of_runtime("libpython3.11.so.1.0:_PyRuntime+0x1b0"), python);
    assert_eq!(known().variable_of_runtime("app:_PyRuntime"), None);
}

#[test]
fn words_of_an_object_tell_where_it_begins() {
    let condition = Some((0x1000, 48));
    assert_eq!(known().object("pthread_cond_timedwait", 0x1028), condition);
    assert_eq!(known().object("pthread_cond_wait", 0x102c), condition);
    assert_eq!(known().object("__pthread_mutex_cond_lock", 0x1030), Some((0x1030, 40)));
    assert_eq!(known().object("pthread_rwlock_wrlock", 0x100c), Some((0x1000, 56)));
    let rust = "std::sys::sync::rwlock::futex::RwLock::write_contended";
    assert_eq!(known().object(rust, 0x2004), Some((0x2000, 8)));
    assert_eq!(known().object("pthread_mutex_lock", 0x1001), None, "no address of a mutex");
    assert_eq!(known().object("main", 0x1000), None);
}

#[test]
fn kinds_are_recognised_by_the_first_word_that_fits() {
    assert_eq!(known().kind("std::sync::barrier::Barrier::wait"), Some("barrier"));
    assert_eq!(known().kind("std::sync::mpmc::list::Channel<T>::recv"), Some("channel"));
    assert_eq!(known().kind("pthread_cond_wait"), Some("condition"));
    assert_eq!(known().kind("pthread_rwlock_rdlock"), Some("reader-writer lock"));
    assert_eq!(known().kind("__new_sem_wait_slow64"), Some("semaphore"));
    assert_eq!(known().kind("pthread_mutex_cond_lock"), Some("mutex"));
    assert_eq!(known().kind("work"), None);
    assert_eq!(known().kind("LWLockAcquire"), Some("semaphore"));
    assert!(
        known().is_lock("mutex") && known().is_lock("semaphore") && !known().is_lock("condition")
    );
    assert!(
        !known().is_lock("barrier")
            && !known().is_lock("channel")
            && !known().is_lock("something else")
    );
}

#[test]
fn lock_managers_that_poll_sleep_and_wake() {
    assert!(known().manager_sleeps("ProcSleep") && !known().manager_sleeps("ProcLockWakeup"));
    assert!(known().manager_wakes("ProcLockWakeup") && !known().manager_wakes("PostgresMain"));
}

#[test]
fn the_kernel_s_functions_are_distinguished() {
    assert_eq!(known().system_call("__x64_sys_futex"), Some("futex"));
    assert_eq!(known().system_call("ksys_read"), Some("read"));
    assert_eq!(known().system_call("vfs_read"), None);
    assert!(known().is_entry("entry_SYSCALL_64_after_hwframe") && !known().is_entry("vfs_read"));
    assert!(
        known().is_page_fault("asm_exc_page_fault")
            && known().is_interrupt("asm_sysvec_call_function")
    );
    assert!(
        known().kernel_plumbing("rwsem_down_write_slowpath")
            && !known().kernel_plumbing("pipe_write")
    );
    assert!(known().kernel_touches("mutex_unlock") && !known().kernel_touches("pipe_write"));
    assert!(
        known().is_switching("_raw_spin_unlock_irqrestore")
            && known().is_switching("finish_task_switch.isra.0")
            && !known().is_switching("copy_page")
    );
    assert!(known().waits_in("flock").is_some_and(|waits| waits.lock));
    assert!(known().waits_in("msgrcv").is_some_and(|waits| !waits.lock));
    assert!(known().waits_in("read").is_none());
    assert!(known().is_waiting_call("kill") && !known().is_waiting_call("write"));
    let write = ["schedule", "__vma_start_write", "__split_vma"];
    assert_eq!(known().sleeps_for(&write), Some("mmap_lock"));
    let page = ["io_schedule", "__folio_lock", "shmem_get_folio_gfp", "shmem_fault"];
    assert_eq!(known().sleeps_for(&page), Some("page lock"));
    assert_eq!(known().sleeps_for(&["io_schedule", "__folio_lock", "filemap_fault"]), None);
}

#[test]
fn an_address_is_no_name() {
    assert!(is_unnamed("mariadbd+0xde2c20") && is_unnamed("libc.so.6+0x8f1"));
    assert!(!is_unnamed("operator+0x") && !is_unnamed("do_command"));
}

#[test]
fn modules_of_the_c_library() {
    let frame = |module: &str| Frame { function: String::new(), module: module.to_owned() };
    assert!(
        known().in_c_library(&frame("libc.so.6"))
            && known().in_c_library(&frame("ld-linux-x86-64.so.2"))
    );
    assert!(!known().in_c_library(&frame("mariadbd")) && in_kernel(&frame("[kernel]")));
}

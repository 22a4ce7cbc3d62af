//! Whose CPU it is what the holders of contended locks do, and locks that no event tells of.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{Cause, CauseKind, Charge};
use kneepoint_vocab::*;

fn frames(list: &[(&str, &str)]) -> Vec<Frame> {
    let frame = |(function, module): &(&str, &str)| Frame {
        function: (*function).to_owned(),
        module: (*module).to_owned(),
    };
    list.iter().map(frame).collect()
}

fn kernel(functions: &[&str]) -> Vec<Frame> {
    let list: Vec<(&str, &str)> = functions.iter().map(|name| (*name, "[kernel]")).collect();
    frames(&list)
}

/// One client is cheap; two have `spun` cores in stack 1 and `dearer` more in stack 3.
fn two(spun: f64, dearer: f64) -> impl Fn(u32) -> Cell {
    move |clients| match clients {
        1 => Cell { system: 0.9, idle_uncharged: 1.1, on_cpu: vec![(3, 0.9)], ..Cell::default() },
        _ => Cell {
            system: 0.9 + spun + dearer,
            idle_uncharged: 1.1 - spun - dearer,
            on_cpu: vec![(3, 0.9 + dearer), (1, spun)],
            ..Cell::default()
        },
    }
}

fn causes(record: &RunRecord) -> Vec<Cause> {
    analyse(record).causes
}

fn descriptors(spun: f64, dearer: f64) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let close = ["file_close_fd", "__x64_sys_close", "do_syscall_64"];
    let spin = [&["native_queued_spin_lock_slowpath", "_raw_spin_lock"], &close[..]];
    record.stacks[1].frames = kernel(&spin.concat());
    record.stacks[3].frames = kernel(&["filp_flush", "__x64_sys_close", "do_syscall_64"]);
    sweep(&mut record, 5, two(spun, dearer));
    record
}

#[test]
fn a_call_is_dearer_for_the_contended_lock_that_it_takes() {
    let found = causes(&descriptors(0.4, 0.5));
    let first = &found[0];
    assert_eq!(first.kind, CauseKind::KernelLock, "{found:#?}");
    assert_eq!(first.name.to_string(), "file descriptor table lock");
    assert!((first.lost.value.0 - 0.9).abs() < 0.03, "{:?}", first.lost);
}

#[test]
fn a_call_that_hardly_waits_for_its_lock_is_dearer_for_itself() {
    let found = causes(&descriptors(0.06, 0.8));
    assert_eq!(found[0].name.to_string(), "kernel: close", "{found:#?}");
    assert!((found[0].lost.value.0 - 0.8).abs() < 0.03, "{:?}", found[0].lost);
}

/// Clients that wait in `innermost` of a function of `module`, which takes `dearer` more.
fn inside(innermost: &str, module: &str, dearer: f64) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let wanting = [("draw", module), ("roll", "app"), ("main", "app")];
    record.stacks[2].frames = frames(&[&[(innermost, "libc.so.6")], &wanting[..]].concat());
    record.stacks[3].frames = frames(&wanting);
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { system: 0.9, idle_uncharged: 1.1, on_cpu: vec![(3, 0.9)], ..Cell::default() },
        _ => Cell {
            system: 0.9 + dearer,
            idle_lock: 0.5,
            idle_uncharged: 0.6 - dearer,
            blocked: 1.1 - dearer,
            on_cpu: vec![(3, 0.9 + dearer)],
            waits: 10_000.0,
            ..Cell::default()
        },
    });
    record
}

#[test]
fn a_library_s_function_is_dearer_for_the_lock_that_it_takes_itself() {
    let found = causes(&inside("__lll_lock_wait_private", "libdice.so.1", 0.4));
    assert_eq!(found[0].kind, CauseKind::Lock, "{found:#?}");
    assert!((found[0].lost.value.0 - 1.1).abs() < 0.03, "{:?}", found[0].lost);
    assert!(found.iter().all(|cause| cause.kind != CauseKind::Function), "{found:#?}");
}

/// What the kernel does for the library whose lock is first; clients wait inside `library`, which
/// makes the kernel work on 0.2 cores, and as much again in page faults.
fn kernel_for(library: &str) -> Option<Cores> {
    let mut record = inside("__lll_lock_wait_private", "app", 0.4);
    let wanting = [(library, "libc.so.6"), ("draw", "app"), ("main", "app")];
    record.stacks[2].frames =
        frames(&[&[("__lll_lock_wait_private", "libc.so.6")], &wanting[..]].concat());
    let calls = kernel(&["vma_expand", "__x64_sys_brk", "do_syscall_64"]);
    record.stacks[1].frames = [calls, frames(&wanting)].concat();
    let faults = kernel(&["clear_page_erms", "exc_page_fault", "asm_exc_page_fault"]);
    record.stacks[0].frames = [faults, frames(&wanting[1..])].concat();
    for trial in &mut record.trials {
        let on_cpu = trial.facts.iter().find_map(|fact| match fact {
            Fact::Stack(stack) if stack.kind == StackKind::OnCpu => Some(stack.clone()),
            _ => None,
        });
        let Some(own) = on_cpu else { continue };
        for kernel in [0, 1] {
            let weight = Nanos(own.weight.0 / 4);
            trial.facts.push(Fact::Stack(StackWeight {
                stack: StackId(kernel),
                weight,
                ..own.clone()
            }));
        }
    }
    match &causes(&record)[0].evidence.charge {
        Charge::Wait { wait } => wait.library,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_kernel_does_for_an_allocator_goes_with_it() {
    // Of 1.3 cores a sixth is in calls, and a sixth in page faults.
    let allocator = kernel_for("malloc").unwrap();
    assert!((allocator.0 - 1.3 / 3.0).abs() < 0.01, "{allocator:?}");
    let other = kernel_for("rand").unwrap();
    assert!((other.0 - 1.3 / 6.0).abs() < 0.01, "page faults are not its: {other:?}");
}

#[test]
fn a_program_s_own_function_may_be_dearer_beside_its_lock() {
    let found = causes(&inside("__lll_lock_wait_private", "app", 0.4));
    let own = found.iter().find(|cause| cause.kind == CauseKind::Function).unwrap();
    assert_eq!(own.name.to_string(), "draw");
}

/// Clients that sleep for `reason` in these functions of the kernel.
fn asleep(reason: WaitReason, functions: &[&str]) -> RunRecord {
    asleep_in(reason, -1, functions)
}

/// The same in the system call of this number.
fn asleep_in(reason: WaitReason, syscall: i32, functions: &[&str]) -> RunRecord {
    let mut record = inside("__lll_lock_wait_private", "app", 0.0);
    record.stacks[2].frames = kernel(functions);
    for key in wait_keys(&mut record) {
        *key = WaitKey { reason, object: 0, object_name: None, syscall };
    }
    record
}

#[test]
fn calls_that_only_one_thing_is_waited_for_in_tell_it() {
    let of = |syscall, function: &str| {
        let record = asleep_in(WaitReason::Other, syscall, &["schedule", function]);
        let first = causes(&record).swap_remove(0);
        (first.kind, first.name.to_string())
    };
    let file_lock = (CauseKind::KernelLock, "file lock (flock)".to_owned());
    assert_eq!(of(73, "__x64_sys_flock"), file_lock);
    let queue = (CauseKind::Thread, "message queue (mq_timedsend)".to_owned());
    assert_eq!(of(242, "__x64_sys_mq_timedsend"), queue);
    assert_eq!(of(101, "__x64_sys_ptrace"), (CauseKind::Other, "system call ptrace".to_owned()));
}

#[test]
fn a_page_that_others_hold_is_a_lock_where_its_file_is_in_memory() {
    let fault = ["__do_fault", "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"];
    let page = |of: &[&'static str]| {
        [&["schedule", "io_schedule", "__folio_lock"], of, &fault[..]].concat()
    };
    let memory = causes(&asleep(WaitReason::Device, &page(&["shmem_get_folio_gfp"])));
    assert_eq!(memory[0].kind, CauseKind::KernelLock, "{memory:#?}");
    assert_eq!(memory[0].name.to_string(), "page lock (shmem_get_folio_gfp)");
    let device = causes(&asleep(WaitReason::Device, &page(&["filemap_fault"])));
    assert_eq!(device[0].kind, CauseKind::Device, "{device:#?}");
}

#[test]
fn who_waits_for_readers_of_a_mapping_waits_for_its_lock() {
    let split = ["schedule", "__vma_start_write", "__split_vma", "do_vmi_munmap"];
    let found = causes(&asleep(WaitReason::Other, &split));
    assert_eq!(found[0].kind, CauseKind::KernelLock, "{found:#?}");
    assert!(found[0].name.to_string().starts_with("mmap_lock"), "{}", found[0].name);
}

/// Two clients that take `dearer` cores more, in so many blocks of which each is off by a part.
fn slightly(dearer: f64, blocks: u32, off: f64) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    for block in 0..blocks {
        let dearer = dearer * if block % 2 == 0 { 1.0 - off } else { 1.0 + off };
        let cell = |clients| match clients {
            1 => {
                Cell { system: 1.0, idle_uncharged: 1.0, on_cpu: vec![(0, 1.0)], ..Cell::default() }
            }
            _ => Cell {
                throughput: 1000.0 * (2.0 - dearer),
                system: 2.0,
                idle_uncharged: 0.0,
                on_cpu: vec![(0, 2.0 - dearer), (4, dearer)],
                ..Cell::default()
            },
        };
        for clients in [1, 2] {
            record.trials.push(trial(
                Phase::Sweep,
                block,
                VariantId::BASELINE,
                0,
                clients,
                &cell(clients),
            ));
        }
    }
    record
}

#[test]
fn a_small_loss_is_explained_where_it_is_sure() {
    assert!(causes(&slightly(0.12, 1, 0.0)).is_empty(), "one block says nothing of chance");
    assert!(causes(&slightly(0.12, 4, 0.9)).is_empty(), "it may be less than 3 % of the machine");
    let sure = causes(&slightly(0.12, 6, 0.05));
    assert_eq!(sure[0].name.to_string(), "spin", "{sure:#?}");
    let large = causes(&slightly(0.5, 1, 0.0));
    assert_eq!(large[0].name.to_string(), "spin", "{large:#?}");
    assert!(causes(&slightly(0.3, 4, 1.0)).is_empty(), "none in every other block");
}

#[test]
fn what_is_read_tells_what_a_read_waits_for() {
    let of = |function: &str| {
        let record = asleep_in(WaitReason::Poll, 0, &["schedule", function, "vfs_read"]);
        let first = causes(&record).swap_remove(0);
        (first.kind, first.name.to_string())
    };
    assert_eq!(of("eventfd_read"), (CauseKind::Thread, "an eventfd".to_owned()));
    assert_eq!(of("timerfd_read").0, CauseKind::Other, "it sleeps for a time of its own");
    assert_eq!(of("inotify_read"), (CauseKind::Thread, "poll".to_owned()));
}

#[test]
fn a_lock_of_the_kernel_says_who_of_the_program_wants_it() {
    let mut record = descriptors(0.9, 0.0);
    let callers = frames(&[("close", "libc.so.6"), ("serve", "app"), ("main", "app")]);
    for stack in [1, 3] {
        record.stacks[stack].frames.extend(callers.clone());
    }
    let path = &causes(&record)[0].path;
    assert_eq!(path[path.len() - 2..], ["serve", "main"], "{path:?}");
}

#[test]
fn cores_that_hear_of_a_woken_thread_are_busy_for_its_lock() {
    let mut record = inside("__lll_lock_wait_private", "app", 0.0);
    let told = kernel(&["irqentry_exit_to_user_mode", "asm_sysvec_reschedule_ipi"]);
    record.stacks[1].frames = [told, frames(&[("main", "app")])].concat();
    let before = causes(&record)[0].lost.value.0;
    for trial in record.trials.iter_mut().filter(|trial| trial.id.level.clients == 2) {
        for fact in &mut trial.facts {
            if let Fact::Stack(stack) = fact
                && stack.kind == StackKind::OnCpu
            {
                stack.stack = StackId(1);
            }
        }
    }
    let first = &causes(&record)[0];
    assert_eq!(first.kind, CauseKind::Lock, "{first:#?}");
    assert!(first.lost.value.0 > before + 0.5, "{before} {:?}", first.lost);
}

#[test]
fn a_few_per_cent_in_the_program_s_own_functions_are_nothing() {
    let mut own = empty(&[1, 2], 2);
    own.stacks[3].frames = frames(&[("draw", "app"), ("main", "app")]);
    let with = |dearer: f64| {
        let mut record = own.clone();
        sweep(&mut record, 5, two(0.0, dearer));
        causes(&record).len()
    };
    assert_eq!(with(0.08), 0, "4 % of two cores");
    assert!(with(0.14) > 0, "7 %");
    assert!(!causes(&descriptors(0.08, 0.0)).is_empty(), "4 % for a lock");
}

#[test]
fn a_place_where_waiters_for_any_primitive_wait_names_none() {
    let mut record = inside("syscall", "app", 0.0);
    record.stacks[2].frames = frames(&[
        ("syscall", "libc.so.6"),
        ("std::__detail::__waiter_pool::_M_do_wait", "app"),
        ("std::arrive_and_wait", "app"),
        ("phase", "app"),
        ("main", "app"),
    ]);
    for key in wait_keys(&mut record) {
        let name = "app:std::__detail::__waiter_pool_base::_S_for(void const*)::__w+0x40";
        *key = WaitKey {
            reason: WaitReason::Futex { operation: 0, timed: false },
            object: 0x1000,
            object_name: Some(name.to_owned()),
            syscall: 202,
        };
    }
    assert_eq!(causes(&record)[0].name.to_string(), "barrier in phase");
}

/// Causes where clients wait for a mutex which threads in `back` want, and so many times as long
/// for its condition; both are in a variable, where it has a name.
fn let_go(back: &[&str], times: f64, name: Option<&str>) -> Vec<Cause> {
    let_go_in(&[("join", "app"), ("main", "app")], back, times, name)
}

/// The same in these functions.
fn let_go_in(within: &[(&str, &str)], back: &[&str], times: f64, name: Option<&str>) -> Vec<Cause> {
    const MUTEX: u32 = 2;
    const CONDITION: u32 = 3;
    let of_library = |list: &[&str]| -> Vec<Frame> {
        let library: Vec<(&str, &str)> = list.iter().map(|name| (*name, "libc.so.6")).collect();
        [frames(&library), frames(within)].concat()
    };
    let mut record = empty(&[1, 4], 4);
    record.stacks[MUTEX as usize].frames = of_library(back);
    record.stacks[CONDITION as usize].frames = of_library(&["__pthread_cond_wait"]);
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell::default(),
        _ => Cell {
            throughput: 500.0,
            system: 0.5,
            idle_lock: 1.0,
            idle_uncharged: 0.5,
            blocked: 2.0,
            waits: 500.0,
            ..Cell::default()
        },
    });
    for key in wait_keys(&mut record) {
        key.object_name = name.map(str::to_owned);
    }
    for trial in record.trials.iter_mut().filter(|trial| trial.id.level.clients > 1) {
        let key = |key: &WaitKey| WaitKey {
            reason: WaitReason::Condition,
            object: key.object + 0x40,
            object_name: key.object_name.as_ref().map(|name| format!("{name}+0x40")),
            ..key.clone()
        };
        let part = |all: Nanos| Nanos((all.0 as f64 * times) as u64);
        let also: Vec<Fact> = trial
            .facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Wait(wait) => Some(Fact::Wait(Wait {
                    key: key(&wait.key),
                    blocked: part(wait.blocked),
                    idle_charged: part(wait.idle_charged).min(Nanos(500_000_000)),
                    ..wait.clone()
                })),
                Fact::Stack(stack) if stack.kind == StackKind::OffCpu => {
                    Some(Fact::Stack(StackWeight {
                        stack: StackId(CONDITION),
                        wait: stack.wait.as_ref().map(key),
                        weight: part(stack.weight),
                        ..stack.clone()
                    }))
                }
                _ => None,
            })
            .collect();
        for fact in &mut trial.facts {
            if let Fact::CoreTime(time) = fact {
                time.idle_uncharged = Nanos(0);
            }
        }
        trial.facts.extend(also);
    }
    causes(&record)
}

#[test]
fn a_herd_is_one_cause_with_the_lock_that_it_wants_back() {
    let woken = ["__lll_lock_wait", "__pthread_mutex_cond_lock", "__pthread_cond_wait"];
    let herd = let_go(&woken, 0.5, None);
    assert_eq!(herd.len(), 1, "{herd:#?}");
    assert_eq!(herd[0].kind, CauseKind::Lock, "{herd:#?}");
    let Charge::Wait { wait } = &herd[0].evidence.charge else { panic!("{herd:#?}") };
    assert_eq!((wait.objects, wait.after_wake), (1, Some(Ratio(1.0))));
    let starved = let_go(&woken, 2.0, None);
    assert_eq!(starved.len(), 2, "most wait for what nobody gave: {starved:#?}");
    let words = |causes: &[Cause]| -> Vec<_> {
        let waits = causes.iter().filter_map(|cause| match &cause.evidence.charge {
            Charge::Wait { wait } => Some((cause.kind, wait.herd, wait.after_wake)),
            _ => None,
        });
        waits.collect()
    };
    let all = Some(Ratio(1.0));
    assert!(words(&starved).contains(&(CauseKind::Thread, all, None)), "{starved:#?}");
    let one_by_one = let_go(&woken, 20.0, None);
    let quiet = words(&one_by_one);
    assert_eq!(quiet.len(), 2, "{one_by_one:#?}");
    assert!(
        quiet.iter().all(|(_, herd, after)| (herd, after) == (&None, &None)),
        "who is woken by one that has the lock waits for a moment: {one_by_one:#?}"
    );
    let unasked = let_go(&["__lll_lock_wait", "pthread_mutex_lock"], 0.5, None);
    assert_eq!(unasked.len(), 2, "nobody was woken for the lock: {unasked:#?}");
    let named = let_go(&woken, 0.5, Some("app:latch"));
    assert_eq!((named.len(), named[0].kind), (1, CauseKind::Lock), "{named:#?}");
    assert_eq!(named[0].name.to_string(), "condition app:latch", "its threads wait for that");
}

/// Who waits for the condition of a runtime's lock waits for the lock: nobody was let go in vain.
#[test]
fn a_runtime_s_lock_made_of_a_condition_is_no_herd() {
    let woken = ["__lll_lock_wait", "__pthread_mutex_cond_lock", "__pthread_cond_wait"];
    let take = [("take_gil", "python3"), ("_PyEval_EvalFrameDefault", "python3")];
    let locks = let_go_in(&take, &woken, 20.0, None);
    assert_eq!(locks.len(), 1, "{locks:#?}");
    assert_eq!(locks[0].name.to_string(), "Python interpreter lock (take_gil)");
    let Charge::Wait { wait } = &locks[0].evidence.charge else { panic!("{locks:#?}") };
    assert_eq!((wait.herd, wait.after_wake), (None, None));
}

//! What a cause's code does, who ends its waits, and what a wait says of itself.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{Cause, CauseKind, Charge, CodeShare, WaitEvidence};
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::*;

/// Stack of `common::stacks` that spins, and the one of waiters for the mutex.
const SPIN: usize = 4;
const MUTEX: usize = 2;

fn frames(functions: &[&str]) -> Vec<Frame> {
    let module = |function: &str| if function.starts_with('_') { "libc.so.6" } else { "app" };
    let frame = |function: &&str| Frame {
        function: (*function).to_owned(),
        module: module(function).to_owned(),
    };
    functions.iter().map(frame).collect()
}

/// Two clients of which the second adds `extra` cores of CPU in `spin`.
fn dearer(clients: u32, extra: f64) -> Cell {
    if clients == 1 {
        return Cell { on_cpu: vec![(0, 1.0)], ..Cell::default() };
    }
    Cell {
        system: 2.0,
        idle_uncharged: 0.0,
        on_cpu: vec![(0, 2.0 - extra), (SPIN as u32, extra)],
        ..Cell::default()
    }
}

/// Clients that wait for one lock, which nobody gets on `idle` cores.
fn waiting(clients: u32, idle: f64) -> Cell {
    if clients == 1 {
        return Cell::default();
    }
    Cell {
        throughput: 500.0,
        system: 2.0 - idle,
        idle_lock: idle,
        idle_uncharged: 0.0,
        blocked: f64::from(clients) - (2.0 - idle),
        on_cpu: vec![(0, 2.0 - idle)],
        waits: 500.0,
        ..Cell::default()
    }
}

fn first(record: &RunRecord) -> Cause {
    analyse(record).causes.into_iter().next().expect("something is lost")
}

fn code(cause: &Cause) -> Option<CodeShare> {
    match &cause.evidence.charge {
        Charge::Function { code, .. } => *code,
        other => panic!("{other:?}"),
    }
}

fn wait(cause: &Cause) -> WaitEvidence {
    match &cause.evidence.charge {
        Charge::Wait { wait } => *wait,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_function_that_spins_is_said_to_spin_and_where_it_stands() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, |clients| dearer(clients, 0.8));
    assert_eq!(code(&first(&record)), None, "nothing is known of its code");
    record.stacks[SPIN].code = CodeKind::Spin;
    record.stacks[SPIN].sources = vec![SourceLine {
        function: "spin".to_owned(),
        module: "app".to_owned(),
        file: "/src/lock.c".to_owned(),
        line: 12,
    }];
    let cause = first(&record);
    assert_eq!((cause.kind, cause.name.to_string().as_str()), (CauseKind::Function, "spin"));
    let found = code(&cause).unwrap();
    assert_eq!(found.kind, CodeKind::Spin);
    assert!((found.share.0 - 1.0).abs() < 1e-9, "{found:?}");
    assert_eq!(cause.source.unwrap().line, 12);
}

#[test]
fn the_part_of_a_level_s_cpu_in_which_threads_give_up_their_cores_is_known() {
    let yielding = |function: &str, module: &str| {
        let mut record = empty(&[1, 2], 2);
        sweep(&mut record, 5, |clients| dearer(clients, 0.8));
        let frame = Frame { function: function.to_owned(), module: module.to_owned() };
        record.stacks[SPIN].frames.insert(0, frame);
        let ledgers = analyse(&record).ledgers;
        ledgers.iter().map(|ledger| ledger.yielding.map(|part| part.0)).collect::<Vec<_>>()
    };
    for (function, module) in [("__x64_sys_sched_yield", "[kernel]"), ("sched_yield", "libc.so.6")]
    {
        let [None, Some(part)] = yielding(function, module)[..] else { panic!("{function}") };
        assert!((part - 0.4).abs() < 1e-9, "{part}");
    }
    assert_eq!(yielding("read", "libc.so.6"), [None, None]);
}

#[test]
fn a_little_of_a_function_s_code_says_nothing_of_what_it_takes_more_for() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, |clients| dearer(clients, 0.8));
    // The same function by another stack, an eighth of the time at an atomic instruction.
    let id = StackId(record.stacks.len() as u32);
    let atomic = StackRecord { id, code: CodeKind::Atomic, ..record.stacks[SPIN].clone() };
    record.stacks.push(atomic);
    for trial in record.trials.iter_mut().filter(|trial| trial.id.level.clients == 2) {
        let fact = |stack, weight| {
            let kind = StackKind::OnCpu;
            let weight = Nanos(weight);
            Fact::Stack(StackWeight { kind, stack, wait: None, role: None, weight, count: 1 })
        };
        trial.facts.push(fact(id, 115_000_000));
    }
    let cause = first(&record);
    assert_eq!((cause.name.to_string().as_str(), code(&cause)), ("spin", None));
    record.stacks[SPIN].code = CodeKind::Memory;
    assert_eq!(code(&first(&record)).unwrap().kind, CodeKind::Memory, "nearly all of it");
}

#[test]
fn a_lock_that_idles_more_than_all_cores_but_one_is_a_convoy() {
    let of = |idle| {
        let mut record = empty(&[1, 4], 4);
        sweep(&mut record, 5, |clients| waiting(clients, idle));
        wait(&first(&record)).convoy
    };
    assert!((of(1.3).unwrap().0 - 0.3).abs() < 0.02, "{:?}", of(1.3));
    assert_eq!(of(0.9), None, "its holder runs");
}

#[test]
fn a_device_that_idles_more_than_all_cores_but_one_is_no_convoy() {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, |clients| waiting(clients, 1.3));
    let keys = record.trials.iter_mut().flat_map(|trial| &mut trial.facts);
    for fact in keys {
        match fact {
            Fact::Wait(wait) => wait.key.reason = WaitReason::Device,
            Fact::Stack(StackWeight { wait: Some(key), .. }) => key.reason = WaitReason::Device,
            _ => {}
        }
    }
    let cause = first(&record);
    assert_eq!((cause.kind, wait(&cause).convoy), (CauseKind::Device, None));
}

/// Alone a client does 1,000 operations a second, so holding the lock takes 1 ms at most.
#[test]
fn a_lock_that_is_passed_on_for_longer_than_it_is_held_is_a_convoy() {
    let of = |waits, throughput| {
        let mut record = empty(&[1, 4], 4);
        let passed = |clients| match clients {
            1 => Cell::default(),
            _ => Cell { throughput, system: 0.8, others: 0.25, waits, ..waiting(clients, 0.95) },
        };
        sweep(&mut record, 5, passed);
        wait(&first(&record)).convoy
    };
    let share = of(600.0, 600.0).unwrap().0;
    assert!((share - 0.2).abs() < 0.03, "0.2 ms more CPU is not passing on: {share}");
    assert_eq!(of(200.0, 600.0), None, "most operations take it unasked");
    assert_eq!(of(900.0, 900.0), None, "as much as one alone");
}

#[test]
fn threads_just_woken_that_want_the_lock_back_are_told_from_others() {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, |clients| waiting(clients, 0.9));
    assert_eq!(wait(&first(&record)).after_wake, None);
    record.stacks[MUTEX].frames = frames(&[
        "__lll_lock_wait",
        "__pthread_mutex_cond_lock",
        "__pthread_cond_wait",
        "next",
        "main",
    ]);
    let cause = first(&record);
    assert_eq!(cause.kind, CauseKind::Lock);
    assert!(wait(&cause).after_wake.unwrap().0 > 0.99);
}

/// Clients that wait for a condition which `waker` ends, `ended` of every 10.
fn answered(waker: ThreadRole, ended: u64) -> Cause {
    answered_by(("office", 640), waker, ended)
}

/// The same where the thread that ends the waits has this name, and is on a core in so many of
/// 1,000 parts of the time.
fn answered_by(thread: (&str, u64), waker: ThreadRole, ended: u64) -> Cause {
    let condition = ("__pthread_cond_wait", WaitReason::Condition);
    ended_by(condition, thread, waker, ended)
}

/// The same where clients wait in this function of the C library.
fn ended_by(
    (function, reason): (&str, WaitReason),
    (name, cpu): (&str, u64),
    waker: ThreadRole,
    ended: u64,
) -> Cause {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, |clients| waiting(clients, 0.9));
    record.stacks[MUTEX].frames = frames(&[function, "request", "main"]);
    for trial in &mut record.trials {
        let keys = trial.facts.iter_mut().filter_map(|fact| match fact {
            Fact::Wait(wait) => Some(&mut wait.key),
            Fact::Stack(stack) => stack.wait.as_mut(),
            _ => None,
        });
        keys.for_each(|key| key.reason = reason);
        let object = 0x1000 + u64::from(trial.id.start) * 0x100;
        let key = WaitKey { reason, ..common::key(object) };
        let role = Some(waker);
        let (ended, of) = (Nanos(ended), Nanos(10));
        let name = name.to_owned();
        let by = vec![EndedBy { name: name.clone(), role, ended }];
        let behind = Vec::new();
        let task = name.clone();
        trial.facts.push(Fact::Waker(Waker { key, tid: 7, name, role, ended, of, by, behind }));
        let (owner, tid, cpu, over) = (TaskOwner::System, 7, Nanos(cpu), Nanos(1000));
        let task = TaskCpu { owner, name: task, tid, cpu, over, cpus: None };
        trial.facts.push(Fact::Task(task));
    }
    first(&record)
}

#[test]
fn one_thread_that_ends_nearly_all_waits_is_named_with_how_busy_it_is() {
    let cause = answered(ThreadRole::Other, 9);
    assert_eq!(cause.kind, CauseKind::Thread);
    let by = cause.evidence.woken_by.unwrap();
    assert_eq!(by.name, "office");
    assert!((by.share.0 - 0.9).abs() < 1e-9 && (by.busy.0 - 0.64).abs() < 1e-9, "{by:?}");
    assert!(answered(ThreadRole::Other, 7).evidence.woken_by.is_none(), "it is one of several");
    assert!(answered(ThreadRole::Client, 10).evidence.woken_by.is_none(), "clients wake clients");
}

#[test]
fn a_busy_thread_that_ends_the_waits_is_saturated_whatever_it_is_called() {
    let clients = "client";
    let cause = answered_by((clients, 960), ThreadRole::Other, 10);
    assert_eq!(cause.name.to_string(), format!("saturated thread {clients}"));
    let served = cause.evidence.served_by.unwrap();
    assert!((served.busiest.0 - 0.96).abs() < 1e-9, "{served:?}");
    let idle = answered_by((clients, 640), ThreadRole::Other, 10);
    assert!(idle.evidence.served_by.is_none(), "{:?}", idle.evidence);
}

#[test]
fn a_semaphore_that_one_thread_lets_all_go_by_is_no_lock() {
    let semaphore = ("__new_sem_wait", WaitReason::UserLock);
    let signalled = ended_by(semaphore, ("office", 640), ThreadRole::Other, 10);
    assert_eq!(signalled.kind, CauseKind::Thread);
    assert_eq!(signalled.name.to_string(), "semaphore in request");
    assert_eq!(signalled.evidence.woken_by.unwrap().name, "office");
    for (waker, ended) in [(ThreadRole::Other, 7), (ThreadRole::Client, 10)] {
        let lock = ended_by(semaphore, ("office", 640), waker, ended);
        assert_eq!(lock.kind, CauseKind::Lock, "{waker:?} ends {ended} of 10");
    }
    let mutex = ("__pthread_mutex_lock", WaitReason::UserLock);
    let held = ended_by(mutex, ("office", 640), ThreadRole::Other, 10);
    assert_eq!(held.kind, CauseKind::Lock, "who holds a mutex gives it back");
}

#[test]
fn a_lock_is_found_where_no_sample_fell_on_a_core() {
    let mut record = empty(&[1, 4], 4);
    // With one client there is none, so that nothing is known of what the lock's own code cost.
    let on_cpu = |clients| if clients == 1 { vec![] } else { vec![(1, 0.5), (0, 0.6)] };
    sweep(&mut record, 5, |clients| Cell { on_cpu: on_cpu(clients), ..waiting(clients, 0.9) });
    let cause = first(&record);
    assert_eq!(cause.kind, CauseKind::Lock);
    assert!(cause.lost.value.0 > 0.8, "{:?}", cause.lost);
}

/// Clients that wait in a library's code without names, as its own threads do at a barrier; who
/// ends the waits came there from the program.
#[test]
fn threads_of_a_library_are_named_by_who_ends_their_waits() {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, |clients| waiting(clients, 0.9));
    let library = |function: &str| Frame {
        function: function.to_owned(),
        module: "libgomp.so.1.0.0".to_owned(),
    };
    let (meet, begin) = ("libgomp.so.1.0.0+0x1f780", "libgomp.so.1.0.0+0x1cc40");
    record.stacks[MUTEX].frames = vec![library(meet), library(begin)];
    let ender = StackId(9);
    let outward = frames(&["index", "main"]).into_iter();
    let frames = std::iter::once(library(meet)).chain(outward).collect();
    record.stacks.push(StackRecord { id: ender, frames, ..record.stacks[0].clone() });
    for trial in record.trials.iter_mut().filter(|trial| trial.id.level.clients > 1) {
        let object = 0x1000 + u64::from(trial.id.start) * 0x100;
        trial.facts.push(Fact::Stack(StackWeight {
            kind: StackKind::Waker,
            stack: ender,
            wait: Some(common::key(object)),
            role: None,
            weight: Nanos(9),
            count: 9,
        }));
    }
    let cause = first(&record);
    assert_eq!(
        (cause.kind, cause.name.to_string().as_str()),
        (CauseKind::Thread, "barrier in index")
    );
    assert_eq!(cause.path.first().map(String::as_str), Some("index"));
}

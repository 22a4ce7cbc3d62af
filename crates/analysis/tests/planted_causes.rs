//! What a cause pays for, which level causes are of, and what is no cause at all.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{Cause, CauseKind, CoreName};
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::*;

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

fn frames(frames: &[(&str, &str)]) -> Vec<Frame> {
    let frame = |(function, module): &(&str, &str)| Frame {
        function: (*function).to_owned(),
        module: (*module).to_owned(),
    };
    frames.iter().map(frame).collect()
}

fn kinds(findings: &Findings) -> Vec<CauseKind> {
    findings.causes.iter().map(|cause| cause.kind).collect()
}

fn lock(findings: &Findings) -> &Cause {
    findings.causes.iter().find(|cause| cause.kind == CauseKind::Lock).unwrap()
}

/// A server with its generator on the same cores: 1 transaction costs 0.6 ms there, and
/// `generator` ms in the generator.
fn served(clients: u32, generator: f64) -> Cell {
    let throughput = if clients == 1 { 1000.0 } else { 900.0 };
    let (system, generator) = (0.6e-3 * throughput, generator * 1e-3 * throughput);
    let idle_lock = if clients == 1 { 0.0 } else { 0.7 };
    Cell {
        throughput,
        system,
        generator,
        idle_lock,
        idle_uncharged: 2.0 - system - generator - idle_lock,
        blocked: f64::from(clients) - system,
        on_cpu: vec![(0, system)],
        waits: 9000.0,
        ..Cell::default()
    }
}

#[test]
fn a_generator_that_costs_what_it_always_costs_is_no_cause() {
    let mut record = empty(&[1, 2], 2);
    record.plan.clients = Clients::Apart;
    sweep(&mut record, 5, |clients| served(clients, 0.5));
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Lock, "{:#?}", findings.causes);
    assert!(!kinds(&findings).contains(&CauseKind::Generator));
    let generator = findings.generator.unwrap();
    assert!(!generator.saturated);
    assert!((generator.per_operation.unwrap().value.0 - 0.5e-3).abs() < 0.02e-3);
    assert!((generator.system_per_operation.unwrap().value.0 - 0.6e-3).abs() < 0.02e-3);
}

#[test]
fn a_generator_that_gets_dearer_but_has_more_to_give_is_no_cause() {
    let mut record = empty(&[1, 2], 2);
    record.plan.clients = Clients::Apart;
    sweep(&mut record, 5, |clients| served(clients, if clients == 1 { 0.2 } else { 0.5 }));
    let findings = analyse(&record);
    assert!(!kinds(&findings).contains(&CauseKind::Generator), "{:#?}", findings.causes);
    assert!(lock(&findings).share.value.0 > 0.99, "{:?}", lock(&findings).share);
    let focus = findings.ledgers.iter().find(|l| l.level == findings.focus).unwrap();
    let line = focus.core.lines.iter().find(|line| line.name == CoreName::Generator).unwrap();
    assert!((line.cores.value.0 - 0.45).abs() < 0.02 && line.cause.is_none(), "{line:?}");
    assert!(focus.core.unaccounted.0 < 1e-6);
}

/// `PostgreSQL` with one row: transactions poll for it, and the one that commits signals the next.
/// 0 work, 1 the wake-up, 2 the wait, 3 going to sleep, 4 waiting for a request.
fn one_row() -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    record.plan.clients = Clients::Apart;
    let entry = ("do_syscall_64", "[kernel]");
    let asleep = [
        ("__schedule", "[kernel]"),
        ("do_epoll_wait", "[kernel]"),
        ("__x64_sys_epoll_wait", "[kernel]"),
        entry,
        ("epoll_wait", "libc.so.6"),
        ("WaitEventSetWait", "postgres"),
    ];
    let row = [
        ("WaitLatch", "postgres"),
        ("ProcSleep", "postgres"),
        ("postgres+0x45d8a0", "postgres"),
        ("LockAcquireExtended", "postgres"),
        ("XactLockTableWait", "postgres"),
        ("heap_update", "postgres"),
    ];
    let wake = [
        ("do_send_sig_info", "[kernel]"),
        ("__x64_sys_kill", "[kernel]"),
        entry,
        ("kill", "libc.so.6"),
        ("ProcLockWakeup", "postgres"),
        ("LockReleaseAll", "postgres"),
        ("CommitTransactionCommand", "postgres"),
    ];
    record.stacks[1].frames = frames(&wake);
    record.stacks[2].frames = frames(&[&asleep[..], &row[..]].concat());
    let switch = [("finish_task_switch.isra.0", "[kernel]")];
    record.stacks[3].frames = frames(&[&switch[..], &asleep[..], &row[..]].concat());
    let request = [("secure_read", "postgres"), ("PostgresMain", "postgres")];
    record.stacks[4].frames = frames(&[&switch[..], &asleep[..], &request[..]].concat());
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { throughput: 1000.0, system: 0.5, idle_uncharged: 1.5, ..Cell::default() },
        _ => Cell {
            throughput: 1000.0,
            system: 1.1,
            idle_lock: 0.5,
            idle_scheduler: 0.4,
            idle_uncharged: 0.0,
            blocked: 0.9,
            on_cpu: vec![(0, 0.5), (1, 0.2), (3, 0.3), (4, 0.1)],
            waits: 3000.0,
            ..Cell::default()
        },
    });
    for key in wait_keys(&mut record) {
        *key = WaitKey { reason: WaitReason::Poll, object: 0, object_name: None, syscall: 232 };
    }
    record
}

#[test]
fn sleeping_waking_and_coming_back_are_the_row_lock_s() {
    let findings = analyse(&one_row());
    let first = &findings.causes[0];
    assert_eq!(first.name.to_string(), "lock in XactLockTableWait", "{:#?}", findings.causes);
    // 0.5 idle, 0.4 on the way to a core, 0.2 waking the next, 0.3 going to sleep.
    assert!((first.lost.value.0 - 1.4).abs() < 0.03, "{:?}", first.lost);
    for apart in ["kill", "epoll_wait"] {
        assert!(
            findings.causes.iter().all(|cause| !cause.name.to_string().contains(apart)),
            "{apart}"
        );
    }
    assert!(!kinds(&findings).contains(&CauseKind::Scheduler));
    let requests =
        findings.causes.iter().find(|cause| cause.name.to_string().contains("requests")).unwrap();
    assert!((requests.lost.value.0 - 0.1).abs() < 0.02, "{:?}", requests.lost);
    let focus = findings.ledgers.iter().find(|l| l.level == findings.focus).unwrap();
    assert!(focus.core.unaccounted.0 < 1e-6);
}

#[test]
fn what_a_lock_manager_does_without_waiting_is_no_lock_s() {
    let mut record = one_row();
    // The same functions, for a lock that nobody was seen waiting for.
    record.stacks[3].frames = frames(&[
        ("hash_search_with_hash_value", "postgres"),
        ("LockAcquireExtended", "postgres"),
        ("LockRelationOid", "postgres"),
    ]);
    let findings = analyse(&record);
    let lock = lock(&findings);
    assert!((lock.lost.value.0 - 1.1).abs() < 0.03, "{:?}", lock.lost);
    assert!(
        findings.causes.iter().any(|cause| cause.name.to_string() == "hash_search_with_hash_value")
    );
}

#[test]
fn a_loss_of_two_percent_is_nothing_to_explain() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { throughput: 1000.0, system: 0.9, idle_uncharged: 1.1, ..Cell::default() },
        _ => Cell {
            throughput: 2000.0,
            system: 1.8,
            others: 0.17,
            idle_lock: 0.03,
            idle_uncharged: 0.0,
            blocked: 0.2,
            on_cpu: vec![(0, 1.8)],
            waits: 100.0,
            ..Cell::default()
        },
    });
    let findings = analyse(&record);
    assert!(findings.causes.is_empty(), "{:#?}", findings.causes);
    let lost = findings.lost.unwrap();
    assert!(!lost.explained && lost.cores.value.0 < lost.least.0 * lost.of.0, "{lost:?}");
}

/// Four permits of 1 ms each; `waits` in a condition variable for one, the rest in a timer.
fn pool() -> RunRecord {
    let mut record = empty(&[1, 2, 4, 8], 4);
    record.stacks[2].frames = frames(&[
        ("syscall", "libc.so.6"),
        ("std::sync::poison::condvar::Condvar::wait", "app"),
        ("app::Pool::acquire", "app"),
        ("app::client", "app"),
    ]);
    sweep(&mut record, 5, |clients| {
        let served = f64::from(clients.min(4));
        let waiting = f64::from(clients) - served;
        let share = waiting / f64::from(clients);
        Cell {
            throughput: 1000.0 * served,
            system: 0.01 * served,
            idle_lock: (2.0 - 0.01 * served) * share,
            idle_uncharged: 0.0,
            blocked: waiting,
            waits: 1000.0 * waiting,
            ..Cell::default()
        }
    });
    for trial in &mut record.trials {
        let served = f64::from(trial.id.level.clients.min(4));
        let share = served / f64::from(trial.id.level.clients);
        let idle_charged = nanos((2.0 - 0.01 * served) * share);
        let timer =
            WaitKey { reason: WaitReason::Timer, object: 0, object_name: None, syscall: 230 };
        for fact in &mut trial.facts {
            match fact {
                Fact::Wait(Wait { key, .. }) | Fact::Stack(StackWeight { wait: Some(key), .. }) => {
                    key.reason = WaitReason::Condition;
                }
                Fact::CoreTime(core) => core.idle = nanos(2.0 - 0.01 * served),
                Fact::ThreadTime(time) => time.blocked = nanos(f64::from(trial.id.level.clients)),
                _ => {}
            }
        }
        trial.facts.push(Fact::Wait(Wait {
            role: ThreadRole::Client,
            name: "client".to_owned(),
            key: timer,
            blocked: nanos(served),
            count: 1000,
            longest: nanos(0.001),
            idle_charged,
            holders: Holders::default(),
        }));
    }
    record
}

#[test]
fn a_pool_that_is_too_small_beyond_the_focus_is_found() {
    let findings = analyse(&pool());
    assert_eq!(findings.focus.clients, 8, "{:?}", findings.conclusions);
    assert_eq!(findings.effects_at, None, "nothing was tried");
    let first = &findings.causes[0];
    assert_eq!(
        first.name.to_string(),
        "lock in app::Pool::acquire < app::client",
        "{:#?}",
        findings.causes
    );
    assert_eq!(first.path[0], "app::Pool::acquire");
    assert!(first.share.value.0 > 0.9, "the timer is as long for one client: {:?}", first.share);
}

/// A lock whose waiters all stand in a wrapper of the program's, called by two functions.
fn wrapped() -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let inside = [("pthread_mutex_lock", "libc.so.6"), ("my_latch_take", "app")];
    record.stacks[2].frames = frames(&[&inside[..], &[("post", "app"), ("main", "app")]].concat());
    for block in 0..6 {
        for clients in [1, 2] {
            let cell = Cell { lock_stack: 2, ..locked(clients) };
            let baseline = VariantId::BASELINE;
            record.trials.push(trial(Phase::Sweep, block, baseline, 0, clients, &cell));
        }
    }
    record
}

#[test]
fn a_recipe_s_own_names_are_passed_over() {
    let mut record = wrapped();
    assert_eq!(lock(&analyse(&record)).name.to_string(), "mutex in my_latch_take");
    record.plan.names.plumbing.parts.push("my_latch_".to_owned());
    let findings = analyse(&record);
    let key = CauseKey::new(CauseKind::Lock, "post", "app");
    assert_eq!(
        (lock(&findings).name.to_string().as_str(), &lock(&findings).key),
        ("mutex in post", &key)
    );
}

/// Waits as the collector stores them: what they were for is known by their stacks.
#[test]
fn a_futex_wait_is_judged_by_its_stacks() {
    let mut record = wrapped();
    let raw = WaitReason::Futex { operation: 137, timed: false };
    wait_keys(&mut record).for_each(|key| key.reason = raw);
    let findings = analyse(&record);
    assert_eq!(lock(&findings).name.to_string(), "mutex in my_latch_take");
    let judged = analyse(&wrapped());
    assert_eq!(findings.causes[0].share, judged.causes[0].share);
    record.stacks[2].frames =
        frames(&[("pthread_cond_wait", "libc.so.6"), ("post", "app"), ("main", "app")]);
    let first = &analyse(&record).causes[0];
    assert_eq!(
        (first.kind, first.name.to_string().as_str()),
        (CauseKind::Thread, "condition in post")
    );
}

#[test]
fn words_of_one_runtime_s_lock_are_one_cause() {
    let mut record = empty(&[1, 2], 2);
    record.stacks[2].frames =
        frames(&[("pthread_cond_timedwait", "libc.so.6"), ("take_gil", "python3")]);
    record.stacks[3].frames =
        frames(&[("pthread_mutex_lock", "libc.so.6"), ("drop_gil", "python3")]);
    for block in 0..6 {
        for clients in [1, 2] {
            let mut cell = locked(clients);
            cell.lock_stack = 2;
            let mut one = trial(Phase::Sweep, block, VariantId::BASELINE, 0, clients, &cell);
            let second: Vec<Fact> = one.facts.iter().filter_map(second_word).collect();
            one.facts.extend(second);
            record.trials.push(one);
        }
    }
    let findings = analyse(&record);
    let named = |cause: &&Cause| cause.name.to_string() == "Python interpreter lock (take_gil)";
    assert_eq!(findings.causes.iter().filter(named).count(), 1, "{:#?}", findings.causes);
    assert!(kinds(&findings).iter().all(|kind| *kind != CauseKind::Thread));
    assert_eq!(findings.causes[0].name.to_string(), "Python interpreter lock (take_gil)");
}

/// A short wait for the mutex beside the condition, at another address.
fn second_word(fact: &Fact) -> Option<Fact> {
    match fact {
        Fact::Wait(wait) => {
            let mut wait = wait.clone();
            wait.key.object += 0x28;
            wait.blocked = nanos(0.01);
            wait.idle_charged = Nanos(0);
            Some(Fact::Wait(wait))
        }
        Fact::Stack(stack) if stack.wait.is_some() => {
            let mut stack = stack.clone();
            stack.stack = StackId(3);
            stack.weight = nanos(0.01);
            stack.wait.as_mut().unwrap().object += 0x28;
            Some(Fact::Stack(stack))
        }
        _ => None,
    }
}

#[test]
fn an_event_loop_that_waits_for_requests_is_idle() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    record.plan.clients = Clients::Apart;
    for trial in &mut record.trials {
        for fact in &mut trial.facts {
            match fact {
                Fact::ThreadTime(time) => time.role = Some(ThreadRole::Other),
                Fact::Wait(wait) => {
                    wait.role = ThreadRole::Other;
                    wait.key.reason = WaitReason::Poll;
                    wait.key.syscall = 232;
                }
                Fact::Stack(StackWeight { wait: Some(key), .. }) => {
                    key.reason = WaitReason::Poll;
                    key.syscall = 232;
                }
                _ => {}
            }
        }
    }
    let findings = analyse(&record);
    assert!(!kinds(&findings).contains(&CauseKind::Thread), "{:#?}", findings.causes);
}

//! Programs in which no thread is known to serve one client: event loops, runtimes with tasks of
//! their own.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{CauseKind, CaveatReason, CoreName, Name};
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::*;

/// All threads serve nobody that is known.
fn unknown(record: &mut RunRecord) {
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        match fact {
            Fact::ThreadTime(time) => time.role = Some(ThreadRole::Other),
            Fact::Wait(wait) => wait.role = ThreadRole::Other,
            _ => {}
        }
    }
}

fn waits_are(record: &mut RunRecord, reason: WaitReason) {
    for key in wait_keys(record) {
        *key = WaitKey { reason, object: 0, object_name: None, syscall: 202 };
    }
}

/// One core's worth of work whatever the clients, and helpers that end idle stretches.
fn one_core(clients: u32) -> Cell {
    match clients {
        1 => Cell { throughput: 600.0, system: 0.6, idle_uncharged: 1.4, ..Cell::default() },
        _ => Cell {
            throughput: 950.0,
            system: 0.95,
            idle_lock: 0.4,
            idle_uncharged: 0.65,
            blocked: 9.0,
            waits: 12.0,
            ..Cell::default()
        },
    }
}

fn with_busiest(cpu: u64) -> RunRecord {
    let mut record = empty(&[1, 2, 4], 4);
    sweep(&mut record, 5, one_core);
    waits_are(&mut record, WaitReason::Condition);
    unknown(&mut record);
    for trial in &mut record.trials {
        trial.facts.push(Fact::Task(TaskCpu {
            owner: TaskOwner::System,
            name: "loop".to_owned(),
            tid: 7,
            cpu: Nanos(cpu),
            over: Nanos(1_000_000_000),
            cpus: None,
        }));
    }
    record
}

#[test]
fn one_thread_that_does_the_work_of_all_is_the_cause() {
    let findings = analyse(&with_busiest(940_000_000));
    let first = &findings.causes[0];
    // A thread that has no more to give at all is called so.
    assert_eq!(first.name, Name::SaturatedThread("loop".to_owned()));
    let waits_for = first.evidence.served_by.as_ref().map(|by| by.waits_for.clone());
    assert_eq!(waits_for, Some(Name::SerialThread("loop".to_owned())));
    assert!(first.kind == CauseKind::Thread && first.share.value.0 > 0.95, "{:?}", first.share);
    let findings = analyse(&with_busiest(870_000_000));
    assert_eq!(findings.causes[0].name, Name::SerialThread("loop".to_owned()));
    assert_eq!(findings.causes[0].path.first().map(String::as_str), Some("work"));
    assert!(says(&findings, |one| matches!(one, CaveatReason::NoClientThreads { .. })));
    assert!(!says(&findings, |one| matches!(one, CaveatReason::ThreadLedgerOpen { .. })));
}

#[test]
fn a_thread_that_does_a_part_of_the_work_or_waits_itself_is_none() {
    for cpu in [500_000_000, 740_000_000] {
        let findings = analyse(&with_busiest(cpu));
        let serial = |cause: &kneepoint_vocab::findings::Cause| {
            matches!(cause.name, Name::SerialThread(_) | Name::SaturatedThread(_))
        };
        assert!(!findings.causes.iter().any(serial), "{cpu}");
    }
}

#[test]
fn clients_queue_for_a_thread_before_it_is_saturated() {
    let queued = |at_two: u64, at_four: u64| {
        let mut record = empty(&[1, 2, 4], 4);
        sweep(&mut record, 5, |clients| match clients {
            2 => Cell { throughput: 700.0, system: 0.7, idle_uncharged: 0.9, ..one_core(2) },
            _ => one_core(clients),
        });
        waits_are(&mut record, WaitReason::Condition);
        unknown(&mut record);
        for trial in &mut record.trials {
            let part = if trial.id.level.clients == 4 { at_four } else { at_two };
            trial.facts.push(Fact::Task(TaskCpu {
                owner: TaskOwner::System,
                name: "loop".to_owned(),
                tid: 7,
                cpu: Nanos::from_millis(part),
                over: Nanos(1_000_000_000),
                cpus: None,
            }));
        }
        let findings = analyse(&record);
        let two = findings.ledgers.iter().find(|ledger| ledger.level.clients == 2).unwrap();
        two.core.lines.iter().any(|line| match &line.name {
            CoreName::Wait { name } => matches!(name, Name::SerialThread(_)),
            _ => false,
        })
    };
    assert!(queued(680, 900));
    assert!(!queued(680, 680), "no level shows that it has no more to give");
    assert!(!queued(500, 900), "it waits itself at that level");
}

/// A lock that clients wait for, and a thread that sleeps and ends as many idle stretches.
fn beside_a_sleeper(function: &str, role: ThreadRole) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let frame = |function: &str| Frame { function: function.to_owned(), module: "app".to_owned() };
    let frames = vec![frame("usleep"), frame(function)];
    record.stacks.push(StackRecord { id: StackId(9), frames, ..record.stacks[0].clone() });
    sweep(&mut record, 5, |clients| {
        let cell = locked(clients);
        Cell { idle_lock: cell.idle_lock / 2.0, idle_uncharged: cell.idle_uncharged, ..cell }
    });
    unknown(&mut record);
    let timer = WaitKey { reason: WaitReason::Timer, object: 0, object_name: None, syscall: 35 };
    for trial in record.trials.iter_mut().filter(|trial| trial.id.level.clients > 1) {
        for fact in &mut trial.facts {
            if let Fact::CoreTime(core) = fact {
                core.idle = Nanos(core.idle.0 + 650_000_000);
            }
        }
        trial.facts.push(Fact::Wait(Wait {
            role,
            name: "app".to_owned(),
            key: timer.clone(),
            blocked: Nanos(990_000_000),
            count: 100,
            longest: Nanos(10_000_000),
            idle_charged: Nanos(650_000_000),
            holders: Holders::default(),
        }));
        trial.facts.push(Fact::Stack(StackWeight {
            kind: StackKind::OffCpu,
            stack: StackId(9),
            wait: Some(timer.clone()),
            role: None,
            weight: Nanos(990_000_000),
            count: 10,
        }));
    }
    record
}

/// Who sleeps all the time beside the clients gives what they wait for no name.
#[test]
fn clients_give_a_sleep_its_name() {
    let mut record = beside_a_sleeper("poll_for_turn", ThreadRole::Client);
    let id = StackId(11);
    let sleeps = record.stacks.iter().find(|stack| stack.id == StackId(9)).unwrap();
    let mut main = StackRecord { id, ..sleeps.clone() };
    main.frames[1].function = "wait_for_the_end".to_owned();
    record.stacks.push(main);
    let is_of_timer = |stack: &StackWeight| {
        stack.wait.as_ref().is_some_and(|key| key.reason == WaitReason::Timer)
    };
    for trial in &mut record.trials {
        let mut beside = Vec::new();
        for fact in &mut trial.facts {
            let Fact::Stack(stack) = fact else { continue };
            if is_of_timer(stack) {
                stack.role = Some(ThreadRole::Client);
                let (role, weight) = (Some(ThreadRole::Other), Nanos(3 * stack.weight.0));
                beside.push(Fact::Stack(StackWeight { stack: id, role, weight, ..stack.clone() }));
            }
        }
        trial.facts.extend(beside);
    }
    let names: Vec<String> =
        analyse(&record).causes.iter().map(|cause| cause.name.to_string()).collect();
    assert!(names.iter().any(|name| name == "sleep in poll_for_turn"), "{names:?}");
    assert!(names.iter().all(|name| !name.contains("wait_for_the_end")), "{names:?}");
}

#[test]
fn nobody_waits_for_a_runtime_s_own_threads() {
    let share = |function: &str, role| {
        let findings = analyse(&beside_a_sleeper(function, role));
        let lock = findings.causes.iter().find(|cause| cause.kind == CauseKind::Lock).unwrap();
        let sleeps = findings.causes.iter().any(|cause| cause.name.sleeps_in().is_some());
        (lock.share.value.0, sleeps)
    };
    // One of the program's own may be what others wait for.
    let (lock, sleeps) = share("pause_a_little", ThreadRole::Other);
    assert!(sleeps && lock < 0.6, "{lock}");
    for role in [ThreadRole::Other, ThreadRole::Client] {
        let (lock, sleeps) = share("runtime.sysmon", role);
        assert!(!sleeps && lock > 0.8, "{lock} as {role:?}");
    }
}

/// Tasks of Go that sleep for a millisecond of each operation, all at once or one after the other.
/// What lets a task go on is a channel in `give_back`, as those show who wake threads that wait so.
fn sleeping_tasks(at_once: bool, shown_by: Option<WaitReason>) -> RunRecord {
    let mut record = empty(&[1, 4], 4);
    let stack = |id, functions: &[&str]| StackRecord {
        id: StackId(id),
        frames: functions
            .iter()
            .map(|name| Frame { function: (*name).to_owned(), module: "app".to_owned() })
            .collect(),
        ..record.stacks[0].clone()
    };
    let polls = stack(7, &["runtime.netpoll", "runtime.findRunnable", "runtime.schedule"]);
    let parked = stack(8, &["runtime.futex.abi0", "runtime.mPark", "runtime.stopm"]);
    let lets_go = stack(9, &["runtime.futex.abi0", "runtime.chansend1", "main.give_back"]);
    record.stacks.extend([polls, parked, lets_go]);
    sweep(&mut record, 5, |clients| Cell {
        throughput: if at_once { 800.0 * f64::from(clients) } else { 800.0 },
        system: 0.1,
        idle_uncharged: 0.0,
        on_cpu: vec![(0, 0.1)],
        ..Cell::default()
    });
    let futex = WaitReason::Futex { operation: 128, timed: false };
    for trial in &mut record.trials {
        for fact in &mut trial.facts {
            if let Fact::CoreTime(core) = fact {
                core.idle = Nanos::from_millis(1900);
            }
        }
        let of = |reason, object, syscall| WaitKey { reason, object, object_name: None, syscall };
        let (poll, park) = (of(WaitReason::Poll, 0, 281), of(futex, 0x5000, 202));
        for (key, idle, id) in [(&poll, 1800, 7), (&park, 100, 8)] {
            trial.facts.push(Fact::Wait(Wait {
                role: ThreadRole::Client,
                name: "app".to_owned(),
                key: key.clone(),
                blocked: Nanos::from_millis(900),
                count: 800,
                longest: Nanos::from_millis(1),
                idle_charged: Nanos::from_millis(idle),
                holders: Holders::default(),
            }));
            let weight = Nanos::from_millis(900);
            let (kind, wait) = (StackKind::OffCpu, Some(key.clone()));
            let (role, stack) = (None, StackId(id));
            let own = StackWeight { kind, stack, wait, role, weight, count: 10 };
            trial.facts.push(Fact::Stack(own));
        }
        let woken = match shown_by {
            Some(WaitReason::Poll) => Some(poll),
            Some(_) => Some(park),
            None => None,
        };
        if woken.is_some() {
            let (kind, weight) = (StackKind::Waker, Nanos::from_millis(450));
            let (role, stack, wait) = (None, StackId(9), woken);
            let waker = StackWeight { kind, stack, wait, role, weight, count: 10 };
            trial.facts.push(Fact::Stack(waker));
        }
    }
    record
}

/// Cores that idle for this at four clients.
fn idle_for(record: &RunRecord, wait: &str) -> f64 {
    let findings = analyse(record);
    let is_it = |line: &&kneepoint_vocab::findings::CoreLine| match &line.name {
        CoreName::Wait { name } => name.to_string() == wait,
        _ => false,
    };
    let four =
        findings.ledgers.iter().find(|ledger| ledger.level.clients == 4).expect("it was measured");
    four.core.lines.iter().filter(is_it).map(|line| line.cores.value.0).sum()
}

#[test]
fn what_is_polled_for_all_tasks_is_what_they_want_of_each_other_unless_it_overlaps() {
    let parked = Some(WaitReason::UserLock);
    let channel = |at_once| idle_for(&sleeping_tasks(at_once, parked), "channel in main.give_back");
    let (serial, overlapping) = (channel(false), channel(true));
    // 0.1 that parked threads are charged with, and three quarters of the 1.8 of who polls.
    assert!((serial - 1.45).abs() < 0.02, "{serial}");
    assert!((overlapping - 0.1).abs() < 0.02, "{overlapping}");
}

#[test]
fn who_ends_a_poll_for_all_tasks_tells_what_it_was_for() {
    let polled = Some(WaitReason::Poll);
    let channel = idle_for(&sleeping_tasks(true, polled), "channel in main.give_back");
    // All of the parked, and half of the polls.
    assert!((channel - 1.0).abs() < 0.02, "{channel}");
}

#[test]
fn who_sleeps_for_a_moment_before_it_looks_for_a_task_again_is_as_if_parked() {
    let mut record = sleeping_tasks(true, Some(WaitReason::UserLock));
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        let key = match fact {
            Fact::Wait(wait) => Some(&mut wait.key),
            Fact::Stack(stack) => stack.wait.as_mut(),
            _ => None,
        };
        for key in key.into_iter().filter(|key| key.reason == WaitReason::Poll) {
            key.reason = WaitReason::Timer;
        }
    }
    let channel = idle_for(&record, "channel in main.give_back");
    assert!(
        (channel - 1.9).abs() < 0.02,
        "all that parked threads and naps are charged with: {channel}"
    );
}

#[test]
fn tasks_that_wait_for_each_other_unseen_are_said_to() {
    let unseen = "unseen condition in tasks of Go";
    let serial = idle_for(&sleeping_tasks(false, None), unseen);
    assert!((serial - 1.45).abs() < 0.02, "{serial}");
    assert!(idle_for(&sleeping_tasks(true, None), unseen) <= 0.0, "their waits overlap");
}

/// Which task a thread runs changes: none of the threads' time is a client's, and that is no fault.
#[test]
fn threads_that_run_whatever_task_comes_next_are_no_clients() {
    let mut record = sleeping_tasks(false, Some(WaitReason::UserLock));
    let open = |record: &RunRecord| {
        let findings = analyse(record);
        let four = findings.ledgers.iter().find(|ledger| ledger.level.clients == 4);
        let ledger = four.expect("it was measured").thread.clone();
        (ledger.lines.len(), ledger.unaccounted.0)
    };
    assert_eq!(open(&record), (1, 1.0));
    for trial in &mut record.trials {
        trial.facts.push(Fact::Task(TaskCpu {
            owner: TaskOwner::System,
            name: "app".to_owned(),
            tid: 7,
            cpu: Nanos::from_millis(980),
            over: Nanos::from_millis(1000),
            cpus: None,
        }));
        let running = Nanos::from_millis(100);
        trial.facts.push(Fact::ThreadTime(ThreadTime {
            role: Some(ThreadRole::Client),
            name: "app".to_owned(),
            threads: 4,
            running,
            ..ThreadTime::default()
        }));
    }
    let saturated = |record: &RunRecord| {
        let is_it = |one: &CaveatReason| matches!(one, CaveatReason::SaturatedThread { .. });
        says(&analyse(record), is_it)
    };
    assert!(!saturated(&record), "another thread may run what waits");
    for stack in &mut record.stacks {
        for frame in &mut stack.frames {
            frame.function = frame.function.replace("runtime.", "other.");
        }
    }
    let (lines, unaccounted) = open(&record);
    assert!(lines > 1 && unaccounted < 1.0, "{lines} lines, {unaccounted} of it open");
    unknown(&mut record);
    assert!(saturated(&record), "a thread of no runtime's is the only one that can");
}

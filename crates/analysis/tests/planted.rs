//! Records with a planted truth: the analysis has to find it, and nothing else.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{
    CauseKind, CaveatReason, Charge, Conclusion, HolderState, LineKind, Severity, Shape,
};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::*;

#[test]
fn planted_lock_is_the_first_cause() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    let findings = analyse(&record);
    let first = &findings.causes[0];
    assert_eq!(first.kind, CauseKind::Lock);
    assert_eq!(first.id, "lock-1");
    assert_eq!(first.name.to_string(), "mutex in sqlite3BtreeEnter");
    assert_eq!(first.path[..2], ["sqlite3BtreeEnter", "sqlite3VdbeEnter"]);
    // 1.3 idle, 0.1 on the way to a core with the lock in hand, 0.2 in futex calls.
    assert!((first.lost.value.0 - 1.6).abs() < 0.02, "{:?}", first.lost);
    assert!(first.share.low.0 <= first.share.value.0 && first.share.value.0 <= first.share.high.0);
    assert!((first.waits.unwrap().value.0 - 60_000.0).abs() < 1.0);
    assert_eq!(first.holders[0], (HolderState::Running, Ratio(0.9)));
    assert!(first.stacks.is_some());
    assert!(findings.causes.iter().all(|cause| !cause.name.to_string().contains("futex")));
    assert!(findings.causes.iter().all(|cause| cause.kind != CauseKind::Scheduler));
    assert_eq!(findings.curve.knee.level.clients, 1);
    assert_eq!(findings.curve.shape, Shape::Collapse);
    assert!(findings.trustworthy, "{:?}", findings.caveats);
    let [Conclusion::NeverScales { best, worst, .. }, Conclusion::Loss { kind, name, .. }, ..] =
        &findings.conclusions[..]
    else {
        panic!("{:?}", findings.conclusions)
    };
    assert_eq!((best.clients, worst.clients), (1, 2));
    assert_eq!((*kind, name.as_ref()), (CauseKind::Lock, Some(&first.name)));
}

#[test]
fn one_lock_of_several_processes_and_callers_is_one_cause() {
    let mut record = empty(&[1, 2], 2);
    for block in 0..6 {
        for clients in [1, 2] {
            let mut cell = locked(clients);
            cell.lock_stack = if block % 2 == 0 { 2 } else { 3 };
            let start = block / 2;
            record.trials.push(trial(
                Phase::Sweep,
                block,
                VariantId::BASELINE,
                start,
                clients,
                &cell,
            ));
        }
    }
    let findings = analyse(&record);
    let locks = findings.causes.iter().filter(|cause| cause.kind == CauseKind::Lock).count();
    assert_eq!(locks, 1, "{:#?}", findings.causes);
}

#[test]
fn slices_without_an_operation_are_reported_and_enter_no_estimate() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, scaling);
    let without = analyse(&record);
    assert!(without.stalls.is_empty());
    let two = |trial: &&mut TrialRecord| trial.id.level.clients == 2;
    for trial in record.trials.iter_mut().filter(two).take(3) {
        trial.operations = 0;
        trial.per_client.clear();
    }
    let findings = analyse(&record);
    let [stall] = &findings.stalls[..] else { panic!("{:?}", findings.stalls) };
    assert_eq!((stall.level.clients, stall.slices, stall.of), (2, 3, 5));
    let threads = stall.threads.unwrap();
    let sum = threads.running.0 + threads.runnable.0 + threads.blocked.0;
    assert!((sum - 1.0).abs() < 1e-9 && threads.running.0 > 0.5, "{threads:?}");
    let stalled = CaveatReason::Stalled { stall: stall.clone() };
    assert!(says(&findings, |one| *one == stalled), "{:?}", findings.caveats);
    let first = Conclusion::Stalled { stall: stall.clone() };
    assert_eq!(findings.conclusions.first(), Some(&first));
    let at = |findings: &Findings| {
        let point = findings.curve.points.iter().find(|point| point.level.clients == 2);
        point.map(|point| point.throughput.value.0)
    };
    assert!((at(&findings).unwrap() / at(&without).unwrap() - 1.0).abs() < 0.1);
    for trial in record.trials.iter_mut().filter(two) {
        trial.operations = 0;
    }
    let findings = analyse(&record);
    assert_eq!((findings.stalls[0].slices, at(&findings)), (5, None));
    assert!(says(&findings, |one| {
        matches!(one, CaveatReason::Stalled { stall } if stall.slices == stall.of)
    }));
}

#[test]
fn nothing_wrong_names_no_cause() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, scaling);
    let findings = analyse(&record);
    assert!(findings.causes.is_empty(), "{:?}", findings.causes);
    assert!(findings.curve.knee.beyond_last);
    assert_eq!(findings.curve.shape, Shape::Rising);
    assert!(findings.trustworthy, "{:?}", findings.caveats);
}

#[test]
fn more_cpu_for_one_operation_is_charged_to_the_function() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, |clients| match clients {
        1 => Cell { throughput: 1000.0, system: 1.0, ..Cell::default() },
        _ => Cell {
            throughput: 800.0,
            system: 2.0,
            idle_uncharged: 0.0,
            on_cpu: vec![(0, 0.8), (4, 1.2)],
            ..Cell::default()
        },
    });
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Function);
    assert_eq!(findings.causes[0].name.to_string(), "spin");
    assert!((findings.causes[0].lost.value.0 - 1.2).abs() < 0.05, "{:?}", findings.causes[0].lost);
    assert!(findings.causes[0].share.value.0 > 0.95);
}

#[test]
fn unused_cores_are_no_loss() {
    let mut record = empty(&[1, 2], 1);
    sweep(&mut record, 4, scaling);
    let findings = analyse(&record);
    assert!(findings.causes.is_empty());
    let ledger = &findings.ledgers[0].core;
    let line = ledger.lines.iter().find(|line| line.kind == LineKind::IdleNoWork).unwrap();
    assert!((line.cores.value.0 - 1.0).abs() < 1e-6);
}

#[test]
fn idle_workers_are_never_causes() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    for trial in &mut record.trials {
        let mut idle = key(0x99);
        idle.reason = WaitReason::Poll;
        trial.facts.push(Fact::Wait(Wait {
            role: ThreadRole::Other,
            name: "worker".to_owned(),
            key: idle,
            blocked: Nanos(30_000_000_000),
            count: 5,
            longest: Nanos(1_000_000_000),
            idle_charged: Nanos(0),
            holders: Holders::default(),
        }));
    }
    let findings = analyse(&record);
    assert!(findings.causes.iter().all(|cause| cause.kind != CauseKind::Thread));
    assert_eq!(findings.causes[0].kind, CauseKind::Lock);
}

#[test]
fn fallback_tier_says_what_it_cannot_see() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    for trial in &mut record.trials {
        trial.facts[0] = Fact::Tier { tier: Tier::Fallback };
    }
    let findings = analyse(&record);
    assert_eq!(findings.collector.tier, Some(Tier::Fallback));
    assert!(!findings.collector.cannot_see.is_empty());
    assert!(says(&findings, |one| *one == CaveatReason::FallbackCollector));
}

#[test]
fn cut_off_run_with_few_blocks_is_not_trusted() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 2, locked);
    record.end = None;
    record.torn = vec!["trials.jsonl:5".to_owned()];
    let findings = analyse(&record);
    assert!(!findings.trustworthy);
    assert_eq!(findings.protocol.stopped_by, StoppedBy::CutOff);
    let cut_off = CaveatReason::CutOff { blocks: 2, too_few: true };
    assert!(says(&findings, |one| *one == cut_off), "{:?}", findings.caveats);
}

#[test]
fn no_trials_at_all_is_said() {
    let findings = analyse(&empty(&[1, 2], 2));
    assert!(!findings.trustworthy);
    assert_eq!(findings.conclusions, [Conclusion::NothingMeasured]);
    assert!(findings.ledgers.is_empty() && findings.causes.is_empty());
    assert!(findings.caveats.iter().any(|caveat| caveat.severity == Severity::Serious));
}

#[test]
fn one_level_has_no_curve_and_one_block_no_interval() {
    let mut record = empty(&[2], 2);
    sweep(&mut record, 1, locked);
    let findings = analyse(&record);
    assert_eq!(findings.curve.points.len(), 1);
    let throughput = findings.curve.points[0].throughput;
    assert!((throughput.high.0 - throughput.low.0).abs() < 1e-9);
    assert!(says(&findings, |one| *one == CaveatReason::FewBlocks));
    let first = findings.conclusions.first();
    assert!(
        matches!(first, Some(Conclusion::SingleLevel { level }) if level.clients == 2),
        "{first:?}"
    );
}

#[test]
fn unclosed_ledger_is_not_trusted() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, |clients| Cell { idle_lock: 1.0, ..locked(clients) });
    let findings = analyse(&record);
    let focus = findings.ledgers.iter().find(|l| l.level.clients == 2).unwrap();
    assert!(focus.core.unaccounted.0 > 0.1);
    assert!(!findings.trustworthy);
}

#[test]
fn disturbed_slices_are_counted_and_left_out() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    let mut bad = record.trials[1].clone();
    bad.disposition = Disposition::Disturbed;
    bad.operations = 1;
    record.trials.push(bad);
    let clean = analyse(&{
        let mut record = record.clone();
        record.trials.pop();
        record
    });
    let findings = analyse(&record);
    assert_eq!(findings.protocol.repeated, 1);
    assert_eq!(findings.curve, clean.curve);
}

/// Makes every lock wait of `record` one for `reason`, with the stack `frames`.
fn waiting_in(record: &mut RunRecord, reason: WaitReason, frames: &[(&str, &str)]) {
    let frame = |(function, module): &(&str, &str)| Frame {
        function: (*function).to_owned(),
        module: (*module).to_owned(),
    };
    record.stacks[2].frames = frames.iter().map(frame).collect();
    wait_keys(record).for_each(|key| key.reason = reason);
}

#[test]
fn a_bitset_wait_inside_a_mutex_is_a_lock() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    let frames = [
        ("syscall", "libc.so.6"),
        ("std::sys::sync::mutex::futex::Mutex::lock_contended", "app"),
        ("app::ledger::post", "app"),
    ];
    waiting_in(&mut record, WaitReason::Condition, &frames);
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Lock);
    assert_eq!(findings.causes[0].name.to_string(), "mutex in app::ledger::post");
}

#[test]
fn a_condition_variable_is_another_thread() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    let frames = [("pthread_cond_wait", "libc.so.6"), ("take_job", "app")];
    waiting_in(&mut record, WaitReason::Condition, &frames);
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Thread);
    assert_eq!(findings.causes[0].name.to_string(), "condition in take_job");
}

#[test]
fn a_kernel_lock_is_named_by_its_taker() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    let frames = [
        ("rwsem_down_write_slowpath", "[kernel]"),
        ("down_write", "[kernel]"),
        ("shmem_file_write_iter", "[kernel]"),
        ("pwrite64", "libc.so.6"),
    ];
    waiting_in(&mut record, WaitReason::KernelLock, &frames);
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::KernelLock);
    assert_eq!(findings.causes[0].name.to_string(), "inode rwsem (shmem_file_write_iter)");
}

#[test]
fn idle_that_a_worker_ended_goes_to_what_the_clients_waited_for() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    for trial in &mut record.trials {
        let mut stolen = None;
        for fact in &mut trial.facts {
            if let Fact::Wait(wait) = fact {
                stolen = Some(std::mem::take(&mut wait.idle_charged));
            }
        }
        let Some(idle_charged) = stolen else { continue };
        let mut timer = key(0);
        timer.reason = WaitReason::Timer;
        trial.facts.push(Fact::Wait(Wait {
            role: ThreadRole::Other,
            name: "housekeeper".to_owned(),
            key: timer,
            blocked: Nanos(1_000_000_000),
            count: 500,
            longest: Nanos(2_000_000),
            idle_charged,
            holders: Holders::default(),
        }));
    }
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Lock);
    assert!(findings.causes[0].share.value.0 > 0.6, "{:?}", findings.causes[0].share);
}

#[test]
fn clients_that_sleep_are_no_scaling_defect() {
    let mut record = empty(&[1, 2, 8], 8);
    sweep(&mut record, 5, |clients| Cell {
        throughput: 900.0 * f64::from(clients),
        system: 0.02 * f64::from(clients),
        idle_lock: 2.0 - 0.02 * f64::from(clients),
        idle_uncharged: 0.0,
        blocked: 0.98 * f64::from(clients),
        waits: 900.0 * f64::from(clients),
        ..Cell::default()
    });
    waiting_in(&mut record, WaitReason::Timer, &[("clock_nanosleep", "libc.so.6")]);
    let findings = analyse(&record);
    assert!(findings.causes.is_empty(), "{:?}", findings.causes);
    assert!(findings.curve.knee.beyond_last);
    assert!(concludes(&findings, |one| {
        matches!(one, Conclusion::StillRises { level, .. } if level.clients == 8)
    }));
}

#[test]
fn schedstat_is_a_check_and_no_part_of_the_ledger() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        if let Fact::ThreadTime(time) = fact {
            time.schedstat_running = Some(Nanos(time.running.0 * 10 / 9));
        }
    }
    let findings = analyse(&record);
    let ledger = findings.ledgers.iter().find(|l| l.level.clients == 1).unwrap();
    assert!((ledger.core.demand.value.0 - 0.9e-3).abs() < 0.02e-3, "{:?}", ledger.core.demand);
    assert!((findings.collector.running_check.unwrap().0 - 0.9).abs() < 1e-6);
    assert!(says(&findings, |one| matches!(one, CaveatReason::ClocksDiffer { .. })));
}

#[test]
fn what_schedstat_counts_more_at_wake_ups_is_no_warning() {
    let at = |clients: u32| {
        let mut record = empty(&[1, 2], 2);
        sweep(&mut record, 5, locked);
        let here = record.trials.iter_mut().filter(|trial| trial.id.level.clients == clients);
        for fact in here.flat_map(|trial| &mut trial.facts) {
            if let Fact::ThreadTime(time) = fact {
                time.schedstat_running = Some(Nanos(time.running.0 * 10 / 9));
            }
        }
        let differs = |one: &CaveatReason| matches!(one, CaveatReason::ClocksDiffer { .. });
        caveat(&analyse(&record), differs).map(|one| one.severity)
    };
    assert_eq!(at(2), Some(Severity::Note), "a ninth of 0.6 cores is 1.1 us a wait");
    assert_eq!(at(1), Some(Severity::Warning), "one client never waits: nothing explains it");
}

#[test]
fn futex_calls_by_the_callers_of_a_lock_are_part_of_its_cause() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    let caller = record.stacks[2].frames[3].clone();
    record.stacks[1].frames[3] = caller;
    let together = analyse(&record);
    assert!(together.causes.iter().all(|cause| cause.name.to_string() != "kernel: futex"));
    let lock = together.causes.iter().find(|cause| cause.id == "lock-1").unwrap();
    let Charge::Wait { wait } = &lock.evidence.charge else { panic!("{:?}", lock.evidence) };
    assert!(wait.work.is_some_and(|work| !work.spins), "{wait:?}");
    let focus = together.ledgers.iter().find(|ledger| ledger.level == together.focus).unwrap();
    let charged = focus.core.lines.iter().filter(|line| line.cause.as_deref() == Some("lock-1"));
    assert_eq!(charged.count(), 2, "idle for the lock, and its futex calls");
}

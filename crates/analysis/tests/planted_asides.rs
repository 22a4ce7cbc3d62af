//! What a run tells besides its losses: bounds that are reached, gains above the clients, levels
//! that are not of one piece, code without names, objects of one slice.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{
    Bound, Cause, CauseKind, CaveatReason, Charge, Conclusion, Confined, GainReason, Name, Severity,
};
use kneepoint_vocab::units::{Nanos, PerSecond, Ratio};
use kneepoint_vocab::*;

#[test]
fn cores_that_are_used_up_are_nothing_wrong_and_named_by_function() {
    let mut record = empty(&[1, 2, 4], 2);
    sweep(&mut record, 5, |clients| Cell {
        on_cpu: vec![(0, 0.7 * f64::from(clients.min(2))), (4, 0.3 * f64::from(clients.min(2)))],
        ..scaling(clients)
    });
    let findings = analyse(&record);
    let at = findings.at_bound.as_ref().unwrap();
    assert_eq!((at.bound, at.level.clients), (Bound::Cores, 2));
    assert!(at.busy.value.0 > 1.9 && (at.of.0 - 2.0).abs() < 1e-9, "{at:?}");
    let names: Vec<String> = at.functions.iter().map(|one| one.name.to_string()).collect();
    assert_eq!(names, ["work", "spin"]);
    assert!((at.functions[0].share.0 - 0.7).abs() < 1e-6);
    let bound = Conclusion::AtBound { at: at.clone() };
    assert!(findings.conclusions.contains(&bound), "{:?}", findings.conclusions);
    assert!(findings.causes.is_empty());
}

#[test]
fn one_level_alone_is_at_its_bound_or_has_causes() {
    let mut record = empty(&[2], 2);
    sweep(&mut record, 5, scaling);
    let findings = analyse(&record);
    assert_eq!(findings.at_bound.as_ref().map(|at| at.bound), Some(Bound::Cores));
    let at = findings.at_bound.clone().unwrap();
    assert_eq!((at.functions.len(), at.functions[0].name.to_string().as_str()), (1, "work"));
    let level = Level { clients: 2, cores: 2 };
    let wanted = [Conclusion::SingleLevel { level }, Conclusion::AtBound { at }];
    assert_eq!(findings.conclusions, wanted);
    let mut record = empty(&[2], 2);
    sweep(&mut record, 5, locked);
    let findings = analyse(&record);
    assert_eq!(findings.at_bound, None);
    let first = &findings.causes[0];
    assert_eq!(
        (first.kind, first.name.to_string().as_str()),
        (CauseKind::Lock, "mutex in sqlite3BtreeEnter")
    );
    assert!(first.share.value.0 > 0.8, "{:?}", first.share);
}

#[test]
fn clients_that_only_wait_for_themselves_are_at_their_bound() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, |clients| Cell {
        throughput: 100.0 * f64::from(clients),
        system: 0.1 * f64::from(clients),
        idle_uncharged: 2.0 - 0.1 * f64::from(clients),
        ..Cell::default()
    });
    let findings = analyse(&record);
    assert_eq!(findings.at_bound.as_ref().map(|at| at.bound), Some(Bound::Clients));
    let bound =
        |one: &Conclusion| matches!(one, Conclusion::AtBound { at } if at.bound == Bound::Clients);
    assert!(concludes(&findings, bound), "{:?}", findings.conclusions);
}

/// One client leaves a core asleep for most of an operation; two keep both awake.
fn sleepy(clients: u32) -> Cell {
    match clients {
        1 => Cell {
            throughput: 200.0,
            system: 0.2,
            idle_scheduler: 0.7,
            idle_uncharged: 1.1,
            runnable: 0.7,
            on_cpu: vec![(0, 0.2)],
            ..Cell::default()
        },
        _ => Cell {
            throughput: 1900.0,
            system: 1.9,
            idle_uncharged: 0.1,
            runnable: f64::from(clients) - 1.9,
            on_cpu: vec![(0, 1.9)],
            ..Cell::default()
        },
    }
}

#[test]
fn a_gain_above_the_clients_is_reported_with_the_cores_that_sleep() {
    let mut record = empty(&[1, 2, 4], 2);
    sweep(&mut record, 6, sleepy);
    let findings = analyse(&record);
    let [step] = &findings.superlinear[..] else { panic!("{:?}", findings.superlinear) };
    assert_eq!((step.from.clients, step.to.clients), (1, 2));
    assert!(step.ratio.low.0 > 2.0 && (step.ratio.value.0 - 9.5).abs() < 0.3, "{step:?}");
    assert_eq!(step.reason, GainReason::SleepingCores);
    let seen = step.evidence.unwrap();
    assert!((seen.idle.0 - 1.8).abs() < 0.02, "{seen:?}");
    assert!((seen.waking.0 - 0.7 / 200.0).abs() < 1e-4, "{seen:?}");
    let json = serde_json::to_value(&findings).unwrap();
    assert_eq!(json["superlinear"][0]["reason"], "sleeping-cores");
}

#[test]
fn a_gain_within_the_clients_or_within_noise_is_none() {
    let mut record = empty(&[1, 2, 4], 2);
    sweep(&mut record, 6, scaling);
    assert!(analyse(&record).superlinear.is_empty());
    let mut record = empty(&[1, 2], 2);
    for block in 0..6_u32 {
        for clients in [1, 2] {
            let mut cell = scaling(clients);
            // 2.2 times as much on the whole, from 1.1 to 4.4 times.
            let swing = if block.is_multiple_of(2) { 2.2 } else { 0.55 };
            cell.throughput *= if clients == 2 { swing } else { 1.0 };
            record.trials.push(trial(Phase::Sweep, block, VariantId::BASELINE, 0, clients, &cell));
        }
    }
    assert!(analyse(&record).superlinear.is_empty());
}

#[test]
fn dearer_operations_of_one_client_are_reported_as_such() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 6, |clients| match clients {
        1 => Cell { throughput: 300.0, system: 1.0, ..Cell::default() },
        _ => Cell { throughput: 2000.0, system: 2.0, idle_uncharged: 0.0, ..Cell::default() },
    });
    let findings = analyse(&record);
    assert_eq!(findings.superlinear[0].reason, GainReason::DearerOperations);
}

/// Objects that are one cause together.
fn objects(cause: &Cause) -> Option<u32> {
    match &cause.evidence.charge {
        Charge::Wait { wait } => Some(wait.objects),
        _ => None,
    }
}

/// One mutex of a command: a new process in each slice, and so a new address in each.
#[test]
fn one_lock_of_a_new_process_in_each_slice_is_one_object() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 6, locked);
    for (number, trial) in (0_u64..).zip(&mut record.trials) {
        for fact in &mut trial.facts {
            match fact {
                Fact::Wait(wait) => wait.key.object = 0x7f00_0000 + 0x1000 * number,
                Fact::Stack(StackWeight { wait: Some(key), .. }) => {
                    key.object = 0x7f00_0000 + 0x1000 * number;
                }
                _ => {}
            }
        }
    }
    let findings = analyse(&record);
    let first = &findings.causes[0];
    assert_eq!(first.kind, CauseKind::Lock);
    assert_eq!(objects(first), Some(1), "{:?}", first.evidence);
    // Two of them in one slice are two.
    for trial in &mut record.trials {
        let second = trial.facts.iter().find_map(|fact| match fact {
            Fact::Wait(wait) => Some(wait.key.object + 0x40),
            _ => None,
        });
        let mut more: Vec<Fact> = Vec::new();
        for fact in &mut trial.facts {
            let mut other = fact.clone();
            match (&mut other, second) {
                (Fact::Wait(wait), Some(object)) => wait.key.object = object,
                (Fact::Stack(StackWeight { wait: Some(key), .. }), Some(object)) => {
                    key.object = object;
                }
                _ => continue,
            }
            more.push(other);
        }
        trial.facts.extend(more);
    }
    let first = &analyse(&record).causes[0];
    assert_eq!(objects(first), Some(2), "{:?}", first.evidence);
}

#[test]
fn code_without_names_is_reported_with_its_module_and_share() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    assert!(analyse(&record).nameless.is_empty());
    let frame = |function: &str, module: &str| Frame {
        function: function.to_owned(),
        module: module.to_owned(),
    };
    record.stacks[0].frames[0] = frame("mariadbd+0xde2c20", "mariadbd");
    record.stacks[2].frames[2] = frame("mariadbd+0xde2c21", "mariadbd");
    let module =
        |name: &str, build_id: &str| Module { name: name.into(), build_id: build_id.into() };
    record.stacks[1].modules = vec![module("libc.so.6", "77"), module("mariadbd", "4fa0")];
    let findings = analyse(&record);
    let [one] = &findings.nameless[..] else { panic!("{:?}", findings.nameless) };
    assert_eq!(one.module, "mariadbd");
    assert!((one.on_cpu.0 - 2.0 / 3.0).abs() < 1e-6 && (one.waits.0 - 1.0).abs() < 1e-6, "{one:?}");
    let nameless = CaveatReason::NamelessCode {
        module: "mariadbd".to_owned(),
        build_ids: vec!["4fa0".to_owned()],
        on_cpu: Some(one.on_cpu),
        waits: Some(one.waits),
    };
    assert!(says(&findings, |reason| *reason == nameless), "{:?}", findings.caveats);
    // The lock goes by the first caller with a name.
    assert_eq!(findings.causes[0].name.to_string(), "mutex in sqlite3BtreeEnter");
}

#[test]
fn levels_that_never_came_to_rest_and_two_regimes_are_reported() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 10, scaling);
    assert!(analyse(&record).unsteady.is_empty());
    let settling = |steady| Settling {
        after: Nanos(0),
        steady,
        step: Nanos::from_millis(100),
        series: vec![PerSecond(1.0)],
    };
    for trial in &mut record.trials {
        let (two, block) = (trial.id.level.clients == 2, trial.id.block);
        trial.settling = Some(settling(!two || block.is_multiple_of(2)));
        if two && block.is_multiple_of(3) {
            trial.operations /= 2;
        }
    }
    let findings = analyse(&record);
    let [level] = &findings.unsteady[..] else { panic!("{:?}", findings.unsteady) };
    assert_eq!((level.level.clients, level.slices, level.of), (2, 5, 10));
    let regimes = level.regimes.unwrap();
    assert_eq!((regimes.low_slices, regimes.high_slices), (4, 6));
    assert!((regimes.high.0 / regimes.low.0 - 2.0).abs() < 0.1, "{regimes:?}");
    let unsteady = |one: &CaveatReason| {
        matches!(one, CaveatReason::UnsteadyLevel { slices: 5, of: 10, restless: true, .. })
    };
    let caveat = caveat(&findings, unsteady).unwrap();
    assert_eq!(caveat.severity, Severity::Warning);
    let CaveatReason::UnsteadyLevel { level, regimes: Some(_), .. } = &caveat.reason else {
        panic!("{caveat:?}")
    };
    assert_eq!(level.clients, 2);
}

#[test]
fn a_dear_collector_is_trusted_where_that_was_asked_for() {
    let mut record = empty(&[1, 2], 2);
    record.plan.variants.push(variant(
        VariantId::UNPROBED,
        VariantRole::Unprobed,
        VariantId::BASELINE,
    ));
    sweep(&mut record, 5, locked);
    for block in 0..8 {
        for (name, factor) in [(VariantId::BASELINE, 0.8), (VariantId::UNPROBED, 1.0)] {
            let throughput = 450.0 * factor * wobble(block, name.len() as u32);
            let cell = Cell { throughput, ..locked(2) };
            let mut taken = trial(Phase::Effects, block, name, block, 2, &cell);
            if name == VariantId::UNPROBED {
                taken.facts.clear();
            }
            record.trials.push(taken);
            record.variants.push(start(name, block, true));
        }
    }
    let dear = |record: &RunRecord| {
        let findings = analyse(record);
        let costs = |one: &CaveatReason| matches!(one, CaveatReason::CollectorCosts { .. });
        caveat(&findings, costs).map(|one| one.severity)
    };
    assert_eq!(dear(&record), Some(Severity::Serious));
    record.plan.allowed_overhead = Some(Ratio(0.3));
    assert_eq!(dear(&record), Some(Severity::Warning));
    record.plan.allowed_overhead = Some(Ratio(0.1));
    assert_eq!(dear(&record), Some(Severity::Serious));
}

#[test]
fn idle_that_was_charged_handed_over_and_shared_out_is_kept_apart() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    let findings = analyse(&record);
    let at = |findings: &Findings| {
        let ledger = findings.ledgers.iter().find(|one| one.level == findings.focus).unwrap();
        ledger.core.idle.unwrap()
    };
    // 1.3 idle for the lock; 0.1 beside a thread that had it in hand already.
    let idle = at(&findings);
    let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{idle:?}");
    close(idle.charged.value.0, 1.3);
    close(idle.handed_over.value.0, 0.1);
    close(idle.spread.value.0, 0.0);
    close(idle.unused.value.0, 0.0);
    let shared_out = |one: &CaveatReason| {
        matches!(one, CaveatReason::IdleSharedOut { share, level }
            if (share.0 - 0.6).abs() < 1e-6 && level.clients == 2)
    };
    assert!(!says(&findings, |one| matches!(one, CaveatReason::IdleSharedOut { .. })));
    let with = |idle_lock: f64, idle_uncharged: f64| {
        let mut record = empty(&[1, 2], 2);
        sweep(&mut record, 5, |clients| match clients {
            1 => locked(1),
            _ => Cell { idle_lock, idle_uncharged, ..locked(2) },
        });
        let findings = analyse(&record);
        let spread = at(&findings).spread.value.0;
        assert!((spread - idle_uncharged).abs() < 1e-6, "{:?}", at(&findings));
        findings
    };
    let hardly_charged = with(0.1, 1.2);
    assert!(says(&hardly_charged, shared_out), "{:?}", hardly_charged.caveats);
    let alike = with(0.8, 0.5);
    assert!(!says(&alike, |one| matches!(one, CaveatReason::IdleSharedOut { .. })), "as charged");
}

/// Threads that compute, of which one core has all; each may run on so many.
fn crowded(cpus: u32) -> RunRecord {
    let mut record = empty(&[1, 2, 4], 2);
    sweep(&mut record, 6, |clients| Cell {
        throughput: 1000.0,
        system: 1.0,
        idle_uncharged: 1.0,
        runnable: f64::from(clients) - 1.0,
        on_cpu: vec![(0, 1.0)],
        ..Cell::default()
    });
    for trial in &mut record.trials {
        let (owner, over) = (TaskOwner::System, Nanos::from_millis(1000));
        let task = |name: &str, tid, cpu, cpus| {
            let (name, cpu) = (name.to_owned(), Nanos::from_millis(cpu));
            Fact::Task(TaskCpu { owner, name, tid, cpu, over, cpus: Some(cpus) })
        };
        trial.facts.extend([task("work", 7, 900, cpus), task("log", 8, 100, 2)]);
    }
    record
}

#[test]
fn threads_that_may_not_run_on_all_cores_are_named_and_nothing_is_guessed() {
    let findings = analyse(&crowded(1));
    let first = &findings.causes[0];
    assert_eq!(first.name.to_string(), "threads confined to 1 of 2 cores");
    assert_eq!((first.kind, first.key.frame.as_str()), (CauseKind::Scheduler, "confined"));
    let to = Confined { cpus: 1, of: 2 };
    assert!(
        matches!(first.evidence.charge, Charge::Scheduler { confined: Some(it), .. } if it == to)
    );
    let is_said = |one: &Conclusion| {
        matches!(one, Conclusion::Loss { name: Some(Name::Confined { cpus: 1, of: 2 }), .. })
    };
    assert!(concludes(&findings, is_said), "{:?}", findings.conclusions);
    assert!(!says(&findings, |one| matches!(one, CaveatReason::IdleSharedOut { .. })));
    let free = analyse(&crowded(2));
    assert_eq!(free.causes[0].name, Name::Runnable, "they may run anywhere");
}

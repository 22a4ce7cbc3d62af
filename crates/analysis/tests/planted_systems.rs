//! Planted truths of systems with a load generator, kernel locks, devices and several numbers of
//! cores.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{
    Bottleneck, CauseKind, CaveatReason, Charge, Conclusion, CoreName, Findings, LineKind, Name,
    ThreadName,
};
use kneepoint_vocab::units::{Count, Nanos};
use kneepoint_vocab::*;

const MICRO: u64 = 1_000;

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

fn kernel_frames(functions: &[&str]) -> Vec<Frame> {
    let frame =
        |function: &&str| Frame { function: (*function).to_owned(), module: "[kernel]".to_owned() };
    functions.iter().map(frame).collect()
}

fn task(owner: TaskOwner, name: &str, tid: u32, cores: f64) -> Fact {
    let cpu = nanos(cores);
    Fact::Task(TaskCpu { owner, name: name.to_owned(), tid, cpu, over: nanos(1.0), cpus: None })
}

fn with_tasks(record: &mut RunRecord, tasks: &[(TaskOwner, &str, f64)]) {
    for trial in &mut record.trials {
        for (tid, (owner, name, cores)) in tasks.iter().enumerate() {
            trial.facts.push(task(*owner, name, tid as u32, *cores));
        }
    }
}

#[test]
fn waiting_for_a_request_is_the_generator_s_turn() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, starved);
    for_requests(&mut record);
    let findings = analyse(&record);
    let threads_or_generator =
        |kind: CauseKind| matches!(kind, CauseKind::Thread | CauseKind::Generator);
    assert!(!findings.causes.iter().any(|cause| threads_or_generator(cause.kind)));
    let focus = findings.ledgers.iter().find(|l| l.level == findings.focus).unwrap();
    let core = focus.core.lines.iter().find(|line| line.name == CoreName::NoRequest).unwrap();
    assert!((core.cores.value.0 - 1.67).abs() < 0.01);
    assert_eq!(core.cause, None);
    let thread = focus.thread.lines.iter().find(|line| line.name == ThreadName::NoRequest).unwrap();
    assert_eq!(thread.kind, LineKind::IdleNoWork);
    assert!(focus.thread.unaccounted.0 < 1e-6 && focus.core.unaccounted.0 < 1e-6);
}

#[test]
fn a_lock_that_is_polled_for_is_no_wait_for_a_request() {
    let findings = analyse(&polling());
    let lock = &findings.causes[0];
    assert_eq!(
        (lock.kind, lock.name.to_string().as_str()),
        (CauseKind::Lock, "lock in XactLockTableWait")
    );
    assert!((lock.lost.value.0 - 1.67 * 2.0 / 3.0).abs() < 0.01, "{:?}", lock.lost);
    assert!(findings.causes.iter().all(|cause| cause.kind != CauseKind::Generator));
    let focus = findings.ledgers.iter().find(|l| l.level == findings.focus).unwrap();
    assert!(focus.core.unaccounted.0 < 1e-6 && focus.thread.unaccounted.0 < 1e-6);
}

#[test]
fn the_same_waits_are_a_cause_where_clients_live_inside() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, starved);
    for_requests(&mut record);
    record.plan.clients = Clients::Inside;
    let findings = analyse(&record);
    assert_eq!(findings.causes[0].kind, CauseKind::Thread);
    assert!(findings.generator.is_none());
}

#[test]
fn idle_without_a_request_is_no_loss_below_one_client_a_core() {
    let mut record = empty(&[1, 2], 1);
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { idle_lock: 0.9, idle_uncharged: 0.8, blocked: 0.7, ..starved(1) },
        more => starved(more),
    });
    for_requests(&mut record);
    let findings = analyse(&record);
    assert!(findings.causes.iter().all(|cause| cause.kind != CauseKind::Generator));
}

#[test]
fn a_saturated_generator_thread_limits() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, starved);
    for_requests(&mut record);
    record.plan.generator_cores = 4;
    with_tasks(&mut record, &[(TaskOwner::Generator, "pgbench", 0.97)]);
    let findings = analyse(&record);
    let generator = findings.generator.as_ref().unwrap();
    assert!((generator.cores.value.0 - 0.97).abs() < 1e-9, "{generator:?}");
    let Some(Bottleneck::Thread { name, busiest, .. }) = &generator.bottleneck else {
        panic!("{generator:?}")
    };
    assert!(name == "pgbench" && near(busiest.0, 0.97), "{generator:?}");
    assert!(concludes(&findings, |one| *one == Conclusion::GeneratorLimits { own_cores: 4 }));
    assert!(says(&findings, |one| matches!(one, CaveatReason::GeneratorLimits { .. })));
    let first = &findings.causes[0];
    assert_eq!(first.kind, CauseKind::Generator);
    assert!((first.lost.value.0 - 1.67).abs() < 0.01, "{:?}", first.lost);
}

#[test]
fn a_busy_generator_beside_a_busy_system_limits_nothing() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, scaling);
    record.plan.clients = Clients::Apart;
    record.plan.generator_cores = 4;
    with_tasks(&mut record, &[(TaskOwner::Generator, "pgbench", 0.97)]);
    let findings = analyse(&record);
    assert_eq!(findings.generator.unwrap().bottleneck, None);
}

#[test]
fn generator_cores_without_room_limit() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, starved);
    for_requests(&mut record);
    record.plan.generator_cores = 1;
    let halves = [(TaskOwner::Generator, "wrk", 0.48), (TaskOwner::Generator, "wrk", 0.47)];
    with_tasks(&mut record, &halves);
    let generator = analyse(&record).generator.unwrap();
    let Some(Bottleneck::OwnCores { busy, of: 1 }) = generator.bottleneck else {
        panic!("{generator:?}")
    };
    assert!(near(busy.0, 0.95), "{busy:?}");
    record.plan.generator_cores = 2;
    assert_eq!(analyse(&record).generator.unwrap().bottleneck, None);
}

#[test]
fn a_generator_that_takes_more_than_the_system_limits() {
    let shared = |generator: f64| {
        let mut record = empty(&[1, 2], 2);
        sweep(&mut record, 5, |clients| {
            let cell = starved(clients);
            let idle_lock = (cell.idle_lock - generator).max(0.0);
            Cell { idle_lock, generator: if clients == 1 { 0.0 } else { generator }, ..cell }
        });
        for_requests(&mut record);
        analyse(&record).generator.unwrap()
    };
    let Some(Bottleneck::Outweighs { generator, system }) = shared(0.5).bottleneck else {
        panic!("{:?}", shared(0.5))
    };
    assert!(near(generator.0, 0.5) && system.0 < 0.5, "{generator:?} {system:?}");
    assert_eq!(shared(0.2).bottleneck, None);
}

#[test]
fn a_saturated_kernel_worker_is_what_the_device_waits_are_for() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        if let Fact::Wait(wait) = fact {
            wait.key.reason = WaitReason::Device;
        } else if let Fact::Stack(StackWeight { wait: Some(key), .. }) = fact {
            key.reason = WaitReason::Device;
        }
    }
    with_tasks(&mut record, &[(TaskOwner::Kernel, "kworker/u4:1-loop0", 0.98)]);
    let findings = analyse(&record);
    let first = &findings.causes[0];
    assert_eq!(first.name.to_string(), "saturated thread kworker loop0");
    assert_eq!(first.kind, CauseKind::Thread);
    let served = first.evidence.served_by.as_ref().unwrap();
    assert!(served.name == "kworker loop0" && near(served.busiest.0, 0.98), "{served:?}");
    let named = |one: &Conclusion| match one {
        Conclusion::Loss { name: Some(name), .. } => name.to_string().contains("kworker loop0"),
        _ => false,
    };
    assert!(concludes(&findings, named), "{:?}", findings.conclusions);
    let saturated = |one: &CaveatReason| match one {
        CaveatReason::SaturatedThread { name, level, .. } => {
            name == "kworker loop0" && level.clients == 2
        }
        _ => false,
    };
    assert!(says(&findings, saturated), "{:?}", findings.caveats);
}

#[test]
fn waits_for_a_device_name_it_and_say_whether_it_is_full() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    for trial in &mut record.trials {
        for fact in &mut trial.facts {
            if let Fact::Wait(wait) = fact {
                wait.key.reason = WaitReason::Device;
            } else if let Fact::Stack(StackWeight { wait: Some(key), .. }) = fact {
                key.reason = WaitReason::Device;
            }
        }
        let over = Nanos(1_000_000_000);
        let device = |name: &str, busy, time| {
            let (busy, read_time) = (Nanos(busy), Nanos(time));
            let name = name.to_owned();
            Fact::Device(DeviceCounters { name, over, reads: 9, busy, read_time, ..<_>::default() })
        };
        trial.facts.push(device("loop4", 970_000_000, 9_000_000_000));
        trial.facts.push(device("vda", 10_000_000, 10_000_000));
    }
    with_tasks(&mut record, &[(TaskOwner::Kernel, "kworker/u4:1-loop4", 0.4)]);
    let findings = analyse(&record);
    let first = &findings.causes[0];
    assert_eq!((first.kind, first.name.to_string().as_str()), (CauseKind::Device, "device loop4"));
    let [device] = &first.evidence.devices[..] else { panic!("{:?}", first.evidence) };
    assert!(device.name == "loop4" && device.full, "{device:?}");
    assert!(near(device.busy.0, 0.97) && near(device.in_flight.0, 9.0), "{device:?}");
    let [worker] = &first.evidence.workers[..] else { panic!("{:?}", first.evidence) };
    assert!(worker.name == "kworker loop4" && near(worker.cores.0, 0.4), "{worker:?}");
    let named = |one: &Conclusion| {
        matches!(one, Conclusion::Loss { kind: CauseKind::Device, name: Some(name), .. }
            if *name == Name::from("loop4"))
    };
    assert!(concludes(&findings, named), "{:?}", findings.conclusions);
}

#[test]
fn busy_client_threads_and_half_busy_workers_are_not_saturated() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 5, locked);
    let tasks = [(TaskOwner::System, "client", 0.99), (TaskOwner::Kernel, "kworker/0:1", 0.5)];
    with_tasks(&mut record, &tasks);
    let findings = analyse(&record);
    let saturated = |one: &CaveatReason| matches!(one, CaveatReason::SaturatedThread { .. });
    assert!(!says(&findings, saturated), "{:?}", findings.caveats);
    let lines = &findings.instruments[0].tasks;
    assert_eq!((lines[0].name.as_str(), lines[1].name.as_str()), ("client", "kworker"));
}

/// One writer is cheap; two spin for the inode, sleep for it, or both.
fn inode(spin: f64, sleep: f64) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let lock = ["rwsem_down_write_slowpath", "down_write", "shmem_file_write_iter", "vfs_write"];
    let spinning = [&["osq_lock", "rwsem_optimistic_spin"], &lock[..], &["__x64_sys_pwrite64"]];
    record.stacks[1].frames = kernel_frames(&spinning.concat());
    record.stacks[2].frames = kernel_frames(&[&["schedule"], &lock[..]].concat());
    record.stacks[3].frames =
        kernel_frames(&["copy_page", "shmem_file_write_iter", "__x64_sys_pwrite64"]);
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { system: 0.9, idle_uncharged: 1.1, on_cpu: vec![(3, 0.9)], ..Cell::default() },
        _ => Cell {
            system: 0.9 + spin,
            idle_lock: sleep,
            idle_uncharged: 1.1 - spin - sleep,
            blocked: if sleep > 0.0 { 2.0 - 0.9 - spin } else { 0.0 },
            runnable: if sleep > 0.0 { 0.0 } else { 1.1 - spin },
            on_cpu: vec![(3, 0.9), (1, spin)],
            waits: 20_000.0 * sleep,
            ..Cell::default()
        },
    });
    for key in wait_keys(&mut record) {
        key.reason = WaitReason::KernelLock;
        key.syscall = 18;
    }
    record
}

fn the_inode(findings: &Findings) -> &findings::Cause {
    let kernel = findings.causes.iter().filter(|cause| cause.kind == CauseKind::KernelLock);
    assert_eq!(kernel.count(), 1, "{:#?}", findings.causes);
    let first = &findings.causes[0];
    assert_eq!(first.name.to_string(), "inode rwsem (shmem_file_write_iter)");
    first
}

/// Cores that spin for it.
fn spins(cause: &findings::Cause) -> Option<f64> {
    match &cause.evidence.charge {
        Charge::Wait { wait } => wait.work.filter(|work| work.spins).map(|work| work.cores.0),
        _ => None,
    }
}

#[test]
fn spinning_for_a_kernel_lock_is_the_lock_s_and_not_the_system_call_s() {
    let findings = analyse(&inode(1.0, 0.0));
    let lock = the_inode(&findings);
    assert!((lock.lost.value.0 - 1.0).abs() < 0.03, "{:?}", lock.lost);
    let spins = spins(lock).unwrap();
    assert!((spins - 1.0).abs() < 0.03, "{spins}");
    assert!(lock.stacks.is_some() && lock.waits.is_none());
    assert!(findings.causes.iter().all(|cause| !cause.name.to_string().contains("pwrite64")));
    let named = |one: &Conclusion| {
        matches!(one, Conclusion::Loss { kind: CauseKind::KernelLock, name: Some(name), .. }
            if name.to_string().starts_with("inode rwsem"))
    };
    assert!(concludes(&findings, named), "{:?}", findings.conclusions);
}

#[test]
fn sleeping_for_a_kernel_lock_is_the_lock_s() {
    let findings = analyse(&inode(0.0, 1.1));
    let lock = the_inode(&findings);
    assert!((lock.lost.value.0 - 1.1).abs() < 0.03, "{:?}", lock.lost);
    assert!((lock.waits.unwrap().value.0 - 22_000.0).abs() < 1.0);
}

#[test]
fn spinning_and_sleeping_for_one_kernel_lock_are_one_cause() {
    let findings = analyse(&inode(0.6, 0.5));
    let lock = the_inode(&findings);
    assert!((lock.lost.value.0 - 1.1).abs() < 0.03, "{:?}", lock.lost);
    assert!(spins(lock).is_some() && lock.waits.is_some());
    let focus = findings.ledgers.iter().find(|l| l.level == findings.focus).unwrap();
    let lines = focus.core.lines.iter().filter(|l| l.cause.as_deref() == Some(lock.id.as_str()));
    assert_eq!(lines.count(), 3, "idle for it, spinning for it, and the call that takes it");
}

#[test]
fn those_who_spin_elsewhere_want_the_only_lock_of_the_kind_that_is_slept_for() {
    let mut record = inode(0.6, 0.5);
    let spinning = ["osq_lock", "rwsem_optimistic_spin", "rwsem_down_write_slowpath", "down_write"];
    let elsewhere = [&spinning[..], &["vfs_fallocate", "__x64_sys_fallocate"]].concat();
    record.stacks[1].frames = kernel_frames(&elsewhere);
    let lock = analyse(&record);
    assert!((the_inode(&lock).lost.value.0 - 1.1).abs() < 0.03, "{:#?}", lock.causes);
    let memory = [&spinning[..], &["__vm_munmap", "__x64_sys_munmap"]].concat();
    record.stacks[1].frames = kernel_frames(&memory);
    let of_two = analyse(&record);
    let locks = of_two.causes.iter().filter(|cause| cause.kind == CauseKind::KernelLock);
    assert_eq!(locks.count(), 2, "another kind of lock: {:#?}", of_two.causes);
}

#[test]
fn spinning_belongs_to_a_lock_that_the_kernel_names() {
    let mut record = inode(0.6, 0.5);
    for key in wait_keys(&mut record) {
        key.object_name = Some("inode rwsem".to_owned());
    }
    let findings = analyse(&record);
    let lock = the_inode(&findings);
    assert!((lock.lost.value.0 - 1.1).abs() < 0.03, "{:?}", lock.lost);
}

/// A sweep over 2, 4 and 8 cores; `throughput` by clients and cores.
fn over_cores(blocks: u32, throughput: impl Fn(u32, u32) -> f64) -> RunRecord {
    let mut record = empty(&[1], 8);
    let levels = [2_u32, 4, 8].iter().flat_map(|cores| {
        [1_u32, 4, 8].iter().map(|clients| Level { clients: *clients, cores: *cores })
    });
    record.plan.levels = levels.collect();
    record.plan.levels.sort_unstable();
    record.plan.focus = Level { clients: 8, cores: 8 };
    for block in 0..blocks {
        for level in record.plan.levels.clone() {
            let busy = f64::from(level.clients.min(level.cores));
            let cell = Cell {
                throughput: throughput(level.clients, level.cores)
                    * wobble(block, level.clients * 100 + level.cores),
                system: busy,
                idle_uncharged: f64::from(level.cores) - busy,
                runnable: f64::from(level.clients) - busy,
                on_cpu: vec![(0, busy)],
                ..Cell::default()
            };
            let mut one = trial(Phase::Sweep, block, VariantId::BASELINE, 0, level.clients, &cell);
            one.id.level = level;
            for fact in &mut one.facts {
                if let Fact::CoreTime(core) = fact {
                    core.cores = level.cores;
                    core.total = nanos(f64::from(level.cores));
                }
            }
            record.trials.push(one);
        }
    }
    record
}

#[test]
fn every_number_of_cores_has_its_curve() {
    let record = over_cores(5, |clients, cores| 1000.0 * f64::from(clients.min(cores)));
    let findings = analyse(&record);
    assert_eq!(findings.by_cores.iter().map(|one| one.cores).collect::<Vec<_>>(), [2, 4, 8]);
    assert_eq!(findings.curve, findings.by_cores[2].curve);
    assert!(findings.curve.points.iter().all(|point| point.level.cores == 8));
    assert_eq!(findings.by_cores[0].curve.knee.level, Level { clients: 4, cores: 2 });
    let ratios = findings.by_cores.iter().map(|one| one.over_fewest);
    for (ratio, truth) in ratios.zip([1.0, 2.0, 4.0]) {
        assert!((ratio.value.0 / truth - 1.0).abs() < 0.03, "{ratio:?}");
        assert!(ratio.low <= ratio.value && ratio.value <= ratio.high);
    }
    assert_eq!(findings.ledgers.len(), 9);
    for ledger in &findings.ledgers {
        let sum: f64 = ledger.core.lines.iter().map(|line| line.cores.value.0).sum();
        assert!((sum - f64::from(ledger.level.cores)).abs() < 1e-6, "{ledger:?}");
    }
    assert!(!concludes(&findings, is_fewer_cores), "{:?}", findings.conclusions);
    assert_eq!(findings.curve.knee.level.cores, 8);
}

fn is_fewer_cores(one: &Conclusion) -> bool {
    matches!(one, Conclusion::FewerCores { cores: 4, than: 8, .. })
}

#[test]
fn fewer_cores_that_are_faster_are_said_so() {
    let best_at_four = |_: u32, cores: u32| [500.0, 1300.0, 1000.0][cores as usize / 4];
    let findings = analyse(&over_cores(5, best_at_four));
    assert!(concludes(&findings, is_fewer_cores), "{:?}", findings.conclusions);
    let faster = |one: &CaveatReason| match one {
        CaveatReason::FewerCoresFaster { cores: 4, than: 8, ratio } => {
            (ratio.value.0 - 1.3).abs() < 0.05
        }
        _ => false,
    };
    assert!(says(&findings, faster), "{:?}", findings.caveats);
    let alike = analyse(&over_cores(5, |_, cores| if cores == 4 { 1001.0 } else { 1000.0 }));
    assert!(!concludes(&alike, is_fewer_cores), "{:?}", alike.conclusions);
}

#[test]
fn imported_results_have_a_curve_and_are_trusted_with_warnings() {
    let mut record = empty(&[1, 2, 4, 8, 16], 8);
    record.plan.protocol = ProtocolName::Imported;
    record.plan.variants.push(variant("patched", VariantRole::Treatment, VariantId::BASELINE));
    sweep(&mut record, 1, |clients| Cell {
        throughput: 1000.0 * f64::from(clients) / (1.0 + 0.4 * f64::from(clients - 1)),
        ..Cell::default()
    });
    for trial in &mut record.trials {
        trial.facts.clear();
        trial.latency = None;
    }
    let findings = analyse(&record);
    assert!(findings.trustworthy, "{:?}", findings.caveats);
    let imported = CaveatReason::Imported { results: 5, levels: 5 };
    assert!(says(&findings, |one| *one == imported));
    assert!(says(&findings, |one| *one == CaveatReason::SingleRepetition));
    assert_eq!(findings.curve.points.len(), 5);
    assert_eq!(findings.curve.fits.len(), 2);
    assert_eq!(findings.protocol.name, ProtocolName::Imported);
    assert_eq!(findings.protocol.precision, None);
    assert!(findings.ledgers.is_empty() && findings.causes.is_empty());
    record.end = None;
    assert!(analyse(&record).trustworthy);
}

#[test]
fn one_published_repetition_has_no_interval_and_two_have_a_precision() {
    let mut record = empty(&[1, 2], 2);
    record.plan.protocol = ProtocolName::Published;
    sweep(&mut record, 1, locked);
    let once = analyse(&record);
    assert_eq!(once.protocol.precision, None);
    assert!(says(&once, |one| *one == CaveatReason::SingleRepetition));
    record.trials.clear();
    sweep(&mut record, 4, locked);
    let repeated = analyse(&record);
    let precision = repeated.protocol.precision.unwrap();
    let peak = repeated.curve.points.iter().find(|p| p.level == repeated.curve.peak).unwrap();
    let share = peak.throughput.half_width() / peak.throughput.value.0;
    assert!((precision.0 - share).abs() < 1e-12 && precision.0 > 0.0);
    assert!(!says(&repeated, |one| *one == CaveatReason::SingleRepetition));
}

fn counted(generator: u64, server: u64) -> Findings {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 3, scaling);
    for trial in &mut record.trials {
        let counter = "xact_commit".to_owned();
        trial.counts = Some(CountCheck { counter, generator, server });
    }
    analyse(&record)
}

#[test]
fn counts_that_differ_are_not_trusted() {
    let findings = counted(10_000, 10_300);
    let counts = findings.counts.as_ref().unwrap();
    assert_eq!((counts.trials, counts.counter.as_str()), (6, "xact_commit"));
    assert!((counts.worst.0 - 0.03).abs() < 1e-9);
    let gravest = &findings.caveats[0].reason;
    let CaveatReason::CountsDiffer { off } = gravest else { panic!("{gravest:?}") };
    assert!(!findings.trustworthy && near(off.0, 0.03), "{off:?}");
    assert!(counted(10_000, 10_050).trustworthy);
}

#[test]
fn operations_in_flight_are_no_disagreement() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 3, scaling);
    for trial in &mut record.trials {
        trial.operations = 40;
        let counter = "xact_commit".to_owned();
        trial.counts = Some(CountCheck { counter, generator: 40, server: 41 });
    }
    let findings = analyse(&record);
    assert!(findings.trustworthy, "{:?}", findings.caveats);
    assert!((findings.counts.unwrap().worst.0 - 0.025).abs() < 1e-9);
}

#[test]
fn instruments_are_means_over_the_sweep() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 2, scaling);
    for (number, trial) in record.trials.iter_mut().enumerate() {
        trial.facts.push(Fact::Machine(MachineCounters {
            over: nanos(1.0),
            runnable: Count(3.0),
            readings: 5,
            switches: 4000,
            interrupts: 2000,
            user: nanos(1.0),
            system: nanos(0.5),
            idle: nanos(0.4),
            iowait: nanos(0.1),
            cores: 2,
            ..MachineCounters::default()
        }));
        trial.facts.push(Fact::Pressure(Pressure {
            resource: "io".to_owned(),
            scope: "machine".to_owned(),
            over: nanos(1.0),
            some: nanos(0.25),
            full: nanos(0.125),
        }));
        // The device is used in the first block only.
        if number < 2 {
            trial.facts.push(Fact::Device(DeviceCounters {
                name: "loop0".to_owned(),
                over: nanos(1.0),
                writes: 100,
                written_bytes: 409_600,
                write_time: Nanos(100 * 500 * MICRO),
                busy: nanos(0.5),
                ..DeviceCounters::default()
            }));
        }
    }
    let findings = analyse(&record);
    assert_eq!(findings.instruments.len(), 2);
    let level = &findings.instruments[1];
    let vmstat = level.vmstat.unwrap();
    assert!((vmstat.user.0 - 0.5).abs() < 1e-9 && (vmstat.sum.0 - 1.0).abs() < 1e-9);
    assert!((vmstat.switches.0 - 4000.0).abs() < 1e-9);
    let device = &level.devices[0];
    assert!((device.writes.0 - 50.0).abs() < 1e-9, "idle in one of two slices");
    assert!((device.response.unwrap().0 - 500e-6).abs() < 1e-12);
    assert!((device.in_flight.0 - 0.025).abs() < 1e-9 && (device.busy.0 - 0.25).abs() < 1e-9);
    assert!((level.pressure[0].some.0 - 0.25).abs() < 1e-9);
}

//! Live: loads whose ledger is known, under the eBPF tier.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

#[cfg(test)]
mod common;
#[cfg(test)]
#[path = "common/test_threads.rs"]
mod test_threads;

use common::{alone, assert_closed, cores, probe, ratio, waits, window};
use kneepoint_probe::{CpuMeter, Observation, Probe, Target};
use kneepoint_vocab::{Tier, Wait, WaitReason};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use test_threads::{TestThreads, compute, load_group};

const WINDOW: Duration = Duration::from_millis(700);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Whether running time agrees with schedstat within 3 %, or within 8 ms a thread. The kernel takes
/// out of schedstat what the hypervisor stole from a running thread, and books it in whole ticks
/// as steal; to the programs the thread ran.
fn agrees_with_schedstat(seen: &Observation) -> bool {
    let group = load_group(seen);
    let counted = group.schedstat_running.expect("all threads live through the window").0;
    let error = group.running.0.abs_diff(counted);
    let stolen = if group.running.0 > counted { cores(seen).steal.0 } else { 0 };
    let error = error.saturating_sub(stolen);
    ratio(error, counted.max(1)) < 0.03 || error < 8_000_000 * u64::from(group.threads)
}

/// A window that closes and agrees with schedstat. The kernel brings a running thread's count up
/// to date at ticks and switches only, so an edge at which a virtual CPU is paused by its host can
/// lag by as long as the pause: one window in eight must agree. Windows that other processes had a
/// good part of do not count: at their switches the two clocks part.
fn agreeing_window(test: &str, probe: &mut Probe, target: &Target) -> Observation {
    let mut quiet = 0;
    for _ in 0..7 {
        let seen = window(probe, target, WINDOW);
        assert_closed(test, &seen);
        if agrees_with_schedstat(&seen) {
            return seen;
        }
        let cores = cores(&seen);
        quiet += u32::from(ratio(cores.others.0, cores.total.0) < 0.03);
    }
    let seen = window(probe, target, WINDOW);
    assert_closed(test, &seen);
    let agrees = agrees_with_schedstat(&seen);
    if !agrees && quiet == 0 {
        println!("SKIP {test} agrees with schedstat: needs cores with little else running");
        return seen;
    }
    assert!(agrees, "{test}: {:?}", load_group(&seen));
    seen
}

#[test]
fn computing_threads_run() {
    let _alone = alone();
    let Some(mut probe) = probe("computing", Tier::Full, false) else { return };
    let test_threads =
        TestThreads::start(vec![Box::new(|| compute(ms(1))), Box::new(|| compute(ms(1)))]);
    let seen = agreeing_window("computing", &mut probe, &test_threads.target());
    let group = load_group(&seen);
    assert_eq!(group.threads, 2);
    assert!(ratio(group.blocked.0, group.existed.0) < 0.02, "{group:?}");
}

#[test]
fn sleepers_wait_for_a_timer() {
    let _alone = alone();
    let Some(mut probe) = probe("sleeping", Tier::Full, false) else { return };
    let test_threads = TestThreads::start(vec![Box::new(|| std::thread::sleep(ms(2)))]);
    let seen = window(&mut probe, &test_threads.target(), WINDOW);
    assert_closed("sleeping", &seen);
    let waits = waits(&seen);
    let timer = waits.iter().find(|wait| wait.name == "load").unwrap();
    assert_eq!(timer.key.reason, WaitReason::Timer);
    // It sleeps or stands in line for a core, whoever else wants one.
    let group = load_group(&seen);
    let queued = group.runnable_woken.0 + group.runnable_preempted.0;
    assert!(ratio(timer.blocked.0, group.existed.0 - queued) > 0.7, "{group:?}");
    assert!(timer.count > 10 && timer.blocked.0 > timer.count * 1_900_000, "{timer:?}");
}

#[test]
fn a_held_lock_is_charged_with_the_idle_core() {
    let _alone = alone();
    let Some(mut probe) = probe("lock", Tier::Full, true) else { return };
    let lock = Arc::new(Mutex::new(0_u64));
    let work = |lock: Arc<Mutex<u64>>| -> Box<dyn FnMut() + Send> {
        Box::new(move || {
            let mut held = lock.lock().unwrap();
            compute(ms(1));
            *held += 1;
            drop(held);
            compute(Duration::from_micros(20));
        })
    };
    let test_threads = TestThreads::start((0..4).map(|_| work(Arc::clone(&lock))).collect());
    let mut quiet = 0;
    for round in 0..6 {
        let test = format!("lock {round}");
        let seen = agreeing_window(&test, &mut probe, &test_threads.target());
        let waits = waits(&seen);
        let lock: Vec<_> =
            waits.iter().filter(|w| w.name == "load" && w.key.syscall == 202).collect();
        let blocked: u64 = lock.iter().map(|wait| wait.blocked.0).sum();
        assert!(ratio(blocked, load_group(&seen).blocked.0) > 0.97, "{lock:?}");
        let named: Vec<_> = lock.iter().filter(|wait| wait.count > 10).collect();
        let as_called =
            named.iter().all(|wait| matches!(wait.key.reason, WaitReason::Futex { .. }));
        assert!(as_called, "{named:?}");
        let charged: u64 = lock.iter().map(|wait| wait.idle_charged.0).sum();
        let cores = cores(&seen);
        // The reader of the stacks is a thread of this process, so its timer ends stretches too.
        let reader = waits.iter().filter(|wait| wait.name == "stack-reader");
        let others: u64 = reader.map(|wait| wait.idle_charged.0).sum();
        let share = ratio(charged, (cores.idle.0 - others).max(1));
        println!("{test}: {share:.3} of {:.3} idle core-s", cores.idle.seconds().0);
        if cores.cores == 2 && ratio(cores.others.0, cores.total.0) < 0.1 {
            assert!(share > 0.5, "{test}: {share} {cores:?}");
            quiet += 1;
        }
    }
    if quiet == 0 {
        println!("SKIP idle core charged to a lock: needs two cores with little else running");
    }
}

/// No comparison with schedstat here: where each wake-up ends the idling of the other core, the
/// kernel books the way out of idling on the thread, microseconds a switch; the programs do not.
#[test]
fn pipe_partners_wait_for_a_pipe() {
    let _alone = alone();
    let Some(mut probe) = probe("pipe", Tier::Full, false) else { return };
    let (mut from_a, mut to_b) = std::io::pipe().unwrap();
    let (mut from_b, mut to_a) = std::io::pipe().unwrap();
    to_b.write_all(&[1]).unwrap();
    let test_threads = TestThreads::start(vec![
        Box::new(move || {
            let mut byte = [0];
            if from_a.read(&mut byte).is_ok_and(|count| count == 1) {
                let _ = to_a.write_all(&byte);
            }
        }),
        Box::new(move || {
            let mut byte = [0];
            if from_b.read(&mut byte).is_ok_and(|count| count == 1) {
                let _ = to_b.write_all(&byte);
            }
        }),
    ]);
    let seen = window(&mut probe, &test_threads.target(), WINDOW);
    assert_closed("pipe", &seen);
    let waits = waits(&seen);
    let pipe: u64 = waits
        .iter()
        .filter(|wait| wait.name == "load" && wait.key.reason == WaitReason::Pipe)
        .map(|wait| wait.blocked.0)
        .sum();
    assert!(ratio(pipe, load_group(&seen).blocked.0) > 0.95, "{waits:?}");
}

/// Waits are summed by thread and only now and then by cause, and what they wait for is read in
/// the cheapest way: no time may get lost between the two, nor a cause.
#[test]
fn waits_for_many_things_add_up_to_the_blocked_time() {
    let _alone = alone();
    let Some(mut probe) = probe("many waits", Tier::Full, false) else { return };
    let locks: Arc<Vec<Mutex<()>>> = Arc::new((0..6).map(|_| Mutex::new(())).collect());
    let work = |locks: Arc<Vec<Mutex<()>>>, step: usize| -> Box<dyn FnMut() + Send> {
        let mut turn = 0;
        Box::new(move || {
            turn += step;
            let held = locks[turn % locks.len()].lock().unwrap();
            std::thread::sleep(Duration::from_micros(200));
            drop(held);
        })
    };
    let test_threads =
        TestThreads::start([1, 5, 1, 5].map(|step| work(Arc::clone(&locks), step)).into());
    let seen = window(&mut probe, &test_threads.target(), WINDOW);
    assert_closed("many waits", &seen);
    let waits: Vec<_> = waits(&seen).into_iter().filter(|wait| wait.name == "load").collect();
    let of = |call: i32| waits.iter().filter(move |wait| wait.key.syscall == call);
    let blocked = |found: &mut dyn Iterator<Item = &&Wait>| found.map(|w| w.blocked.0).sum::<u64>();
    let (locked, slept) = (blocked(&mut of(202)), blocked(&mut of(35)) + blocked(&mut of(230)));
    let all = load_group(&seen).blocked.0;
    let sum = locked + slept;
    println!("many waits: locks {locked}, sleep {slept} of {all} ns");
    assert!((ratio(sum, all) - 1.0).abs() < 0.005, "{sum} of {all}: {waits:?}");
    for lock in locks.iter() {
        let word = std::ptr::from_ref(lock) as u64;
        let found = of(202).any(|wait| (word..word + 8).contains(&wait.key.object));
        assert!(found, "each lock is a cause: {word} {waits:?}");
    }
}

#[test]
fn short_lived_threads_are_not_lost() {
    let _alone = alone();
    let Some(mut probe) = probe("churn", Tier::Full, false) else { return };
    let test_threads = TestThreads::start(vec![Box::new(|| {
        let spawn = |_| {
            let builder = std::thread::Builder::new().name("brief".to_owned());
            builder.spawn(|| compute(Duration::from_micros(50))).unwrap()
        };
        (0..4).map(spawn).collect::<Vec<_>>().into_iter().for_each(|one| one.join().unwrap());
    })]);
    let seen = window(&mut probe, &test_threads.target(), WINDOW);
    assert_closed("churn", &seen);
    let groups = common::groups(&seen);
    let born: u32 = groups.iter().filter(|g| g.name == "brief").map(|g| g.threads).sum();
    assert!(born > 100, "{born}");
    let running: u64 = groups.iter().map(|group| group.running.0).sum();
    let system = cores(&seen).system.0;
    assert!((ratio(running, system) - 1.0).abs() < 0.03, "threads {running}, cores {system}");
}

/// A shell running `script` until dropped.
struct Shell(std::process::Child);

impl Shell {
    fn start(script: &str) -> Self {
        let mut command = std::process::Command::new("sh");
        Self(command.args(["-c", script]).spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn generators_and_children_are_distinguished() {
    let _alone = alone();
    let Some(mut probe) = probe("children", Tier::Full, false) else { return };
    let system = Shell::start("while :; do (:); done");
    let generator = Shell::start("while :; do :; done");
    let target = Target {
        pids: vec![system.0.id()],
        generators: vec![generator.0.id()],
        ..Target::default()
    };
    let meter = CpuMeter::start(&target);
    let seen = window(&mut probe, &target, WINDOW);
    let reading = meter.finish();
    assert_closed("children", &seen);
    println!("children: {reading:?}");
    let shells: Vec<_> = common::groups(&seen).into_iter().filter(|g| g.name == "sh").collect();
    let born: u32 = shells.iter().map(|group| group.threads).sum();
    assert!(born > 10, "children are followed: {shells:?}");
    let running: u64 = shells.iter().map(|group| group.running.0).sum();
    let cores = cores(&seen);
    assert!((ratio(running, cores.system.0) - 1.0).abs() < 0.03, "{running} {cores:?}");
    assert!(cores.generator.0 > 1_000_000, "{cores:?}");
    assert!(reading.generator_cpu.0 > 1_000_000 && reading.system_cpu.0 > 0, "{reading:?}");
}

/// Puts a thread on this CPU and no other.
fn pin(tid: u32, cpu: u32) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    let tid = rustix::thread::Pid::from_raw(tid.cast_signed());
    rustix::thread::sched_setaffinity(tid, &set).expect("an own thread may be pinned");
}

/// In both tiers and without any: a window about one CPU accounts for that CPU alone.
#[test]
fn a_window_about_one_cpu_accounts_for_that_cpu() {
    let _alone = alone();
    let cpu = *kneepoint_probe::proc::tasks::allowed_cpus().last().unwrap();
    for tier in [Tier::Full, Tier::Fallback] {
        let test = format!("one cpu, {tier:?}");
        let Some(mut probe) = probe(&test, tier, false) else { continue };
        let test_threads =
            TestThreads::start(vec![Box::new(|| compute(ms(1))), Box::new(|| compute(ms(1)))]);
        test_threads.tids.iter().for_each(|tid| pin(*tid, cpu));
        let target = Target { cpus: vec![cpu], ..test_threads.target() };
        let meter = CpuMeter::start(&target);
        let seen = window(&mut probe, &target, WINDOW);
        let reading = meter.finish();
        assert_closed(&test, &seen);
        let cores = cores(&seen);
        assert_eq!((cores.cores, reading.cores), (1, 1));
        assert_eq!(cores.total, seen.length, "one core for the length of the window");
        assert!(ratio(cores.idle.0, cores.total.0) < 0.1, "{test}: {cores:?}");
        println!("{test}: {reading:?}");
        assert!(reading.others.0 <= 1.0, "{test}: {reading:?}");
        let parts = [reading.system_cpu, reading.generator_cpu, reading.kneepoint_cpu];
        let sum = parts.into_iter().map(|part| part.0).sum::<u64>() + reading.kernel_cpu.0;
        assert!(ratio(sum, reading.length.0) < 1.1, "{test}: {reading:?}");
    }
}

/// BPF links that this process holds open.
fn links() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("own descriptors").flatten();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("bpf_link")).count()
}

#[test]
fn windows_follow_each_other_cleanly_and_programs_come_off() {
    let _alone = alone();
    let Some(mut probe) = probe("windows", Tier::Full, false) else { return };
    let test_threads = TestThreads::start(vec![Box::new(|| std::thread::sleep(ms(1)))]);
    let target = test_threads.target();
    assert!(probe.close().is_err(), "no window is open");
    for round in 0..4 {
        let seen = window(&mut probe, &target, ms(150));
        assert_closed(&format!("windows {round}"), &seen);
        assert_eq!(load_group(&seen).threads, 1);
    }
    assert_eq!(links(), 0, "the kernel holds no link between windows");
    probe.open(&target).unwrap();
    assert!(links() >= 4, "{}", links());
    assert!(probe.open(&target).is_err() && probe.detach().is_err());
    std::thread::sleep(ms(150));
    probe.freeze().unwrap();
    let begin = std::time::Instant::now();
    assert_closed("windows again", &probe.collect().unwrap());
    println!("windows: collected after {:?}", begin.elapsed());
    assert_eq!(links(), 0);
    probe.reattach().unwrap();
    assert!(links() >= 4, "attached without a window");
    probe.detach().unwrap();
    assert_eq!(links(), 0);
}

#[test]
fn the_fallback_tier_sees_the_same() {
    let _alone = alone();
    let Some(mut fallback) = probe("fallback", Tier::Fallback, false) else { return };
    let lock = Arc::new(Mutex::new(()));
    let work = |lock: Arc<Mutex<()>>| -> Box<dyn FnMut() + Send> {
        Box::new(move || {
            let held = lock.lock().unwrap();
            compute(ms(2));
            drop(held);
            std::thread::sleep(ms(1));
        })
    };
    let test_threads = TestThreads::start((0..4).map(|_| work(Arc::clone(&lock))).collect());
    let target = test_threads.target();
    let full = probe("fallback against full", Tier::Full, false);
    fallback.open(&target).unwrap();
    let other = full.map(|mut full| window(&mut full, &target, ms(1500)));
    let seen = fallback.close().unwrap();
    assert_closed("fallback", &seen);
    let Some(other) = other else { return };
    assert_closed("full", &other);
    let share = |seen: &Observation| {
        let group = load_group(seen);
        let blocked: u64 = waits(seen)
            .iter()
            .filter(|wait| wait.name == "load" && wait.key.syscall == 202)
            .map(|wait| wait.blocked.0)
            .sum();
        let existed = group.existed.0;
        [ratio(group.running.0, existed), ratio(group.blocked.0, existed), ratio(blocked, existed)]
    };
    let (one, two) = (share(&seen), share(&other));
    println!("fallback {one:?}, full {two:?}: running, blocked, blocked on the lock, of life");
    for (one, two) in one.into_iter().zip(two) {
        assert!((one - two).abs() < 0.1, "the same window, two tiers: {one} {two}");
    }
}

//! An experiment: who is right where `schedstat` and the collector differ about running time. The
//! threads time by their own clock what they compute; cores may idle or are kept from it.

#![allow(clippy::print_stdout, reason = "prints what was measured")]

#[cfg(test)]
mod common;
#[cfg(test)]
#[path = "common/test_threads.rs"]
mod test_threads;

use common::{alone, assert_closed, probe, waits, window};
use kneepoint_vocab::Tier;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use test_threads::{TestThreads, compute, load_group};

const WINDOW: Duration = Duration::from_millis(1500);

type Work = Box<dyn FnMut() + Send>;
type Clock = Arc<Mutex<Vec<u64>>>;

/// Computes 100 us, and notes how long that took by the thread's own clock.
fn timed(clock: &Clock) {
    let begin = Instant::now();
    compute(Duration::from_micros(100));
    clock.lock().expect("no thread panics").push(begin.elapsed().subsec_nanos().into());
}

/// One thread that sleeps 1 ms for each operation.
fn sleeper(clock: &Clock) -> Vec<Work> {
    let clock = Arc::clone(clock);
    vec![Box::new(move || {
        std::thread::sleep(Duration::from_millis(1));
        timed(&clock);
    })]
}

/// Four threads and one lock that is held for 100 us.
fn queue(clock: &Clock) -> Vec<Work> {
    let lock = Arc::new(Mutex::new(()));
    let work = |_| {
        let (lock, clock) = (Arc::clone(&lock), Arc::clone(clock));
        Box::new(move || {
            let held = lock.lock().expect("no thread panics");
            timed(&clock);
            drop(held);
        }) as Work
    };
    (0..4).map(work).collect()
}

/// Loops of the lowest class, which run where a core would idle.
fn spinners(count: usize) -> Vec<Child> {
    let spin = |_| {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", "sh", "-c", "while :; do :; done"]).spawn().expect("chrt")
    };
    (0..count).map(spin).collect()
}

#[allow(clippy::cast_precision_loss, reason = "microseconds to print")]
fn measure(name: &str, works: fn(&Clock) -> Vec<Work>) {
    let Some(mut probe) = probe(name, Tier::Full, false) else { return };
    let clock = Clock::default();
    let test_threads = TestThreads::start(works(&clock));
    std::thread::sleep(Duration::from_millis(200));
    clock.lock().expect("no thread panics").clear();
    let seen = window(&mut probe, &test_threads.target(), WINDOW);
    let mut own = std::mem::take(&mut *clock.lock().expect("no thread panics"));
    own.sort_unstable();
    assert_closed(name, &seen);
    let group = load_group(&seen);
    let operations = own.len() as f64;
    let each = |ns: u64| ns as f64 / operations / 1000.0;
    let count: u64 = waits(&seen).iter().filter(|w| w.name == "load").map(|w| w.count).sum();
    println!(
        "RESULT {name}: {} operations, {count} waits; us for each: own clock {:.1}, \
         collector {:.1}, schedstat {:.1}; cores idle {:.2}, steal {:.2}",
        own.len(),
        own[own.len() / 2] as f64 / 1000.0,
        each(group.running.0),
        each(group.schedstat_running.map_or(0, |time| time.0)),
        common::ratio(common::cores(&seen).idle.0, seen.length.0),
        common::ratio(common::cores(&seen).steal.0, seen.length.0),
    );
}

#[test]
#[ignore = "an experiment on a quiet machine, as root: prints three clocks side by side"]
fn three_clocks() {
    let _alone = alone();
    for round in 0..2 {
        measure(&format!("sleeper, cores idle {round}"), sleeper);
        measure(&format!("queue, cores idle {round}"), queue);
        let mut spinning = spinners(kneepoint_probe::proc::tasks::allowed_cpus().len());
        std::thread::sleep(Duration::from_millis(100));
        measure(&format!("sleeper, no core idles {round}"), sleeper);
        measure(&format!("queue, no core idles {round}"), queue);
        for child in &mut spinning {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

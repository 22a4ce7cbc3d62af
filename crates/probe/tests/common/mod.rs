//! Attaching a probe, windows, and readers of what they brought.

use kneepoint_probe::{Observation, Probe, ProbeOptions, Target};
use kneepoint_vocab::{CoreTime, Fact, ThreadTime, Tier, Wait};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Only one live test at a time: they all watch this process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A probe of this tier, or `None` after printing why the test is skipped.
pub(crate) fn probe(test: &str, tier: Tier, stacks: bool) -> Option<Probe> {
    let options = ProbeOptions { tier: Some(tier), stacks, ..ProbeOptions::default() };
    match Probe::attach(&options) {
        Ok((probe, remarks)) => {
            println!("{test}: remarks {remarks:?}");
            Some(probe)
        }
        Err(error) => {
            println!("SKIP {test}: bpf: {error}");
            None
        }
    }
}

/// One window of this length.
pub(crate) fn window(probe: &mut Probe, target: &Target, length: Duration) -> Observation {
    probe.open(target).unwrap();
    std::thread::sleep(length);
    probe.close().unwrap()
}

pub(crate) fn groups<'a>(seen: &'a Observation) -> Vec<&'a ThreadTime> {
    let of = |fact: &'a Fact| if let Fact::ThreadTime(group) = fact { Some(group) } else { None };
    seen.facts.iter().filter_map(of).collect()
}

pub(crate) fn waits<'a>(seen: &'a Observation) -> Vec<&'a Wait> {
    let of = |fact: &'a Fact| if let Fact::Wait(wait) = fact { Some(wait) } else { None };
    seen.facts.iter().filter_map(of).collect()
}

pub(crate) fn cores(seen: &Observation) -> CoreTime {
    let of = |fact: &Fact| if let Fact::CoreTime(cores) = fact { Some(*cores) } else { None };
    seen.facts.iter().find_map(of).expect("core accounting")
}

#[allow(clippy::cast_precision_loss, reason = "ratios of lengths of seconds")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Both ledgers close within 2 %.
pub(crate) fn assert_closed(test: &str, seen: &Observation) {
    for group in groups(seen) {
        let states =
            group.running.0 + group.runnable_woken.0 + group.runnable_preempted.0 + group.blocked.0;
        let closure = ratio(states, group.existed.0.max(1));
        println!(
            "{test}: {:?} {} x{} closes to {closure:.5}: run {:.4} rq {:.4} blk {:.4} s, \
             schedstat {:?} {:?}",
            group.role,
            group.name,
            group.threads,
            group.running.seconds().0,
            group.runnable_woken.seconds().0 + group.runnable_preempted.seconds().0,
            group.blocked.seconds().0,
            group.schedstat_running,
            group.schedstat_runnable,
        );
        assert!((closure - 1.0).abs() < 0.02, "{test}: {group:?}");
    }
    for wait in waits(seen) {
        println!(
            "{test}: wait {:?} {} {:?} n {} blocked {:.4} idle {:.4} holders {:?}",
            wait.role,
            wait.name,
            wait.key,
            wait.count,
            wait.blocked.seconds().0,
            wait.idle_charged.seconds().0,
            wait.holders
        );
    }
    let cores = cores(seen);
    let busy = [cores.system, cores.generator, cores.kernel, cores.others, cores.kneepoint];
    let sum = busy.into_iter().map(|part| part.0).sum::<u64>() + cores.idle.0;
    println!("{test}: cores {cores:?} sum/total {:.5}", ratio(sum, cores.total.0));
    assert!((ratio(sum, cores.total.0) - 1.0).abs() < 0.02, "{test}: {cores:?}");
    let charged: u64 = waits(seen).iter().map(|wait| wait.idle_charged.0).sum();
    assert_eq!(charged + cores.idle_scheduler.0 + cores.idle_uncharged.0, cores.idle.0, "{test}");
    for fact in &seen.facts {
        if matches!(fact, Fact::Loss(_) | Fact::Cost(_)) {
            println!("{test}: {fact:?}");
        }
    }
}

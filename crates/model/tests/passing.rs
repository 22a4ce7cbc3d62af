//! A lock whose waiters spin as long as its owner is on a core, as those of the kernel do: a twin
//! that is calibrated from what a run would have seen of it does what the true one does.

mod common;

use common::{observed, simulated, waited_for};
use kneepoint_model::calibrate::{
    Asked, Observed, ObservedLevel, Oracle, Passing, calibrate, experiments,
};
use kneepoint_model::sweep::Simulated;
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::findings::{Altered, LineKind, NoTwin, WhatIf};
use kneepoint_vocab::{Level, Ratio, Seconds};

/// To sleep and to wake takes longer than the lock is held: who spins is spared that.
const SPUN: &str = r#"
    name = "spun"
    [cores]
    count = 2
    [scheduler]
    slice = "3 ms"
    switch = "15 us"
    wake = "15 us"
    idle_wake = "100 us"
    [lock.table]
    kind = "adaptive"
    [[thread]]
    name = "client"
    count = "clients"
    program = [
      { run = "1 us", cv = 1.0 },
      { hold = "table", steps = [{ run = "7 us", cv = 1.0 }] },
    ]
"#;

const DEMAND: f64 = 8e-6;

/// Part of an operation's time asleep for the lock.
fn asleep(level: &Simulated) -> Ratio {
    let all: f64 = level.thread.iter().map(|line| line.amount).sum();
    let own = level.thread.iter().filter(|line| line.object == "table");
    let own = own.filter(|line| line.kind == LineKind::IdleLock);
    Ratio(own.map(|line| line.amount).sum::<f64>() / all)
}

fn seen(all: &[Simulated]) -> Observed {
    let levels = all.iter().map(|level| ObservedLevel {
        clients: level.level.clients,
        throughput: level.throughput,
        error: Ratio(0.02),
        demand: Seconds(DEMAND),
        generator: Seconds(0.0),
        lock_cpu: vec![Seconds(0.0)],
        blocked: vec![asleep(level)],
    });
    observed(levels.collect(), waited_for("table", 1.0, Seconds(30e-6)))
}

#[test]
fn waiters_that_spin_while_the_owner_runs_are_told_from_those_that_sleep() {
    let real = Twin::parse(SPUN).expect("valid");
    let known = seen(&simulated(&real, &[1, 2, 4, 8]));
    let barging = calibrate(&known, 3, 2).expect("calibrated");
    let spins = known.with_passing(Passing::Adaptive).expect("it has a lock");
    let twin = calibrate(&spins, 3, 2).expect("calibrated");
    assert!(twin.file(|_| String::new()).contains("kind = \"adaptive\""), "{:?}", twin.observed);
    assert!(twin.error.0 < 0.7 * barging.error.0, "{:?} {:?}", twin.error, barging.error);
    let [own, real] = [twin.twin().expect("a twin"), real];
    let at = |twin: &Twin| simulated(twin, &[16])[0].throughput.0;
    assert!((at(&own) / at(&real) - 1.0).abs() < 0.1, "{} {}", at(&own), at(&real));
}

#[test]
fn who_gives_up_its_core_in_an_operation_has_no_forecast_without_the_lock() {
    let real = Twin::parse(SPUN).expect("valid");
    let known = seen(&simulated(&real, &[1, 2, 4, 8]));
    let part = Ratio(0.4);
    let yields = Observed { yielding: Some(part), ..known };
    let twin = calibrate(&yields, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let mut ask =
        |clients, cores, changes| oracle.ask(&Asked { level: Level { clients, cores }, changes });
    let gone = || vec![Change::Without("table".to_owned())];
    assert_eq!(ask(8, 2, gone()).unwrap_err(), NoTwin::Yields { part });
    assert!(ask(8, 2, Vec::new()).is_ok(), "as it is, it was measured");
    assert!(ask(2, 2, gone()).is_ok(), "nobody waits for a core");
    let known = experiments(&mut oracle, 8).expect("the rest is known");
    let of_locks =
        |it: &WhatIf| !matches!(it.change, Altered::Faster { .. } | Altered::Cores { .. });
    assert!(!known.is_empty() && !known.iter().any(of_locks), "{known:?}");
}

//! How a lock goes from one to the next, in simulated runs: the twin that is calibrated from such a
//! run has the kind of lock that the true one has, and forecasts what that does.

use kneepoint_analysis::analyse;
use kneepoint_model::calibrate::{Asked, Observed, Oracle, Passing, calibrate};
use kneepoint_model::recorded::record;
use kneepoint_model::sweep::{Sweep, sweep};
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::findings::{CauseKind, Findings, LineKind};
use kneepoint_vocab::{Level, Ratio};

fn text(kind: &str, idle_wake: &str, outside: &str) -> String {
    format!(
        r#"
        name = "one lock"
        [cores]
        count = 4
        [scheduler]
        slice = "3 ms"
        switch = "1 us"
        wake = "1 us"
        idle_wake = "{idle_wake}"
        [lock.table]
        kind = "{kind}"
        [[thread]]
        name = "client"
        count = "clients"
        program = [
          {{ run = "{outside}", cv = 1.0 }},
          {{ hold = "table", steps = [{{ run = "4 us", cv = 1.0 }}] }},
        ]
        "#
    )
}

fn how() -> Sweep {
    Sweep { seed: 11, precision: Ratio(0.02), budget: 200_000_000, workers: 2 }
}

fn analysed(twin: &Twin) -> Findings {
    let levels: Vec<Level> = [1, 2, 4, 8].map(|clients| Level { clients, cores: 4 }).into();
    analyse(&record(twin, &levels, &how()).expect("simulated"))
}

fn truth(twin: &Twin, clients: u32) -> f64 {
    let all = sweep(twin, &[Level { clients, cores: 4 }], &how()).expect("allowed");
    all[0].as_ref().expect("simulated").throughput.0
}

/// The first lock goes in this way, and the answers to twice the clients and the lock gone are near
/// the true ones.
fn goes(real: &Twin, findings: &Findings, passing: Passing) {
    let seen = Observed::of(findings).expect("enough was seen");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let lock = &twin.observed.locks[0];
    assert_eq!((lock.passing, lock.stage), (passing, None), "{:?}", twin.residuals);
    let gone = real.with(&Change::Without("table".to_owned())).expect("there");
    let cure = Change::Without(lock.name.clone());
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    for (change, real, clients) in [(None, real, 16), (Some(cure), &gone, 8)] {
        let level = Level { clients, cores: 4 };
        let asked = Asked { level, changes: change.into_iter().collect() };
        let (said, truth) = (oracle.ask(&asked).expect("an answer"), truth(real, clients));
        let off = (said.throughput.0 / truth).ln();
        assert!(off.abs() < 0.2, "{asked:?}: {said:?}, truth {truth}");
        assert!(said.low.0 < truth && truth < said.high.0, "{asked:?}: {said:?}, truth {truth}");
    }
}

#[test]
fn a_lock_that_is_handed_to_a_sleeper_is_found_and_forecast() {
    let real = Twin::parse(&text("fifo", "30 us", "4 us")).expect("valid");
    let mut findings = analysed(&real);
    goes(&real, &findings, Passing::HandedOn);
    // Locks that a program builds itself of a mutex and a condition are waits for a thread.
    findings.causes[0].kind = CauseKind::Thread;
    let lines = findings.ledgers.iter_mut().flat_map(|ledger| &mut ledger.thread.lines);
    for line in lines.filter(|line| line.kind == LineKind::IdleLock) {
        line.kind = LineKind::IdleThread;
    }
    goes(&real, &findings, Passing::HandedOn);
}

#[test]
fn a_lock_that_whoever_comes_takes_stays_one() {
    let real = Twin::parse(&text("futex", "5 us", "12 us")).expect("valid");
    goes(&real, &analysed(&real), Passing::Barging);
}

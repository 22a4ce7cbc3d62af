//! Simulated runs whose clients wait for no lock that anyone may take: the twin has a stage there,
//! and forecasts what the true one does.

use kneepoint_analysis::analyse;
use kneepoint_model::calibrate::{Asked, Observed, Oracle, calibrate};
use kneepoint_model::recorded::record;
use kneepoint_model::sweep::{Sweep, sweep};
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::findings::Name;
use kneepoint_vocab::{Level, Ratio};

/// One thread that serves all clients.
const SERVED: &str = r#"
    name = "served"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    [channel.requests]
    [[thread]]
    name = "client"
    count = "clients"
    program = [{ run = "60 us", cv = 1.0 }, { call = "requests" }]
    [[thread]]
    name = "dispatcher"
    count = 1
    worker = true
    program = [{ take = "requests" }, { run = "40 us", cv = 1.0 }, { reply = true }]
"#;

/// The same work, each client its own.
const SHARED_OUT: &str = r#"
    name = "shared out"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    [[thread]]
    name = "client"
    count = "clients"
    program = [{ run = "60 us", cv = 1.0 }, { run = "40 us", cv = 1.0 }]
"#;

/// Two connections for all clients, most of whose time is asleep.
const POOL: &str = r#"
    name = "pool"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    [semaphore.connections]
    units = 2
    [[thread]]
    name = "client"
    count = "clients"
    program = [
      { run = "20 us", cv = 1.0 },
      { within = "connections", steps = [
        { run = "30 us", cv = 1.0 },
        { think = "170 us", cv = 1.0 },
      ] },
    ]
"#;

fn how() -> Sweep {
    Sweep { seed: 11, precision: Ratio(0.02), budget: 200_000_000, workers: 2 }
}

fn truth(twin: &Twin, level: Level) -> f64 {
    let all = sweep(twin, &[level], &how()).expect("allowed");
    all[0].as_ref().expect("simulated").throughput.0
}

/// Calibrates the twin's twin; forecasts twice the clients, and the stage gone, as in `gone`.
fn forecast(text: &str, gone: &Twin, permits: Option<u64>) {
    let real = Twin::parse(text).expect("valid");
    let levels = [1, 2, 4, 8].map(|clients| Level { clients, cores: 4 });
    let mut findings = analyse(&record(&real, &levels, &how()).expect("simulated"));
    if let Some(permits) = permits {
        findings.causes[0].name = Name::PoolLimit { permits, taken_in: "borrow".to_owned() };
    }
    let seen = Observed::of(&findings).expect("enough was seen");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let stage = &twin.observed.locks[0];
    assert!(stage.stage.is_some(), "no lock does that: {:?}", twin.residuals);
    assert!(twin.file(|_| String::new()).contains("within = "), "a stage is a semaphore");
    let cure = Change::Without(stage.name.clone());
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    for (change, real, clients, near) in [(None, &real, 16, 0.1), (Some(cure), gone, 8, 0.25)] {
        let level = Level { clients, cores: 4 };
        let asked = Asked { level, changes: change.into_iter().collect() };
        let said = oracle.ask(&asked).expect("an answer");
        let truth = truth(real, level);
        let off = (said.throughput.0 / truth).ln();
        assert!(off.abs() < near, "{asked:?}: {said:?}, truth {truth}");
        assert!(said.low.0 < truth && truth < said.high.0, "{asked:?}: {said:?}, truth {truth}");
    }
}

#[test]
fn a_thread_that_serves_all_is_a_stage() {
    forecast(SERVED, &Twin::parse(SHARED_OUT).expect("valid"), None);
}

#[test]
fn a_pool_is_a_stage_of_as_many_servers() {
    let pool = Twin::parse(POOL).expect("valid");
    let gone = pool.with(&Change::Without("connections".to_owned())).expect("there");
    forecast(POOL, &gone, Some(2));
}

//! Simulated levels, and what a run of them would have seen.

use kneepoint_model::calibrate::{Observed, ObservedLevel, ObservedLock, Passing};
use kneepoint_model::sweep::{Simulated, Sweep, sweep};
use kneepoint_model::twin::Twin;
use kneepoint_vocab::{Level, Ratio, Seconds};

/// A twin at these numbers of clients, on two cores.
pub(crate) fn simulated(twin: &Twin, clients: &[u32]) -> Vec<Simulated> {
    let how = Sweep { seed: 5, precision: Ratio(0.02), budget: 200_000_000, workers: 2 };
    let levels: Vec<Level> = clients.iter().map(|&clients| Level { clients, cores: 2 }).collect();
    let all = sweep(twin, &levels, &how).expect("allowed");
    all.into_iter().map(|level| level.expect("simulated")).collect()
}

/// A lock that nothing is known of but how often an operation waits for it and what that costs.
pub(crate) fn waited_for(name: &str, waits: f64, wait_cpu: Seconds) -> ObservedLock {
    ObservedLock {
        name: name.to_owned(),
        waits,
        wait_cpu,
        library: None,
        counted: None,
        stage: None,
        passing: Passing::Barging,
        look: None,
    }
}

/// A run with these levels and this lock, on two cores.
pub(crate) fn observed(levels: Vec<ObservedLevel>, lock: ObservedLock) -> Observed {
    Observed {
        name: lock.name.clone(),
        cores: 2,
        confined: None,
        levels,
        first_cause: Some(lock.name.clone()),
        locks: vec![lock],
        round_trips: None,
        contended: None,
        cpu: Vec::new(),
        delay: Seconds(0.0),
        awake: None,
        yielding: None,
        others: Vec::new(),
    }
}

//! A row's lock, held across requests, whose release wakes all who wait: a twin that is calibrated
//! from what a run would have seen of it does what the true one does.

mod common;

use common::{observed, simulated, waited_for};
use kneepoint_model::calibrate::{Observed, ObservedLevel, calibrate};
use kneepoint_model::sweep::Simulated;
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::{Ratio, Seconds};

/// Seven requests, the last three of which are made while the row is held.
const ROW: &str = r#"
    name = "row"
    [cores]
    count = 2
    [scheduler]
    slice = "3 ms"
    [lock.row]
    kind = "flag"
    look = "50 us"
    [channel.requests]
    [[thread]]
    name = "client"
    count = "clients"
    program = [
      { repeat = 4, steps = [{ run = "16 us", cv = 1.0 }, { call = "requests" }] },
      { hold = "row", steps = [
        { repeat = 3, steps = [{ run = "16 us", cv = 1.0 }, { call = "requests" }] },
      ] },
    ]
    [[thread]]
    name = "server"
    count = "clients"
    worker = true
    program = [{ take = "requests" }, { run = "44 us", cv = 1.0 }, { reply = true }]
"#;

const ASKS: f64 = 7.0 * 16e-6;
const DEMAND: f64 = 7.0 * 60e-6;
const LOOK: f64 = 50e-6;

/// Seconds of an operation that one line of its ledger has, over all.
fn part(level: &Simulated, object: &str) -> f64 {
    let own = level.thread.iter().filter(|line| line.object == object);
    let all: f64 = level.thread.iter().map(|line| line.amount).sum();
    own.map(|line| line.amount).sum::<f64>() / all
}

/// What a run of these levels would have seen, whose account has the CPU of waits.
fn seen(all: &[Simulated]) -> Observed {
    let looking = |level: &Simulated| (level.busy.0 / level.throughput.0 - DEMAND).max(0.0);
    let levels = all.iter().map(|level| ObservedLevel {
        clients: level.level.clients,
        throughput: level.throughput,
        error: Ratio(0.02),
        demand: Seconds(DEMAND),
        generator: Seconds(ASKS),
        lock_cpu: vec![Seconds(looking(level))],
        blocked: vec![Ratio(part(level, "row"))],
    });
    let waits = looking(all.last().expect("levels")) / LOOK;
    let seen = observed(levels.collect(), waited_for("row", waits, Seconds(LOOK)));
    Observed { round_trips: Some(7.0), ..seen }
}

#[test]
fn a_row_that_is_held_across_requests_is_found_and_forecast() {
    let real = Twin::parse(ROW).expect("valid");
    let known = seen(&simulated(&real, &[1, 2, 4, 8]));
    let short = calibrate(&known, 3, 2).expect("calibrated");
    let flagged = known.with_flags().expect("waited for again and again");
    let known = Observed { others: vec![flagged], ..known };
    let twin = calibrate(&known, 3, 2).expect("calibrated");
    assert!(twin.error.0 < 0.7 * short.error.0, "{:?} and {:?}", twin.error, short.error);
    let text = twin.file(|_| String::new());
    assert!(text.contains("hold = \"row\", steps = [{ repeat = 3"), "{text}");
    let own = twin.twin().expect("a twin");
    let off = |own: &Twin, real: &Twin, clients: u32| {
        let [own, real] = [own, real].map(|twin| simulated(twin, &[clients])[0].throughput);
        (own.0 / real.0 - 1.0).abs()
    };
    assert!(off(&own, &real, 16) < 0.1, "{text}");
    let without = |twin: &Twin| twin.with(&Change::Without("row".to_owned())).expect("changed");
    assert!(off(&without(&own), &without(&real), 8) < 0.1, "{text}");
}

#[test]
fn a_lock_that_is_waited_for_once_stays_one() {
    let real = Twin::parse(ROW).expect("valid");
    let mut known = seen(&simulated(&real, &[1, 2, 4]));
    known.locks[0].waits = 1.0;
    assert!(known.with_flags().is_none());
}

#[test]
fn what_goes_with_waits_is_told_by_the_levels() {
    let real = Twin::parse(ROW).expect("valid");
    let mut known = seen(&simulated(&real, &[1, 2, 4]));
    let look = |seen: &Observed| seen.with_flags().expect("flags").locks[0].look.expect("told").0;
    assert!((look(&known) / LOOK - 1.0).abs() < 1e-6, "{}", look(&known));
    known.levels[2].demand = Seconds(20.0 * DEMAND);
    assert!(look(&known) > 2.0 * LOOK, "{}", look(&known));
}

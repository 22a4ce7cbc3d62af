//! Laws that every simulated machine obeys, whatever its locks and its scheduler.
//!
//! Time is whole picoseconds, so conservation is exact: core-time adds up to cores × window and
//! thread-time to threads × window, to the last one.

use kneepoint_model::sim::{
    Outcome, Replicated, Settings, SimError, replicate, seconds, seed_of, simulate,
};
use kneepoint_model::twin::{Twin, Wanted};
use kneepoint_vocab::Ratio;
use proptest::prelude::*;

const KINDS: [&str; 8] =
    ["test-and-set", "ticket", "mcs", "fifo", "futex", "adaptive", "read-write", "flag"];

fn quick(seed: u64) -> Settings {
    Settings { seed, precision: Ratio(0.05), budget: 3_000_000, ..Settings::default() }
}

fn obeys_the_laws(text: &str, clients: u32, cores: u32, seed: u64) -> Outcome {
    let wanted = Wanted { clients: Some(clients), cores: Some(cores) };
    let twin = Twin::parse(text).expect("a valid twin").compile(wanted).expect("compiles");
    let outcome = simulate(&twin, &quick(seed)).expect("it goes on");
    let account = &outcome.account;
    let threads: u32 = twin.classes.iter().map(|class| class.count).sum();
    assert_eq!(account.core_time(), u64::from(cores) * account.window(), "core-time of\n{text}");
    assert_eq!(account.thread_time(), u64::from(threads) * account.window(), "threads of\n{text}");
    // Both ledgers add up, the second to Little's N / X.
    let core: f64 = outcome.ledger.core.iter().map(|line| line.amount.0).sum();
    assert!((core / f64::from(cores) - 1.0).abs() < 1e-9, "{core} of {cores}");
    if twin.clients() > 0 {
        let life: f64 = outcome.ledger.thread.iter().map(|line| line.amount.0).sum();
        let expected = f64::from(twin.clients()) / outcome.throughput.0;
        assert!((life / expected - 1.0).abs() < 1e-9, "{life} {expected}\n{text}");
    }
    for lock in &outcome.ledger.locks {
        assert!(lock.held.0 <= 1.0, "{lock:?}\n{text}");
    }
    outcome
}

fn two_locks(first: &str, second: &str, queue: &str) -> String {
    format!(
        r#"
        name = "two locks"
        [cores]
        count = 4
        [scheduler]
        queue = "{queue}"
        slice = "15 us"
        switch = "0.4 us"
        migrate = "0.2 us"
        idle_wake = "0.7 us"
        wake = "0.3 us"
        steal_after = "3 us"
        queue_lock = "50 ns"
        [lock.outer]
        kind = "{first}"
        transfer = "60 ns"
        per_spinner = "10 ns"
        [lock.inner]
        kind = "{second}"
        copies = 2
        transfer = "60 ns"
        [device.disk]
        servers = 2
        time = "4 us"
        cv = 0.5
        [[thread]]
        name = "client"
        count = "clients"
        program = [
          {{ run = "2 us", cv = 1.0 }},
          {{ hold = "outer", steps = [
            {{ run = "0.5 us" }},
            {{ chance = 0.5, steps = [{{ hold = "inner", steps = [{{ run = "0.3 us" }}] }}] }},
          ] }},
          {{ chance = 0.1, steps = [{{ io = "disk" }}] }},
        ]
        "#
    )
}

#[test]
fn every_pair_of_locks_conserves_time_under_both_schedulers() {
    for (number, first) in KINDS.iter().enumerate() {
        for (other, second) in KINDS.iter().enumerate() {
            let queue = if (number + other) % 2 == 0 { "global" } else { "per-core" };
            obeys_the_laws(&two_locks(first, second, queue), 9, 4, 7);
        }
    }
}

/// U = XD: what programs asked for is what they got, and a lock is held as long as its steps take.
#[test]
fn utilisation_is_throughput_times_demand() {
    let text = r#"
        name = "fixed"
        [lock.table]
        kind = "fifo"
        [[thread]]
        name = "client"
        count = "clients"
        program = [{ run = "3 us" }, { hold = "table", steps = [{ run = "1 us" }] }]
    "#;
    // As many cores as clients: who is handed the lock does not hold it while it waits for a core.
    let outcome = obeys_the_laws(text, 6, 6, 1);
    let busy = seconds(outcome.account.useful) / seconds(outcome.account.window());
    assert!((busy / (outcome.throughput.0 * 4e-6) - 1.0).abs() < 0.01, "{busy}");
    let lock = &outcome.ledger.locks[0];
    assert!((lock.held.0 / (outcome.throughput.0 * 1e-6) - 1.0).abs() < 0.01, "{lock:?}");
    assert!((lock.visits - 1.0).abs() < 0.01);
    // One holder at a time: the lock's own bound.
    assert!(outcome.throughput.0 <= 1e6 * 1.001);
}

/// The same lock without anybody to share it with costs nothing, whatever its kind.
#[test]
fn a_lock_alone_costs_nothing() {
    for kind in KINDS {
        let text = format!(
            r#"
            name = "alone"
            [lock.table]
            kind = "{kind}"
            [[thread]]
            name = "client"
            count = "clients"
            program = [{{ hold = "table", steps = [{{ run = "2 us" }}] }}]
            "#
        );
        let outcome = obeys_the_laws(&text, 1, 1, 1);
        // Times are rounded to a picosecond.
        assert!(
            (outcome.throughput.0 / 0.5e6 - 1.0).abs() < 1e-6,
            "{kind}: {}",
            outcome.throughput.0
        );
        assert!(outcome.ledger.locks[0].contended.0 <= 0.0, "{kind}");
    }
}

/// A ticket lock pays for each waiter that looks on, an MCS lock does not.
#[test]
fn spinners_slow_a_ticket_lock_and_no_mcs_lock() {
    let at = |kind: &str, clients| {
        let text = format!(
            r#"
            name = "spin"
            [lock.table]
            kind = "{kind}"
            per_spinner = "100 ns"
            [[thread]]
            name = "client"
            count = "clients"
            program = [
              {{ run = "2 us", cv = 1.0 }},
              {{ hold = "table", steps = [{{ run = "1 us", cv = 1.0 }}] }},
            ]
            "#
        );
        obeys_the_laws(&text, clients, clients, 3).throughput.0
    };
    assert!(at("ticket", 32) < 0.5 * at("ticket", 4), "it collapses");
    assert!(at("mcs", 32) > 0.95 * at("mcs", 4), "it does not");
}

/// Who was woken for a lock pays for looking, however the lock is handed on.
#[test]
fn looking_costs_those_who_were_woken() {
    for kind in ["flag", "futex", "fifo", "read-write"] {
        let at = |look: &str, clients| {
            let text = format!(
                r#"
                name = "woken"
                [lock.table]
                kind = "{kind}"
                look = "{look}"
                [[thread]]
                name = "client"
                count = "clients"
                program = [
                  {{ run = "2 us", cv = 1.0 }},
                  {{ hold = "table", steps = [{{ run = "1 us", cv = 1.0 }}] }},
                ]
                "#
            );
            obeys_the_laws(&text, clients, 2, 3).throughput.0
        };
        let (alone, alone_free) = (at("5 us", 1), at("0 us", 1));
        assert!((alone / alone_free - 1.0).abs() < 1e-6, "{kind}: nobody is woken");
        assert!(at("5 us", 8) < 0.8 * at("0 us", 8), "{kind}");
    }
}

#[test]
fn a_deadlock_is_said_with_its_circle() {
    let text = r#"
        name = "circle"
        [lock.a]
        kind = "fifo"
        [lock.b]
        kind = "fifo"
        [[thread]]
        name = "one"
        count = "clients"
        program = [{ hold = "a", steps = [
          { run = "1 us", cv = 1.0 },
          { hold = "b", steps = [{ run = "1 us" }] },
        ] }]
        [[thread]]
        name = "other"
        count = 1
        program = [{ hold = "b", steps = [
          { run = "1 us", cv = 1.0 },
          { hold = "a", steps = [{ run = "1 us" }] },
        ] }]
    "#;
    let wanted = Wanted { clients: Some(1), cores: Some(2) };
    let twin = Twin::parse(text).expect("valid").compile(wanted).expect("compiles");
    let Err(SimError::Deadlock(said)) = simulate(&twin, &quick(1)) else {
        panic!("a deadlock is found");
    };
    let circle = |from: &str, to: &str, first: &str, second: &str| {
        format!(
            "{from} waits for {first}, which is held by {to} waits for {second}, \
             which is held by {from}"
        )
    };
    let either = [circle("one 1", "other 1", "b", "a"), circle("other 1", "one 1", "a", "b")];
    assert!(either.contains(&said), "{said}");
}

#[test]
fn same_seed_same_bits_on_any_number_of_workers() {
    let twin = Twin::parse(&two_locks("futex", "adaptive", "per-core")).expect("valid");
    let level = |clients| twin.compile(Wanted { clients: Some(clients), cores: Some(4) });
    let levels: Vec<_> = [1, 3, 8, 20].map(|clients| level(clients).expect("compiles")).into();
    let jobs: Vec<Replicated<'_>> = levels
        .iter()
        .flat_map(|twin| {
            (0..3).map(move |number| Replicated { twin, settings: quick(seed_of(5, number)) })
        })
        .collect();
    let once = replicate(&jobs, 1);
    for workers in [2, 3, 16] {
        assert_eq!(replicate(&jobs, workers), once, "{workers} workers");
    }
    let other = Settings { seed: 99, ..jobs[5].settings };
    assert_ne!(simulate(jobs[5].twin, &other), once[5], "another seed, other numbers");
}

/// A warm-up that seems never to end takes half of the events; what is left still gives a number,
/// which is not called settled.
#[test]
fn a_warm_up_without_end_still_gives_a_number() {
    let text = r#"
        name = "seldom long"
        [cores]
        count = 1
        [[thread]]
        name = "client"
        count = "clients"
        program = [{ run = "1 us", cv = 30.0 }]
    "#;
    let twin = Twin::parse(text).expect("valid");
    let twin = twin.compile(Wanted { clients: Some(2), cores: Some(1) }).expect("compiles");
    let outcomes: Vec<_> = (0..400)
        .map(|seed| simulate(&twin, &Settings { budget: 4_000, ..quick(seed) }))
        .map(|outcome| outcome.expect("a number").settled)
        .collect();
    assert!(outcomes.contains(&false), "some never end");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_machine_conserves_time(
        first in 0..8_usize, second in 0..8_usize, per_core in any::<bool>(),
        clients in 1..24_u32, cores in 1..9_u32, seed in any::<u64>(),
    ) {
        let queue = if per_core { "per-core" } else { "global" };
        obeys_the_laws(&two_locks(KINDS[first], KINDS[second], queue), clients, cores, seed);
    }
}

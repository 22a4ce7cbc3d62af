//! Simulated runs, whose truth is known: the analysis finds what the twin file says, and a twin
//! that is calibrated from the run alone forecasts what the true one does.

use kneepoint_analysis::analyse;
use kneepoint_model::calibrate::{Asked, CountedLock, Observed, Oracle, Tried, calibrate, next};
use kneepoint_model::recorded::record;
use kneepoint_model::sweep::{Sweep, sweep};
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::findings::{
    Altered, CauseKind, Charge, Estimate, Findings, GainReason, LineKind, LockRow, LockTable, Name,
    NoTwin, Superlinear, Undetermined,
};
use kneepoint_vocab::{Cores, Count, Fact, Level, PerSecond, Ratio, Seconds, ThreadRole};

/// Five visits to a lock of two thirds of a core's work, with sleeping and waking.
const LOCKED: &str = r#"
    name = "one lock"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    switch = "1 us"
    wake = "1 us"
    idle_wake = "5 us"
    [lock.table]
    kind = "futex"
    [[thread]]
    name = "client"
    count = "clients"
    program = [
      { repeat = 5, steps = [
        { run = "20 us", cv = 1.0 },
        { hold = "table", steps = [{ run = "10 us", cv = 1.0 }] },
      ] },
    ]
"#;

/// A spin lock, held for a third of an operation.
const SPUN: &str = r#"
    name = "spun"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    [lock.table]
    kind = "test-and-set"
    [[thread]]
    name = "client"
    count = "clients"
    program = [
      { run = "20 us", cv = 1.0 },
      { hold = "table", steps = [{ run = "10 us", cv = 1.0 }] },
    ]
"#;

const FREE: &str = r#"
    name = "no lock"
    [cores]
    count = 4
    [scheduler]
    slice = "3 ms"
    [[thread]]
    name = "client"
    count = "clients"
    program = [{ run = "100 us", cv = 1.0 }]
"#;

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

fn levels(clients: &[u32]) -> Vec<Level> {
    clients.iter().map(|&clients| Level { clients, cores: 4 }).collect()
}

fn how() -> Sweep {
    Sweep { seed: 11, precision: Ratio(0.02), budget: 200_000_000, workers: 2 }
}

fn analysed(text: &str, clients: &[u32]) -> Findings {
    let twin = Twin::parse(text).expect("valid");
    analyse(&record(&twin, &levels(clients), &how()).expect("simulated"))
}

fn truth(twin: &Twin, level: Level) -> f64 {
    let all = sweep(twin, &[level], &how()).expect("allowed");
    all[0].as_ref().expect("simulated").throughput.0
}

#[test]
fn the_planted_lock_is_the_cause_and_both_ledgers_have_the_same_lines() {
    let findings = analysed(LOCKED, &[1, 2, 4, 8, 16]);
    let first = findings.causes.first().expect("a cause");
    assert_eq!(first.kind, CauseKind::Lock, "{:?}", findings.conclusions);
    assert!(first.name.to_string().contains("table"), "{}", first.name);
    assert!(first.share.value.0 > 0.6, "{:?}", first.share);
    let twin = Twin::parse(LOCKED).expect("valid");
    let simulated = sweep(&twin, &levels(&[8]), &how()).expect("allowed");
    let simulated = simulated[0].as_ref().expect("simulated");
    let measured = findings.ledgers.iter().find(|it| it.level.clients == 8).expect("a ledger");
    // The analysis charges the way of a woken thread to its core to what it was woken for.
    for kinds in [&[LineKind::IdleLock, LineKind::IdleScheduler][..], &[LineKind::Useful]] {
        let own = simulated.core.iter().filter(|it| kinds.contains(&it.kind));
        let ours: f64 = own.map(|it| it.amount).sum();
        let lines = measured.core.lines.iter().filter(|it| kinds.contains(&it.kind));
        let theirs: f64 = lines.map(|it| it.cores.value.0).sum();
        assert!((ours - theirs).abs() < 0.2, "{kinds:?}: {ours} simulated, {theirs} analysed");
    }
}

#[test]
fn where_nothing_is_lost_no_lock_is_blamed() {
    let findings = analysed(FREE, &[1, 2, 4, 8]);
    assert!(findings.causes.iter().all(|it| it.kind != CauseKind::Lock), "{:?}", findings.causes);
}

#[test]
fn what_was_counted_of_a_lock_is_not_fitted() {
    let findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let mut seen = Observed::of(&findings).expect("enough was seen");
    assert_eq!(seen.locks[0].counted, None, "a simulated run has no census");
    seen.locks.truncate(1);
    seen.locks[0].counted = Some(CountedLock { visits: 5.0, held: Seconds(50e-6) });
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    assert!(twin.error.0 < 0.08, "{:?}", twin.residuals);
    assert!((twin.best.visits[0] - 5.0).abs() < 1e-9, "{:?}", twin.best);
    let inside = 50e-6 / seen.least_demand().0;
    assert!((twin.best.inside[0] - inside).abs() < 1e-9, "{:?}", twin.best);
    let open = |what: &Undetermined| matches!(what, Undetermined::Start);
    assert!(twin.open.iter().all(open), "visits and hold times are known: {:?}", twin.open);
    let file = twin.file(|what| format!("{what:?}"));
    assert!(file.contains("from = \"measured\", source = \"census of locks\""), "{file}");
    assert!(twin.best.asleep[0].abs() < 1e-12, "{:?}", twin.best);
}

/// Where functions have no names, those who wait and the census may call one lock differently.
#[test]
fn a_counted_lock_that_is_often_held_is_the_one_that_is_waited_for() {
    let mut findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let other = || Name::from("app+0x1a30");
    let locks = |findings: &Findings| Observed::of(findings).expect("enough was seen").locks;
    findings.locks = Some(counted(50e-6, &other()));
    let seen = locks(&findings);
    assert!(seen[0].name.contains("table") && seen[0].counted.is_some(), "{seen:?}");
    assert!(seen.iter().all(|lock| lock.waits > 0.0), "{seen:?}");
    findings.locks = Some(counted(20e-6, &other()));
    let seen = locks(&findings);
    assert!(seen.iter().any(|lock| lock.waits <= 0.0 && lock.counted.is_some()), "{seen:?}");
}

/// One that is held asleep has more time than the operation has CPU.
#[test]
fn a_lock_that_is_held_asleep_bounds_the_throughput_of_any_number_of_cores() {
    let text =
        LOCKED.replace("[{ run = \"10 us\", cv = 1.0 }]", "[{ think = \"100 us\", cv = 1.0 }]");
    let mut findings = analysed(&text, &[1, 2, 4, 8]);
    let name = findings.causes[0].name.clone();
    findings.locks = Some(counted(500e-6, &name));
    let mut seen = Observed::of(&findings).expect("enough was seen");
    seen.locks.truncate(1);
    seen.locks[0].counted = Some(CountedLock { visits: 5.0, held: Seconds(500e-6) });
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    assert!(twin.best.inside[0] < 1.0 && twin.best.asleep[0] > 350e-6, "{:?}", twin.best);
    let file = twin.file(|what| format!("{what:?}"));
    assert!(file.contains("think"), "{file}");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let level = Level { clients: 8, cores: 8 };
    let said = oracle.ask(&Asked { level, changes: Vec::new() }).expect("an answer");
    assert!((said.throughput.0 * 500e-6 - 1.0).abs() < 0.15, "{said:?}");
}

#[test]
fn a_twin_calibrated_from_a_run_forecasts_what_the_true_one_does() {
    let findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let seen = Observed::of(&findings).expect("enough was seen");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    assert_eq!(calibrate(&seen, 3, 1), Ok(twin.clone()), "workers change nothing");
    assert!(twin.error.0 < 0.08, "{:?}", twin.residuals);
    Twin::parse(&twin.file(|what| format!("{what:?}"))).expect("the file is a twin file");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let real = Twin::parse(LOCKED).expect("valid");
    let lock = seen.locks[0].name.clone();
    let gone = real.with(&Change::Without("table".to_owned())).expect("there");
    let faster = real.with(&Change::Speed(1.5)).expect("a speed");
    for (change, real, clients, cores) in [
        (None, &real, 16, 4),
        (None, &real, 8, 8),
        (Some(Change::Speed(1.5)), &faster, 8, 4),
        (Some(Change::Without(lock)), &gone, 8, 4),
    ] {
        let level = Level { clients, cores };
        let asked = Asked { level, changes: change.into_iter().collect() };
        let said = oracle.ask(&asked).expect("an answer");
        let truth = truth(real, level);
        assert!(said.low.0 < truth && truth < said.high.0, "{asked:?}: {said:?}, truth {truth}");
        // More cores are the least certain: what threads cost each other there was not seen.
        let near = if cores > 4 { 0.4 } else { 0.2 };
        assert!((said.throughput.0 / truth).ln().abs() < near, "{asked:?}: {said:?} {truth}");
    }
    let at = |clients| Level { clients, cores: 4 };
    let brought = truth(&gone, at(8)) / truth(&real, at(8));
    let ratio = |part: f64| Ratio(part * brought);
    let ratio = Estimate { value: ratio(1.0), low: ratio(0.97), high: ratio(1.03) };
    let tried = Tried { level: at(8), ratio };
    let as_it_is = |clients| Asked { level: at(clients), changes: Vec::new() };
    let near = oracle.ask_tried(&as_it_is(8), &tried).expect("an answer");
    let far = oracle.ask_tried(&as_it_is(16), &tried).expect("an answer");
    assert!((near.ratio.0 / brought - 1.0).abs() < 1e-9, "{near:?} {brought}");
    let truth = truth(&gone, at(16));
    assert!(far.low.0 < truth && truth < far.high.0, "{far:?} {truth}");
    assert!(far.high.0 / far.low.0 > near.high.0 / near.low.0, "{near:?} {far:?}");
    let none = Estimate { low: Ratio(0.0), ..ratio };
    assert!(oracle.ask_tried(&as_it_is(8), &Tried { ratio: none, ..tried }).is_err());
    let far = Asked { level: Level { clients: 8192, cores: 4 }, changes: Vec::new() };
    let said = oracle.ask(&far).expect_err("too far");
    let NoTwin::ManyClients { clients: 8192, measured, times: 8 } = said else {
        panic!("{said:?}")
    };
    assert!(measured < 1024, "{measured}");
}

/// With one client cores sleep between operations, which takes longer than these.
#[test]
fn levels_that_leave_cores_asleep_calibrate_no_twin() {
    let mut findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let slow = &mut findings.curve.points[0].throughput.value;
    *slow = PerSecond(0.3 * slow.0);
    let of = |findings: &Findings| Observed::of(findings).expect("enough was seen");
    assert_eq!((of(&findings).levels[0].clients, of(&findings).awake), (1, None));
    let at = |clients| Level { clients, cores: 4 };
    let times = Estimate { value: Ratio(6.0), low: Ratio(5.0), high: Ratio(7.0) };
    let step = |from, to, reason| Superlinear {
        from: at(from),
        to: at(to),
        ratio: times,
        clients: Ratio(2.0),
        reason,
        evidence: None,
    };
    findings.superlinear = vec![step(2, 4, GainReason::SleepingCores)];
    assert_eq!(of(&findings).awake, None, "the first level is no part of it");
    findings.superlinear = vec![step(1, 2, GainReason::Open)];
    assert_eq!(of(&findings).awake, None, "nobody knows why");
    findings.superlinear = vec![step(1, 2, GainReason::SleepingCores)];
    let seen = of(&findings);
    assert_eq!((seen.levels[0].clients, seen.awake), (2, Some(2)));
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    assert!(twin.error.0 < 0.08, "{:?}", twin.residuals);
    assert!(twin.open.contains(&Undetermined::Asleep { from: 2 }), "{:?}", twin.open);
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let refused = oracle.ask(&Asked { level: at(1), changes: Vec::new() });
    assert_eq!(refused, Err(NoTwin::Asleep { clients: 1, from: 2 }));
    findings.curve.points.truncate(2);
    assert_eq!(of(&findings).awake, None, "one level is too few");
}

/// What takes a lock's place costs something itself: one client shows that, the twin the rest.
#[test]
fn what_takes_the_place_of_a_lock_is_forecast_from_what_one_client_makes_of_it() {
    let seen = Observed::of(&analysed(LOCKED, &[1, 2, 4, 8])).expect("enough was seen");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let real = Twin::parse(LOCKED).expect("valid");
    let gone = real.with(&Change::Without("table".to_owned())).expect("there");
    let other = gone.with(&Change::Speed(1.4)).expect("a speed");
    let at = |clients| Level { clients, cores: 4 };
    let brought = |clients| truth(&other, at(clients)) / truth(&real, at(clients));
    let alone = brought(1);
    let ratio =
        Estimate { value: Ratio(alone), low: Ratio(0.98 * alone), high: Ratio(1.02 * alone) };
    let tried = Tried { level: at(1), ratio };
    let changes = vec![Change::Without(seen.locks[0].name.clone())];
    for clients in [4, 8, 16] {
        let asked = Asked { level: at(clients), changes: changes.clone() };
        let said = oracle.ask_tried(&asked, &tried).expect("an answer");
        let measured = brought(clients);
        assert!(measured > 1.5 * alone, "the lock is most of it: {measured} {alone}");
        assert!((said.ratio.0 / measured).ln().abs() < 0.15, "{said:?} {measured}");
        assert!(said.ratio_low.0 < measured && measured < said.ratio_high.0, "{said:?} {measured}");
    }
}

#[test]
fn what_next_names_the_first_cause_or_says_why_not() {
    let mut findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let said = next(&findings, 2);
    assert_eq!(said.why_not, None);
    let first = said.what_if.iter().find(|it| it.first_cause).expect("the first cause");
    assert!(matches!(&first.change, Altered::Without { lock } if lock.contains("table")));
    assert!(first.forecast.ratio_low.0 > 1.0, "it helps for sure: {first:?}");
    assert!(said.levels.iter().any(|it| it.level.cores == 8));
    findings.ledgers.clear();
    assert_eq!(next(&findings, 2).why_not, Some(NoTwin::NotWatched));
}

/// What the kernel does for the library that the first lock is in is saved with another one.
#[test]
fn another_library_brings_more_than_its_lock_gone() {
    let mut findings = analysed(LOCKED, &[1, 2, 4, 8]);
    let brings = |findings: &Findings| {
        let said = next(findings, 2).what_if;
        let of = |wanted: fn(&Altered) -> bool| {
            said.iter().find(|it| wanted(&it.change)).map(|it| it.forecast.ratio.0)
        };
        (
            of(|it| matches!(it, Altered::Without { .. })),
            of(|it| matches!(it, Altered::Library { .. })),
        )
    };
    assert_eq!(brings(&findings).1, None, "it is in no library");
    let Charge::Wait { wait } = &mut findings.causes[0].evidence.charge else { panic!("no lock") };
    wait.library = Some(Cores(0.6));
    let (gone, library) = brings(&findings);
    // Of four cores.
    assert!(library.unwrap() > 1.05 * gone.unwrap(), "{gone:?} {library:?}");
}

/// On one core nobody waits for the lock, so that no cause tells of it; the census does.
#[test]
fn a_lock_that_was_counted_bounds_what_more_cores_bring() {
    let twin = Twin::parse(LOCKED).expect("valid");
    let one = |clients| Level { clients, cores: 1 };
    let levels = [1, 2, 4, 8].map(one);
    let mut findings = analyse(&record(&twin, &levels, &how()).expect("simulated"));
    let wide = Observed::of(&findings).expect("enough was seen");
    assert!(wide.locks.is_empty(), "{:?}", wide.locks);
    findings.locks = Some(counted(50e-6, &analysed(LOCKED, &[1, 8]).causes[0].name));
    let seen = Observed::of(&findings).expect("enough was seen");
    assert_eq!(seen.locks.len(), 1, "{seen:?}");
    let known = calibrate(&seen, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&known, 3, 2).expect("usable");
    for cores in [2, 4] {
        let level = Level { clients: 8, cores };
        let said = oracle.ask(&Asked { level, changes: Vec::new() }).expect("an answer");
        let truth = truth(&twin, level);
        assert!((said.throughput.0 / truth).ln().abs() < 0.15, "{level:?}: {said:?} {truth}");
    }
    let mut once = findings.locks.clone().expect("one");
    once.rows[0].taken = None;
    let name = once.rows[0].name.clone();
    findings.locks = Some(once);
    let known = Observed::of(&findings).expect("enough");
    let held = known.locks[0].counted.as_ref().map(|it| (it.visits, it.held.0));
    assert_eq!(held, Some((1.0, 50e-6)), "how often it is taken is not known");
    findings.locks = Some(counted(1e-6, &name));
    assert!(Observed::of(&findings).expect("enough").locks.is_empty(), "it is hardly held");
}

/// Cores that spin for one lock do not do more together than it lets through, however many.
#[test]
fn a_spin_lock_bounds_what_more_cores_bring() {
    let spun = Twin::parse(SPUN).expect("valid");
    let two = |clients| Level { clients, cores: 2 };
    let findings = analyse(&record(&spun, &[1, 2].map(two), &how()).expect("simulated"));
    let seen = Observed::of(&findings).expect("enough was seen");
    let lock = seen.contended.expect("all extra CPU is spinning");
    assert!(!lock.moved && (lock.part - 1.0 / 3.0).abs() < 0.05, "{lock:?}");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    for (clients, cores) in [(2, 2), (4, 4), (8, 8), (1, 1)] {
        let level = Level { clients, cores };
        let said = oracle.ask(&Asked { level, changes: Vec::new() }).expect("an answer");
        let truth = truth(&spun, level);
        assert!((said.throughput.0 / truth).ln().abs() < 0.12, "{level:?}: {said:?} {truth}");
    }
    let free = Observed::of(&analysed(FREE, &[1, 2, 4, 8])).expect("enough was seen");
    assert_eq!(free.contended, None);
}

/// Half of what spinning costs is taken for another function's here.
#[test]
fn a_spin_lock_gone_takes_with_it_what_it_costs_elsewhere() {
    let spun = Twin::parse(SPUN).expect("valid");
    let two = |clients| Level { clients, cores: 2 };
    let mut findings = analyse(&record(&spun, &[1, 2, 4].map(two), &how()).expect("simulated"));
    let lost = &mut findings.causes[0].lost.value;
    *lost = Cores(0.5 * lost.0);
    let said = next(&findings, 2).what_if;
    let gone = said.iter().find(|it| it.first_cause).expect("the first cause").forecast;
    let gain = truth(&spun.with(&Change::Without("table".to_owned())).expect("there"), gone.level)
        / truth(&spun, gone.level);
    assert!((gone.ratio.0 / gain).ln().abs() < 0.12, "{gone:?}, truth {gain}");
    assert!(gone.ratio_low.0 < 0.5 * (1.0 + gain), "its own part alone is possible: {gone:?}");
}

/// A lock that who comes later finds free costs the CPU of taking it on several cores: it is asked
/// for by its name as others are, and bounds more cores.
#[test]
fn a_lock_that_nobody_waits_for_long_is_asked_for_as_others_are() {
    let spun = Twin::parse(SPUN).expect("valid");
    let two = |clients| Level { clients, cores: 2 };
    let mut findings = analyse(&record(&spun, &[1, 2, 4].map(two), &how()).expect("simulated"));
    let first = &mut findings.causes[0];
    first.kind = CauseKind::Lock;
    first.waits =
        Some(Estimate { value: PerSecond(9.0), low: PerSecond(8.0), high: PerSecond(10.0) });
    let name = first.name.to_string();
    let seen = Observed::of(&findings).expect("enough was seen");
    assert!(seen.locks.is_empty() && seen.contended.is_some(), "{seen:?}");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let asked = Asked { level: two(4), changes: vec![Change::Without(name)] };
    let said = oracle.ask(&asked).expect("an answer");
    let gain = truth(&spun.with(&Change::Without("table".to_owned())).expect("there"), two(4))
        / truth(&spun, two(4));
    assert!((said.ratio.0 / gain).ln().abs() < 0.12, "{said:?}, truth {gain}");
    let all = next(&findings, 2).what_if;
    let first = all.iter().find(|it| it.first_cause).expect("the first cause").forecast;
    assert!((first.ratio.0 / said.ratio.0).ln().abs() < 0.05, "{first:?} {said:?}");
    let mut table = counted(10e-6, &findings.causes[0].name);
    table.rows[0].cause = Some(findings.causes[0].id.clone());
    findings.locks = Some(table);
    let again = Observed::of(&findings).expect("enough was seen");
    assert_eq!((again.locks, again.contended), (seen.locks, seen.contended), "it counts once");
}

/// Calibrates a twin of a run whose clients wait for no lock that anyone may take. It forecasts
/// twice the clients, and the stage gone, as in `gone`.
fn has_a_stage(real: &Twin, findings: &Findings, gone: &Twin) {
    let seen = Observed::of(findings).expect("enough was seen");
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let stage = &twin.observed.locks[0];
    assert!(stage.stage.is_some(), "no lock does that: {:?}", twin.residuals);
    assert!(twin.file(|_| String::new()).contains("within = "), "a stage is a semaphore");
    let cure = Change::Without(stage.name.clone());
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    for (change, real, clients, near) in [(None, real, 16, 0.1), (Some(cure), gone, 8, 0.25)] {
        let level = Level { clients, cores: 4 };
        let asked = Asked { level, changes: change.into_iter().collect() };
        let said = oracle.ask(&asked).expect("an answer");
        let truth = truth(real, level);
        let off = (said.throughput.0 / truth).ln();
        assert!(off.abs() < near, "{asked:?}: {said:?}, truth {truth}");
        assert!(said.low.0 < truth && truth < said.high.0, "{asked:?}: {said:?}, truth {truth}");
    }
}

/// Without the thread every client does the work itself, as much as in [`FREE`].
#[test]
fn a_thread_that_serves_all_is_a_stage() {
    let [served, free] = [SERVED, FREE].map(|text| Twin::parse(text).expect("valid"));
    has_a_stage(&served, &analysed(SERVED, &[1, 2, 4, 8]), &free);
}

#[test]
fn a_pool_is_a_stage_of_as_many_servers() {
    let pool = Twin::parse(POOL).expect("valid");
    let gone = pool.with(&Change::Without("connections".to_owned())).expect("there");
    let mut findings = analysed(POOL, &[1, 2, 4, 8]);
    findings.causes[0].name = Name::PoolLimit { permits: 2, taken_in: "borrow".to_owned() };
    has_a_stage(&pool, &findings, &gone);
}

/// A census of one lock that is taken five times an operation and held for so long in all.
fn counted(held: f64, name: &Name) -> LockTable {
    let level = Level { clients: 1, cores: 1 };
    let row = LockRow {
        name: name.clone(),
        path: Vec::new(),
        cause: None,
        objects: 1,
        taken: Some(Count(5.0)),
        shared: Ratio(0.0),
        busy: None,
        held: None,
        held_per_operation: Some(Estimate::of(held, held, held)),
        at_most: Some(Estimate::of(1.0 / held, 1.0 / held, 1.0 / held)),
        waits: None,
        wait: None,
        wait_longest: None,
    };
    LockTable { level, waits_at: level, operations: None, rows: vec![row], more: 0 }
}

/// No thread serves one client, as where they are tasks of a runtime.
fn shared(twin: &Twin, clients: &[u32]) -> Findings {
    let mut record = record(twin, &levels(clients), &how()).expect("simulated");
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        match fact {
            Fact::ThreadTime(time) => time.role = Some(ThreadRole::Other),
            Fact::Wait(wait) => wait.role = ThreadRole::Other,
            _ => {}
        }
    }
    analyse(&record)
}

#[test]
fn clients_that_share_threads_are_forecast_by_what_little_s_law_leaves() {
    for (text, object) in [(LOCKED, "table"), (POOL, "connections")] {
        let twin = Twin::parse(text).expect("valid");
        let findings = shared(&twin, &[1, 2, 4, 8]);
        let seen = Observed::of(&findings).expect("one client alone was measured");
        assert!(seen.locks[0].stage.is_some() && seen.locks[0].name.contains(object), "{seen:?}");
        let known = calibrate(&seen, 3, 2).expect("calibrated");
        assert!(known.error.0 < 0.15, "{object}: {:?}", known.residuals);
        let mut oracle = Oracle::new(&known, 3, 2).expect("usable");
        let gone = twin.with(&Change::Without(object.to_owned())).expect("there");
        let without = vec![Change::Without(seen.locks[0].name.clone())];
        for (clients, changes, real) in [(16, Vec::new(), &twin), (8, without, &gone)] {
            let level = Level { clients, cores: 4 };
            let said = oracle.ask(&Asked { level, changes }).expect("an answer");
            let truth = truth(real, level);
            let off = (said.throughput.0 / truth).ln().abs();
            assert!(off < 0.25, "{object}, {level:?}: {said:?} {truth}");
        }
    }
    let twin = Twin::parse(LOCKED).expect("valid");
    let said = Observed::of(&shared(&twin, &[2, 4, 8]));
    assert_eq!(said, Err(NoTwin::SharedThreads), "what one alone waits for is not known");
}

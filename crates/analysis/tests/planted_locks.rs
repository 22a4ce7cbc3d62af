//! The lock table on records whose locks are known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::*;
use kneepoint_vocab::*;

/// What the census saw of a lock that a thousand operations took three times each, and that was
/// held at 12 of 2,000 looks: 6 µs of each operation.
fn taken(object: u64, stack: u32) -> LockUse {
    LockUse {
        object,
        object_name: None,
        taken: 3_000,
        shared: 0,
        looks: 2_000,
        held: 12,
        stacks: vec![TakenAt { stack: StackId(stack), times: 3_000 }],
    }
}

fn with_census(locks: Vec<LockUse>) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 6, locked);
    let cell = Cell { throughput: 1000.0, idle_uncharged: 1.0, ..Cell::default() };
    let mut census = trial(Phase::Census, 0, VariantId::BASELINE, 0, 1, &cell);
    (census.operations, census.counted_over) = (1_000, census.window.length);
    census.facts = locks.into_iter().map(Fact::LockUse).collect();
    record.trials.insert(0, census);
    record
}

/// The lock of the planted record in its first start.
const LOCK: u64 = 0x1000;

#[test]
fn a_lock_has_its_hold_times_beside_its_waits() {
    let findings = kneepoint_analysis::analyse(&with_census(vec![taken(LOCK, 2)]));
    let table = findings.locks.unwrap();
    assert_eq!((table.level, table.waits_at), (level(1), level(2)));
    let [row] = table.rows.as_slice() else { panic!("{:?}", table.rows) };
    assert_eq!(row.name.to_string(), "mutex in sqlite3BtreeEnter");
    assert_eq!(row.cause.as_ref(), Some(&findings.causes[0].id), "it is the first cause");
    // The planted throughput wobbles by a hundredth.
    let close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.02;
    let (held, most) = (row.held.unwrap(), row.at_most.unwrap());
    assert!(close(row.taken.unwrap().0, 3.0) && close(held.value.0, 2e-6), "{row:?}");
    assert!(close(row.held_per_operation.unwrap().value.0, 6e-6), "{row:?}");
    assert!(close(most.value.0, 1.0 / 6e-6) && close(row.busy.unwrap().value.0, 0.006), "{row:?}");
    assert!(held.low.0 < 1.5e-6 && held.high.0 > 2.5e-6, "twelve looks are few: {held:?}");
    assert!(row.waits.unwrap().0 > 0.0 && close(row.wait_longest.unwrap().0, 0.001), "{row:?}");
}

#[test]
fn a_lock_that_nobody_waits_for_has_a_row_and_is_no_cause() {
    let record = with_census(vec![taken(LOCK, 2), taken(0x9000, 0)]);
    let with = kneepoint_analysis::analyse(&record);
    let rows = with.locks.as_ref().unwrap().rows.len();
    let other = with.locks.as_ref().unwrap().rows.iter().find(|row| row.cause.is_none()).unwrap();
    assert_eq!((rows, other.waits, other.name.to_string().as_str()), (2, None, "lock in work"));
    let without = kneepoint_analysis::analyse(&with_census(Vec::new()));
    assert_eq!(without.locks, None);
    assert_eq!(with.causes, without.causes, "the census ranks nothing");
    assert_eq!(with.ledgers, without.ledgers);
    assert_eq!(with.curve, without.curve, "its slice is no throughput");
}

#[test]
fn readers_and_many_locks_of_one_name_leave_room_for_who_knows_how_many() {
    let shared = LockUse { shared: 1_000, ..taken(LOCK, 2) };
    let at_most = |locks: Vec<LockUse>| {
        let table = kneepoint_analysis::analyse(&with_census(locks)).locks.unwrap();
        let [row] = table.rows.as_slice() else { panic!("{:?}", table.rows) };
        (row.at_most.is_some(), row.busy.is_some(), row.objects)
    };
    assert_eq!(at_most(vec![shared]), (false, true, 1));
    assert_eq!(at_most(vec![taken(LOCK, 2), taken(LOCK + 0x40, 2)]), (false, false, 2));
    assert_eq!(at_most(vec![taken(LOCK, 2)]), (true, true, 1));
    let never = LockUse { held: 0, ..taken(LOCK, 2) };
    assert_eq!(at_most(vec![never]), (false, false, 1), "held for too short to be seen");
}

#[test]
fn where_operations_are_counted_over_more_than_the_window_nobody_knows_how_often() {
    let mut record = with_census(vec![taken(LOCK, 2)]);
    record.trials[0].counted_over = Nanos(4 * record.trials[0].window.length.0);
    let table = kneepoint_analysis::analyse(&record).locks.unwrap();
    let row = &table.rows[0];
    assert_eq!((table.operations, row.taken, row.held), (None, None, None));
    assert!(row.held_per_operation.is_some() && row.at_most.is_some(), "{row:?}");
}

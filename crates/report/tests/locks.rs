//! The lock table on the page, and what of it stands beside a cause.

#![allow(dead_code, reason = "a part of the invented findings is used here")]

mod synthetic;

use kneepoint_report::html;
use kneepoint_vocab::findings::{CallRow, CallTable, LockRow, LockTable, Name, Place};
use kneepoint_vocab::units::{Count, PerSecond, Ratio, Seconds};
use kneepoint_vocab::{Estimate, Findings};

fn row(name: Name, cause: Option<String>) -> LockRow {
    LockRow {
        name,
        path: Vec::new(),
        cause,
        objects: 1,
        taken: Some(Count(3.0)),
        shared: Ratio(0.0),
        busy: Some(Estimate::of(0.6, 0.57, 0.63)),
        held: Some(Estimate::of(21e-6, 20e-6, 22e-6)),
        held_per_operation: Some(Estimate::of(63e-6, 60e-6, 66e-6)),
        at_most: Some(Estimate::of(15_873.0, 15_152.0, 16_667.0)),
        waits: Some(Count(2.4)),
        wait: Some(Seconds(22e-6)),
        wait_longest: Some(Seconds(4e-3)),
    }
}

fn findings() -> Findings {
    let mut findings = synthetic::findings();
    let first = row(findings.causes[0].name.clone(), Some(findings.causes[0].id.clone()));
    let readers = LockRow {
        shared: Ratio(0.75),
        at_most: None,
        waits: None,
        wait: None,
        wait_longest: None,
        ..row(Name::object("reader-writer lock", Place::In("look<up>".to_owned())), None)
    };
    findings.locks = Some(LockTable {
        level: findings.curve.points[0].level,
        waits_at: findings.focus,
        operations: Some(Count(5_300.0)),
        rows: vec![first, readers],
        more: 3,
    });
    findings
}

#[test]
fn the_page_has_a_table_of_locks_and_says_which_leaves_least_room() {
    let page = html::render(&findings());
    for part in [
        "<h3>Locks</h3>",
        "over 5.3k operations",
        "leaves room for 15.9k [15.2–16.7]/s, however many cores there are. The best level does",
        "60 % [57–63]",
        "reader-writer lock in look&lt;up&gt; (75 % by readers)",
        "3 more are held less.",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(!html::render(&synthetic::findings()).contains("<h3>Locks</h3>"));
    let mut uncounted = findings();
    if let Some(locks) = &mut uncounted.locks {
        locks.operations = None;
        locks.rows[0].taken = None;
    }
    assert!(html::render(&uncounted).contains("How often an operation takes them is not known"));
}

#[test]
fn a_cause_says_how_often_and_how_long_its_lock_is_held() {
    let page = html::render(&findings());
    assert!(page.contains("<dt>held each time</dt><dd>21.0 µs [20.0–22.0]</dd>"));
    assert!(page.contains("<dt>room for, operations/s</dt><dd>15.9k [15.2–16.7]</dd>"));
}

#[test]
fn calls_that_fail_each_time_are_said_to_do_so() {
    let mut findings = findings();
    let call = |name: &str, per_operation, failing, error: Option<&str>| CallRow {
        name: name.to_owned(),
        per_operation: Some(Count(per_operation)),
        rate: PerSecond(per_operation * 100.0),
        failing: Ratio(failing),
        error: error.map(str::to_owned),
        in_vain: failing >= 1.0 && error != Some("EAGAIN"),
    };
    findings.calls = Some(CallTable {
        level: findings.curve.points[0].level,
        operations: Some(Count(5_300.0)),
        rows: vec![
            call("read", 9.0, 0.5, Some("EAGAIN")),
            call("sched_setscheduler", 4.0, 1.0, Some("EINVAL")),
        ],
    });
    let page = html::render(&findings);
    assert!(
        page.contains("sched_setscheduler fails each time (EINVAL), 4 times for an operation.")
    );
    assert!(page.contains("50 % EAGAIN"), "in the table");
}

//! Recorded runs of programs with one planted bottleneck (`strangers/`) are still told right.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::fixture;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{Cause, CauseKind};

fn findings(name: &str) -> Findings {
    kneepoint_analysis::analyse(&kneepoint_lab::open(&fixture(name)).unwrap())
}

/// What every such run says first.
fn first(findings: &Findings, kind: CauseKind, name: &str) -> Cause {
    let told: Vec<_> = findings.causes.iter().map(|one| (&one.name, one.share.value.0)).collect();
    let first = findings.causes.first().unwrap_or_else(|| panic!("{}", findings.headline));
    assert_eq!((first.kind, first.name.as_str()), (kind, name), "{told:?}");
    assert!(first.share.value.0 > 0.6, "{told:?}");
    first.clone()
}

#[test]
fn a_mutex_of_go_is_named_by_who_wants_it() {
    let findings = findings("go-mutex");
    let mutex = first(&findings, CauseKind::Lock, "mutex in main.(*ledger).post");
    assert_eq!(mutex.path[0], "main.(*ledger).post");
    // What the runtime does for it is no cause beside it.
    let plumbing = findings.causes.iter().find(|one| one.name.contains("runtime."));
    assert!(plumbing.is_none(), "{plumbing:?}");
}

#[test]
fn a_pool_that_holders_sleep_on_is_a_limit() {
    let findings = findings("pool-of-two");
    let pool =
        first(&findings, CauseKind::Lock, "pool limit: 2 permits (semaphore in borrow_connection)");
    assert_eq!(pool.path[0], "borrow_connection");
}

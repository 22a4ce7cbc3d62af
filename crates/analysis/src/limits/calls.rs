//! What system calls an operation makes, and which of them fail each time.

use crate::frames::names::numbered_call;
use crate::number::{count, finite, quotient, seconds};
use crate::waits::counted;
use kneepoint_vocab::findings::{CallRow, CallTable};
use kneepoint_vocab::units::{Count, PerSecond, Ratio};
use kneepoint_vocab::{Fact, RunRecord};
use std::collections::BTreeMap;
use syscalls::Errno;

/// Rows of the table at most.
const MOST_ROWS: usize = 20;
/// Calls that fewer operations make, one in so many, are left out.
const LEAST: f64 = 1e-3;
/// A call fails each time where at least this part of its calls does.
const EACH: f64 = 0.99;
/// Errors that only ask to wait, or to try again.
const AGAIN: [&str; 6] = ["EAGAIN", "EINTR", "ETIMEDOUT", "EINPROGRESS", "EALREADY", "EBUSY"];

/// One call's outcomes: how often each error came, 0 being none.
type Outcomes = BTreeMap<u32, u64>;

/// The table; none where no calls were counted.
pub(crate) fn table(record: &RunRecord) -> Option<CallTable> {
    let trial = counted::slice(record)?;
    let (operations, window) = (counted::operations(trial), seconds(trial.window.length));
    let mut calls: BTreeMap<i32, Outcomes> = BTreeMap::new();
    for fact in &trial.facts {
        if let Fact::Calls(call) = fact {
            *calls.entry(call.number).or_default().entry(call.error).or_default() += call.count;
        }
    }
    let rows = calls.iter().map(|(number, outcomes)| row(*number, outcomes, operations, window));
    let often = |row: &CallRow| row.per_operation.is_none_or(|times| times.0 >= LEAST);
    let mut rows: Vec<CallRow> = rows.filter(often).collect();
    rows.sort_by(|a, b| b.rate.0.total_cmp(&a.rate.0));
    // What fails in vain is worth a row however rare it is beside others.
    let (shown, rare) = rows.split_at(rows.len().min(MOST_ROWS));
    let kept = shown.iter().chain(rare.iter().filter(|row| row.in_vain)).cloned();
    let rows: Vec<CallRow> = kept.collect();
    let (level, operations) = (trial.id.level, operations.map(|some| Count(finite(some))));
    (!rows.is_empty()).then_some(CallTable { level, operations, rows })
}

fn row(number: i32, outcomes: &Outcomes, operations: Option<f64>, window: f64) -> CallRow {
    let all: u64 = outcomes.values().sum();
    let failed: u64 = outcomes.iter().filter(|(error, _)| **error != 0).map(|(_, n)| n).sum();
    let errors = outcomes.iter().filter(|(error, _)| **error != 0);
    let error = errors.max_by_key(|(_, times)| **times).map(|(error, _)| error_name(*error));
    let failing = quotient(count(failed), count(all));
    let in_vain = failing >= EACH && error.as_deref().is_some_and(|name| !AGAIN.contains(&name));
    CallRow {
        name: call_name(number),
        per_operation: operations.map(|some| Count(quotient(count(all), some))),
        rate: PerSecond(quotient(count(all), window)),
        failing: Ratio(failing),
        error,
        in_vain,
    }
}

fn call_name(number: i32) -> String {
    numbered_call(number).map_or_else(|| format!("system call {number}"), str::to_owned)
}

fn error_name(number: u32) -> String {
    let known = i32::try_from(number).ok().and_then(|number| Errno::new(number).name());
    known.map_or_else(|| format!("error {number}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_fails_each_time_is_in_vain_unless_it_is_to_be_tried_again() {
        let of = |outcomes: &[(u32, u64)]| {
            row(144, &outcomes.iter().copied().collect(), Some(100.0), 0.5)
        };
        let scheduler = of(&[(22, 300)]);
        assert_eq!(scheduler.name, "sched_setscheduler");
        assert_eq!((scheduler.per_operation, scheduler.rate), (Some(Count(3.0)), PerSecond(600.0)));
        assert_eq!((scheduler.error.as_deref(), scheduler.in_vain), (Some("EINVAL"), true));
        let sometimes = of(&[(0, 100), (22, 200)]);
        assert!(!sometimes.in_vain && (sometimes.failing.0 - 2.0 / 3.0).abs() < 1e-9);
        let again = of(&[(11, 300)]);
        assert_eq!((again.error.as_deref(), again.in_vain), (Some("EAGAIN"), false));
        assert_eq!(of(&[(0, 5)]).error, None);
        assert_eq!(call_name(100_000), "system call 100000");
    }
}

//! What is said of locks and system calls that were counted.

use super::Axis;
use crate::number::{self, sentence};
use kneepoint_vocab::findings::{CallTable, Cause, LockRow, LockTable};
use kneepoint_vocab::{Findings, PerSecond, Unit};

/// How the table came about.
pub(crate) fn how(locks: &LockTable, axis: Axis) -> String {
    let taken = match locks.operations {
        Some(operations) => format!(
            "How often they are taken was counted at {}, over {} operations, by probes in the C \
             library's lock functions; how",
            axis.phrase(locks.level),
            sentence::quantity(operations)
        ),
        None => "How often an operation takes them is not known, since the program counts its \
                 operations over all of its run. How"
            .to_owned(),
    };
    format!(
        "{taken} long they are held was found at {} by looking at their words while nothing was in \
         the way. Waits are those of threads that slept at {}; who spins is in the causes. Locks \
         that a program makes of futexes itself are not in the table.",
        axis.phrase(locks.level),
        axis.phrase(locks.waits_at)
    )
}

/// The lock that leaves room for the fewest operations, where the curve comes near to that.
pub(crate) fn fullest(findings: &Findings) -> Option<String> {
    /// Part of the room from which it is worth a word.
    const NEAR: f64 = 0.5;
    let locks = findings.locks.as_ref()?;
    let of_row = |row: &LockRow| Some((row.name.clone(), row.held_per_operation?, row.at_most?));
    let rows = locks.rows.iter().filter_map(of_row);
    let (name, held, at_most) = rows.min_by(|a, b| a.2.value.get().total_cmp(&b.2.value.get()))?;
    let most = findings.curve.points.iter().map(|point| point.throughput.value.get());
    let most = most.fold(0.0, f64::max);
    (most > NEAR * at_most.low.get()).then(|| {
        format!(
            "{name} is held by one at a time for {} of each operation: it leaves room for {}/s, \
             however many cores there are. The best level does {}.",
            number::seconds(&held),
            number::rate(&at_most),
            sentence::rate(PerSecond(most))
        )
    })
}

/// The row of the lock that a cause is.
pub(crate) fn of_cause<'a>(findings: &'a Findings, cause: &Cause) -> Option<&'a LockRow> {
    let rows = &findings.locks.as_ref()?.rows;
    rows.iter().find(|row| row.cause.as_deref() == Some(&cause.id))
}

/// Calls that fail each time.
pub(crate) fn in_vain(calls: &CallTable) -> Vec<String> {
    let rows = calls.rows.iter().filter(|row| row.in_vain);
    let said = rows.map(|row| {
        let times = row
            .per_operation
            .map(|times| format!(", {} times for an operation", sentence::quantity(times)));
        format!(
            "{} fails each time ({}){}.",
            row.name,
            row.error.as_deref().unwrap_or("an error"),
            times.unwrap_or_default()
        )
    });
    said.collect()
}

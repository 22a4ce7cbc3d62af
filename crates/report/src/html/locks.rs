//! What the census counted: how locks are used by one client, and how they are waited for; which
//! system calls an operation makes, and how they end.

use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number::{self, sentence};
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{CallRow, CallTable, LockRow, LockTable};
use kneepoint_vocab::{Findings, Unit};

/// Both tables with what they say; empty where nothing was counted.
pub(super) fn view(findings: &Findings, axis: Axis) -> Markup {
    let mut out = locks(findings, axis);
    if let Some(calls) = &findings.calls {
        out.push(&calls_of(calls, axis));
    }
    out
}

fn calls_of(calls: &CallTable, axis: Axis) -> Markup {
    let mut out = Tag::new("h3").text("System calls").done();
    for said in words::locks::in_vain(calls) {
        out.push(&Tag::new("p").text(&said).done());
    }
    let mut table = Table::new(["call", "per operation", "each second, slowed", "failing"]);
    for row in &calls.rows {
        let times = row.per_operation.map_or_else(|| "–".to_owned(), sentence::quantity);
        table.row([row.name.clone(), times, sentence::quantity(row.rate), failing(row)]);
    }
    let title = format!("System calls at {}", axis.phrase(calls.level));
    out.push(&table.folded(&title));
    out
}

fn failing(row: &CallRow) -> String {
    let Some(error) = row.error.as_ref() else { return "–".to_owned() };
    format!("{} {error}", sentence::percent(row.failing))
}

fn locks(findings: &Findings, axis: Axis) -> Markup {
    let Some(locks) = &findings.locks else { return Markup::default() };
    let mut out = Tag::new("h3").text("Locks").done();
    out.push(&Tag::of("p", "aside").text(&words::locks::how(locks, axis)).done());
    if let Some(said) = words::locks::fullest(findings) {
        out.push(&Tag::new("p").text(&said).done());
    }
    out.push(&table(locks).markup());
    if locks.more > 0 {
        let more = format!("{} more are held less.", locks.more);
        out.push(&Tag::of("p", "aside").text(&more).done());
    }
    out
}

fn table(locks: &LockTable) -> Table {
    let mut table = Table::new([
        "lock",
        "taken per operation",
        "held, of the time",
        "held each time",
        "held per operation",
        "room for, operations/s",
        "waits per operation",
        "wait each time (longest)",
    ]);
    for row in &locks.rows {
        table.row(cells(row));
    }
    table
}

fn cells(row: &LockRow) -> [String; 8] {
    let none = || "–".to_owned();
    let time = |time: Option<_>| time.map(sentence::duration);
    let wait = match (time(row.wait), time(row.wait_longest)) {
        (Some(mean), Some(longest)) => format!("{mean} ({longest})"),
        (mean, _) => mean.unwrap_or_else(none),
    };
    let kinds = match (row.shared.get() > 0.0, row.objects) {
        (true, _) => format!(" ({} by readers)", sentence::percent(row.shared)),
        (false, 2..) => format!(" ({} objects)", row.objects),
        (false, _) => String::new(),
    };
    [
        format!("{}{kinds}", row.name),
        row.taken.map_or_else(none, sentence::quantity),
        row.busy.map_or_else(none, |busy| sentence::share(&busy)),
        row.held.map_or_else(none, |held| number::seconds(&held).to_string()),
        row.held_per_operation.map_or_else(none, |held| number::seconds(&held).to_string()),
        row.at_most.map_or_else(none, |most| number::rate(&most).to_string()),
        row.waits.map_or_else(none, sentence::quantity),
        wait,
    ]
}

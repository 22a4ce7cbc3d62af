//! Why throughput falls: the waterfall of an operation's price, from the best level to the worst.

use super::line::{Line, Style, bar, wrap};
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;

/// Columns of what a row adds.
const RISE: usize = 10;
/// Below this many columns there are neither bars nor shares.
const NARROW: usize = 60;
/// Columns of a share with its interval.
const SHARE: usize = 16;

/// So many rows between the two prices; and, where all are asked for, what limits the best level
/// and what to do about the load generator.
pub(super) fn lines(findings: &Findings, axis: Axis, width: usize, most: usize) -> Vec<Line> {
    if most == 0 {
        return Vec::new();
    }
    let Some(fall) = words::price::waterfall(findings, axis, most) else { return Vec::new() };
    let title = wrap(&format!("Why it falls: {}", fall.title), width);
    let mut lines: Vec<Line> = title.iter().map(|line| Line::new(Style::Bold, line)).collect();
    let room = if width < NARROW { 0 } else { (width / 6).clamp(10, 30) };
    let end = |(level, price, place): &(String, String, f64)| {
        let line = Line::new(Style::Plain, &text::pad_left(price, RISE)).plain(" ");
        let line = if room > 0 { line.then(Style::Faint, &bar(*place, room)) } else { line };
        line.to(RISE + 2 + room).then(Style::Bold, level)
    };
    lines.push(end(&fall.from));
    for row in &fall.rows {
        lines.push(step(row, width, room));
    }
    lines.push(end(&fall.to));
    let full = most == usize::MAX;
    let said = [words::price::at_best(findings, axis), words::price::generator(findings, axis)];
    for sentence in said.into_iter().flatten().filter(|_| full) {
        lines.extend(wrap(&sentence, width).iter().map(|line| Line::new(Style::Faint, line)));
    }
    lines
}

/// A row: what it adds, where that lies between the two prices, what it is, and its part of all
/// that rises.
fn step(row: &words::price::Row, width: usize, room: usize) -> Line {
    let line = Line::new(Style::Plain, &text::pad_left(&row.rise, RISE)).plain(" ");
    let (low, high) = (row.begin.min(row.end), row.begin.max(row.end));
    let line = if room > 0 {
        let before = cells(low, room);
        let line = line.plain(&" ".repeat(before));
        // A bar takes its part of what is left beside it.
        let part = (high - low) * columns(room) / columns(room - before);
        line.then(Style::Kind(row.kind), &bar(part, room - before)).to(RISE + 2 + room)
    } else {
        line.plain(" ")
    };
    let share = row.share.as_ref().filter(|_| room > 0).map(ToString::to_string);
    let column =
        width.saturating_sub(share.as_deref().map_or(0, |share| text::columns(share).max(SHARE)));
    let left = column.saturating_sub(line.columns() + 1);
    let split = row.idle.as_ref().map(|idle| format!(" ({idle})")).unwrap_or_default();
    let whole = format!("{}{split}", row.label);
    let fits = text::columns(&whole) <= left;
    let line = line.plain(&if fits { whole } else { text::shorten(&row.label, left) });
    match share {
        Some(share) => {
            line.to(width.saturating_sub(text::columns(&share))).then(Style::Bold, &share)
        }
        None => line,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a terminal's width")]
fn columns(room: usize) -> f64 {
    room as f64
}

/// Whole columns of a part, one short of all at most.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the part is clamped to 0..=1 and the room is a terminal's width"
)]
fn cells(part: f64, room: usize) -> usize {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    ((part * columns(room)).round() as usize).min(room.saturating_sub(1))
}

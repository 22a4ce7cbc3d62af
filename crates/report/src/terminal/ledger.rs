//! Where the cores go at the focus level: one bar a kind of line in the core ledger.

use super::focus;
use super::line::{Line, Style, bar};
use crate::number;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{CoreLine, LineKind};
use kneepoint_vocab::{Cores, Findings, Unit};

const WORD: usize = 13;
/// Parts of a row below this share of it stay unnamed.
const NAMED: f64 = 0.1;
/// Rows below this share of all cores go together into one.
const TINY: f64 = 0.02;
/// What is below this share of all cores has no row at all.
const NOTHING: f64 = 0.004;

/// Lines of one kind in one row, or small rows together.
struct Row {
    word: &'static str,
    kind: LineKind,
    cores: Cores,
    /// What it consists of, greatest first.
    said: Vec<String>,
}

pub(super) fn lines(findings: &Findings, axis: Axis, width: usize, most: usize) -> Vec<Line> {
    let Some(ledger) = focus(findings).filter(|_| most > 0) else { return Vec::new() };
    let total = ledger.core.total;
    // The title already says how many cores, where these are the cores of the level.
    let said = (total.get() - f64::from(findings.focus.cores)).abs() < 0.05;
    let axis = if axis == Axis::Both && said { Axis::Clients } else { axis };
    let room = (width / 6).clamp(4, 30);
    let title = format!(
        "Where {} {} at {}",
        number_of_cores(total),
        if total.get() <= 1.0 { "goes" } else { "go" },
        axis.phrase(findings.focus)
    );
    let mut lines = vec![Line::new(Style::Bold, &title)];
    for row in fewest(by_kind(&ledger.core.lines), total, most) {
        let head = Line::new(Style::Plain, &format!("  {}", row.word));
        lines.push(
            head.to(2 + WORD)
                .then(Style::Kind(row.kind), &bar(row.cores.get() / total.get(), room))
                .to(2 + WORD + room + 1)
                .plain(&text::pad_left(&number::plain_cores(row.cores), 5))
                .plain("   ")
                .then(Style::Faint, &fitting(&row.said, width.saturating_sub(WORD + room + 11))),
        );
    }
    lines
}

/// Below this many columns there is no room for words.
const WORDLESS: usize = 12;

/// The first parts in full, and how many more there are.
fn fitting(parts: &[String], room: usize) -> String {
    if room < WORDLESS {
        return String::new();
    }
    for kept in (1..=parts.len()).rev() {
        let left = parts.len() - kept;
        let more = if left > 0 { format!(" and {left} more") } else { String::new() };
        let words = parts[..kept].join(", ") + &more;
        if text::columns(&words) <= room {
            return words;
        }
    }
    parts.first().map(|part| text::shorten(part, room)).unwrap_or_default()
}

fn number_of_cores(total: Cores) -> String {
    let text = format!("{:.1}", total.get());
    let text = text.trim_end_matches(".0");
    format!("{text} core{}", if text == "1" { "" } else { "s" })
}

/// One row for each kind of line, in the order of the stack.
fn by_kind(lines: &[CoreLine]) -> Vec<Row> {
    let mut kinds: Vec<LineKind> = lines.iter().map(|line| line.kind).collect();
    kinds.sort_by_key(|kind| words::order(*kind));
    kinds.dedup();
    let rows = kinds.into_iter().map(|kind| {
        let mut parts: Vec<&CoreLine> = lines.iter().filter(|line| line.kind == kind).collect();
        parts.sort_by(|a, b| b.cores.value.get().abs().total_cmp(&a.cores.value.get().abs()));
        let cores: Cores = parts.iter().map(|line| line.cores.value).sum();
        let least = parts.iter().map(|line| line.cores.value.get().abs()).sum::<f64>() * NAMED;
        let named = parts.iter().filter(|line| line.cores.value.get().abs() >= least);
        let said = named.map(|line| said(line)).collect();
        Row { word: words::line_word(kind), kind, cores, said }
    });
    rows.collect()
}

/// What a line counts; empty where that only repeats the kind's word.
fn said(line: &CoreLine) -> String {
    let label = text::disarm(&words::line::beside_kind(&line.name)).into_owned();
    let repeats = label.eq_ignore_ascii_case(words::line_word(line.kind));
    if repeats { String::new() } else { label }
}

/// Rows that are worth a line; the small rest together, so that the numbers still add up.
fn fewest(rows: Vec<Row>, total: Cores, most: usize) -> Vec<Row> {
    let size = |row: &Row| row.cores.get().abs();
    let worth = |row: &Row| size(row) >= total.get() * TINY;
    let mut sizes: Vec<f64> = rows.iter().filter(|row| worth(row)).map(size).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let kept = if sizes.len() > most { most.saturating_sub(1) } else { sizes.len() };
    let least = if sizes.len() > kept { sizes[kept] } else { 0.0 };
    let (mut shown, mut rest): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| worth(row) && (least <= 0.0 || size(row) > least));
    let cores: Cores = rest.iter().map(|row| row.cores).sum();
    if cores.get().abs() < total.get() * NOTHING {
        return shown;
    }
    rest.retain(|row| size(row) >= total.get() * NOTHING / 2.0);
    if rest.len() == 1 {
        shown.append(&mut rest);
        shown.sort_by_key(|row| words::order(row.kind));
    } else {
        let said = rest.iter().map(|row| row.word.to_owned()).collect();
        shown.push(Row { word: "other", kind: LineKind::Unaccounted, cores, said });
    }
    shown
}

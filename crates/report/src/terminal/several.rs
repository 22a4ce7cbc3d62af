//! Several numbers of cores: one compact block for each, under one row of clients.

use super::curve::{TREATED, explained, treated_note};
use super::line::{Line, Style, bar};
use crate::number;
use crate::series::{self, Series};
use crate::text;
use crate::words;
use kneepoint_vocab::findings::{Curve, TreatedCurve};
use kneepoint_vocab::{Findings, Level, PerSecond, Unit};

/// Columns of the words left of the levels.
const LABEL: usize = 10;
/// Levels that are shown before notes are put below rather than beside them; fewer where there
/// is no room for bars.
const FEW: usize = 4;
const FEWER: usize = 2;

/// Where the parts of the picture stand.
struct Layout {
    /// Columns of one level.
    column: usize,
    levels: Vec<Level>,
    /// The column of the notes; absent where they stand below.
    notes: Option<usize>,
    highest: f64,
}

/// The picture of all numbers of cores, of the most important `most` where there are more; with
/// bars, each has a second line.
pub(super) fn lines(
    findings: &Findings,
    series: &Series<'_>,
    width: usize,
    most: usize,
    bars: bool,
) -> Vec<Line> {
    let curves = chosen(findings, series, most);
    let layout = layout(findings, series, &curves, width, bars);
    let mut lines = vec![head(findings, series, &layout)];
    for curve in &curves {
        lines.extend(block(findings, series, curve, &layout, width, bars));
    }
    for treated in &findings.treated {
        lines.extend(treated_row(series, treated, &layout, width));
    }
    let left = series.curves.len() - curves.len();
    if left > 0 {
        let said = format!("{left} more numbers of cores are in the report");
        lines.push(Line::new(Style::Faint, &said));
    }
    lines
}

/// The fewest and the most cores, those of the focus, then the others from the most on.
fn chosen<'a>(findings: &Findings, series: &Series<'a>, most: usize) -> Vec<&'a Curve> {
    let last = series.curves.len().saturating_sub(1);
    let rank = |index: usize| match index {
        0 => 0,
        _ if index == last => 1,
        _ if series::cores(series.curves[index]) == findings.focus.cores => 2,
        _ => 3 + last - index,
    };
    let mut order: Vec<usize> = (0..series.curves.len()).collect();
    order.sort_by_key(|index| rank(*index));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|index| series.curves[index]).collect()
}

fn layout(
    findings: &Findings,
    series: &Series<'_>,
    curves: &[&Curve],
    width: usize,
    bars: bool,
) -> Layout {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let treated = findings.treated.iter().flat_map(|one| &one.curve.points);
    let widths = points().chain(treated).map(|point| text::columns(&rate(point.throughput.value)));
    let column = widths.max().unwrap_or(0).clamp(4, 9) + 1;
    let (kept, few) = if bars { (2, FEW) } else { (1, FEWER) };
    let noted =
        curves.iter().flat_map(|curve| notes(findings, series, curve).into_iter().take(kept));
    let widest = noted.map(|note| text::columns(&note)).max().unwrap_or(0);
    let all = series.levels();
    let beside = width.saturating_sub(LABEL + 1 + widest) / column;
    let room =
        if beside >= few.min(all.len()) { beside } else { width.saturating_sub(LABEL) / column };
    let levels = thinned(findings, series, curves, &all, room.max(1));
    let notes = (room == beside).then_some(LABEL + column * levels.len() + 1);
    let rates = points().map(|point| point.throughput.value.get());
    let highest = rates.filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    Layout { column, levels, notes, highest }
}

/// The levels that fit: first, last, focus and knees, then the others evenly.
fn thinned(
    findings: &Findings,
    series: &Series<'_>,
    curves: &[&Curve],
    all: &[Level],
    room: usize,
) -> Vec<Level> {
    if all.len() <= room {
        return all.to_vec();
    }
    let last = all.len() - 1;
    let knee = |level: Level| curves.iter().any(|curve| series.same_place(curve.knee.level, level));
    let rank = |index: usize| {
        let level = all[index];
        if series.same_place(level, findings.focus) {
            0
        } else if index == 0 || index == last {
            1
        } else if knee(level) {
            2
        } else {
            3 + usize::from(index % 2 == 1)
        }
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|index| rank(*index));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| all[index]).collect()
}

fn rate(rate: PerSecond) -> String {
    number::plain_rate(rate)
}

fn head(findings: &Findings, series: &Series<'_>, layout: &Layout) -> Line {
    let mut line = Line::new(Style::Plain, &text::pad(series.axis.word(), LABEL));
    for (index, level) in layout.levels.iter().enumerate() {
        let focus = explained(findings) && series.same_place(*level, findings.focus);
        let star = if focus { "*" } else { "" };
        let end = LABEL + (index + 1) * layout.column;
        line = line.plain(&(series.axis.tick(*level) + star)).to(end);
    }
    let unit = format!("{}/s", text::disarm(&findings.operation));
    match layout.notes {
        Some(column) => line.to(column).then(Style::Faint, &unit),
        None => line,
    }
}

/// Throughput on so many cores, its bars, and its notes.
fn block(
    findings: &Findings,
    series: &Series<'_>,
    curve: &Curve,
    layout: &Layout,
    width: usize,
    bars: bool,
) -> Vec<Line> {
    let cores = series::cores(curve);
    let focus = explained(findings) && cores == findings.focus.cores;
    let star = if focus { "*" } else { "" };
    let name = words::counted(cores, "core") + star;
    let mut rates = Line::new(Style::Plain, &text::pad(&name, LABEL));
    let mut drawn = Line::new(Style::Plain, &" ".repeat(LABEL));
    for (index, level) in layout.levels.iter().enumerate() {
        let end = LABEL + (index + 1) * layout.column;
        let mut points = curve.points.iter();
        if let Some(point) = points.find(|point| series.same_place(point.level, *level)) {
            let value = point.throughput.value;
            let shown = text::clip(&rate(value), layout.column - 1);
            rates = rates.then(Style::Bold, &shown);
            drawn = drawn.plain(&bar(value.get() / layout.highest, layout.column - 1));
        }
        rates = rates.to(end);
        drawn = drawn.to(end);
    }
    let [knee, peak] = notes(findings, series, curve);
    let Some(column) = layout.notes else {
        let said = text::clip(&format!("{knee}, {peak}"), width.saturating_sub(2));
        return vec![rates, Line::new(Style::Plain, "  ").then(Style::Faint, &said)];
    };
    if !bars {
        let both = format!("{knee}, {peak}");
        let said = if column + text::columns(&both) <= width { both } else { knee };
        return vec![rates.to(column).then(Style::Faint, &said)];
    }
    let rates = rates.to(column).then(Style::Faint, &knee);
    vec![rates, drawn.to(column).then(Style::Faint, &peak)]
}

/// A treated variant on the focus's cores, and how far it scales.
fn treated_row(
    series: &Series<'_>,
    treated: &TreatedCurve,
    layout: &Layout,
    width: usize,
) -> Vec<Line> {
    let mut line = Line::new(Style::Plain, &text::pad(TREATED, LABEL));
    for (index, level) in layout.levels.iter().enumerate() {
        let mut points = treated.curve.points.iter();
        if let Some(point) = points.find(|point| series.same_place(point.level, *level)) {
            let shown = text::clip(&rate(point.throughput.value), layout.column - 1);
            line = line.then(Style::Bold, &shown);
        }
        line = line.to(LABEL + (index + 1) * layout.column);
    }
    let column = layout.notes.unwrap_or(2);
    let note = treated_note(treated, series.axis);
    let note = text::clip(&note, width.saturating_sub(column));
    match layout.notes {
        Some(column) => vec![line.to(column).then(Style::Faint, &note)],
        None => vec![line, Line::new(Style::Plain, "  ").then(Style::Faint, &note)],
    }
}

/// The knee, and the peak over that on the fewest cores.
fn notes(findings: &Findings, series: &Series<'_>, curve: &Curve) -> [String; 2] {
    let knee = words::knee(curve, series.axis);
    let knee = knee.replace(" clients", "").replace(" client", "");
    let cores = series::cores(curve);
    let mut all = findings.by_cores.iter();
    let over = all.find(|one| one.cores == cores).map(|one| number::factor(&one.over_fewest));
    let fewest = series.curves.first().map_or(0, |curve| series::cores(curve));
    let peak = match over {
        Some(over) if cores != fewest => format!("{over} of {}", words::counted(fewest, "core")),
        _ => {
            let peak = curve.points.iter().find(|point| point.level == curve.peak);
            peak.map_or_else(String::new, |point| {
                format!("peak {}", number::rate(&point.throughput))
            })
        }
    };
    [format!("knee {knee}"), peak]
}

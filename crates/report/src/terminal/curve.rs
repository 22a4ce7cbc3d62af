//! Where it stops scaling: levels, throughput and bars, with the knee beside them.

use super::line::{Line, Style, bar, wrap};
use crate::number;
use crate::series::ResponseTime;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{CurvePoint, Shape, TreatedCurve};
use kneepoint_vocab::{Findings, Nanos, Unit};

/// Columns of the words left of the levels.
const LABEL: usize = 10;
/// The most of them, so that a long word for an operation leaves room for the levels.
const WIDEST_LABEL: usize = 18;

/// Whether a picture has bars, and how many percentiles of the response time.
type Parts = (bool, usize);

/// One curve: levels, throughput, bars, response times and notes.
pub(super) fn lines(findings: &Findings, axis: Axis, width: usize, parts: Parts) -> Vec<Line> {
    let named = format!("{}/s", text::disarm(&findings.operation));
    let label = (text::columns(&named) + 1).max(LABEL);
    if label <= WIDEST_LABEL {
        let (lines, whole) = picture(findings, axis, width, (&named, label), (parts, None));
        if whole {
            return lines;
        }
    }
    let said = format!("ops are {}", text::disarm(&findings.operation));
    picture(findings, axis, width, ("ops/s", LABEL), (parts, Some(&said))).0
}

/// The picture with its notes, and whether all levels and notes fit.
fn picture(
    findings: &Findings,
    axis: Axis,
    width: usize,
    (unit, label): (&str, usize),
    (parts, said): (Parts, Option<&str>),
) -> (Vec<Line>, bool) {
    let treated = findings.treated.iter().flat_map(|one| &one.curve.points);
    let column = column(findings.curve.points.iter().chain(treated), parts.1);
    let fitting = (width.saturating_sub(label) / column).max(1);
    let points = chosen(findings, fitting);
    if points.is_empty() {
        return (Vec::new(), true);
    }
    let all = points.len() == findings.curve.points.len();
    let mut rows = rows(findings, axis, &points, column, (unit, label));
    if !parts.0 {
        rows.truncate(2);
    }
    rows.extend(times(&points, column, label, parts.1));
    let mut notes = notes(findings, axis);
    notes.extend(said.map(str::to_owned));
    let (mut lines, apart) = beside(rows, &notes, width);
    for treated in &findings.treated {
        lines.extend(treated_row(treated, axis, &points, column, label, width));
    }
    (lines, all && apart)
}

/// A treated variant at the same levels, and how far it scales: beside them where the name of the
/// treatment has room there, else below.
fn treated_row(
    treated: &TreatedCurve,
    axis: Axis,
    points: &[&CurvePoint],
    column: usize,
    label: usize,
    width: usize,
) -> Vec<Line> {
    let mut line = Line::new(Style::Plain, &text::pad(TREATED, label));
    for (index, point) in points.iter().enumerate() {
        let mut own = treated.curve.points.iter();
        if let Some(own) = own.find(|own| own.level == point.level) {
            let shown = number::rate(&own.throughput).value;
            line = line.then(Style::Bold, &text::clip(&shown, column - 1));
        }
        line = line.to(label + (index + 1) * column);
    }
    let note = treated_note(treated, axis);
    let at = line.columns() + 1;
    if at + text::columns(&note) <= width || at + LEAST_NOTE <= width {
        let note = text::clip(&note, width - at);
        return vec![line.to(at).then(Style::Faint, &note)];
    }
    let note = text::clip(&note, width.saturating_sub(2));
    vec![line, Line::new(Style::Plain, "  ").then(Style::Faint, &note)]
}

/// What stands left of a treated variant's row.
pub(super) const TREATED: &str = "treated";
/// Columns in which a note still says how far it scales and begins to name the treatment.
const LEAST_NOTE: usize = 30;

/// How far a treated variant scales, and which it is.
pub(super) fn treated_note(treated: &TreatedCurve, axis: Axis) -> String {
    format!("{}: {}", words::rise(treated, axis), text::disarm(&treated.label))
}

/// Levels, throughput and bars.
fn rows(
    findings: &Findings,
    axis: Axis,
    points: &[&CurvePoint],
    column: usize,
    (unit, label): (&str, usize),
) -> Vec<Line> {
    let highest = points.iter().map(|point| point.throughput.value.get()).fold(0.0, f64::max);
    let word = if axis == Axis::Both { "clients/c" } else { axis.word() };
    let mut levels = Line::new(Style::Plain, &text::pad(word, label));
    let mut rates = Line::new(Style::Plain, &text::pad(unit, label));
    let mut bars = Line::new(Style::Plain, &" ".repeat(label));
    for (index, point) in points.iter().enumerate() {
        let end = label + (index + 1) * column;
        let star = if explained(findings) && point.level == findings.focus { "*" } else { "" };
        let shown = number::rate(&point.throughput).value;
        levels = levels.plain(&(axis.tick(point.level) + star)).to(end);
        rates = rates.then(Style::Bold, &text::clip(&shown, column - 1)).to(end);
        let part = point.throughput.value.get() / highest;
        bars = bars.plain(&bar(part, column - 1)).to(end);
    }
    vec![levels, rates, bars]
}

/// Percentiles of the response time that have a name, the most telling first.
const TIMES: [(&str, ResponseTime); 3] = [
    ("time p99", |time| Some(time.p99)),
    ("time p50", |time| Some(time.p50)),
    ("time p95", |time| time.p95),
];

/// Response times below the levels, the shortest first; nothing where no level has any.
fn times(points: &[&CurvePoint], column: usize, label: usize, most: usize) -> Vec<Line> {
    if points.iter().all(|point| point.latency.is_none()) {
        return Vec::new();
    }
    let mut kept = TIMES[..most.min(TIMES.len())].to_vec();
    kept.sort_unstable_by_key(|(name, _)| *name);
    let row = |(name, of): (&str, ResponseTime)| {
        let mut line = Line::new(Style::Plain, &text::pad(name, label));
        for (index, point) in points.iter().enumerate() {
            let shown = point.latency.as_ref().and_then(of).map(brief).unwrap_or_default();
            line = line.plain(&text::clip(&shown, column - 1)).to(label + (index + 1) * column);
        }
        line
    };
    kept.into_iter().map(row).collect()
}

/// `36ms`: without a blank, so that columns stay narrow.
fn brief(time: Nanos) -> String {
    number::brief_seconds(time.seconds()).replace(' ', "")
}

/// The width of a level: its throughput, or its response times, and a blank.
fn column<'a>(points: impl Iterator<Item = &'a CurvePoint>, times: usize) -> usize {
    let widths = points.flat_map(|point| {
        let rate = number::rate(&point.throughput).value;
        let of = TIMES.iter().take(times);
        let times = of.filter_map(|(_, of)| Some(brief(of(point.latency.as_ref()?)?)));
        times.chain([rate]).map(|shown| text::columns(&shown)).collect::<Vec<_>>()
    });
    widths.max().unwrap_or(0).clamp(4, 9) + 1
}

/// The levels that fit: always the first, knee, focus and last, then evenly from the rest.
fn chosen(findings: &Findings, fitting: usize) -> Vec<&CurvePoint> {
    let points = &findings.curve.points;
    if points.len() <= fitting {
        return points.iter().collect();
    }
    let wanted = |point: &CurvePoint| {
        point.level == findings.curve.knee.level || point.level == findings.focus
    };
    let stride = points.len().div_ceil(fitting.saturating_sub(3).max(1));
    let last = points.len() - 1;
    let picked = |index: usize| index.is_multiple_of(stride) || index == last;
    let mut kept: Vec<_> = points
        .iter()
        .enumerate()
        .filter(|(index, point)| picked(*index) || wanted(point))
        .map(|(_, point)| point)
        .collect();
    kept.truncate(fitting);
    kept
}

/// What the picture shows, the knee, and what follows it.
fn notes(findings: &Findings, axis: Axis) -> Vec<String> {
    let curve = &findings.curve;
    let last = curve.points.last().map(|point| axis.tick(point.level)).unwrap_or_default();
    let ratio = number::factor(&curve.last_over_peak);
    let after = match curve.shape {
        Shape::Rising => format!("the curve {}", words::shape(curve.shape)),
        Shape::Flat => format!("{ratio} of its peak at {last}"),
        Shape::Retrograde | Shape::Collapse => format!("falls to {ratio} at {last}"),
    };
    let knee = format!("knee {}", words::knee(&findings.curve, axis));
    let star = match findings.effects_at {
        Some(tried) => {
            format!("* causes at {}, cures at {}", axis.phrase(findings.focus), axis.tick(tried))
        }
        None => format!("* causes and cures at {}", axis.phrase(findings.focus)),
    };
    let star = explained(findings).then_some(star);
    let after = (curve.points.len() > 1).then_some(after);
    star.into_iter().chain([knee]).chain(after).collect()
}

/// Whether something follows on the focus level: of imported results there may be the curve alone.
pub(super) fn explained(findings: &Findings) -> bool {
    let nothing = findings.ledgers.is_empty()
        && findings.causes.is_empty()
        && findings.effects.is_empty()
        && findings.instruments.is_empty();
    !nothing
}

/// Notes to the right of the picture where there is room, else below it; and whether there was.
fn beside(picture: Vec<Line>, notes: &[String], width: usize) -> (Vec<Line>, bool) {
    let column = picture.iter().map(Line::columns).max().unwrap_or(0) + 1;
    let widest = notes.iter().map(|note| text::columns(note)).max().unwrap_or(0);
    if column + widest <= width {
        let mut rows = picture;
        rows.resize(notes.len().max(rows.len()), Line::default());
        let notes = notes.iter().map(String::as_str).chain(std::iter::repeat(""));
        let noted = rows.into_iter().zip(notes);
        let lines = noted.map(|(line, note)| line.to(column).then(Style::Faint, note)).collect();
        return (lines, true);
    }
    let below = wrap(&notes.join("; "), width).into_iter().take(2);
    let below = below.map(|note| Line::new(Style::Faint, &note));
    (picture.into_iter().chain(below).collect(), false)
}

//! What more cores bring: the peak on each number of them, as a table with bars.

use crate::html::markup::{Markup, Tag, line};
use crate::html::table::Table;
use crate::number;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::CoresCurve;
use kneepoint_vocab::{Estimate, Findings, PerSecond, Ratio, Unit};

/// Size of a bar in pixels.
const BAR: (f64, f64) = (180.0, 12.0);

/// One row for each number of cores; nothing where only one was measured.
pub(in crate::html) fn peaks(findings: &Findings) -> Markup {
    let all = &findings.by_cores;
    if all.len() < 2 {
        return Markup::default();
    }
    let fewest = all.iter().map(|one| one.cores).min().unwrap_or(1).max(1);
    let linear = |one: &CoresCurve| f64::from(one.cores) / f64::from(fewest);
    let start = all.iter().find(|one| one.cores == fewest).and_then(peak);
    let start = start.map_or(f64::NAN, |rate| rate.value.get());
    let measured = all.iter().filter_map(peak).map(|rate| rate.high.get());
    let most = measured.filter(|end| end.is_finite()).fold(0.0, f64::max);
    // Growth in proportion to cores may leave the bars where it is twice what was measured.
    let linears = all.iter().map(|one| start * linear(one)).filter(|end| *end <= most * 2.0);
    let most = linears.fold(most, f64::max) * 1.02;
    let mut table = Table::new([
        "cores",
        "peak throughput /s",
        "",
        "over the fewest",
        "in cores",
        "peak at",
        "knee",
    ]);
    for one in all {
        let rate = peak(one).map(|rate| number::rate(&rate));
        let over = number::factor(&one.over_fewest);
        let text = |words: &str| Markup::text(words);
        let axis = Axis::Clients;
        table.cells([
            text(&words::counted(one.cores, "core")),
            text(&rate.map_or_else(|| "–".to_owned(), |shown| shown.to_string())),
            bar(peak(one), start * linear(one), most),
            text(&over.to_string()),
            text(&number::plain_factor(Ratio(linear(one)))),
            text(&axis.phrase(one.curve.peak)),
            text(&words::knee(&one.curve, axis)),
        ]);
    }
    let line = "Peak by cores; the tick on a bar is the peak of the fewest cores, times the cores";
    table.named(line)
}

/// Throughput at the peak.
fn peak(one: &CoresCurve) -> Option<Estimate<PerSecond>> {
    let mut points = one.curve.points.iter();
    points.find(|point| point.level == one.curve.peak).map(|point| point.throughput)
}

/// The peak with its interval, and a tick where growth in proportion to cores would be.
fn bar(rate: Option<Estimate<PerSecond>>, linear: f64, most: f64) -> Markup {
    let Some(rate) = rate else { return Markup::default() };
    let (width, height) = BAR;
    let place = |value: f64| {
        let part = value / most;
        if part.is_finite() { part.clamp(0.0, 1.0) * width } else { 0.0 }
    };
    let filled =
        Tag::of("rect", "peak").num("width", place(rate.value.get())).num("height", height);
    let middle = height / 2.0;
    let (low, high) = (place(rate.low.get()), place(rate.high.get()));
    let mut inside = filled.done();
    inside.push(&line("whisker", low, middle, high, middle));
    if linear <= most {
        inside.push(&line("full", place(linear), 0.0, place(linear), height));
    }
    Tag::of("svg", "bar")
        .attr("aria-hidden", "true")
        .num("width", width)
        .num("height", height)
        .with(&inside)
        .done()
}

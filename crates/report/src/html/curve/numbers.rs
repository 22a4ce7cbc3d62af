//! The points of the curve picture as a table.

use super::usable;
use crate::html::markup::Markup;
use crate::html::table::Table;
use crate::number;
use crate::series::{ResponseTime, Series};
use crate::words::Axis;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{Curve, CurvePoint, Fit};

/// One row a point; with several core counts, the cores come second, and with treated curves, the
/// variant comes after that.
pub(in crate::html) fn table(findings: &Findings) -> Table {
    let series = Series::of(findings);
    let laws = named_laws(&series);
    let mut head = vec![series.axis.word().to_owned()];
    if series.several() {
        head.push("cores".to_owned());
    }
    let treated = &findings.treated;
    if !treated.is_empty() {
        head.push("variant".to_owned());
    }
    head.extend(["throughput /s", "95 % interval", "bound /s"].map(str::to_owned));
    head.extend(laws.iter().map(|law| format!("{law} fit /s")));
    head.extend(["mean time", "p50", "p95", "p99", "switches /s", "slices"].map(str::to_owned));
    let mut table = Table::new(head);
    let baseline = series.curves.iter().map(|curve| ("baseline", *curve));
    let beside = treated.iter().map(|one| (one.label.as_str(), &one.curve));
    for (variant, curve) in baseline.chain(beside) {
        let variant = (!treated.is_empty()).then_some(variant);
        for (index, point) in curve.points.iter().enumerate() {
            let fits: Vec<Option<&Fit>> =
                laws.iter().map(|law| usable(curve).find(|fit| fit.law == *law)).collect();
            table.row(row(&series, variant, &fits, index, point));
        }
    }
    table
}

/// Whether any fitted law is drawn.
pub(in crate::html) fn laws(series: &Series<'_>) -> bool {
    !named_laws(series).is_empty()
}

/// Response times against the level, in the open: what a curve of throughput does not show.
pub(in crate::html) fn times(findings: &Findings) -> Markup {
    let series = Series::of(findings);
    let points = || findings.curve.points.iter().filter(|point| point.latency.is_some());
    if points().next().is_none() {
        return Markup::default();
    }
    let axis = if series.several() { Axis::Clients } else { series.axis };
    let head = points().map(|point| axis.tick(point.level));
    let mut table = Table::new(std::iter::once(axis.word().to_owned()).chain(head));
    let named: [(&str, ResponseTime); 3] =
        [("p50", |time| Some(time.p50)), ("p95", |time| time.p95), ("p99", |time| Some(time.p99))];
    for (name, of) in named {
        let times = points().filter_map(|point| point.latency.as_ref());
        let reported = times.map(|time| {
            of(time).map_or_else(|| "–".to_owned(), |it| number::brief_seconds(it.seconds()))
        });
        table.row(std::iter::once(name.to_owned()).chain(reported));
    }
    table.named("Response time")
}

/// The names of fitted laws that can be used, each once.
fn named_laws<'a>(series: &Series<'a>) -> Vec<&'a str> {
    let mut laws: Vec<&str> = Vec::new();
    let named = series.curves.iter().flat_map(|curve: &&'a Curve| usable(curve));
    for fit in named {
        if !laws.contains(&fit.law.as_str()) {
            laws.push(&fit.law);
        }
    }
    laws
}

fn row(
    series: &Series<'_>,
    variant: Option<&str>,
    fits: &[Option<&Fit>],
    index: usize,
    point: &CurvePoint,
) -> Vec<String> {
    let none = || "–".to_owned();
    let shown = number::rate(&point.throughput);
    let mut row = vec![series.axis.tick(point.level)];
    if series.several() {
        row.push(point.level.cores.to_string());
    }
    row.extend(variant.map(str::to_owned));
    row.extend([shown.value.clone(), shown.interval_or_dash(), number::plain_rate(point.ideal)]);
    row.extend(fits.iter().map(|fit| {
        let rate = fit.and_then(|fit| fit.fitted.get(index));
        rate.map_or_else(none, |rate| number::plain_rate(*rate))
    }));
    let times =
        point.latency.map(|time| [Some(time.mean), Some(time.p50), time.p95, Some(time.p99)]);
    row.extend(times.map_or_else(
        || [(); 4].map(|()| none()),
        |times| times.map(|time| time.map_or_else(none, |it| number::plain_seconds(it.seconds()))),
    ));
    row.push(point.switches.map_or_else(none, number::plain_rate));
    row.push(point.slices.to_string());
    row
}

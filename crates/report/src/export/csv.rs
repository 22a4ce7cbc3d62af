//! The scaling curve as comma-separated values (RFC 4180), one row a level; with several numbers
//! of cores, those of the fewest come first.

use super::{Export, Made};
use crate::series::Series;
use kneepoint_vocab::findings::CurvePoint;
use kneepoint_vocab::{Findings, Unit};

/// The curve as a table.
pub const CURVE: Export = Export {
    name: "csv",
    holds: "curve",
    binary: None,
    made: Made::Concluded { run: render, profile: None },
};

const HEADER: &str = "clients,cores,operations_per_second,low,high,ideal,\
                      latency_mean_s,latency_p99_s,switches_per_second,slices\r\n";

/// Renders the curve. Throughputs are in operations each second, times in seconds; what was
/// not measured is an empty field.
#[must_use]
pub fn render(findings: &Findings) -> String {
    let mut out = HEADER.to_owned();
    let series = Series::of(findings);
    for point in series.curves.iter().flat_map(|curve| &curve.points) {
        out.push_str(&row(point));
    }
    out
}

fn row(point: &CurvePoint) -> String {
    let optional = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let throughput = &point.throughput;
    format!(
        "{},{},{},{},{},{},{},{},{},{}\r\n",
        point.level.clients,
        point.level.cores,
        throughput.value.get(),
        throughput.low.get(),
        throughput.high.get(),
        point.ideal.get(),
        optional(point.latency.map(|latency| latency.mean.seconds().get())),
        optional(point.latency.map(|latency| latency.p99.seconds().get())),
        optional(point.switches.map(Unit::get)),
        point.slices
    )
}

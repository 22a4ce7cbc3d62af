//! Several processes of sysbench that ran side by side, as one.

use crate::output::Measured;
use kneepoint_vocab::{Latency, Nanos};
use std::collections::BTreeMap;

/// The response times of all these runs together: each report, and the text with its histogram.
/// Absent where nothing was done, or a report tells too little.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "response times and counts are far below 2^53 and not negative"
)]
#[must_use]
pub fn together(reports: &[(Measured, String)]) -> Option<Latency> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut sum, mut longest) = (0.0, Nanos(0));
    for (report, text) in reports {
        let bin = text.lines().filter_map(|line| {
            let (edge, rest) = line.split_once('|')?;
            let edge: f64 = edge.trim().parse().ok()?;
            Some(((edge * 1e6).round() as u64, rest.rsplit(' ').next()?.parse::<u64>().ok()?))
        });
        for (edge, count) in bin {
            *bins.entry(edge).or_default() += count;
        }
        sum += report.response.mean?.0 as f64 * report.operations as f64;
        longest = longest.max(report.response.longest?);
    }
    let all: u64 = bins.values().sum();
    let percentile = |share: f64| {
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let edge = bins.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        edge.map(|(edge, _)| Nanos(*edge))
    };
    let operations: u64 = reports.iter().map(|(report, _)| report.operations).sum();
    (operations > 0).then_some(())?;
    Some(Latency {
        mean: Nanos((sum / operations as f64).round() as u64),
        p50: percentile(0.5)?,
        p95: Some(percentile(0.95)?),
        p99: percentile(0.99)?,
        longest: Some(longest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sysbench::parse;

    #[test]
    fn response_times_of_all_clients_are_put_together() {
        let report = |events: u64, bins: &str, mean: &str, longest: &str| {
            let text = format!(
                "Number of threads: 1\n       value  ------------- distribution ------------- \
                 count\n{bins} \nGeneral statistics:\n    total time:  1.0s\n    total number of \
                 events:  {events}\nLatency (ms):\n         avg: {mean}\n         max: {longest}\n"
            );
            (parse(&text).unwrap(), text)
        };
        let quick = report(90, "       0.100 |****  90\n", "0.1", "0.3");
        let slow = report(10, "       0.100 |*  5\n       2.000 |*  5\n", "1.1", "7.5");
        let latency = together(&[quick, slow]).unwrap();
        assert_eq!(latency.mean, Nanos(200_000));
        assert_eq!((latency.p50, latency.p95), (Nanos(100_000), Some(Nanos(100_000))));
        assert_eq!((latency.p99, latency.longest), (Nanos(2_000_000), Some(Nanos(7_500_000))));
        assert_eq!(together(&[]), None);
    }
}

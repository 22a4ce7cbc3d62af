//! The report of sysbench 0.4, 0.5, 1.0 and 1.1.

mod together;

pub use together::together;

use super::{Measured, OutputError, Response, millis, nanos, number, only, quoted};
use kneepoint_vocab::Nanos;

/// Printed response times below this have fewer than two digits that count.
const COARSE: Nanos = Nanos(100_000);
/// Line with which each report begins.
const BEGIN: &str = "Number of threads:";

/// Whether a text looks like sysbench's.
#[must_use]
pub fn is(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("sysbench ") || line.starts_with(BEGIN))
}

/// The one report that `text` holds.
///
/// # Errors
/// There is none or several, it is cut off, or a figure in it is none.
pub fn parse(text: &str) -> Result<Measured, OutputError> {
    only(parse_all(text)?)
}

/// Every report in `text`, in order.
///
/// # Errors
/// One of them is cut off, or a figure in it is none; or sysbench said that it failed.
pub fn parse_all(text: &str) -> Result<Vec<Measured>, OutputError> {
    let mut reports: Vec<Report> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.trim();
        if words.starts_with("FATAL:") {
            return Err(OutputError::at(line, format!("sysbench failed: {}", quoted(words))));
        }
        if let Some(threads) = words.strip_prefix(BEGIN) {
            reports.push(Report::of(line, number(line, "the number of threads", threads)?));
        } else if let Some(report) = reports.last_mut() {
            report.take(line, words)?;
        }
    }
    reports.into_iter().map(Report::measured).collect()
}

/// What one report has said so far.
#[derive(Default)]
struct Report {
    line: usize,
    threads: u32,
    transactions: Option<u64>,
    events: Option<u64>,
    queries: Option<u64>,
    errors: u64,
    seconds: Option<f64>,
    in_latency: bool,
    in_histogram: bool,
    /// Upper edge in milliseconds and count of each bin.
    histogram: Vec<(f64, u64)>,
    response: Response,
    /// Of all operations, in milliseconds.
    response_sum: Option<f64>,
}

impl Report {
    fn of(line: usize, threads: u32) -> Self {
        Self { line, threads, ..Self::default() }
    }

    fn take(&mut self, line: usize, words: &str) -> Result<(), OutputError> {
        if self.in_histogram && self.take_bin(words) {
            return Ok(());
        }
        let Some((key, value)) = words.split_once(':') else {
            self.in_histogram |= words.starts_with("value ") && words.ends_with(" count");
            return Ok(());
        };
        let count = |what: &str| number::<u64>(line, what, value);
        match key.trim() {
            "transactions" => self.transactions = Some(count("transactions")?),
            "queries" => self.queries = Some(count("queries")?),
            "total number of events" => self.events = Some(count("the number of events")?),
            "ignored errors" => self.errors = count("ignored errors")?,
            "total time" | "time elapsed" => {
                self.seconds = Some(number(line, "the total time", value)?);
            }
            "Latency (ms)" | "per-request statistics" => self.in_latency = true,
            "Threads fairness" => self.in_latency = false,
            figure if self.in_latency => self.latency(line, figure, value)?,
            _ => {}
        }
        Ok(())
    }

    /// A line of the histogram; false once it has ended.
    fn take_bin(&mut self, words: &str) -> bool {
        let bin = words.split_once('|').and_then(|(edge, rest)| {
            let count = rest.rsplit(' ').next()?.parse().ok()?;
            Some((edge.trim().parse().ok()?, count))
        });
        self.histogram.extend(bin);
        self.in_histogram = bin.is_some();
        self.in_histogram
    }

    fn latency(&mut self, line: usize, figure: &str, value: &str) -> Result<(), OutputError> {
        let length = || number(line, "a response time", value).map(millis);
        match figure {
            "avg" => self.response.mean = length()?,
            "max" => self.response.longest = length()?,
            "sum" => self.response_sum = Some(number(line, "the sum of response times", value)?),
            _ => {
                let Some(percent) = percentile_named(figure) else { return Ok(()) };
                let length = length()?;
                self.response.percentiles.extend(length.map(|length| (percent, length)));
            }
        }
        Ok(())
    }

    fn measured(self) -> Result<Measured, OutputError> {
        let lacking = |what: &str| {
            let problem = format!("the report that begins here has no '{what}': is it cut off?");
            OutputError::at(self.line, problem)
        };
        let seconds = self.seconds.ok_or_else(|| lacking("total time:"))?;
        let operations = self.transactions.or(self.events);
        let mut response = self.response.clone();
        if let (true, Some(sum), Some(count)) =
            (response.mean.is_some_and(|mean| mean < COARSE), self.response_sum, operations)
        {
            #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
            let finer = millis(sum / count.max(1) as f64);
            response.mean = finer.or(response.mean);
        }
        if !self.histogram.is_empty() {
            response.percentiles.retain(|(_, length)| *length >= COARSE);
        }
        for percent in [50.0, 95.0, 99.0] {
            if response.percentile(percent).is_none() {
                let edge = quantile(&self.histogram, percent).and_then(millis);
                response.percentiles.extend(edge.map(|edge| (percent, edge)));
            }
        }
        Ok(Measured {
            line: self.line,
            clients: self.threads,
            operations: operations.ok_or_else(|| lacking("total number of events:"))?,
            counted_over: nanos(seconds * 1e9).unwrap_or(Nanos(0)),
            errors: self.errors,
            statements: self.queries,
            response,
        })
    }
}

/// `95th percentile`, and `approx.  95 percentile` as older versions say.
fn percentile_named(figure: &str) -> Option<f64> {
    let rank = figure.strip_suffix("percentile")?.trim();
    let rank = rank.strip_prefix("approx.").unwrap_or(rank).trim();
    rank.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// The edge of the bin that holds the quantile.
fn quantile(histogram: &[(f64, u64)], percent: f64) -> Option<f64> {
    let all: u64 = histogram.iter().map(|(_, count)| count).sum();
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let wanted = all as f64 * percent / 100.0;
    let mut seen = 0;
    let reached = |(_, count): &&(f64, u64)| {
        seen += count;
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let seen = seen as f64;
        seen >= wanted
    };
    histogram.iter().find(reached).map(|(edge, _)| *edge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLTP: &str = include_str!("../../tests/output/sysbench-oltp.txt");
    const CPU: &str = include_str!("../../tests/output/sysbench-cpu.txt");
    const ERRORS: &str = include_str!("../../tests/output/sysbench-errors.txt");
    const HISTOGRAM: &str = include_str!("../../tests/output/sysbench-histogram.txt");

    #[test]
    fn a_report_of_transactions_is_read() {
        let report = parse(OLTP).unwrap();
        assert_eq!((report.clients, report.operations, report.errors), (2, 5524, 0));
        assert_eq!(report.statements, Some(88_384));
        assert_eq!(report.counted_over, Nanos(2_001_300_000));
        assert_eq!(report.response.mean, Some(Nanos(720_000)));
        assert_eq!(report.response.longest, Some(Nanos(3_470_000)));
        assert_eq!(report.response.percentiles, [(95.0, Nanos(900_000))]);
        assert_eq!(report.response.latency(), None, "no median is reported");
    }

    #[test]
    fn events_count_where_there_are_no_transactions_and_errors_are_counted() {
        assert_eq!(parse(CPU).unwrap().operations, 4701);
        let errors = parse(ERRORS).unwrap();
        assert_eq!((errors.errors, errors.response.percentiles.len()), (58, 0));
    }

    #[test]
    fn a_histogram_brings_all_percentiles() {
        let report = parse(HISTOGRAM).unwrap();
        assert_eq!(report.operations, 6382);
        let latency = report.response.latency().unwrap();
        // The program's own 99th percentile stays; the others come from the bins.
        assert_eq!(latency.p99, Nanos(2_610_000));
        assert!(Some(latency.p50) < latency.p95 && latency.p95 < Some(latency.p99), "{latency:?}");
    }

    #[test]
    fn microseconds_come_from_the_sum_and_the_bins() {
        let text = "Number of threads: 2\n       value  ------------- distribution ------------- \
            count\n       0.002 |****   50\n       0.007 |****   45\n       0.031 |*   5\n \n\
            General statistics:\n    total time:   1.0033s\n    total number of events:  100\n\
            Latency (ms):\n         min:  0.00\n         avg:  0.00\n         max:  3.47\n\
                 95th percentile:  0.01\n         sum:  0.42\n";
        let latency = parse(text).unwrap().response.latency().unwrap();
        assert_eq!(latency.mean, Nanos(4_200));
        let percentiles = [Some(latency.p50), latency.p95, Some(latency.p99)];
        assert_eq!(percentiles, [2_000, 7_000, 31_000].map(|it| Some(Nanos(it))));
    }

    #[test]
    fn old_versions_are_read() {
        let text = "sysbench 0.4.12:  multi-threaded system evaluation benchmark\n\
            Number of threads: 8\nOLTP test statistics:\n    transactions:   10000  (500.1 per \
            sec.)\nTest execution summary:\n    total time:  20.0s\n    total number of events: \
            10000\n    per-request statistics:\n         min:  1.5ms\n         avg:  16.2ms\n\
                 max:  90.25ms\n         approx.  95 percentile:  31.00ms\n";
        let report = parse(text).unwrap();
        assert_eq!((report.clients, report.operations), (8, 10_000));
        assert_eq!(report.response.percentile(95.0), Some(Nanos(31_000_000)));
        assert_eq!(report.response.longest, Some(Nanos(90_250_000)));
    }

    #[test]
    fn reports_one_after_the_other_are_distinguished() {
        let both = format!("{OLTP}{CPU}");
        let reports = parse_all(&both).unwrap();
        assert_eq!(reports.iter().map(|r| r.operations).collect::<Vec<_>>(), [5524, 4701]);
        assert!(parse(&both).unwrap_err().problem.contains("second report"));
    }

    #[test]
    fn what_is_no_proper_end_is_refused() {
        let cut = OLTP.split("General").next().unwrap();
        assert!(parse(cut).unwrap_err().to_string().contains("no 'total time:'"));
        let fatal = format!("{OLTP}FATAL: mysql_drv_query() returned error 2013\n");
        assert!(parse(&fatal).unwrap_err().problem.starts_with("sysbench failed: \"FATAL:"));
        let bad = OLTP.replace("5524 ", "many ");
        assert_eq!(parse(&bad).unwrap_err().line, 18);
        assert!(parse("").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", cut in 0..OLTP.len()) {
            let _ = parse_all(&text);
            let _ = parse_all(&format!("{BEGIN} 3\n{text}"));
            let _ = parse_all(&OLTP[..cut]);
        }
    }
}

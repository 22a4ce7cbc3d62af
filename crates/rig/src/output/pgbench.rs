//! The report of pgbench.

use super::{Measured, OutputError, millis, nanos, number, only, quoted};
use kneepoint_vocab::Nanos;

/// Line with which each report begins.
const BEGIN: &str = "transaction type:";

/// Whether a text looks like pgbench's.
#[must_use]
pub fn is(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(BEGIN) || line.starts_with("pgbench ("))
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
/// One of them is cut off, or a figure in it is none; or pgbench said that it was aborted.
pub fn parse_all(text: &str) -> Result<Vec<Measured>, OutputError> {
    let mut reports: Vec<Report> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.trim();
        if words.starts_with("pgbench: error:") || words.starts_with("Run was aborted") {
            return Err(OutputError::at(line, format!("pgbench failed: {}", quoted(words))));
        }
        if words.starts_with(BEGIN) {
            reports.push(Report { line, ..Report::default() });
        } else if let Some(report) = reports.last_mut() {
            report.take(line, words)?;
        }
    }
    reports.into_iter().map(Report::measured).collect()
}

#[derive(Default)]
struct Report {
    line: usize,
    clients: Option<u32>,
    transactions: Option<u64>,
    failed: u64,
    /// Transactions each second without the time to connect.
    rate: Option<f64>,
    mean: Option<Nanos>,
}

impl Report {
    fn take(&mut self, line: usize, words: &str) -> Result<(), OutputError> {
        let after = |key: &str| words.strip_prefix(key);
        if let Some(clients) = after("number of clients:") {
            self.clients = Some(number(line, "the number of clients", clients)?);
        } else if let Some(count) = after("number of transactions actually processed:") {
            self.transactions = Some(number(line, "the number of transactions", count)?);
        } else if let Some(count) = after("number of failed transactions:") {
            self.failed = number(line, "the number of failed transactions", count)?;
        } else if let Some(mean) = after("latency average =").or(after("latency average:")) {
            // Of statements where a script has several; the first line is of transactions.
            let first = self.mean.is_none();
            if first {
                self.mean = millis(number(line, "the mean response time", mean)?);
            }
        } else if let Some(rate) = after("tps =") {
            // Old versions print two; the second, without connecting, replaces the first. Lines of
            // single scripts come after both and are indented with a dash.
            if self.rate.is_none() || rate.contains("excluding") {
                self.rate = Some(number(line, "tps", rate)?);
            }
        }
        Ok(())
    }

    fn measured(self) -> Result<Measured, OutputError> {
        let lacking = |what: &str| {
            let problem = format!("the report that begins here has no '{what}': is it cut off?");
            OutputError::at(self.line, problem)
        };
        let operations = self
            .transactions
            .ok_or_else(|| lacking("number of transactions actually processed"))?;
        let rate = self.rate.ok_or_else(|| lacking("tps ="))?;
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let counted_over = nanos(operations as f64 / rate * 1e9).unwrap_or(Nanos(0));
        Ok(Measured {
            line: self.line,
            clients: self.clients.ok_or_else(|| lacking("number of clients:"))?,
            operations,
            counted_over,
            errors: self.failed,
            statements: None,
            response: super::Response { mean: self.mean, ..super::Response::default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIME: &str = include_str!("../../tests/output/pgbench-time.txt");
    const COUNT: &str = include_str!("../../tests/output/pgbench-count.txt");
    const STATEMENTS: &str = include_str!("../../tests/output/pgbench-statements.txt");

    #[test]
    fn a_report_is_read_without_the_time_to_connect() {
        let report = parse(TIME).unwrap();
        assert_eq!((report.line, report.clients, report.operations), (2, 4, 107_891));
        let seconds = report.counted_over.seconds().0;
        assert!((107_891.0 / seconds / 54_120.960_153 - 1.0).abs() < 1e-6, "{seconds}");
        assert_eq!(report.response.mean, Some(Nanos(74_000)));
        assert_eq!(report.errors, 0);
    }

    #[test]
    fn a_fixed_count_and_statements_are_read() {
        assert_eq!(parse(COUNT).unwrap().operations, 20);
        let statements = parse(STATEMENTS).unwrap();
        assert_eq!((statements.clients, statements.operations), (2, 3430));
        let all = parse_all(&format!("{TIME}{COUNT}{STATEMENTS}")).unwrap();
        let clients: Vec<_> = all.iter().map(|report| report.clients).collect();
        assert_eq!(clients, [4, 2, 2]);
    }

    #[test]
    fn old_versions_count_without_connecting() {
        let text = "transaction type: TPC-B (sort of)\nnumber of clients: 3\n\
            number of transactions actually processed: 300\n\
            tps = 50.0 (including connections establishing)\n\
            tps = 100.0 (excluding connections establishing)\n";
        assert_eq!(parse(text).unwrap().counted_over, Nanos(3_000_000_000));
    }

    #[test]
    fn what_is_no_proper_end_is_refused() {
        let cut = TIME.split("latency").next().unwrap();
        assert!(parse(cut).unwrap_err().problem.contains("no 'tps ='"));
        let aborted = format!("{TIME}pgbench: error: Run was aborted; the above is incomplete\n");
        assert!(parse(&aborted).unwrap_err().problem.starts_with("pgbench failed"));
        let bad = parse(&TIME.replace("107891", "-1")).unwrap_err();
        assert!(bad.problem.contains("has to be a number (found \"-1\")"), "{bad}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", cut in 0..TIME.len()) {
            let _ = parse_all(&format!("{BEGIN}\n{text}"));
            let _ = parse_all(&TIME[..cut]);
        }
    }
}

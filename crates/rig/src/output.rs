//! What load generators print at their end, read by pure functions.
//!
//! Both those who drive a generator and those who import its results read it here, so that the
//! same text means the same figures.

pub mod fio;
pub mod pgbench;
pub mod sysbench;

use kneepoint_vocab::{Latency, Nanos};

/// What a generator says of one whole run of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Line of the text on which this run's report begins, from 1.
    pub line: usize,
    /// Closed-loop clients.
    pub clients: u32,
    /// Operations that ended well.
    pub operations: u64,
    /// The wall time over which they were counted.
    pub counted_over: Nanos,
    /// Operations that failed, or were tried again after an error.
    pub errors: u64,
    /// Single statements or queries within the operations, where they are counted apart.
    pub statements: Option<u64>,
    /// Response times, as far as they are reported.
    pub response: Response,
}

/// Response times of operations, as far as a generator tells them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// Mean.
    pub mean: Option<Nanos>,
    /// Longest.
    pub longest: Option<Nanos>,
    /// Percentiles, in percent.
    pub percentiles: Vec<(f64, Nanos)>,
}

impl Response {
    /// The percentile of so many percent, where it is reported.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Nanos> {
        let found = self.percentiles.iter().find(|(at, _)| (at - percent).abs() < 1e-6);
        found.map(|(_, value)| *value)
    }

    /// The response times of a trial; absent where its mean, median or 99th percentile is not
    /// reported.
    #[must_use]
    pub fn latency(&self) -> Option<Latency> {
        Some(Latency {
            mean: self.mean?,
            p50: self.percentile(50.0)?,
            p95: self.percentile(95.0),
            p99: self.percentile(99.0)?,
            longest: self.longest,
        })
    }
}

/// Why a text is not the output of a generator's proper end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct OutputError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl OutputError {
    fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// The only report of a text that is to hold one.
fn only(mut reports: Vec<Measured>) -> Result<Measured, OutputError> {
    if let [_, second, ..] = &reports[..] {
        return Err(OutputError::at(second.line, "a second report begins; expected one"));
    }
    reports.pop().ok_or_else(|| OutputError::at(1, "there is no report"))
}

/// Milliseconds to nanoseconds; none where that is no length of time.
pub(crate) fn millis(value: f64) -> Option<Nanos> {
    nanos(value * 1e6)
}

/// Nanoseconds from a number that a program printed; none where that is no length of time.
fn nanos(value: f64) -> Option<Nanos> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range: checked")]
    (0.0..1e18).contains(&value).then(|| Nanos(value.round() as u64))
}

/// What a program wrote, for an error message: one short line without control characters.
fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let plain: String = text.trim().chars().filter(|c| !c.is_control()).take(MOST).collect();
    format!("{plain:?}")
}

/// A number at the begin of `text`, before a space or a unit.
fn number<T: std::str::FromStr>(line: usize, what: &str, text: &str) -> Result<T, OutputError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().map_err(|_| {
        OutputError::at(line, format!("{what} has to be a number (found {})", quoted(text)))
    })
}

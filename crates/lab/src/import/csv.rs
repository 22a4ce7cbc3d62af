//! A table of throughputs: a header with `clients,throughput`, by these or other usual names,
//! then one row a result.

use super::{MOST, Row};
use kneepoint_rig::output::OutputError;
use kneepoint_vocab::Nanos;
use std::fmt::Display;

/// What a column of clients and one of throughput is called.
const CLIENTS: [&str; 6] = ["clients", "threads", "connections", "users", "workers", "concurrency"];
const THROUGHPUT: [&str; 6] = ["throughput", "tps", "qps", "rps", "ops", "iops"];

/// Throughputs that can be reported as whole operations over nanoseconds.
const LEAST: f64 = 1e-6;
const GREATEST: f64 = 1e9;

/// Whether the header of a text names the two columns that there must be.
pub(super) fn is(text: &str) -> bool {
    header(text).is_some_and(|(_, columns)| columns.named().is_ok())
}

/// Every row.
pub(super) fn parse(text: &str) -> Result<Vec<Row>, OutputError> {
    let Some((at, columns)) = header(text) else { return Ok(Vec::new()) };
    columns.named().map_err(|problem| OutputError { line: at, problem })?;
    let lines = (1..).zip(text.lines()).skip(at);
    lines
        .filter(|(_, line)| !is_remark(line))
        .map(|(line, cells)| {
            columns.row(line, cells).map_err(|problem| OutputError { line, problem })
        })
        .collect()
}

fn is_remark(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// The first line that is no remark, with its number.
fn header(text: &str) -> Option<(usize, Columns)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (at, line) = (1..).zip(text.lines()).find(|(_, line)| !is_remark(line))?;
    let names = line.split(',').map(|name| name.trim().trim_matches('"').to_lowercase());
    // A rate says so by its name, or by the unit behind it.
    let bare =
        |name: String| name.trim_end_matches("/s").trim_end_matches("_per_second").to_owned();
    Some((at, Columns { names: names.map(bare).collect() }))
}

struct Columns {
    names: Vec<String>,
}

impl Columns {
    fn at(&self, names: &[&str]) -> Option<usize> {
        self.names.iter().position(|name| names.contains(&name.as_str()))
    }

    /// The columns of clients and throughput.
    fn named(&self) -> Result<(usize, usize), String> {
        self.at(&CLIENTS).zip(self.at(&THROUGHPUT)).ok_or_else(|| {
            "the first line has to name the columns clients,throughput (or threads,tps; it may \
             name cores, block or repetition, seconds)"
                .to_owned()
        })
    }

    fn row(&self, line: usize, cells: &str) -> Result<Row, String> {
        let (clients, throughput) = self.named()?;
        let cells: Vec<&str> = cells.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        if cells.len() != self.names.len() {
            let (found, expected) = (cells.len(), self.names.len());
            return Err(format!("expected {expected} columns as in the header (found {found})"));
        }
        let whole = |name: &'static str, at: usize, least: u32| match cells[at].parse::<u32>() {
            Ok(value) if (least..=MOST).contains(&value) => Ok(value),
            _ => Err(out_of_range(name, cells[at], least, MOST)),
        };
        let real = |name: &'static str, at: usize| match cells[at].parse::<f64>() {
            Ok(value) if (LEAST..=GREATEST).contains(&value) => Ok(value),
            _ => Err(out_of_range(name, cells[at], LEAST, GREATEST)),
        };
        let cores = self.at(&["cores"]).map(|at| whole("cores", at, 1)).transpose()?;
        let block = self.at(&["block", "repetition"]).map(|at| whole("block", at, 0));
        let seconds = self.at(&["seconds"]).map(|at| real("seconds", at)).transpose()?;
        let rate = real("throughput", throughput)?;
        let (operations, counted_over) = counted(rate, seconds);
        Ok(Row {
            line,
            clients: whole("clients", clients, 1)?,
            cores,
            block: block.transpose()?,
            operations,
            counted_over,
            latency: None,
        })
    }
}

/// Whole operations, and the time in which a throughput makes them. Where it is not reported how
/// long was measured, so many that the rounding does not show.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range: checked")]
fn counted(rate: f64, seconds: Option<f64>) -> (u64, Nanos) {
    let untold = if rate < 1.0 { 1e3 } else { 1e6 };
    let operations = seconds.map_or(untold, |seconds| (rate * seconds).round().clamp(1.0, 1e15));
    (operations as u64, Nanos((operations / rate * 1e9).round() as u64))
}

fn out_of_range(name: &str, found: &str, least: impl Display, most: impl Display) -> String {
    let found: String = found.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("{name} must be a number from {least} to {most} (found {found:?})")
}

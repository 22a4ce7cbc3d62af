//! From a file to its rows, whoever wrote it.

use super::{Format, ImportError, Row, csv};
use crate::regular;
use kneepoint_rig::output::{self, Measured, OutputError};
use std::path::Path;

/// Largest file: far more than any report has.
const MOST_BYTES: u64 = 64 << 20;

/// The rows of a file, at least one.
pub(super) fn read(path: &Path, format: Option<Format>) -> Result<(Format, Vec<Row>), ImportError> {
    let refuse = |problem: String| ImportError::File { path: path.to_owned(), problem };
    let text = text(path).map_err(refuse)?;
    let Some(format) = format.or_else(|| guess(&text)) else {
        let problem = "this is not the output of sysbench, pgbench or fio \
                       (--output-format=json), nor a table with the columns clients,throughput";
        return Err(refuse(problem.to_owned()));
    };
    let rows = match format {
        Format::Sysbench => output::sysbench::parse_all(&text).map(rows),
        Format::Pgbench => output::pgbench::parse_all(&text).map(rows),
        Format::Fio => output::fio::parse_all(&text).map(rows),
        Format::Csv => csv::parse(&text),
    };
    let rows = rows.map_err(|OutputError { line, problem }| ImportError::Line {
        path: path.to_owned(),
        line,
        problem,
    })?;
    if rows.is_empty() {
        return Err(refuse(format!("there is no result of {} in it", format.name())));
    }
    Ok((format, rows))
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = regular::read(path, MOST_BYTES).map_err(|error| match error.raw_os_error() {
        Some(_) => format!("cannot be read: {error}"),
        None => error.to_string(),
    })?;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| "is not text".to_owned())
}

fn guess(text: &str) -> Option<Format> {
    let known = [
        (Format::Fio, output::fio::is(text)),
        (Format::Sysbench, output::sysbench::is(text)),
        (Format::Pgbench, output::pgbench::is(text)),
        (Format::Csv, csv::is(text)),
    ];
    known.into_iter().find(|(_, is)| *is).map(|(format, _)| format)
}

fn rows(reports: Vec<Measured>) -> Vec<Row> {
    let row = |report: Measured| Row {
        line: report.line,
        clients: report.clients,
        cores: None,
        block: None,
        operations: report.operations,
        counted_over: report.counted_over,
        latency: report.response.latency(),
    };
    reports.into_iter().map(row).collect()
}

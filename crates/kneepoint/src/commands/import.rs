//! `kneepoint import`: what another tool has measured, as a run directory and its report.

use super::{report, run};
use crate::cli::{ImportArgs, UsageError};
use anyhow::Result;
use kneepoint_lab::import::ImportOptions;

pub(crate) fn import(args: &ImportArgs) -> Result<u8> {
    let operation = args.operation.as_ref().map(|word| word.trim().to_owned());
    if operation.as_ref().is_some_and(|word| word.is_empty() || word.contains(char::is_control)) {
        return Err(UsageError("--operation has to be a word, e.g. transactions".into()).into());
    }
    let begun = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let directory = args.out.clone().unwrap_or_else(|| run::default_directory(&begun));
    kneepoint_lab::import(&ImportOptions {
        files: args.files.clone(),
        format: args.format.map(Into::into),
        cores: args.cores,
        operation,
        directory: directory.clone(),
        kneepoint: env!("CARGO_PKG_VERSION").to_owned(),
        begun,
        arguments: std::env::args().skip(1).collect(),
    })?;
    let findings = report::findings(&directory)?;
    let page = report::write_into(&findings, &directory)?;
    if args.json { report::finish_json(&findings) } else { report::finish(&findings, &page) }
}

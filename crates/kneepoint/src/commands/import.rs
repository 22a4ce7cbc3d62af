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
    let directory = kneepoint_lab::import(&ImportOptions {
        files: args.files.clone(),
        format: args.format.map(Into::into),
        cores: args.cores,
        operation,
        directory,
        numbered: args.out.is_none(),
        kneepoint: env!("CARGO_PKG_VERSION").to_owned(),
        begun,
        arguments: run::arguments(),
    })?;
    let findings = report::findings(&directory)?;
    report::finish_run(&findings, &directory, args.json)
}

//! `kneepoint report`: from a run directory to its report; reads nothing else.

use crate::cli::ReportArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Context, Result};
use kneepoint_vocab::Findings;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the page within a run directory.
const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    let findings = findings(&args.directory)?;
    if args.json {
        return finish_json(&findings);
    }
    let page = args.html.clone().unwrap_or_else(|| args.directory.join(PAGE));
    write_page(&findings, &page)?;
    finish(&findings, &page)
}

/// What the analysis finds in a run directory.
pub(crate) fn findings(directory: &Path) -> Result<Findings> {
    let record = kneepoint_lab::open(directory)?;
    Ok(kneepoint_analysis::analyse(&record))
}

/// Writes the page of a run into its directory.
pub(crate) fn write_into(findings: &Findings, directory: &Path) -> Result<PathBuf> {
    let page = directory.join(PAGE);
    write_page(findings, &page)?;
    Ok(page)
}

/// Prints the findings for programs, and says by the exit code whether to rely on them.
pub(crate) fn finish_json(findings: &Findings) -> Result<u8> {
    print::out(&kneepoint_report::json::render(findings))?;
    Ok(code(findings))
}

/// Prints the findings for people, and says by the exit code whether to rely on them.
pub(crate) fn finish(findings: &Findings, page: &Path) -> Result<u8> {
    let mut text = kneepoint_report::terminal::render(findings, print::width(), print::colour());
    text.push_str(&format!("report  {}\n", page.display()));
    print::out(&text)?;
    Ok(code(findings))
}

fn code(findings: &Findings) -> u8 {
    if findings.trustworthy { OK } else { NOT_TRUSTWORTHY }
}

fn write_page(findings: &Findings, page: &Path) -> Result<()> {
    let html = kneepoint_report::html::render(findings);
    let told = || {
        format!("{}: cannot write the report (choose another place with --html)", page.display())
    };
    // A pipe or a device is written to; renaming would put a file in its place.
    if fs::metadata(page).is_ok_and(|about| !about.is_file()) {
        return fs::write(page, html).with_context(told);
    }
    let draft = page.with_extension("html.draft");
    fs::write(&draft, html).and_then(|()| fs::rename(&draft, page)).with_context(|| {
        // A full disk leaves a partial draft; the error above is the one to report.
        let _ = fs::remove_file(&draft);
        told()
    })
}

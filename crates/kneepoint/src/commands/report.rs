//! `kneepoint report`: from a run directory to its report; reads nothing else.

use crate::cli::ReportArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Context, Result, bail};
use kneepoint_vocab::Findings;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Name of the page within a run directory.
const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    let findings = findings(&args.directory)?;
    if args.json {
        return finish_json(&findings);
    }
    let page = match &args.html {
        Some(page) => {
            write_there(&findings, page)?;
            page.clone()
        }
        None => write_into(&findings, &args.directory)?,
    };
    finish(&findings, &page)
}

/// Lines of a terminal's window that the summary leaves: the page's path, and the prompt after it.
const LAST_LINES: usize = 2;

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

/// Writes the page of a run that has just been made and prints the findings, which are worth having
/// also where there is no room for the page.
pub(crate) fn finish_run(findings: &Findings, directory: &Path, json: bool) -> Result<u8> {
    let page = write_into(findings, directory);
    let shown = page.as_ref().map_or(directory, PathBuf::as_path);
    let code = if json { finish_json(findings)? } else { finish(findings, shown)? };
    page.map(|_| code)
}

/// Prints the findings for programs, and says by the exit code whether to rely on them.
pub(crate) fn finish_json(findings: &Findings) -> Result<u8> {
    print::out(&kneepoint_report::json::render(findings))?;
    Ok(code(findings))
}

/// Prints the findings for people, and says by the exit code whether to rely on them.
pub(crate) fn finish(findings: &Findings, page: &Path) -> Result<u8> {
    let screen = print::screen(LAST_LINES);
    let mut text = kneepoint_report::terminal::fitted(findings, screen);
    text.push_str(&format!("report  {}\n", page.display()));
    print::out(&text)?;
    Ok(code(findings))
}

fn code(findings: &Findings) -> u8 {
    if findings.trustworthy { OK } else { NOT_TRUSTWORTHY }
}

/// Writes the page where the user said. A pipe or a device that he named is written to; renaming
/// would put a file in its place.
fn write_there(findings: &Findings, page: &Path) -> Result<()> {
    if fs::metadata(page).is_ok_and(|about| !about.is_file()) {
        let html = kneepoint_report::html::render(findings);
        return fs::write(page, html).with_context(|| unwritten(page));
    }
    write_page(findings, page)
}

/// Writes the page as a new file that takes the place of an old one. Somebody else may have made
/// the directory: what lies under the page's name is not written to, and no link is followed.
fn write_page(findings: &Findings, page: &Path) -> Result<()> {
    match fs::symlink_metadata(page) {
        Ok(about) if !about.is_file() => {
            bail!("{}: it is there and no regular file: nothing was written", unwritten(page))
        }
        _ => {}
    }
    let html = kneepoint_report::html::render(findings);
    let folder = page.parent().filter(|path| !path.as_os_str().is_empty());
    let write = || {
        let mut draft = tempfile::Builder::new()
            .prefix(".report-")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        draft.write_all(html.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist(page).map(drop).map_err(|error| error.error)
    };
    write().with_context(|| unwritten(page))
}

fn unwritten(page: &Path) -> String {
    let page = page.display();
    format!(
        "{page}: cannot write the report (`kneepoint report DIR --html FILE` writes it elsewhere)"
    )
}

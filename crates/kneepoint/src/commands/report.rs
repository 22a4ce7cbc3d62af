//! `kneepoint report`: from a run directory to its report; reads nothing else.

use crate::cli::ReportArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Context, Result, bail};
use kneepoint_report::export::{Export, Made};
use kneepoint_report::{html, terminal};
use kneepoint_vocab::{Findings, Profile, ProtocolName, Recording, RunRecord};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Name of the page within a run directory.
const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    let record = kneepoint_lab::open(&args.directory)?;
    if let Some(format) = &args.format {
        return print_format(format, &record, &args.directory);
    }
    if record.plan.protocol == ProtocolName::Profile {
        return report_profile(&kneepoint_analysis::profile::profile(&record), args);
    }
    let findings = with_next(kneepoint_analysis::analyse(&record));
    if args.json {
        return finish_json(&findings);
    }
    let page = match &args.html {
        Some(page) => {
            write_there(&html::render(&findings), page)?;
            page.clone()
        }
        None => write_into(&html::render(&findings), &args.directory)?,
    };
    finish(&findings, &page)
}

fn report_profile(profile: &Profile, args: &ReportArgs) -> Result<u8> {
    if args.json {
        return print_profile_json(profile);
    }
    let Some(page) = &args.html else { return finish_profile(profile, &args.directory, false) };
    write_there(&html::profile::render(profile), page)?;
    print_profile(profile, page)
}

/// Writes the page of a profile and prints it, or prints it for programs, and writes the page all
/// the same.
pub(crate) fn finish_profile(profile: &Profile, directory: &Path, json: bool) -> Result<u8> {
    let page = write_into(&html::profile::render(profile), directory);
    let shown = page.as_ref().map_or(directory, PathBuf::as_path);
    let code = match json {
        true => print_profile_json(profile)?,
        false => print_profile(profile, shown)?,
    };
    page.map(|_| code)
}

fn print_profile_json(profile: &Profile) -> Result<u8> {
    print::out(&kneepoint_report::json::profile(profile))?;
    Ok(profile_code(profile))
}

fn print_profile(profile: &Profile, page: &Path) -> Result<u8> {
    let mut text = terminal::profile::render(profile, print::width(), print::colour());
    text.push_str(&format!("report  {}\n", page.display()));
    print::out(&text)?;
    Ok(profile_code(profile))
}

fn profile_code(profile: &Profile) -> u8 {
    if profile.trustworthy { OK } else { NOT_TRUSTWORTHY }
}

/// Prints one form of a run or a profile for other tools. An empty one says nothing to them, so it
/// is an error.
pub(crate) fn print_format(format: &Export, record: &RunRecord, directory: &Path) -> Result<u8> {
    let recorded = |render: fn(&Recording) -> Vec<u8>| {
        render(&kneepoint_analysis::recording::recording(record))
    };
    let (bytes, code) = if record.plan.protocol == ProtocolName::Profile {
        let profile = kneepoint_analysis::profile::profile(record);
        let bytes = match format.made {
            Made::Recorded(render) => recorded(render),
            Made::Concluded { profile: Some(render), .. } => render(&profile).into_bytes(),
            Made::Concluded { profile: None, .. } => {
                bail!(
                    "--format {}: a profile is one level and has no {}",
                    format.name,
                    format.holds
                )
            }
        };
        (bytes, profile_code(&profile))
    } else {
        let findings = kneepoint_analysis::analyse(record);
        let bytes = match format.made {
            Made::Recorded(render) => recorded(render),
            Made::Concluded { run, .. } => run(&findings).into_bytes(),
        };
        (bytes, code(&findings))
    };
    if bytes.is_empty() {
        bail!("{}: no {} in this run: choose another --format", directory.display(), format.holds);
    }
    if let Some(ending) = format.binary.filter(|_| print::is_to_terminal()) {
        let name = format.name;
        bail!("--format {name} is no text for a terminal: write it to a file, `> {name}.{ending}`");
    }
    print::bytes(&bytes)?;
    Ok(code)
}

/// Writes the page of a profile and prints a form of it.
pub(crate) fn finish_profile_as(
    format: &Export,
    record: &RunRecord,
    directory: &Path,
) -> Result<u8> {
    let profile = kneepoint_analysis::profile::profile(record);
    let page = write_into(&html::profile::render(&profile), directory);
    let code = print_format(format, record, directory)?;
    page.map(|_| code)
}

/// Lines of a terminal's window that the summary leaves: the page's path, and the prompt after it.
const LAST_LINES: usize = 2;

/// What the analysis finds in a run directory.
pub(crate) fn findings(directory: &Path) -> Result<Findings> {
    let record = kneepoint_lab::open(directory)?;
    Ok(kneepoint_analysis::analyse(&record))
}

/// The findings, with what the run's twin says of changes.
pub(crate) fn with_next(mut findings: Findings) -> Findings {
    let workers = super::calibrate::workers();
    findings.next = Some(kneepoint_model::calibrate::next(&findings, workers));
    findings
}

/// Writes the page of a run into its directory.
fn write_into(html: &str, directory: &Path) -> Result<PathBuf> {
    let page = directory.join(PAGE);
    write_page(html, &page)?;
    Ok(page)
}

/// Writes the page of a run that has just been made and prints the findings, which are worth having
/// also where there is no room for the page.
pub(crate) fn finish_run(findings: &Findings, directory: &Path, json: bool) -> Result<u8> {
    let page = write_into(&html::render(findings), directory);
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
    let mut text = terminal::fitted(findings, screen);
    text.push_str(&format!("report  {}\n", page.display()));
    print::out(&text)?;
    Ok(code(findings))
}

fn code(findings: &Findings) -> u8 {
    if findings.trustworthy { OK } else { NOT_TRUSTWORTHY }
}

/// Writes the page where the user said. A pipe or a device that he named is written to; renaming
/// would put a file in its place.
pub(crate) fn write_there(html: &str, page: &Path) -> Result<()> {
    if fs::metadata(page).is_ok_and(|about| !about.is_file()) {
        return fs::write(page, html).with_context(|| unwritten(page));
    }
    write_page(html, page)
}

/// Writes the page as a new file that takes the place of an old one. Somebody else may have made
/// the directory: what lies under the page's name is not written to, and no link is followed.
fn write_page(html: &str, page: &Path) -> Result<()> {
    match fs::symlink_metadata(page) {
        Ok(about) if !about.is_file() => {
            bail!("{}: it is there and no regular file: nothing was written", unwritten(page))
        }
        _ => {}
    }
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

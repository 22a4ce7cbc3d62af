//! Everything that the binary writes to the terminal.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one room of this crate that prints"
)]

use kneepoint_report::terminal::Screen;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// How much is said on standard error beside errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Volume {
    /// Nothing.
    Quiet,
    /// Progress and remarks.
    #[default]
    Usual,
    /// What each measurement gave as well.
    Verbose,
}

/// What the command line asked for, once it is read.
static VOLUME: OnceLock<Volume> = OnceLock::new();

/// Sets how much is said from here on; what was set first stays.
pub(crate) fn set_volume(quiet: bool, verbose: bool) {
    let asked = match (quiet, verbose) {
        (true, _) => Volume::Quiet,
        (_, true) => Volume::Verbose,
        _ => Volume::Usual,
    };
    VOLUME.get_or_init(|| asked);
}

/// How much is said.
pub(crate) fn volume() -> Volume {
    VOLUME.get().copied().unwrap_or_default()
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Where standard output cannot be written for any other reason.
pub(crate) fn out(text: &str) -> anyhow::Result<()> {
    bytes(text.as_bytes())
}

/// The same of what may be no text.
///
/// # Errors
/// As [`out`].
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| anyhow::anyhow!("standard output: {error}")),
    }
}

/// Whether a person would see what is printed.
pub(crate) fn is_to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// One line to standard error: what happened, where, what to do.
pub(crate) fn error(error: &anyhow::Error) {
    // Nothing is left to tell where even this fails.
    let _ = writeln!(io::stderr(), "kneepoint: {}", inert(&reported_once(error)));
}

/// An error and its causes, without those that a message before has quoted already.
fn reported_once(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// One line to standard error that is no failure; none where quiet was asked for.
pub(crate) fn note(text: &str) {
    if volume() == Volume::Quiet {
        return;
    }
    let _ = writeln!(io::stderr(), "{}", inert(text));
}

/// Longest message, in characters: some screens of the usual size.
const LONGEST: usize = 4000;

/// Words that may be from the system under test, from a file or from a command line, as one line
/// that steers no terminal.
pub(crate) fn inert(text: &str) -> String {
    kneepoint_report::text::message(text, LONGEST)
}

/// Columns and lines of the terminal that standard output is; absent where it is none.
fn window() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// Columns of the terminal; 80 where standard output is none, or one that does not tell.
pub(crate) fn width() -> usize {
    window().map_or(80, |(width, _)| width).clamp(40, 200)
}

/// Columns of the terminal that standard error is; 80 where it is none, or does not tell.
pub(crate) fn error_width() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

/// The window to fit a summary into, of which the caller needs so many `lines` itself. What does
/// not go to a terminal is not shortened.
pub(crate) fn screen(lines: usize) -> Screen {
    let height = window().map(|(_, height)| height.saturating_sub(lines));
    Screen { width: width(), height: height.filter(|height| *height > 0), colour: colour() }
}

/// `head`, then `text` word by word; lines after the first begin at `column`.
pub(crate) fn hanging(head: &str, column: usize, text: &str) -> String {
    let width = width();
    let mut out = head.to_owned();
    let mut used = head.chars().count();
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > column && used + length > width {
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{:column$}", ""));
            used = column;
        }
        out.push_str(word);
        out.push(' ');
        used += length + 1;
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Whether colour would be seen as colour.
pub(crate) fn colour() -> bool {
    let reported = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = reported("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && reported("NO_COLOR").is_none() && !dumb
}

/// Diagnostics for developers, off unless `KNEEPOINT_LOG` asks for them.
pub(crate) fn start_log() {
    use tracing_subscriber::EnvFilter;
    if let Ok(filter) = EnvFilter::try_from_env("KNEEPOINT_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
}

#[cfg(test)]
mod tests {
    use super::reported_once;
    use anyhow::{Context, anyhow};

    #[test]
    fn a_cause_is_reported_once() {
        let quoted = Err::<(), _>(anyhow!("disk full")).context("a file: disk full; free some");
        assert_eq!(reported_once(&quoted.unwrap_err()), "a file: disk full; free some");
        let bare = Err::<(), _>(anyhow!("disk full")).context("a file");
        assert_eq!(reported_once(&bare.unwrap_err()), "a file: disk full");
    }
}

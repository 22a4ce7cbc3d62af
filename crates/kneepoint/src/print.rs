//! Everything that the binary writes to the terminal.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one room of this crate that prints"
)]

use std::io::{self, IsTerminal, Write};

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Where standard output cannot be written for any other reason.
pub(crate) fn out(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| anyhow::anyhow!("standard output: {error}")),
    }
}

/// One line to standard error: what happened, where, what to do.
pub(crate) fn error(error: &anyhow::Error) {
    let text = told_once(error).replace('\n', " ");
    // Nothing is left to tell where even this fails.
    let _ = writeln!(io::stderr(), "kneepoint: {text}");
}

/// An error and its causes, without those that a message before has quoted already.
fn told_once(error: &anyhow::Error) -> String {
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

/// One line to standard error that is no failure.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Columns of the terminal; 80 where standard output is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).clamp(60, 120)
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
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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
    use super::told_once;
    use anyhow::{Context, anyhow};

    #[test]
    fn a_cause_is_told_once() {
        let quoted = Err::<(), _>(anyhow!("disk full")).context("a file: disk full; free some");
        assert_eq!(told_once(&quoted.unwrap_err()), "a file: disk full; free some");
        let bare = Err::<(), _>(anyhow!("disk full")).context("a file");
        assert_eq!(told_once(&bare.unwrap_err()), "a file: disk full");
    }
}

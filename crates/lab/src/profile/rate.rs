//! A count of operations that a command of the user's prints.

use super::ask::{TIMEOUT, ask};
use anyhow::{Context as _, Result, bail, ensure};
use kneepoint_machine::Start;

/// The count that the command line prints, run by the shell: the last whole number in its output.
///
/// # Errors
/// It fails, takes too long, or prints no whole number.
pub(super) fn read(line: &str) -> Result<u64> {
    let asked = ask(Start::new("sh").args(["-c", line]));
    let Some((status, text)) = asked.context("--rate: no shell can be started")? else {
        bail!("--rate: `{line}` printed no count within {TIMEOUT:?}");
    };
    ensure!(status.success(), "--rate: `{line}` failed ({status})");
    last_number(&text).with_context(|| format!("--rate: `{line}` printed no whole number"))
}

/// The last whole number that stands alone.
fn last_number(text: &str) -> Option<u64> {
    text.split_whitespace().rev().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(read("echo Questions 120; echo Commits 42").unwrap(), 42);
        for (line, reported) in [
            ("echo none", "no whole number"),
            ("exit 3", "failed"),
            ("kill -9 $$", "failed"),
            ("sleep 30", "no count within"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(reported), "{line}: {error}");
        }
    }
}

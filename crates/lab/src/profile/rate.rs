//! A count of operations that a command of the user's prints.

use anyhow::{Context as _, Result, bail, ensure};
use kneepoint_machine::{Start, Stream};
use std::io::Read as _;
use std::time::{Duration, Instant};

/// How long it may take to print its count.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How often is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(2);
/// The most of its output that is read.
const MOST: u64 = 1 << 20;

/// The count that the command line prints, run by the shell: the last whole number in its output.
///
/// # Errors
/// It fails, takes too long, or prints no whole number.
pub(super) fn read(line: &str) -> Result<u64> {
    let start = Start::new("sh").args(["-c", line]);
    let start = start.input(Stream::Nothing).output(Stream::Pipe).messages(Stream::Nothing);
    // A group of its own: what it starts ends with it where it hangs.
    let mut child = start.in_own_group().begin().context("--rate: no shell can be started")?;
    let output = child.take_output().context("--rate: its output is lost")?;
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        output.take(MOST).read_to_string(&mut text).map(|_| text)
    });
    let reader = reader.context("no thread can be started")?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        if began.elapsed() > TIMEOUT {
            let _ = child.kill_group();
            let _ = child.wait();
            bail!("--rate: `{line}` printed no count within {TIMEOUT:?}");
        }
        std::thread::sleep(GLANCE);
    };
    ensure!(status.success(), "--rate: `{line}` failed ({status})");
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
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

//! A count of operations that a command of the user's prints.

use anyhow::{Context as _, Result, bail, ensure};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
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
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A group of its own: what it starts ends with it where it hangs.
    let mut child = command.process_group(0).spawn().context("--rate: no shell can be started")?;
    let output = child.stdout.take().context("--rate: its output is lost")?;
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        output.take(MOST).read_to_string(&mut text).map(|_| text)
    });
    let reader = reader.context("no thread can be started")?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > TIMEOUT {
            end(&mut child);
            bail!("--rate: `{line}` printed no count within {TIMEOUT:?}");
        }
        std::thread::sleep(GLANCE);
    };
    ensure!(status.success(), "--rate: `{line}` failed ({status})");
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    last_number(&text).with_context(|| format!("--rate: `{line}` printed no whole number"))
}

fn end(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
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

//! A child process that answers each JSON line with one: asked, awaited with timeout, and killed
//! when its guard goes.

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Most bytes of the child's standard error that a message quotes.
const TAIL: u64 = 1024;
/// Longest line that a child may answer with.
const LONGEST_LINE: usize = 16 << 20;

/// A child process spoken with in JSON lines. Dropping it kills and reaps the child.
#[derive(Debug)]
pub(super) struct Peer {
    name: &'static str,
    child: Child,
    requests: ChildStdin,
    replies: ChildStdout,
    unread: Vec<u8>,
    errors: File,
    timeout: Duration,
}

impl Peer {
    /// Starts `command`, which messages call `name`; it may take `timeout` for each answer.
    pub(super) fn spawn(
        name: &'static str,
        mut command: Command,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let errors = memfd_create("stderr", MemfdFlags::CLOEXEC)
            .with_context(|| format!("no file in memory for the messages of {name}"))?;
        let errors = File::from(errors);
        let program = command.get_program().display().to_string();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
            .with_context(|| format!("{program}: {name} cannot be started"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(requests), Some(replies)) => {
                Ok(Self { name, child, requests, replies, unread: Vec::new(), errors, timeout })
            }
            _ => bail!("{program}: {name} was started without pipes"),
        }
    }

    /// The child's process id; it stays the child's own until the guard goes.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for the answer.
    pub(super) fn ask<R: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
    ) -> anyhow::Result<R> {
        let mut line =
            serde_json::to_vec(request).context("a request cannot be written as JSON")?;
        line.push(b'\n');
        if let Err(error) = self.requests.write_all(&line) {
            return Err(self.lost(&format!("takes no more requests ({error})")));
        }
        let deadline = Instant::now() + self.timeout;
        let line = self.read_line(deadline)?;
        serde_json::from_slice(&line).with_context(|| {
            let beginning = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            format!("{} answered with something else than a reply: {beginning:?}", self.name)
        })
    }

    /// Waits until the child has ended by itself.
    pub(super) fn await_end(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + self.timeout;
        while self.read_more(deadline)? > 0 {}
        let status =
            self.child.wait().with_context(|| format!("{} cannot be reaped", self.name))?;
        if !status.success() {
            bail!("{} ended with {status}{}", self.name, self.quoted_errors());
        }
        Ok(())
    }

    fn read_line(&mut self, deadline: Instant) -> anyhow::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(length) = self.unread[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.unread.split_off(searched + length + 1);
                return Ok(std::mem::replace(&mut self.unread, rest));
            }
            searched = self.unread.len();
            if searched > LONGEST_LINE {
                bail!("{} answered with a line of more than {LONGEST_LINE} bytes", self.name);
            }
            if self.read_more(deadline)? == 0 {
                self.await_death();
                return Err(self.lost("died"));
            }
        }
    }

    /// Appends what the child has written to `unread`; 0 bytes at the end of its output.
    fn read_more(&mut self, deadline: Instant) -> anyhow::Result<usize> {
        if !self.readable(deadline)? {
            return Err(self.lost(&format!("gave no answer within {:?}", self.timeout)));
        }
        let mut buffer = [0; 1 << 14];
        let length = self.replies.read(&mut buffer).context("an answer cannot be read")?;
        self.unread.extend_from_slice(&buffer[..length]);
        Ok(length)
    }

    fn readable(&self, deadline: Instant) -> anyhow::Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).context("the timeout is too long")?;
            let mut descriptors = [PollFd::new(&self.replies, PollFlags::IN)];
            match poll(&mut descriptors, Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for an answer failed"),
            }
        }
    }

    /// The error for a child that cannot be spoken with any more.
    /// Waits a moment for a child that has closed its output to be gone: how it ended is worth it.
    fn await_death(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn lost(&mut self, what: &str) -> anyhow::Error {
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!(", {status}"),
            _ => String::new(),
        };
        let (name, pid) = (self.name, self.child.id());
        anyhow::anyhow!("{name} (process {pid}) {what}{status}{}", self.quoted_errors())
    }

    /// The last of what the child wrote to standard error, to be put after a message.
    fn quoted_errors(&self) -> String {
        let length = self.errors.metadata().map_or(0, |about| about.len());
        let mut tail = vec![0; usize::try_from(length.min(TAIL)).unwrap_or(0)];
        if self.errors.read_exact_at(&mut tail, length.saturating_sub(TAIL)).is_err() {
            return String::new();
        }
        let tail = String::from_utf8_lossy(&tail);
        let lines: Vec<_> = tail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only for a child that has been reaped already. It cannot be another process:
        // the id stays taken until it is reaped here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn peer(program: &str, args: &[&str], timeout: Duration) -> Peer {
        let mut command = Command::new(program);
        command.args(args);
        Peer::spawn("the child", command, timeout).unwrap()
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn an_echo_answers_what_it_was_asked() {
        let mut echo = peer("cat", &[], LONG);
        for request in [serde_json::json!({"a": [1, 2]}), serde_json::json!("x".repeat(100_000))] {
            assert_eq!(echo.ask::<Value>(&request).unwrap(), request);
        }
    }

    #[test]
    fn silence_ends_in_an_error_and_the_child_is_reaped() {
        let mut silent = peer("sleep", &["600"], Duration::from_millis(50));
        let process = format!("/proc/{}", silent.pid());
        let error = silent.ask::<Value>(&1).unwrap_err().to_string();
        assert!(error.contains("gave no answer within 50ms"), "{error}");
        assert!(std::path::Path::new(&process).exists());
        drop(silent);
        assert!(!std::path::Path::new(&process).exists());
    }

    #[test]
    fn death_is_reported_with_status_and_last_words() {
        let script = "read line; echo first >&2; echo 'out of eggs' >&2; exit 3";
        let mut dying = peer("sh", &["-c", script], LONG);
        let error = dying.ask::<Value>(&1).unwrap_err().to_string();
        assert!(error.contains("died"), "{error}");
        assert!(error.ends_with("it said: first / out of eggs"), "{error}");
        let error = dying.await_end().unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let mut babbling = peer("sh", &["-c", "read line; echo hello"], LONG);
        let error = babbling.ask::<Value>(&1).unwrap_err().to_string();
        assert!(error.contains("something else than a reply: \"hello\\n\""), "{error}");
        babbling.await_end().unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let missing = Command::new("/nonexistent/server");
        let error = Peer::spawn("the child", missing, LONG).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("/nonexistent/server: the child cannot"),
            "{error}"
        );
    }
}

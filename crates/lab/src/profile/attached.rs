//! A system that is there already: nothing is started or ended, but for a command that was given to
//! be started.

use super::rate;
use super::subject::{Found, command_line, find, threads};
use anyhow::{Context as _, Result, anyhow, ensure};
use kneepoint_rig::process::{Process, Program};
use kneepoint_rig::undo::Undo;
use kneepoint_rig::{Description, Drive, SliceOutput, System};
use kneepoint_vocab::Nanos;
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command that was asked to end may take for that.
const ENDING: Duration = Duration::from_millis(1500);
/// How long a command has to begin: env(1) becomes it.
const BEGINNING: Duration = Duration::from_millis(20);
/// Processes that are named.
const MOST_REPORTED: usize = 4;

/// Processes that are watched.
pub(super) struct Attached {
    found: Vec<Found>,
    /// The one that was started for it.
    started: Option<Process>,
    rate: Option<String>,
    /// When the window opened, and the count then.
    opened: Option<(Instant, u64)>,
    closed: Option<(Instant, u64)>,
}

impl Attached {
    /// To processes that run.
    pub(super) fn to(found: Vec<Found>, rate: Option<String>) -> Self {
        Self { found, started: None, rate, opened: None, closed: None }
    }

    /// To a command, started where Kneepoint is and as Kneepoint was, with its output in `scratch`.
    ///
    /// # Errors
    /// It cannot be started, or ends at once.
    pub(super) fn start(
        words: &[String],
        scratch: &Path,
        undo: &Undo,
        rate: Option<String>,
    ) -> Result<Self> {
        let mut chdir = OsString::from("--chdir=");
        chdir.push(std::env::current_dir().context("finding where Kneepoint is")?);
        let words = words.iter().map(OsString::from);
        let arguments = std::iter::once(chdir).chain(words);
        let program = Program::new("the command", "env", arguments, scratch);
        let mut process = Program { raised: false, ..program }.spawn(undo)?;
        std::thread::sleep(BEGINNING);
        if process.ended().is_some() {
            return Err(process.lost("ended at once"));
        }
        let found = find(process.pid())?;
        Ok(Self { started: Some(process), ..Self::to(vec![found], rate) })
    }

    /// Those of the processes that have not ended.
    pub(super) fn living(&self) -> Vec<u32> {
        self.found.iter().filter(|one| one.lives()).map(|one| one.pid).collect()
    }

    /// Whether there is anything to watch.
    pub(super) fn lives(&self) -> bool {
        self.found.iter().any(Found::lives)
    }

    /// `mariadbd 4242`, or `postgres 17, 18, 19 and 5 more`.
    pub(super) fn reported(&self) -> String {
        let mut reported = String::new();
        let mut last: Option<&str> = None;
        for one in self.found.iter().take(MOST_REPORTED) {
            if last == Some(&one.name) {
                reported += &format!(", {}", one.pid);
            } else {
                let comma = if reported.is_empty() { "" } else { ", " };
                reported += &format!("{comma}{} {}", one.name, one.pid);
            }
            last = Some(&one.name);
        }
        if self.found.len() > MOST_REPORTED {
            reported += &format!(" and {} more", self.found.len() - MOST_REPORTED);
        }
        reported.replace(char::is_control, " ")
    }

    /// For the record: programs without their arguments, which may hold secrets.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let reported = |one: &Found| (format!("process {}", one.pid), command_line(one));
        let mut settings: Vec<_> = self.found.iter().map(reported).collect();
        settings.extend(self.rate.iter().map(|line| ("counted by".to_owned(), line.clone())));
        settings
    }

    /// Ends the command that was started for it, and nothing else.
    pub(super) fn leave(&mut self) -> Result<()> {
        match self.started.take() {
            Some(process) => process.terminate(Signal::TERM, ENDING).or(Ok(())),
            None => Ok(()),
        }
    }

    fn count(&self) -> Result<u64> {
        self.rate.as_deref().map_or(Ok(0), rate::read)
    }
}

impl System for Attached {
    fn pids(&self) -> Vec<u32> {
        self.living()
    }

    fn describe(&mut self) -> Result<Description> {
        Ok((Vec::new(), self.settings()))
    }

    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Every thread counts: which of them serve clients, nobody has said.
    fn begin(&mut self, _drive: &Drive) -> Result<Vec<u32>> {
        (self.opened, self.closed) = (None, None);
        let living = self.living();
        ensure!(!living.is_empty(), "{} ended", self.reported());
        Ok(threads(&living))
    }

    fn working(&mut self) -> Result<bool> {
        Ok(self.lives())
    }

    fn mark(&mut self) -> Result<()> {
        let count = self.count()?;
        self.opened = Some((Instant::now(), count));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        // What counts may be the subject itself, and end with it.
        let count = if self.lives() { self.count()? } else { self.count().unwrap_or(0) };
        self.closed = Some((Instant::now(), count));
        Ok(())
    }

    /// Without a count, the nanoseconds that passed stand in for operations: rates a second.
    fn finish(&mut self) -> Result<SliceOutput> {
        let (from, before) = self.opened.take().context("no window is open")?;
        let (to, after) = self.closed.take().context("no window is closed")?;
        let nanos = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let counted_over = Nanos(nanos(to.saturating_duration_since(from)));
        let operations = match self.rate {
            None => counted_over.0,
            Some(_) => after.checked_sub(before).ok_or_else(|| {
                anyhow!("--rate: the count fell from {before} to {after}: it has to grow only")
            })?,
        };
        Ok(SliceOutput {
            operations,
            counted_over,
            per_client: Vec::new(),
            latency: None,
            counts: None,
        })
    }

    fn stop(mut self: Box<Self>) -> Result<()> {
        self.leave()
    }
}

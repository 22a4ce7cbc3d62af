//! A system that is there already: nothing is started or ended, but for a command that was given to
//! be started.

use super::counting::{Counted, Counter};
use super::subject::{Found, Whom, command_line, find, threads};
use anyhow::{Context as _, Result, ensure};
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
    whom: Whom,
    /// The one that was started for it.
    started: Option<Process>,
    /// What counts, for the record.
    counted_by: Option<String>,
    counter: Counter,
    /// When the window opened.
    opened: Option<Instant>,
    closed: Option<Instant>,
}

impl Attached {
    /// To processes that run.
    pub(super) fn to(whom: Whom, asked: Option<&Counted>, counter: Counter) -> Self {
        let counted_by = asked.map(Counted::reported);
        Self { whom, started: None, counted_by, counter, opened: None, closed: None }
    }

    /// To a command, started where Kneepoint is and as Kneepoint was, with its output in `scratch`.
    ///
    /// # Errors
    /// It cannot be started, or ends at once.
    pub(super) fn start(
        words: &[String],
        scratch: &Path,
        undo: &Undo,
        asked: Option<&Counted>,
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
        let whom = Whom { processes: vec![find(process.pid())?], within: None };
        let counter = Counter::begin(asked, &[process.pid()], true)?;
        Ok(Self { started: Some(process), ..Self::to(whom, asked, counter) })
    }

    /// Those of the processes that have not ended.
    pub(super) fn living(&self) -> Vec<u32> {
        self.whom.processes.iter().filter(|one| one.lives()).map(|one| one.pid).collect()
    }

    /// Whether there is anything to watch.
    pub(super) fn lives(&self) -> bool {
        self.whom.processes.iter().any(Found::lives)
    }

    /// Leaves out who has gone since they were found; the lines say who.
    ///
    /// # Errors
    /// Nobody is left.
    pub(super) fn look_again(&mut self) -> Result<Vec<String>> {
        self.whom.look_again()
    }

    /// `mariadbd 4242`, or `postgres 17, 18, 19 and 5 more`, and in which container.
    pub(super) fn reported(&self) -> String {
        let mut reported = String::new();
        let mut last: Option<&str> = None;
        for one in self.whom.processes.iter().take(MOST_REPORTED) {
            if last == Some(&one.name) {
                reported += &format!(", {}", one.pid);
            } else {
                let comma = if reported.is_empty() { "" } else { ", " };
                reported += &format!("{comma}{} {}", one.name, one.pid);
            }
            last = Some(&one.name);
        }
        if self.whom.processes.len() > MOST_REPORTED {
            reported += &format!(" and {} more", self.whom.processes.len() - MOST_REPORTED);
        }
        if let Some(within) = &self.whom.within {
            reported += &format!(" in {within}");
        }
        reported.replace(char::is_control, " ")
    }

    /// For the record: programs without their arguments, which may hold secrets.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let reported = |one: &Found| (format!("process {}", one.pid), command_line(one));
        let mut settings: Vec<_> = self.whom.processes.iter().map(reported).collect();
        let counted_by = self.counted_by.iter();
        settings.extend(counted_by.map(|by| ("counted by".to_owned(), by.clone())));
        settings
    }

    /// Ends the command that was started for it, and nothing else.
    pub(super) fn leave(&mut self) -> Result<()> {
        match self.started.take() {
            Some(process) => process.terminate(Signal::TERM, ENDING).or(Ok(())),
            None => Ok(()),
        }
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
        if self.opened.is_some() {
            self.counter.look()?;
        }
        Ok(self.lives())
    }

    fn mark(&mut self) -> Result<()> {
        self.counter.open()?;
        self.opened = Some(Instant::now());
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.counter.close(self.lives())?;
        self.closed = Some(Instant::now());
        Ok(())
    }

    /// Without a count, the nanoseconds that passed stand in for operations: rates a second.
    fn finish(&mut self) -> Result<SliceOutput> {
        let from = self.opened.take().context("no window is open")?;
        let to = self.closed.take().context("no window is closed")?;
        let nanos = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let counted_over = Nanos(nanos(to.saturating_duration_since(from)));
        let operations = self.counter.counted()?.unwrap_or(counted_over.0);
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

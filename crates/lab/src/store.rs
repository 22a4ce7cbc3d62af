//! Writes a run directory: append-only, one record a line, on disk before the next trial begins.
//!
//! A crash, a full disk or a pulled plug loses at most the record in flight; every earlier line
//! stays readable. Whole files (`host.json`, `plan.toml`, `end.json`) appear by rename, so they
//! are either complete or absent.

use kneepoint_vocab::{ArmStart, Host, Plan, RunEnd, StackRecord, TrialRecord};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the host file.
pub const HOST: &str = "host.json";
/// Name of the plan file.
pub const PLAN: &str = "plan.toml";
/// Name of the file of arm starts.
pub const ARMS: &str = "arms.jsonl";
/// Name of the file of trials.
pub const TRIALS: &str = "trials.jsonl";
/// Name of the stack table.
pub const STACKS: &str = "stacks.jsonl";
/// Name of the file that says how the run ended.
pub const END: &str = "end.json";

/// What went wrong while writing a run directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory could not be made.
    #[error("{path}: cannot make the run directory: {source}; choose another with --out")]
    Make {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The directory holds another run.
    #[error("{path}: there is a run in it already; choose another directory with --out")]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A record could not be written.
    #[error(
        "{path}: cannot write: {source}; {written} trials are safe, `kneepoint report` tells what \
         they say; to measure again, choose another place with --out"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
        /// Trials on disk.
        written: u32,
    },
}

/// A run directory open for writing.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    arms: File,
    trials: File,
    stacks: File,
    written: u32,
}

impl Store {
    /// Makes the directory, with parents, and writes the host and the plan.
    ///
    /// # Errors
    /// Where the directory cannot be made or written, or holds a run already.
    pub fn create(directory: &Path, host: &Host, plan: &Plan) -> Result<Self, StoreError> {
        let make = |source| StoreError::Make { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(make)?;
        if directory.join(HOST).exists() {
            return Err(StoreError::Occupied { path: directory.to_owned() });
        }
        let file = |name: &str| {
            OpenOptions::new().append(true).create(true).open(directory.join(name)).map_err(make)
        };
        let store = Self {
            arms: file(ARMS)?,
            trials: file(TRIALS)?,
            stacks: file(STACKS)?,
            directory: directory.to_owned(),
            written: 0,
        };
        let plan_text = toml::to_string(plan).map_err(io::Error::other);
        store.whole(PLAN, plan_text.map(String::into_bytes))?;
        store.whole(HOST, to_json(host))?;
        Ok(store)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Appends an arm's start.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn arm(&mut self, start: &ArmStart) -> Result<(), StoreError> {
        append(&mut self.arms, start).map_err(|source| self.failed(ARMS, source))
    }

    /// Appends a trial and the stacks first seen in it, and waits until both are on disk.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn trial(&mut self, trial: &TrialRecord, stacks: &[StackRecord]) -> Result<(), StoreError> {
        // Stacks first: a trial on disk never names a stack that is not.
        for stack in stacks {
            append(&mut self.stacks, stack).map_err(|source| self.failed(STACKS, source))?;
        }
        append(&mut self.trials, trial)
            .and_then(|()| self.stacks.sync_data())
            .and_then(|()| self.trials.sync_data())
            .map_err(|source| self.failed(TRIALS, source))?;
        self.written += 1;
        Ok(())
    }

    /// Writes how the run ended.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn end(&self, end: &RunEnd) -> Result<(), StoreError> {
        self.whole(END, to_json(end))
    }

    fn whole(&self, name: &str, bytes: io::Result<Vec<u8>>) -> Result<(), StoreError> {
        bytes
            .and_then(|bytes| write_whole(&self.directory, name, &bytes))
            .map_err(|source| self.failed(name, source))
    }

    fn failed(&self, name: &str, source: io::Error) -> StoreError {
        StoreError::Write { path: self.directory.join(name), source, written: self.written }
    }
}

/// Writes a file beside its final place, then renames it there.
///
/// # Errors
/// Where any step fails; the final place is then untouched.
pub fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = directory.join(format!(".{name}.draft"));
    let written = File::create(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, directory.join(name)));
    if written.is_err() {
        // The first error is the one worth reporting.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn to_json<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(io::Error::from)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// One line in one write, so that a crash tears at most this line.
fn append<T: Serialize>(file: &mut File, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    line.push(b'\n');
    file.write_all(&line)
}

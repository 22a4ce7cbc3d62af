//! Writes a run directory: append-only, one record a line, on disk before the next trial begins.
//!
//! Making the directory is one step that only one run can do, so no two runs share one. A crash, a
//! full disk or a pulled plug loses at most the record in flight; every earlier line stays
//! readable. Whole files (`host.json`, `plan.toml`, `end.json`) appear by rename, so they are
//! either complete or absent. `end.json` tells what the others held, so that a cut between two
//! lines is seen as well.

use crate::regular::{self, MOST_LINES, MOST_WHOLE};
use crate::sums::{self, Summing};
use kneepoint_vocab::{
    Disposition, EndFile, FileSum, Host, Plan, ProtocolName, RunEnd, RunRecord, StackRecord,
    TrialId, TrialRecord, VariantStart,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

/// Name of the host file.
pub const HOST: &str = "host.json";
/// Name of the plan file.
pub const PLAN: &str = "plan.toml";
/// Name of the file of variant starts.
pub const VARIANTS: &str = "arms.jsonl";
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
    /// The place is taken, perhaps by another run.
    #[error("{path}: it exists already; choose another directory with --out")]
    Occupied {
        /// What is there.
        path: PathBuf,
    },
    /// A run that was cut off cannot go on there.
    #[error("{path}: cannot go on: {source}; `kneepoint report` tells what was measured")]
    Reopen {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
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

/// Most runs of one default name: those that begin within one second.
const MOST_NUMBERED: u32 = 1000;

/// Whether a run directory could be made there: nothing is there yet.
///
/// # Errors
/// Something is.
pub fn vacant(directory: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(directory) {
        Ok(_) => Err(StoreError::Occupied { path: directory.to_owned() }),
        // Making it tells what else is wrong with the place.
        Err(_) => Ok(()),
    }
}

/// A file that lines are appended to.
#[derive(Debug)]
struct Lines {
    file: File,
    held: Summing,
}

impl Lines {
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        // Not all file systems know locks; nobody else knows this file yet.
        let _ = file.try_lock();
        Ok(Self { file, held: Summing::default() })
    }

    /// A file that a crash has cut off: what is no whole line at its end is cut away.
    fn reopen(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        regular::open(path, MOST_LINES)?.read_to_end(&mut bytes)?;
        let file = OpenOptions::new().append(true).open(path)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(io::Error::other("another Kneepoint is writing it"));
        }
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1));
        file.set_len(bytes.len() as u64)?;
        let mut held = Summing::default();
        held.add(&bytes);
        Ok(Self { file, held })
    }

    /// One line in one write, so that a crash tears at most this line; where there is no room for
    /// all of it, none of it stays.
    fn append<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            let _ = self.file.set_len(self.held.bytes());
            return Err(error);
        }
        self.held.add(&line);
        Ok(())
    }
}

/// A run directory open for writing.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    variants: Lines,
    trials: Lines,
    stacks: Lines,
    wholes: BTreeMap<String, FileSum>,
    written: u32,
    /// Whether it waits for the disk. A profile does not: what else writes there, the watched
    /// system above all, would make it late by seconds, and it is soon taken again.
    waits: bool,
}

impl Store {
    /// Makes the directory, with parents, and writes the host and the plan.
    ///
    /// # Errors
    /// Where something is there already, or the directory cannot be made or written; nothing is
    /// left of it then.
    pub fn create(directory: &Path, host: &Host, plan: &Plan) -> Result<Self, StoreError> {
        make(directory)?;
        Self::begin(directory, host, plan).inspect_err(|_| {
            // Made just now, and no other run is ever in it.
            let _ = fs::remove_dir_all(directory);
        })
    }

    /// The same beside what is there already: `NAME-2`, `NAME-3` and so on.
    ///
    /// # Errors
    /// As [`Store::create`], but for what is there.
    pub fn create_beside(directory: &Path, host: &Host, plan: &Plan) -> Result<Self, StoreError> {
        let mut made = Self::create(directory, host, plan);
        for number in 2..=MOST_NUMBERED {
            if !matches!(made, Err(StoreError::Occupied { .. })) {
                break;
            }
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(format!("-{number}"));
            made = Self::create(&directory.with_file_name(name), host, plan);
        }
        made
    }

    fn begin(directory: &Path, host: &Host, plan: &Plan) -> Result<Self, StoreError> {
        let file = |name: &str| {
            Lines::create(&directory.join(name))
                .map_err(|source| StoreError::Make { path: directory.to_owned(), source })
        };
        let mut store = Self {
            variants: file(VARIANTS)?,
            trials: file(TRIALS)?,
            stacks: file(STACKS)?,
            wholes: BTreeMap::new(),
            directory: directory.to_owned(),
            written: 0,
            waits: plan.protocol != ProtocolName::Profile,
        };
        let plan_text = toml::to_string(plan).map_err(io::Error::other);
        store.whole(PLAN, plan_text.map(String::into_bytes))?;
        store.whole(HOST, to_json(host))?;
        Ok(store)
    }

    /// Opens the directory of a run that was cut off, to go on with it. A line that the end has
    /// torn is cut away, and `end.json`, where there is one, is taken back.
    ///
    /// # Errors
    /// Another Kneepoint is writing there, or something cannot be read or written.
    pub fn reopen(directory: &Path) -> Result<Self, StoreError> {
        let reported = |name: &str| {
            let path = directory.join(name);
            move |source| StoreError::Reopen { path, source }
        };
        let file = |name: &str| Lines::reopen(&directory.join(name)).map_err(reported(name));
        let whole = |name: &str| {
            let bytes = regular::read(&directory.join(name), MOST_WHOLE).map_err(reported(name))?;
            Ok((name.to_owned(), sums::of(&bytes)))
        };
        // The file that is locked longest comes first.
        let trials = file(TRIALS)?;
        let store = Self {
            written: u32::try_from(trials.held.lines()).unwrap_or(u32::MAX),
            trials,
            variants: file(VARIANTS)?,
            stacks: file(STACKS)?,
            wholes: [PLAN, HOST].into_iter().map(whole).collect::<Result<_, _>>()?,
            directory: directory.to_owned(),
            waits: true,
        };
        for name in [END.to_owned(), draft(END), draft(TRIALS)] {
            match fs::remove_file(directory.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(reported(&name)(error));
                }
                _ => {}
            }
        }
        Ok(store)
    }

    /// Notes that trials were disturbed, so that others take their places: replaces the file of
    /// trials as a whole.
    ///
    /// # Errors
    /// Where it cannot be read or written; it is as it was then.
    pub fn put_back(&mut self, disturbed: &BTreeSet<TrialId>) -> Result<(), StoreError> {
        match self.without(disturbed) {
            Ok(trials) => self.trials = trials,
            Err(source) => return Err(self.failed(TRIALS, source)),
        }
        Ok(())
    }

    fn without(&self, disturbed: &BTreeSet<TrialId>) -> io::Result<Lines> {
        let path = self.directory.join(TRIALS);
        let text = regular::read(&path, MOST_LINES)?;
        let mut out = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let mut trial: TrialRecord = serde_json::from_slice(line)?;
            if disturbed.contains(&trial.id) {
                trial.disposition = Disposition::Disturbed;
                serde_json::to_writer(&mut out, &trial)?;
                out.push(b'\n');
            } else {
                out.extend_from_slice(line);
            }
        }
        write_whole(&self.directory, TRIALS, &out, true)?;
        Lines::reopen(&path)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Trials on disk.
    #[must_use]
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Appends a variant's start.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn variant(&mut self, start: &VariantStart) -> Result<(), StoreError> {
        // Verdicts rest on these proofs.
        self.variants
            .append(start)
            .and_then(|()| self.on_disk(&self.variants))
            .map_err(|source| self.failed(VARIANTS, source))
    }

    /// Appends a trial and the stacks first seen in it, and waits until both are on disk, unless
    /// it is of a profile.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn trial(&mut self, trial: &TrialRecord, stacks: &[StackRecord]) -> Result<(), StoreError> {
        // Stacks first: a trial on disk never names a stack that is not.
        for stack in stacks {
            self.stacks.append(stack).map_err(|source| self.failed(STACKS, source))?;
        }
        self.trials
            .append(trial)
            .and_then(|()| self.on_disk(&self.stacks))
            .and_then(|()| self.on_disk(&self.trials))
            .map_err(|source| self.failed(TRIALS, source))?;
        self.written += 1;
        Ok(())
    }

    /// Writes how the run ended and what the files hold, and waits until all is on disk, as for a
    /// trial.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn end(&mut self, end: &RunEnd) -> Result<(), StoreError> {
        let mut files = self.wholes.clone();
        for (name, lines) in
            [(VARIANTS, &self.variants), (TRIALS, &self.trials), (STACKS, &self.stacks)]
        {
            self.on_disk(lines).map_err(|source| self.failed(name, source))?;
            files.insert(name.to_owned(), lines.held.clone().sum());
        }
        self.whole(END, to_json(&EndFile { end: end.clone(), files }))
    }

    fn whole(&mut self, name: &str, bytes: io::Result<Vec<u8>>) -> Result<(), StoreError> {
        let written = bytes.and_then(|bytes| {
            write_whole(&self.directory, name, &bytes, self.waits)?;
            Ok(sums::of(&bytes))
        });
        let sum = written.map_err(|source| self.failed(name, source))?;
        self.wholes.insert(name.to_owned(), sum);
        Ok(())
    }

    fn on_disk(&self, lines: &Lines) -> io::Result<()> {
        if self.waits { lines.file.sync_data() } else { Ok(()) }
    }

    fn failed(&self, name: &str, source: io::Error) -> StoreError {
        StoreError::Write { path: self.directory.join(name), source, written: self.written }
    }
}

/// Writes a whole record as a run directory that was not there: a simulated run.
///
/// # Errors
/// Where something is there already, or the directory cannot be made or written.
pub fn write_record(record: &RunRecord, directory: &Path) -> Result<(), StoreError> {
    let mut store = Store::create(directory, &record.host, &record.plan)?;
    for start in &record.variants {
        store.variant(start)?;
    }
    let mut stacks: &[StackRecord] = &record.stacks;
    for trial in &record.trials {
        store.trial(trial, stacks)?;
        stacks = &[];
    }
    record.end.as_ref().map_or(Ok(()), |end| store.end(end))
}

/// Makes a directory that was not there, with parents.
fn make(directory: &Path) -> Result<(), StoreError> {
    let reported = |source| StoreError::Make { path: directory.to_owned(), source };
    let parent = directory.parent().filter(|path| !path.as_os_str().is_empty());
    if let Some(parent) = parent {
        fs::create_dir_all(parent).map_err(reported)?;
    }
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::Occupied { path: directory.to_owned() })
        }
        made => made.map_err(reported),
    }
}

/// Writes a file beside its final place, then renames it there; where it `waits`, for good: the
/// directory's entry is on disk too.
fn write_whole(directory: &Path, name: &str, bytes: &[u8], waits: bool) -> io::Result<()> {
    let draft = directory.join(draft(name));
    let on_disk = |file: &File| if waits { file.sync_all() } else { Ok(()) };
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| on_disk(&file)))
        .and_then(|()| fs::rename(&draft, directory.join(name)))
        .and_then(|()| on_disk(&File::open(directory)?));
    if written.is_err() {
        // The first error is the one worth reporting.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn draft(name: &str) -> String {
    format!(".{name}.draft")
}

fn to_json<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(io::Error::from)?;
    bytes.push(b'\n');
    Ok(bytes)
}

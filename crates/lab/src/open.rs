//! Reads a run directory back, however it ended.

use crate::store::{ARMS, END, HOST, PLAN, STACKS, TRIALS};
use kneepoint_vocab::{Plan, RunRecord, SCHEMA};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a run directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no run in it.
    #[error("{path}: not a run directory (no {HOST}): give the directory that `run` printed")]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{path}: cannot read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Written by another version.
    #[error(
        "{path}: the run directory has schema {found}, this Kneepoint reads schema {SCHEMA}: \
         use Kneepoint {writer}, which wrote it"
    )]
    Schema {
        /// The host file.
        path: PathBuf,
        /// Its schema.
        found: u64,
        /// The version that wrote it.
        writer: String,
    },
    /// A file that is written whole does not parse.
    #[error("{path}: damaged: {reason}: the run cannot be read without it; run it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
}

/// Reads the run in `directory`. Lines that a crash has torn are left out and named in
/// [`RunRecord::torn`].
///
/// # Errors
/// Where it holds no run, one of another schema, or its host or plan is damaged.
pub fn open(directory: &Path) -> Result<RunRecord, OpenError> {
    let host_path = directory.join(HOST);
    let host_text = match fs::read_to_string(&host_path) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(OpenError::NotARun { path: directory.to_owned() });
        }
        Err(source) => return Err(OpenError::Read { path: host_path, source }),
    };
    check_schema(&host_path, &host_text)?;
    let mut torn = Vec::new();
    let mut trials: Vec<kneepoint_vocab::TrialRecord> = lines(directory, TRIALS, &mut torn)?;
    let stacks: Vec<kneepoint_vocab::StackRecord> = lines(directory, STACKS, &mut torn)?;
    drop_dangling_stacks(&mut trials, &stacks);
    Ok(RunRecord {
        host: parse_json(&host_path, &host_text)?,
        plan: read_plan(&directory.join(PLAN))?,
        arms: lines(directory, ARMS, &mut torn)?,
        trials,
        stacks,
        end: read_end(&directory.join(END))?,
        torn,
    })
}

fn check_schema(path: &Path, text: &str) -> Result<(), OpenError> {
    let value: serde_json::Value = parse_json(path, text)?;
    let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found == u64::from(SCHEMA) {
        return Ok(());
    }
    let writer = value.get("kneepoint").and_then(serde_json::Value::as_str).unwrap_or("?");
    Err(OpenError::Schema { path: path.to_owned(), found, writer: writer.to_owned() })
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, OpenError> {
    serde_json::from_str(text)
        .map_err(|error| OpenError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

fn read_plan(path: &Path) -> Result<Plan, OpenError> {
    let text = fs::read_to_string(path)
        .map_err(|source| OpenError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|error| OpenError::Damaged {
        path: path.to_owned(),
        reason: error.message().to_owned(),
    })
}

fn read_end(path: &Path) -> Result<Option<kneepoint_vocab::RunEnd>, OpenError> {
    match fs::read_to_string(path) {
        Ok(text) => parse_json(path, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(OpenError::Read { path: path.to_owned(), source }),
    }
}

/// Every readable line of a JSON Lines file; the others are named in `torn`.
fn lines<T: DeserializeOwned>(
    directory: &Path,
    name: &str,
    torn: &mut Vec<String>,
) -> Result<Vec<T>, OpenError> {
    let path = directory.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            torn.push(format!("{name} is missing"));
            return Ok(Vec::new());
        }
        Err(source) => return Err(OpenError::Read { path, source }),
    };
    let mut records = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(_) => torn.push(format!("{name}:{} is not readable", index + 1)),
        }
    }
    Ok(records)
}

/// A torn stack table may lack stacks that trials name; those weights stand for nothing.
fn drop_dangling_stacks(
    trials: &mut [kneepoint_vocab::TrialRecord],
    stacks: &[kneepoint_vocab::StackRecord],
) {
    let known: std::collections::BTreeSet<_> = stacks.iter().map(|stack| stack.id).collect();
    for trial in trials {
        trial.facts.retain(|fact| match fact {
            kneepoint_vocab::Fact::Stack(weight) => known.contains(&weight.stack),
            _ => true,
        });
    }
}

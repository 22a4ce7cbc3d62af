//! Reads a run directory back, however it ended.

use crate::regular::{self, MOST_LINES, MOST_WHOLE};
use crate::store::{END, HOST, PLAN, STACKS, TRIALS, VARIANTS};
use crate::sums::{self, Summing};
use kneepoint_vocab::{EndFile, FileSum, Plan, RunRecord, SCHEMA};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

/// Longest line.
const LONGEST_LINE: u64 = 64 << 20;

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
        "{path}: the run directory has schema {found}, this Kneepoint reads schema 1 to \
         {SCHEMA}: \
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
/// [`RunRecord::torn`], and so is every file that is not what the run has written.
///
/// Only regular files are read, no link is followed, and none is read beyond a bound: somebody
/// else may have sent the directory.
///
/// # Errors
/// Where it holds no run, one of another schema, or its host or plan is damaged.
pub fn open(directory: &Path) -> Result<RunRecord, OpenError> {
    let host_path = directory.join(HOST);
    let host_bytes = match regular::read(&host_path, MOST_WHOLE) {
        Ok(bytes) => bytes,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(OpenError::NotARun { path: directory.to_owned() });
        }
        Err(source) => return Err(OpenError::Read { path: host_path, source }),
    };
    check_schema(&host_path, &host_bytes)?;
    let plan_path = directory.join(PLAN);
    let plan_bytes = regular::read(&plan_path, MOST_WHOLE)
        .map_err(|source| OpenError::Read { path: plan_path.clone(), source })?;
    let mut reading = Reading { directory, torn: Vec::new(), found: BTreeMap::new() };
    reading.found.insert(HOST, sums::of(&host_bytes));
    reading.found.insert(PLAN, sums::of(&plan_bytes));
    let mut trials: Vec<kneepoint_vocab::TrialRecord> = reading.lines(TRIALS)?;
    let stacks: Vec<kneepoint_vocab::StackRecord> = reading.lines(STACKS)?;
    drop_dangling_stacks(&mut trials, &stacks);
    let variants = reading.lines(VARIANTS)?;
    let end = reading.end()?;
    Ok(RunRecord {
        host: parse_json(&host_path, &host_bytes)?,
        plan: parse_plan(&plan_path, &plan_bytes)?,
        variants,
        trials,
        stacks,
        end,
        torn: reading.torn,
    })
}

fn check_schema(path: &Path, text: &[u8]) -> Result<(), OpenError> {
    let value: serde_json::Value = parse_json(path, text)?;
    let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if (1..=u64::from(SCHEMA)).contains(&found) {
        return Ok(());
    }
    let writer = value.get("kneepoint").and_then(serde_json::Value::as_str).unwrap_or("?");
    Err(OpenError::Schema { path: path.to_owned(), found, writer: writer.to_owned() })
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, OpenError> {
    serde_json::from_slice(text)
        .map_err(|error| OpenError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

fn parse_plan(path: &Path, bytes: &[u8]) -> Result<Plan, OpenError> {
    let damaged = |reason: String| OpenError::Damaged { path: path.to_owned(), reason };
    let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
    toml::from_str(text).map_err(|error| damaged(error.message().to_owned()))
}

/// A run directory being read: what was found in it.
struct Reading<'a> {
    directory: &'a Path,
    torn: Vec<String>,
    found: BTreeMap<&'static str, FileSum>,
}

impl Reading<'_> {
    /// Every readable line of a JSON Lines file; the others are named as torn.
    fn lines<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Vec<T>, OpenError> {
        let path = self.directory.join(name);
        let read = |source| OpenError::Read { path: path.clone(), source };
        let file = match regular::open(&path, MOST_LINES) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.torn.push(format!("{name} is missing"));
                return Ok(Vec::new());
            }
            Err(source) => return Err(read(source)),
        };
        let mut file = io::BufReader::new(file.take(MOST_LINES));
        let (mut records, mut summing, mut line) = (Vec::new(), Summing::default(), Vec::new());
        for number in 1_u64.. {
            line.clear();
            let length = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line);
            if length.map_err(read)? == 0 {
                break;
            }
            summing.add(&line);
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice(text) {
                Ok(record) => records.push(record),
                Err(_) => self.torn.push(format!("{name}:{number} is not readable")),
            }
        }
        self.found.insert(name, summing.sum());
        Ok(records)
    }

    /// How the run ended. A file that does not tell is as good as none.
    fn end(&mut self) -> Result<Option<kneepoint_vocab::RunEnd>, OpenError> {
        let path = self.directory.join(END);
        let bytes = match regular::read(&path, MOST_WHOLE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OpenError::Read { path, source }),
        };
        let Ok(EndFile { end, files }) = serde_json::from_slice(&bytes) else {
            self.torn.push(format!("{END} is not readable"));
            return Ok(None);
        };
        for (name, noted) in &files {
            let found = self.found.get(name.as_str());
            self.torn.extend(found.and_then(|found| sums::difference(name, noted, found)));
        }
        Ok(Some(end))
    }
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

//! A whole run as it lies in the run directory: the narrow waist.
//!
//! | file | what |
//! |---|---|
//! | `host.json` | [`Host`], with the schema version |
//! | `plan.toml` | [`crate::Plan`] |
//! | `arms.jsonl` | [`VariantStart`], one line a start |
//! | `trials.jsonl` | [`crate::TrialRecord`], one line a slice, in the order they ran |
//! | `stacks.jsonl` | [`StackRecord`], one line a distinct stack |
//! | `end.json` | [`EndFile`]; absent where the run was cut off |

use crate::fact::StackId;
use crate::machine::MachineName;
use crate::plan::{Plan, VariantId};
use crate::trial::TrialRecord;
use crate::units::{Nanos, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the run directory that this code writes; it reads those before as well.
///
/// | version | what is new |
/// |---|---|
/// | 1 | |
/// | 2 | futex waits as they were called, [`crate::WaitReason::Futex`], not as they were judged |
pub const SCHEMA: u32 = 2;

/// The machine and the Kneepoint that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Version of the run directory.
    pub schema: u32,
    /// Which machine of the run it is.
    #[serde(default, skip_serializing_if = "MachineName::is_local")]
    pub machine: MachineName,
    /// Version of Kneepoint.
    pub kneepoint: String,
    /// Begin of the run, RFC 3339 in UTC.
    pub begun: String,
    /// Arguments after the program's name.
    pub arguments: Vec<String>,
    /// Cores that the kernel has online and that this process may use.
    pub cores: u32,
    /// CPU model name.
    pub cpu: String,
    /// Memory in bytes.
    pub memory: u64,
    /// `uname -sr`.
    pub kernel: String,
    /// Distribution, from os-release.
    pub distribution: String,
    /// Further facts worth keeping with a result: governor, SMT, THP, hypervisor, versions.
    pub notes: Vec<(String, String)>,
}

impl Host {
    /// How a note begins of which the rest names the tool whose results were imported.
    const IMPORTED: &'static str = "imported from";

    /// The note that results of `tool` come from `file`.
    #[must_use]
    pub fn imported(tool: &str, file: String) -> (String, String) {
        (format!("{} {tool}", Self::IMPORTED), file)
    }

    /// Tools whose results were imported, each with its file; a tool is empty where nobody knows.
    pub fn imports(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes.iter().filter_map(|(name, file)| {
            Some((name.strip_prefix(Self::IMPORTED)?.trim(), file.as_str()))
        })
    }
}

/// Evidence that a variant really is what it claims to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// What was read back, e.g. `PRAGMA mmap_size`.
    pub what: String,
    /// What it had to be.
    pub expected: String,
    /// What it was.
    pub found: String,
    /// Whether that proves the variant.
    pub active: bool,
}

impl Proof {
    /// That what was read back is what it had to be.
    pub fn equal(what: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self { what: what.into(), active: expected == found, expected, found }
    }
}

/// One start of one variant: one line of `arms.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantStart {
    /// The variant.
    #[serde(rename = "arm")]
    pub variant: VariantId,
    /// Which start, from 0.
    pub start: u32,
    /// Proofs, all of which must be active; none where nothing can be read back.
    pub proofs: Vec<Proof>,
    /// Seconds from the start of the process until it was ready.
    pub ready_after: Seconds,
    /// Versions and settings that the system reports of itself.
    pub settings: Vec<(String, String)>,
    /// Environment of its processes, as `name, value`; secrets are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
}

/// Whether something is shown to be what it claims to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proven {
    /// What was read back is what it had to be.
    #[default]
    Yes,
    /// Something that was read back is not what it had to be.
    No,
    /// Nothing was read back that could tell.
    Unproven,
}

impl VariantStart {
    /// Whether every proof holds; without a proof that is open.
    #[must_use]
    pub fn proven(&self) -> Proven {
        if self.proofs.is_empty() {
            Proven::Unproven
        } else if self.proofs.iter().all(|proof| proof.active) {
            Proven::Yes
        } else {
            Proven::No
        }
    }
}

/// One frame of a stack, innermost first in [`StackRecord::frames`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Demangled function; `module+0xOFFSET` where no symbol is proven.
    pub function: String,
    /// Base name of the module; `[kernel]` for the kernel.
    pub module: String,
}

/// A mapped file that frames lie in, as it was when the run saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Its base name, as frames bear it.
    pub name: String,
    /// What its linker noted to tell this build from any other (`NT_GNU_BUILD_ID`), in hexadecimal.
    pub build_id: String,
}

/// Where the source of a function lies, as the debug information of its module says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceLine {
    /// The function, as frames bear it.
    pub function: String,
    /// Its module, as frames bear it.
    pub module: String,
    /// The file, with the path that it had where it was compiled.
    pub file: String,
    /// The line at which its code begins; of a function that was put into another, one in it.
    pub line: u32,
}

/// What the instructions around the innermost address of a running thread do.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CodeKind {
    /// Nothing of the below, or not known: in the kernel, and where code could not be read.
    #[default]
    Other,
    /// A loop that does nothing but look whether a word of memory has changed.
    Spin,
    /// An atomic read-modify-write: it takes the cache line from every other core.
    Atomic,
    /// A loop that changes a word with `cmpxchg`, and begins again where another core came between.
    Retry,
    /// Another access to memory that is not the thread's own stack.
    Memory,
}

impl CodeKind {
    /// Whether nothing stands out.
    #[must_use]
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// One distinct stack: one line of `stacks.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackRecord {
    /// Its index.
    pub id: StackId,
    /// Frames, innermost first; kernel frames, where there are, before user frames.
    pub frames: Vec<Frame>,
    /// The unwinder could not reach the outermost frame.
    pub truncated: bool,
    /// What a thread that ran there did. Stacks of equal frames differ where it does.
    #[serde(default, skip_serializing_if = "CodeKind::is_other")]
    pub code: CodeKind,
    /// Source lines of its functions that no stack before it had, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceLine>,
    /// Modules of its frames that no stack before it had, as far as they bear a build id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
}

/// Why a run stopped: in files its words, e.g. `planned blocks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
pub enum StoppedBy {
    /// Each treatment has its verdict, and the controls are known well enough.
    Decided,
    /// The wall-clock budget was spent.
    Budget,
    /// All planned blocks were done.
    PlannedBlocks,
    /// Somebody asked it to stop.
    Interrupted,
    /// Nothing was run: results of other tools.
    Imported,
    /// Nobody knows: there is no end.
    CutOff,
    /// An error, in its own words.
    Failed(String),
}

impl StoppedBy {
    /// Its words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Decided => "decided",
            Self::Budget => "budget",
            Self::PlannedBlocks => "planned blocks",
            Self::Interrupted => "interrupted",
            Self::Imported => "imported",
            Self::CutOff => "cut off",
            Self::Failed(error) => error,
        }
    }
}

impl From<String> for StoppedBy {
    fn from(words: String) -> Self {
        let known = [
            Self::Decided,
            Self::Budget,
            Self::PlannedBlocks,
            Self::Interrupted,
            Self::Imported,
            Self::CutOff,
        ];
        let found = known.into_iter().find(|one| one.as_str() == words);
        found.unwrap_or(Self::Failed(words))
    }
}

impl From<StoppedBy> for String {
    fn from(why: StoppedBy) -> Self {
        why.as_str().to_owned()
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEnd {
    /// Wall time from begin to end of measuring.
    pub elapsed: Nanos,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
    /// Whether the baseline was steady before the sweep, by the change-point test.
    pub steady: bool,
    /// Things the user should know that belong to no trial.
    pub remarks: Vec<String>,
}

/// What a file of a run directory held when the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSum {
    /// Line feeds.
    pub lines: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes, as `sha256sum` prints it.
    pub sha256: String,
}

/// `end.json`: how the run ended, and what the other files held then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndFile {
    /// How the run ended.
    #[serde(flatten)]
    pub end: RunEnd,
    /// The other files by their names; empty in directories of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileSum>,
}

/// Everything a run directory holds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The machine.
    pub host: Host,
    /// The design.
    pub plan: Plan,
    /// Starts of variants.
    pub variants: Vec<VariantStart>,
    /// Slices in the order they ran.
    pub trials: Vec<TrialRecord>,
    /// Stack table.
    pub stacks: Vec<StackRecord>,
    /// Absent where the run was cut off.
    pub end: Option<RunEnd>,
    /// Records that could not be read, by file and line, and files that are not what was
    /// written.
    pub torn: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_run_stopped_is_written_as_it_always_was() {
        for words in ["decided", "budget", "planned blocks", "interrupted", "imported", "cut off"] {
            let read = StoppedBy::from(words.to_owned());
            assert!(!matches!(read, StoppedBy::Failed(_)), "{words}");
            assert_eq!(String::from(read), words);
        }
        let error = "baseline at 2 clients: the server is gone";
        assert_eq!(StoppedBy::from(error.to_owned()), StoppedBy::Failed(error.to_owned()));
    }
}

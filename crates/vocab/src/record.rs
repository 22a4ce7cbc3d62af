//! A whole run as it lies in the run directory: the narrow waist.
//!
//! | file | what |
//! |---|---|
//! | `host.json` | [`Host`], with the schema version |
//! | `plan.toml` | [`crate::Plan`] |
//! | `arms.jsonl` | [`ArmStart`], one line a start |
//! | `trials.jsonl` | [`crate::TrialRecord`], one line a slice, in the order they ran |
//! | `stacks.jsonl` | [`StackRecord`], one line a distinct stack |
//! | `end.json` | [`RunEnd`]; absent where the run was cut off |

use crate::fact::StackId;
use crate::plan::{ArmId, Plan};
use crate::trial::TrialRecord;
use crate::units::{Nanos, Seconds};
use serde::{Deserialize, Serialize};

/// Version of the run directory that this code writes and reads.
pub const SCHEMA: u32 = 1;

/// The machine and the Kneepoint that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Version of the run directory.
    pub schema: u32,
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

/// Evidence that an arm really is what it claims to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What was read back, e.g. `PRAGMA mmap_size`.
    pub what: String,
    /// What it had to be.
    pub expected: String,
    /// What it was.
    pub found: String,
    /// Whether that proves the arm.
    pub active: bool,
}

/// One start of one arm: one line of `arms.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmStart {
    /// The arm.
    pub arm: ArmId,
    /// Which start, from 0.
    pub start: u32,
    /// Proofs, all of which must be active.
    pub proofs: Vec<Proof>,
    /// Seconds from the start of the process until it was ready.
    pub ready_after: Seconds,
    /// Versions and settings that the system reports of itself.
    pub settings: Vec<(String, String)>,
}

impl ArmStart {
    /// Whether every proof holds.
    #[must_use]
    pub fn active(&self) -> bool {
        self.proofs.iter().all(|proof| proof.active)
    }
}

/// One frame of a stack, innermost first in [`StackRecord::frames`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled function; `module+0xOFFSET` where no symbol is proven.
    pub function: String,
    /// Base name of the module; `[kernel]` for the kernel.
    pub module: String,
}

/// One distinct stack: one line of `stacks.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackRecord {
    /// Its index.
    pub id: StackId,
    /// Frames, innermost first; kernel frames, where there are, before user frames.
    pub frames: Vec<Frame>,
    /// The unwinder could not reach the outermost frame.
    pub truncated: bool,
}

/// How a run ended: `end.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Wall time from begin to end of measuring.
    pub elapsed: Nanos,
    /// Why it stopped: `decided`, `budget`, `planned blocks`, `interrupted`.
    pub stopped_by: String,
    /// Whether the baseline was steady before the sweep, by the change-point test.
    pub steady: bool,
    /// Things the user should know that belong to no trial.
    pub remarks: Vec<String>,
}

/// Everything a run directory holds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The machine.
    pub host: Host,
    /// The design.
    pub plan: Plan,
    /// Starts of arms.
    pub arms: Vec<ArmStart>,
    /// Slices in the order they ran.
    pub trials: Vec<TrialRecord>,
    /// Stack table.
    pub stacks: Vec<StackRecord>,
    /// Absent where the run was cut off.
    pub end: Option<RunEnd>,
    /// Records that could not be read because the run was cut off, by file and line.
    pub torn: Vec<String>,
}

//! What the slices of a run held, for tools that read profiles and traces: nothing is judged but
//! which slices count, and whether a futex wait was for a lock.
//!
//! A run and a profile hold the same here. It is no part of the findings, since it is as large as
//! what was recorded.

use crate::fact::{CoreTime, WaitReason};
use crate::plan::{Level, VariantId};
use crate::record::{Host, SourceLine};
use crate::trial::{Interference, Phase, Window};
use crate::units::{Nanos, PerSecond};

/// All slices of a run with their stacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The recipe, or what was watched.
    pub title: String,
    /// What one operation is, in the plural; absent where nobody counted any.
    pub operation: Option<String>,
    /// Whether slices differ by level. A profile has one, and nobody knows how many clients it had.
    pub has_levels: bool,
    /// The machine.
    pub host: Host,
    /// Functions that the stacks refer to, by index.
    pub functions: Vec<RecordedFunction>,
    /// Stacks that the slices refer to, by index: indices of functions, innermost first.
    pub stacks: Vec<Vec<usize>>,
    /// Slices in the order they ran, warm-up included.
    pub slices: Vec<RecordedSlice>,
}

/// A function that was seen on a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedFunction {
    /// Its name, as frames bear it.
    pub name: String,
    /// The base name of its module.
    pub module: String,
    /// Whether it is the kernel's.
    pub kernel: bool,
    /// What tells the build of its module from any other, where that is known.
    pub build_id: Option<String>,
    /// Where its source lies, where that is known.
    pub source: Option<SourceLine>,
}

/// One slice.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedSlice {
    /// Part of the design.
    pub phase: Phase,
    /// Block within the phase, from 0.
    pub block: u32,
    /// The variant.
    pub variant: VariantId,
    /// Its words.
    pub label: String,
    /// The level.
    pub level: Level,
    /// When it was measured, on the run's own clock.
    pub window: Window,
    /// Whether it enters the estimates.
    pub counts: bool,
    /// Operations a second, where they were counted.
    pub throughput: Option<PerSecond>,
    /// What else ran.
    pub interference: Interference,
    /// Where the core-time went, where somebody watched.
    pub cores: Option<CoreTime>,
    /// Stacks, in the order of the record.
    pub stacks: Vec<RecordedStack>,
}

/// A stack and the thread-time that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedStack {
    /// What the thread did.
    pub state: ThreadState,
    /// Index of the stack.
    pub stack: usize,
    /// Estimated thread-time.
    pub weight: Nanos,
}

/// What a thread did whose stack was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadState {
    /// It was on a core.
    Running,
    /// It began to wait.
    Waiting(WaitReason),
}

impl ThreadState {
    /// The word for it in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting(reason) => reason.as_str(),
        }
    }
}

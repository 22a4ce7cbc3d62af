//! What a cause is called in every run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of thing a cause is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// A user-space lock.
    Lock,
    /// A lock in the kernel.
    KernelLock,
    /// Kernel work: system calls, context switches, faults.
    Kernel,
    /// Extra CPU in user functions: spinning, cache misses, retries.
    Function,
    /// A device or file.
    Device,
    /// A pipe, socket or another process.
    Thread,
    /// The scheduler: runnable threads beside idle cores.
    Scheduler,
    /// The load generator.
    Generator,
    /// Timers, faults, anything else.
    Other,
}

/// The same for the same cause in every run of the same programs: addresses, ids and figures are
/// no part of it. Two causes of one run share it only if nothing names them.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct CauseKey {
    /// The kind of cause.
    pub kind: CauseKind,
    /// The function that names it or, where nothing does, what kind of wait or work it is.
    pub frame: String,
    /// The file that the function is in; empty where the frame is none, or its file is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
}

impl CauseKey {
    /// A key of its parts.
    pub fn new(kind: CauseKind, frame: impl Into<String>, module: impl Into<String>) -> Self {
        Self { kind, frame: frame.into(), module: module.into() }
    }
}

impl fmt::Display for CauseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.module.is_empty() { "" } else { "@" };
        write!(f, "{}:{}{at}{}", self.kind.as_str(), self.frame, self.module)
    }
}

impl CauseKind {
    /// The word for it in ids and keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::KernelLock => "kernel-lock",
            Self::Kernel => "kernel",
            Self::Function => "function",
            Self::Device => "device",
            Self::Thread => "thread",
            Self::Scheduler => "scheduler",
            Self::Generator => "generator",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_word_of_its_parts() {
        let key = CauseKey::new(CauseKind::Lock, "take_gil", "libpython3.11.so.1.0");
        assert_eq!(key.to_string(), "lock:take_gil@libpython3.11.so.1.0");
        assert_eq!(CauseKey::new(CauseKind::Thread, "pipe", "").to_string(), "thread:pipe");
    }
}

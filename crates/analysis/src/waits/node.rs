//! What a wait was for, before causes are made of it.

use super::objects::{Objects, before};
use crate::frames::kernel_locks::{Class, Spinning};
use kneepoint_vocab::{TrialRecord, VariantId, WaitKey, WaitReason};

/// What is waited for, within one process or by a name that holds across processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    /// A lock known by its address in one start of one variant.
    Object { variant: VariantId, start: u32, kernel: bool, address: u64 },
    /// A lock with a proven name.
    Named { kernel: bool, name: String },
    /// A kernel lock that was spun for, by the first caller outside lock machinery.
    Spin { sleeps: bool, caller: String },
    /// A user lock whose waiters poll a descriptor, by the first caller outside lock machinery.
    Polled { caller: String },
    /// Anything else, by its reason, and by system call where the reason says nothing.
    Reason { reason: WaitReason, syscall: i32 },
}

impl Node {
    /// What a wait of `trial` was for.
    pub(super) fn of(objects: &Objects, trial: &TrialRecord, key: &WaitKey) -> Self {
        let kernel = key.reason == WaitReason::KernelLock;
        let lock = kernel || matches!(key.reason, WaitReason::UserLock | WaitReason::Condition);
        let begin = || if kernel { key.object } else { objects.begin(trial, key.object) };
        match (&key.object_name, key.object) {
            (Some(name), 0) if lock => Self::Named { kernel, name: name.clone() },
            (Some(name), word) if lock => {
                Self::Named { kernel, name: before(name, word - begin()) }
            }
            (None, word) if lock && word != 0 => Self::Object {
                variant: trial.id.variant.clone(),
                start: trial.id.start,
                kernel,
                address: begin(),
            },
            _ => {
                let syscall = if key.reason == WaitReason::Other { key.syscall } else { 0 };
                Self::Reason { reason: key.reason, syscall }
            }
        }
    }

    /// What a stack on a core spins for.
    pub(super) fn spun(spinning: &Spinning) -> Option<Self> {
        let caller = spinning.names.first()?.clone();
        Some(Self::Spin { sleeps: spinning.class != Class::Spin, caller })
    }
}

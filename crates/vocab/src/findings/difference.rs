//! Stacks of two levels or two variants, laid upon each other.

use crate::fact::StackKind;
use crate::plan::{Level, VariantId};
use crate::units::Seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the time of one operation goes on one side and on another, stack by stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackDifference {
    /// On a core, or at the start of a wait for a lock or a device.
    pub of: StackKind,
    /// What is compared with.
    pub before: Side,
    /// What is compared.
    pub after: Side,
    /// The outermost node, `all`.
    pub root: DifferenceNode,
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The variant.
    pub variant: VariantId,
    /// The level.
    pub level: Level,
}

/// A node of both sides: outermost frame at the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceNode {
    /// Function, or `all`.
    pub name: String,
    /// Whether it is a function of the kernel.
    pub kernel: bool,
    /// Thread-seconds of one operation in it and below, before.
    pub before: Seconds,
    /// The same after.
    pub after: Seconds,
    /// Children, those with most time on both sides together first.
    pub children: Vec<DifferenceNode>,
}

impl DifferenceNode {
    /// The mean of the two sides.
    #[must_use]
    pub fn mean(&self) -> Seconds {
        Seconds(f64::midpoint(self.before.0, self.after.0))
    }

    /// After less before.
    #[must_use]
    pub fn change(&self) -> Seconds {
        self.after - self.before
    }
}

//! Two variants together: what each does alone, what both do, and whether that is more or less.

use super::Estimate;
use crate::plan::VariantId;
use crate::units::{PerSecond, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A 2×2 of variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cross {
    /// What both change: the baseline, or another variant.
    pub base: VariantId,
    /// One variant of it.
    pub one: VariantId,
    /// The other one.
    pub other: VariantId,
    /// The variant with the changes of both.
    pub both: VariantId,
    /// What was measured; absent where one of them was not active, or fewer than two blocks hold
    /// all four.
    pub figures: Option<CrossFigures>,
}

/// The figures of a 2×2, all of the blocks that hold all four of its cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossFigures {
    /// Such blocks.
    pub blocks: u32,
    /// Throughput of the base.
    pub base: Estimate<PerSecond>,
    /// Throughput of the one variant.
    pub one: Estimate<PerSecond>,
    /// Throughput of the other.
    pub other: Estimate<PerSecond>,
    /// Throughput of both together.
    pub both: Estimate<PerSecond>,
    /// The one over the base.
    pub alone: Estimate<Ratio>,
    /// The other over the base.
    pub other_alone: Estimate<Ratio>,
    /// Both over the base.
    pub together: Estimate<Ratio>,
    /// `together` over the product of the two alone: 1 where each does the same with the other as
    /// without.
    pub interaction: Estimate<Ratio>,
    /// What `interaction` says.
    pub verdict: Interaction,
}

/// Whether two variants do together what they do alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interaction {
    /// The interval lies within the smallest effect: their ratios multiply.
    AddUp,
    /// They do more together.
    More,
    /// They do less together.
    Less,
    /// None of these for sure.
    Undecided,
}

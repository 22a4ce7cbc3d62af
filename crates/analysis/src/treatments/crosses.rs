//! What pairs of variants do together, from the blocks that hold all four cells of their 2×2.

use crate::number::tally;
use crate::scaling::curve::{CONFIDENCE, from_interval};
use kneepoint_model::cross::{Block, blocks};
use kneepoint_model::decision::{Decision, plain_effect};
use kneepoint_model::proven::proven;
use kneepoint_stats::interval::mean_interval;
use kneepoint_stats::paired::Pair;
use kneepoint_stats::verdict::Verdict;
use kneepoint_vocab::findings::{Cross, CrossFigures, Interaction};
use kneepoint_vocab::units::{PerSecond, Ratio};
use kneepoint_vocab::{Crossing, Estimate, Plan, Proven, RunRecord, TrialRecord, VariantPlan};

/// Each 2×2 of the plan. `trials` are those that count.
pub(crate) fn crosses(record: &RunRecord, trials: &[&TrialRecord]) -> Vec<Cross> {
    let plan = &record.plan;
    let of = |crossing: &Crossing<'_>| {
        let variants = [crossing.one, crossing.other, crossing.both];
        let is_active = |of: &&VariantPlan| proven(&record.variants, of, trials) != Proven::No;
        let active = variants.iter().all(is_active);
        Cross {
            base: crossing.one.over.clone(),
            one: crossing.one.id.clone(),
            other: crossing.other.id.clone(),
            both: crossing.both.id.clone(),
            figures: active.then(|| figures(plan, &blocks(plan, crossing, trials))).flatten(),
        }
    };
    plan.crossings().iter().map(of).collect()
}

fn figures(plan: &Plan, blocks: &[Block]) -> Option<CrossFigures> {
    let pairs = |contrast: fn(&Block) -> Pair| blocks.iter().map(contrast).collect::<Vec<_>>();
    let ratio = |contrast: fn(&Block) -> Pair| -> Option<Estimate<Ratio>> {
        Some(from_interval(plain_effect(&pairs(contrast))?.ratio(CONFIDENCE)))
    };
    let answer = Decision::of(plan).contrast(&pairs(Block::interaction))?;
    Some(CrossFigures {
        blocks: tally(blocks.len()),
        base: rate(blocks, 0)?,
        one: rate(blocks, 1)?,
        other: rate(blocks, 2)?,
        both: rate(blocks, 3)?,
        alone: ratio(Block::one)?,
        other_alone: ratio(Block::other)?,
        together: ratio(Block::together)?,
        interaction: from_interval(answer.ratio()?),
        verdict: match answer.verdict {
            Verdict::Better => Interaction::More,
            Verdict::Worse => Interaction::Less,
            Verdict::NoEffect => Interaction::AddUp,
            Verdict::Undecided => Interaction::Undecided,
        },
    })
}

/// The geometric mean of a cell.
fn rate(blocks: &[Block], cell: usize) -> Option<Estimate<PerSecond>> {
    let logs: Vec<f64> = blocks.iter().map(|block| block.logs()[cell]).collect();
    let interval = mean_interval(&logs, CONFIDENCE).ok()?;
    Some(from_interval(interval.map(f64::exp)))
}

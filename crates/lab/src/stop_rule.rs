//! When enough is known: the group-sequential rule of the effect blocks.

use anyhow::Result;
use kneepoint_stats::paired::{Pair, PairedEffect, Scope, effect};
use kneepoint_stats::sequential::Spending;
use kneepoint_vocab::{ArmRole, Phase, Plan, TrialRecord};
use std::collections::BTreeMap;

/// Decides after each effect block whether every arm is known well enough.
#[derive(Debug)]
pub(crate) struct StopRule {
    /// Two-sided error of each look, from the least to the most blocks.
    levels: Vec<f64>,
}

impl StopRule {
    /// A rule for looks after each block from the least to the most of the plan.
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let (least, most) = plan.effect_blocks;
        let fractions: Vec<f64> =
            (least..=most).map(|blocks| f64::from(blocks) / f64::from(most)).collect();
        Ok(Self { levels: Spending::default().nominal_levels(&fractions)? })
    }

    /// Whether every arm is decided after `blocks` effect blocks: its interval is as narrow as
    /// the plan's precision, or excludes every small effect at this look's share of the error.
    pub(crate) fn decided(&self, plan: &Plan, trials: &[TrialRecord], blocks: u32) -> bool {
        let (least, _) = plan.effect_blocks;
        let level = blocks.checked_sub(least).and_then(|look| self.levels.get(look as usize));
        let Some(&error) = level else { return false };
        plan.arms.iter().filter(|arm| arm.role != ArmRole::Baseline).all(|arm| {
            effect(&pairs(trials, &arm.id.0, &arm.over.0), Scope::AcrossStarts)
                .is_ok_and(|effect| known(&effect, plan, error))
        })
    }
}

fn known(effect: &PairedEffect, plan: &Plan, error: f64) -> bool {
    let narrow = effect.ratio(0.95);
    let sure = effect.ratio(1.0 - error);
    let small = 1.0 + plan.smallest_effect.0;
    narrow.half_width() <= plan.precision.0 || sure.low > small || sure.high < 1.0 / small
}

/// Throughputs of two arms side by side, one pair a block.
fn pairs(trials: &[TrialRecord], arm: &str, over: &str) -> Vec<Pair> {
    let mut blocks: BTreeMap<(u32, u32), (Option<f64>, Option<f64>)> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.id.phase == Phase::Effects && t.counts()) {
        let pair = blocks.entry((trial.id.start, trial.id.block)).or_default();
        if trial.id.arm.0 == arm {
            pair.0 = Some(trial.throughput().0);
        } else if trial.id.arm.0 == over {
            pair.1 = Some(trial.throughput().0);
        }
    }
    blocks
        .into_iter()
        .filter_map(|((start, block), (treated, base))| {
            let (start, block) = (start as usize, block as usize);
            Some(Pair { start, block, base: base?, treated: treated? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_vocab::{Disposition, Nanos, Pollution, TrialId, Window};

    /// Trials of every arm; `factor` gives an arm's throughput in a block.
    fn trials(plan: &Plan, blocks: u32, factor: impl Fn(&str, u32) -> f64) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for block in 0..blocks {
            for arm in &plan.arms {
                let id = TrialId {
                    phase: Phase::Effects,
                    block,
                    position: 0,
                    attempt: 0,
                    arm: arm.id.clone(),
                    start: block,
                    level: plan.focus,
                };
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "test factors are near 1"
                )]
                let operations = (1e6 * factor(&arm.id.0, block)) as u64;
                trials.push(TrialRecord {
                    id,
                    window: Window { begin: Nanos(0), length: Nanos(1) },
                    operations,
                    counted_over: Nanos::from_millis(1000),
                    per_client: vec![],
                    latency: None,
                    counts: None,
                    stability: None,
                    pollution: Pollution::default(),
                    disposition: Disposition::Kept,
                    facts: vec![],
                });
            }
        }
        trials
    }

    /// Alternates around 1 by `swing`, differently for each arm.
    fn noise(arm: &str, block: u32, swing: f64) -> f64 {
        let odd = (block + u32::try_from(arm.len()).unwrap_or(0)) % 2 == 1;
        if odd { 1.0 + swing } else { 1.0 - swing }
    }

    #[test]
    fn quiet_arms_are_decided_at_the_first_look_and_noisy_ones_not() {
        let plan = small_plan();
        let rule = StopRule::of(&plan).unwrap();
        let (least, _) = plan.effect_blocks;
        let quiet = trials(&plan, least, |arm, block| noise(arm, block, 0.001));
        assert!(rule.decided(&plan, &quiet, least));
        assert!(!rule.decided(&plan, &quiet, least - 1), "no look before the least number");
        let noisy = trials(&plan, least, |arm, block| noise(arm, block, 0.3));
        assert!(!rule.decided(&plan, &noisy, least));
    }

    #[test]
    fn a_large_effect_needs_no_precision() {
        let plan = small_plan();
        let rule = StopRule::of(&plan).unwrap();
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |arm, block| match arm {
            "other" => 4.0 * noise(arm, block, 0.04),
            _ => noise(arm, block, 0.001),
        });
        assert!(rule.decided(&plan, &taken, least));
    }
}

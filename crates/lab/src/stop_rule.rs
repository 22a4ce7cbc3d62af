//! When enough is known: the group-sequential rule of the effect blocks.
//!
//! A treatment that is decided at a look needs no more blocks: the slices left go to those that
//! are not. The baseline and both controls go on until all are decided.

use anyhow::Result;
use kneepoint_stats::interval::mean;
use kneepoint_stats::paired::{Pair, PairedEffect, Scope, effect};
use kneepoint_stats::sequential::Spending;
use kneepoint_vocab::{ArmId, ArmPlan, ArmRole, Phase, Plan, TrialRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Decides after each effect block whether every arm is known well enough.
#[derive(Debug)]
pub(crate) struct StopRule {
    /// Two-sided error of each look, from the least to the most blocks.
    levels: Vec<f64>,
    /// Treatments that a look has found known well enough.
    decided: BTreeSet<ArmId>,
}

impl StopRule {
    /// A rule for looks after each block from the least to the most of the plan.
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let (least, most) = plan.effect_blocks;
        let fractions: Vec<f64> =
            (least..=most).map(|blocks| f64::from(blocks) / f64::from(most)).collect();
        let without_effects = most == 0;
        let levels = if without_effects {
            Vec::new()
        } else {
            Spending::default().nominal_levels(&fractions)?
        };
        Ok(Self { levels, decided: BTreeSet::new() })
    }

    /// Looks after `blocks` effect blocks; whether every arm is decided. An arm is where its
    /// interval is as narrow as the plan's precision, or excludes every small effect at this
    /// look's share of the error. A treatment stays decided.
    pub(crate) fn look(&mut self, plan: &Plan, trials: &[TrialRecord], blocks: u32) -> bool {
        let (least, _) = plan.effect_blocks;
        let level = blocks.checked_sub(least).and_then(|look| self.levels.get(look as usize));
        let Some(&error) = level else { return false };
        let mut all = true;
        for arm in plan.arms.iter().filter(|arm| arm.role != ArmRole::Baseline) {
            if self.decided.contains(&arm.id) {
                continue;
            }
            let decided = effect(&pairs(trials, &arm.id, &plan.bases(arm)), Scope::AcrossStarts)
                .is_ok_and(|effect| known(&effect, plan, error));
            all &= decided;
            if decided && arm.role == ArmRole::Treatment {
                self.decided.insert(arm.id.clone());
            }
        }
        all
    }

    /// Arms that later effect blocks do without: decided treatments that no undecided one adds
    /// to.
    pub(crate) fn left_out(&self, plan: &Plan) -> BTreeSet<ArmId> {
        let is_base = |id: &ArmId| {
            let over_it = |arm: &&ArmPlan| arm.over == *id && arm.id != *id;
            plan.arms.iter().filter(over_it).any(|arm| !self.decided.contains(&arm.id))
        };
        self.decided.iter().filter(|id| !is_base(id)).cloned().collect()
    }
}

fn known(effect: &PairedEffect, plan: &Plan, error: f64) -> bool {
    let narrow = effect.ratio(0.95);
    let sure = effect.ratio(1.0 - error);
    let small = 1.0 + plan.smallest_effect.0;
    narrow.half_width() <= plan.precision.0 || sure.low > small || sure.high < 1.0 / small
}

/// An arm and its bases side by side, one pair a block; several bases count with their geometric
/// mean.
fn pairs(trials: &[TrialRecord], arm: &ArmId, bases: &[&ArmId]) -> Vec<Pair> {
    let mut blocks: BTreeMap<(u32, u32), (Option<f64>, Vec<f64>)> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.id.phase == Phase::Effects && t.counts()) {
        let (treated, base) = blocks.entry((trial.id.start, trial.id.block)).or_default();
        if &trial.id.arm == arm {
            *treated = Some(trial.throughput().0);
        } else if bases.contains(&&trial.id.arm) {
            base.push(trial.throughput().0.ln());
        }
    }
    blocks
        .into_iter()
        .filter(|(_, (_, base))| !base.is_empty())
        .filter_map(|((start, block), (treated, base))| {
            let (start, block) = (start as usize, block as usize);
            Some(Pair { start, block, base: mean(&base).exp(), treated: treated? })
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
        let mut rule = StopRule::of(&plan).unwrap();
        let (least, _) = plan.effect_blocks;
        let quiet = trials(&plan, least, |arm, block| noise(arm, block, 0.001));
        assert!(!rule.look(&plan, &quiet, least - 1), "no look before the least number");
        assert!(rule.left_out(&plan).is_empty());
        let noisy = trials(&plan, least, |arm, block| noise(arm, block, 0.3));
        assert!(!rule.look(&plan, &noisy, least));
        assert!(rule.left_out(&plan).is_empty());
        assert!(rule.look(&plan, &quiet, least));
    }

    #[test]
    fn a_large_effect_needs_no_precision() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan).unwrap();
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |arm, block| match arm {
            "other" => 4.0 * noise(arm, block, 0.04),
            _ => noise(arm, block, 0.001),
        });
        assert!(rule.look(&plan, &taken, least));
    }

    #[test]
    fn a_decided_treatment_is_left_out_unless_an_undecided_one_adds_to_it() {
        let mut plan = small_plan();
        let added = |id: &str, over: &str| ArmPlan {
            id: ArmId::new(id),
            role: ArmRole::Treatment,
            label: id.to_owned(),
            over: ArmId::new(over),
            changes: Vec::new(),
        };
        plan.arms.extend([added("added", "other"), added("apart", ArmId::BASELINE)]);
        let (least, most) = plan.effect_blocks;
        let mut rule = StopRule::of(&plan).unwrap();
        let wild = |arm: &str, block| noise(arm, block, if arm == "added" { 0.3 } else { 0.001 });
        assert!(!rule.look(&plan, &trials(&plan, least, wild), least));
        let out = |rule: &StopRule| {
            rule.left_out(&plan).iter().map(|arm| arm.0.clone()).collect::<Vec<_>>()
        };
        // The controls are decided too, but go on.
        assert_eq!(out(&rule), ["apart"]);
        let quiet = |arm: &str, block| noise(arm, block, 0.001);
        assert!(rule.look(&plan, &trials(&plan, most, quiet), most));
        assert_eq!(out(&rule), ["added", "apart", "other"]);
    }

    #[test]
    fn noise_that_comes_later_does_not_bring_a_decided_treatment_back() {
        let plan = small_plan();
        let (least, most) = plan.effect_blocks;
        let mut rule = StopRule::of(&plan).unwrap();
        let unsure =
            |arm: &str, block| noise(arm, block, if arm == ArmId::UNPROBED { 0.3 } else { 0.001 });
        assert!(!rule.look(&plan, &trials(&plan, least, unsure), least));
        let noisy = trials(&plan, most, |arm, block| noise(arm, block, 0.3));
        assert!(!rule.look(&plan, &noisy, most));
        assert!(rule.left_out(&plan).contains(&ArmId::new("other")));
    }
}

//! When enough is known: looks after the effect blocks.
//!
//! The verdicts are those of [`kneepoint_model::decision`], the same that the report will print. A
//! treatment whose verdict is final needs no more blocks: the slices left go to those that are not
//! decided. The baseline and both controls go on until all are, and the controls well known.

use kneepoint_model::decision::{Decision, Known, pairs, plain_effect};
use kneepoint_stats::verdict::{ERROR, Moment};
use kneepoint_vocab::{ArmId, ArmPlan, ArmRole, ArmStart, Plan, TrialRecord};
use std::collections::BTreeSet;

/// Decides after each effect block whether every arm is known well enough.
#[derive(Debug)]
pub(crate) struct StopRule {
    decision: Decision,
    /// Treatments whose verdict is final.
    decided: BTreeSet<ArmId>,
}

impl StopRule {
    /// The rule of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { decision: Decision::of(plan), decided: BTreeSet::new() }
    }

    /// Looks after `blocks` effect blocks; whether every arm is known well enough.
    pub(crate) fn look(
        &mut self,
        plan: &Plan,
        starts: &[ArmStart],
        trials: &[TrialRecord],
        blocks: u32,
    ) -> bool {
        let trials: Vec<&TrialRecord> = trials.iter().collect();
        let known = self.decision.known(plan, starts, &trials, Moment::Look(blocks as usize));
        let is_final = |(arm, known): &(&ArmId, Known)| known.is_final().then(|| (*arm).clone());
        self.decided = known.iter().filter_map(is_final).collect();
        let mut controls = plan.arms.iter().filter_map(|arm| Some((arm, wanted(plan, arm)?)));
        blocks >= plan.effect_blocks.0
            && self.decided.len() == known.len()
            && controls.all(|(arm, half_width)| {
                let effect = plain_effect(&pairs(plan, arm, &trials));
                effect.is_some_and(|effect| effect.ratio(1.0 - ERROR).half_width() <= half_width)
            })
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

/// Half-width at which a control is known well enough: the A/A interval may be no wider than the
/// smallest effect, or no verdict is to be trusted; the collector's price is wanted to the
/// precision of the plan.
fn wanted(plan: &Plan, arm: &ArmPlan) -> Option<f64> {
    match arm.role {
        ArmRole::Control => Some(plan.smallest_effect.0),
        ArmRole::Unprobed => Some(plan.precision.0),
        ArmRole::Baseline | ArmRole::Treatment => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_stats::verdict::Verdict;
    use kneepoint_vocab::{
        Disposition, Nanos, Phase, Pollution, Proof, Ratio, Seconds, TrialId, Window,
    };
    use proptest::prelude::*;

    fn proven(plan: &Plan, blocks: u32) -> Vec<ArmStart> {
        let proof = Proof {
            what: "setting".into(),
            expected: "on".into(),
            found: "on".into(),
            active: true,
        };
        let start = |arm: &ArmPlan, start| ArmStart {
            arm: arm.id.clone(),
            start,
            proofs: vec![proof.clone()],
            ready_after: Seconds(0.1),
            settings: Vec::new(),
            environment: Vec::new(),
        };
        (0..blocks)
            .flat_map(|block| plan.arms.iter().map(move |arm| (arm, block)))
            .map(|(arm, block)| start(arm, block))
            .collect()
    }

    /// Trials of every arm, a start a block; `factor` gives an arm's throughput in a block.
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
                    machine: kneepoint_vocab::MachineName::default(),
                    id,
                    window: Window { begin: Nanos(0), length: Nanos(1) },
                    operations,
                    counted_over: Nanos::from_millis(1000),
                    per_client: vec![],
                    latency: None,
                    counts: None,
                    stability: None,
                    settling: None,
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

    fn look(rule: &mut StopRule, plan: &Plan, trials: &[TrialRecord], blocks: u32) -> bool {
        rule.look(plan, &proven(plan, plan.effect_blocks.1), trials, blocks)
    }

    #[test]
    fn quiet_arms_are_decided_at_the_first_look_and_noisy_ones_not() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let quiet = trials(&plan, least, |arm, block| noise(arm, block, 0.001));
        assert!(!look(&mut rule, &plan, &quiet, least - 1), "no look before the least number");
        assert!(rule.left_out(&plan).is_empty());
        let noisy = trials(&plan, least, |arm, block| noise(arm, block, 0.3));
        assert!(!look(&mut rule, &plan, &noisy, least));
        assert!(rule.left_out(&plan).is_empty());
        assert!(look(&mut rule, &plan, &quiet, least));
    }

    #[test]
    fn a_large_effect_needs_no_precision() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |arm, block| match arm {
            "other" => 4.0 * noise(arm, block, 0.04),
            _ => noise(arm, block, 0.001),
        });
        assert!(look(&mut rule, &plan, &taken, least));
    }

    #[test]
    fn a_wide_control_keeps_the_run_going_and_no_treatment() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |arm, block| match arm {
            "control" => noise(arm, block, 0.2),
            "other" => 9.0 * noise("control", block, 0.2).sqrt(),
            _ => 1.0,
        });
        assert!(!look(&mut rule, &plan, &taken, least));
        assert_eq!(rule.left_out(&plan), BTreeSet::from([ArmId::new("other")]));
    }

    #[test]
    fn what_is_not_active_gets_no_further_block() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let wild = trials(&plan, least, |arm, block| noise(arm, block, 0.3));
        let mut starts = proven(&plan, least);
        starts.iter_mut().for_each(|start| start.proofs[0].active = false);
        assert!(!rule.look(&plan, &starts, &wild, least));
        assert_eq!(rule.left_out(&plan), BTreeSet::from([ArmId::new("other")]));
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
        let mut rule = StopRule::of(&plan);
        let wild = |arm: &str, block| noise(arm, block, if arm == "added" { 0.3 } else { 0.001 });
        assert!(!look(&mut rule, &plan, &trials(&plan, least, wild), least));
        let out = |rule: &StopRule| {
            rule.left_out(&plan).iter().map(|arm| arm.0.clone()).collect::<Vec<_>>()
        };
        // The controls are known too, but go on.
        assert_eq!(out(&rule), ["apart"]);
        let quiet = |arm: &str, block| noise(arm, block, 0.001);
        let mut rule = StopRule::of(&plan);
        assert!(look(&mut rule, &plan, &trials(&plan, most, quiet), most));
        assert_eq!(out(&rule), ["added", "apart", "other"]);
    }

    /// Throughputs of one block: near 1 for the baseline and the controls, near its effect for each
    /// treatment.
    fn blocks() -> impl Strategy<Value = (Vec<f64>, Vec<Vec<f64>>)> {
        let effects = prop::collection::vec(0.8..1.3_f64, 3);
        let scatter = prop::collection::vec(prop::collection::vec(-1.0..1.0_f64, 6), 14);
        (effects, scatter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// A run as the lab does it: what a look decides gets no further slice. What the last
        /// look of all says is what the looks said.
        #[test]
        fn what_a_look_drops_is_reported_as_it_was(
            (effects, scatter) in blocks(), swing in 0.005..0.08_f64, per in 1_u32..4,
        ) {
            let mut plan = small_plan();
            plan.effect_blocks = (4, 14);
            plan.smallest_effect = Ratio(0.1);
            let other = plan.arms[3].clone();
            plan.arms.extend(["b", "c"].map(|id| ArmPlan { id: ArmId::new(id), ..other.clone() }));
            let decision = Decision::of(&plan);
            let mut rule = StopRule::of(&plan);
            let starts = proven(&plan, 14);
            let factor = |arm: &str, block: u32| {
                let at = plan.arms.iter().position(|one| one.id.0 == arm).unwrap();
                let effect = if at < 3 { 1.0 } else { effects[at - 3] };
                effect * (1.0 + swing * scatter[block as usize][at])
            };
            let all = trials(&plan, 14, factor);
            let mut taken: Vec<TrialRecord> = Vec::new();
            let mut said: Vec<(ArmId, Verdict)> = Vec::new();
            let verdicts = |taken: &[TrialRecord], moment| {
                let taken: Vec<&TrialRecord> = taken.iter().collect();
                decision.known(&plan, &starts, &taken, moment)
                    .into_iter()
                    .filter_map(|(arm, known)| match known {
                        Known::Says(answer) => Some((arm.clone(), answer.verdict)),
                        Known::NotActive => None,
                    })
                    .collect::<Vec<_>>()
            };
            let mut done = 0;
            for block in 0..14 {
                let out = rule.left_out(&plan);
                let of_block = all.iter().filter(|one| one.id.block == block);
                let wanted = of_block.filter(|one| !out.contains(&one.id.arm));
                taken.extend(wanted.cloned().map(|mut one| {
                    one.id.start = block / per;
                    one
                }));
                done = block + 1;
                let enough = rule.look(&plan, &starts, &taken, done);
                for (arm, verdict) in verdicts(&taken, Moment::Look(done as usize)) {
                    if rule.decided.contains(&arm) && !said.iter().any(|(one, _)| *one == arm) {
                        said.push((arm, verdict));
                    }
                }
                if enough {
                    break;
                }
            }
            let reported = verdicts(&taken, Moment::End(done as usize));
            for one in &said {
                prop_assert!(reported.contains(one), "{said:?} {reported:?}");
            }
        }
    }
}

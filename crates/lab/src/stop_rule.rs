//! When enough is known: looks after the effect blocks.
//!
//! The verdicts are those of [`kneepoint_model::decision`], the same that the report will print. A
//! treatment whose verdict is final needs no more blocks: the slices left go to those that are not
//! decided. The baseline and both controls go on until all are, and the controls well known.

use kneepoint_model::decision::{Decision, Known, pairs, plain_effect};
use kneepoint_stats::verdict::{ERROR, Moment};
use kneepoint_vocab::{
    Crossing, Plan, TrialRecord, VariantId, VariantPlan, VariantRole, VariantStart,
};
use std::collections::BTreeSet;

/// Decides after each effect block whether every variant is known well enough.
#[derive(Debug)]
pub(crate) struct StopRule {
    decision: Decision,
    /// Treatments whose verdict is final.
    decided: BTreeSet<VariantId>,
}

impl StopRule {
    /// The rule of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { decision: Decision::of(plan), decided: BTreeSet::new() }
    }

    /// Looks after `blocks` effect blocks; whether every variant is known well enough.
    pub(crate) fn look(
        &mut self,
        plan: &Plan,
        starts: &[VariantStart],
        trials: &[TrialRecord],
        blocks: u32,
    ) -> bool {
        let trials: Vec<&TrialRecord> = trials.iter().collect();
        let known = self.decision.known(plan, starts, &trials, Moment::Look(blocks as usize));
        let is_final =
            |(variant, known): &(&VariantId, Known)| known.is_final().then(|| (*variant).clone());
        self.decided = known.iter().filter_map(is_final).collect();
        let mut controls =
            plan.variants.iter().filter_map(|variant| Some((variant, wanted(plan, variant)?)));
        blocks >= plan.effect_blocks.0
            && self.decided.len() == known.len()
            && controls.all(|(variant, half_width)| {
                let effect = plain_effect(&pairs(plan, variant, &trials));
                effect.is_some_and(|effect| effect.ratio(1.0 - ERROR).half_width() <= half_width)
            })
    }

    /// Variants that later effect blocks do without: decided treatments that no undecided one adds
    /// to. Those of a 2×2 go together, since only a block of all four says what they do together.
    pub(crate) fn left_out(&self, plan: &Plan) -> BTreeSet<VariantId> {
        let is_base = |id: &VariantId| {
            let over_it = |variant: &&VariantPlan| variant.over == *id && variant.id != *id;
            plan.variants.iter().filter(over_it).any(|variant| !self.decided.contains(&variant.id))
        };
        let crossings = plan.crossings();
        let is_crossed = |id: &VariantId| {
            let cells = crossings.iter().map(Crossing::cells).filter(|cells| cells.contains(&id));
            cells.flatten().any(|cell| !self.decided.contains(cell))
        };
        let out = self.decided.iter().filter(|id| !is_base(id) && !is_crossed(id));
        out.cloned().collect()
    }
}

/// Half-width at which a control is known well enough: the A/A interval may be no wider than the
/// smallest effect, or no verdict is to be trusted; the collector's price is wanted to the
/// precision of the plan.
fn wanted(plan: &Plan, variant: &VariantPlan) -> Option<f64> {
    match variant.role {
        VariantRole::Control => Some(plan.smallest_effect.0),
        VariantRole::Unprobed => Some(plan.precision.0),
        VariantRole::Baseline | VariantRole::Treatment => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_stats::verdict::Verdict;
    use kneepoint_vocab::{
        Disposition, Interference, Nanos, Phase, Proof, Ratio, Seconds, TrialId, Window,
    };
    use proptest::prelude::*;

    fn proven(plan: &Plan, blocks: u32) -> Vec<VariantStart> {
        let proof = Proof {
            what: "setting".into(),
            expected: "on".into(),
            found: "on".into(),
            active: true,
        };
        let start = |variant: &VariantPlan, start| VariantStart {
            variant: variant.id.clone(),
            start,
            proofs: vec![proof.clone()],
            ready_after: Seconds(0.1),
            settings: Vec::new(),
            environment: Vec::new(),
        };
        (0..blocks)
            .flat_map(|block| plan.variants.iter().map(move |variant| (variant, block)))
            .map(|(variant, block)| start(variant, block))
            .collect()
    }

    /// Trials of every variant, a start a block; `factor` gives a variant's throughput in a block.
    fn trials(plan: &Plan, blocks: u32, factor: impl Fn(&str, u32) -> f64) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for block in 0..blocks {
            for variant in &plan.variants {
                let id = TrialId {
                    phase: Phase::Effects,
                    block,
                    position: 0,
                    attempt: 0,
                    variant: variant.id.clone(),
                    start: block,
                    level: plan.focus,
                };
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "test factors are near 1"
                )]
                let operations = (1e6 * factor(&variant.id.0, block)) as u64;
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
                    interference: Interference::default(),
                    disposition: Disposition::Kept,
                    facts: vec![],
                });
            }
        }
        trials
    }

    /// Alternates around 1 by `swing`, differently for each variant.
    fn noise(variant: &str, block: u32, swing: f64) -> f64 {
        let odd = (block + u32::try_from(variant.len()).unwrap_or(0)) % 2 == 1;
        if odd { 1.0 + swing } else { 1.0 - swing }
    }

    fn look(rule: &mut StopRule, plan: &Plan, trials: &[TrialRecord], blocks: u32) -> bool {
        rule.look(plan, &proven(plan, plan.effect_blocks.1), trials, blocks)
    }

    #[test]
    fn quiet_variants_are_decided_at_the_first_look_and_noisy_ones_not() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let quiet = trials(&plan, least, |variant, block| noise(variant, block, 0.001));
        assert!(!look(&mut rule, &plan, &quiet, least - 1), "no look before the least number");
        assert!(rule.left_out(&plan).is_empty());
        let noisy = trials(&plan, least, |variant, block| noise(variant, block, 0.3));
        assert!(!look(&mut rule, &plan, &noisy, least));
        assert!(rule.left_out(&plan).is_empty());
        assert!(look(&mut rule, &plan, &quiet, least));
    }

    #[test]
    fn a_large_effect_needs_no_precision() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |variant, block| match variant {
            "other" => 4.0 * noise(variant, block, 0.04),
            _ => noise(variant, block, 0.001),
        });
        assert!(look(&mut rule, &plan, &taken, least));
    }

    #[test]
    fn a_wide_control_keeps_the_run_going_and_no_treatment() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let taken = trials(&plan, least, |variant, block| match variant {
            "control" => noise(variant, block, 0.2),
            "other" => 9.0 * noise("control", block, 0.2).sqrt(),
            _ => 1.0,
        });
        assert!(!look(&mut rule, &plan, &taken, least));
        assert_eq!(rule.left_out(&plan), BTreeSet::from([VariantId::new("other")]));
    }

    #[test]
    fn what_is_not_active_gets_no_further_block() {
        let plan = small_plan();
        let mut rule = StopRule::of(&plan);
        let (least, _) = plan.effect_blocks;
        let wild = trials(&plan, least, |variant, block| noise(variant, block, 0.3));
        let mut starts = proven(&plan, least);
        starts.iter_mut().for_each(|start| start.proofs[0].active = false);
        assert!(!rule.look(&plan, &starts, &wild, least));
        assert_eq!(rule.left_out(&plan), BTreeSet::from([VariantId::new("other")]));
    }

    #[test]
    fn a_decided_treatment_is_left_out_unless_an_undecided_one_adds_to_it() {
        let mut plan = small_plan();
        let added = |id: &str, over: &str| VariantPlan {
            id: VariantId::new(id),
            role: VariantRole::Treatment,
            label: id.to_owned(),
            over: VariantId::new(over),
            changes: Vec::new(),
        };
        plan.variants.extend([added("added", "other"), added("apart", VariantId::BASELINE)]);
        let (least, most) = plan.effect_blocks;
        let mut rule = StopRule::of(&plan);
        let wild = |variant: &str, block| {
            noise(variant, block, if variant == "added" { 0.3 } else { 0.001 })
        };
        assert!(!look(&mut rule, &plan, &trials(&plan, least, wild), least));
        let out = |rule: &StopRule| {
            rule.left_out(&plan).iter().map(|variant| variant.0.clone()).collect::<Vec<_>>()
        };
        // The controls are known too, but go on.
        assert_eq!(out(&rule), ["apart"]);
        let quiet = |variant: &str, block| noise(variant, block, 0.001);
        let mut rule = StopRule::of(&plan);
        assert!(look(&mut rule, &plan, &trials(&plan, most, quiet), most));
        assert_eq!(out(&rule), ["added", "apart", "other"]);
    }

    #[test]
    fn the_cells_of_a_cross_leave_together() {
        let mut plan = small_plan();
        let of = |id: &str, over: &str, change: &str| VariantPlan {
            id: VariantId::new(id),
            role: VariantRole::Treatment,
            label: id.to_owned(),
            over: VariantId::new(over),
            changes: vec![change.to_owned()],
        };
        let base = VariantId::BASELINE;
        plan.variants.extend([of("a", base, "x"), of("b", base, "y"), of("ab", "a", "y")]);
        let (least, _) = plan.effect_blocks;
        let wild =
            |variant: &str, block| noise(variant, block, if variant == "ab" { 0.3 } else { 0.001 });
        let mut rule = StopRule::of(&plan);
        assert!(!look(&mut rule, &plan, &trials(&plan, least, wild), least));
        assert_eq!(rule.left_out(&plan), BTreeSet::from([VariantId::new("other")]));
        let quiet = trials(&plan, least, |variant, block| noise(variant, block, 0.001));
        let mut rule = StopRule::of(&plan);
        assert!(look(&mut rule, &plan, &quiet, least));
        assert_eq!(rule.left_out(&plan).len(), 4);
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
            let other = plan.variants[3].clone();
            let named = |id| VariantPlan { id: VariantId::new(id), ..other.clone() };
            plan.variants.extend(["b", "c"].map(named));
            let decision = Decision::of(&plan);
            let mut rule = StopRule::of(&plan);
            let starts = proven(&plan, 14);
            let factor = |variant: &str, block: u32| {
                let at = plan.variants.iter().position(|one| one.id.0 == variant).unwrap();
                let effect = if at < 3 { 1.0 } else { effects[at - 3] };
                effect * (1.0 + swing * scatter[block as usize][at])
            };
            let all = trials(&plan, 14, factor);
            let mut taken: Vec<TrialRecord> = Vec::new();
            let mut said: Vec<(VariantId, Verdict)> = Vec::new();
            let verdicts = |taken: &[TrialRecord], moment| {
                let taken: Vec<&TrialRecord> = taken.iter().collect();
                decision.known(&plan, &starts, &taken, moment)
                    .into_iter()
                    .filter_map(|(variant, known)| match known {
                        Known::Says(answer) => Some((variant.clone(), answer.verdict)),
                        Known::NotActive => None,
                    })
                    .collect::<Vec<_>>()
            };
            let mut done = 0;
            for block in 0..14 {
                let out = rule.left_out(&plan);
                let of_block = all.iter().filter(|one| one.id.block == block);
                let wanted = of_block.filter(|one| !out.contains(&one.id.variant));
                taken.extend(wanted.cloned().map(|mut one| {
                    one.id.start = block / per;
                    one
                }));
                done = block + 1;
                let enough = rule.look(&plan, &starts, &taken, done);
                for (variant, verdict) in verdicts(&taken, Moment::Look(done as usize)) {
                    let new = !said.iter().any(|(one, _)| *one == variant);
                    if rule.decided.contains(&variant) && new {
                        said.push((variant, verdict));
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

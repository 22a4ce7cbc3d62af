//! Which treatments of a run are decided: the rule of [`kneepoint_stats::verdict`] on its trials.
//!
//! The lab asks after each block, the analysis at the end; both get here with the plan, the starts
//! and the trials, so that a treatment which the lab leaves out of later blocks is reported as what
//! it was then.

use crate::proven::proven;
use kneepoint_stats::paired::{Pair, PairedEffect, Scope, effect};
use kneepoint_stats::verdict::{Answer, LAUNCHES, Moment, Rule};
use kneepoint_vocab::{
    Level, Phase, Plan, Proven, TrialRecord, VariantId, VariantPlan, VariantRole, VariantStart,
};
use std::collections::{BTreeMap, BTreeSet};

/// The rule of one plan.
#[derive(Debug)]
pub struct Decision {
    rule: Rule,
}

/// What is known of one treatment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// Something shows that it is not what it claims to be, so its pairs say nothing.
    NotActive,
    /// What the rule says.
    Says(Answer),
}

impl Known {
    /// Whether no later block can change it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotActive => true,
            Self::Says(answer) => answer.is_final(),
        }
    }
}

impl Decision {
    /// Of this plan's treatments, looks, smallest effect and precision.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (least, most) = plan.effect_blocks;
        let looks = (least as usize, most as usize);
        let treated = treatments(plan).count();
        Self { rule: Rule::new(looks, plan.smallest_effect.0, plan.precision.0, treated) }
    }

    /// What is known of each treatment of the plan, in its order.
    #[must_use]
    pub fn known<'a>(
        &self,
        plan: &'a Plan,
        starts: &[VariantStart],
        trials: &[&TrialRecord],
        moment: Moment,
    ) -> Vec<(&'a VariantId, Known)> {
        let variants: Vec<&VariantPlan> = treatments(plan).collect();
        let treated: Vec<Vec<Pair>> =
            variants.iter().map(|variant| pairs(plan, variant, trials)).collect();
        let answers = self.rule.answers(&treated, moment);
        variants
            .iter()
            .zip(answers)
            .map(|(variant, answer)| {
                let active = proven(starts, variant, trials) != Proven::No;
                (&variant.id, if active { Known::Says(answer) } else { Known::NotActive })
            })
            .collect()
    }
}

impl Decision {
    /// Further effect blocks after which an undecided treatment would be decided, estimated.
    #[must_use]
    pub fn further(&self, answer: &Answer) -> f64 {
        self.rule.further(answer)
    }

    /// What to say of pairs that compare two ratios, one over the other.
    #[must_use]
    pub fn contrast(&self, pairs: &[Pair]) -> Option<Answer> {
        self.rule.contrast(pairs)
    }

    /// What to say of a variant that no verdict is asked of: the A/A control, the baseline without
    /// the collector.
    #[must_use]
    pub fn of_control(&self, effect: PairedEffect) -> Answer {
        self.rule.alone(effect)
    }
}

fn treatments(plan: &Plan) -> impl Iterator<Item = &VariantPlan> {
    plan.variants.iter().filter(|variant| variant.role == VariantRole::Treatment)
}

/// The pairs of a variant: its slices and those of what it is compared with, of one start and block
/// at one level. Where there are several, their geometric mean counts: the log ratio is a contrast
/// of mean logs. A disturbed slice weighs less.
#[must_use]
pub fn pairs(plan: &Plan, variant: &VariantPlan, trials: &[&TrialRecord]) -> Vec<Pair> {
    let bases = plan.bases(variant);
    let mut cells: BTreeMap<(u32, u32, Level), (Side, Side)> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.id.phase == Phase::Effects && t.counts()) {
        let (log, weight) = (trial.throughput().0.ln(), trial.weight());
        let cell = cells.entry((trial.id.start, trial.id.block, trial.id.level)).or_default();
        if trial.id.variant == variant.id {
            cell.0.add(log, weight);
        } else if bases.contains(&&trial.id.variant) {
            cell.1.add(log, weight);
        }
    }
    let pair = |((start, block, _), (treated, base)): ((u32, u32, Level), (Side, Side))| {
        let (treated, base) = (treated.mean()?, base.mean()?);
        // Variances add up; two slices of weight 1 make a pair of weight 1.
        let weight = 2.0 / (1.0 / treated.1 + 1.0 / base.1);
        let (start, block) = (start as usize, block as usize);
        Some(Pair { start, block, base: base.0.exp(), treated: treated.0.exp(), weight })
    };
    cells.into_iter().filter_map(pair).collect()
}

/// Slices of one side of a pair.
#[derive(Default)]
pub(crate) struct Side {
    slices: f64,
    weight: f64,
    log: f64,
}

impl Side {
    pub(crate) fn add(&mut self, log: f64, weight: f64) {
        if log.is_finite() {
            self.slices += 1.0;
            self.weight += weight;
            self.log += weight * log;
        }
    }

    /// Mean log and mean weight.
    pub(crate) fn mean(&self) -> Option<(f64, f64)> {
        (self.weight > 0.0).then(|| (self.log / self.weight, self.weight / self.slices))
    }
}

/// The paired effect of a variant that no verdict is asked of: the A/A control, the baseline
/// without the collector. It speaks of any start where there are enough of them.
#[must_use]
pub fn plain_effect(pairs: &[Pair]) -> Option<PairedEffect> {
    let starts: BTreeSet<usize> = pairs.iter().map(|pair| pair.start).collect();
    let scope = if starts.len() >= LAUNCHES { Scope::AcrossStarts } else { Scope::TheseStarts };
    effect(pairs, scope).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{
        Clients, Disposition, Interference, LevelOrder, Nanos, ProtocolName, Ratio, TrialId, Window,
    };

    const LEVEL: Level = Level { clients: 2, cores: 2 };

    fn variant(id: &str, role: VariantRole) -> VariantPlan {
        VariantPlan {
            id: VariantId::new(id),
            role,
            label: String::new(),
            over: VariantId::new(VariantId::BASELINE),
            changes: Vec::new(),
        }
    }

    fn plan() -> Plan {
        Plan {
            clients: Clients::Inside,
            generator_cores: 0,
            sweep_variants: Vec::new(),
            protocol: ProtocolName::Default,
            level_order: LevelOrder::Random,
            warm_up: None,
            census: false,
            recipe: String::new(),
            summary: String::new(),
            operation: String::new(),
            seed: 1,
            levels: vec![LEVEL],
            focus: LEVEL,
            variants: vec![
                variant(VariantId::BASELINE, VariantRole::Baseline),
                variant(VariantId::CONTROL, VariantRole::Control),
                variant("treated", VariantRole::Treatment),
            ],
            slice: Nanos(1_000_000_000),
            ramp: Nanos(0),
            settle: Nanos(0),
            sweep_blocks: 3,
            effect_blocks: (3, 30),
            blocks_per_start: 3,
            precision: Ratio(0.05),
            smallest_effect: Ratio(0.05),
            allowed_overhead: None,
            sweep_precision: None,
            budget: Nanos(0),
            others_limit: Ratio(0.03),
            steal_limit: Ratio(0.01),
            names: kneepoint_vocab::Names::default(),
        }
    }

    fn slice(variant: &str, block: u32, operations: u64) -> TrialRecord {
        TrialRecord {
            machine: kneepoint_vocab::MachineName::default(),
            id: TrialId {
                phase: Phase::Effects,
                block,
                position: 0,
                attempt: 0,
                variant: VariantId::new(variant),
                start: block,
                level: LEVEL,
            },
            window: Window { begin: Nanos(0), length: Nanos(1_000_000_000) },
            operations,
            counted_over: Nanos(1_000_000_000),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            settling: None,
            interference: Interference::default(),
            disposition: Disposition::Kept,
            facts: Vec::new(),
        }
    }

    #[test]
    fn a_stalled_baseline_weighs_half() {
        let slices = [
            slice("baseline", 0, 100),
            slice("control", 0, 100),
            slice("treated", 0, 120),
            slice("baseline", 1, 25),
            slice("control", 1, 100),
            slice("treated", 1, 120),
            slice("baseline", 2, 100),
            slice("treated", 2, 120),
            slice("treated", 3, 120),
        ];
        let slices: Vec<&TrialRecord> = slices.iter().collect();
        let plan = plan();
        let found = pairs(&plan, &plan.variants[2], &slices);
        assert_eq!(found.len(), 3);
        for (pair, expected) in found.iter().zip([100.0, 50.0, 100.0]) {
            assert!((pair.base - expected).abs() < 1e-9 && (pair.weight - 1.0).abs() < 1e-9);
        }
        assert_eq!(pairs(&plan, &plan.variants[1], &slices).len(), 2);
    }

    #[test]
    fn a_disturbed_slice_weighs_what_it_is_worth_and_a_spoiled_one_nothing() {
        let plan = plan();
        let mut slices =
            vec![slice("baseline", 0, 100), slice("control", 0, 100), slice("treated", 0, 120)];
        slices[2].disposition = Disposition::KeptDisturbed;
        slices[2].interference.others = Ratio(0.1);
        let of = |slices: &[TrialRecord]| {
            pairs(&plan, &plan.variants[2], &slices.iter().collect::<Vec<_>>())
        };
        // A slice of weight 1/5 and one of 1: variances add up.
        assert!((of(&slices)[0].weight - 2.0 / (5.0 + 1.0)).abs() < 1e-9);
        slices[2].disposition = Disposition::Spoiled { reason: String::new() };
        slices[2].interference = Interference::default();
        assert!(of(&slices).is_empty());
    }
}

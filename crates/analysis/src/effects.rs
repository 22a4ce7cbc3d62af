//! What each arm does against the arm it adds to: paired ratios, the A/A control's noise floor,
//! and verdicts.
//!
//! A pair is the slices of one block: the arm's, and those of what it is compared with, which is
//! the arm that it adds to and, where that is the baseline, the A/A control too. A verdict *better*
//! or *worse* needs three things: the interval excludes 1, the estimate lies beyond the noise
//! floor, and the p-value holds after Holm's correction. A run that stopped because a look found
//! enough is judged at that look's nominal level, so that looking often does not find more than 5 %
//! in all. *No effect* needs the whole interval within the greater of the plan's smallest effect
//! and the noise floor (but no more than twice the smallest effect);
//! it names the greatest deviation that the interval still allows. Everything else is undecided.

use crate::curve::{CONFIDENCE, STARTS_TO_RESAMPLE, from_interval};
use crate::number::{estimate, finite, mean, seconds, size, tally};
use crate::slices::Block;
use kneepoint_stats::holm;
use kneepoint_stats::interval::mean_interval;
use kneepoint_stats::paired::{Pair, PairedEffect, Scope, effect};
use kneepoint_stats::sequential::Spending;
use kneepoint_vocab::findings::{Effect, Noise, Verdict};
use kneepoint_vocab::units::{PerSecond, Ratio, Seconds, Unit};
use kneepoint_vocab::{
    ArmId, ArmPlan, ArmRole, ArmStart, Estimate, Phase, Plan, Proof, RunRecord, TrialRecord,
};
use std::collections::{BTreeMap, BTreeSet};

/// The paired comparison of one arm.
struct Comparison<'a> {
    plan: &'a ArmPlan,
    pairs: Vec<Pair>,
    effect: Option<PairedEffect>,
    proven: bool,
}

/// Everything the effects phase says.
pub(crate) struct Compared {
    pub(crate) noise: Noise,
    pub(crate) effects: Vec<Effect>,
    /// Throughput with the collector over throughput without.
    pub(crate) on_off: Option<Estimate<Ratio>>,
    /// Blocks that hold a slice that counts.
    pub(crate) blocks: u32,
    /// The most starts that an arm's pairs come from, where too few to speak of any start.
    pub(crate) few_starts: Option<usize>,
}

/// Compares all arms of the plan. `trials` are those that count.
pub(crate) fn compare(record: &RunRecord, trials: &[&TrialRecord]) -> Compared {
    let plan = &record.plan;
    let trials: Vec<&TrialRecord> =
        trials.iter().copied().filter(|trial| trial.id.phase == Phase::Effects).collect();
    let arms: Vec<Comparison<'_>> = plan
        .arms
        .iter()
        .filter(|arm| arm.role != ArmRole::Baseline)
        .map(|arm| comparison(arm, record, &trials))
        .collect();
    let noise = noise(&arms);
    let adjusted = adjusted(&arms);
    let blocks: BTreeSet<Block> = trials.iter().map(|t| (t.id.start, t.id.block)).collect();
    let done = tally(blocks.len());
    let effects = arms.iter().zip(adjusted).map(|(arm, p)| {
        let error = error_of_look(record, last_look(arm, &arms, done, record));
        describe(arm, p, &Judge { noise: &noise, plan, error }, record, &trials)
    });
    let starts = arms.iter().filter_map(|arm| arm.effect.map(|effect| effect.starts)).max();
    Compared {
        effects: effects.collect(),
        on_off: on_off(&arms),
        blocks: tally(blocks.len()),
        few_starts: starts.filter(|starts| *starts < STARTS_TO_RESAMPLE),
        noise,
    }
}

/// Effect blocks at the look that decided the arm: where it is left out of later blocks, the look
/// after its last one, else the look that ended the run; none where no look did. An arm that only
/// the unfinished last block lacks counts as left out, which is the stricter of the two.
fn last_look(
    arm: &Comparison<'_>,
    arms: &[Comparison<'_>],
    done: u32,
    record: &RunRecord,
) -> Option<u32> {
    let last = |arm: &Comparison<'_>| arm.pairs.iter().map(|pair| pair.block).max();
    let own = last(arm)?;
    if arms.iter().filter_map(last).max() > Some(own) {
        return Some(tally(own + 1));
    }
    record.end.as_ref().is_some_and(|end| end.stopped_by == "decided").then_some(done)
}

/// Two-sided error of the look after so many blocks; 5 % where no look decided.
fn error_of_look(record: &RunRecord, look: Option<u32>) -> f64 {
    let plain = 1.0 - CONFIDENCE;
    let (least, most) = record.plan.effect_blocks;
    let blocks = look.filter(|look| least > 0 && (least..=most).contains(look));
    let Some(blocks) = blocks else { return plain };
    let fractions: Vec<f64> =
        (least..=blocks).map(|looked| f64::from(looked) / f64::from(most)).collect();
    let levels = Spending::new(plain).nominal_levels(&fractions);
    levels.ok().and_then(|levels| levels.last().copied()).unwrap_or(plain)
}

/// What verdicts are held against.
struct Judge<'a> {
    noise: &'a Noise,
    plan: &'a Plan,
    /// Two-sided error that an adjusted p-value must stay below.
    error: f64,
}

fn comparison<'a>(arm: &'a ArmPlan, record: &RunRecord, trials: &[&TrialRecord]) -> Comparison<'a> {
    let pairs = pairs(&arm.id, &record.plan.bases(arm), trials);
    let starts: BTreeSet<usize> = pairs.iter().map(|pair| pair.start).collect();
    let scope =
        if starts.len() >= STARTS_TO_RESAMPLE { Scope::AcrossStarts } else { Scope::TheseStarts };
    let proven = proven(&record.arms, &arm.id);
    Comparison { plan: arm, effect: effect(&pairs, scope).ok(), pairs, proven }
}

fn proven(starts: &[ArmStart], arm: &ArmId) -> bool {
    starts.iter().filter(|start| &start.arm == arm).all(ArmStart::active)
}

/// Slices of the arm and of its bases in one block at one level. Where there are several, their
/// geometric mean counts: the log ratio is then a contrast of mean logs.
fn pairs(arm: &ArmId, bases: &[&ArmId], trials: &[&TrialRecord]) -> Vec<Pair> {
    let mut cells: BTreeMap<_, (Vec<f64>, Vec<f64>, u32)> = BTreeMap::new();
    for trial in trials {
        let log = trial.throughput().get().ln();
        if !log.is_finite() {
            continue;
        }
        let cell = cells.entry((trial.id.block, trial.id.level)).or_default();
        if &trial.id.arm == arm {
            cell.0.push(log);
            cell.2 = trial.id.start;
        } else if bases.contains(&&trial.id.arm) {
            cell.1.push(log);
        }
    }
    cells
        .into_iter()
        .filter(|(_, (treated, base, _))| !treated.is_empty() && !base.is_empty())
        .map(|((block, _), (treated, base, start))| Pair {
            start: start as usize,
            block: block as usize,
            base: mean(&base).exp(),
            treated: mean(&treated).exp(),
        })
        .collect()
}

/// The A/A control. Without one, or with a single pair, nothing below a factor of 2 counts.
fn noise(arms: &[Comparison<'_>]) -> Noise {
    let control = arms.iter().find(|arm| arm.plan.role == ArmRole::Control);
    let pairs = control.map_or(0, |control| tally(control.pairs.len()));
    let Some(effect) = control.and_then(|control| control.effect) else {
        return Noise { ratio: estimate(1.0, 0.0, 2.0), floor: Ratio(1.0), pairs };
    };
    let ratio: Estimate<Ratio> = from_interval(effect.ratio(CONFIDENCE));
    Noise { floor: Ratio(deviation(&ratio).max(ratio.half_width())), ratio, pairs }
}

/// The greatest deviation from 1 inside an interval.
fn deviation(ratio: &Estimate<Ratio>) -> f64 {
    (ratio.low.0 - 1.0).abs().max((ratio.high.0 - 1.0).abs())
}

/// Holm's correction over the treatments that can be judged.
fn adjusted(arms: &[Comparison<'_>]) -> Vec<Option<f64>> {
    let judged = |arm: &Comparison<'_>| arm.plan.role == ArmRole::Treatment && arm.proven;
    let p_values: Vec<f64> = arms
        .iter()
        .map(|arm| arm.effect.filter(|_| judged(arm)).map_or(f64::NAN, |e| e.p_value()))
        .collect();
    holm::adjust(&p_values).into_iter().map(|p| p.is_finite().then_some(p)).collect()
}

fn describe(
    arm: &Comparison<'_>,
    p_holm: Option<f64>,
    judge: &Judge<'_>,
    record: &RunRecord,
    trials: &[&TrialRecord],
) -> Effect {
    let starts: Vec<&ArmStart> =
        record.arms.iter().filter(|start| start.arm == arm.plan.id).collect();
    let effect = arm.effect.filter(|_| arm.proven);
    let used: BTreeSet<usize> = arm.pairs.iter().map(|pair| pair.start).collect();
    Effect {
        arm: arm.plan.id.clone(),
        role: arm.plan.role,
        label: arm.plan.label.clone(),
        over: arm.plan.over.clone(),
        changes: arm.plan.changes.clone(),
        ratio: effect.map(|effect| from_interval(effect.ratio(CONFIDENCE))),
        throughput: if arm.proven { throughput(&arm.plan.id, trials) } else { None },
        pairs: tally(arm.pairs.len()),
        starts: tally(used.len().max(starts.len())),
        verdict: verdict(arm, effect, p_holm, judge),
        p_holm,
        proofs: distinct_proofs(&starts),
        pair_ratios: if arm.proven {
            arm.pairs.iter().map(|pair| Ratio(finite(pair.treated / pair.base))).collect()
        } else {
            Vec::new()
        },
    }
}

/// Each proof once; where starts differ, each finding once.
fn distinct_proofs(starts: &[&ArmStart]) -> Vec<Proof> {
    let mut proofs: Vec<Proof> = Vec::new();
    for proof in starts.iter().flat_map(|start| &start.proofs) {
        if !proofs.contains(proof) {
            proofs.push(proof.clone());
        }
    }
    proofs
}

fn throughput(arm: &ArmId, trials: &[&TrialRecord]) -> Option<Estimate<PerSecond>> {
    let logs: Vec<f64> = trials
        .iter()
        .filter(|trial| &trial.id.arm == arm)
        .map(|trial| trial.throughput().get().ln())
        .filter(|log| log.is_finite())
        .collect();
    match mean_interval(&logs, CONFIDENCE) {
        Ok(interval) => Some(from_interval(interval.map(f64::exp))),
        Err(_) => logs.first().map(|log| crate::number::point(log.exp())),
    }
}

fn verdict(
    arm: &Comparison<'_>,
    effect: Option<PairedEffect>,
    p_holm: Option<f64>,
    judge: &Judge<'_>,
) -> Verdict {
    let (noise, plan) = (judge.noise, judge.plan);
    if !arm.proven {
        return Verdict::Invalid;
    }
    // Without a control the floor is a refusal, not a bound that 'no effect' could rest on.
    let floor = if noise.pairs < 2 { 0.0 } else { noise.floor.0 };
    let small = plan.smallest_effect.0;
    let target = floor.min(LOOSEST * small).max(small).max(1e-3);
    let pair_costs = 2.0 * (seconds(plan.slice) + seconds(plan.ramp));
    let Some(effect) = effect else {
        return Verdict::Undecided { needs: Seconds(finite(FIRST_PAIRS * pair_costs)) };
    };
    let ratio: Estimate<Ratio> = from_interval(effect.ratio(CONFIDENCE));
    let distance = ratio.value.0 - 1.0;
    let excludes_one = ratio.low.0 > 1.0 || ratio.high.0 < 1.0;
    let holds = p_holm.is_none_or(|p| p < judge.error);
    if excludes_one && holds && distance.abs() > noise.floor.0 {
        return if distance > 0.0 { Verdict::Better } else { Verdict::Worse };
    }
    if deviation(&ratio) <= target {
        return Verdict::NoEffect { smallest: Ratio(deviation(&ratio)) };
    }
    // To decide, the half-width must fall below the room between the estimate and the nearer
    // border: 1 for an effect, the target for none. An effect that only the noise floor hides
    // needs a lower floor, which falls with the root of the pairs.
    let room = distance.abs().max(target - distance.abs()).max(target / 4.0);
    let narrower = effect.pairs_for(room.ln_1p(), CONFIDENCE);
    let hidden = excludes_one && distance.abs() <= noise.floor.0;
    let quieter =
        if hidden { size(effect.pairs) * (noise.floor.0 / distance).powi(2) } else { 0.0 };
    let further = (narrower.max(quieter) - size(effect.pairs)).max(1.0);
    Verdict::Undecided { needs: Seconds(finite(further * pair_costs)) }
}

/// 'No effect' may allow effects up to the noise floor, but never more than so many times the
/// smallest that matters: on a loud machine it would say nothing.
const LOOSEST: f64 = 2.0;
/// Pairs proposed where there are too few to see any noise.
const FIRST_PAIRS: f64 = 6.0;

/// The unprobed arm is measured over the baseline; its inverse is what the collector leaves.
fn on_off(arms: &[Comparison<'_>]) -> Option<Estimate<Ratio>> {
    let unprobed = arms.iter().find(|arm| arm.plan.role == ArmRole::Unprobed)?;
    let ratio = unprobed.effect?.ratio(CONFIDENCE);
    (ratio.low > 0.0).then(|| estimate(1.0 / ratio.value, 1.0 / ratio.high, 1.0 / ratio.low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::units::Nanos;
    use kneepoint_vocab::{Disposition, Level, Plan, Pollution, TrialId, Window};

    fn plan() -> Plan {
        let level = Level { clients: 2, cores: 2 };
        Plan {
            clients: kneepoint_vocab::Clients::Inside,
            generator_cores: 0,
            sweep_arms: Vec::new(),
            protocol: kneepoint_vocab::ProtocolName::Default,
            level_order: kneepoint_vocab::LevelOrder::Random,
            warm_up: None,
            recipe: String::new(),
            summary: String::new(),
            operation: String::new(),
            seed: 1,
            levels: vec![level],
            focus: level,
            arms: vec![treatment()],
            slice: Nanos(1_000_000_000),
            ramp: Nanos(0),
            sweep_blocks: 3,
            effect_blocks: (3, 30),
            blocks_per_start: 3,
            precision: Ratio(0.05),
            smallest_effect: Ratio(0.05),
            budget: Nanos(0),
            foreign_limit: Ratio(0.03),
            steal_limit: Ratio(0.01),
        }
    }

    fn treatment() -> ArmPlan {
        ArmPlan {
            id: ArmId::new("treated"),
            role: ArmRole::Treatment,
            label: String::new(),
            over: ArmId::new(ArmId::BASELINE),
            changes: Vec::new(),
        }
    }

    fn noise_of(floor: f64) -> Noise {
        Noise { ratio: estimate(1.0, 1.0 - floor, 1.0 + floor), floor: Ratio(floor), pairs: 10 }
    }

    /// The verdict on pairs around `ratio` that scatter by `spread`.
    fn judged(ratio: f64, spread: f64, floor: f64, p_holm: f64) -> Verdict {
        let plan = plan();
        let pair = |block: usize| {
            let sign = if block.is_multiple_of(2) { 1.0 } else { -1.0 };
            Pair { start: 0, block, base: 100.0, treated: 100.0 * ratio * (1.0 + sign * spread) }
        };
        let pairs: Vec<Pair> = (0..10).map(pair).collect();
        let effect = effect(&pairs, Scope::TheseStarts).ok();
        let arm = Comparison { plan: &plan.arms[0], pairs, effect, proven: true };
        let noise = noise_of(floor);
        verdict(&arm, effect, Some(p_holm), &Judge { noise: &noise, plan: &plan, error: 0.05 })
    }

    #[test]
    fn an_effect_must_stand_out_of_interval_floor_and_number_of_questions() {
        assert_eq!(judged(1.3, 0.02, 0.05, 0.001), Verdict::Better);
        assert_eq!(judged(0.7, 0.02, 0.05, 0.001), Verdict::Worse);
        assert!(matches!(judged(1.3, 0.02, 0.05, 0.07), Verdict::Undecided { .. }));
        assert!(matches!(judged(1.3, 0.02, 0.35, 0.001), Verdict::Undecided { .. }));
        assert!(matches!(judged(1.07, 0.01, 0.1, 0.001), Verdict::NoEffect { .. }));
        assert!(matches!(judged(1.3, 0.9, 0.05, 0.3), Verdict::Undecided { .. }));
    }

    #[test]
    fn no_effect_names_what_the_interval_still_allows() {
        let Verdict::NoEffect { smallest } = judged(1.01, 0.01, 0.02, 0.5) else {
            panic!("a narrow interval around 1 is no effect")
        };
        assert!(smallest.0 > 0.01 && smallest.0 < 0.03, "{smallest:?}");
    }

    #[test]
    fn more_scatter_needs_more_seconds() {
        let needs = |spread: f64| match judged(1.03, spread, 0.01, 0.5) {
            Verdict::Undecided { needs } => needs.0,
            other => panic!("{other:?}"),
        };
        assert!(needs(0.4) > needs(0.2) && needs(0.2) > 0.0);
    }

    fn slice(arm: &str, block: u32, operations: u64) -> TrialRecord {
        TrialRecord {
            id: TrialId {
                phase: Phase::Effects,
                block,
                position: 0,
                attempt: 0,
                arm: ArmId::new(arm),
                start: block,
                level: Level { clients: 2, cores: 2 },
            },
            window: Window { begin: Nanos(0), length: Nanos(1_000_000_000) },
            operations,
            counted_over: Nanos(1_000_000_000),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            pollution: Pollution::default(),
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
        let (baseline, control) = (ArmId::new("baseline"), ArmId::new("control"));
        let found = pairs(&ArmId::new("treated"), &[&baseline, &control], &slices);
        let bases: Vec<f64> = found.iter().map(|pair| pair.base).collect();
        assert_eq!(bases.len(), 3);
        for (base, expected) in bases.iter().zip([100.0, 50.0, 100.0]) {
            assert!((base - expected).abs() < 1e-9, "{bases:?}");
        }
        assert_eq!(pairs(&control, &[&baseline], &slices).len(), 2);
    }

    #[test]
    fn without_a_control_nothing_small_is_better() {
        let noise = noise(&[]);
        assert_eq!(noise.pairs, 0);
        assert!(noise.floor.0 >= 1.0);
    }
}

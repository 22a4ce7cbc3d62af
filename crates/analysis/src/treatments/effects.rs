//! What each variant does against the variant it adds to: paired ratios, the A/A control, and
//! verdicts.
//!
//! Pairs and verdicts are those of [`kneepoint_model::decision`], the rule that also stops the run:
//! a treatment is reported as what the look found that left it out, with the pairs of that look.

use super::crosses::crosses;
use crate::ledgers::slices::Block;
use crate::number::{estimate, finite, median, seconds, size, tally};
use crate::scaling::curve::{CONFIDENCE, from_interval};
use kneepoint_model::decision::{Decision, Known, pairs, plain_effect};
use kneepoint_model::proven::proven;
use kneepoint_stats::interval::mean_interval;
use kneepoint_stats::paired::{Pair, PairedEffect};
use kneepoint_stats::verdict::{Answer, LAUNCHES, Moment, Verdict as Found};
use kneepoint_vocab::findings::{Cross, Effect, Noise, Verdict};
use kneepoint_vocab::units::{PerSecond, Ratio, Seconds, Unit};
use kneepoint_vocab::{
    Estimate, Phase, Proof, Proven, RunRecord, TrialRecord, VariantId, VariantPlan, VariantRole,
    VariantStart,
};
use std::collections::{BTreeMap, BTreeSet};

/// Everything the effects phase says.
pub(crate) struct Compared {
    pub(crate) noise: Noise,
    /// p-value of the A/A control: that two starts of one system are alike.
    pub(crate) control_p: Option<f64>,
    pub(crate) effects: Vec<Effect>,
    /// What variants do together that were crossed.
    pub(crate) crosses: Vec<Cross>,
    /// Throughput with the collector over throughput without.
    pub(crate) on_off: Option<Estimate<Ratio>>,
    /// Blocks that hold a slice that counts.
    pub(crate) blocks: u32,
    /// The most starts that a variant's pairs come from, where too few to speak of any start.
    pub(crate) few_starts: Option<usize>,
}

/// The paired comparison of one variant.
struct Comparison<'a> {
    plan: &'a VariantPlan,
    pairs: Vec<Pair>,
    known: Known,
    proven: Proven,
    /// Further blocks that would decide it.
    further: f64,
}

impl Comparison<'_> {
    fn effect(&self) -> Option<PairedEffect> {
        match &self.known {
            Known::Says(answer) => answer.evidence.map(|one| one.effect),
            Known::NotActive => None,
        }
    }

    fn answer(&self) -> Option<&Answer> {
        match &self.known {
            Known::Says(answer) => Some(answer),
            Known::NotActive => None,
        }
    }
}

/// Compares all variants of the plan. `trials` are those that count.
pub(crate) fn compare(record: &RunRecord, trials: &[&TrialRecord]) -> Compared {
    let trials: Vec<&TrialRecord> =
        trials.iter().copied().filter(|trial| trial.id.phase == Phase::Effects).collect();
    let variants = comparisons(record, &trials);
    let blocks: BTreeSet<Block> = trials.iter().map(|t| (t.id.start, t.id.block)).collect();
    let control = variants.iter().find(|variant| variant.plan.role == VariantRole::Control);
    let block = block_seconds(record, &variants);
    let starts = variants.iter().filter_map(|variant| Some(variant.effect()?.starts)).max();
    Compared {
        noise: noise(control),
        control_p: control.and_then(|variant| Some(variant.effect()?.p_value())),
        effects: variants.iter().map(|variant| describe(variant, block, record, &trials)).collect(),
        crosses: crosses(record, &trials),
        on_off: on_off(&variants),
        blocks: tally(blocks.len()),
        few_starts: starts.filter(|starts| *starts < LAUNCHES),
    }
}

/// Every variant but the baseline, in the plan's order.
fn comparisons<'a>(record: &'a RunRecord, trials: &[&TrialRecord]) -> Vec<Comparison<'a>> {
    let plan = &record.plan;
    let decision = Decision::of(plan);
    let planned = record.trials.iter().filter(|trial| trial.id.phase == Phase::Effects);
    let done = planned.map(|trial| trial.id.block.saturating_add(1)).max().unwrap_or(0);
    let known = decision.known(plan, &record.variants, trials, Moment::End(done as usize));
    let known: BTreeMap<&VariantId, Known> = known.into_iter().collect();
    let comparison = |variant: &'a VariantPlan| {
        let mut pairs = pairs(plan, variant, trials);
        let known = match known.get(&variant.id) {
            Some(known) => *known,
            None => Known::Says(
                plain_effect(&pairs)
                    .map_or_else(Answer::default, |effect| decision.of_control(effect)),
            ),
        };
        if let Known::Says(Answer { decided_at: Some(look), .. }) = known {
            pairs.retain(|pair| pair.block < look);
        }
        let further = match &known {
            Known::Says(answer) if !answer.is_final() => decision.further(answer),
            _ => 0.0,
        };
        let proven = proven(&record.variants, variant, trials);
        Comparison { plan: variant, pairs, known, proven, further }
    };
    plan.variants
        .iter()
        .filter(|variant| variant.role != VariantRole::Baseline)
        .map(comparison)
        .collect()
}

/// Wall time of one more effect block with the treatments that are not decided: the slices as they
/// followed each other, and a start's part of the time that starting takes.
fn block_seconds(record: &RunRecord, variants: &[Comparison<'_>]) -> f64 {
    let plan = &record.plan;
    let apart = |pair: &[TrialRecord]| {
        let [one, next] = pair else { return None };
        let same = one.id.phase == Phase::Effects && one.id.start == next.id.start;
        let apart = seconds(next.window.begin) - seconds(one.window.begin);
        (same && apart > 0.0).then_some(apart)
    };
    let gaps: Vec<f64> = record.trials.windows(2).filter_map(apart).collect();
    let planned = seconds(plan.slice) + seconds(plan.ramp);
    let slice = if gaps.is_empty() { planned } else { median(&gaps) };
    let goes_on = |variant: &&Comparison<'_>| {
        variant.plan.role != VariantRole::Treatment
            || variant.answer().is_some_and(|one| !one.is_final())
    };
    let slices = 1 + variants.iter().filter(goes_on).count();
    let mut ready: BTreeMap<u32, f64> = BTreeMap::new();
    for start in &record.variants {
        let longest = ready.entry(start.start).or_default();
        *longest = longest.max(finite(start.ready_after.0));
    }
    let ready: Vec<f64> = ready.into_values().collect();
    slice * size(slices) + median(&ready) / f64::from(plan.blocks_per_start.max(1))
}

/// The A/A control. Without one nothing is known of the noise.
fn noise(control: Option<&Comparison<'_>>) -> Noise {
    let pairs = control.map_or(0, |control| tally(control.pairs.len()));
    let Some(effect) = control.and_then(Comparison::effect) else {
        return Noise { ratio: estimate(1.0, 0.0, 2.0), floor: Ratio(1.0), pairs };
    };
    let ratio: Estimate<Ratio> = from_interval(effect.ratio(CONFIDENCE));
    Noise { floor: Ratio(deviation(&ratio).max(ratio.half_width())), ratio, pairs }
}

fn describe(
    variant: &Comparison<'_>,
    block: f64,
    record: &RunRecord,
    trials: &[&TrialRecord],
) -> Effect {
    let starts: Vec<&VariantStart> =
        record.variants.iter().filter(|start| start.variant == variant.plan.id).collect();
    let answer = variant.answer();
    let used: BTreeSet<usize> = variant.pairs.iter().map(|pair| pair.start).collect();
    let asked = variant.plan.role == VariantRole::Treatment;
    let ratios = variant.pairs.iter().map(|pair| Ratio(finite(pair.treated / pair.base)));
    Effect {
        variant: variant.plan.id.clone(),
        role: variant.plan.role,
        label: variant.plan.label.clone(),
        over: variant.plan.over.clone(),
        changes: variant.plan.changes.clone(),
        ratio: answer.and_then(Answer::ratio).map(from_interval),
        throughput: answer.and_then(|_| throughput(&variant.plan.id, trials)),
        pairs: tally(variant.pairs.len()),
        starts: tally(used.len().max(starts.len())),
        verdict: answer.map_or(Verdict::Invalid, |answer| verdict(answer, variant.further * block)),
        p_holm: answer.filter(|_| asked).and_then(|answer| answer.p_adjusted),
        proofs: distinct_proofs(&starts),
        proven: variant.proven,
        pair_ratios: if answer.is_some() { ratios.collect() } else { Vec::new() },
    }
}

fn verdict(answer: &Answer, needs: f64) -> Verdict {
    match answer.verdict {
        Found::Better => Verdict::Better,
        Found::Worse => Verdict::Worse,
        Found::NoEffect => {
            let ratio = answer.ratio().map(from_interval::<Ratio>);
            Verdict::NoEffect { smallest: Ratio(ratio.as_ref().map_or(0.0, deviation)) }
        }
        Found::Undecided => Verdict::Undecided { needs: Seconds(finite(needs)) },
    }
}

/// The greatest deviation from 1 inside an interval.
fn deviation(ratio: &Estimate<Ratio>) -> f64 {
    (ratio.low.0 - 1.0).abs().max((ratio.high.0 - 1.0).abs())
}

/// Each proof once; where starts differ, each finding once.
fn distinct_proofs(starts: &[&VariantStart]) -> Vec<Proof> {
    let mut proofs: Vec<Proof> = Vec::new();
    for proof in starts.iter().flat_map(|start| &start.proofs) {
        if !proofs.contains(proof) {
            proofs.push(proof.clone());
        }
    }
    proofs
}

fn throughput(variant: &VariantId, trials: &[&TrialRecord]) -> Option<Estimate<PerSecond>> {
    let logs: Vec<f64> = trials
        .iter()
        .filter(|trial| &trial.id.variant == variant)
        .map(|trial| trial.throughput().get().ln())
        .filter(|log| log.is_finite())
        .collect();
    match mean_interval(&logs, CONFIDENCE) {
        Ok(interval) => Some(from_interval(interval.map(f64::exp))),
        Err(_) => logs.first().map(|log| crate::number::point(log.exp())),
    }
}

/// The unprobed variant is measured over the baseline; its inverse is what the collector leaves.
fn on_off(variants: &[Comparison<'_>]) -> Option<Estimate<Ratio>> {
    let unprobed = variants.iter().find(|variant| variant.plan.role == VariantRole::Unprobed)?;
    let ratio = unprobed.effect()?.ratio(CONFIDENCE);
    (ratio.low > 0.0).then(|| estimate(1.0 / ratio.value, 1.0 / ratio.high, 1.0 / ratio.low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_control_nothing_is_known_of_the_noise() {
        let noise = noise(None);
        assert_eq!(noise.pairs, 0);
        assert!(noise.floor.0 >= 1.0);
    }
}

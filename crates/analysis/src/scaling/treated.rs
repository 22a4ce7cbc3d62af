//! Curves of the treatments that the sweep measured beside the baseline.
//!
//! Each is what the functions of the baseline's curve make of the variant's own slices, its bound
//! from the variant's own CPU per operation. What compares the two comes from one level + block
//! model of both, in which a level of a variant is a level of its own: slices of one block share
//! its drift, so the ratios are free of it.

use crate::ledgers::accounts::Accounts;
use crate::ledgers::slices::Slice;
use crate::scaling::by_cores::{by_cores, cores_of};
use crate::scaling::curve::{Sweep, curve};
use kneepoint_model::proven::proven;
use kneepoint_vocab::findings::TreatedCurve;
use kneepoint_vocab::{Level, Phase, Proven, RunRecord, TrialRecord, VariantId, VariantPlan};

/// What the sweep says of treatments.
#[derive(Default)]
pub(crate) struct Treated {
    pub(crate) curves: Vec<TreatedCurve>,
    /// Labels of variants whose curve is left out: a start was not proven to be what it claims.
    pub(crate) unproven: Vec<String>,
}

/// Whether the sweep measured another variant than the baseline: that says nothing of the baseline.
pub(crate) fn is_apart(trial: &TrialRecord) -> bool {
    trial.id.phase == Phase::Sweep && trial.id.variant.0 != VariantId::BASELINE
}

/// The curves, in the order of the plan's variants. `apart` are slices that count of the
/// treatments' sweeps, and `digest` makes rows of them.
pub(crate) fn treated<'a>(
    record: &RunRecord,
    baseline: &Sweep<'_>,
    apart: &[&'a TrialRecord],
    digest: impl Fn(&[&'a TrialRecord]) -> Vec<Slice<'a>>,
) -> Treated {
    let mut found = Treated::default();
    let swept = record
        .plan
        .variants
        .iter()
        .filter(|variant| record.plan.sweep_variants.contains(&variant.id));
    for variant in swept {
        if proven(&record.variants, variant, apart) == Proven::No {
            found.unproven.push(variant.label.clone());
            continue;
        }
        let trials: Vec<&'a TrialRecord> =
            apart.iter().copied().filter(|trial| trial.id.variant == variant.id).collect();
        found.curves.extend(one(record, variant, baseline, &trials, &digest(&trials)));
    }
    found
}

/// None where the variant or the baseline has no level on the focus's cores.
fn one(
    record: &RunRecord,
    variant: &VariantPlan,
    baseline: &Sweep<'_>,
    trials: &[&TrialRecord],
    slices: &[Slice<'_>],
) -> Option<TreatedCurve> {
    let (focus, seed) = (record.plan.focus, record.plan.seed);
    let sweep = Sweep::build(trials, seed);
    let cores = cores_of(baseline, focus);
    let (peak, first) = (sweep.peak_on(cores)?, sweep.first_on(cores)?);
    let (base_peak, base_first) = (baseline.peak_on(cores)?, baseline.first_on(cores)?);
    let accounts = Accounts::build(slices, &levels(trials), seed);
    let demand = accounts.reference_level.map(|_| accounts.reference.demand);
    let (both, offset) = baseline.beside(&sweep, seed);
    Some(TreatedCurve {
        variant: variant.id.clone(),
        label: variant.label.clone(),
        curve: curve(&sweep, slices, demand, focus, cores),
        by_cores: by_cores(&sweep, slices, demand, focus),
        speedup: sweep.ratio(peak, first),
        baseline_speedup: baseline.ratio(base_peak, base_first),
        further: both.ratio_of_ratios([offset + peak, offset + first], [base_peak, base_first]),
        over_baseline: both.ratio(offset + peak, base_peak),
    })
}

/// Levels of sweep slices, ascending.
pub(crate) fn levels(trials: &[&TrialRecord]) -> Vec<Level> {
    let sweep = trials.iter().filter(|trial| trial.id.phase == Phase::Sweep);
    let mut levels: Vec<Level> = sweep.map(|trial| trial.id.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

//! Curves of the treatments that the sweep measured beside the baseline.
//!
//! Each is what the functions of the baseline's curve make of the arm's own slices, its bound from
//! the arm's own CPU per operation. What compares the two comes from one level + block model of
//! both, in which a level of an arm is a level of its own: slices of one block share its drift, so
//! the ratios are free of it.

use crate::ledgers::accounts::Accounts;
use crate::ledgers::slices::Slice;
use crate::scaling::by_cores::{by_cores, cores_of};
use crate::scaling::curve::{Sweep, curve};
use kneepoint_model::proven::proven;
use kneepoint_vocab::findings::TreatedCurve;
use kneepoint_vocab::{ArmId, ArmPlan, Level, Phase, Proven, RunRecord, TrialRecord};

/// What the sweep says of treatments.
#[derive(Default)]
pub(crate) struct Treated {
    pub(crate) curves: Vec<TreatedCurve>,
    /// Labels of arms whose curve is left out: a start was not proven to be what it claims.
    pub(crate) unproven: Vec<String>,
}

/// Whether the sweep measured another arm than the baseline: that says nothing of the baseline.
pub(crate) fn is_apart(trial: &TrialRecord) -> bool {
    trial.id.phase == Phase::Sweep && trial.id.arm.0 != ArmId::BASELINE
}

/// The curves, in the order of the plan's arms. `apart` are slices that count of the treatments'
/// sweeps, and `digest` makes rows of them.
pub(crate) fn treated<'a>(
    record: &RunRecord,
    baseline: &Sweep<'_>,
    apart: &[&'a TrialRecord],
    digest: impl Fn(&[&'a TrialRecord]) -> Vec<Slice<'a>>,
) -> Treated {
    let mut found = Treated::default();
    let swept = record.plan.arms.iter().filter(|arm| record.plan.sweep_arms.contains(&arm.id));
    for arm in swept {
        if proven(&record.arms, arm, apart) == Proven::No {
            found.unproven.push(arm.label.clone());
            continue;
        }
        let trials: Vec<&'a TrialRecord> =
            apart.iter().copied().filter(|trial| trial.id.arm == arm.id).collect();
        found.curves.extend(one(record, arm, baseline, &trials, &digest(&trials)));
    }
    found
}

/// None where the arm or the baseline has no level on the focus's cores.
fn one(
    record: &RunRecord,
    arm: &ArmPlan,
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
        arm: arm.id.clone(),
        label: arm.label.clone(),
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

//! Which treatment cures which cause.
//!
//! A treatment that is better than the baseline cures a cause when, with it, an operation pays
//! less than half of what it pays to that cause without it: blocked thread-seconds for a wait,
//! CPU-seconds for a function. Where the collector did not watch the treated arm, only the
//! greatest cause is named, and only for the greatest effect.

use crate::accounts::per_operation;
use crate::core_ledger::Slot;
use crate::number::quotient;
use crate::slices::{Functions, Row, Slice, mean_row};
use kneepoint_vocab::findings::{Cause, Effect, Verdict};
use kneepoint_vocab::{ArmId, ArmRole, Level, Phase};

/// Part of the price per operation that must be gone.
const CURED: f64 = 0.5;

/// Fills `cured_by` of `causes`, whose slots are `slots`.
pub(crate) fn cures(
    causes: &mut [Cause],
    slots: &[Slot],
    effects: &[Effect],
    slices: &[Slice<'_>],
    functions: &Functions,
    focus: Level,
) {
    let base = arm_row(slices, &ArmId::new(ArmId::BASELINE), focus);
    for effect in better(effects) {
        let treated = arm_row(slices, &effect.arm, focus);
        for (rank, (cause, slot)) in causes.iter_mut().zip(slots).enumerate() {
            let cured = match (&base, &treated) {
                (Some(base), Some(treated)) => {
                    let before = price(base, *slot, functions);
                    before > 0.0 && price(treated, *slot, functions) < CURED * before
                }
                _ => rank == 0,
            };
            if cured && cause.cured_by.is_none() {
                cause.cured_by = Some(effect.arm.clone());
            }
        }
    }
}

/// Treatments that are better than the baseline, the greatest effect first.
fn better(effects: &[Effect]) -> Vec<&Effect> {
    let value = |effect: &Effect| effect.ratio.map_or(0.0, |ratio| ratio.value.0);
    let mut better: Vec<&Effect> = effects
        .iter()
        .filter(|effect| {
            effect.role == ArmRole::Treatment
                && effect.over.0 == ArmId::BASELINE
                && effect.verdict == Verdict::Better
        })
        .collect();
    better.sort_by(|a, b| value(b).total_cmp(&value(a)));
    better
}

fn arm_row(slices: &[Slice<'_>], arm: &ArmId, focus: Level) -> Option<Row> {
    let rows: Vec<(&Row, f64)> = slices
        .iter()
        .filter(|slice| {
            let id = &slice.trial.id;
            id.phase == Phase::Effects && id.level == focus && &id.arm == arm
        })
        .map(|slice| (&slice.row, 1.0))
        .collect();
    mean_row(&rows)
}

/// Seconds of one operation that a slot takes.
fn price(row: &Row, slot: Slot, functions: &Functions) -> f64 {
    let on_cpu =
        |function: usize| row.demand() * quotient(row.profile[function], row.profile.iter().sum());
    match slot {
        Slot::Function(function) => on_cpu(function),
        Slot::OtherFunctions => row.demand(),
        Slot::Group(group) => {
            per_operation(row.waited[group], row)
                + functions.work_of(group).map(on_cpu).sum::<f64>()
        }
        Slot::Scheduler => per_operation(row.idle_scheduler, row),
        Slot::Generator => per_operation(row.generator + row.idle_no_request, row),
    }
}

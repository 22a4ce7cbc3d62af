//! Which trials enter the estimates.

use kneepoint_vocab::{
    Disposition, GROSS, Level, Phase, RunRecord, TrialId, TrialRecord, VariantId,
};
use std::collections::BTreeSet;

/// Trials that count, of all variants. One of which others took a great part of the machine counts
/// only where its variant and level have none that is better.
pub(crate) fn measured(record: &RunRecord) -> Vec<&TrialRecord> {
    let counting = || after_warm_up(record).filter(|trial| trial.counts());
    let better: BTreeSet<_> = counting().filter(|trial| !is_gross(trial)).map(cell).collect();
    counting().filter(|trial| !is_gross(trial) || !better.contains(&cell(trial))).collect()
}

/// Trials that were too disturbed to count.
pub(crate) fn left_out(record: &RunRecord) -> Vec<&TrialRecord> {
    let used: BTreeSet<_> = measured(record).into_iter().map(|trial| key(&trial.id)).collect();
    after_warm_up(record)
        .filter(|trial| {
            let spoiled = matches!(trial.disposition, Disposition::Spoiled { .. });
            spoiled || trial.counts() && !used.contains(&key(&trial.id))
        })
        .collect()
}

/// What tells a trial from all others.
fn key(id: &TrialId) -> (Phase, u32, u32, u32, &VariantId, Level) {
    (id.phase, id.block, id.position, id.attempt, &id.variant, id.level)
}

fn after_warm_up(record: &RunRecord) -> impl Iterator<Item = &TrialRecord> {
    record.trials.iter().filter(|trial| trial.id.phase.measures())
}

fn is_gross(trial: &TrialRecord) -> bool {
    trial.disposition == Disposition::KeptDisturbed && trial.interference.share() > GROSS
}

fn cell(trial: &TrialRecord) -> (Phase, &VariantId, Level) {
    (trial.id.phase, &trial.id.variant, trial.id.level)
}

//! The slice of a run in which locks and system calls were counted.

use kneepoint_vocab::{Fact, LockUse, Phase, RunRecord, TrialRecord};

/// The slice in which locks and calls were counted, where there is one.
pub(crate) fn slice(record: &RunRecord) -> Option<&TrialRecord> {
    record.trials.iter().find(|trial| trial.id.phase == Phase::Census && trial.counts())
}

/// The locks of a slice.
pub(crate) fn locks(trial: &TrialRecord) -> impl Iterator<Item = &LockUse> {
    trial.facts.iter().filter_map(|fact| match fact {
        Fact::LockUse(lock) => Some(lock),
        _ => None,
    })
}

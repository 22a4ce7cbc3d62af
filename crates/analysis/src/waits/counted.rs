//! The slice of a run in which locks and system calls were counted.

use crate::number::seconds;
use kneepoint_vocab::{Fact, LockUse, Phase, RunRecord, TrialRecord};

/// The slice in which locks and calls were counted, where there is one.
pub(crate) fn slice(record: &RunRecord) -> Option<&TrialRecord> {
    record.trials.iter().find(|trial| trial.id.phase == Phase::Census && trial.counts())
}

/// Operations of its window. A command may tell how many it did in all of its run, of which the
/// window, slowed by probes, is a part that nobody knows.
pub(crate) fn operations(trial: &TrialRecord) -> Option<f64> {
    /// Counting ends a little after the window.
    const LONGER: f64 = 1.1;
    let (window, counted) = (seconds(trial.window.length), seconds(trial.counted_over));
    let same = counted <= LONGER * window && trial.operations > 0;
    same.then(|| trial.throughput().0 * window)
}

/// The locks of a slice.
pub(crate) fn locks(trial: &TrialRecord) -> impl Iterator<Item = &LockUse> {
    trial.facts.iter().filter_map(|fact| match fact {
        Fact::LockUse(lock) => Some(lock),
        _ => None,
    })
}

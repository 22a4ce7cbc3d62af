//! The generator's count against the server's own.
//!
//! Both count the same window, but each client can have an operation in flight at its edges: the
//! two may differ by N of the operations without anything being wrong.

use crate::number::{count, quotient, tally};
use kneepoint_vocab::TrialRecord;
use kneepoint_vocab::findings::Counts;
use kneepoint_vocab::units::Ratio;

/// A greater disagreement than this is one about what was measured.
const AGREES: f64 = 0.01;

/// The worst disagreement of the trials that count; absent where none has both counts.
pub(crate) fn counts(trials: &[&TrialRecord]) -> Option<Counts> {
    let checked = || trials.iter().filter_map(|trial| trial.counts.as_ref());
    let worst =
        checked().reduce(
            |worst, next| if next.disagreement() > worst.disagreement() { next } else { worst },
        )?;
    Some(Counts {
        counter: worst.counter.clone(),
        trials: tally(checked().count()),
        worst: worst.disagreement(),
    })
}

/// The worst disagreement beyond 1 % and beyond what operations in flight explain.
pub(crate) fn unexplained(trials: &[&TrialRecord]) -> Option<Ratio> {
    trials
        .iter()
        .filter_map(|trial| {
            let off = trial.counts.as_ref()?.disagreement();
            let in_flight = f64::from(trial.id.level.clients);
            let explained = quotient(in_flight, count(trial.operations)).max(AGREES);
            (off.0 > explained).then_some(off)
        })
        .reduce(|worst, next| if next > worst { next } else { worst })
}

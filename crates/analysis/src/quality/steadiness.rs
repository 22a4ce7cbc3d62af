//! Levels whose throughput is not of one piece: clients that did not come to rest, or slices that
//! fall into two regimes.

use crate::number::{finite, mean, tally};
use kneepoint_stats::two_groups::two_groups;
use kneepoint_vocab::findings::{CaveatReason, Regimes, Unsteady};
use kneepoint_vocab::units::{PerSecond, Unit};
use kneepoint_vocab::{Disposition, Level, TrialRecord};
use std::collections::BTreeMap;

/// Two regimes that differ by less are one.
const REGIMES: f64 = 0.10;
/// Where so many of the slices did not come to rest, the level did not.
const MANY: f64 = 1.0 / 3.0;

/// Of the baseline's slices, in all phases: a level's pace does not depend on what it is measured
/// for.
pub(crate) fn unsteady(baseline: &[&TrialRecord]) -> Vec<Unsteady> {
    let mut levels: BTreeMap<Level, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in baseline.iter().filter(|trial| trial.id.phase.measures()) {
        levels.entry(trial.id.level).or_default().push(trial);
    }
    let found = levels.into_iter().map(|(level, trials)| {
        let reported = trials.iter().filter_map(|trial| trial.settling.as_ref());
        let (of, slices) =
            reported.fold((0, 0), |(of, not), one| (of + 1, not + u32::from(!one.steady)));
        Unsteady { level, slices, of, regimes: regimes(&trials) }
    });
    found.filter(|one| is_restless(one) || one.regimes.is_some()).collect()
}

/// Two regimes of undisturbed slices, by the logarithms of their throughputs.
fn regimes(trials: &[&TrialRecord]) -> Option<Regimes> {
    let kept = trials.iter().filter(|trial| trial.disposition == Disposition::Kept);
    let mut logs: Vec<f64> = kept.map(|trial| trial.throughput().get().ln()).collect();
    logs.sort_by(f64::total_cmp);
    let spread = logs.last()? - logs.first()?;
    if spread < REGIMES.ln_1p() {
        return None;
    }
    let (low, high) = logs.split_at(two_groups(&logs)?);
    (mean(high) - mean(low) >= REGIMES.ln_1p()).then(|| Regimes {
        low: PerSecond(finite(mean(low).exp())),
        high: PerSecond(finite(mean(high).exp())),
        low_slices: tally(low.len()),
        high_slices: tally(high.len()),
    })
}

/// How far off the throughput of the level may be for it, roughly.
pub(crate) fn weight(level: &Unsteady) -> f64 {
    let regimes = level.regimes.map_or(0.0, |two| 1.0 - two.low.0 / two.high.0);
    regimes.max(if level.slices > 0 { 0.1 } else { 0.0 })
}

/// What it limits.
pub(crate) fn reason(level: &Unsteady) -> CaveatReason {
    CaveatReason::UnsteadyLevel {
        level: level.level,
        slices: level.slices,
        of: level.of,
        restless: is_restless(level),
        regimes: level.regimes,
    }
}

/// Whether so many slices did not come to rest that the level did not.
fn is_restless(level: &Unsteady) -> bool {
    f64::from(level.slices) > MANY * f64::from(level.of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_restless_slices_are_a_trait_of_the_level() {
        let level = Level { clients: 8, cores: 2 };
        let two = Regimes {
            low: PerSecond(2400.0),
            high: PerSecond(4900.0),
            low_slices: 3,
            high_slices: 5,
        };
        let regimes = Unsteady { level, slices: 1, of: 8, regimes: Some(two) };
        assert!(!is_restless(&regimes));
        assert!((weight(&regimes) - 0.51).abs() < 0.01);
        assert!(is_restless(&Unsteady { slices: 6, ..regimes }));
    }
}

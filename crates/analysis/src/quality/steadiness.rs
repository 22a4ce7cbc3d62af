//! Levels whose throughput is not of one piece: clients that did not come to rest, or slices that
//! fall into two regimes.

use crate::number::{finite, mean, tally};
use crate::words;
use kneepoint_stats::two_groups::two_groups;
use kneepoint_vocab::findings::{Regimes, Unsteady};
use kneepoint_vocab::units::{PerSecond, Unit};
use kneepoint_vocab::{Disposition, Level, Phase, TrialRecord};
use std::collections::BTreeMap;

/// Two regimes that differ by less are one.
const REGIMES: f64 = 0.10;
/// Where so many of the slices did not come to rest, the level did not.
const MANY: f64 = 1.0 / 3.0;

/// Of the baseline's slices, in all phases: a level's pace does not depend on what it is measured
/// for.
pub(crate) fn unsteady(baseline: &[&TrialRecord]) -> Vec<Unsteady> {
    let mut levels: BTreeMap<Level, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in baseline.iter().filter(|trial| trial.id.phase != Phase::WarmUp) {
        levels.entry(trial.id.level).or_default().push(trial);
    }
    let found = levels.into_iter().map(|(level, trials)| {
        let reported = trials.iter().filter_map(|trial| trial.settling.as_ref());
        let (of, slices) =
            reported.fold((0, 0), |(of, not), one| (of + 1, not + u32::from(!one.steady)));
        Unsteady { level, slices, of, regimes: regimes(&trials) }
    });
    let many = |one: &Unsteady| f64::from(one.slices) > MANY * f64::from(one.of);
    found.filter(|one| many(one) || one.regimes.is_some()).collect()
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

/// A sentence for people.
pub(crate) fn sentence(level: &Unsteady) -> String {
    let at = words::counted(level.level.clients, "client");
    let rest = format!(
        "{} of {} at {at} did not come to rest: the pace of the clients changed within the window",
        level.slices,
        words::counted(level.of, "slice")
    );
    let many = f64::from(level.slices) > MANY * f64::from(level.of);
    let Some(two) = level.regimes else {
        return format!("{rest}; give clients longer to settle, or take longer slices.");
    };
    let regimes = format!(
        "the slices at {at} are of two regimes, {} of {}/s and {} of {}/s: their mean is neither",
        two.low_slices,
        words::quantity(words::significant(two.low.0, 3)),
        two.high_slices,
        words::quantity(words::significant(two.high.0, 3))
    );
    let hint = "where threads find their cores by chance, pin them";
    if many {
        return format!("{rest}; {regimes}; {hint}.");
    }
    format!("T{}; {hint}.", &regimes[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_findings_are_one_sentence() {
        let level = Level { clients: 8, cores: 2 };
        let two = Regimes {
            low: PerSecond(2400.0),
            high: PerSecond(4900.0),
            low_slices: 3,
            high_slices: 5,
        };
        let regimes = Unsteady { level, slices: 1, of: 8, regimes: Some(two) };
        assert_eq!(
            sentence(&regimes),
            "The slices at 8 clients are of two regimes, 3 of 2.4k/s and 5 of 4.9k/s: their mean \
             is neither; where threads find their cores by chance, pin them."
        );
        assert!((weight(&regimes) - 0.51).abs() < 0.01);
        let restless = Unsteady { slices: 6, regimes: None, ..regimes.clone() };
        assert!(sentence(&restless).starts_with("6 of 8 slices at 8 clients did not come to rest"));
        let both = Unsteady { slices: 6, ..regimes };
        assert!(sentence(&both).contains("within the window; the slices at 8 clients are of two"));
    }
}

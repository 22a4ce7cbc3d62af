//! How the run was measured, in counts.

use crate::Swept;
use crate::number::{count, mean, quotient, seconds, tally};
use kneepoint_vocab::findings::Protocol;
use kneepoint_vocab::units::{Ratio, Seconds};
use kneepoint_vocab::{Disposition, RunRecord, StoppedBy, TrialRecord};
use std::collections::BTreeMap;

/// Half-width of the throughput's interval at the peak, as a share of it; none where fewer than two
/// blocks leave no interval.
fn precision(sweep: &Swept) -> Option<Ratio> {
    let curve = &sweep.curve;
    let peak = curve.points.iter().find(|point| point.level == curve.peak)?;
    let share = quotient(peak.throughput.half_width(), peak.throughput.value.0);
    sweep.has_intervals.then_some(Ratio(share))
}

/// Counts over the sweep and the effects phase; `trials` are those that count.
pub(crate) fn protocol(
    record: &RunRecord,
    trials: &[&TrialRecord],
    sweep: &Swept,
    effect_blocks: u32,
) -> Protocol {
    let analysed = || record.trials.iter().filter(|trial| trial.id.phase.measures());
    let with = |wanted: fn(&Disposition) -> bool| {
        tally(analysed().filter(|trial| wanted(&trial.disposition)).count())
    };
    let share = |of: fn(&TrialRecord) -> f64| {
        Ratio(mean(&trials.iter().map(|trial| of(trial)).collect::<Vec<f64>>()))
    };
    let elapsed =
        record.end.as_ref().map_or_else(|| last_seen(record), |end| end.elapsed.seconds().0);
    Protocol {
        name: record.plan.protocol,
        precision: precision(sweep),
        elapsed: Seconds(elapsed),
        slices: tally(trials.len()),
        repeated: with(|d| matches!(d, Disposition::Disturbed)),
        kept_disturbed: with(|d| matches!(d, Disposition::KeptDisturbed)),
        failed: with(|d| matches!(d, Disposition::Failed { .. })),
        slice: record.plan.slice.seconds(),
        sweep_blocks: sweep.blocks,
        effect_blocks,
        starts: starts(record),
        seed: record.plan.seed,
        stopped_by: record.end.as_ref().map_or(StoppedBy::CutOff, |end| end.stopped_by.clone()),
        steady: record.end.as_ref().is_some_and(|end| end.steady),
        others: share(|trial| trial.interference.others.0),
        steal: share(|trial| trial.interference.steal.0),
    }
}

/// The end of the last window, where the run was cut off.
fn last_seen(record: &RunRecord) -> f64 {
    let ends = record.trials.iter().map(|t| seconds(t.window.begin) + seconds(t.window.length));
    ends.fold(0.0, f64::max)
}

/// Starts of the variant that was started least often.
fn starts(record: &RunRecord) -> u32 {
    let mut by_variant: BTreeMap<&str, u32> = BTreeMap::new();
    for start in &record.variants {
        *by_variant.entry(start.variant.0.as_str()).or_default() += 1;
    }
    by_variant.values().copied().min().unwrap_or(0)
}

/// Share of all slices that were disturbed, repeated or not.
pub(crate) fn disturbed_share(protocol: &Protocol) -> f64 {
    let disturbed = count(u64::from(protocol.repeated) + u64::from(protocol.kept_disturbed));
    let all = count(
        u64::from(protocol.slices) + u64::from(protocol.repeated) + u64::from(protocol.failed),
    );
    quotient(disturbed, all)
}

/// Share of the slices that count which were kept although disturbed.
pub(crate) fn kept_share(protocol: &Protocol) -> f64 {
    quotient(count(u64::from(protocol.kept_disturbed)), count(u64::from(protocol.slices)))
}

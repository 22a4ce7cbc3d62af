//! How well the sweep knows its peak, and which levels decide what is said of the curve.
//!
//! The figure is the one that the report will print: the interval of the throughput at the peak, by
//! the same model of levels and blocks. Levels that decide are the peak, the knee, and the focus:
//! further blocks of those three cost less than whole ones and are worth as much.

use kneepoint_stats::two_way::{TwoWay, fit, observations};
use kneepoint_vocab::{Level, Phase, Plan, TrialRecord, VariantId};
use std::collections::BTreeSet;

/// Confidence of the interval at the peak.
const CONFIDENCE: f64 = 0.95;
/// Resamples: the interval's ends are known to some hundredths of its width.
const RESAMPLES: usize = 1000;
/// A level this close to the peak is as good as the peak.
const KNEE: f64 = 0.95;

/// What is known of the curve so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// Half-width of the interval at the peak, as a share of it.
    pub(crate) half_width: f64,
    /// Peak, knee and focus, ascending.
    pub(crate) deciding: Vec<Level>,
}

/// Of the baseline's sweep on the focus's cores; none where too few slices count.
pub(crate) fn known(plan: &Plan, trials: &[TrialRecord]) -> Option<Known> {
    let counting: Vec<&TrialRecord> = trials
        .iter()
        .filter(|trial| {
            let (id, cores) = (&trial.id, plan.focus.cores);
            let swept = id.phase == Phase::Sweep && id.variant.0 == VariantId::BASELINE;
            swept && id.level.cores == cores && trial.counts()
        })
        .collect();
    let levels: BTreeSet<Level> = counting.iter().map(|trial| trial.id.level).collect();
    let levels: Vec<Level> = levels.into_iter().collect();
    let measured: Vec<(usize, (u32, u32), f64)> = counting
        .iter()
        .map(|trial| {
            let level = levels.binary_search(&trial.id.level).unwrap_or(0);
            (level, (trial.id.start, trial.id.block), trial.throughput().0)
        })
        .collect();
    let model = fit(&observations(&measured), RESAMPLES, plan.seed).ok()?;
    let peak = peak(&model)?;
    let interval = model.level(peak, CONFIDENCE);
    let knee = (0..levels.len()).find(|at| model.value(*at) >= KNEE * model.value(peak))?;
    let focus = Some(plan.focus).filter(|focus| levels.contains(focus));
    let deciding = BTreeSet::from([levels[peak], levels[knee]]).into_iter().chain(focus);
    let deciding: BTreeSet<Level> = deciding.collect();
    Some(Known {
        half_width: interval.half_width() / interval.value,
        deciding: deciding.into_iter().collect(),
    })
}

fn peak(model: &TwoWay) -> Option<usize> {
    (0..model.levels()).max_by(|a, b| model.value(*a).total_cmp(&model.value(*b)))
}

/// The levels to measure again, where the peak is not yet known as well as the plan wants.
pub(crate) fn wanting(plan: &Plan, trials: &[TrialRecord]) -> Option<Vec<Level>> {
    let wanted = plan.sweep_precision?;
    let known = known(plan, trials)?;
    (known.half_width > wanted.0).then_some(known.deciding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_vocab::{Disposition, Interference, Nanos, Ratio, TrialId, Window};

    /// Sweep blocks of (clients, operations a second), a start a block, which alternate by `swing`.
    fn swept(plan: &Plan, levels: &[(u32, f64)], blocks: u32, swing: f64) -> Vec<TrialRecord> {
        let one = |block: u32, clients: u32, rate: f64| {
            let factor = if block.is_multiple_of(2) { 1.0 + swing } else { 1.0 - swing };
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "some thousand operations"
            )]
            let operations = (rate * factor * 10.0) as u64;
            TrialRecord {
                id: TrialId {
                    phase: Phase::Sweep,
                    block,
                    position: 0,
                    attempt: 0,
                    variant: VariantId::new(VariantId::BASELINE),
                    start: block,
                    level: Level { clients, ..plan.focus },
                },
                window: Window { begin: Nanos(0), length: Nanos::from_millis(10_000) },
                operations,
                counted_over: Nanos::from_millis(10_000),
                per_client: Vec::new(),
                latency: None,
                counts: None,
                stability: None,
                settling: None,
                interference: Interference::default(),
                disposition: Disposition::Kept,
                facts: Vec::new(),
            }
        };
        let block = |block| levels.iter().map(move |(clients, rate)| one(block, *clients, *rate));
        (0..blocks).flat_map(block).collect()
    }

    #[test]
    fn a_loud_peak_wants_its_deciding_levels_again_and_a_quiet_one_nothing() {
        let mut plan = small_plan();
        let levels = [(1, 1000.0), (2, 1980.0), (4, 2000.0), (8, 1500.0)];
        let loud = swept(&plan, &levels, 6, 0.3);
        assert_eq!(wanting(&plan, &loud), None, "nothing was asked for");
        plan.sweep_precision = Some(Ratio(0.08));
        let again = wanting(&plan, &loud).unwrap();
        assert_eq!(again.iter().map(|level| level.clients).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(wanting(&plan, &swept(&plan, &levels, 6, 0.02)), None);
        plan.sweep_precision = Some(Ratio(0.01));
        assert!(wanting(&plan, &swept(&plan, &levels, 6, 0.02)).is_some());
        assert_eq!(wanting(&plan, &loud[..4]), None, "one block has no interval");
    }

    #[test]
    fn further_blocks_of_the_deciding_levels_narrow_the_peak() {
        let plan = small_plan();
        let levels = [(1, 1000.0), (2, 1980.0), (4, 2000.0), (8, 1500.0)];
        let mut trials = swept(&plan, &levels, 6, 0.1);
        let before = known(&plan, &trials).unwrap();
        let more = swept(&plan, &levels[1..3], 24, 0.1);
        trials.extend(more.into_iter().filter(|trial| trial.id.block >= 6));
        let after = known(&plan, &trials).unwrap();
        assert!(after.half_width < 0.6 * before.half_width, "{before:?} {after:?}");
        assert_eq!(after.deciding, before.deciding);
    }
}

//! The second axis of the sweep: the same curve on every number of cores.
//!
//! All levels, whatever their cores, are one level + block model, so that ratios between numbers
//! of cores come from the same resampled blocks as everything else and are free of drift.

use crate::ledgers::slices::Slice;
use crate::number::size;
use crate::scaling::curve::{CONFIDENCE, Sweep, curve};
use kneepoint_vocab::findings::CoresCurve;
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{Estimate, Level};

/// Fewer cores that do more than the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fewer {
    /// The number of cores whose peak is greatest.
    pub(crate) cores: u32,
    /// The most cores that were measured.
    pub(crate) than: u32,
    /// Peak on `cores` over the peak on `than`; the interval lies above 1.
    pub(crate) ratio: Estimate<Ratio>,
}

/// Cores of the curve that is shown first: the focus's, or the most that were measured where no
/// level has the focus's.
pub(crate) fn cores_of(sweep: &Sweep<'_>, focus: Level) -> u32 {
    let counts = sweep.core_counts();
    let most = counts.last().copied().unwrap_or(focus.cores);
    if counts.contains(&focus.cores) { focus.cores } else { most }
}

/// One curve for each number of cores, ascending; none where only one was measured.
pub(crate) fn by_cores(
    sweep: &Sweep<'_>,
    slices: &[Slice<'_>],
    demand: Option<f64>,
    focus: Level,
) -> Vec<CoresCurve> {
    let counts = sweep.core_counts();
    let fewest = counts.first().and_then(|cores| sweep.peak_on(*cores));
    let (Some(fewest), true) = (fewest, counts.len() > 1) else { return Vec::new() };
    let one = |cores: &u32| {
        Some(CoresCurve {
            cores: *cores,
            curve: curve(sweep, slices, demand, focus, *cores),
            over_fewest: sweep.ratio(sweep.peak_on(*cores)?, fewest),
        })
    };
    counts.iter().filter_map(one).collect()
}

/// Whether fewer cores do significantly more than the most. The best of several smaller numbers
/// of cores is picked, so the error of 5 % is shared out over them (Bonferroni).
pub(crate) fn fewer(sweep: &Sweep<'_>) -> Option<Fewer> {
    let counts = sweep.core_counts();
    let (than, smaller) = counts.split_last()?;
    let most = sweep.peak_on(*than)?;
    let best = smaller
        .iter()
        .filter_map(|cores| Some((*cores, sweep.peak_on(*cores)?)))
        .max_by(|a, b| sweep.value(a.1).total_cmp(&sweep.value(b.1)))?;
    let confidence = 1.0 - (1.0 - CONFIDENCE) / size(smaller.len());
    let significant = sweep.ratio_at(best.1, most, confidence).low.0 > 1.0;
    (sweep.has_intervals() && significant).then(|| Fewer {
        cores: best.0,
        than: *than,
        ratio: sweep.ratio(best.1, most),
    })
}

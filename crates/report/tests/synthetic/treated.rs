//! A treatment that was measured at every level, beside any synthetic findings.

use super::about;
use kneepoint_vocab::findings::{Knee, Shape, TreatedCurve};
use kneepoint_vocab::{Estimate, Findings, VariantId};

/// The findings with the curve of private page caches: as fast as the baseline at its first level,
/// and 1.94 times that from the second on.
pub(crate) fn beside(mut all: Findings) -> Findings {
    let mut curve = all.curve.clone();
    let first = curve.points[0].throughput.value.0;
    for (index, point) in curve.points.iter_mut().enumerate() {
        let factor = if index == 0 { 0.98 } else { 1.94 };
        point.throughput = about(first * factor, 0.03);
    }
    let level = curve.points[1].level;
    curve.peak = level;
    curve.knee = Knee { level, low: level, high: level, beyond_last: false };
    curve.shape = Shape::Flat;
    curve.fits.clear();
    all.treated.push(TreatedCurve {
        variant: VariantId::new("private-cache"),
        label: "private page caches".to_owned(),
        curve,
        by_cores: Vec::new(),
        speedup: Estimate::of(1.98, 1.91, 2.05),
        baseline_speedup: Estimate::of(1.0, 1.0, 1.0),
        further: Estimate::of(1.98, 1.91, 2.05),
        over_baseline: Estimate::of(1.94, 1.86, 2.02),
    });
    all
}

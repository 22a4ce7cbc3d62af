//! The ratio of two independent throughputs, and what it says.
//!
//! The ends of a run's interval say how far its throughput may lie from the estimate on either
//! side. For the difference of two independent estimates these distances are added as variances
//! are (method of variance estimates recovery, Zou and Donner 2008), here of logarithms:
//!
//! low  = ln r − sqrt( (ln y − ln y.low)² + (ln x.high − ln x)² )
//! high = ln r + sqrt( (ln y.high − ln y)² + (ln x − ln x.low)² )       with r = y ÷ x

use super::{Run, allowance};
use crate::number::{count, estimate, point, quotient};
use kneepoint_vocab::ProtocolName;
use kneepoint_vocab::comparison::{LevelRatio, RatioVerdict};
use kneepoint_vocab::findings::{Curve, CurvePoint, Estimate};
use kneepoint_vocab::units::{PerSecond, Ratio, Seconds};

/// Differences below this are not asked for: on the log scale.
const LEAST: f64 = 0.01;

/// What a run adds to its own intervals, and what a slice of it took.
pub(super) struct Side {
    allowance: f64,
    /// Wall seconds of the run for each slice that counts.
    per_slice: f64,
}

impl Side {
    pub(super) fn of(run: &Run<'_>) -> Self {
        let protocol = &run.findings.protocol;
        // How long another tool took is what its file says, if anything.
        let imported = protocol.name == ProtocolName::Imported;
        let per_slice = match imported {
            true => 0.0,
            false => quotient(protocol.elapsed.0, count(u64::from(protocol.slices))),
        };
        Self { allowance: allowance(run), per_slice }
    }
}

/// Distances of the ends of an interval from its value, on the log scale, with the allowance.
fn distances(x: &Estimate<PerSecond>, allowance: f64) -> Option<(f64, f64)> {
    let log = |value: PerSecond| value.0.max(f64::MIN_POSITIVE).ln();
    let (below, above) = (log(x.value) - log(x.low), log(x.high) - log(x.value));
    (below + above > 1e-9).then(|| (below.hypot(allowance), above.hypot(allowance)))
}

/// Whether there is no interval at any level of a curve.
pub(super) fn is_bare(curve: &Curve) -> bool {
    curve.points.iter().all(|point| distances(&point.throughput, 0.0).is_none())
}

/// `second` over `first`; without interval where one of them has none.
fn ratio(
    first: &Estimate<PerSecond>,
    second: &Estimate<PerSecond>,
    (one, other): (&Side, &Side),
) -> Estimate<Ratio> {
    let value = quotient(second.value.0, first.value.0);
    let x = distances(first, one.allowance);
    let Some((x, y)) = x.zip(distances(second, other.allowance)) else { return point(value) };
    let (below, above) = (y.0.hypot(x.1), y.1.hypot(x.0));
    estimate(value, value * (-below).exp(), value * above.exp())
}

/// The two throughputs, their ratio and its verdict.
pub(super) fn at(
    (first, second): (&CurvePoint, &CurvePoint),
    sides: &(Side, Side),
    by_cores: bool,
) -> LevelRatio {
    let ratio = ratio(&first.throughput, &second.throughput, (&sides.0, &sides.1));
    let spent = |point: &CurvePoint, side: &Side| f64::from(point.slices) * side.per_slice;
    LevelRatio {
        clients: second.level.clients,
        over_clients: first.level.clients,
        cores: by_cores.then_some(second.level.cores),
        over: first.throughput,
        run: second.throughput,
        ratio,
        verdict: verdict(&ratio, spent(first, &sides.0) + spent(second, &sides.1)),
    }
}

/// What a ratio says that took so many seconds to measure. Its interval shrinks with the root of
/// the time; the time asked for is that at which the difference seen, or the least one worth
/// asking for, would be as great as the half-width.
fn verdict(ratio: &Estimate<Ratio>, spent: f64) -> RatioVerdict {
    let (low, high) = (ratio.low.0, ratio.high.0);
    if high - low <= 1e-12 * ratio.value.0 {
        RatioVerdict::NoInterval
    } else if low > 1.0 {
        RatioVerdict::Faster
    } else if high < 1.0 {
        RatioVerdict::Slower
    } else {
        let half = (high / low).ln() / 2.0;
        let wanted = ratio.value.0.ln().abs().max(LEAST);
        let more = spent * ((half / wanted).powi(2) - 1.0);
        let narrow = half <= wanted;
        RatioVerdict::NotDistinguishable {
            difference: Ratio(if narrow { half } else { wanted }.exp_m1()),
            needs: (!narrow && more > 0.0 && more.is_finite()).then_some(Seconds(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(allowance: f64) -> Side {
        Side { allowance, per_slice: 1.0 }
    }

    fn rate(value: f64, part: f64) -> Estimate<PerSecond> {
        Estimate::of(value, value / part.exp(), value * part.exp())
    }

    #[test]
    fn independent_intervals_add_as_variances_do() {
        let plain = (&side(0.0), &side(0.0));
        let r = ratio(&rate(100.0, 0.03), &rate(200.0, 0.04), plain);
        assert!((r.value.0 - 2.0).abs() < 1e-12);
        assert!(((r.high.0 / 2.0).ln() - 0.05).abs() < 1e-12, "{r:?}");
        assert!(((2.0 / r.low.0).ln() - 0.05).abs() < 1e-12, "{r:?}");
        // Of the run below, the upper end of the other counts.
        let skew = Estimate::of(100.0, 100.0, 110.0);
        let r = ratio(&skew, &rate(100.0, 1e-6), plain);
        assert!((r.low.0 - 100.0 / 110.0).abs() < 1e-4 && r.high.0 < 1.0001, "{r:?}");
        let lucky = ratio(&rate(100.0, 0.03), &rate(200.0, 0.04), (&side(0.12), &side(0.0)));
        assert!(((lucky.high.0 / 2.0).ln() - 0.13).abs() < 1e-12, "{lucky:?}");
    }

    #[test]
    fn a_single_repetition_has_no_interval() {
        let once = Estimate::of(100.0, 100.0, 100.0);
        let r = ratio(&once, &rate(90.0, 0.02), (&side(0.1), &side(0.1)));
        assert!((r.low.0 - r.high.0).abs() < 1e-12, "{r:?}");
        assert_eq!(verdict(&r, 5.0), RatioVerdict::NoInterval);
    }

    #[test]
    fn verdicts_follow_the_interval_and_tell_what_would_decide() {
        assert_eq!(verdict(&Estimate::of(1.1, 1.01, 1.2), 9.0), RatioVerdict::Faster);
        assert_eq!(verdict(&Estimate::of(0.9, 0.8, 0.99), 9.0), RatioVerdict::Slower);
        let half: f64 = 0.04;
        let near = Estimate::of(1.02, 1.02 / half.exp(), 1.02 * half.exp());
        let RatioVerdict::NotDistinguishable { difference, needs } = verdict(&near, 60.0) else {
            panic!("{near:?}")
        };
        assert!((difference.0 - 0.02).abs() < 1e-9);
        // (0.04 / ln 1.02)² is 4.08: three times as long as before once more.
        assert!((needs.unwrap().0 - 60.0 * 3.08).abs() < 0.5, "{needs:?}");
        let equal = verdict(&Estimate::of(1.0, 0.995, 1.005), 60.0);
        assert!(matches!(equal, RatioVerdict::NotDistinguishable { needs: None, .. }), "{equal:?}");
    }
}

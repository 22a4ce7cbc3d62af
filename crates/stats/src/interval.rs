//! A value with its interval, and the plain ways to get one from a slice.

use crate::distribution::{normal_quantile, student_quantile};
use crate::error::StatsError;
use crate::random::Generator;

/// A value and the two ends of its interval, in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The best single value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// `value` ± `half`.
    #[must_use]
    pub fn around(value: f64, half: f64) -> Self {
        Self { value, low: value - half, high: value + half }
    }

    /// Whether `x` lies inside, ends included.
    #[must_use]
    pub fn holds(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Half of the width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The interval of an increasing function of the value, e.g. `f64::exp`.
    #[must_use]
    pub fn map(&self, increasing: impl Fn(f64) -> f64) -> Self {
        Self {
            value: increasing(self.value),
            low: increasing(self.low),
            high: increasing(self.high),
        }
    }
}

/// Arithmetic mean; NaN for an empty slice.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample variance with divisor n - 1; NaN below two values.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let centre = mean(values);
    values.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// Quantile `p` by linear interpolation of the order statistics: Hyndman and Fan (1996) type 7,
/// position (n - 1) p. NaN for an empty slice. `p` is clamped to [0, 1].
#[must_use]
pub fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, p)
}

/// [`quantile`] of values that are already in ascending order.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the position is within the slice"
)]
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

/// Median (type 7 quantile at one half); NaN for an empty slice.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Share of `all` draws of which `some` were so, with Wilson's score interval (Wilson 1927), which
/// covers what it should for shares near 0 and 1 and for few draws too. Of no draws all is open.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub fn proportion_interval(some: u64, all: u64, confidence: f64) -> Interval {
    if all == 0 {
        return Interval { value: 0.0, low: 0.0, high: 1.0 };
    }
    let (n, p) = (all as f64, some.min(all) as f64 / all as f64);
    let z = normal_quantile(0.5 + confidence / 2.0);
    let shrunk = z * z / n;
    let middle = (p + shrunk / 2.0) / (1.0 + shrunk);
    let half = z / (1.0 + shrunk) * (p * (1.0 - p) / n + shrunk / (4.0 * n)).sqrt();
    Interval { value: p, low: (middle - half).clamp(0.0, p), high: (middle + half).clamp(p, 1.0) }
}

/// Interval of the mean by Student's t: mean ± t(n-1) s / sqrt(n).
///
/// # Errors
/// Fewer than two values.
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub fn mean_interval(values: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    let n = values.len();
    if n < 2 {
        return Err(StatsError::TooFew { what: "values", needed: 2, found: n });
    }
    let t = student_quantile(f64::midpoint(1.0, confidence), (n - 1) as f64);
    Ok(Interval::around(mean(values), t * (variance(values) / n as f64).sqrt()))
}

/// Interval of the median by resampling; see [`bootstrap_interval`].
///
/// # Errors
/// Fewer than two values.
pub fn median_interval(values: &[f64], confidence: f64, seed: u64) -> Result<Interval, StatsError> {
    bootstrap_interval(values, median, confidence, RESAMPLES, seed)
}

/// Resamples that the convenience functions of this crate take.
pub const RESAMPLES: usize = 2000;

/// Percentile bootstrap (Efron 1979) of any statistic, with a correction for few values.
///
/// The deviations of the resampled statistic from the estimate are multiplied by
/// sqrt(n / (n - 1)) · t(n-1) / z: the plain percentile interval is too narrow by just that for
/// the mean (Hesterberg 2015).
///
/// # Errors
/// Fewer than two values.
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub fn bootstrap_interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    resamples: usize,
    seed: u64,
) -> Result<Interval, StatsError> {
    let n = values.len();
    if n < 2 {
        return Err(StatsError::TooFew { what: "values", needed: 2, found: n });
    }
    let upper = f64::midpoint(1.0, confidence);
    let inflate = (n as f64 / (n - 1) as f64).sqrt() * student_quantile(upper, (n - 1) as f64)
        / normal_quantile(upper);
    let estimate = statistic(values);
    let mut generator = Generator::new(seed);
    let mut drawn = vec![0.0; n];
    let replicates: Vec<f64> = (0..resamples)
        .map(|_| {
            drawn.fill_with(|| values[generator.below(n)]);
            estimate + inflate * (statistic(&drawn) - estimate)
        })
        .collect();
    Ok(percentile_interval(estimate, &replicates, confidence))
}

/// The interval between the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles of
/// `replicates`, around `estimate`. Replicates that are not numbers are left out; with none left
/// the interval is the estimate alone.
#[must_use]
pub fn percentile_interval(estimate: f64, replicates: &[f64], confidence: f64) -> Interval {
    let mut sorted: Vec<f64> = replicates.iter().copied().filter(|x| !x.is_nan()).collect();
    if sorted.is_empty() {
        return Interval::around(estimate, 0.0);
    }
    sorted.sort_by(f64::total_cmp);
    Interval {
        value: estimate,
        low: quantile_of_sorted(&sorted, (1.0 - confidence) / 2.0),
        high: quantile_of_sorted(&sorted, f64::midpoint(1.0, confidence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn type_seven_quantiles() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert!((quantile(&values, 0.25) - 1.75).abs() < 1e-12);
        assert!((median(&values) - 2.5).abs() < 1e-12);
        assert!((quantile(&values, 1.0) - 4.0).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn t_interval_by_hand() {
        let interval = mean_interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        assert!((interval.value - 2.0).abs() < 1e-12);
        assert!((interval.half_width() - 4.302_65 / 3.0_f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn proportions_are_covered_near_their_ends_too() {
        let mut draws = Generator::new(11);
        for truth in [0.01, 0.3, 0.97] {
            let mut covered = 0;
            for _ in 0..1000 {
                let some = (0..400).filter(|_| draws.uniform() < truth).count() as u64;
                covered += u32::from(proportion_interval(some, 400, 0.95).holds(truth));
            }
            assert!((920..=985).contains(&covered), "{covered} of 1000 at {truth}");
        }
        let none = proportion_interval(0, 400, 0.95);
        assert!(none.value == 0.0 && none.low == 0.0 && (0.005..0.02).contains(&none.high));
        assert!(proportion_interval(0, 0, 0.95).holds(1.0), "of no draws all is open");
    }

    #[test]
    fn too_few_is_an_error_not_a_number() {
        assert!(mean_interval(&[1.0], 0.95).is_err());
        assert!(median_interval(&[], 0.95, 1).is_err());
    }

    /// Coverage of both intervals for normal values, n = 5 and 12.
    #[test]
    fn intervals_cover_the_truth() {
        for n in [5_usize, 12] {
            let mut generator = Generator::new(11);
            let (mut by_t, mut by_resampling) = (0, 0);
            for seed in 0..400 {
                let values: Vec<f64> = (0..n).map(|_| 3.0 + generator.normal()).collect();
                by_t += u32::from(mean_interval(&values, 0.95).unwrap().holds(3.0));
                let interval = bootstrap_interval(&values, mean, 0.95, 300, seed).unwrap();
                by_resampling += u32::from(interval.holds(3.0));
            }
            assert!((368..=392).contains(&by_t), "t, n = {n}: {by_t} of 400");
            assert!((364..=392).contains(&by_resampling), "bootstrap, n = {n}: {by_resampling}");
        }
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(-1e3..1e3_f64, 2..30)) {
            let before = mean_interval(&values, 0.9).unwrap();
            let middle = median(&values);
            values.reverse();
            let after = mean_interval(&values, 0.9).unwrap();
            prop_assert!((before.low - after.low).abs() < 1e-9);
            prop_assert!((middle - median(&values)).abs() < 1e-12);
        }

        #[test]
        fn shift_and_scale(values in prop::collection::vec(-1e3..1e3_f64, 3..20),
                           scale in 0.1..10.0_f64, shift in -50.0..50.0_f64) {
            let moved: Vec<f64> = values.iter().map(|x| scale * x + shift).collect();
            let a = bootstrap_interval(&values, mean, 0.95, 200, 5).unwrap();
            let b = bootstrap_interval(&moved, mean, 0.95, 200, 5).unwrap();
            let expected = a.map(|x| scale * x + shift);
            prop_assert!((b.low - expected.low).abs() < 1e-6 * (1.0 + expected.low.abs()));
            prop_assert!((b.high - expected.high).abs() < 1e-6 * (1.0 + expected.high.abs()));
        }

        #[test]
        fn quantiles_grow_and_stay_inside(values in prop::collection::vec(-1e3..1e3_f64, 1..40),
                                          p in 0.0..1.0_f64, q in 0.0..1.0_f64) {
            let (low, high) = (p.min(q), p.max(q));
            prop_assert!(quantile(&values, low) <= quantile(&values, high) + 1e-9);
            prop_assert!(quantile(&values, 0.0) <= quantile(&values, low) + 1e-9);
        }
    }
}

//! Intervals by resampling whole blocks.
//!
//! Slices of one block share the machine's state of that moment, so blocks, not slices, are
//! drawn with replacement (Efron and Tibshirani 1993, chapter 8: the unit that is drawn must be
//! the unit that is independent). With few blocks the plain percentile interval is too narrow:
//! deviations from the estimate are widened by sqrt(B / (B - 1)) and by Student's over the
//! normal quantile at B - 1 degrees of freedom.

use crate::number::{estimate, point, size};
use kneepoint_stats::distribution::{normal_quantile, student_quantile};
use kneepoint_stats::interval::quantile_of_sorted;
use kneepoint_stats::random::Generator;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::units::Unit;

/// Resamples drawn.
const RESAMPLES: usize = 400;

/// How often each block is drawn, in each resample.
pub(crate) struct Resamples {
    /// `[resample][block]`.
    pub(crate) weights: Vec<Vec<f64>>,
    widening: f64,
}

impl Resamples {
    /// Of `blocks` blocks; none where fewer than two leave nothing to resample.
    pub(crate) fn new(blocks: usize, seed: u64) -> Self {
        if blocks < 2 {
            return Self { weights: Vec::new(), widening: 1.0 };
        }
        let mut generator = Generator::new(seed);
        let draw = |_| {
            let mut drawn = vec![0.0; blocks];
            for _ in 0..blocks {
                drawn[generator.below(blocks)] += 1.0;
            }
            drawn
        };
        let weights = (0..RESAMPLES).map(draw).collect();
        let n = size(blocks);
        let student = student_quantile(0.975, n - 1.0) / normal_quantile(0.975);
        Self { weights, widening: (n / (n - 1.0)).sqrt() * student }
    }

    /// 95 % interval of `value` from what the resamples gave for it.
    pub(crate) fn interval<U: Unit>(&self, value: f64, replicates: &[f64]) -> Estimate<U> {
        let mut sorted: Vec<f64> = replicates.iter().copied().filter(|r| r.is_finite()).collect();
        if sorted.len() < 2 {
            return point(value);
        }
        sorted.sort_by(f64::total_cmp);
        let end = |p: f64| value + self.widening * (quantile_of_sorted(&sorted, p) - value);
        estimate(value, end(0.025), end(0.975))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::units::Cores;

    #[test]
    fn interval_of_a_mean_covers_about_as_often_as_it_says() {
        let mut noise = Generator::new(11);
        let (blocks, runs) = (5, 300);
        let mut covered = 0;
        for run in 0..runs {
            let values: Vec<f64> = (0..blocks).map(|_| noise.normal()).collect();
            let value = values.iter().sum::<f64>() / size(blocks);
            let resamples = Resamples::new(blocks, run);
            let replicates: Vec<f64> = resamples
                .weights
                .iter()
                .map(|w| w.iter().zip(&values).map(|(w, v)| w * v).sum::<f64>() / size(blocks))
                .collect();
            let interval: Estimate<Cores> = resamples.interval(value, &replicates);
            covered += usize::from(interval.low.0 <= 0.0 && 0.0 <= interval.high.0);
        }
        assert!((270..=300).contains(&covered), "95 % intervals covered {covered} of {runs}");
    }

    #[test]
    fn one_block_has_no_spread() {
        let resamples = Resamples::new(1, 1);
        let interval: Estimate<Cores> = resamples.interval(2.0, &[]);
        assert!((interval.low.0 - interval.high.0).abs() < 1e-12);
    }
}

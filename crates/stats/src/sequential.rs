//! Looking more than once without fooling oneself.
//!
//! Each look at the accumulating pairs may stop the run, and each is a chance to be wrong. The
//! total chance is spent over the looks by a function of the information fraction (Lan and DeMets
//! 1983), here the one that behaves like O'Brien and Fleming's bounds: hardly anything early,
//! almost everything at the end. The bound of each look follows by integrating the density of the
//! score process over the paths that have not stopped (Armitage, McPherson and Rowe 1969).

use crate::distribution::{normal_cdf, normal_quantile};
use crate::error::StatsError;

/// Points of Simpson's rule across the continuation region; odd.
const POINTS: usize = 201;

/// Bounds beyond this many standard deviations are not distinguished: the error there is 1e-15.
const FARTHEST: f64 = 8.0;

/// How a total two-sided error is spent over looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spending {
    total: f64,
}

impl Default for Spending {
    /// 5 % in all.
    fn default() -> Self {
        Self { total: 0.05 }
    }
}

impl Spending {
    /// Spends the two-sided error `total`, e.g. 0.05.
    #[must_use]
    pub fn new(total: f64) -> Self {
        Self { total }
    }

    /// The two-sided error spent up to the information fraction `t` in (0, 1]:
    /// 4 (1 - Φ(z / sqrt t)) with z the 1 - total / 4 quantile, which is `total` at t = 1.
    ///
    /// Each side spends total / 2 by Lan and DeMets's function 2 (1 - Φ(z(total/4) / sqrt t)).
    #[must_use]
    pub fn spent(&self, fraction: f64) -> f64 {
        let z = normal_quantile(1.0 - self.total / 4.0);
        4.0 * normal_cdf(-z / fraction.sqrt())
    }

    /// The nominal two-sided level of each look: stop at look k where the p-value of all pairs so
    /// far is at most the k-th level; report intervals of that confidence.
    ///
    /// `fractions` are the shares of the planned pairs that each look has, e.g. 0.25, 0.5, 0.75, 1.
    ///
    /// # Errors
    /// Fractions that do not grow strictly within (0, 1].
    pub fn nominal_levels(&self, fractions: &[f64]) -> Result<Vec<f64>, StatsError> {
        let bounds = self.bounds(fractions)?;
        Ok(bounds.into_iter().map(|z| 2.0 * normal_cdf(-z)).collect())
    }

    /// The bounds of [`Spending::nominal_levels`] as standard normal deviates.
    ///
    /// # Errors
    /// Fractions that do not grow strictly within (0, 1].
    pub fn bounds(&self, fractions: &[f64]) -> Result<Vec<f64>, StatsError> {
        Ok(self.looks(fractions)?.into_iter().map(|look| look.goes_on).collect())
    }

    /// Both bounds of each look: where further looks may follow, and where it turns out to be the
    /// last one, for a reason that the values have no part in (the budget is spent): it may then
    /// spend all that is left. Lan and DeMets 1983, section 4.
    ///
    /// # Errors
    /// Fractions that do not grow strictly within (0, 1].
    pub fn looks(&self, fractions: &[f64]) -> Result<Vec<LookBounds>, StatsError> {
        check(fractions)?;
        let mut looks = Vec::with_capacity(fractions.len());
        let mut state = Paths::at_start();
        let mut spent = 0.0;
        for &fraction in fractions {
            let step = (fraction - state.fraction).sqrt();
            let root = fraction.sqrt();
            let bound_of = |wanted: f64| bisect(|z| state.chance_beyond(z * root, step) - wanted);
            let wanted = self.spent(fraction) - spent;
            let (goes_on, is_last) = (bound_of(wanted), bound_of(self.total - spent));
            state = state.advance(goes_on * root, step, fraction);
            spent += wanted;
            looks.push(LookBounds { goes_on, is_last });
        }
        Ok(looks)
    }
}

/// The bounds of one look as standard normal deviates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookBounds {
    /// Where further looks may follow.
    pub goes_on: f64,
    /// Where this one is the last.
    pub is_last: f64,
}

fn check(fractions: &[f64]) -> Result<(), StatsError> {
    let mut before = 0.0;
    for (index, &value) in fractions.iter().enumerate() {
        if !(value > before && value <= 1.0 + 1e-12) {
            return Err(StatsError::BadFraction { index, value });
        }
        before = value;
    }
    Ok(())
}

/// The z in (0, FARTHEST] where a decreasing function crosses zero.
fn bisect(decreasing: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, FARTHEST);
    for _ in 0..36 {
        let middle = f64::midpoint(low, high);
        if decreasing(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Density of the score B(t) (a Wiener process under no effect) over the paths still running.
struct Paths {
    fraction: f64,
    /// (place, density × Simpson weight); a single place of weight 1 at the start.
    cells: Vec<(f64, f64)>,
}

impl Paths {
    fn at_start() -> Self {
        Self { fraction: 0.0, cells: vec![(0.0, 1.0)] }
    }

    /// P(|B| > edge at the next look, not stopped before); `step` = sqrt of the added fraction.
    fn chance_beyond(&self, edge: f64, step: f64) -> f64 {
        let beyond = |(place, weight): &(f64, f64)| {
            weight * (normal_cdf((place - edge) / step) + normal_cdf((-edge - place) / step))
        };
        self.cells.iter().map(beyond).sum()
    }

    #[allow(clippy::cast_precision_loss, reason = "a few hundred points")]
    fn advance(&self, edge: f64, step: f64, fraction: f64) -> Self {
        let width = 2.0 * edge / (POINTS - 1) as f64;
        let density = |x: f64| {
            let kernel =
                |(place, weight): &(f64, f64)| weight * (-((x - place) / step).powi(2) / 2.0).exp();
            let total: f64 = self.cells.iter().map(kernel).sum();
            total / (step * std::f64::consts::TAU.sqrt())
        };
        let cell = |i: usize| {
            let x = -edge + width * i as f64;
            let simpson = if i == 0 || i == POINTS - 1 { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
            (x, density(x) * simpson * width / 3.0)
        };
        Self { fraction, cells: (0..POINTS).map(cell).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;
    use proptest::prelude::*;

    /// Published bounds for five equal looks at a two-sided 5 % with this spending function
    /// (Reboussin, DeMets, Kim and Lan 2000).
    #[test]
    fn five_equal_looks_agree_with_published_bounds() {
        let found = Spending::default().bounds(&[0.2, 0.4, 0.6, 0.8, 1.0]).unwrap();
        for (z, expected) in found.iter().zip([4.8769, 3.3569, 2.6803, 2.2898, 2.0310]) {
            assert!((z - expected).abs() < 2e-3, "{found:?}");
        }
    }

    #[test]
    fn one_look_is_the_plain_test() {
        let levels = Spending::default().nominal_levels(&[1.0]).unwrap();
        assert!((levels[0] - 0.05).abs() < 1e-9);
    }

    /// Total error by simulation of the score process; fractions not equal.
    #[test]
    fn total_error_is_five_percent() {
        let fractions = [0.15, 0.25, 0.5, 0.7, 1.0];
        let bounds = Spending::default().bounds(&fractions).unwrap();
        let mut generator = Generator::new(99);
        let runs = 40_000;
        let mut stopped = 0;
        for _ in 0..runs {
            let (mut score, mut before) = (0.0_f64, 0.0_f64);
            for (fraction, bound) in fractions.iter().zip(&bounds) {
                score += (fraction - before).sqrt() * generator.normal();
                before = *fraction;
                if score.abs() / fraction.sqrt() > *bound {
                    stopped += 1;
                    break;
                }
            }
        }
        let error = f64::from(stopped) / f64::from(runs);
        assert!((0.046..=0.054).contains(&error), "total error {error}");
    }

    /// A run that its budget ends at any look spends 5 % all the same.
    #[test]
    fn a_last_look_that_comes_early_spends_the_rest() {
        let fractions = [0.25, 0.5, 0.75, 1.0];
        let looks = Spending::default().looks(&fractions).unwrap();
        assert!((looks[0].is_last - 1.96).abs() < 1e-3, "{looks:?}");
        assert!((looks[3].is_last - looks[3].goes_on).abs() < 1e-6, "{looks:?}");
        let mut generator = Generator::new(5);
        let (runs, last) = (40_000, 2);
        let mut stopped = 0;
        for _ in 0..runs {
            let mut score = 0.0_f64;
            for (at, fraction) in fractions.iter().take(last + 1).enumerate() {
                score += 0.5 * generator.normal();
                let bound = if at == last { looks[at].is_last } else { looks[at].goes_on };
                if score.abs() / fraction.sqrt() > bound {
                    stopped += 1;
                    break;
                }
            }
        }
        let error = f64::from(stopped) / f64::from(runs);
        assert!((0.046..=0.054).contains(&error), "total error {error}");
    }

    #[test]
    fn fractions_must_grow() {
        for wrong in [&[0.5, 0.5][..], &[0.5, 1.2], &[0.0, 1.0], &[f64::NAN]] {
            assert!(Spending::default().bounds(wrong).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn levels_never_exceed_the_total(
            mut fractions in prop::collection::vec(0.05..1.0_f64, 1..5),
        ) {
            fractions.sort_by(f64::total_cmp);
            fractions.dedup_by(|a, b| (*a - *b).abs() < 0.02);
            fractions.push(1.0);
            let levels = Spending::default().nominal_levels(&fractions).unwrap();
            prop_assert!(levels.iter().all(|&level| level <= 0.05 + 1e-9), "{levels:?}");
            prop_assert!(Spending::default().spent(1.0) - 0.05 < 1e-12);
        }
    }
}

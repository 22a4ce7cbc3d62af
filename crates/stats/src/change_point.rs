//! When does a series stop warming up, and is it steady at all?
//!
//! Binary segmentation on shifts of the mean. A segment is split at the place where
//! |mean left - mean right| · sqrt(k (n - k) / n) is greatest (the CUSUM statistic), if random
//! orders of the same values reach that height in at most 5 % of cases. The permutation test needs
//! no variance estimate and no normal noise; for exchangeable noise of any length and shape the
//! chance of any split in a steady series is at most the level (a penalised cost such as PELT's
//! needs its penalty tuned to the noise). It is the test of E-Divisive (Matteson and James 2014)
//! for means.
//!
//! Parts of a series that was split are tested at a fifth of the level, for there are more of them.
//!
//! Slices that follow each other resemble each other, which looks like a shift. So where the plain
//! test splits, the order-1 autocorrelation of what its two greatest shifts leave over is estimated
//! ([`autocorrelation`]); if it is above 1.65 / sqrt n, the test is repeated on x(t) - r x(t-1),
//! which an order-1 autoregression would turn into white noise with the shifts in place. False
//! alarms on correlated noise are lowered by this, not bounded: at autocorrelation 0.3 some 15 to
//! 18 % of steady series of 20 to 60 slices are split, at 0.5 a quarter to a third.
//!
//! A permutation cannot tell a first slice that differs from an outlier that happens to be first: a
//! single cold slice is found only in a series of some forty slices; two cold ones from about ten.

use crate::interval::{mean, median};
use crate::random::Generator;

/// Chance of a false split in a steady series.
pub const FALSE_ALARM: f64 = 0.05;

/// Random orders tried at each candidate split.
const ORDERS: usize = 499;

/// Seed of the random orders: a fixed one, so that the verdict depends on the series alone.
const SEED: u64 = 0x6b6e_6565;

/// Shortest series that is judged at all.
const SHORTEST: usize = 6;

/// Chance of a false further split in a part of a series that was split.
const FALSE_ALARM_OF_PARTS: f64 = 0.01;

/// Places where the mean shifts, ascending; each is the index of the first value after a shift.
///
/// Values that are not finite must be left out by the caller. Series below six values have none.
#[must_use]
pub fn change_points(series: &[f64]) -> Vec<usize> {
    let plain = segmented(series);
    let correlation = if plain.is_empty() { 0.0 } else { autocorrelation(series) };
    if correlation > 0.0 { segmented(&decorrelated(series, correlation)) } else { plain }
}

fn segmented(series: &[f64]) -> Vec<usize> {
    let mut found = Vec::new();
    split(series, 0, FALSE_ALARM, &mut Generator::new(SEED), &mut found);
    found.sort_unstable();
    found
}

/// Index after which the series is steady: its last change point, 0 where it has none.
///
/// `None` where it cannot be called steady: shorter than six values, or the stretch after the last
/// change point is shorter than a third of the series or than four values.
#[must_use]
pub fn warm_up_end(series: &[f64]) -> Option<usize> {
    if series.len() < SHORTEST {
        return None;
    }
    let end = change_points(series).last().copied().unwrap_or(0);
    let steady = series.len() - end;
    (steady >= 4 && 3 * steady >= series.len()).then_some(end)
}

fn split(
    series: &[f64],
    offset: usize,
    level: f64,
    generator: &mut Generator,
    found: &mut Vec<usize>,
) {
    if series.len() < SHORTEST {
        return;
    }
    let (place, height) = greatest_shift(series);
    if height <= 0.0 || !is_rare(series, height, level, generator) {
        return;
    }
    found.push(offset + place);
    split(&series[..place], offset, FALSE_ALARM_OF_PARTS, generator, found);
    split(&series[place..], offset + place, FALSE_ALARM_OF_PARTS, generator, found);
}

/// Where the CUSUM statistic is greatest, and how great.
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
fn greatest_shift(series: &[f64]) -> (usize, f64) {
    let n = series.len() as f64;
    let total: f64 = series.iter().sum();
    let (mut place, mut height, mut left) = (0, 0.0, 0.0);
    for (index, value) in series.iter().enumerate().take(series.len() - 1) {
        left += value;
        let k = (index + 1) as f64;
        let shift = (left / k - (total - left) / (n - k)).abs() * (k * (n - k) / n).sqrt();
        if shift > height {
            (place, height) = (index + 1, shift);
        }
    }
    (place, height)
}

/// Whether random orders reach `height` in at most the share `level` of cases, the given order
/// included. Stops as soon as that is ruled out.
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn is_rare(series: &[f64], height: f64, level: f64, generator: &mut Generator) -> bool {
    let mut order = series.to_vec();
    let allowed = level * (ORDERS + 1) as f64;
    let mut reached = 1;
    for _ in 0..ORDERS {
        generator.shuffle(&mut order);
        if greatest_shift(&order).1 >= height * (1.0 - 1e-9) {
            reached += 1;
            if f64::from(reached) > allowed {
                return false;
            }
        }
    }
    true
}

/// x(t) - r x(t-1), with a first value of the same variance.
fn decorrelated(series: &[f64], correlation: f64) -> Vec<f64> {
    let centre = median(series);
    let first = centre * (1.0 - correlation)
        + (series[0] - centre) * (1.0 - correlation * correlation).sqrt();
    let rest = series.windows(2).map(|pair| pair[1] - correlation * pair[0]);
    std::iter::once(first).chain(rest).collect()
}

/// Order-1 autocorrelation of the series less its two greatest shifts: Σ e(t) e(t+1) / Σ e(t)².
///
/// 0 where it is not above 1.65 / sqrt n (its one-sided 5 % point in white noise), at most 0.8.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub fn autocorrelation(series: &[f64]) -> f64 {
    if series.len() < SHORTEST {
        return 0.0;
    }
    let (first, _) = greatest_shift(series);
    let (left, right) = series.split_at(first);
    let longer = if left.len() > right.len() { left } else { right };
    let (second, _) = greatest_shift(longer);
    let second = if left.len() > right.len() { second } else { first + second };
    let (low, high) = (first.min(second), first.max(second));
    let parts = [&series[..low], &series[low..high], &series[high..]];
    let residuals: Vec<f64> =
        parts.iter().flat_map(|part| part.iter().map(|x| x - mean(part))).collect();
    let squares: f64 = residuals.iter().map(|e| e * e).sum();
    let products: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
    if products > squares * 1.65 / (series.len() as f64).sqrt() {
        (products / squares).min(0.8)
    } else {
        0.0
    }
}

/// Mean of the steady stretch; `None` where there is none.
#[must_use]
pub fn steady_mean(series: &[f64]) -> Option<f64> {
    warm_up_end(series).map(|end| mean(&series[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(n: usize, correlation: f64, generator: &mut Generator) -> Vec<f64> {
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut value = generator.normal();
        let mut next = || {
            value = correlation * value + fresh * generator.normal();
            value
        };
        (0..n).map(|_| next()).collect()
    }

    fn false_alarms(n: usize, correlation: f64, runs: u32) -> f64 {
        let mut generator = Generator::new(17);
        let alarm =
            |_| u32::from(!change_points(&noise(n, correlation, &mut generator)).is_empty());
        f64::from((0..runs).map(alarm).sum::<u32>()) / f64::from(runs)
    }

    #[test]
    fn white_noise_rarely_alarms() {
        for n in [10, 20, 60] {
            let share = false_alarms(n, 0.0, 400);
            println!("white noise, n = {n}: {share:.3}");
            assert!(share <= 0.07, "n = {n}: {share} (5 % expected, 400 runs)");
        }
    }

    #[test]
    fn correlated_noise_alarms_less_than_it_would() {
        let share = false_alarms(60, 0.5, 300);
        let mut generator = Generator::new(17);
        let raw = (0..300).filter(|_| {
            let series = noise(60, 0.5, &mut generator);
            let mut found = Vec::new();
            split(&series, 0, FALSE_ALARM, &mut Generator::new(SEED), &mut found);
            !found.is_empty()
        });
        let raw = raw.count() as f64 / 300.0;
        println!("autocorrelation 0.5, n = 60: {share:.3}, without decorrelation {raw:.3}");
        assert!(share < raw / 1.5, "{share} against {raw}");
    }

    #[test]
    fn a_step_of_thirty_percent_is_found_where_it_is() {
        let mut generator = Generator::new(3);
        let mut near = 0;
        for _ in 0..100 {
            let level = |i: usize| if i < 8 { 0.7 } else { 1.0 };
            let series: Vec<f64> =
                (0..30).map(|i| level(i) * (1.0 + 0.05 * generator.normal())).collect();
            near += u32::from(warm_up_end(&series).is_some_and(|end| end.abs_diff(8) <= 1));
        }
        assert!(near >= 88, "{near} of 100 within one slice");
    }

    #[test]
    fn an_exponential_ramp_is_cut_before_the_mean_is_biased() {
        let mut generator = Generator::new(4);
        let (mut found, mut close) = (0, 0);
        for _ in 0..100 {
            let series: Vec<f64> = (0..40)
                .map(|i| 1.0 - 0.5 * (-f64::from(i) / 5.0).exp() + 0.03 * generator.normal())
                .collect();
            let end = warm_up_end(&series);
            found += u32::from(end.is_some_and(|end| end >= 4));
            close += u32::from(steady_mean(&series).is_some_and(|mean| (mean - 1.0).abs() < 0.03));
        }
        assert!(found >= 95, "ramp found in {found} of 100");
        assert!(close >= 90, "steady mean within 3 % in {close} of 100");
    }

    #[test]
    fn what_never_settles_is_not_steady() {
        let late_step: Vec<f64> = (0..30).map(|i| if i < 24 { 1.0 } else { 2.0 }).collect();
        assert_eq!(warm_up_end(&late_step), None);
        let climbing: Vec<f64> = (0..30).map(f64::from).collect();
        assert_eq!(warm_up_end(&climbing), None);
        assert_eq!(warm_up_end(&[1.0, 1.0, 1.0]), None);
    }

    /// The limit that the module's text states.
    #[test]
    fn two_cold_slices_are_found_and_one_may_be_chance() {
        let mut generator = Generator::new(6);
        let (mut two, mut one) = (0, 0);
        for _ in 0..50 {
            let mut series: Vec<f64> = (0..20).map(|_| 1.0 + 0.02 * generator.normal()).collect();
            series[0] = 0.5;
            one += u32::from(warm_up_end(&series) == Some(1));
            series[1] = 0.5;
            two += u32::from(warm_up_end(&series) == Some(2));
        }
        assert!(two >= 45 && one <= 10, "{two} and {one} of 50");
    }

    #[test]
    fn a_constant_series_is_steady_from_the_beginning() {
        assert_eq!(warm_up_end(&[5.0; 12]), Some(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn unit_does_not_matter(
            series in prop::collection::vec(0.5..2.0_f64, 6..30), unit in 0.01..100.0_f64,
        ) {
            let other: Vec<f64> = series.iter().map(|x| unit * x).collect();
            prop_assert_eq!(change_points(&series), change_points(&other));
        }

        #[test]
        fn places_are_inside_and_ascending(series in prop::collection::vec(0.0..1.0_f64, 0..40)) {
            let places = change_points(&series);
            prop_assert!(places.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(places.iter().all(|&p| p > 0 && p < series.len()));
        }
    }
}

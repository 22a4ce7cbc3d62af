//! Quantiles and tail areas of the normal and Student distributions.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Standard normal quantile: the z with P(Z <= z) = `p`. Infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        f64::NEG_INFINITY
    } else if p >= 1.0 {
        f64::INFINITY
    } else {
        Normal::standard().inverse_cdf(p)
    }
}

/// Standard normal distribution function P(Z <= `z`).
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Student quantile: the t with P(T <= t) = `p` at `degrees` of freedom (> 0).
///
/// NaN where `degrees` is not positive.
#[must_use]
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    if degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if degrees > MANY_DEGREES {
        return near_normal(normal_quantile(p), degrees);
    }
    let upper = upper_quantile(p.min(1.0 - p), degrees);
    if p < 0.5 { -upper } else { upper }
}

/// From so many degrees of freedom on the expansion around the normal quantile is exact to 1e-7.
const MANY_DEGREES: f64 = 1000.0;

/// Student's quantile from the normal one of the same probability (Abramowitz and Stegun 26.7.5).
fn near_normal(z: f64, degrees: f64) -> f64 {
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

/// The t >= 0 with P(T > t) = `tail`, by bisection: the inverse that statrs offers does not end
/// for some arguments.
fn upper_quantile(tail: f64, degrees: f64) -> f64 {
    let above = |t: f64| student_two_sided(t, degrees) / 2.0 > tail;
    let mut high = 1.0;
    while above(high) && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if above(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Two-sided p-value of the statistic `t` at `degrees` of freedom: P(|T| >= |t|).
///
/// NaN where `degrees` is not positive or `t` is not a number.
#[must_use]
pub fn student_two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_nan() {
        return f64::NAN;
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |student| 2.0 * student.sf(t.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_printed_tables() {
        let table = [(1.0, 12.7062), (2.0, 4.3027), (3.0, 3.1824), (10.0, 2.2281), (30.0, 2.0423)];
        for (degrees, expected) in table {
            let found = student_quantile(0.975, degrees);
            assert!((found - expected).abs() < 1e-4, "t({degrees}) = {found}, table {expected}");
        }
        assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-6);
        assert!((student_quantile(0.995, 4.0) - 4.6041).abs() < 1e-4);
    }

    #[test]
    fn quantiles_end_and_meet_where_the_expansion_takes_over() {
        for p in [1e-9, 0.025, 0.3, 0.5, 0.9, 0.975, 0.999_999] {
            let below = student_quantile(p, MANY_DEGREES);
            let beyond = near_normal(normal_quantile(p), MANY_DEGREES);
            assert!((below - beyond).abs() < 1e-6, "{p}: {below} and {beyond}");
            assert!((student_quantile(p, 2.7e7) - normal_quantile(p)).abs() < 1e-5);
        }
        assert!(student_quantile(0.5, 3.0).abs() < 1e-12);
        assert!((student_quantile(0.025, 3.0) + student_quantile(0.975, 3.0)).abs() < 1e-12);
        assert!(
            student_quantile(0.975, 0.0).is_nan() && student_quantile(0.975, f64::NAN).is_nan()
        );
    }

    #[test]
    fn tail_area_inverts_the_quantile() {
        for degrees in [1.0, 2.0, 5.0, 17.5] {
            for level in [0.001, 0.01, 0.05, 0.5] {
                let t = student_quantile(1.0 - level / 2.0, degrees);
                assert!((student_two_sided(t, degrees) - level).abs() < 1e-6);
            }
        }
        assert!((student_two_sided(0.0, 3.0) - 1.0).abs() < 1e-12);
        assert!(student_two_sided(f64::NAN, 3.0).is_nan());
    }
}

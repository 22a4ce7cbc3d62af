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
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |student| student.inverse_cdf(p))
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

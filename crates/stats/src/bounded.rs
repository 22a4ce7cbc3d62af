//! Nonlinear least squares with bounds on the parameters.
//!
//! A small safe face over `rmpfit`, a port of MPFIT (Markwardt 2009), itself MINPACK's
//! Levenberg-Marquardt (Moré 1978) with parameters held inside a box.

use crate::error::StatsError;
use rmpfit::{MPError, MPFitter, MPPar, MPResult, MPSuccess};

/// One parameter: where the search starts and where it may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Start value, within the bounds.
    pub start: f64,
    /// Lower bound; `f64::NEG_INFINITY` for none.
    pub low: f64,
    /// Upper bound; `f64::INFINITY` for none.
    pub high: f64,
}

/// The parameters that make the sum of squared residuals least.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedFit {
    /// Parameters, in the order given.
    pub values: Vec<f64>,
    /// Standard errors: square roots of the diagonal of (J'J)^-1 · s², with s² the residual sum of
    /// squares over (points - free parameters). `None` at a bound, where the quadratic
    /// approximation does not hold, and where no degree of freedom is left.
    pub errors: Vec<Option<f64>>,
    /// Whether the parameter ended at one of its bounds.
    pub at_bound: Vec<bool>,
    /// Residuals at the end, as the closure gave them.
    pub residuals: Vec<f64>,
    /// Whether a convergence criterion was met, rather than the iteration limit.
    pub converged: bool,
    /// Iterations taken.
    pub iterations: usize,
}

struct Problem<F> {
    residuals: F,
    points: usize,
    bounds: Vec<MPPar>,
}

impl<F: FnMut(&[f64], &mut [f64])> MPFitter for Problem<F> {
    fn eval(&mut self, params: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        (self.residuals)(params, deviates);
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.points
    }

    fn parameters(&self) -> &[MPPar] {
        &self.bounds
    }
}

/// Fits `parameters` so that the `points` residuals have the least sum of squares.
///
/// `residuals(values, out)` fills `out` (length `points`); residuals should be of comparable size,
/// e.g. relative ones, for every point counts alike.
///
/// # Errors
/// Fewer points than parameters, a start value outside its bounds, residuals that are not finite.
pub fn fit(
    parameters: &[Parameter],
    points: usize,
    residuals: impl FnMut(&[f64], &mut [f64]),
) -> Result<BoundedFit, StatsError> {
    check(parameters, points)?;
    let mut values: Vec<f64> = parameters.iter().map(|p| p.start).collect();
    let bounds = parameters.iter().map(bound).collect();
    let mut problem = Problem { residuals, points, bounds };
    let status = problem.mpfit(&mut values).map_err(|error| failure(&error))?;
    let at_bound: Vec<bool> = parameters.iter().zip(&values).map(|(p, v)| touches(p, *v)).collect();
    let free = at_bound.iter().filter(|at| !**at).count();
    let errors = scaled_errors(&status.xerror, &at_bound, status.best_norm, points, free);
    let converged = status.success != MPSuccess::MaxIter && status.success != MPSuccess::NotDone;
    Ok(BoundedFit {
        values,
        errors,
        at_bound,
        residuals: status.resid,
        converged,
        iterations: status.n_iter,
    })
}

fn check(parameters: &[Parameter], points: usize) -> Result<(), StatsError> {
    if points < parameters.len() || parameters.is_empty() {
        let needed = parameters.len().max(1);
        return Err(StatsError::TooFew { what: "points for a fit", needed, found: points });
    }
    for (index, p) in parameters.iter().enumerate() {
        if !p.start.is_finite() || p.start < p.low || p.start > p.high || p.low >= p.high {
            let Parameter { start, low, high } = *p;
            return Err(StatsError::BadParameter { index, start, low, high });
        }
    }
    Ok(())
}

fn bound(parameter: &Parameter) -> MPPar {
    MPPar {
        limited_low: parameter.low.is_finite(),
        limited_up: parameter.high.is_finite(),
        limit_low: if parameter.low.is_finite() { parameter.low } else { 0.0 },
        limit_up: if parameter.high.is_finite() { parameter.high } else { 0.0 },
        ..MPPar::new()
    }
}

/// A parameter counts as at its bound within a billionth of the bound's size, as the iteration
/// stops at relative changes of 1e-10.
fn touches(parameter: &Parameter, value: f64) -> bool {
    let near =
        |bound: f64| bound.is_finite() && (value - bound).abs() <= 1e-9 * bound.abs() + 1e-12;
    near(parameter.low) || near(parameter.high)
}

#[allow(clippy::cast_precision_loss, reason = "numbers of points are small")]
fn scaled_errors(
    unit: &[f64],
    at_bound: &[bool],
    sum_of_squares: f64,
    points: usize,
    free: usize,
) -> Vec<Option<f64>> {
    let scale = (points > free).then(|| (sum_of_squares / (points - free) as f64).sqrt());
    let scaled = |(error, at): (&f64, &bool)| scale.filter(|_| !at).map(|s| s * error);
    unit.iter().zip(at_bound).map(scaled).collect()
}

fn failure(error: &MPError) -> StatsError {
    let reason = match error {
        MPError::Nan | MPError::Eval => "a residual was not a finite number",
        MPError::Empty => "there are no points",
        MPError::DoF => "there are fewer points than parameters",
        MPError::NoFree => "no parameter is free",
        MPError::InitBounds | MPError::Bounds => "the bounds contradict the start values",
        MPError::Input => "the problem is not well formed",
    };
    StatsError::FitFailed { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;

    const FREE: Parameter = Parameter { start: 0.5, low: f64::NEG_INFINITY, high: f64::INFINITY };

    fn line(a: f64, b: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut generator = Generator::new(seed);
        (0..12).map(f64::from).map(|x| (x, a + b * x + noise * generator.normal())).collect()
    }

    fn fit_line(points: &[(f64, f64)], parameters: [Parameter; 2]) -> BoundedFit {
        fit(&parameters, points.len(), |p, out| {
            for (slot, (x, y)) in out.iter_mut().zip(points) {
                *slot = y - p[0] - p[1] * x;
            }
        })
        .unwrap()
    }

    /// For a straight line the standard error has a closed form: s / sqrt(Σ (x - x̄)²).
    #[test]
    fn errors_are_those_of_linear_regression() {
        let points = line(2.0, 0.7, 0.1, 4);
        let fitted = fit_line(&points, [FREE, FREE]);
        let s2 = fitted.residuals.iter().map(|r| r * r).sum::<f64>() / 10.0;
        let expected = (s2 / 143.0).sqrt();
        let found = fitted.errors[1].unwrap();
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} against {expected}");
        assert!(fitted.converged);
    }

    #[test]
    fn a_bound_holds_and_is_flagged() {
        let points = line(2.0, -0.3, 0.0, 1);
        let slope = Parameter { start: 0.1, low: 0.0, high: 1.0 };
        let fitted = fit_line(&points, [FREE, slope]);
        assert!(fitted.at_bound[1] && !fitted.at_bound[0]);
        assert!(fitted.values[1].abs() < 1e-9);
        assert_eq!(fitted.errors[1], None);
        assert!(fitted.errors[0].is_some());
    }

    #[test]
    fn wrong_input_is_an_error() {
        let outside = Parameter { start: 2.0, low: 0.0, high: 1.0 };
        assert!(fit(&[outside], 3, |_, out| out.fill(0.0)).is_err());
        assert!(fit(&[FREE, FREE], 1, |_, out| out.fill(0.0)).is_err());
        assert!(fit(&[FREE], 3, |_, out| out.fill(f64::NAN)).is_err());
    }
}

//! What the fits of all laws share: effective clients, relative residuals, identifiability.

use kneepoint_stats::{BoundedFit, Parameter, StatsError, bounded};
use kneepoint_vocab::findings::{Fit, FitParameter, Unfit};
use kneepoint_vocab::{Level, PerSecond, Ratio};

/// A root mean square relative residual above this means that the law has another shape than the
/// curve.
pub const WORST_RESIDUAL: f64 = 0.2;

/// Measured throughput at one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The level.
    pub level: Level,
    /// Its throughput; only positive finite ones enter a fit.
    pub throughput: PerSecond,
}

/// Effective concurrency: min(clients, cores).
///
/// The laws speak of work going on at once. C hardware threads carry out at most C operations at
/// once; clients beyond that wait in a queue, which costs response time and no throughput. So a
/// level with more clients than cores enters a fit, and is predicted, as a level of C clients. What
/// such a level loses beyond that no law of this crate can show; the residual does.
#[must_use]
pub fn effective(level: Level) -> f64 {
    f64::from(level.clients.min(level.cores))
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq)]
pub struct LawFit {
    /// `USL` or `Amdahl`.
    pub law: &'static str,
    /// Name, value and standard error of each parameter. The error is absent at a bound and where
    /// no degree of freedom is left.
    pub parameters: Vec<(&'static str, f64, Option<f64>)>,
    /// Fitted throughput at each point given, in their order.
    pub fitted: Vec<PerSecond>,
    /// Root mean square of the relative residuals (fitted - measured) / measured.
    pub residual: Ratio,
    /// Why the parameters should not be used, where that is so.
    pub unfit: Vec<Unfit>,
}

impl LawFit {
    /// Value of the parameter of this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.parameters.iter().find(|(own, _, _)| *own == name).map(|(_, value, _)| *value)
    }
}

impl From<LawFit> for Fit {
    fn from(fit: LawFit) -> Self {
        let parameter = |(name, value, error): (&str, f64, Option<f64>)| FitParameter {
            name: name.to_owned(),
            value,
            error,
        };
        Self {
            law: fit.law.to_owned(),
            parameters: fit.parameters.into_iter().map(parameter).collect(),
            fitted: fit.fitted,
            residual: fit.residual,
            unfit: fit.unfit,
        }
    }
}

/// One law: its parameters and X as a function of them and of effective clients. The throughput of
/// one client is always the first parameter and is fitted relative to a typical scale, so that all
/// parameters are of like size.
pub(crate) struct Law {
    pub(crate) name: &'static str,
    pub(crate) shape_names: &'static [&'static str],
    pub(crate) shape_start: &'static [Parameter],
    /// Capacity relative to one client: C(n; shape).
    pub(crate) capacity: fn(f64, &[f64]) -> f64,
}

/// The parameter that every law has.
pub const ONE_CLIENT: &str = "throughput of one client";

impl Law {
    /// Least squares on relative residuals: every level counts alike, whatever its throughput.
    pub(crate) fn fit(&self, points: &[Point]) -> LawFit {
        let usable: Vec<(f64, f64)> = points
            .iter()
            .filter(|p| {
                p.throughput.0.is_finite() && p.throughput.0 > 0.0 && effective(p.level) > 0.0
            })
            .map(|p| (effective(p.level), p.throughput.0))
            .collect();
        let scale = usable.iter().map(|(n, x)| x / n).fold(0.0, f64::max);
        let wide = Parameter { start: 1.0, low: 1e-3, high: 1e3 };
        let mut starts = vec![wide];
        starts.extend(self.shape_start);
        let fitted = bounded::fit(&starts, usable.len(), |values, out| {
            for (slot, (n, x)) in out.iter_mut().zip(&usable) {
                *slot = scale * values[0] * (self.capacity)(*n, &values[1..]) / x - 1.0;
            }
        });
        match fitted {
            Ok(fitted) => self.finish(points, &usable, scale, &fitted),
            Err(error) => LawFit {
                law: self.name,
                parameters: Vec::new(),
                fitted: Vec::new(),
                residual: Ratio(0.0),
                unfit: vec![unfitted(&error)],
            },
        }
    }

    fn finish(
        &self,
        points: &[Point],
        usable: &[(f64, f64)],
        scale: f64,
        fit: &BoundedFit,
    ) -> LawFit {
        let names = std::iter::once(&ONE_CLIENT).chain(self.shape_names);
        let unit = |index: usize| if index == 0 { scale } else { 1.0 };
        let parameters: Vec<_> = names
            .enumerate()
            .map(|(i, name)| {
                (*name, unit(i) * fit.values[i], fit.errors[i].map(|error| unit(i) * error))
            })
            .collect();
        let predict = |point: &Point| {
            let n = effective(point.level);
            PerSecond(scale * fit.values[0] * (self.capacity)(n, &fit.values[1..]))
        };
        let residual = root_mean_square(&fit.residuals);
        LawFit {
            law: self.name,
            fitted: points.iter().map(predict).collect(),
            residual: Ratio(residual),
            unfit: self.reasons(usable, fit, residual, &parameters),
            parameters,
        }
    }

    fn reasons(
        &self,
        usable: &[(f64, f64)],
        fit: &BoundedFit,
        residual: f64,
        parameters: &[(&'static str, f64, Option<f64>)],
    ) -> Vec<Unfit> {
        let mut distinct: Vec<f64> = usable.iter().map(|(n, _)| *n).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup_by(|a, b| (*a - *b).abs() < 0.5);
        let needed = fit.values.len() + 2;
        let mut reasons = Vec::new();
        if distinct.len() < needed {
            reasons.push(Unfit::FewLevels { found: distinct.len(), needed });
        }
        for (index, (name, value, error)) in parameters.iter().enumerate() {
            if fit.at_bound[index] {
                reasons.push(Unfit::AtBound { parameter: (*name).to_owned() });
            } else if error.is_some_and(|error| error > value.abs()) {
                reasons.push(Unfit::WithinError { parameter: (*name).to_owned() });
            }
        }
        if residual > WORST_RESIDUAL {
            reasons.push(Unfit::OtherShape { residual: Ratio(residual) });
        }
        if !fit.converged {
            reasons.push(Unfit::NotConverged);
        }
        reasons
    }
}

fn unfitted(error: &StatsError) -> Unfit {
    match error {
        StatsError::TooFew { found, needed, .. } => {
            Unfit::FewPoints { found: *found, needed: *needed }
        }
        other => Unfit::Said(other.to_string()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers of levels are small")]
fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

//! The universal scalability law (Gunther 1993, 2007): X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1)).
//!
//! λ is the throughput of one client; σ, *contention*, what only one can do at a time; κ,
//! *coherency*, what each pays for every other. With κ > 0 the curve falls beyond
//! N = sqrt((1 - σ) / κ). Bounds keep σ and κ at 0 or above: a free fit often makes one negative,
//! which means nothing and predicts badly.

use crate::law::{Law, LawFit, Point};
use kneepoint_stats::Parameter;

pub use crate::amdahl::CONTENTION;

/// Name of κ.
pub const COHERENCY: &str = "coherency";

const LAW: Law = Law {
    name: "USL",
    shape_names: &[CONTENTION, COHERENCY],
    shape_start: &[
        Parameter { start: 0.1, low: 0.0, high: 1.0 },
        Parameter { start: 0.001, low: 0.0, high: 10.0 },
    ],
    capacity: |n, shape| n / (1.0 + shape[0] * (n - 1.0) + shape[1] * n * (n - 1.0)),
};

/// Fits λ > 0, 0 <= σ <= 1 and κ >= 0 to the points, with N = min(clients, cores) and relative
/// residuals.
#[must_use]
pub fn fit(points: &[Point]) -> LawFit {
    LAW.fit(points)
}

/// Clients at which the law has its maximum, sqrt((1 - σ) / κ); `None` where it never falls (κ = 0)
/// or the fit has no parameters.
#[must_use]
pub fn maximum(fit: &LawFit) -> Option<f64> {
    let (contention, coherency) = (fit.value(CONTENTION)?, fit.value(COHERENCY)?);
    (coherency > 0.0).then(|| ((1.0 - contention) / coherency).sqrt())
}

//! Amdahl's law (Amdahl 1967): X(N) = λ N / (1 + σ (N - 1)).
//!
//! λ is the throughput of one client and σ, here *contention*, the part of the work that only one
//! can do at a time. The law levels off at λ / σ and never falls.

use crate::law::{Law, LawFit, Point};
use kneepoint_stats::Parameter;

/// Name of σ.
pub const CONTENTION: &str = "contention";

const LAW: Law = Law {
    name: "Amdahl",
    shape_names: &[CONTENTION],
    shape_start: &[Parameter { start: 0.1, low: 0.0, high: 1.0 }],
    capacity: |n, shape| n / (1.0 + shape[0] * (n - 1.0)),
};

/// Fits λ > 0 and 0 <= σ <= 1 to the points, with N = min(clients, cores) and relative residuals.
#[must_use]
pub fn fit(points: &[Point]) -> LawFit {
    LAW.fit(points)
}

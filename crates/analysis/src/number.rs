//! Bare numbers on their way into findings: always finite, intervals always around the value.

use kneepoint_vocab::findings::Estimate;
use kneepoint_vocab::units::{Nanos, Unit};

/// `value`, or 0 where it is not a finite number: nothing else may reach a report.
pub(crate) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// `numerator / denominator`, or 0 where that has no finite value.
pub(crate) fn quotient(numerator: f64, denominator: f64) -> f64 {
    if denominator == 0.0 { 0.0 } else { finite(numerator / denominator) }
}

/// Seconds of a kernel count.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    nanos.seconds().0
}

/// A count as a number.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(value: u64) -> f64 {
    value as f64
}

/// A length as a number.
#[allow(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
pub(crate) fn size(value: usize) -> f64 {
    value as f64
}

/// A length as the record counts it.
pub(crate) fn tally(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// An estimate with finite ends that hold its value.
pub(crate) fn estimate<U: Unit>(value: f64, low: f64, high: f64) -> Estimate<U> {
    let value = finite(value);
    let low = if low.is_finite() { low.min(value) } else { value };
    let high = if high.is_finite() { high.max(value) } else { value };
    Estimate::of(value, low, high)
}

/// An estimate without any knowledge of its spread.
pub(crate) fn point<U: Unit>(value: f64) -> Estimate<U> {
    estimate(value, value, value)
}

/// Mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    quotient(values.iter().sum(), size(values.len()))
}

/// Median; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

//! The same in sentences: three digits at most, and no zeros at the end. Where an interval stands
//! beside the number, its parent writes both.

use super::{COUNTS, Scale, TIMES, bare, decimals, order};
use kneepoint_vocab::{Estimate, PerSecond, Ratio, Seconds, Unit};

/// Decimals at most.
const DECIMALS: usize = 2;

/// `value`, or 0 where it is not a finite number.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Decimals of a number without interval.
fn places(value: f64) -> usize {
    decimals(value, 0.0).min(DECIMALS)
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Nothing is written in the smallest unit.
fn short(value: f64, scale: &Scale) -> String {
    let value = finite(value);
    let step = if value == 0.0 { scale.steps[3] } else { scale.step(value) };
    let scaled = value / step.divisor;
    format!("{}{}", trimmed(&bare(scaled, places(scaled))), step.suffix)
}

/// A count or rate: `61k`, `4.6k`, `120`, `0.43`.
pub(crate) fn quantity(value: impl Unit) -> String {
    short(value.get(), &COUNTS)
}

/// `22 µs`, `1.3 ms`, `2 s`.
pub(crate) fn duration(value: Seconds) -> String {
    short(value.get(), &TIMES)
}

/// A share: `78 %`, `4.1 %`.
pub(crate) fn percent(share: Ratio) -> String {
    let percent = finite(share.get()) * 100.0;
    format!("{} %", bare(percent, usize::from(percent.abs() < 9.95)))
}

/// A share with its interval, where there is one: `78 % [74–82]`.
pub(crate) fn share(share: &Estimate<Ratio>) -> String {
    let of = percent(share.value);
    if share.half_width() < 1e-9 {
        return of;
    }
    let end = |end: Ratio| bare(end.get() * 100.0, 0);
    format!("{of} [{}–{}]", end(share.low), end(share.high))
}

/// A ratio: `4.05×`.
pub(crate) fn times(ratio: Ratio) -> String {
    let ratio = finite(ratio.get());
    let text = bare(ratio, places(ratio));
    format!("{}×", if ratio.abs() < 10.0 { text.as_str() } else { trimmed(&text) })
}

/// Decimals that the interval of a ratio allows.
fn places_of(ratio: &Estimate<Ratio>) -> usize {
    let value = ratio.value.get();
    decimals(value, ratio.half_width()).min(if value < 10.0 { DECIMALS } else { 1 })
}

/// A ratio with as many decimals as its interval allows.
pub(crate) fn rounded(ratio: &Estimate<Ratio>) -> String {
    let value = ratio.value.get();
    if value >= 10.0 { times(ratio.value) } else { format!("{}×", bare(value, places_of(ratio))) }
}

/// `3.4× [2.8–4.2]`; bare where there is no interval.
pub(crate) fn factor(ratio: &Estimate<Ratio>) -> String {
    if ratio.half_width() <= 0.0 {
        return rounded(ratio);
    }
    let end = |end: Ratio| bare(end.get(), places_of(ratio));
    format!("{} [{}–{}]", rounded(ratio), end(ratio.low), end(ratio.high))
}

/// `6.8k/s`.
pub(crate) fn rate(value: PerSecond) -> String {
    format!("{}/s", quantity(significant(value, 3)))
}

/// `6.8k/s`, with a digit less where the interval is wide.
pub(crate) fn rounded_rate(rate: &Estimate<PerSecond>) -> String {
    let wide = rate.half_width() > 0.05 * rate.value.get().abs();
    format!("{}/s", quantity(significant(rate.value, if wide { 2 } else { 3 })))
}

/// `value` with so many significant digits.
fn significant(value: PerSecond, digits: i32) -> PerSecond {
    let value = finite(value.get());
    let unit = 10_f64.powi(order(value) + 1 - digits);
    PerSecond((value / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Count;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(quantity(Count(61_234.0)), "61.2k");
        assert_eq!(quantity(Count(0.434)), "0.43");
        assert_eq!(quantity(Count(120.0)), "120");
        assert_eq!(duration(Seconds(22.0e-6)), "22 µs");
        assert_eq!(duration(Seconds(0.0)), "0 ns");
        assert_eq!(percent(Ratio(0.78)), "78 %");
        assert_eq!(percent(Ratio(0.041)), "4.1 %");
        assert_eq!(times(Ratio(4.049)), "4.05×");
        assert_eq!(quantity(Count(f64::NAN)), "0");
        assert_eq!(quantity(significant(PerSecond(12_052.0), 2)), "12k");
        assert_eq!(quantity(significant(PerSecond(-0.0468), 2)), "−0.05");
        assert_eq!(rate(PerSecond(2404.0)), "2.4k/s");
        assert_eq!(quantity(Count(999.7)), "1k");
        assert_eq!((times(Ratio(12.04)), times(Ratio(0.5))), ("12×".into(), "0.50×".into()));
    }

    #[test]
    fn intervals_stand_beside_what_they_are_of() {
        assert_eq!(factor(&Estimate::of(3.4, 2.8, 4.2)), "3.4× [2.8–4.2]");
        assert_eq!(factor(&Estimate::of(3.401, 3.401, 3.401)), "3.40×");
        assert_eq!(share(&Estimate::of(0.784, 0.74, 0.82)), "78 % [74–82]");
        assert_eq!(share(&Estimate::of(0.784, 0.784, 0.784)), "78 %");
        assert_eq!(rounded_rate(&Estimate::of(6_812.0, 6_000.0, 7_500.0)), "6.8k/s");
    }
}

//! Numbers in sentences: three digits at most, with a prefix. Where an interval stands beside the
//! number, [`crate::number`] writes both.

use kneepoint_vocab::{Estimate, PerSecond, Ratio, Seconds, Unit};

/// `value`, or 0 where it is not a finite number.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// A count or rate: `61k`, `4.6k`, `120`, `0.43`.
pub(crate) fn quantity(value: impl Unit) -> String {
    let value = finite(value.get());
    let magnitude = value.abs();
    for (scale, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if magnitude >= scale {
            return format!("{}{suffix}", three_digits(value / scale));
        }
    }
    three_digits(value)
}

/// `22 µs`, `1.3 ms`, `2 s`.
pub(crate) fn duration(value: Seconds) -> String {
    let seconds = finite(value.get());
    for (scale, unit) in [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")] {
        if seconds.abs() >= scale {
            return format!("{} {unit}", three_digits(seconds / scale));
        }
    }
    format!("{} ns", three_digits(seconds * 1e9))
}

/// A share: `78 %`, `4.1 %`.
pub(crate) fn percent(share: Ratio) -> String {
    let percent = finite(share.get()) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A share with its interval, where there is one: `78 % [74–82]`.
pub(crate) fn share(share: &Estimate<Ratio>) -> String {
    let of = percent(share.value);
    if share.half_width() < 1e-9 {
        return of;
    }
    let (low, high) = (share.low.get() * 100.0, share.high.get() * 100.0);
    format!("{of} [{low:.0}–{high:.0}]")
}

/// A ratio: `4.05×`.
pub(crate) fn times(ratio: Ratio) -> String {
    let ratio = finite(ratio.get());
    if ratio.abs() < 10.0 { format!("{ratio:.2}×") } else { format!("{}×", three_digits(ratio)) }
}

/// A ratio with as many decimals as its interval allows.
pub(crate) fn rounded(ratio: &Estimate<Ratio>) -> String {
    let (half, value) = (ratio.half_width(), ratio.value.get());
    if half < 0.29 || value >= 10.0 {
        return times(ratio.value);
    }
    if half < 2.9 { format!("{value:.1}×") } else { format!("{value:.0}×") }
}

/// `3.4× [2.8–4.2]`; bare where there is no interval.
pub(crate) fn factor(ratio: &Estimate<Ratio>) -> String {
    let half = ratio.half_width();
    if half <= 0.0 {
        return rounded(ratio);
    }
    let places = if half < 0.29 && ratio.value.get() < 10.0 { 2 } else { usize::from(half < 2.9) };
    let (low, high) = (ratio.low.get(), ratio.high.get());
    format!("{} [{low:.places$}–{high:.places$}]", rounded(ratio))
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
    if value == 0.0 {
        return PerSecond(value);
    }
    let unit = 10_f64.powf(value.abs().log10().floor() + 1.0 - f64::from(digits));
    PerSecond((value / unit).round() * unit)
}

fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let text = if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
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
        assert_eq!(quantity(significant(PerSecond(-0.0468), 2)), "-0.05");
        assert_eq!(rate(PerSecond(2404.0)), "2.4k/s");
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

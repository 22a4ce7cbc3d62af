//! Numbers in sentences: three digits at most, with a prefix.

use crate::number::finite;

/// A count or rate: `61k`, `4.6k`, `120`, `0.43`.
pub(crate) fn quantity(value: f64) -> String {
    let value = finite(value);
    let magnitude = value.abs();
    for (scale, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if magnitude >= scale {
            return format!("{}{suffix}", three_digits(value / scale));
        }
    }
    three_digits(value)
}

/// Seconds: `22 µs`, `1.3 ms`, `2 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let seconds = finite(seconds);
    for (scale, unit) in [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")] {
        if seconds.abs() >= scale {
            return format!("{} {unit}", three_digits(seconds / scale));
        }
    }
    format!("{} ns", three_digits(seconds * 1e9))
}

/// A share: `78 %`, `4.1 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = finite(share) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A ratio: `4.05×`.
pub(crate) fn times(ratio: f64) -> String {
    let ratio = finite(ratio);
    if ratio.abs() < 10.0 { format!("{ratio:.2}×") } else { format!("{}×", three_digits(ratio)) }
}

/// `1 client`, `8 clients`.
pub(crate) fn counted(count: u32, singular: &str) -> String {
    if count == 1 { format!("1 {singular}") } else { format!("{count} {singular}s") }
}

/// `value` with so many significant digits.
pub(crate) fn significant(value: f64, digits: i32) -> f64 {
    let value = finite(value);
    if value == 0.0 {
        return value;
    }
    let unit = 10_f64.powf(value.abs().log10().floor() + 1.0 - f64::from(digits));
    (value / unit).round() * unit
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

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(quantity(61_234.0), "61.2k");
        assert_eq!(quantity(0.434), "0.43");
        assert_eq!(quantity(120.0), "120");
        assert_eq!(duration(22.0e-6), "22 µs");
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(percent(0.78), "78 %");
        assert_eq!(percent(0.041), "4.1 %");
        assert_eq!(times(4.049), "4.05×");
        assert_eq!(counted(1, "client"), "1 client");
        assert_eq!(quantity(f64::NAN), "0");
        assert_eq!(quantity(significant(12_052.0, 2)), "12k");
        assert_eq!(quantity(significant(-0.0468, 2)), "-0.05");
    }
}

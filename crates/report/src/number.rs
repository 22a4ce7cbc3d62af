//! Numbers with as many digits as their interval allows.
//!
//! The last printed digit is that of the first significant digit of the interval's half width,
//! or one further where that digit rounds to 1 or 2, so that rounding never eats a visible part of
//! the interval. A number without an interval gets three significant digits.

pub(crate) mod sentence;

use kneepoint_vocab::{Cores, Count, Estimate, PerSecond, Ratio, Seconds, Unit};

/// Significant digits of a number that has no interval, and the most of one whose interval is
/// narrower than that.
const PLAIN_DIGITS: i32 = 3;
const MOST_DIGITS: i32 = 4;

/// A number and its interval, both as text in the same prefix and unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The value with its unit, e.g. `10.7k` or `22.4 µs`.
    pub value: String,
    /// The interval without unit, e.g. `[10.4–11.0]`; empty where there is none, both ends being
    /// the value.
    pub interval: String,
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.value)?;
        if self.interval.is_empty() { Ok(()) } else { write!(f, " {}", self.interval) }
    }
}

impl Shown {
    /// The interval for a column of its own: a dash where there is none.
    #[must_use]
    pub fn interval_or_dash(&self) -> String {
        if self.interval.is_empty() { "–".to_owned() } else { self.interval.clone() }
    }
}

/// A power of a thousand (or a percent) that a number is divided by before printing.
#[derive(Clone, Copy)]
struct Step {
    divisor: f64,
    suffix: &'static str,
}

/// Steps of a unit, the largest first.
struct Scale {
    steps: [Step; 4],
    /// The step in which a number without interval says that there is nothing.
    nothing: Step,
}

const ONE: Step = Step { divisor: 1.0, suffix: "" };
const SECOND: Step = Step { divisor: 1.0, suffix: " s" };

const COUNTS: Scale = Scale {
    steps: [
        Step { divisor: 1e9, suffix: "G" },
        Step { divisor: 1e6, suffix: "M" },
        Step { divisor: 1e3, suffix: "k" },
        ONE,
    ],
    nothing: ONE,
};

const TIMES: Scale = Scale {
    steps: [
        SECOND,
        Step { divisor: 1e-3, suffix: " ms" },
        Step { divisor: 1e-6, suffix: " µs" },
        Step { divisor: 1e-9, suffix: " ns" },
    ],
    nothing: SECOND,
};

impl Scale {
    /// The largest step that leaves at least one unit, else the smallest one.
    fn step(&self, value: f64) -> Step {
        let magnitude = value.abs();
        if magnitude > 0.0 {
            let fits = |step: &&Step| magnitude >= step.divisor * 0.9995;
            *self.steps.iter().find(fits).unwrap_or(&self.steps[3])
        } else {
            self.nothing
        }
    }
}

/// Position of the first significant digit: 0 for units, 1 for tens, -1 for tenths.
#[allow(clippy::cast_possible_truncation, reason = "log10 of an f64 lies within ±324")]
fn order(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() { 0 } else { value.abs().log10().floor() as i32 }
}

/// Decimals that `half_width` allows for `value`.
fn decimals(value: f64, half_width: f64) -> usize {
    let most = MOST_DIGITS - 1 - order(value);
    let wanted = if half_width > 0.0 && half_width.is_finite() {
        let first = order(half_width);
        let leading = half_width / 10_f64.powi(first);
        if leading < 2.9 { 1 - first } else { -first }
    } else {
        PLAIN_DIGITS - 1 - order(value)
    };
    usize::try_from(wanted.min(most).clamp(0, 9)).unwrap_or(0)
}

/// A bare number with a typographic minus; `–` where there is none.
fn bare(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let nothing = text.bytes().all(|byte| byte == b'0' || byte == b'.');
    if value < 0.0 && !nothing { format!("−{text}") } else { text }
}

/// Whether an interval was never estimated: its ends are equal, but for what rounding left.
pub(crate) fn is_bare<U: Unit>(estimate: &Estimate<U>) -> bool {
    let width = estimate.high.get() - estimate.low.get();
    width.abs() <= estimate.value.get().abs() * 1e-9
}

fn shown<U: Unit>(estimate: &Estimate<U>, step: Step) -> Shown {
    let (value, low, high) = (estimate.value.get(), estimate.low.get(), estimate.high.get());
    if is_bare(estimate) {
        return Shown { value: alone(value, step), interval: String::new() };
    }
    let (value, low, high) = (value / step.divisor, low / step.divisor, high / step.divisor);
    let places = decimals(value, (high - low) / 2.0);
    let dash = if low < 0.0 { " to " } else { "–" };
    Shown {
        value: format!("{}{}", bare(value, places), step.suffix),
        interval: format!("[{}{dash}{}]", bare(low, places), bare(high, places)),
    }
}

fn alone(value: f64, step: Step) -> String {
    let value = value / step.divisor;
    format!("{}{}", bare(value, decimals(value, 0.0)), step.suffix)
}

/// Events each second with a decimal prefix, without unit: `10.7k [10.4–11.0]`.
#[must_use]
pub fn rate(estimate: &Estimate<PerSecond>) -> Shown {
    shown(estimate, COUNTS.step(estimate.value.get()))
}

/// Events each second, without interval: `70.2k`.
#[must_use]
pub fn plain_rate(value: PerSecond) -> String {
    plain(value.get())
}

/// A bare number with a decimal prefix: `70.2k`.
#[must_use]
pub fn plain(value: f64) -> String {
    alone(value, COUNTS.step(value))
}

/// A mean number of things, with one decimal: `4.1`.
#[must_use]
pub fn plain_mean(value: Count) -> String {
    bare(value.get(), 1)
}

/// A whole number of things: `1 client`, `2 clients`.
#[must_use]
pub fn counted(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A whole number with thin groups of three: `24 576`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A length of time in the unit that suits it: `22.4 µs [21.9–23.0]`.
#[must_use]
pub fn seconds(estimate: &Estimate<Seconds>) -> Shown {
    shown(estimate, TIMES.step(estimate.value.get()))
}

/// A length of time without interval: `22.4 µs`; above two minutes `5 min 12 s`.
#[must_use]
pub fn plain_seconds(value: Seconds) -> String {
    let seconds = value.get();
    if !(seconds.is_finite() && seconds >= 120.0) {
        return alone(seconds, TIMES.step(seconds));
    }
    let whole = seconds.round();
    if whole < 7200.0 {
        format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        let minutes = (whole / 60.0).round();
        format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

/// A length of time with two digits, where no more are worth reading: `28 µs`, `1.5 ms`, `4 s`,
/// `5 min`.
#[must_use]
pub fn brief_seconds(value: Seconds) -> String {
    let seconds = value.get();
    if (120.0..7200.0).contains(&seconds) {
        return format!("{:.0} min", seconds / 60.0);
    }
    if !(seconds.is_finite() && seconds < 7200.0) {
        return plain_seconds(value);
    }
    let step = TIMES.step(seconds);
    let scaled = seconds / step.divisor;
    let text = bare(scaled, usize::from(order(scaled) < 1 && scaled < 9.95));
    format!("{}{}", text.strip_suffix(".0").unwrap_or(&text), step.suffix)
}

/// A quotient as a factor: `4.05× [3.79–4.34]`.
#[must_use]
pub fn factor(estimate: &Estimate<Ratio>) -> Shown {
    let step = Step { divisor: 1.0, suffix: "×" };
    shown(estimate, step)
}

/// A quotient as a factor, without interval, with two decimals below ten: `4.05×`.
#[must_use]
pub fn plain_factor(value: Ratio) -> String {
    let value = value.get();
    format!("{}×", bare(value, decimals(value, 0.0).min(3)))
}

/// A share as a percentage: `78 % [74–82]`.
#[must_use]
pub fn percent(estimate: &Estimate<Ratio>) -> Shown {
    let step = Step { divisor: 0.01, suffix: " %" };
    shown(estimate, step)
}

/// A share as a percentage with two significant digits: `4.1 %`, `0.30 %`, `78 %`, `< 0.01 %`,
/// `99.8 %`.
#[must_use]
pub fn plain_percent(value: Ratio) -> String {
    let percent = value.get() * 100.0;
    if percent.abs() < 0.005 {
        return if percent.abs() > 0.0 { "< 0.01 %" } else { "0 %" }.to_owned();
    }
    if (99.995..100.0).contains(&percent) {
        return "> 99.99 %".to_owned();
    }
    // Nearly all is not all.
    let nearly = if (99.5..99.95).contains(&percent) { 1 } else { 2 };
    let places = if (99.5..100.0).contains(&percent) { nearly } else { 1 - order(percent) };
    format!("{} %", bare(percent, usize::try_from(places.clamp(0, 2)).unwrap_or(0)))
}

/// Cores, without unit, never more than three decimals: `1.12 [1.08–1.15]`.
#[must_use]
pub fn cores(estimate: &Estimate<Cores>) -> Shown {
    let (value, low, high) = (estimate.value.get(), estimate.low.get(), estimate.high.get());
    let places = decimals(value, (high - low) / 2.0).min(3);
    if is_bare(estimate) {
        return Shown { value: bare(value, places), interval: String::new() };
    }
    let dash = if low < 0.0 { " to " } else { "–" };
    Shown {
        value: bare(value, places),
        interval: format!("[{}{dash}{}]", bare(low, places), bare(high, places)),
    }
}

/// Cores of a ledger line, with two decimals so that lines add up as printed:
/// `1.12 [1.08–1.15]`.
#[must_use]
pub fn ledger_cores(estimate: &Estimate<Cores>) -> Shown {
    let value = plain_cores(estimate.value);
    if is_bare(estimate) {
        return Shown { value, interval: String::new() };
    }
    let dash = if estimate.low.get() < 0.0 { " to " } else { "–" };
    let (low, high) = (plain_cores(estimate.low), plain_cores(estimate.high));
    Shown { value, interval: format!("[{low}{dash}{high}]") }
}

/// Cores without interval and with two decimals, for columns that must line up: `1.12`.
#[must_use]
pub fn plain_cores(value: Cores) -> String {
    bare(value.get(), if value.get().abs() < 100.0 { 2 } else { 0 })
}

/// Bytes in binary units: `24 GiB`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
pub fn bytes(value: u64) -> String {
    let value = value as f64;
    let steps = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in steps {
        let scaled = value / size as f64;
        if scaled >= 0.95 {
            return format!("{} {unit}", bare(scaled, usize::from(scaled < 9.5)));
        }
    }
    format!("{value:.0} B")
}

/// A probability: `0.012`, or `< 0.001`.
#[must_use]
pub fn probability(value: f64) -> String {
    if value < 0.001 { "< 0.001".to_owned() } else { bare(value, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(value: f64, low: f64, high: f64) -> Estimate<Ratio> {
        Estimate::of(value, low, high)
    }

    #[test]
    fn digits_follow_the_interval() {
        assert_eq!(factor(&ratio(4.0512, 3.7911, 4.3402)).to_string(), "4.05× [3.79–4.34]");
        assert_eq!(factor(&ratio(4.0512, 2.0, 7.0)).to_string(), "4.1× [2.0–7.0]");
        assert_eq!(factor(&ratio(40.512, 20.0, 80.0)).to_string(), "41× [20–80]");
        assert_eq!(percent(&ratio(0.7801, 0.74, 0.82)).to_string(), "78 % [74–82]");
        let wide = Estimate::<PerSecond>::of(10_712.0, 10_400.0, 11_000.0);
        assert_eq!(rate(&wide).to_string(), "10.7k [10.4–11.0]");
        let exact = Estimate::<PerSecond>::of(10_712.0, 10_712.0, 10_712.0);
        assert_eq!(rate(&exact).value, "10.7k");
        let time = Estimate::<Seconds>::of(22.36e-6, 21.9e-6, 22.9e-6);
        assert_eq!(seconds(&time).to_string(), "22.4 µs [21.9–22.9]");
        let once = Estimate::<Cores>::of(0.77, 0.77, 0.77);
        assert_eq!((cores(&once).to_string(), ledger_cores(&once).to_string()), {
            ("0.770".to_owned(), "0.77".to_owned())
        });
    }

    #[test]
    fn an_interval_below_zero_is_written_with_words() {
        let line = Estimate::<Cores>::of(-0.004, -0.04, 0.03);
        assert_eq!(cores(&line).to_string(), "0.00 [−0.04 to 0.03]");
        assert_eq!(ledger_cores(&line).to_string(), "0.00 [−0.04 to 0.03]");
        let wide = Estimate::<Cores>::of(0.544, 0.185, 0.868);
        assert_eq!(ledger_cores(&wide).to_string(), "0.54 [0.18–0.87]");
    }

    #[test]
    fn plain_numbers_have_units_that_suit() {
        assert_eq!(plain_seconds(Seconds(52.0)), "52.0 s");
        assert_eq!(plain_seconds(Seconds(312.4)), "5 min 12 s");
        assert_eq!(plain_seconds(Seconds(7384.0)), "2 h 3 min");
        assert_eq!(plain_seconds(Seconds(0.0)), "0.00 s");
        assert_eq!(plain_seconds(Seconds(4.2e-7)), "420 ns");
        assert_eq!(plain_percent(Ratio(0.041)), "4.1 %");
        assert_eq!(plain_percent(Ratio(0.003)), "0.30 %");
        assert_eq!(plain_percent(Ratio(0.18)), "18 %");
        assert_eq!(plain_percent(Ratio(0.0)), "0 %");
        assert_eq!(plain_percent(Ratio(1.0)), "100 %");
        assert_eq!(plain_percent(Ratio(0.99849)), "99.8 %");
        assert_eq!(plain_percent(Ratio(0.99999)), "> 99.99 %");
        assert_eq!(plain_percent(Ratio(1.1e-16)), "< 0.01 %");
        assert_eq!(brief_seconds(Seconds(27.98e-6)), "28 µs");
        assert_eq!(brief_seconds(Seconds(79.68)), "80 s");
        assert_eq!(brief_seconds(Seconds(4.03)), "4 s");
        assert_eq!(brief_seconds(Seconds(1.54e-3)), "1.5 ms");
        assert_eq!(brief_seconds(Seconds(312.4)), "5 min");
        assert_eq!(bytes(24 << 30), "24 GiB");
        assert_eq!(bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(plain(f64::NAN), "–");
        assert_eq!(probability(0.00004), "< 0.001");
    }

    proptest! {
        #[test]
        fn any_number_is_short(value in any::<f64>(), low in any::<f64>(), high in any::<f64>()) {
            let text = factor(&ratio(value, low, high)).value;
            prop_assert!(!text.is_empty());
            if value.abs() < 1e9 {
                prop_assert!(text.chars().count() <= 16, "{text}");
            }
        }

        #[test]
        fn the_printed_value_lies_within_half_a_last_digit(
            value in 0.01f64..1e4, part in 0.001f64..0.5,
        ) {
            let half = value * part;
            let text = factor(&ratio(value, value - half, value + half)).value;
            let read: f64 = text.trim_end_matches('×').parse().unwrap();
            let off = (read - value).abs();
            prop_assert!(off <= half * 0.55 + 5e-4 * value, "{text} for {value} ± {half}");
        }
    }
}

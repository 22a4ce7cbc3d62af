//! Scales from quantities to places, with ticks at round numbers.

/// A map from an interval of quantities to an interval of places; linear or logarithmic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    log: bool,
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    pub(super) fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { log: false, from: sound(from), to }
    }

    /// For quantities above zero.
    pub(super) fn log(from: (f64, f64), to: (f64, f64)) -> Self {
        let (low, high) = sound(from);
        let from = if low > 0.0 { (low.ln(), high.ln()) } else { (-1.0, 1.0) };
        Self { log: true, from, to }
    }

    /// The place of a quantity, held within the scale.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let part = (value - self.from.0) / (self.from.1 - self.from.0);
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.to.0 + part * (self.to.1 - self.to.0)
    }

    /// About `wanted` round quantities within the scale, ascending.
    pub(super) fn ticks(&self, wanted: u32) -> Vec<f64> {
        if self.log {
            log_ticks(self.from.0.exp(), self.from.1.exp(), wanted)
        } else {
            linear_ticks(self.from.0, self.from.1, wanted)
        }
    }
}

/// An interval that can be divided by its length.
fn sound((low, high): (f64, f64)) -> (f64, f64) {
    if low.is_finite() && high.is_finite() && high > low { (low, high) } else { (0.0, 1.0) }
}

/// The least of 1, 2, 2.5, 5 × 10^k that is no smaller than `rough`.
fn round_step(rough: f64) -> f64 {
    let base = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|factor| factor * base)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * base)
}

/// The least round number, of the same family as ticks, that is no smaller than `value`.
pub(super) fn ceiling(value: f64, wanted: u32) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let step = round_step(value / f64::from(wanted.max(1)));
    (value / step - 1e-9).ceil() * step
}

fn linear_ticks(low: f64, high: f64, wanted: u32) -> Vec<f64> {
    let step = round_step((high - low) / f64::from(wanted.max(1)));
    let first = (low / step - 1e-9).ceil();
    let mut ticks = Vec::new();
    for index in 0..=wanted * 3 {
        let tick = (first + f64::from(index)) * step;
        if tick > high + step * 1e-9 {
            break;
        }
        ticks.push(tick);
    }
    ticks
}

/// Round numbers from the coarsest family that gives at least three, else linear ticks.
fn log_ticks(low: f64, high: f64, wanted: u32) -> Vec<f64> {
    let families: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
    #[allow(clippy::cast_possible_truncation, reason = "log10 of an f64 lies within ±324")]
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    for family in families {
        let ticks: Vec<f64> = (first..=last)
            .flat_map(|power| family.iter().map(move |factor| factor * 10_f64.powi(power)))
            .filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9))
            .collect();
        if ticks.len() >= 3 {
            return ticks;
        }
    }
    linear_ticks(low, high, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::linear((0.0, 24_000.0), (0.0, 1.0)).ticks(5),
            [0.0, 5000.0, 10_000.0, 15_000.0, 20_000.0]
        );
        assert_eq!(Scale::log((0.5, 5.0), (0.0, 1.0)).ticks(5), [0.5, 1.0, 2.0, 5.0]);
        assert!((ceiling(10_712.0, 4) - 15_000.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn a_place_lies_within(low in any::<f64>(), high in any::<f64>(), value in any::<f64>()) {
            let screen = (10.0, 90.0);
            for scale in [Scale::linear((low, high), screen), Scale::log((low, high), screen)] {
                let place = scale.at(value);
                prop_assert!((10.0..=90.0).contains(&place), "{place}");
            }
        }

        #[test]
        fn few_ticks_and_all_inside(low in 1e-9f64..1e6, times in 1.001f64..1e4) {
            let high = low * times;
            let screen = (0.0, 1.0);
            for scale in [Scale::linear((low, high), screen), Scale::log((low, high), screen)] {
                let ticks = scale.ticks(5);
                prop_assert!(ticks.len() <= 30, "{ticks:?}");
                let within = |tick: &f64| *tick >= low * 0.999 && *tick <= high * 1.001;
                prop_assert!(ticks.iter().all(within));
                prop_assert!(ticks.is_sorted());
            }
        }
    }
}

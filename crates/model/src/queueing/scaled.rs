//! Positive numbers with an exponent of their own.
//!
//! Normalisation constants of large networks leave the range of a double on both sides at once:
//! with 512 servers and 4,096 clients they span thousands of orders of magnitude. Only sums and
//! products of positive numbers are needed, so nothing cancels and each step keeps 53 bits.

use std::ops::{Add, Mul};

/// `mantissa` × 2^`exponent`, with a mantissa in [1, 2), or 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaled {
    mantissa: f64,
    exponent: i64,
}

const EXPONENT: u64 = 0x7ff << 52;
const ONE_EXPONENT: u64 = 1023 << 52;
/// Terms smaller than this many bits below the greatest leave no trace in a sum.
const BELOW: i64 = 128;

impl Scaled {
    pub(super) const ZERO: Self = Self { mantissa: 0.0, exponent: i64::MIN / 4 };
    pub(super) const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    /// A number that is positive and not tiny, or 0.
    pub(super) fn new(value: f64) -> Self {
        Self::normal(value, 0)
    }

    fn normal(value: f64, exponent: i64) -> Self {
        if value < f64::MIN_POSITIVE {
            return Self::ZERO;
        }
        let bits = value.to_bits();
        let own = i64::try_from((bits & EXPONENT) >> 52).unwrap_or(0) - 1023;
        let mantissa = f64::from_bits(bits & !EXPONENT | ONE_EXPONENT);
        Self { mantissa, exponent: exponent + own }
    }

    /// self ÷ other, where that is within the range of a double. Not for a divisor of 0.
    pub(super) fn over(self, other: Self) -> f64 {
        let shift = (self.exponent - other.exponent).clamp(-1022, 1023);
        self.mantissa / other.mantissa * power(shift)
    }

    /// Σ aₖ bₖ.
    pub(super) fn dot(pairs: impl Iterator<Item = (Self, Self)> + Clone) -> Self {
        let top = pairs.clone().map(|(a, b)| a.exponent + b.exponent).max();
        let Some(top) = top else { return Self::ZERO };
        let term = |(a, b): (Self, Self)| {
            let shift = a.exponent + b.exponent - top;
            if shift < -BELOW { 0.0 } else { a.mantissa * b.mantissa * power(shift) }
        };
        Self::normal(pairs.map(term).sum(), top)
    }
}

/// 2^`shift`, for shifts of normal numbers.
fn power(shift: i64) -> f64 {
    f64::from_bits(u64::try_from(shift + 1023).unwrap_or(0) << 52)
}

impl Mul for Scaled {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::normal(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }
}

impl Add for Scaled {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, low) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shift = low.exponent - high.exponent;
        if shift < -BELOW {
            return high;
        }
        Self::normal(high.mantissa + low.mantissa * power(shift), high.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_beyond_the_range_of_a_double() {
        let mut product = Scaled::ONE;
        for _ in 0..5000 {
            product = product * Scaled::new(1e-3);
        }
        let mut other = product + product;
        assert!((other.over(product) - 2.0).abs() < 1e-15);
        other = other * Scaled::new(1e10) + product;
        assert!((other.over(product) / (2e10 + 1.0) - 1.0).abs() < 1e-14);
        assert!(Scaled::ZERO.over(product).abs() < 1e-300);
        let pairs = [(product, Scaled::new(3.0)), (Scaled::ZERO, product), (product, Scaled::ONE)];
        assert!((Scaled::dot(pairs.into_iter()).over(product) - 4.0).abs() < 1e-14);
    }
}

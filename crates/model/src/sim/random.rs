//! Random lengths from a stored seed: PCG, and exponentials by the ziggurat.

use super::{Ticks, seconds, ticks};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const LAYERS: usize = 256;
/// Where the tail begins, for 256 layers (Marsaglia and Tsang 2000).
const TAIL: f64 = 7.697_117_470_131_05;

/// How a length varies around its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always the same.
    Fixed(Ticks),
    /// Exponential with this mean, in picoseconds.
    Exponential(f64),
    /// Sum of this many exponentials, each with this mean: a coefficient of variation of 1 / √k.
    Erlang(u32, f64),
    /// One of two exponentials: with this probability the first mean, else the second.
    Mixed(f64, f64, f64),
}

impl Law {
    /// The law of this mean, in seconds, and coefficient of variation: 0 fixed, 1 exponential,
    /// between them the Erlang law nearest to it, above them two exponentials with balanced means.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn of(mean: f64, variation: f64) -> Self {
        let scale = mean * super::SECOND;
        let square = variation * variation;
        if square < 0.001 || scale <= 0.0 {
            Self::Fixed(ticks(mean))
        } else if (square - 1.0).abs() < 1e-9 {
            Self::Exponential(scale)
        } else if square < 1.0 {
            let stages = (1.0 / square).round().clamp(2.0, 1000.0);
            Self::Erlang(stages as u32, scale / stages)
        } else {
            let first = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
            Self::Mixed(first, 0.5 * scale / first, 0.5 * scale / (1.0 - first))
        }
    }

    /// Its mean in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(length) => seconds(length),
            Self::Exponential(mean) => mean / super::SECOND,
            Self::Erlang(stages, mean) => f64::from(stages) * mean / super::SECOND,
            Self::Mixed(p, a, b) => (p * a + (1.0 - p) * b) / super::SECOND,
        }
    }
}

/// The source of all chance of one replication.
#[derive(Clone, Debug)]
pub struct Draws {
    generator: Pcg64Mcg,
    /// Right edges of the layers, the widest first, and the density there.
    edge: Box<[f64; LAYERS + 1]>,
    density: Box<[f64; LAYERS + 1]>,
}

impl Draws {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut edge = Box::new([0.0; LAYERS + 1]);
        let mut density = Box::new([1.0; LAYERS + 1]);
        let area = (TAIL + 1.0) * (-TAIL).exp();
        edge[0] = area / (-TAIL).exp();
        edge[1] = TAIL;
        for layer in 2..LAYERS {
            edge[layer] = -((-edge[layer - 1]).exp() + area / edge[layer - 1]).ln();
        }
        for layer in 0..LAYERS {
            density[layer] = (-edge[layer]).exp();
        }
        Self { generator: Pcg64Mcg::seed_from_u64(seed), edge, density }
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a f64 exactly")]
    pub fn uniform(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform among `0..n`; 0 where `n` is 0.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the high half is below n")]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.generator.next_u64()) * u128::from(n)) >> 64) as u32
    }

    /// Exponential with mean 1.
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a f64 exactly")]
    pub fn exponential(&mut self) -> f64 {
        let bits = self.generator.next_u64();
        let layer = (bits & 0xff) as usize;
        let part = (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
        let length = part * self.edge[layer];
        if length < self.edge[layer + 1] { length } else { self.rarely(layer, length) }
    }

    #[cold]
    fn rarely(&mut self, mut layer: usize, mut length: f64) -> f64 {
        loop {
            if layer == 0 {
                return TAIL - (1.0 - self.uniform()).ln();
            }
            let low = self.density[layer];
            let high = self.density[layer + 1];
            if low + (high - low) * self.uniform() < (-length).exp() {
                return length;
            }
            layer = self.below(256) as usize;
            length = self.uniform() * self.edge[layer];
            if length < self.edge[layer + 1] {
                return length;
            }
        }
    }

    /// A length of this law.
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    pub fn length(&mut self, law: Law) -> Ticks {
        match law {
            Law::Fixed(length) => length,
            Law::Exponential(mean) => (self.exponential() * mean) as Ticks,
            _ => self.length_of_parts(law),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    fn length_of_parts(&mut self, law: Law) -> Ticks {
        match law {
            Law::Fixed(length) => length,
            Law::Exponential(mean) => (self.exponential() * mean) as Ticks,
            Law::Erlang(stages, mean) => {
                (0..stages).map(|_| (self.exponential() * mean) as Ticks).sum()
            }
            Law::Mixed(p, a, b) => {
                let mean = if self.uniform() < p { a } else { b };
                (self.exponential() * mean) as Ticks
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "small counts")]
    fn exponentials_have_the_moments_and_the_tail_they_should() {
        let mut draws = Draws::new(3);
        let n = 2_000_000;
        let (mut first, mut second, mut third) = (0.0, 0.0, 0.0);
        let mut beyond = [0_u32; 3];
        for _ in 0..n {
            let x = draws.exponential();
            first += x;
            second += x * x;
            third += x * x * x;
            for (count, limit) in beyond.iter_mut().zip([1.0, 4.0, 8.0]) {
                *count += u32::from(x > limit);
            }
        }
        let n = f64::from(n);
        assert!((first / n - 1.0).abs() < 0.003, "{}", first / n);
        assert!((second / n - 2.0).abs() < 0.02, "{}", second / n);
        assert!((third / n - 6.0).abs() < 0.15, "{}", third / n);
        for (count, limit) in beyond.iter().zip([1.0_f64, 4.0, 8.0]) {
            let expected = n * (-limit).exp();
            assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt(), "{limit}");
        }
    }

    #[test]
    fn a_law_has_its_mean_and_variation() {
        for variation in [0.0, 0.5, 1.0, 2.0, 4.0] {
            let law = Law::of(1e-6, variation);
            assert!((law.mean() - 1e-6).abs() < 1e-12, "{law:?}");
            let mut draws = Draws::new(5);
            let n = 400_000;
            let (mut sum, mut square) = (0.0, 0.0);
            for _ in 0..n {
                let x = seconds(draws.length(law)) * 1e6;
                sum += x;
                square += x * x;
            }
            let mean = sum / f64::from(n);
            let found = (square / f64::from(n) - mean * mean).max(0.0).sqrt() / mean;
            assert!((mean - 1.0).abs() < 0.03, "{variation}: mean {mean}");
            assert!((found - variation).abs() < 0.03 * (1.0 + variation), "{variation}: {found}");
        }
    }
}

//! The only source of randomness: a named generator built from an explicit seed.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// PCG XSL RR 128/64 (O'Neill 2014) with the few draws that the crate needs.
///
/// The algorithm is named, not 'the standard one', so that a stored seed keeps its meaning.
#[derive(Clone, Debug)]
pub struct Generator(Pcg64);

impl Generator {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// Uniform in the open interval (0, 1), 53 bits.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a f64 exactly")]
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Uniform among `0..n`; 0 where `n` is 0. The bias is below n / 2^64.
    #[allow(clippy::cast_possible_truncation, reason = "the high half of a product with n < 2^64")]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal (Box and Muller 1958, one of the two values).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts the items in random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_draws() {
        let mut a = Generator::new(7);
        let mut b = Generator::new(7);
        let mut c = Generator::new(8);
        let from_a: Vec<u64> = (0..50).map(|_| a.normal().to_bits()).collect();
        let from_b: Vec<u64> = (0..50).map(|_| b.normal().to_bits()).collect();
        let from_c: Vec<u64> = (0..50).map(|_| c.normal().to_bits()).collect();
        assert_eq!(from_a, from_b);
        assert_ne!(from_a, from_c);
    }

    #[test]
    fn draws_have_the_moments_they_should() {
        let mut generator = Generator::new(1);
        let n = 20_000;
        let draws: Vec<f64> = (0..n).map(|_| generator.normal()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
        let mut seen = [0_u32; 5];
        for _ in 0..5000 {
            seen[generator.below(5)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }

    #[test]
    fn shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..30).collect();
        Generator::new(3).shuffle(&mut items);
        assert_ne!(items, (0..30).collect::<Vec<u32>>());
        items.sort_unstable();
        assert_eq!(items, (0..30).collect::<Vec<u32>>());
    }
}

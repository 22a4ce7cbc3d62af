//! The random order of slices: seeded, so that a plan can be read before it is run.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random orders, each independent of the others.
#[derive(Debug, Clone)]
pub struct Order {
    generator: Pcg64Mcg,
}

impl Order {
    /// The stream of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { generator: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// `0..count` in random order (Fisher and Yates).
    #[must_use]
    pub fn next(&mut self, count: usize) -> Vec<usize> {
        let mut items: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }

    /// Uniform in `0..bound`, without the bias of a bare remainder.
    fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.generator.next_u64();
            if draw < limit {
                return usize::try_from(draw % bound).unwrap_or(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_is_a_permutation(seed: u64, count in 0_usize..200) {
            let mut order = Order::of(seed).next(count);
            order.sort_unstable();
            prop_assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn equal_seeds_give_equal_streams() {
        let (mut one, mut two) = (Order::of(7), Order::of(7));
        for _ in 0..10 {
            assert_eq!(one.next(9), two.next(9));
        }
    }

    #[test]
    fn every_item_comes_first_about_equally_often() {
        let mut order = Order::of(1);
        let mut first = [0_u32; 5];
        for _ in 0..5000 {
            first[order.next(5)[0]] += 1;
        }
        // 1000 expected each; 4 standard deviations are 113.
        assert!(first.iter().all(|&count| (887..=1113).contains(&count)), "{first:?}");
    }
}

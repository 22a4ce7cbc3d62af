//! The cells of a 2×2, block by block: what two variants do alone and together.

use crate::decision::Side;
use kneepoint_stats::paired::Pair;
use kneepoint_vocab::{Crossing, Level, Phase, Plan, TrialRecord};
use std::collections::BTreeMap;

/// Cells, in this order.
const BASE: usize = 0;
const ONE: usize = 1;
const OTHER: usize = 2;
const BOTH: usize = 3;

/// A block that holds all four cells of a 2×2: mean log throughputs, and what each weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    start: usize,
    block: usize,
    cells: [(f64, f64); 4],
}

/// The blocks that hold all four cells. Where the base is the baseline, the A/A control is it too.
#[must_use]
pub fn blocks(plan: &Plan, crossing: &Crossing<'_>, trials: &[&TrialRecord]) -> Vec<Block> {
    let bases = plan.bases(crossing.one);
    let [one, other, both] = crossing.cells();
    let mut found: BTreeMap<(u32, u32, Level), [Side; 4]> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.id.phase == Phase::Effects && t.counts()) {
        let cell = match &trial.id.variant {
            id if id == one => ONE,
            id if id == other => OTHER,
            id if id == both => BOTH,
            id if bases.contains(&id) => BASE,
            _ => continue,
        };
        let sides = found.entry((trial.id.start, trial.id.block, trial.id.level)).or_default();
        sides[cell].add(trial.throughput().0.ln(), trial.weight());
    }
    let block = |((start, block, _), sides): ((u32, u32, Level), [Side; 4])| {
        let [base, one, other, both] = sides.map(|side| side.mean());
        let cells = [base?, one?, other?, both?];
        Some(Block { start: start as usize, block: block as usize, cells })
    };
    found.into_iter().filter_map(block).collect()
}

impl Block {
    /// Log throughputs of the base, the one variant, the other, and both.
    #[must_use]
    pub fn logs(&self) -> [f64; 4] {
        self.cells.map(|(log, _)| log)
    }

    /// The one variant over the base.
    #[must_use]
    pub fn one(&self) -> Pair {
        self.pair(&[ONE], &[BASE])
    }

    /// The other variant over the base.
    #[must_use]
    pub fn other(&self) -> Pair {
        self.pair(&[OTHER], &[BASE])
    }

    /// Both over the base.
    #[must_use]
    pub fn together(&self) -> Pair {
        self.pair(&[BOTH], &[BASE])
    }

    /// Both over the one variant, over the other over the base.
    #[must_use]
    pub fn interaction(&self) -> Pair {
        self.pair(&[BOTH, BASE], &[ONE, OTHER])
    }

    /// The product of some cells over that of others. Variances add up; slices of weight 1 make a
    /// pair of weight 1.
    fn pair(&self, treated: &[usize], base: &[usize]) -> Pair {
        let product = |cells: &[usize]| cells.iter().map(|at| self.cells[*at].0).sum::<f64>();
        let all = || treated.iter().chain(base).map(|at| self.cells[*at].1);
        let variance = all().map(|weight| 1.0 / weight).sum::<f64>();
        let weight = all().map(|_| 1.0).sum::<f64>() / variance;
        // Only the ratio counts: a product of throughputs might be beyond what a number holds.
        let treated = (product(treated) - product(base)).exp();
        Pair { start: self.start, block: self.block, base: 1.0, treated, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_of_a_block_are_ratios_of_its_cells() {
        let cells = [(2.0_f64, 1.0), (3.0, 1.0), (4.0, 1.0), (9.0, 0.25)];
        let cells = cells.map(|(value, weight)| (value.ln(), weight));
        let block = Block { start: 1, block: 2, cells };
        for (pair, ratio, weight) in [
            (block.one(), 1.5, 1.0),
            (block.other(), 2.0, 1.0),
            (block.together(), 4.5, 2.0 / 5.0),
            (block.interaction(), 1.5, 4.0 / 7.0),
        ] {
            assert!((pair.treated / pair.base - ratio).abs() < 1e-12, "{pair:?}");
            assert!((pair.weight - weight).abs() < 1e-12, "{pair:?}");
            assert_eq!((pair.start, pair.block), (1, 2));
        }
    }
}

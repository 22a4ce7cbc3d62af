//! The account of each level: its mean row, its balance, and both again for every resample.

use crate::ledgers::balance::{Balance, Reference};
use crate::ledgers::resample::Resamples;
use crate::ledgers::row::{Row, mean_row, per_operation};
use crate::ledgers::slices::{Block, Slice, sweep_at};
use kneepoint_vocab::units::Unit;
use kneepoint_vocab::{Estimate, Level};
use std::collections::BTreeSet;

/// One level.
pub(crate) struct Account {
    pub(crate) level: Level,
    pub(crate) row: Row,
    pub(crate) balance: Balance,
    replicates: Vec<(Row, Balance)>,
}

impl Account {
    /// Seconds that an operation of a client is blocked, by wait group; none where clients were
    /// not seen.
    pub(crate) fn blocked_per_operation(&self) -> Vec<f64> {
        let row = Some(&self.row).filter(|row| row.clients > 0.0);
        row.map_or_else(Vec::new, |row| {
            row.blocked.iter().map(|blocked| per_operation(*blocked, row)).collect()
        })
    }
}

/// All levels that have core accounting, ascending.
pub(crate) struct Accounts {
    pub(crate) levels: Vec<Account>,
    pub(crate) reference: Reference,
    /// Where D is least.
    pub(crate) reference_level: Option<Level>,
    resamples: Resamples,
}

impl Accounts {
    /// From the baseline's sweep slices.
    pub(crate) fn build(slices: &[Slice<'_>], levels: &[Level], seed: u64) -> Self {
        Self::against(slices, levels, seed, None)
    }

    /// The same against no reference: no CPU counts as useful, and so all of it has its function's
    /// line.
    pub(crate) fn unreferenced(slices: &[Slice<'_>], levels: &[Level], seed: u64) -> Self {
        let functions = slices.iter().map(|slice| slice.row.profile.len()).max().unwrap_or(0);
        let by_function = Some(vec![0.0; functions]);
        let nothing = Reference { demand: 0.0, by_function, generator: 0.0 };
        Self::against(slices, levels, seed, Some(&nothing))
    }

    fn against(
        slices: &[Slice<'_>],
        levels: &[Level],
        seed: u64,
        given: Option<&Reference>,
    ) -> Self {
        let by_level: Vec<(Level, Vec<&Slice<'_>>)> = levels
            .iter()
            .map(|level| (*level, sweep_at(slices, *level)))
            .filter(|(_, slices)| !slices.is_empty())
            .collect();
        let blocks: BTreeSet<Block> =
            by_level.iter().flat_map(|(_, slices)| slices.iter().map(|s| s.block())).collect();
        let blocks: Vec<Block> = blocks.into_iter().collect();
        let resamples = Resamples::new(blocks.len(), seed);
        let rows: Vec<(Level, Row)> =
            by_level.iter().filter_map(|(level, s)| Some((*level, mean(s, |_| 1.0)?))).collect();
        let least = least_demand(&rows);
        let own = |least: Option<usize>, row: &dyn Fn(usize) -> Reference| match given {
            Some(given) => given.clone(),
            None => least.map(row).unwrap_or_default(),
        };
        let reference = own(least, &|at| Reference::of(&rows[at].1));
        let mut accounts: Vec<Account> = rows
            .iter()
            .map(|(level, row)| Account {
                level: *level,
                balance: Balance::of(row, &reference, *level),
                row: row.clone(),
                replicates: Vec::new(),
            })
            .collect();
        for weights in &resamples.weights {
            let drawn = |s: &Slice<'_>| {
                blocks.binary_search(&s.block()).map_or(0.0, |position| weights[position])
            };
            // A level that the drawn blocks lack keeps its mean.
            let rows: Vec<Row> = by_level
                .iter()
                .zip(&rows)
                .map(|((_, slices), (_, all))| mean(slices, drawn).unwrap_or_else(|| all.clone()))
                .collect();
            let reference = own(least, &|at| Reference::of(&rows[at]));
            for (account, row) in accounts.iter_mut().zip(rows) {
                let balance = Balance::of(&row, &reference, account.level);
                account.replicates.push((row, balance));
            }
        }
        let reference_level = least.map(|at| accounts[at].level);
        Self { levels: accounts, reference, reference_level, resamples }
    }

    /// The account of `level`.
    pub(crate) fn at(&self, level: Level) -> Option<&Account> {
        self.levels.iter().find(|account| account.level == level)
    }

    /// Whether there are blocks enough for intervals.
    pub(crate) fn have_intervals(&self) -> bool {
        !self.resamples.weights.is_empty()
    }

    /// A quantity of one level with its interval over blocks. `quantity` may give NaN where a
    /// resample cannot tell.
    pub(crate) fn estimate<U: Unit>(
        &self,
        account: &Account,
        quantity: impl Fn(&Row, &Balance) -> f64,
    ) -> Estimate<U> {
        let replicates: Vec<f64> =
            account.replicates.iter().map(|(row, balance)| quantity(row, balance)).collect();
        self.resamples.interval(quantity(&account.row, &account.balance), &replicates)
    }

    /// Quantities of two levels at once. Blocks are drawn for both alike, so that what a block does
    /// to all levels cancels in differences and ratios.
    pub(crate) fn between(
        &self,
        one: &Account,
        other: &Account,
        quantities: impl Fn((&Row, &Balance), (&Row, &Balance)) -> Vec<f64>,
    ) -> Between<'_> {
        let drawn = one.replicates.iter().zip(&other.replicates);
        Between {
            values: quantities((&one.row, &one.balance), (&other.row, &other.balance)),
            replicates: drawn.map(|(a, b)| quantities((&a.0, &a.1), (&b.0, &b.1))).collect(),
            resamples: &self.resamples,
        }
    }
}

/// Quantities of two levels, and what they are in each resample.
pub(crate) struct Between<'a> {
    /// As the quantities are listed.
    pub(crate) values: Vec<f64>,
    /// `[resample][quantity]`.
    replicates: Vec<Vec<f64>>,
    /// What ends of intervals are found with.
    resamples: &'a Resamples,
}

impl Between<'_> {
    /// What `quantity` makes of the values, with its interval over the blocks that both levels
    /// share.
    pub(crate) fn estimate<U: Unit>(&self, quantity: impl Fn(&[f64]) -> f64) -> Estimate<U> {
        let replicates: Vec<f64> = self.replicates.iter().map(|drawn| quantity(drawn)).collect();
        self.resamples.interval(quantity(&self.values), &replicates)
    }
}

fn mean(slices: &[&Slice<'_>], weight: impl Fn(&Slice<'_>) -> f64) -> Option<Row> {
    let weighted: Vec<(&Row, f64)> =
        slices.iter().map(|slice| (&slice.row, weight(slice))).collect();
    mean_row(&weighted)
}

/// The level with the least D. It is held fixed over the resamples: choosing it anew each time
/// would push D_ref below every single level's own.
fn least_demand(rows: &[(Level, Row)]) -> Option<usize> {
    (0..rows.len())
        .filter(|at| rows[*at].1.demand() > 0.0)
        .min_by(|a, b| rows[*a].1.demand().total_cmp(&rows[*b].1.demand()))
}

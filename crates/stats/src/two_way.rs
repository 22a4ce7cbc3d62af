//! Levels measured in blocks, on a machine that drifts: the log-additive two-way model.
//!
//! Slice i of level l in block b has ln x = μ(l) + β(b) + ε: the block effect β takes the machine's
//! drift out of the ratios between levels. Least squares on the log means of the cells, also where
//! cells are missing (slices thrown away) or replicated; the constraint Σ β = 0 over blocks scales
//! every level to the average block. See Montgomery, Design and Analysis of Experiments, chapter 4.
//!
//! # Intervals
//! Whole blocks are the units of resampling: slices of a block share its drift. Where the blocks
//! come from two starts or more, starts are the units, for the reason given in [`crate::paired`].
//! Each replicate is a multiplier (wild cluster) resample: every unit's deviation is multiplied by
//! one standard normal number common to all levels (Cameron, Gelbach and Miller 2008, with normal
//! weights), and the sum is divided by sqrt(χ²(k-1) / (k-1)). With K units,
//!
//! ln x\*(l) = μ(l) + T · \[ Σ g(k) β(k) / sqrt(K (K-1)) + Σ g(k) r(l, k) / sqrt(m (m-1)) \]
//!
//! with β(k) the unit's centred drift, r(l, k) its centred residual at level l, m the units that
//! have the level, and T as above. In a complete design the variance of any contrast of levels is
//! then exactly the one of the paired t interval, whatever the number of blocks; drawing blocks
//! with replacement and taking percentiles is too narrow by sqrt((K-1)/K) · z/t (4 blocks: by
//! half). A level that a single unit has borrows the pooled residual variance.

use crate::error::StatsError;
use crate::interval::{Interval, mean, percentile_interval};
use crate::linear::solve;
use crate::random::Generator;
use std::collections::{BTreeMap, BTreeSet};

/// One slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Level, numbered from 0 without gaps.
    pub level: usize,
    /// Which start of the system the block ran on; 0 where there is only one.
    pub start: usize,
    /// Block; blocks of different starts are different blocks even under one number.
    pub block: usize,
    /// The value, positive.
    pub value: f64,
}

/// From this many starts on, starts rather than blocks are resampled: with fewer the interval
/// would be governed by Student's t at one or two degrees of freedom and say nothing.
pub const STARTS_TO_RESAMPLE: usize = 4;

/// Observations of measured slices, as `(level, (start, block), value)`: blocks are numbered
/// through, and few starts count as one.
#[must_use]
pub fn observations(measured: &[(usize, (u32, u32), f64)]) -> Vec<Observation> {
    let starts: BTreeSet<u32> = measured.iter().map(|(_, (start, _), _)| *start).collect();
    let blocks: BTreeSet<(u32, u32)> = measured.iter().map(|(_, block, _)| *block).collect();
    let blocks: Vec<(u32, u32)> = blocks.into_iter().collect();
    let several = starts.len() >= STARTS_TO_RESAMPLE;
    let one = |&(level, block, value): &(usize, (u32, u32), f64)| Observation {
        level,
        start: if several { block.0 as usize } else { 0 },
        block: blocks.binary_search(&block).unwrap_or(0),
        value,
    };
    measured.iter().map(one).collect()
}

/// The drift of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockEffect {
    /// Its start.
    pub start: usize,
    /// Its number.
    pub block: usize,
    /// exp(β): the block over the average block.
    pub ratio: f64,
}

/// The fitted model with its resamples.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoWay {
    log_levels: Vec<f64>,
    /// `[level][resample]`, logs.
    replicates: Vec<Vec<f64>>,
    /// Standard deviation of ε: noise of one slice beyond the drift, on the log scale. Absent where
    /// the cells leave no degree of freedom.
    pub residual_sd: Option<f64>,
    /// Drift of each block, in the order of (start, block).
    pub blocks: Vec<BlockEffect>,
    /// Units of resampling: starts where there are several, else blocks.
    pub units: usize,
}

/// Fits the model and draws `resamples` replicates from `seed`.
///
/// # Errors
/// A value that is not positive; a level without observations; levels that never meet in a block;
/// fewer than two blocks.
pub fn fit(
    observations: &[Observation],
    resamples: usize,
    seed: u64,
) -> Result<TwoWay, StatsError> {
    let cells = Cells::of(observations)?;
    let (log_levels, drift) = cells.least_squares()?;
    let units = Units::of(&cells, &log_levels, &drift);
    if units.count < 2 {
        return Err(StatsError::TooFew { what: "blocks", needed: 2, found: units.count });
    }
    let blocks = cells.keys.iter().zip(&drift);
    let blocks = blocks.map(|(&(start, block), b)| BlockEffect { start, block, ratio: b.exp() });
    Ok(TwoWay {
        replicates: units.replicates(&log_levels, resamples, seed),
        residual_sd: units.residual_sd,
        blocks: blocks.collect(),
        units: units.count,
        log_levels,
    })
}

impl TwoWay {
    /// Number of levels.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.log_levels.len()
    }

    /// Number of resamples.
    #[must_use]
    pub fn resamples(&self) -> usize {
        self.replicates.first().map_or(0, Vec::len)
    }

    /// Geometric mean of a level, scaled to the average block.
    #[must_use]
    pub fn value(&self, level: usize) -> f64 {
        self.log_levels[level].exp()
    }

    /// The level in one resample, in the unit of the observations. Taking any function of the
    /// levels of one resample, over all resamples, gives that function's distribution.
    #[must_use]
    pub fn replicate(&self, level: usize, resample: usize) -> f64 {
        self.replicates[level][resample].exp()
    }

    /// The level with its interval on the absolute scale: drift between blocks included.
    #[must_use]
    pub fn level(&self, level: usize, confidence: f64) -> Interval {
        percentile_interval(self.log_levels[level], &self.replicates[level], confidence)
            .map(f64::exp)
    }

    /// The ratio of two levels with its interval: free of drift.
    #[must_use]
    pub fn ratio(&self, over: usize, under: usize, confidence: f64) -> Interval {
        let pairs = self.replicates[over].iter().zip(&self.replicates[under]);
        let differences: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
        percentile_interval(
            self.log_levels[over] - self.log_levels[under],
            &differences,
            confidence,
        )
        .map(f64::exp)
    }

    /// The interval of the machine's average state over blocks, as a ratio around 1: the part of
    /// every level's interval that all levels share.
    #[must_use]
    pub fn drift(&self, confidence: f64) -> Interval {
        let centre = mean(&self.log_levels);
        let shift = |resample: usize| {
            let column: Vec<f64> = self.replicates.iter().map(|row| row[resample]).collect();
            mean(&column) - centre
        };
        let shifts: Vec<f64> = (0..self.resamples()).map(shift).collect();
        percentile_interval(0.0, &shifts, confidence).map(f64::exp)
    }
}

/// Log means by block and level.
struct Cells {
    levels: usize,
    /// (start, block) of each row.
    keys: Vec<(usize, usize)>,
    /// `[block]{level -> log mean}`.
    rows: Vec<BTreeMap<usize, f64>>,
}

impl Cells {
    fn of(observations: &[Observation]) -> Result<Self, StatsError> {
        let mut found: BTreeMap<(usize, usize), BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
        for (index, o) in observations.iter().enumerate() {
            if !(o.value.is_finite() && o.value > 0.0) {
                return Err(StatsError::NotPositive { index, value: o.value });
            }
            let row = found.entry((o.start, o.block)).or_default();
            row.entry(o.level).or_default().push(o.value.ln());
        }
        let levels = observations.iter().map(|o| o.level + 1).max().unwrap_or(0);
        if levels == 0 {
            return Err(StatsError::TooFew { what: "slices", needed: 2, found: 0 });
        }
        let keys = found.keys().copied().collect();
        let rows: Vec<BTreeMap<usize, f64>> = found
            .into_values()
            .map(|row| row.into_iter().map(|(level, logs)| (level, mean(&logs))).collect())
            .collect();
        match (0..levels).find(|level| rows.iter().all(|row| !row.contains_key(level))) {
            Some(level) => Err(StatsError::EmptyLevel { level }),
            None => Ok(Self { levels, keys, rows }),
        }
    }

    /// Levels (log, average block) and block effects (log, adding up to 0).
    ///
    /// Eliminating the blocks leaves for the levels the equations
    /// Σ_b (n - 1/N_b) α = Σ_b (y - mean of the block), singular by one constant: level 0 is held
    /// at 0.
    #[allow(clippy::cast_precision_loss, reason = "numbers of slices are far below 2^53")]
    fn least_squares(&self) -> Result<(Vec<f64>, Vec<f64>), StatsError> {
        self.connected()?;
        let mut matrix = vec![vec![0.0; self.levels]; self.levels];
        let mut right = vec![0.0; self.levels];
        for row in &self.rows {
            let share = 1.0 / row.len() as f64;
            let centre = row.values().sum::<f64>() * share;
            for (&level, y) in row {
                right[level] += y - centre;
                matrix[level][level] += 1.0;
                for &other in row.keys() {
                    matrix[level][other] -= share;
                }
            }
        }
        let reduced = matrix.iter().skip(1).map(|row| row[1..].to_vec()).collect();
        let mut levels = vec![0.0];
        levels.extend(
            solve(reduced, right[1..].to_vec()).ok_or(StatsError::NotConnected { level: 1 })?,
        );
        let offset = |row: &BTreeMap<usize, f64>| {
            mean(&row.iter().map(|(&level, y)| y - levels[level]).collect::<Vec<f64>>())
        };
        let mut drift: Vec<f64> = self.rows.iter().map(offset).collect();
        let average = mean(&drift);
        drift.iter_mut().for_each(|b| *b -= average);
        levels.iter_mut().for_each(|level| *level += average);
        Ok((levels, drift))
    }

    /// Whether blocks link every level with level 0.
    fn connected(&self) -> Result<(), StatsError> {
        let mut reached = vec![false; self.levels];
        reached[0] = true;
        for _ in 0..self.levels {
            for row in &self.rows {
                if row.keys().any(|&level| reached[level]) {
                    row.keys().for_each(|&level| reached[level] = true);
                }
            }
        }
        match reached.iter().position(|reached| !reached) {
            Some(level) => Err(StatsError::NotConnected { level }),
            None => Ok(()),
        }
    }
}

/// Deviations by unit of resampling.
struct Units {
    count: usize,
    /// Drift by unit, centred.
    drift: Vec<f64>,
    /// `[level]{unit -> residual}`, centred.
    residuals: Vec<BTreeMap<usize, f64>>,
    residual_sd: Option<f64>,
}

#[allow(clippy::cast_precision_loss, reason = "numbers of blocks are far below 2^53")]
impl Units {
    fn of(cells: &Cells, log_levels: &[f64], drift: &[f64]) -> Self {
        let mut starts: Vec<usize> = cells.keys.iter().map(|key| key.0).collect();
        starts.dedup();
        let several = starts.len() > 1;
        let unit_of = |row: usize| {
            if several { starts.partition_point(|&s| s < cells.keys[row].0) } else { row }
        };
        let count = if several { starts.len() } else { cells.rows.len() };
        let mut drifts = vec![Vec::new(); count];
        let mut residuals: Vec<BTreeMap<usize, Vec<f64>>> = vec![BTreeMap::new(); cells.levels];
        let (mut squares, mut slices) = (0.0, 0);
        for (row, values) in cells.rows.iter().enumerate() {
            drifts[unit_of(row)].push(drift[row]);
            for (&level, y) in values {
                let residual = y - log_levels[level] - drift[row];
                squares += residual * residual;
                slices += 1;
                residuals[level].entry(unit_of(row)).or_default().push(residual);
            }
        }
        let degrees = (slices + 1_usize).saturating_sub(cells.levels + cells.rows.len());
        Self {
            count,
            drift: centred(drifts.iter().map(|d| mean(d)).collect()),
            residuals: residuals.iter().map(centred_map).collect(),
            residual_sd: (degrees > 0).then(|| (squares / degrees as f64).sqrt()),
        }
    }

    /// `[level][resample]` of log levels.
    fn replicates(&self, log_levels: &[f64], resamples: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut generator = Generator::new(seed);
        let mut replicates = vec![Vec::with_capacity(resamples); log_levels.len()];
        let whole = scale(self.count);
        for _ in 0..resamples {
            let weights: Vec<f64> = (0..self.count).map(|_| generator.normal()).collect();
            let spare = generator.normal();
            let squares: Vec<f64> = (1..self.count).map(|_| generator.normal().powi(2)).collect();
            let student = |units: usize| {
                ((units - 1) as f64 / squares[..units - 1].iter().sum::<f64>()).sqrt()
            };
            let drift: f64 = weights.iter().zip(&self.drift).map(|(g, b)| g * b).sum();
            let common = student(self.count) * whole * drift;
            for (level, centre) in log_levels.iter().enumerate() {
                let own = &self.residuals[level];
                let noise = if own.len() < 2 {
                    spare * student(self.count) * self.residual_sd.unwrap_or(0.0)
                } else {
                    let sum: f64 = own.iter().map(|(&unit, r)| weights[unit] * r).sum();
                    student(own.len()) * scale(own.len()) * sum
                };
                replicates[level].push(centre + common + noise);
            }
        }
        replicates
    }
}

/// 1 / sqrt(n (n - 1)): turns a sum of weighted deviations into one of the mean's variance s²/n.
#[allow(clippy::cast_precision_loss, reason = "numbers of blocks are far below 2^53")]
fn scale(n: usize) -> f64 {
    1.0 / (n as f64 * (n as f64 - 1.0)).sqrt()
}

fn centred(values: Vec<f64>) -> Vec<f64> {
    let centre = mean(&values);
    values.into_iter().map(|x| x - centre).collect()
}

fn centred_map(values: &BTreeMap<usize, Vec<f64>>) -> BTreeMap<usize, f64> {
    let means: Vec<f64> = values.values().map(|v| mean(v)).collect();
    values.keys().copied().zip(centred(means)).collect()
}

#[cfg(test)]
mod tests;

//! What a caller asks of a run.

use kneepoint_rig::recipe::{LevelSpec, Recipe};
use kneepoint_vocab::{Nanos, Ratio, Tier};
use std::path::PathBuf;

/// A recipe and what the command line changes in it.
#[derive(Debug)]
pub struct RunOptions {
    /// The experiment.
    pub recipe: Recipe,
    /// Levels instead of the recipe's.
    pub levels: Option<Vec<LevelSpec>>,
    /// Level at which variants are tried instead of the recipe's.
    pub try_at: Option<LevelSpec>,
    /// Numbers of cores to give the system, in turn; all of them where absent.
    pub cores: Option<Vec<u32>>,
    /// Cores that only the load generator uses, 0 to share those of the system; by rule where
    /// absent.
    pub generator_cores: Option<u32>,
    /// Seed; drawn from the clock where absent.
    pub seed: Option<u64>,
    /// Half-width of an effect's interval at which it may stop.
    pub precision: Option<Ratio>,
    /// Part of the throughput that the collector may take, where more than usual is allowed.
    pub allowed_overhead: Option<Ratio>,
    /// Wall-clock budget of the run.
    pub budget: Option<Nanos>,
    /// Collector tier; the best available where absent.
    pub tier: Option<Tier>,
    /// The run directory to make.
    pub directory: PathBuf,
    /// Whether it may get a number where there is one of this name.
    pub numbered: bool,
    /// The executable that serves embedded workloads: this one.
    pub server: PathBuf,
}

//! What the caller of a run learns.

use std::path::PathBuf;

/// How a run ended, for the caller.
#[derive(Debug)]
pub struct Outcome {
    /// The run directory.
    pub directory: PathBuf,
    /// Someone asked it to stop.
    pub interrupted: bool,
}

/// A run that failed with slices on disk.
#[derive(Debug, thiserror::Error)]
#[error(
    "{error:#}; what was measured until then lies in {place}: `kneepoint report {place}` tells it",
    place = .directory.display()
)]
pub struct Kept {
    /// The run directory.
    pub directory: PathBuf,
    /// What failed.
    pub error: anyhow::Error,
}

//! What killed Kneepoints have left behind, put right: what they started is ended, what they
//! changed is undone, their scratch directories go.

use crate::ending;
use crate::scratch;
use crate::undo;
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What [`recover`] found and put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Scratch directories that were removed.
    pub removed: Vec<PathBuf>,
    /// Processes that were ended, with their names.
    pub ended: Vec<(u32, String)>,
}

/// Removes the scratch directories of this user's Kneepoints that were killed, and ends what they
/// had started. Directories and processes of living Kneepoints and of other users stay.
///
/// # Errors
/// Something cannot be removed or ended; the rest is tried all the same.
pub fn recover() -> anyhow::Result<Recovered> {
    // Before the directories: a system that runs would write into one that is being removed.
    let ended = ending::end_marked(scratch::is_of_dead);
    let shared_memory = PathBuf::from(scratch::SHARED_MEMORY);
    let temporary = std::env::temp_dir();
    let mut removed = recover_in(&shared_memory);
    if temporary != shared_memory {
        let others = recover_in(&temporary);
        removed = removed.and_then(|removed| Ok([removed, others?].concat()));
    }
    Ok(Recovered { removed: removed?, ended: ended? })
}

/// [`recover`] for the scratch directories below `parent`.
///
/// # Errors
/// One of them cannot be removed; the others are tried all the same.
pub fn recover_in(parent: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(parent) else { return Ok(Vec::new()) };
    let mut removed = Vec::new();
    let mut failure = None;
    for path in
        entries.flatten().map(|entry| entry.path()).filter(|path| scratch::is_left_over(path))
    {
        let gone = undo::undo_left(&path).and_then(|()| {
            scratch::remove(&path, None).with_context(|| path.display().to_string())
        });
        match gone {
            Ok(()) => removed.push(path),
            Err(error) => failure = Some(error),
        }
    }
    removed.sort();
    match failure {
        None => Ok(removed),
        Some(error) => Err(error.context("what a dead run has left cannot be put right")),
    }
}

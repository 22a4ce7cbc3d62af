//! The database's files in the scratch directory, removed by whichever side outlives the other.

use std::fs;
use std::path::{Path, PathBuf};

/// Removes a database file and its companions when dropped. The file need not exist.
#[derive(Debug)]
pub(super) struct DatabaseFile(PathBuf);

impl DatabaseFile {
    /// A guard for the database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where the database is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.0.clone().into_os_string();
            name.push(suffix);
            if let Err(error) = fs::remove_file(&name)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!("{}: cannot be removed: {error}", PathBuf::from(name).display());
            }
        }
    }
}

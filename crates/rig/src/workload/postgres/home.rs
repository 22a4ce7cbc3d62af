//! A directory of a server's own in the scratch directory, where its account can reach it.

use crate::process::Account;
use anyhow::Context as _;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// A directory that nobody but its account can enter. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    /// Makes it below `scratch`, in place of what an earlier one of this name has left.
    pub(super) fn make(
        scratch: &Path,
        name: &str,
        account: Option<Account>,
    ) -> anyhow::Result<Self> {
        let path = scratch.join(name);
        let reported = || format!("{}: no directory for PostgreSQL can be made", path.display());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(reported);
            }
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&path).with_context(reported)?;
        let home = Self(path.clone());
        if let Some(account) = account {
            chown(&path, Some(account.user), Some(account.group)).with_context(reported)?;
            // The account only passes through: it can neither list the scratch directory nor
            // write to it.
            fs::set_permissions(scratch, Permissions::from_mode(0o711)).with_context(reported)?;
        }
        Ok(home)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Moves it to `path`, where it stays.
    pub(super) fn keep_as(self, path: &Path) -> anyhow::Result<()> {
        fs::rename(&self.0, path)
            .with_context(|| format!("{} cannot become {}", self.0.display(), path.display()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{}: cannot be removed: {error}", self.0.display());
        }
    }
}

//! Where programs are looked for: the same when a need is reported as when one is started.

use anyhow::{Context as _, bail};
use kneepoint_machine::{Start, Stream};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where Debian keeps servers and the administrator's programs, which an ordinary user's `PATH`
/// leaves out.
const ADMINISTRATION: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Folders in which a program of a bare name is looked for, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// Kneepoint's own `PATH`, then where Debian keeps servers.
    #[must_use]
    pub fn own() -> Self {
        let mut path = Self::of(&std::env::var_os("PATH").unwrap_or_default());
        path.0.extend(ADMINISTRATION.map(PathBuf::from));
        path
    }

    /// The folders of a text like `PATH`. Relative ones are left out: a program does not run
    /// where it is looked for.
    #[must_use]
    pub fn of(path: &OsStr) -> Self {
        Self(std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect())
    }

    /// The folders.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// The executable of this name; a path is taken as it is.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| is_executable(path));
        }
        self.folders().map(|folder| folder.join(name)).find(|file| is_executable(file))
    }

    /// What is to be executed for this program: the file that [`Self::find`] finds, else the
    /// program as it is, so that starting it fails with its name.
    #[must_use]
    pub fn resolved(&self, program: &Path) -> PathBuf {
        let bare = program.to_str().filter(|name| !name.contains('/'));
        bare.and_then(|name| self.find(name)).unwrap_or_else(|| program.to_owned())
    }

    /// Runs the program of this name to its end.
    ///
    /// # Errors
    /// It cannot be started or fails; with what it said.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let ended = Start::new(self.resolved(Path::new(program)))
            .args(arguments)
            .input(Stream::Nothing)
            .finish()
            .with_context(|| format!("{program} cannot be started"))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.complained);
        let line = format!("{program} {}", arguments.join(" "));
        bail!("{line}: {}: {}", ended.status, said.trim().lines().last().unwrap_or_default())
    }
}

/// Whether anybody may execute a file.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn the_first_folder_with_an_executable_wins() {
        let folder = tempfile::TempDir::new().unwrap();
        let place = |name: &str| folder.path().join(name);
        for (name, mode) in [("a", 0o644), ("b", 0o755), ("c", 0o755)] {
            fs::create_dir(place(name)).unwrap();
            fs::write(place(name).join("tool"), "").unwrap();
            fs::set_permissions(place(name).join("tool"), Permissions::from_mode(mode)).unwrap();
        }
        let joined = std::env::join_paths(["a", "b", "c"].map(place)).unwrap();
        let path = SearchPath::of(&joined);
        assert_eq!(path.find("tool"), Some(place("b").join("tool")));
        assert_eq!(path.resolved(Path::new("tool")), place("b").join("tool"));
        assert_eq!(path.find("other"), None);
        assert_eq!(path.resolved(Path::new("other")), Path::new("other"));
        // A program with a path is not looked for.
        assert_eq!(path.resolved(Path::new("./tool")), Path::new("./tool"));
        assert_eq!(path.find("/nonexistent/tool"), None);
    }

    #[test]
    fn an_empty_path_and_relative_folders_hold_nothing() {
        assert_eq!(SearchPath::of(OsStr::new("")).folders().count(), 0);
        assert_eq!(SearchPath::of(OsStr::new(".::bin")).folders().count(), 0);
    }
}

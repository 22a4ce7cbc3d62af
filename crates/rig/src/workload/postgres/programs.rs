//! Where PostgreSQL's programs are.

use crate::search_path::{SearchPath, is_executable};
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian keeps the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The programs, all of one version.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// The server.
    pub(super) postgres: PathBuf,
    /// What makes an empty cluster.
    pub(super) initdb: PathBuf,
    /// The load generator.
    pub(super) pgbench: PathBuf,
}

impl Programs {
    /// Those in the first folder of `path` that has all, else the newest that Debian has.
    pub(super) fn find(path: &SearchPath) -> Option<Self> {
        let folders = path.folders().map(Path::to_owned);
        folders.chain(newest_first(Path::new(VERSIONS))).find_map(|folder| {
            let found = |name| Some(folder.join(name)).filter(|file| is_executable(file));
            Some(Self {
                postgres: found("postgres")?,
                initdb: found("initdb")?,
                pgbench: found("pgbench")?,
            })
        })
    }
}

fn newest_first(versions: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    let number = |name: &str| name.split('.').map_while(|part| part.parse::<u32>().ok()).collect();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| Some((number(entry.file_name().to_str()?), entry.path())))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder.join("bin")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_10_is_newer_than_9_6() {
        let folder = tempfile::TempDir::new().unwrap();
        for version in ["9.6", "15", "9.10", "10", "odd"] {
            fs::create_dir(folder.path().join(version)).unwrap();
        }
        let wanted = ["15", "10", "9.10", "9.6", "odd"];
        let wanted = wanted.map(|version| folder.path().join(version).join("bin"));
        assert_eq!(newest_first(folder.path()), wanted);
        assert_eq!(newest_first(Path::new("/nonexistent")), Vec::<PathBuf>::new());
    }
}

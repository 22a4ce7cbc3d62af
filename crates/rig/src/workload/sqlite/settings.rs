//! The settings of the SQLite workload: five factors and a size, from text and back.

use super::NAME;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the database lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Database {
    /// In the page cache alone.
    Memory,
    /// In a file in the scratch directory.
    File,
}

/// Whose a page cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cache {
    /// One for all connections of the process.
    Shared,
    /// One for each connection.
    Private,
}

/// Where SQLite's allocations come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Allocator {
    /// The C library's `malloc`, through SQLite's default.
    Libc,
    /// mimalloc, for SQLite alone.
    Mimalloc,
}

/// Everything in which two variants of this workload can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Where the database lives.
    pub(super) database: Database,
    /// Whose a page cache is.
    pub(super) cache: Cache,
    /// Whether each connection has a mutex of its own (SQLite's serialized mode).
    pub(super) connection_mutex: bool,
    /// Whether SQLite counts the memory it allocates.
    pub(super) memstatus: bool,
    /// Where SQLite's allocations come from.
    pub(super) allocator: Allocator,
    /// Most bytes of the database file that a connection maps; 0 for none.
    pub(super) mmap: u32,
    /// Rows of the table.
    pub(super) rows: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            database: Database::Memory,
            cache: Cache::Shared,
            connection_mutex: false,
            memstatus: true,
            allocator: Allocator::Libc,
            mmap: 0,
            rows: 100_000,
        }
    }
}

const MOST_MMAP: u32 = 0x7fff_0000;
const LEAST_ROWS: u32 = 1_000;
const MOST_ROWS: u32 = 100_000_000;

impl Settings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let default = Self::default();
        let mut reader = Reader::new(NAME, texts);
        let databases = [("memory", Database::Memory), ("file", Database::File)];
        let caches = [("shared", Cache::Shared), ("private", Cache::Private)];
        let mutexes = [("none", false), ("connection", true)];
        let allocators = [("libc", Allocator::Libc), ("mimalloc", Allocator::Mimalloc)];
        let settings = Self {
            database: reader.one_of("database", &databases, default.database)?,
            cache: reader.one_of("cache", &caches, default.cache)?,
            connection_mutex: reader.one_of("mutex", &mutexes, default.connection_mutex)?,
            memstatus: reader.switch("memstatus", default.memstatus)?,
            allocator: reader.one_of("allocator", &allocators, default.allocator)?,
            mmap: reader.parsed("mmap", default.mmap, mapped)?,
            rows: reader.number("rows", LEAST_ROWS..=MOST_ROWS, default.rows)?,
        };
        reader.environment()?;
        reader.finish()?;
        settings.fit_together()?;
        Ok(settings)
    }

    /// What is to be set in the child's environment.
    pub(super) fn environment(texts: &BTreeMap<String, String>) -> Result<Variables, SettingError> {
        Reader::new(NAME, texts).environment()
    }

    /// A database in memory *is* its page cache: private caches would be separate, empty
    /// databases, and there is no file to map.
    fn fit_together(&self) -> Result<(), SettingError> {
        if self.database == Database::Memory && self.cache == Cache::Private {
            let problem = "cache = private needs database = file: in memory, each connection \
                           would have a database of its own";
            return Err(refusal("cache", problem));
        }
        if self.database == Database::Memory && self.mmap > 0 {
            return Err(refusal("mmap", "mmap above 0 needs database = file: memory has no file"));
        }
        Ok(())
    }
}

/// The most that a connection may map.
fn mapped(text: &str) -> Result<u32, String> {
    let size = bytes(text).filter(|&size| size <= MOST_MMAP);
    size.ok_or_else(|| "must be 0 to 2047MiB, such as 256MiB".to_owned())
}

/// A number of bytes, or of MiB with that suffix.
fn bytes(text: &str) -> Option<u32> {
    match text.strip_suffix("MiB") {
        Some(number) => number.trim().parse::<u32>().ok()?.checked_mul(1 << 20),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let owned = texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::parse(&owned.collect())
    }

    #[test]
    fn nothing_said_is_the_baseline() {
        let baseline = [
            ("database", "memory"),
            ("cache", "shared"),
            ("mutex", "none"),
            ("memstatus", "on"),
            ("allocator", "libc"),
            ("mmap", "0"),
            ("rows", "100000"),
        ];
        assert_eq!(parse(&baseline).unwrap(), Settings::default());
    }

    #[test]
    fn each_setting_is_read() {
        let texts = [
            ("database", "file"),
            ("cache", "private"),
            ("mutex", "connection"),
            ("memstatus", "off"),
            ("allocator", "mimalloc"),
            ("mmap", "256MiB"),
            ("rows", "2000"),
        ];
        let expected = Settings {
            database: Database::File,
            cache: Cache::Private,
            connection_mutex: true,
            memstatus: false,
            allocator: Allocator::Mimalloc,
            mmap: 268_435_456,
            rows: 2000,
        };
        assert_eq!(parse(&texts).unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = [
            ("cache", "warm", "cache must be shared or private (found \"warm\")"),
            ("allocator", "jemalloc", "allocator must be libc or mimalloc (found \"jemalloc\")"),
            ("mmap", "3000MiB", "mmap must be 0 to 2047MiB, such as 256MiB (found \"3000MiB\")"),
            ("mmap", "99999999999999999999MiB", "mmap must be 0 to 2047MiB"),
            ("mmap", "-1", "mmap must be 0 to 2047MiB"),
            ("rows", "0", "rows must be 1000 to 100000000 (found \"0\")"),
            ("rwos", "5", "sqlite-oltp has no setting \"rwos\""),
            ("cache", "private", "cache = private needs database = file"),
            ("mmap", "1MiB", "mmap above 0 needs database = file"),
        ];
        for (key, value, message) in refused {
            let error = parse(&[(key, value)]).unwrap_err();
            assert_eq!(error.setting, key);
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
    }
}

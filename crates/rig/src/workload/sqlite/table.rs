//! The database: how a connection to it is opened, and the table that it holds.
//!
//! The table is sysbench's `sbtest1`: `id` 1 to n, a random `k` with an index on it, and two
//! texts of digits, 119 and 59 characters. The rows are a function of the seed alone, so that all
//! variants of a run read the same rows.

use super::settings::{Cache, Database, Settings};
use anyhow::Context as _;
use rand_core::Rng;
use rand_pcg::Pcg64;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use std::fmt::Write as _;
use std::path::Path;

const SCHEMA: &str = "CREATE TABLE sbtest1 (
    id INTEGER PRIMARY KEY NOT NULL,
    k INTEGER NOT NULL DEFAULT 0,
    c CHAR(120) NOT NULL DEFAULT '',
    pad CHAR(60) NOT NULL DEFAULT ''
)";
const INSERT: &str = "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?1, ?2, ?3, ?4)";
const INDEX: &str = "CREATE INDEX k_1 ON sbtest1 (k)";

/// The stream of the generator that rows come from; clients have the streams 0, 1, 2 ...
const ROW_STREAM: u128 = u128::MAX;

/// Opens one more connection to the database of this process.
pub(super) fn open(settings: &Settings, file: &Path) -> anyhow::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    flags |= match settings.cache {
        Cache::Shared => OpenFlags::SQLITE_OPEN_SHARED_CACHE,
        Cache::Private => OpenFlags::SQLITE_OPEN_PRIVATE_CACHE,
    };
    flags |= if settings.connection_mutex {
        OpenFlags::SQLITE_OPEN_FULL_MUTEX
    } else {
        OpenFlags::SQLITE_OPEN_NO_MUTEX
    };
    let connection = match settings.database {
        Database::Memory => {
            let name = "file:kneepoint?mode=memory&cache=shared";
            Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)
        }
        Database::File => Connection::open_with_flags(file, flags),
    };
    let connection = connection.context("SQLite does not open the database")?;
    if settings.mmap > 0 {
        connection
            .pragma_update_and_check(None, "mmap_size", settings.mmap, |_| Ok(()))
            .context("SQLite does not take PRAGMA mmap_size")?;
    }
    Ok(connection)
}

/// Makes the table and its rows in one transaction.
pub(super) fn load(connection: &mut Connection, rows: u32, seed: u64) -> anyhow::Result<()> {
    fill(connection, rows, seed).context("SQLite does not take the rows")
}

fn fill(connection: &mut Connection, rows: u32, seed: u64) -> rusqlite::Result<()> {
    // Nobody needs these rows after a power failure.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let mut random = Pcg64::new(u128::from(seed), ROW_STREAM);
    let transaction = connection.transaction()?;
    transaction.execute(SCHEMA, [])?;
    {
        let mut insert = transaction.prepare(INSERT)?;
        let (mut c, mut pad) = (String::new(), String::new());
        for id in 1..=rows {
            digit_groups(&mut c, 10, &mut random);
            digit_groups(&mut pad, 5, &mut random);
            insert.execute((id, uniform(&mut random, rows), &c, &pad))?;
        }
    }
    transaction.execute(INDEX, [])?;
    transaction.commit()
}

/// What SQLite tells of itself on this connection, as `name, value`.
pub(super) fn about(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    const QUESTIONS: [(&str, &str); 7] = [
        ("SQLite", "SELECT sqlite_version()"),
        ("SQLite source", "SELECT sqlite_source_id()"),
        ("page size", "SELECT page_size FROM pragma_page_size"),
        ("pages", "SELECT page_count FROM pragma_page_count"),
        ("cache size", "SELECT cache_size FROM pragma_cache_size"),
        ("journal mode", "SELECT journal_mode FROM pragma_journal_mode"),
        ("synchronous", "SELECT synchronous FROM pragma_synchronous"),
    ];
    let ask = |(name, question): (&str, &str)| {
        let answer = connection.query_row(question, [], |row| row.get::<_, Value>(0))?;
        let text = match answer {
            Value::Text(text) => text,
            Value::Integer(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        Ok((name.to_owned(), text))
    };
    QUESTIONS.into_iter().map(ask).collect()
}

/// An id from 1 to `rows`, each equally likely up to `rows / 2^32` (multiplication instead of
/// division: Lemire 2019, *Fast random integer generation in an interval*, without its rejection
/// step).
pub(super) fn uniform(random: &mut Pcg64, rows: u32) -> u32 {
    let scaled = u64::from(random.next_u32()) * u64::from(rows);
    u32::try_from(scaled >> 32).unwrap_or(0) + 1
}

/// Fills `text` with so many groups of eleven random digits, joined by `-`.
fn digit_groups(text: &mut String, groups: usize, random: &mut Pcg64) {
    text.clear();
    for group in 0..groups {
        let digits = random.next_u64() % 100_000_000_000;
        let separator = if group == 0 { "" } else { "-" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{digits:011}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(rows: u32, seed: u64) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        load(&mut connection, rows, seed).unwrap();
        connection
    }

    fn row(connection: &Connection, id: u32) -> (u32, String, String) {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        connection.query_row("SELECT k, c, pad FROM sbtest1 WHERE id = ?1", [id], read).unwrap()
    }

    #[test]
    fn rows_have_the_published_form() {
        let connection = loaded(1000, 7);
        for id in [1, 500, 1000] {
            let (k, c, pad) = row(&connection, id);
            assert!((1..=1000).contains(&k), "{k}");
            for (text, groups) in [(c, 10), (pad, 5)] {
                let parts: Vec<_> = text.split('-').collect();
                assert_eq!(parts.len(), groups);
                assert!(
                    parts.iter().all(|p| p.len() == 11 && p.bytes().all(|b| b.is_ascii_digit()))
                );
            }
        }
        let indexed: u32 = connection
            .query_row("SELECT count(*) FROM sbtest1 INDEXED BY k_1 WHERE k > 0", [], |r| r.get(0))
            .unwrap();
        assert_eq!(indexed, 1000);
    }

    #[test]
    fn rows_depend_on_the_seed_alone() {
        assert_eq!(row(&loaded(1000, 7), 999), row(&loaded(1000, 7), 999));
        assert_ne!(row(&loaded(1000, 7), 999), row(&loaded(1000, 8), 999));
    }

    #[test]
    fn ids_cover_the_table_and_no_more() {
        let mut random = Pcg64::new(1, 1);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[uniform(&mut random, 10) as usize - 1] += 1;
        }
        // Ten standard deviations around the expected 1000.
        assert!(seen.iter().all(|count| (700..1300).contains(count)), "{seen:?}");
    }
}

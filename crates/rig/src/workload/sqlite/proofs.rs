//! Evidence read back from the running database: one proof for each factor in which variants
//! differ.
//!
//! Every variant proves all factors, so a residue, i.e. a difference that was not meant, shows as
//! an inactive proof.

use super::ffi;
use super::settings::{Allocator, Cache, Database, Mutex, Settings};
use anyhow::Context as _;
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::process::mappings;
use kneepoint_vocab::Proof;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;

/// All proofs. `connections` are all that are open, at least two, and all have read.
pub(super) fn all(
    settings: &Settings,
    file: &Path,
    connections: &[&Connection],
) -> anyhow::Result<Vec<Proof>> {
    Ok(vec![
        database(settings, file, connections)?,
        rows(settings, connections)?,
        cache(settings, connections)?,
        mutex(settings, connections),
        memory_statistics(settings),
        allocator(settings),
        mmap_size(settings, connections)?,
        mapped(settings, file, connections.len())?,
    ])
}

fn proof(what: &str, expected: impl ToString, found: impl ToString, active: bool) -> Proof {
    Proof {
        what: what.to_owned(),
        expected: expected.to_string(),
        found: found.to_string(),
        active,
    }
}

fn database(
    settings: &Settings,
    file: &Path,
    connections: &[&Connection],
) -> anyhow::Result<Proof> {
    let expected = match settings.database {
        Database::Memory => "no file".to_owned(),
        Database::File => file.display().to_string(),
    };
    let mut found = Vec::new();
    for connection in connections {
        let path: Option<String> = connection
            .query_row("SELECT file FROM pragma_database_list WHERE name = 'main'", [], |row| {
                row.get(0)
            })
            .context("PRAGMA database_list cannot be read back")?;
        found.push(path.filter(|path| !path.is_empty()).unwrap_or_else(|| "no file".to_owned()));
    }
    found.dedup();
    Ok(Proof::equal("PRAGMA database_list", expected, found.join(", ")))
}

fn rows(settings: &Settings, connections: &[&Connection]) -> anyhow::Result<Proof> {
    let mut least = u32::MAX;
    for connection in connections {
        let highest = connection
            .query_row("SELECT max(id) FROM sbtest1", [], |row| row.get(0))
            .context("the rows cannot be counted")?;
        least = least.min(highest);
    }
    Ok(Proof::equal("rows that every connection sees", settings.rows, least))
}

/// A shared cache counts fully for each connection in one figure, and divided by the number of
/// connections in the other; for private caches both figures agree.
fn cache(settings: &Settings, connections: &[&Connection]) -> anyhow::Result<Proof> {
    let (mut whole, mut divided) = (0, 0);
    for connection in connections {
        let read = |shares| {
            ffi::cache_used(connection, shares)
                .map_err(|code| anyhow::anyhow!("sqlite3_db_status failed with code {code}"))
        };
        whole += read(false)?;
        divided += read(true)?;
    }
    let (expected, active) = match settings.cache {
        Cache::Shared => {
            let sharers = i64::try_from(connections.len()).unwrap_or(i64::MAX);
            // Each connection's part is rounded down on its own.
            let parts = whole / sharers;
            let exact = (parts - sharers..=parts + sharers).contains(&divided);
            (format!("1/{sharers} of CACHE_USED"), sharers > 1 && whole > 0 && exact)
        }
        Cache::Private => ("CACHE_USED".to_owned(), whole > 0 && whole == divided),
    };
    let found = format!("{divided} of {whole} bytes");
    Ok(proof("sqlite3_db_status CACHE_USED_SHARED", expected, found, active))
}

fn mutex(settings: &Settings, connections: &[&Connection]) -> Proof {
    let all = connections.len();
    let found = connections.iter().filter(|connection| ffi::has_mutex(connection)).count();
    let expected = if settings.mutex == Mutex::Connection { all } else { 0 };
    let tell = |count| format!("not null for {count} of {all}");
    Proof::equal("sqlite3_db_mutex", tell(expected), tell(found))
}

fn memory_statistics(settings: &Settings) -> Proof {
    let found = ffi::memory_used();
    let (expected, active) =
        if settings.memstatus { ("above 0", found > 0) } else { ("0", found == 0) };
    proof("sqlite3_memory_used", expected, found, active)
}

/// Where SQLite's small, middling and large allocations lie. A large one may bypass an allocator's
/// ordinary heap, and a page of the cache is of middling size.
fn allocator(settings: &Settings) -> Proof {
    const SIZES: [u16; 3] = [64, 4 << 10, 48 << 10];
    let all = SIZES.len();
    let found: Vec<_> = SIZES.into_iter().map(ffi::lies_in_mimalloc_heap).collect();
    let got = found.iter().flatten().count();
    let lying = found.iter().flatten().filter(|&&lies| lies).count();
    let expected = match settings.allocator {
        Allocator::Libc => 0,
        Allocator::Mimalloc => all,
    };
    let tell = |lying, got| format!("true for {lying} of {got}");
    let what = "mi_is_in_heap_region of what sqlite3_malloc returns";
    Proof::equal(what, tell(expected, all), tell(lying, got))
}

fn mmap_size(settings: &Settings, connections: &[&Connection]) -> anyhow::Result<Proof> {
    let mut found = Vec::new();
    for connection in connections {
        // A database in memory answers with no row.
        let size: Option<i64> = connection
            .query_row("PRAGMA mmap_size", [], |row| row.get(0))
            .optional()
            .context("PRAGMA mmap_size cannot be read back")?;
        found.push(size.unwrap_or(0).to_string());
    }
    found.dedup();
    Ok(Proof::equal("PRAGMA mmap_size", settings.mmap, found.join(", ")))
}

fn mapped(settings: &Settings, file: &Path, connections: usize) -> anyhow::Result<Proof> {
    let maps = mappings(own_pid()).context("the mappings cannot be read")?;
    let name = file.to_string_lossy();
    let found = maps.lines().filter(|line| line.ends_with(name.as_ref())).count();
    let (expected, active) = if settings.mmap > 0 {
        (format!("by each of {connections} connections"), found >= connections)
    } else {
        ("not at all".to_owned(), found == 0)
    };
    Ok(proof("database mapped in /proc/self/maps", expected, format!("{found} times"), active))
}

//! The few calls into SQLite that rusqlite does not offer in safe form.

use rusqlite::{Connection, ffi};
use std::ffi::c_int;

/// Has SQLite not count the memory it allocates (`SQLITE_CONFIG_MEMSTATUS`, 0).
///
/// Only possible before the first other call into SQLite in this process; the caller must be the
/// only thread that uses SQLite.
///
/// # Errors
/// SQLite's result code; `SQLITE_MISUSE` where it is too late.
pub(super) fn switch_memory_statistics_off() -> Result<(), c_int> {
    let off: c_int = 0;
    // SAFETY: this option takes one int. The caller guarantees that no other thread is inside
    // SQLite; once initialised, SQLite refuses the call without effect.
    let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, off) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

/// Bytes that SQLite has allocated in this process; 0 where it does not count them.
pub(super) fn memory_used() -> i64 {
    // SAFETY: takes no argument, and SQLite guards its counters itself.
    unsafe { ffi::sqlite3_memory_used() }
}

/// Whether the connection has a mutex of its own, i.e. is in serialized mode.
pub(super) fn has_mutex(connection: &Connection) -> bool {
    // SAFETY: the handle is open as long as the borrow lasts; the pointer got is not followed.
    !unsafe { ffi::sqlite3_db_mutex(connection.handle()) }.is_null()
}

/// Bytes of heap in the connection's page caches; with `divided`, those of a cache that several
/// connections share are divided evenly between them.
///
/// # Errors
/// SQLite's result code.
pub(super) fn cache_used(connection: &Connection, divided: bool) -> Result<i64, c_int> {
    let figure = if divided {
        ffi::SQLITE_DBSTATUS_CACHE_USED_SHARED
    } else {
        ffi::SQLITE_DBSTATUS_CACHE_USED
    };
    let (mut current, mut highest): (c_int, c_int) = (0, 0);
    // SAFETY: the handle is open as long as the borrow lasts, and no other thread uses it, for a
    // `Connection` cannot be shared between threads; both pointers are to live integers.
    let code = unsafe {
        ffi::sqlite3_db_status(connection.handle(), figure, &raw mut current, &raw mut highest, 0)
    };
    if code == ffi::SQLITE_OK { Ok(i64::from(current)) } else { Err(code) }
}

//! The few calls into SQLite that rusqlite does not offer in safe form, and the allocator that
//! SQLite may be given instead of its own.

use libmimalloc_sys::{
    mi_free, mi_good_size, mi_is_in_heap_region, mi_malloc, mi_realloc, mi_usable_size, mi_version,
};
use rusqlite::{Connection, ffi};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

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

/// Has SQLite allocate with mimalloc (`SQLITE_CONFIG_MALLOC`); the rest of the process keeps the
/// system's allocator.
///
/// Only possible before the first other call into SQLite in this process, save for other such
/// switches; the caller must be the only thread that uses SQLite.
///
/// # Errors
/// SQLite's result code; `SQLITE_MISUSE` where it is too late.
pub(super) fn allocate_with_mimalloc() -> Result<(), c_int> {
    let methods = ffi::sqlite3_mem_methods {
        xMalloc: Some(allocate),
        xFree: Some(free),
        xRealloc: Some(reallocate),
        xSize: Some(usable),
        xRoundup: Some(round_up),
        xInit: Some(begin),
        xShutdown: Some(end),
        pAppData: null_mut(),
    };
    // SAFETY: this option takes one pointer to the methods, which SQLite copies before it returns.
    // They meet its contract: what each allocates, the others accept, on any thread. The caller
    // guarantees that no other thread is inside SQLite, and nothing is allocated yet, for once
    // initialised, SQLite refuses the call without effect.
    let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

/// Bytes that SQLite asks for. It never asks for less than none; if it did, it would get nothing.
fn count(bytes: c_int) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A size for SQLite. It never asks for more than `c_int` holds, and mimalloc's rounding must not
/// lead beyond that.
fn size(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    // SAFETY: any size may be asked for; one that cannot be met gives null.
    unsafe { mi_malloc(count(bytes)) }
}

unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: SQLite hands over what `allocate` or `reallocate` gave it, once.
    unsafe { mi_free(block) }
}

unsafe extern "C" fn reallocate(block: *mut c_void, bytes: c_int) -> *mut c_void {
    // SAFETY: as for `free`; where the size cannot be met, the block stays as it is.
    unsafe { mi_realloc(block, count(bytes)) }
}

unsafe extern "C" fn usable(block: *mut c_void) -> c_int {
    // SAFETY: SQLite hands over a block that it has not freed, or null, whose size is 0.
    size(unsafe { mi_usable_size(block) })
}

unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    // SAFETY: a calculation on the number alone.
    size(unsafe { mi_good_size(count(bytes)) })
}

/// mimalloc has been set up since the program was loaded.
unsafe extern "C" fn begin(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn end(_: *mut c_void) {}

/// Whether a block of so many bytes that SQLite allocates now lies in a heap of mimalloc; `None`
/// where SQLite gets no memory.
pub(super) fn lies_in_mimalloc_heap(bytes: u16) -> Option<bool> {
    // SAFETY: the block is freed once and not used otherwise; mimalloc compares its address with
    // its own table of pages and accepts any address.
    unsafe {
        let block = ffi::sqlite3_malloc(c_int::from(bytes));
        let lies = mi_is_in_heap_region(block);
        ffi::sqlite3_free(block);
        (!block.is_null()).then_some(lies)
    }
}

/// mimalloc's version, such as `3.1.5`; it tells two decimal digits for each part but the first.
pub(super) fn mimalloc_version() -> String {
    // SAFETY: a constant.
    let number = unsafe { mi_version() };
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
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

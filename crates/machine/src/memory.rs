//! Memory that cannot be had: one line and an exit code, where Rust would abort like after a crash.

use std::alloc::{GlobalAlloc, Layout, System};

const NONE_LEFT: &[u8] =
    b"kneepoint: no memory to be had: end other programs, or raise its limit (ulimit -v)\n";

/// The system's allocator. Where that has no memory, the process says so and ends with code 1: its
/// guardian puts back what was changed, as after every other end.
#[derive(Debug)]
pub struct OrExit;

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        had(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        had(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        had(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn had(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        end();
    }
    memory
}

/// Nothing in here may ask for memory.
#[cold]
fn end() -> ! {
    // SAFETY: the bytes live as long as the program, and no code runs after the exit.
    unsafe {
        libc::write(libc::STDERR_FILENO, NONE_LEFT.as_ptr().cast(), NONE_LEFT.len());
        libc::_exit(1)
    }
}

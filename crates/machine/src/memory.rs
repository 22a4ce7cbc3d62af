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

/// Least bytes that the first thread's stack must be allowed to take.
const LEAST_STACK: u64 = 1 << 20;

/// KiB that the first thread's stack may take, where that is too little to go on with.
#[must_use]
pub fn stack_too_small() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    limit.filter(|bytes| *bytes < LEAST_STACK).map(|bytes| bytes >> 10)
}

/// What Rust panics with where a new thread finds no memory for its handlers of signals.
const NO_STACK: [&str; 2] =
    ["failed to allocate an alternative stack", "failed to set up alternative stack guard page"];

/// Lets a new thread that finds no memory end the process as [`OrExit`] does. All other panics are
/// reported as ever.
pub fn end_where_threads_have_none() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<String>().is_some_and(|text| is_of_memory(text)) {
            end();
        }
        others(panic);
    }));
}

fn is_of_memory(text: &str) -> bool {
    NO_STACK.iter().any(|begin| text.starts_with(begin))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_stack_is_large_enough() {
        assert_eq!(stack_too_small(), None);
    }

    #[test]
    fn only_a_thread_without_a_stack_is_without_memory() {
        let error = std::io::Error::from_raw_os_error(libc::ENOMEM);
        assert!(is_of_memory(&format!("failed to allocate an alternative stack: {error}")));
        assert!(!is_of_memory("index out of bounds"));
    }
}

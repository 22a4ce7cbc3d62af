//! Where threads are: stacks of running threads by a timer, and of blocking and waking threads
//! where a BPF program asks for them.
//!
//! The kernel copies user registers and the top of the user stack; a reader thread unwinds them
//! with the call frame information of the mapped files, so that no frame pointers are needed.
//! Names are looked up when a window ends.
//!
//! | file | what |
//! |---|---|
//! | `perf`, `record` | events and rings, records in a ring |
//! | `events` | which events are opened, with and without privileges |
//! | `maps`, `image`, `cfi` | what a process has mapped, its files, their frame information |
//! | `process` | unwinding |
//! | `jit`, `jvm` | names of compiled code that lies in no file |
//! | `symbols`, `inlines`, `kernel` | names of functions, of those inlined into them too |
//! | `code` | what the instructions do where a running thread was found |
//! | `names` | the run's stack table |
//! | `reader` | the thread that drains and unwinds |

mod cfi;
mod code;
mod events;
pub(crate) mod image;
mod inlines;
mod jit;
mod jvm;
mod kernel;
#[cfg(test)]
mod live;
pub(crate) mod maps;
mod names;
mod perf;
mod process;
mod reader;
mod record;
pub(crate) mod symbols;

pub(crate) use events::Clocks;
use events::Events;
use kneepoint_vocab::{Nanos, StackId, StackRecord};
use names::Names;
use reader::{RawWindow, Shared};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What stacks to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackOptions {
    /// CPUs to watch.
    pub cpus: Vec<u32>,
    /// Stacks of running threads, a second and CPU; 0 for none.
    pub on_cpu_hz: u64,
    /// Bytes of user stack that the kernel copies: a multiple of 8, at most 65,528.
    pub stack_bytes: u32,
    /// Watch CPUs, with kernel frames and marked stacks; needs privileges. Without them, and
    /// where this is false, only the threads of the window's processes are watched, in user mode.
    pub system_wide: bool,
}

impl StackOptions {
    /// 199 stacks a second and CPU, 16 KiB of stack, with privileges if there are any.
    #[must_use]
    pub fn new(cpus: Vec<u32>) -> Self {
        Self { cpus, on_cpu_hz: 199, stack_bytes: 16 * 1024, system_wide: true }
    }
}

/// Why stacks cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// Registers and unwinding are written for x86-64.
    #[error("stacks: only x86-64 is supported; run without stacks")]
    Architecture,
    /// [`StackOptions::stack_bytes`] is out of range.
    #[error("stacks: {0} bytes of stack asked for; give a multiple of 8 from 8 to 65528")]
    StackBytes(u32),
    /// Neither CPUs nor own processes may be watched.
    #[error(
        "stacks: perf events are denied (perf_event_paranoid is {paranoid}); run as root, or \
         lower kernel.perf_event_paranoid to 2"
    )]
    Denied {
        /// The level found.
        paranoid: i32,
    },
    /// The kernel refused an event or its ring.
    #[error("stacks: cannot {what} on CPU {cpu}: {source}; run without stacks")]
    Event {
        /// What was tried.
        what: &'static str,
        /// Where.
        cpu: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The reader's thread could not be started.
    #[error("stacks: cannot start the reader's thread: {0}")]
    Thread(io::Error),
}

/// One stack that a BPF program asked for by writing
/// `struct { u64 id; u64 p; u32 kind; u32 tid; }` to an event of [`StackCollector::output_fds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedStack {
    /// Number of the wait, as the program gave it.
    pub id: u64,
    /// What the stack was taken for, as the program numbers it.
    pub kind: u32,
    /// Probability with which it was taken, × 2^32.
    pub p: u64,
    /// The thread, as the program gave it.
    pub tid: u32,
    /// The thread that the stack is of, as the kernel says: where one wakes another, the waker.
    pub taken_in: u32,
    /// The stack.
    pub stack: StackId,
}

/// The stacks of one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowStacks {
    /// How often each stack was found on a core.
    pub on_cpu: BTreeMap<StackId, u64>,
    /// Stacks that a BPF program asked for, in the order of the rings.
    pub marked: Vec<MarkedStack>,
    /// Stacks that no earlier window had; their numbers go on where the last window's ended.
    pub new_stacks: Vec<StackRecord>,
    /// Stacks taken: the sum of `on_cpu` and the length of `marked`.
    pub taken: u64,
    /// Of these, those whose outermost frame was not reached.
    pub truncated: u64,
    /// Stacks that the kernel could not hand over.
    pub lost: u64,
    /// Times that the kernel paused the timer because it took too long.
    pub throttled: u64,
}

/// Takes stacks of the processes of one window after the other.
pub struct StackCollector {
    events: Events,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    names: Names,
}

impl std::fmt::Debug for StackCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackCollector").field("events", &self.events).finish_non_exhaustive()
    }
}

impl StackCollector {
    /// Opens the events and starts the reader's thread. No stack is taken before
    /// [`StackCollector::begin`].
    ///
    /// # Errors
    /// Where options are out of range, or the kernel allows no stacks at all.
    pub fn open(options: &StackOptions) -> Result<Self, StackError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(StackError::Architecture);
        }
        if options.stack_bytes == 0
            || !options.stack_bytes.is_multiple_of(8)
            || options.stack_bytes > 65_528
        {
            return Err(StackError::StackBytes(options.stack_bytes));
        }
        let (events, rings) = Events::open(options)?;
        let shared = Arc::new(Shared::new(rings).map_err(StackError::Thread)?);
        let reader = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("stack-reader".to_owned())
            .spawn(move || reader.run())
            .map_err(StackError::Thread)?;
        Ok(Self { events, shared, thread: Some(thread), names: Names::default() })
    }

    /// What could not be had, one line each.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        self.events.remarks()
    }

    /// For each CPU the event that a BPF program writes marks to, for its perf event array;
    /// empty without privileges.
    #[must_use]
    pub fn output_fds(&self) -> Vec<(u32, BorrowedFd<'_>)> {
        self.events.output_fds()
    }

    /// Opens a window: from now on stacks of `pids`, and of processes that these fork, are kept.
    /// Marked stacks are kept whosever they are. A window still open is thrown away.
    ///
    /// # Errors
    /// Where the kernel refuses an event.
    pub fn begin(&mut self, pids: &[u32]) -> Result<(), StackError> {
        self.begin_with(pids, None)
    }

    /// As [`StackCollector::begin`], with timers that take so many stacks a second where they are
    /// on threads. They may be taken off before the window ends.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn begin_at(&mut self, pids: &[u32], hz: u64) -> Result<Clocks, StackError> {
        self.begin_with(pids, Some(hz))?;
        Ok(self.events.clocks())
    }

    fn begin_with(&mut self, pids: &[u32], hz: Option<u64>) -> Result<(), StackError> {
        self.events.disable();
        let rings = self.events.watch(pids, hz)?;
        let mut reader = self.shared.lock();
        if let Some(rings) = rings {
            reader.rings = rings;
        }
        reader.begin(pids);
        drop(reader);
        self.shared.wake();
        self.events.enable()
    }

    /// Takes no further stack. What was taken is unwound while its processes live, and waits for
    /// [`StackCollector::end`].
    pub fn pause(&self) {
        self.events.disable();
        self.shared.lock().drain();
    }

    /// Reads what just-in-time compilers tell of their code in the processes whose stacks showed
    /// some, while these live. Virtual machines that we ourselves have started are asked for it.
    pub fn read_maps(&self) {
        self.shared.lock().read_maps();
    }

    /// Closes the window and names what was found in it. Without an open window it is empty.
    #[must_use]
    pub fn end(&mut self) -> WindowStacks {
        self.events.disable();
        let shared = Arc::clone(&self.shared);
        let mut reader = shared.lock();
        let raw = reader.end();
        self.resolve(&raw, &reader)
    }

    fn resolve(&mut self, raw: &RawWindow, reader: &reader::Reader) -> WindowStacks {
        let mut window = WindowStacks {
            taken: raw.taken,
            truncated: raw.truncated,
            lost: raw.lost,
            throttled: raw.throttled,
            ..WindowStacks::default()
        };
        let mut resolve = |id| {
            let (found, record) =
                self.names.resolve(id, reader.stacks.get(id)?, &reader.images, &reader.maps);
            window.new_stacks.extend(record);
            Some(found)
        };
        for (id, count) in &raw.on_cpu {
            if let Some(stack) = resolve(*id) {
                *window.on_cpu.entry(stack).or_default() += count;
            }
        }
        for (mark, id) in &raw.marked {
            if let Some(stack) = resolve(*id) {
                let reader::Mark { id, p, kind, tid, taken_in } = *mark;
                window.marked.push(MarkedStack { id, kind, p, tid, taken_in, stack });
            }
        }
        window
    }

    /// A proven name, `module:variable`, for an address of data in a process of the last window:
    /// a lock that is a global variable. `None` for the heap, stacks and unnamed data.
    #[must_use]
    pub fn variable_at(&mut self, pid: u32, address: u64) -> Option<String> {
        let reader = self.shared.lock();
        let (image, in_image) = reader.processes.get(&pid)?.image_at(address)?;
        self.names.variable(image, in_image)
    }

    /// Files of the watched processes that could not be read, with the reason; frames in them
    /// have no names, and stacks through them are cut.
    #[must_use]
    pub fn unreadable_files(&self) -> Vec<String> {
        let reader = self.shared.lock();
        let mut files: Vec<_> =
            reader.processes.values().flat_map(|process| process.unreadable.clone()).collect();
        files.sort();
        files.dedup();
        files
    }

    /// CPU time that the reader's thread has used since [`StackCollector::open`].
    #[must_use]
    pub fn reader_cpu(&self) -> Nanos {
        Nanos(self.shared.cpu())
    }
}

impl Drop for StackCollector {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the reader has been reported by its own hook; there is nothing to undo.
            let _ = thread.join();
        }
    }
}

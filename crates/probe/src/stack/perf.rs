//! Perf events and their rings: the one file of this module that needs `unsafe`.

use super::record::REGISTERS;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page of the x86-64 ABI; rings are counted in them.
const PAGE: usize = 4096;

const TYPE_SOFTWARE: u32 = 1;
const CONFIG_CPU_CLOCK: u64 = 0;
#[cfg(test)]
const CONFIG_CONTEXT_SWITCHES: u64 = 3;
const CONFIG_BPF_OUTPUT: u64 = 10;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;

const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
const FLAG_FREQ: u64 = 1 << 10;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const FLAG_USE_CLOCKID: u64 = 1 << 25;

const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// `struct perf_event_attr` up to `sig_data` (PERF_ATTR_SIZE_VER7).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period_or_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    registers_user: u64,
    stack_user: u32,
    clock: i32,
    registers_interrupt: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved2: u16,
    aux_sample_size: u32,
    reserved3: u32,
    signal_data: u64,
}

/// What makes an event take a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A timer that runs while a thread does; this often a second.
    CpuClock {
        /// Stacks a second and CPU.
        hz: u64,
    },
    /// A BPF program by `bpf_perf_event_output`.
    BpfOutput,
    /// A thread leaves a core.
    #[cfg(test)]
    ContextSwitch,
}

/// How an event is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventOptions {
    /// What triggers it.
    pub(crate) source: Source,
    /// Bytes of user stack to copy.
    pub(crate) stack_bytes: u32,
    /// Kernel mode too, with kernel callchains; needs privileges.
    pub(crate) kernel: bool,
    /// Also for threads and processes born of the watched thread.
    pub(crate) inherit: bool,
}

impl EventOptions {
    fn attributes(&self) -> Attributes {
        let (config, rate, special, more) = match self.source {
            Source::CpuClock { hz } => {
                (CONFIG_CPU_CLOCK, hz, FLAG_FREQ | FLAG_DISABLED | FLAG_TASK, 0)
            }
            Source::BpfOutput => (CONFIG_BPF_OUTPUT, 1, 0, SAMPLE_RAW),
            #[cfg(test)]
            Source::ContextSwitch => (CONFIG_CONTEXT_SWITCHES, 1, FLAG_DISABLED, 0),
        };
        let kernel_flags =
            if self.kernel { 0 } else { FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_CALLCHAIN_KERNEL };
        let inherit = if self.inherit { FLAG_INHERIT } else { 0 };
        Attributes {
            kind: TYPE_SOFTWARE,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
            config,
            period_or_frequency: rate,
            sample_type: SAMPLE_IP
                | SAMPLE_TID
                | SAMPLE_TIME
                | SAMPLE_CPU
                | SAMPLE_CALLCHAIN
                | SAMPLE_REGS_USER
                | SAMPLE_STACK_USER
                | more,
            flags: special
                | kernel_flags
                | inherit
                | FLAG_EXCLUDE_HV
                | FLAG_EXCLUDE_IDLE
                | FLAG_USE_CLOCKID,
            registers_user: REGISTERS,
            stack_user: self.stack_bytes,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        }
    }
}

/// One open perf event on one CPU.
#[derive(Debug)]
pub(crate) struct Event {
    fd: Arc<OwnedFd>,
    cpu: u32,
    raw: bool,
}

impl Event {
    /// Opens it for one thread (`Some`) or for every thread (`None`) on `cpu`.
    ///
    /// # Errors
    /// The kernel's refusal; EACCES and EPERM mean missing privileges.
    pub(crate) fn open(options: &EventOptions, thread: Option<u32>, cpu: u32) -> io::Result<Self> {
        let attributes = options.attributes();
        let thread = match thread {
            None => -1,
            Some(tid) => i32::try_from(tid).map_err(io::Error::other)?,
        };
        let cpu_number = i32::try_from(cpu).map_err(io::Error::other)?;
        // SAFETY: `attributes` is a whole perf_event_attr that says its own size and outlives the
        // call; the kernel only reads it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                cpu_number,
                -1,
                OPEN_CLOEXEC,
            )
        };
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made this descriptor and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd: Arc::new(fd), cpu, raw: options.source == Source::BpfOutput })
    }

    /// The CPU it watches.
    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The descriptor, for a BPF perf event array.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Lets it take stacks.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ioctl(IOC_ENABLE, 0)
    }

    /// Stops it.
    pub(crate) fn disable(&self) -> io::Result<()> {
        self.ioctl(IOC_DISABLE, 0)
    }

    /// Makes it write into the ring of `other`, which must watch the same CPU.
    pub(crate) fn redirect_to(&self, other: &Self) -> io::Result<()> {
        self.ioctl(IOC_SET_OUTPUT, other.fd.as_raw_fd())
    }

    fn ioctl(&self, request: libc::c_ulong, argument: i32) -> io::Result<()> {
        // SAFETY: the three requests used take an integer, no pointer.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Maps a ring of `pages` pages (a power of two) for its records.
    ///
    /// # Errors
    /// The kernel's refusal, EPERM where the user's locked memory is used up.
    pub(crate) fn ring(&self, pages: usize) -> io::Result<Ring> {
        Ring::map(&self.fd, pages, self.raw)
    }
}

/// The ring that the kernel writes records into; read by one thread at a time.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    capacity: usize,
    fd: Arc<OwnedFd>,
    /// Whether its records have the RAW field.
    pub(crate) raw: bool,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread; `&mut self`
// keeps readers apart, and the kernel's side is synchronised through data_head and data_tail.
unsafe impl Send for Ring {}

/// Offsets in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

impl Ring {
    fn map(fd: &Arc<OwnedFd>, pages: usize, raw: bool) -> io::Result<Self> {
        let length = (pages + 1) * PAGE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("the ring was mapped at address 0"))?;
        Ok(Self { base, capacity: pages * PAGE, fd: Arc::clone(fd), raw })
    }

    /// What becomes readable when the ring is half full: the kernel's default watermark.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie in the mapped first page, are multiples of 8, and that memory
        // is only ever accessed atomically, by us and by the kernel.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Replaces `into` by all records written since the last call, in one piece.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        for piece in pieces(self.capacity, tail, head) {
            let begin = into.len();
            into.resize(begin + piece.len(), 0);
            // SAFETY: `piece` lies within the data pages, which follow the first page; the kernel
            // does not write there until data_tail says so; `into` has just been made long enough.
            unsafe {
                let from = self.base.as_ptr().add(PAGE + piece.start);
                std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(begin), piece.len());
            }
        }
        self.position(DATA_TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping made in `map`; no borrow outlives self.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.capacity + PAGE);
        }
    }
}

/// Where the bytes from `tail` to `head` lie in a ring of `capacity` bytes: the second piece is
/// empty unless they wrap around.
fn pieces(capacity: usize, tail: u64, head: u64) -> [Range<usize>; 2] {
    let wide = capacity as u64;
    let begin = usize::try_from(tail % wide).unwrap_or(0);
    let length = usize::try_from(head.wrapping_sub(tail).min(wide)).unwrap_or(0);
    let first = length.min(capacity - begin);
    [begin..begin + first, 0..length - first]
}

/// The level of `kernel.perf_event_paranoid`: 2 and below let a user watch own processes.
pub(crate) fn paranoid_level() -> io::Result<i32> {
    let text = kneepoint_machine::proc::text("sys/kernel/perf_event_paranoid")?;
    text.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_have_the_size_of_the_kernels_seventh_version() {
        assert_eq!(size_of::<Attributes>(), 128);
    }

    proptest! {
        #[test]
        fn whatever_wraps_around_comes_out_in_order(
            power in 0_u32..6,
            start in 0_u64..100_000,
            lengths in prop::collection::vec(0_u64..200, 1..50),
        ) {
            let capacity = 8_usize << power;
            let mut ring = vec![0_u8; capacity];
            let (mut tail, mut head) = (start, start);
            let (mut written, mut read) = (Vec::new(), Vec::new());
            for length in lengths {
                let room = capacity as u64 - (head - tail);
                for _ in 0..length.min(room) {
                    let byte = u8::try_from(head * 7 % 251).unwrap();
                    ring[usize::try_from(head).unwrap() % capacity] = byte;
                    written.push(byte);
                    head += 1;
                }
                for piece in pieces(capacity, tail, head) {
                    read.extend_from_slice(&ring[piece]);
                }
                tail = head;
            }
            prop_assert_eq!(read, written);
        }
    }
}

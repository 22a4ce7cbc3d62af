//! The few system calls that no safe crate offers: raw `bpf()` map access, probes in programs, CPU
//! clocks of other processes. All `unsafe` of the collectors lives in this file and in
//! [`crate::collector`]'s `wire` room.

use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Plain structures exchanged with the kernel byte for byte.
///
/// # Safety
/// The type must be `repr(C)`, without padding and without invalid bit patterns.
pub(crate) unsafe trait Wire: Copy {}

// SAFETY: an integer has neither padding nor invalid patterns.
unsafe impl Wire for u32 {}
// SAFETY: as above.
unsafe impl Wire for u64 {}

/// The first `size_of::<T>()` bytes as a `T`; `None` where there are fewer.
pub(crate) fn read_wire<T: Wire>(bytes: &[u8]) -> Option<T> {
    let head = bytes.get(..size_of::<T>())?;
    // SAFETY: `head` has exactly as many bytes as `T`, and any bytes are a valid `Wire`.
    Some(unsafe { head.as_ptr().cast::<T>().read_unaligned() })
}

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;
const MAP_DRAIN_BATCH: u32 = 25;
const RUN_ON_CPU: u32 = 1;
/// `BPF_MAP_TYPE_PERCPU_HASH` and `BPF_PROG_TYPE_KPROBE`.
const PER_CPU_HASH: u32 = 5;
const PROBE_PROGRAM: u32 = 2;
/// `PERF_FLAG_FD_CLOEXEC` and `PERF_EVENT_IOC_SET_BPF`.
const EVENT_CLOEXEC: libc::c_ulong = 1 << 3;
const SET_PROGRAM: libc::c_ulong = 0x4004_2408;
/// Words of `struct perf_event_attr` up to `sig_data` (PERF_ATTR_SIZE_VER7).
const ATTRIBUTES: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ElementCall {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct BatchCall {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TestRunCall {
    program: u32,
    retval: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_sizes: [u32; 2],
    context: [u64; 2],
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MapCall {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProgramCall {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// # Safety
/// Every address in `call` must point to memory of the size that `command` reads or writes.
unsafe fn bpf<A>(command: u32, call: &mut A) -> io::Result<()> {
    // SAFETY: the caller vouches for the addresses; `call` is a live structure of this size.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(call), size_of::<A>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The same of a command that makes something.
///
/// # Safety
/// As [`bpf`]; `command` returns a new descriptor.
unsafe fn bpf_new<A>(command: u32, call: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the addresses; `call` is a live structure of this size.
    let made =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(call), size_of::<A>()) };
    // SAFETY: a descriptor that the call has just made, which nobody else has.
    unsafe { own(made) }
}

/// # Safety
/// What is not negative is a descriptor that nobody owns.
unsafe fn own(made: libc::c_long) -> io::Result<OwnedFd> {
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    let made = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the caller vouches for it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// A new map of counts by a number, with a count for each CPU.
pub(crate) fn new_counts(entries: u32) -> io::Result<OwnedFd> {
    let mut call =
        MapCall { kind: PER_CPU_HASH, key_size: 4, value_size: 8, entries, ..MapCall::default() };
    // SAFETY: no addresses are passed.
    unsafe { bpf_new(MAP_CREATE, &mut call) }
}

/// Loads a program that runs where a probe is passed.
pub(crate) fn load_probe_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut call = ProgramCall {
        kind: PROBE_PROGRAM,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..ProgramCall::default()
    };
    // SAFETY: `count` instructions and a text that ends with 0, both only read.
    unsafe { bpf_new(PROG_LOAD, &mut call) }
}

/// In whom a probe stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// In whatever process maps the file; the event is this CPU's.
    On(u32),
    /// In this process alone, all its threads.
    Process(u32),
}

/// A probe at `offset` of a file that runs `program`; it is gone with the descriptor. `kind` is the
/// number of the kernel's event source for that. While it is there, the counter at the offset
/// `switch` of the file, where that is not 0, is one higher.
pub(crate) fn open_probe(
    kind: u32,
    (file, offset, switch): (&CStr, u64, u32),
    whose: Whose,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; ATTRIBUTES];
    let size = u64::try_from(size_of_val(&attributes)).map_err(io::Error::other)?;
    attributes[0] = u64::from(kind) | size << 32;
    attributes[1] = u64::from(switch) << 32;
    attributes[7] = file.as_ptr() as u64;
    attributes[8] = offset;
    let number = |id: u32| i32::try_from(id).map_err(io::Error::other);
    let (process, cpu) = match whose {
        Whose::On(cpu) => (-1, number(cpu)?),
        Whose::Process(process) => (number(process)?, -1),
    };
    // SAFETY: the attributes say their own size, they and the path outlive the call, and the
    // kernel only reads them.
    let made = unsafe {
        let call = libc::SYS_perf_event_open;
        libc::syscall(call, attributes.as_ptr(), process, cpu, -1, EVENT_CLOEXEC)
    };
    // SAFETY: a descriptor that the call has just made, which nobody else has.
    let event = unsafe { own(made)? };
    // SAFETY: the request takes a descriptor, no address.
    let set = unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(event) }
}

fn address<T>(place: &T) -> u64 {
    std::ptr::from_ref(place) as u64
}

fn descriptor(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Sets `key` of a map whose values are not per CPU.
pub(crate) fn map_set<K: Wire, V: Wire>(map: BorrowedFd<'_>, key: &K, value: &V) -> io::Result<()> {
    let mut call = ElementCall {
        map: descriptor(map),
        key: address(key),
        value: address(value),
        ..ElementCall::default()
    };
    // SAFETY: the maps are declared with exactly these key and value types.
    unsafe { bpf(MAP_UPDATE, &mut call) }
}

/// Sets the perf event that programs on `cpu` write to.
pub(crate) fn map_set_event(
    map: BorrowedFd<'_>,
    cpu: u32,
    event: BorrowedFd<'_>,
) -> io::Result<()> {
    map_set(map, &cpu, &descriptor(event))
}

/// The value of one key of a map whose values are not per CPU.
pub(crate) fn map_get<V: Wire>(map: BorrowedFd<'_>, key: u32) -> io::Result<V> {
    let mut value = MaybeUninit::<V>::zeroed();
    let mut call = ElementCall {
        map: descriptor(map),
        key: address(&key),
        value: value.as_mut_ptr() as u64,
        ..ElementCall::default()
    };
    // SAFETY: the map is declared with this value type, and there is room for one.
    unsafe { bpf(MAP_LOOKUP, &mut call)? };
    // SAFETY: zeroed and then written by the kernel; any bytes are a valid `Wire`.
    Ok(unsafe { value.assume_init() })
}

/// A word of memory of another process at each of these addresses.
pub(crate) fn words_of(process: u32, addresses: &[u64]) -> io::Result<Vec<u32>> {
    const WORD: usize = size_of::<u32>();
    let mut words = vec![0_u32; addresses.len()];
    let mut here = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: WORD * words.len() };
    let there: Vec<libc::iovec> = addresses
        .iter()
        .map(|at| libc::iovec { iov_base: *at as *mut libc::c_void, iov_len: WORD })
        .collect();
    let process = i32::try_from(process).map_err(io::Error::other)?;
    let count = libc::c_ulong::try_from(there.len()).map_err(io::Error::other)?;
    // SAFETY: `here` is as long as all that is read; what lies at `there` is the kernel's to check.
    let read =
        unsafe { libc::process_vm_readv(process, &raw mut here, 1, there.as_ptr(), count, 0) };
    let whole = usize::try_from(read).is_ok_and(|read| read == WORD * words.len());
    if read < 0 {
        Err(io::Error::last_os_error())
    } else if whole {
        Ok(words)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// All values of one key of a per-CPU map, in CPU order; `cpus` is the number of possible CPUs.
pub(crate) fn map_get_per_cpu<V: Wire>(
    map: BorrowedFd<'_>,
    key: u32,
    cpus: usize,
) -> io::Result<Vec<V>> {
    let stride = size_of::<V>().next_multiple_of(8);
    let mut values = vec![0_u8; stride * cpus];
    let mut call = ElementCall {
        map: descriptor(map),
        key: address(&key),
        value: values.as_mut_ptr() as u64,
        ..ElementCall::default()
    };
    // SAFETY: the kernel writes one value, rounded up to 8 bytes, for each possible CPU.
    unsafe { bpf(MAP_LOOKUP, &mut call)? };
    Ok(values.chunks_exact(stride).filter_map(read_wire).collect())
}

/// Empties a hash map in one pass and returns what it held: each key with its values, one for a
/// plain map (`cpus` = 1), one for each possible CPU otherwise.
pub(crate) fn map_drain<K: Wire, V: Wire>(
    map: BorrowedFd<'_>,
    cpus: usize,
) -> io::Result<Vec<(K, Vec<V>)>> {
    const AT_ONCE: u32 = 512;
    let stride = size_of::<V>().next_multiple_of(if cpus == 1 { 1 } else { 8 });
    let mut room = AT_ONCE as usize;
    let mut found = Vec::new();
    let mut position = MaybeUninit::<u32>::zeroed();
    let mut first = true;
    loop {
        let mut keys = vec![0_u8; size_of::<K>() * room];
        let mut values = vec![0_u8; stride * cpus * room];
        let mut call = BatchCall {
            in_batch: if first { 0 } else { position.as_ptr() as u64 },
            out_batch: position.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(room).unwrap_or(AT_ONCE),
            map: descriptor(map),
            ..BatchCall::default()
        };
        // SAFETY: both buffers have room for `count` entries; a hash map's position is a u32.
        let done = unsafe { bpf(MAP_DRAIN_BATCH, &mut call) };
        let code = done.as_ref().err().and_then(io::Error::raw_os_error);
        if code == Some(libc::ENOSPC) {
            room *= 2;
            continue;
        }
        if code.is_some_and(|code| code != libc::ENOENT) {
            done?;
        }
        let keys = keys.chunks_exact(size_of::<K>()).filter_map(read_wire);
        let values = values
            .chunks_exact(stride * cpus)
            .map(|all| all.chunks_exact(stride).filter_map(read_wire).collect());
        found.extend(keys.zip(values).take(call.count as usize));
        if code.is_some() {
            return Ok(found);
        }
        first = false;
    }
}

/// The elements of an array map that allows to be mapped (`BPF_F_MMAPABLE`), as they are now.
pub(crate) struct MappedArray<V: Wire> {
    base: NonNull<u8>,
    length: usize,
    stride: usize,
    value: PhantomData<V>,
}

// SAFETY: the mapping belongs to this value alone, and it only reads.
unsafe impl<V: Wire> Send for MappedArray<V> {}

impl<V: Wire> MappedArray<V> {
    /// Maps all `entries` of `map`.
    pub(crate) fn new(map: BorrowedFd<'_>, entries: usize) -> io::Result<Self> {
        let stride = size_of::<V>().next_multiple_of(8);
        let length = stride * entries;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, flags, map.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("the map was mapped at address 0"))?;
        Ok(Self { base, length, stride, value: PhantomData })
    }

    /// Elements whose first word satisfies `wanted`. Each is copied once; programs that write
    /// meanwhile can leave it half old, half new.
    pub(crate) fn filter(&self, wanted: impl Fn(u64) -> bool) -> Vec<V> {
        let mut found = Vec::new();
        for offset in (0..self.length).step_by(self.stride) {
            // SAFETY: `offset` is a multiple of 8 and the element there lies within the mapping,
            // which lives as long as `self`; any bytes are a valid `V`; volatile, since the
            // kernel may write meanwhile.
            unsafe {
                let element = self.base.as_ptr().add(offset);
                if wanted(element.cast::<u64>().read_volatile()) {
                    found.push(element.cast::<V>().read_volatile());
                }
            }
        }
        found
    }
}

impl<V: Wire> Drop for MappedArray<V> {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping made in `new`.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.length);
        }
    }
}

/// All keys of a map.
pub(crate) fn map_keys<K: Wire>(map: BorrowedFd<'_>) -> io::Result<Vec<K>> {
    let mut found: Vec<K> = Vec::new();
    loop {
        let mut next = MaybeUninit::<K>::zeroed();
        let mut call = ElementCall {
            map: descriptor(map),
            key: found.last().map_or(0, address),
            value: next.as_mut_ptr() as u64,
            ..ElementCall::default()
        };
        // SAFETY: `next` has room for one key; the previous key, where there is one, is alive.
        match unsafe { bpf(MAP_NEXT_KEY, &mut call) } {
            // SAFETY: zeroed and then written by the kernel; any bytes are a valid `Wire`.
            Ok(()) => found.push(unsafe { next.assume_init() }),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}

/// Removes a key; a missing one is no error.
pub(crate) fn map_delete<K: Wire>(map: BorrowedFd<'_>, key: &K) -> io::Result<()> {
    let mut call =
        ElementCall { map: descriptor(map), key: address(key), ..ElementCall::default() };
    // SAFETY: the map is declared with this key type.
    match unsafe { bpf(MAP_DELETE, &mut call) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// Runs a raw-tracepoint program once on `cpu`, in whatever context that CPU is in.
pub(crate) fn run_on_cpu(program: BorrowedFd<'_>, cpu: u32) -> io::Result<()> {
    let mut call =
        TestRunCall { program: descriptor(program), flags: RUN_ON_CPU, cpu, ..Default::default() };
    // SAFETY: no buffers are passed; the program reads no context.
    unsafe { bpf(PROG_TEST_RUN, &mut call) }
}

/// CPU time that all threads of a process have used so far, exited ones included, in ns. Works
/// for any process. Errors where there is no such process.
pub(crate) fn process_cpu(pid: u32) -> io::Result<u64> {
    // The clock id of a process: its number inverted, with CPUCLOCK_SCHED (2) in the low bits.
    let clock = (!pid.cast_signed() << 3) | 2;
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is a live timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut at) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned())
}

/// Lets the calling thread run before all ordinary threads, so that it keeps up beside a system
/// that uses every core. Without the privilege for that it gets a better nice value, or nothing.
pub(crate) fn run_first() {
    if !kneepoint_machine::realtime::begin() {
        let _ = rustix::process::setpriority_process(None, -10);
    }
}

/// CLOCK_MONOTONIC in ns: the clock of the programs.
pub(crate) fn monotonic() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

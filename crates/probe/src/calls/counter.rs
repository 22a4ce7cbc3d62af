//! Counts how often places in files are passed, by process: a probe at each, and one program of a
//! few instructions for all. It lies in the kernel as long as this lives, and no longer.

use super::CallsError;
use super::places::Place;
use crate::proc::tasks;
use crate::sys::{self, Whose};
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::process::path_of_descriptor;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Processes that are counted apart; those beyond count nowhere.
const MOST_PROCESSES: u32 = 8192;
/// The kernel's event source for probes in programs.
const SOURCE: &str = "/sys/bus/event_source/devices/uprobe";

/// What the kernel says of that source under a name.
fn of_source(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(SOURCE).join(name)).ok()
}

/// The number of that source; absent where the kernel has none.
pub(crate) fn probe_source() -> Option<u32> {
    of_source("type")?.trim().parse().ok()
}

/// Probes, and what they have counted.
#[derive(Debug)]
pub(super) struct Counter {
    counts: OwnedFd,
    /// Each holds the program.
    _probes: Vec<OwnedFd>,
    possible_cpus: usize,
}

impl Counter {
    /// Begins to count all of these places together.
    pub(super) fn begin(places: &[Place]) -> Result<Self, CallsError> {
        let kind = probe_source().ok_or(CallsError::NoProbes)?;
        if places.iter().any(|place| place.switch.is_some())
            && of_source("format/ref_ctr_offset").is_none()
        {
            return Err(CallsError::NoSwitches);
        }
        let counts = sys::new_counts(MOST_PROCESSES).map_err(|error| refused("counts", error))?;
        let program = program(counts.as_raw_fd());
        let program = sys::load_probe_program(&program);
        let program = program.map_err(|error| refused("the counting program", error))?;
        let cpu = tasks::allowed_cpus()[0];
        let probes = places.iter().map(|place| {
            let path = path_of_descriptor(own_pid(), place.file.as_raw_fd());
            let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
            let switch = place.switch.unwrap_or(0);
            path.and_then(|path| {
                sys::open_probe(
                    kind,
                    (&path, place.offset, switch),
                    Whose::On(cpu),
                    program.as_fd(),
                )
            })
            .map_err(|error| refused(&format!("a probe in {}", place.name), error))
        });
        let probes = probes.collect::<Result<_, _>>()?;
        Ok(Self { counts, _probes: probes, possible_cpus: tasks::possible_cpus() })
    }

    /// What each process has counted so far.
    pub(super) fn counts(&self) -> Result<BTreeMap<u32, u64>, CallsError> {
        let map = self.counts.as_fd();
        let of = |process: u32| {
            let by_cpu: Vec<u64> = sys::map_get_per_cpu(map, process, self.possible_cpus)?;
            Ok((process, by_cpu.iter().sum()))
        };
        let processes: io::Result<Vec<u32>> = sys::map_keys(map);
        let counts = processes.and_then(|all| all.into_iter().map(of).collect());
        counts.map_err(|error| refused("reading the counts", error))
    }
}

fn refused(what: &str, source: io::Error) -> CallsError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => CallsError::Right,
        _ => CallsError::Kernel { what: what.to_owned(), source },
    }
}

/// Registers of the eBPF machine.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const FRAME: u8 = 10;

/// Functions of the kernel that programs may call (`enum bpf_func_id`).
const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const PROCESS_AND_THREAD: i32 = 14;

/// Where on its stack the program keeps the number of the process, and a first count.
const PROCESS: i16 = -4;
const FIRST: i16 = -16;

/// One instruction (`struct bpf_insn`).
fn instruction(code: u8, target: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(target | from << 4) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(value.cast_unsigned()) << 32
}

/// Adds 1 to this CPU's count of the process that passes, which is 0 where it was not seen before:
///
/// ```text
/// process = bpf_get_current_pid_tgid() >> 32
/// count = bpf_map_lookup_elem(counts, &process)
/// if (!count) {
///     if (!bpf_map_update_elem(counts, &process, &1, BPF_NOEXIST)) return 0
///     count = bpf_map_lookup_elem(counts, &process)      another thread was faster
///     if (!count) return 0
/// }
/// atomically *count += 1
/// ```
fn program(counts: i32) -> [u64; 29] {
    let call = |function| instruction(0x85, 0, 0, 0, function);
    let copy = |to, from| instruction(0xbf, to, from, 0, 0);
    let set = |to, value| instruction(0xb7, to, 0, 0, value);
    let add = |to, offset: i16| instruction(0x07, to, 0, 0, i32::from(offset));
    // A descriptor that stands for a map; it takes two places.
    let map = instruction(0x18, R1, 1, 0, counts);
    [
        call(PROCESS_AND_THREAD),
        instruction(0x77, R0, 0, 0, 32),          // R0 >>= 32
        instruction(0x63, FRAME, R0, PROCESS, 0), // *(u32 *)(frame + PROCESS) = R0
        map,
        0,
        copy(R2, FRAME),
        add(R2, PROCESS),
        call(LOOKUP),
        instruction(0x55, R0, 0, 16, 0), // if R0 != 0, to the addition
        instruction(0x7a, FRAME, 0, FIRST, 1), // *(u64 *)(frame + FIRST) = 1
        map,
        0,
        copy(R2, FRAME),
        add(R2, PROCESS),
        copy(R3, FRAME),
        add(R3, FIRST),
        set(R4, 1),
        call(UPDATE),
        instruction(0x15, R0, 0, 8, 0), // if R0 == 0, to the end
        map,
        0,
        copy(R2, FRAME),
        add(R2, PROCESS),
        call(LOOKUP),
        instruction(0x15, R0, 0, 2, 0), // if R0 == 0, to the end
        set(R1, 1),
        instruction(0xdb, R0, R1, 0, 0), // atomically *(u64 *)R0 += R1
        set(R0, 0),
        instruction(0x95, 0, 0, 0, 0), // exit
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction's code and where it jumps to, by its own place.
    fn jump(program: &[u64], at: usize) -> (u64, usize) {
        let offset = usize::try_from(program[at] >> 16 & 0xffff).unwrap();
        (program[at] & 0xff, at + 1 + offset)
    }

    #[test]
    fn jumps_lead_to_the_addition_and_to_the_end() {
        let program = program(7);
        let place = |code: u64| program.iter().rposition(|one| one & 0xff == code).unwrap();
        let (addition, end) = (place(0xdb) - 1, place(0x95) - 1);
        assert_eq!(jump(&program, 8), (0x55, addition));
        assert_eq!(jump(&program, 18), (0x15, end));
        assert_eq!(jump(&program, 24), (0x15, end));
        assert_eq!(program[3], 0x0000_0007_0000_1118, "the map is named by its descriptor");
        assert_eq!(program[6], 0xffff_fffc_0000_0207);
    }
}

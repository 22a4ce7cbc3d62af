//! The programs' structures as user space reads them; `bpf/wire.h` is the original.

use crate::sys::Wire;

/// `comm` as the kernel keeps it: up to 15 bytes, zero-filled.
pub(crate) type Comm = [u8; 16];

/// The name in a [`Comm`]; bytes that are no UTF-8 are replaced.
pub(crate) fn name_of(comm: &Comm) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

/// `struct control`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    pub window: u64,
    /// Set by the programs, as the next.
    pub ahead: u64,
    pub ahead_at: u64,
    pub always_from: u64,
    pub tick: u64,
    pub tick_share: u32,
    pub active: u32,
    pub self_tgid: u32,
    pub number: u32,
    pub targets_changed: u32,
    pub pad: u32,
}

/// `enum state`.
pub(crate) mod state {
    pub(crate) const RUN: u8 = 1;
    pub(crate) const RQ: u8 = 2;
    pub(crate) const BLK: u8 = 3;
}

/// `enum class`: what a core runs, and index into [`Core::spent`].
pub(crate) mod class {
    pub(crate) const IDLE: usize = 0;
    pub(crate) const SYSTEM: usize = 1;
    pub(crate) const GENERATOR: usize = 2;
    pub(crate) const KNEEPOINT: usize = 3;
    pub(crate) const OTHERS: usize = 4;
    pub(crate) const KERNEL: usize = 5;
    pub(crate) const COUNT: usize = 6;
}

/// `enum reason`; 11 is any other.
pub(crate) mod reason {
    pub(crate) const FUTEX: u8 = 1;
    pub(crate) const KERNEL_LOCK: u8 = 2;
    pub(crate) const DEVICE: u8 = 3;
    pub(crate) const PIPE: u8 = 4;
    pub(crate) const SOCKET: u8 = 5;
    pub(crate) const POLL: u8 = 6;
    pub(crate) const TIMER: u8 = 7;
    pub(crate) const FAULT: u8 = 8;
    pub(crate) const FILE: u8 = 9;
    pub(crate) const PROCESS: u8 = 10;
    pub(crate) const ANONYMOUS: u8 = 12;
}

/// Bit of [`WaitId::op`]: the futex call had a timeout.
pub(crate) const OP_TIMED: u16 = 0x8000;
/// Bit of [`WaitId::op`]: the kernel lock is the process's `mmap_lock`.
pub(crate) const OP_MMAP_LOCK: u16 = 0x4000;
/// Bit of [`WaitId::op`]: the kernel lock is the `i_rwsem` of the call's file.
pub(crate) const OP_INODE_RWSEM: u16 = 0x2000;
/// Bit of [`WaitId::op`]: the kernel lock is the one on the position of the call's open file.
pub(crate) const OP_FILE_POSITION: u16 = 0x1000;

/// `enum counter`, in its order.
pub(crate) mod counter {
    pub(crate) const THREADS_FULL: u32 = 0;
    pub(crate) const WAITS_FULL: u32 = 1;
    pub(crate) const EXITED_FULL: u32 = 2;
    pub(crate) const MISSED_WAKE: u32 = 3;
    pub(crate) const ODD_SWITCH: u32 = 4;
    pub(crate) const STALE_LOCK: u32 = 5;
    pub(crate) const RECORDS_LOST: u32 = 6;
    pub(crate) const MARKS: u32 = 7;
    pub(crate) const MARKS_LOST: u32 = 8;
    pub(crate) const CLASSES_FULL: u32 = 9;
    pub(crate) const TICKS: u32 = 10;
    pub(crate) const COUNT: u32 = 11;
}

/// Entries of the map `threads`.
pub(crate) const THREADS: usize = 32768;

/// `struct thread`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thread {
    /// Number of the window in the upper half, of the thread in the lower.
    pub owner: u64,
    pub ts: u64,
    pub birth: u64,
    pub run: u64,
    pub rq_woken: u64,
    pub rq_preempted: u64,
    pub blocked: u64,
    pub switches: u64,
    pub block_start: u64,
    pub wake_ts: u64,
    pub object: u64,
    pub expected: u64,
    pub mark: u64,
    pub mark_p: u64,
    pub comm: Comm,
    pub locks: [u64; 4],
    pub lock_flags: [u32; 4],
    pub parts: [WaitPart; 2],
    pub past: PastWait,
    pub behind: Behind,
    pub nr: i32,
    pub tgid: u32,
    pub op: u16,
    pub state: u8,
    pub reason: u8,
    pub role: u8,
    pub preempted: u8,
    pub holder: u8,
    pub depth: u8,
}

impl Thread {
    /// Its kernel id.
    pub(crate) fn id(&self) -> u32 {
        (self.owner & u64::from(u32::MAX)) as u32
    }

    /// What its pending wait is for.
    pub(crate) fn wait(&self) -> WaitId {
        WaitId {
            comm: self.comm,
            object: self.object,
            nr: self.nr,
            op: self.op,
            reason: self.reason,
            role: self.role,
        }
    }

    /// Its waits that are in no map.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (WaitId, WaitSum)> + '_ {
        let used = self.parts.iter().filter(|part| part.used != 0);
        used.map(|part| {
            let WaitPart { object, nr, op, reason, sum, .. } = *part;
            (WaitId { comm: self.comm, object, nr, op, reason, role: self.role }, sum)
        })
    }
}

/// `struct wait_part`: waits of one thread for one thing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitPart {
    pub object: u64,
    pub nr: i32,
    pub op: u16,
    pub reason: u8,
    pub used: u8,
    pub sum: WaitSum,
}

/// `struct past_wait`: the last wait of a thread for a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PastWait {
    pub object: u64,
    pub begin: u64,
    pub end: u64,
    pub nr: i32,
    pub op: u16,
    pub reason: u8,
    pub pad: u8,
}

/// `struct behind`: the part of a wait for a lock in which its holder waited itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    pub object: u64,
    /// ns; 0 where in no part, as far as is known.
    pub length: u64,
    pub nr: i32,
    pub op: u16,
    pub reason: u8,
    pub pad: u8,
}

impl Behind {
    /// What the holder waited for.
    pub(crate) fn wait(&self) -> WaitId {
        let Self { object, nr, op, reason, .. } = *self;
        WaitId { comm: Comm::default(), object, nr, op, reason, role: 0 }
    }
}

/// `struct wait_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitId {
    pub comm: Comm,
    pub object: u64,
    pub nr: i32,
    pub op: u16,
    pub reason: u8,
    pub role: u8,
}

/// `struct wait_value`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitSum {
    pub blocked: u64,
    pub count: u64,
    pub longest: u64,
    pub idle: u64,
    /// Blocked time by `enum holder`: not a futex, running, runnable, blocked, unknown.
    pub holders: [u64; 5],
}

impl WaitSum {
    /// Adds `other` to it.
    pub(crate) fn add(&mut self, other: &Self) {
        self.blocked += other.blocked;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
        self.idle += other.idle;
        for (mine, theirs) in self.holders.iter_mut().zip(other.holders) {
            *mine += theirs;
        }
    }
}

/// `struct group_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId {
    pub comm: Comm,
    pub role: u64,
}

/// `struct group_value`: totals of exited threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupSum {
    pub threads: u64,
    pub existed: u64,
    pub run: u64,
    pub rq_woken: u64,
    pub rq_preempted: u64,
    pub blocked: u64,
    pub switches: u64,
}

/// `struct core`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Core {
    pub generation: u64,
    pub ts: u64,
    pub spent: [u64; class::COUNT],
    pub idle_scheduler: u64,
    pub idle_uncharged: u64,
    pub stretch_begin: u64,
    pub stretch_idle: u64,
    pub marks: u64,
    pub class: u64,
    pub watched: u64,
    pub switches: u64,
    /// Wake-ups by this core, and those of them that nobody looked at.
    pub wakings: u64,
    pub unseen: u64,
    pub runs: u64,
    /// ns of one in [`TIMED`] of these runs.
    pub timed: u64,
    pub seed: u64,
    pub classes: [u64; 16],
}

/// How many runs of the programs there are to one whose time is taken.
pub(crate) const TIMED: u64 = 61;

/// `struct wait_record`: how long a sampled wait lasted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitRecord {
    pub id: u64,
    pub p: u64,
    pub blocked: u64,
    pub wait: WaitId,
    pub behind: Behind,
}

// SAFETY: for each: repr(C), integers and arrays of integers only, and no padding, because the
// fields are ordered by falling alignment; the test below compares the sizes.
unsafe impl Wire for Control {}
// SAFETY: as above.
unsafe impl Wire for Thread {}
// SAFETY: as above.
unsafe impl Wire for WaitId {}
// SAFETY: as above.
unsafe impl Wire for WaitSum {}
// SAFETY: as above.
unsafe impl Wire for GroupId {}
// SAFETY: as above.
unsafe impl Wire for GroupSum {}
// SAFETY: as above.
unsafe impl Wire for Core {}
// SAFETY: as above.
unsafe impl Wire for WaitRecord {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_structure_has_padding() {
        assert_eq!(size_of::<Control>(), 64);
        assert_eq!(size_of::<Thread>(), 14 * 8 + 16 + 32 + 16 + 2 * 88 + 32 + 24 + 4 + 4 + 2 + 6);
        assert_eq!(size_of::<WaitId>(), 32);
        assert_eq!(size_of::<WaitSum>(), 72);
        assert_eq!(size_of::<GroupId>(), 24);
        assert_eq!(size_of::<GroupSum>(), 56);
        assert_eq!(size_of::<Core>(), 37 * 8);
        assert_eq!(size_of::<WaitRecord>(), 80);
    }

    #[test]
    fn names_end_at_the_first_zero() {
        let mut comm = [0; 16];
        comm[..5].copy_from_slice(b"fsync");
        assert_eq!(name_of(&comm), "fsync");
        assert_eq!(name_of(&[b'x'; 16]).len(), 16);
    }
}

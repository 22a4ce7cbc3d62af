//! What a wait is for, as the table in `docs/method.md` says it; by names of calls, not by numbers.

use super::event::{Call, Lock};
use super::method::State;
use super::wire::{OP_FILE_POSITION, OP_INODE_RWSEM, OP_MMAP_LOCK, OP_TIMED, reason};

/// What a wait is for, and what the holder of its futex did when it began, by `enum holder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    pub reason: u8,
    pub object: u64,
    pub op: u16,
    pub nr: i32,
    pub holder: usize,
}

impl Default for Purpose {
    fn default() -> Self {
        Self { reason: 0, object: 0, op: 0, nr: -1, holder: 0 }
    }
}

/// Reason for which there is no other word.
const OTHER: u8 = 11;
/// Holders of no futex, and those that are not known.
const UNKNOWN: usize = 4;

/// Kernel locks that a thread waits for: the last one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Vec<(u64, u32)>);

impl Held {
    /// At most four are kept. The same again tells new flags of it.
    pub(super) fn begins(&mut self, lock: u64, flags: u32) {
        let room = self.0.len() < 4;
        match self.0.last_mut() {
            Some(last) if last.0 == lock => last.1 = flags,
            _ if room => self.0.push((lock, flags)),
            _ => {}
        }
    }

    /// How many ends of others must have been missed: the last but one can end, too.
    pub(super) fn ends(&mut self, lock: u64) -> u64 {
        let depth = self.0.iter().rev().take(2).position(|(held, _)| *held == lock);
        if let Some(depth) = depth {
            self.0.truncate(self.0.len() - 1 - depth);
        }
        depth.unwrap_or(0) as u64
    }
}

/// What the descriptors of every process lead to; `host.c` opens the same.
fn descriptor(fd: u64) -> Option<(u8, u8)> {
    let fd = fd as u32 as usize;
    let kinds = [
        reason::SOCKET,
        reason::PIPE,
        reason::ANONYMOUS,
        reason::FILE,
        reason::FILE, // a device node
        reason::SOCKET,
    ];
    kinds.get(fd).map(|kind| (*kind, fd as u8))
}

/// A word of user memory.
fn word(words: &[u32; 64], address: u64) -> Option<u32> {
    let offset = address.checked_sub(0x10000)?;
    let (place, within) = (usize::try_from(offset / 4).ok()?, offset % 4);
    assert!(within == 0, "words lie at whole places");
    words.get(place).copied()
}

/// Who has the lock of a word: where it passes priority on it says so itself, beside flags, else
/// the third word from it does.
fn owner(words: &[u32; 64], address: u64, operation: u32) -> Option<u32> {
    const PRIVATE_AND_CLOCK: u32 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32;
    match (operation & !PRIVATE_AND_CLOCK) as i32 {
        libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 => {
            word(words, address).map(|word| word & libc::FUTEX_TID_MASK)
        }
        _ => word(words, address + 8),
    }
}

/// What the wait of a thread is for; none where it goes on with a call that is not known any more.
///
/// `whose` are its process, the words of its memory, and whether it is seen to begin the wait.
pub(super) fn purpose(
    call: &Call,
    iowait: bool,
    held: &Held,
    whose: (u8, &[u32; 64], bool),
    address: &dyn Fn(Lock) -> u64,
    state_of: &dyn Fn(u32) -> Option<State>,
) -> Option<Purpose> {
    let (process, words, seen) = whose;
    let plain = Purpose { nr: call.nr, ..Purpose::default() };
    if let Some((lock, flags)) = held.0.last() {
        let flags = (flags & 0xff) as u16;
        let op = flags | identity(call, process, *lock, address);
        return Some(Purpose { reason: reason::KERNEL_LOCK, object: *lock, op, ..plain });
    }
    if iowait {
        return Some(Purpose { reason: reason::DEVICE, ..plain });
    }
    if i64::from(call.nr) == libc::SYS_restart_syscall {
        return None;
    }
    if call.nr < 0 {
        return Some(Purpose { reason: reason::FAULT, ..plain });
    }
    Some(by_call(call, words, seen, state_of, plain))
}

fn by_call(
    call: &Call,
    words: &[u32; 64],
    seen: bool,
    state_of: &dyn Fn(u32) -> Option<State>,
    plain: Purpose,
) -> Purpose {
    let [first, second, _, fourth] = call.args;
    let of = |reason: u8| Purpose { reason, ..plain };
    match i64::from(call.nr) {
        libc::SYS_futex => {
            let timed = if fourth == 0 { 0 } else { OP_TIMED };
            let op = (second & 0x3fff) as u16 | timed;
            let owner = owner(words, first, second as u32).filter(|owner| seen && *owner != 0);
            let holder = match owner.and_then(state_of) {
                Some(State::Running) => 1,
                Some(State::Woken | State::Preempted) => 2,
                Some(State::Blocked) => 3,
                None => UNKNOWN,
            };
            Purpose { object: first, op, holder, ..of(reason::FUTEX) }
        }
        // futex_wait, which libc has no name for yet
        455 => Purpose { object: first, op: 9, ..of(reason::FUTEX) },
        libc::SYS_futex_waitv => Purpose { op: 9 | OP_TIMED, ..of(reason::FUTEX) },
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_readv
        | libc::SYS_writev => of(descriptor(first).map_or(OTHER, |(kind, _)| kind)),
        libc::SYS_connect
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_sendto
        | libc::SYS_recvfrom
        | libc::SYS_sendmsg
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendmmsg => of(reason::SOCKET),
        libc::SYS_poll | libc::SYS_ppoll => {
            let only =
                word(words, first).filter(|fd| seen && second == 1 && *fd <= i32::MAX as u32);
            let kind = only.and_then(|fd| descriptor(u64::from(fd))).map(|(kind, _)| kind);
            of(kind.filter(|kind| *kind != reason::ANONYMOUS).unwrap_or(reason::POLL))
        }
        libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_io_getevents
        | libc::SYS_io_uring_enter
        | libc::SYS_pause
        | libc::SYS_rt_sigtimedwait => of(reason::POLL),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => of(reason::TIMER),
        libc::SYS_wait4 | libc::SYS_waitid => of(reason::PROCESS),
        libc::SYS_msync
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync
        | libc::SYS_sync_file_range
        | libc::SYS_syncfs => of(reason::FILE),
        _ => of(OTHER),
    }
}

/// Which lock of the process, or of the file that the call names, a kernel lock is.
fn identity(call: &Call, process: u8, lock: u64, address: &dyn Fn(Lock) -> u64) -> u16 {
    if lock == address(Lock::Memory(process)) {
        return OP_MMAP_LOCK;
    }
    let [first, _, third, _] = call.args;
    let fd = match i64::from(call.nr) {
        libc::SYS_copy_file_range => third,
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_lseek
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_sendfile
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ftruncate
        | libc::SYS_readahead
        | libc::SYS_getdents64
        | libc::SYS_sync_file_range
        | libc::SYS_fallocate
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2 => first,
        _ => return 0,
    };
    match descriptor(fd) {
        Some((_, file)) if lock == address(Lock::Position(file)) => OP_FILE_POSITION,
        Some((_, file)) if lock == address(Lock::Inode(file)) => OP_INODE_RWSEM,
        _ => 0,
    }
}

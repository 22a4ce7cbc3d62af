//! `/proc/PID/task/TID/syscall`: the call that a thread is in, and what it then waits for.
//! System call numbers are x86-64's.

use kneepoint_machine::proc::{self, process};
use kneepoint_vocab::{WaitKey, WaitReason};

/// What the file says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// On a core or runnable; the file cannot tell which.
    Running,
    /// Blocked outside a call: a page fault, or in the kernel on its own.
    OutsideCall,
    /// Inside a call, with its first four arguments.
    Call {
        /// Number.
        nr: i32,
        /// First four arguments.
        args: [u64; 4],
    },
}

impl Doing {
    /// What it waits for; `None` where it waits for nothing but a core. `link` looks a file
    /// descriptor up.
    pub fn wait(self, link: impl FnOnce(u64) -> Option<String>) -> Option<WaitKey> {
        let key = |reason, object, syscall| WaitKey { reason, object, object_name: None, syscall };
        match self {
            Self::Running => None,
            Self::OutsideCall => Some(key(WaitReason::PageFault, 0, -1)),
            Self::Call { nr, args } => {
                let (reason, object) = reason(nr, &args, link);
                Some(key(reason, object, nr))
            }
        }
    }
}

/// What a file descriptor of a process leads to.
#[must_use]
pub fn link(pid: u32, fd: u64) -> Option<String> {
    process::descriptor(pid, fd).map(|link| link.to_string_lossy().into_owned())
}

/// What a thread in scheduler state `state` waits for; `None` where it is runnable.
#[must_use]
pub fn wait(pid: u32, tid: u32, state: char) -> Option<WaitKey> {
    if state == 'R' {
        return None;
    }
    let line = proc::text(&format!("{pid}/task/{tid}/syscall"));
    let known =
        line.ok().as_deref().and_then(parse).and_then(|doing| doing.wait(|fd| link(pid, fd)));
    let reason = WaitReason::Other;
    Some(known.unwrap_or(WaitKey { reason, object: 0, object_name: None, syscall: -1 }))
}

/// Parses the one line; `None` for anything else.
#[must_use]
pub fn parse(text: &str) -> Option<Doing> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Doing::Running);
    }
    let nr: i32 = first.parse().ok()?;
    if nr < 0 {
        return Some(Doing::OutsideCall);
    }
    let mut args = [0; 4];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Doing::Call { nr, args })
}

/// Operation of the calls that can do nothing but what `FUTEX_WAIT_BITSET` does.
const WAIT_BITSET: u16 = 9;

/// A futex wait as it was called.
fn futex(operation: u64, timed: bool) -> WaitReason {
    WaitReason::Futex { operation: u16::try_from(operation).unwrap_or(u16::MAX), timed }
}

/// What kind of thing a file descriptor is, from its link in `/proc/PID/fd`.
#[must_use]
pub fn descriptor_reason(link: &str) -> WaitReason {
    if link.starts_with("socket:") {
        WaitReason::Socket
    } else if link.starts_with("pipe:") {
        WaitReason::Pipe
    } else if link.starts_with("anon_inode:[eventfd]") {
        WaitReason::EventCounter
    } else if link.starts_with("anon_inode:[timerfd]") {
        WaitReason::Timer
    } else if link.starts_with("anon_inode:") {
        WaitReason::Poll
    } else {
        WaitReason::File
    }
}

/// What a call is waiting for and on which object; `link` looks a file descriptor up.
pub fn reason(
    nr: i32,
    args: &[u64; 4],
    link: impl FnOnce(u64) -> Option<String>,
) -> (WaitReason, u64) {
    let plain = match nr {
        202 => return (futex(args[1], args[3] != 0), args[0]),
        455 => return (WaitReason::Futex { operation: WAIT_BITSET, timed: false }, args[0]),
        449 => WaitReason::Futex { operation: WAIT_BITSET, timed: true },
        0 | 1 | 17..=20 => link(args[0]).map_or(WaitReason::Other, |link| descriptor_reason(&link)),
        42..=47 | 288 | 299 | 307 => WaitReason::Socket,
        7 | 23 | 34 | 128 | 208 | 232 | 270 | 271 | 281 | 426 | 441 => WaitReason::Poll,
        35 | 230 => WaitReason::Timer,
        61 | 247 => WaitReason::Process,
        26 | 74 | 75 | 162 | 277 | 306 => WaitReason::File,
        _ => WaitReason::Other,
    };
    (plain, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        assert_eq!(parse("running\n"), Some(Doing::Running));
        assert_eq!(parse("-1 0x7ffe 0x55d0"), Some(Doing::OutsideCall));
        let call = parse("202 0x7f01 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f9a\n").unwrap();
        assert_eq!(call, Doing::Call { nr: 202, args: [0x7f01, 0x80, 2, 0] });
        assert_eq!(parse("202 0x7f01"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn waits_are_distinguished() {
        let none = |_| None;
        let futex = |operation, timed| (WaitReason::Futex { operation, timed }, 16);
        assert_eq!(reason(202, &[16, 128, 2, 0], none), futex(128, false));
        assert_eq!(reason(202, &[16, 393, 2, 0], none), futex(393, false));
        assert_eq!(reason(202, &[16, 128, 2, 99], none), futex(128, true));
        assert_eq!(reason(230, &[0, 0, 0, 0], none), (WaitReason::Timer, 0));
        assert_eq!(reason(0, &[3, 0, 0, 0], |_| Some("pipe:[77]".into())).0, WaitReason::Pipe);
        let read = |link: &str| reason(0, &[3, 0, 0, 0], |_| Some(link.to_owned())).0;
        assert_eq!(read("anon_inode:[eventfd]"), WaitReason::EventCounter);
        assert_eq!(read("anon_inode:[timerfd]"), WaitReason::Timer);
        assert_eq!(read("anon_inode:inotify"), WaitReason::Poll);
        assert_eq!(reason(0, &[3, 0, 0, 0], |_| Some("/etc/x".into())).0, WaitReason::File);
        assert_eq!(reason(9999, &[0; 4], none).0, WaitReason::Other);
    }
}

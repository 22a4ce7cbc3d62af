//! What the kernel counted of a program that has ended: what its own count is checked against.

use crate::process::Process;
use anyhow::Context as _;
use kneepoint_vocab::CountCheck;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs;
use std::time::{Duration, Instant};

/// The largest disagreement between two counts of the same operations.
const MOST_DISAGREEMENT: f64 = 0.01;

/// Reading and writing of a process or a thread, as `/proc/PID/io` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IoCounts {
    /// Read system calls.
    pub(super) read_calls: u64,
    /// Write system calls.
    pub(super) write_calls: u64,
    /// Bytes asked of block devices.
    pub(super) device_bytes: u64,
}

impl IoCounts {
    /// Of a process with all threads it ever had; also of one that has ended but was not reaped.
    ///
    /// # Errors
    /// There is no such process, or it is somebody else's.
    pub(super) fn of(process: u32) -> anyhow::Result<Self> {
        Self::in_file(&format!("/proc/{process}/io"))
    }

    /// Of one thread alone.
    fn of_thread(process: u32, thread: u32) -> anyhow::Result<Self> {
        Self::in_file(&format!("/proc/{process}/task/{thread}/io"))
    }

    fn in_file(file: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
        parse(&text).with_context(|| format!("{file} is not in the form that is documented"))
    }
}

fn parse(text: &str) -> Option<IoCounts> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(": ")?.trim().parse().ok())
    };
    Some(IoCounts {
        read_calls: value("syscr")?,
        write_calls: value("syscw")?,
        device_bytes: value("read_bytes")?,
    })
}

/// Threads of a process called `name`, ascending, with what each has done. In a thread's own
/// file the numbers are its alone.
pub(super) fn threads(process: u32, name: &str) -> Vec<(u32, IoCounts)> {
    let folder = format!("/proc/{process}/task");
    let tasks = fs::read_dir(&folder).into_iter().flatten().flatten();
    let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
    let named = |tid: &u32| {
        let comm = fs::read_to_string(format!("{folder}/{tid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let counted = ids.filter(named).filter_map(|tid| {
        let text = fs::read_to_string(format!("{folder}/{tid}/io")).ok()?;
        Some((tid, parse(&text)?))
    });
    let mut threads: Vec<_> = counted.collect();
    threads.sort_unstable_by_key(|(tid, _)| *tid);
    threads
}

/// Whether a child has ended. Unlike [`Process::ended`] it leaves it unreaped, with its counts.
pub(super) fn has_ended(process: &Process) -> bool {
    let id = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let waited = id.map(|id| waitid(WaitId::Pid(id), options));
    // What cannot be waited for has ended and been reaped.
    !matches!(waited, Some(Ok(None)))
}

/// Waits until a child has ended and returns what it did in its life.
///
/// # Errors
/// It does not end within `timeout`.
pub(super) fn final_counts(process: &Process, timeout: Duration) -> anyhow::Result<IoCounts> {
    let deadline = Instant::now() + timeout;
    while !has_ended(process) {
        if Instant::now() > deadline {
            return Err(process.lost(&format!("did not end within {timeout:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    IoCounts::of(process.pid())
}

/// The same without what the first thread did.
///
/// # Errors
/// Like [`final_counts`].
pub(super) fn calls_beside_first_thread(
    process: &Process,
    timeout: Duration,
) -> anyhow::Result<IoCounts> {
    let whole = final_counts(process, timeout)?;
    let pid = process.pid();
    let first = IoCounts::of_thread(pid, pid)?;
    Ok(IoCounts {
        read_calls: whole.read_calls.saturating_sub(first.read_calls),
        write_calls: whole.write_calls.saturating_sub(first.write_calls),
        device_bytes: whole.device_bytes.saturating_sub(first.device_bytes),
    })
}

/// The check, where the two agree within 1 %.
///
/// # Errors
/// They do not: there is no telling which is right.
pub(super) fn agreed(check: CountCheck, who: &str) -> anyhow::Result<CountCheck> {
    let apart = check.disagreement();
    anyhow::ensure!(
        apart.0 <= MOST_DISAGREEMENT,
        "{who} counted {} operations, the kernel {} ({}): {:.1} % apart",
        check.generator,
        check.server,
        check.counter,
        apart.0 * 100.0
    );
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_form_is_read_and_another_is_not() {
        let text = "rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 512\nwrite_bytes: 0\n";
        let counts = IoCounts { read_calls: 3, write_calls: 4, device_bytes: 512 };
        assert_eq!(parse(text), Some(counts));
        for bad in ["", "syscr: 3\nsyscw: x\nread_bytes: 1\n", "syscr 3\nsyscw 2\nread_bytes 1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn counts_a_percent_apart_are_refused() {
        let check = |server| CountCheck { counter: "reads".into(), generator: 1000, server };
        assert!(agreed(check(1009), "fio").is_ok());
        let error = agreed(check(1020), "fio").unwrap_err().to_string();
        assert!(error.contains("fio counted 1000") && error.contains("2.0 % apart"), "{error}");
        assert!(agreed(check(0), "fio").is_err());
    }
}

//! `/proc/PID/io`: what a process or a thread has read and written.

use super::process::thread_name;
use super::tasks::threads;
use super::text;

/// Reading and writing so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Read system calls.
    pub read_calls: u64,
    /// Write system calls.
    pub write_calls: u64,
    /// Bytes asked of block devices.
    pub device_bytes: u64,
}

/// Parses the file; none for anything else.
#[must_use]
pub fn parse(text: &str) -> Option<IoCounts> {
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

/// Of a process with all threads it ever had; also of one that has ended but was not reaped.
///
/// # Errors
/// There is no such process, or it is somebody else's.
pub fn of(pid: u32) -> std::io::Result<IoCounts> {
    in_file(&format!("{pid}/io"))
}

/// Of one thread alone.
///
/// # Errors
/// There is no such thread, or it is somebody else's.
pub fn of_thread(pid: u32, tid: u32) -> std::io::Result<IoCounts> {
    in_file(&format!("{pid}/task/{tid}/io"))
}

fn in_file(file: &str) -> std::io::Result<IoCounts> {
    let text = text(file)
        .map_err(|error| std::io::Error::new(error.kind(), format!("/proc/{file}: {error}")))?;
    let unknown = || format!("/proc/{file} is not in the form that is documented");
    parse(&text).ok_or_else(|| std::io::Error::other(unknown()))
}

/// Threads of a process called `name`, ascending, with what each has done. In a thread's own
/// file the numbers are its alone.
#[must_use]
pub fn of_threads_named(pid: u32, name: &str) -> Vec<(u32, IoCounts)> {
    let named = |tid: &u32| thread_name(pid, *tid).is_some_and(|found| found == name);
    let counted = threads(pid).into_iter().filter(named);
    counted.filter_map(|tid| Some((tid, of_thread(pid, tid).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_nonsense_is_not() {
        let text = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 0\n";
        let found = parse(text).unwrap();
        assert_eq!(found, IoCounts { read_calls: 7, write_calls: 6, device_bytes: 4096 });
        for bad in ["", "syscr: 3\nsyscw: x\nread_bytes: 1\n", "syscr 3\nsyscw 2\nread_bytes 1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let error = of(u32::MAX >> 1).unwrap_err().to_string();
        assert!(error.starts_with("/proc/"), "{error}");
    }
}

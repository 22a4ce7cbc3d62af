//! A scratch directory in memory where there is room for one, removed when its guard goes.
//!
//! The directory's name says whose it is: PID namespace, process and the process's start time.
//! So [`recover`] can tell the left-overs of a killed Kneepoint from the directory of a living
//! one, with no file that could be torn or forgotten.

use anyhow::Context as _;
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PREFIX: &str = "kneepoint-";
/// How long a killed process may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(10);
const SHARED_MEMORY: &str = "/dev/shm";
/// Room that a memory-backed directory must have, in bytes.
const ROOM: u64 = 256 << 20;
/// `TMPFS_MAGIC` of the kernel's `linux/magic.h`.
const TMPFS: i128 = 0x0102_1994;

/// A directory of its own for one run; dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    memory_backed: bool,
}

impl Scratch {
    /// A new directory: in `/dev/shm` if that is a tmpfs with at least 256 MiB left, else in the
    /// directory for temporary files.
    ///
    /// # Errors
    /// Neither place lets a directory be made.
    pub fn create() -> anyhow::Result<Self> {
        let shared_memory = Path::new(SHARED_MEMORY);
        if has_room(shared_memory)
            && let Ok(scratch) = Self::create_in(shared_memory)
        {
            return Ok(scratch);
        }
        Self::create_in(&std::env::temp_dir())
    }

    /// A new directory below `parent`.
    ///
    /// # Errors
    /// `parent` does not let a directory be made.
    pub fn create_in(parent: &Path) -> anyhow::Result<Self> {
        let prefix = Owner::this_process()?.prefix();
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(parent)
            .with_context(|| format!("{}: no scratch directory can be made", parent.display()))?;
        Ok(Self { directory, memory_backed: is_tmpfs(parent) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Whether its files live in memory, so that reading them waits for no device.
    #[must_use]
    pub fn memory_backed(&self) -> bool {
        self.memory_backed
    }
}

/// Removes the scratch directories of this user's Kneepoints that were killed, and returns those
/// removed. Directories of living processes and of other users stay.
///
/// # Errors
/// One of them cannot be removed; the others are tried all the same.
pub fn recover() -> anyhow::Result<Vec<PathBuf>> {
    let shared_memory = PathBuf::from(SHARED_MEMORY);
    let temporary = std::env::temp_dir();
    let mut removed = recover_in(&shared_memory)?;
    if temporary != shared_memory {
        removed.extend(recover_in(&temporary)?);
    }
    Ok(removed)
}

/// [`recover`] for the scratch directories below `parent`.
///
/// # Errors
/// One of them cannot be removed; the others are tried all the same.
pub fn recover_in(parent: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(parent) else { return Ok(Vec::new()) };
    let mut removed = Vec::new();
    let mut failure = None;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_left_over(path)) {
        let gone = crate::undo::undo_left(&path)
            .and_then(|()| fs::remove_dir_all(&path).with_context(|| path.display().to_string()));
        match gone {
            Ok(()) => removed.push(path),
            Err(error) => failure = Some(error),
        }
    }
    removed.sort();
    match failure {
        None => Ok(removed),
        Some(error) => Err(error.context("a scratch directory of a dead run cannot be removed")),
    }
}

/// Removes the scratch directory of a run that was killed just now. A directory that is no scratch
/// directory stays, and so does that of a run that lives.
pub(crate) fn remove_of_dead(path: &Path) -> anyhow::Result<()> {
    let Some(owner) = path.file_name().and_then(|name| Owner::parse(name.to_str()?)) else {
        return Ok(());
    };
    // A process closes its pipes before it is gone.
    let begun = Instant::now();
    let lives = || start_time(owner.process) == Some(owner.started);
    while lives() && !crate::undo::is_zombie(owner.process) {
        if begun.elapsed() > LAST_BREATH {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

fn is_left_over(path: &Path) -> bool {
    let Some(owner) = path.file_name().and_then(|name| Owner::parse(name.to_str()?)) else {
        return false;
    };
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    about.is_dir()
        && about.uid() == rustix::process::geteuid().as_raw()
        && Some(owner.namespace) == pid_namespace()
        && start_time(owner.process) != Some(owner.started)
}

/// Who made a scratch directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    namespace: u64,
    process: u32,
    started: u64,
}

impl Owner {
    fn this_process() -> anyhow::Result<Self> {
        let process = std::process::id();
        let namespace = pid_namespace().context("/proc/self/ns/pid cannot be read: mount /proc")?;
        let started = start_time(process).context("/proc/self/stat cannot be read: mount /proc")?;
        Ok(Self { namespace, process, started })
    }

    fn prefix(self) -> String {
        format!("{PREFIX}{}-{}-{}-", self.namespace, self.process, self.started)
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let namespace = parts.next()?.parse().ok()?;
        let process = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        parts.next().map(|_| Self { namespace, process, started })
    }
}

/// Inode of this process's PID namespace.
fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|about| about.ino())
}

/// When a process started, in clock ticks since boot (field 22 of `/proc/PID/stat`); `None` where
/// it lives no more.
pub(crate) fn start_time(process: u32) -> Option<u64> {
    stat_field(process, 22)
}

/// The session that a process belongs to; 0 where its leader is outside this PID namespace, as in
/// a container, or where it is a thread of the kernel. `getsid` of rustix knows no such session.
pub(crate) fn session_of(process: u32) -> Option<u32> {
    stat_field(process, 6)
}

/// A field of `/proc/PID/stat`, counted from 1, after the name.
fn stat_field<T: std::str::FromStr>(process: u32, number: usize) -> Option<T> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

fn is_tmpfs(path: &Path) -> bool {
    statfs(path).is_ok_and(|about| i128::from(about.f_type) == TMPFS)
}

fn has_room(path: &Path) -> bool {
    let Ok(about) = statvfs(path) else { return false };
    is_tmpfs(path)
        && !about.f_flag.contains(StatVfsMountFlags::RDONLY)
        && about.f_bavail.saturating_mul(about.f_frsize) >= ROOM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_session_and_start_are_read() {
        let own = std::process::id();
        assert!(start_time(own).is_some_and(|ticks| ticks > 0));
        assert!(session_of(own).is_some());
        assert_eq!(session_of(u32::MAX), None);
    }

    #[test]
    fn it_goes_with_all_that_is_in_it() {
        let scratch = Scratch::create().unwrap();
        let path = scratch.path().to_owned();
        fs::create_dir(path.join("deep")).unwrap();
        fs::write(path.join("deep/file"), "x").unwrap();
        assert_eq!(scratch.memory_backed(), is_tmpfs(&path));
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_what_the_dead_left_is_recovered() {
        let parent = TempDir::new().unwrap();
        let own = Scratch::create_in(parent.path()).unwrap();
        let me = Owner::this_process().unwrap();
        let make = |owner: Owner| {
            let path = parent.path().join(owner.prefix() + "abc");
            fs::create_dir(&path).unwrap();
            fs::write(path.join("database"), "x").unwrap();
            path
        };
        let earlier = make(Owner { started: me.started - 1, ..me });
        let elsewhere = make(Owner { namespace: 1, process: 1, started: 1 });
        let living = make(me);
        let foreign = parent.path().join("kneepoint-runs");
        fs::create_dir(&foreign).unwrap();
        let link = parent.path().join(Owner { started: me.started - 2, ..me }.prefix() + "link");
        std::os::unix::fs::symlink(&foreign, link).unwrap();

        assert_eq!(recover_in(parent.path()).unwrap(), [earlier]);
        assert!(own.path().exists() && elsewhere.exists() && living.exists() && foreign.exists());
        assert_eq!(recover_in(parent.path()).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_name_without_an_owner_is_nobodys() {
        for name in ["kneepoint-", "kneepoint-1-2", "kneepoint-1-2-3", "kneepoint-a-2-3-x", "other"]
        {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
        let owner = Owner { namespace: 4, process: 5, started: 6 };
        assert_eq!(Owner::parse(&(owner.prefix() + "xyz")), Some(owner));
    }
}

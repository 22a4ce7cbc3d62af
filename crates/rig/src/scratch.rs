//! A scratch directory in memory where there is room for one, removed when its guard goes.
//!
//! The directory's name says whose it is: PID namespace, process and the process's start time.
//! So [`crate::recovery`] can tell the left-overs of a killed Kneepoint from the directory of a
//! living one, with no file that could be torn or forgotten.

use anyhow::{Context as _, bail};
use kneepoint_machine::proc::process::{birth, is_zombie};
use kneepoint_machine::{own_pid, proc};
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PREFIX: &str = "kneepoint-";
/// How long a killed process may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(10);
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";
/// Room that a memory-backed directory must have, in bytes.
const ROOM: u64 = 256 << 20;
/// `TMPFS_MAGIC` of the kernel's `linux/magic.h`.
const TMPFS: i128 = 0x0102_1994;

/// A directory of its own for one run; dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    memory_backed: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.directory, None) {
            tracing::warn!("{}: {error:#}", self.directory.display());
        }
    }
}

impl Scratch {
    /// A new directory: in `/dev/shm` if that is a tmpfs with at least 256 MiB left, else in the
    /// directory for temporary files.
    ///
    /// # Errors
    /// Neither place lets a directory be made.
    pub fn create() -> anyhow::Result<Self> {
        let made = Self::places()?.into_iter().map(|place| Self::create_at(&place));
        made.reduce(Result::or).unwrap_or_else(|| bail!("there is no place for scratch files"))
    }

    /// A new directory below `parent`.
    ///
    /// # Errors
    /// `parent` does not let a directory be made.
    pub fn create_in(parent: &Path) -> anyhow::Result<Self> {
        Self::create_at(&Self::place_in(parent)?)
    }

    /// Where one may be made, the best place first.
    pub(crate) fn places() -> anyhow::Result<Vec<PathBuf>> {
        let shared_memory = has_room(Path::new(SHARED_MEMORY)).then(|| SHARED_MEMORY.into());
        let parents = shared_memory.into_iter().chain([std::env::temp_dir()]);
        parents.map(|parent| Self::place_in(&parent)).collect()
    }

    /// A name below `parent` that this process gives once.
    fn place_in(parent: &Path) -> anyhow::Result<PathBuf> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(parent.join(format!("{}{number}", Owner::this_process()?.prefix())))
    }

    /// A new directory of this name, closed to others.
    pub(crate) fn create_at(place: &Path) -> anyhow::Result<Self> {
        let parent = place.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .mode(0o700)
            .create(place)
            .with_context(|| format!("{}: no scratch directory can be made", parent.display()))?;
        Ok(Self { directory: place.to_owned(), memory_backed: is_tmpfs(parent) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Whether its files live in memory, so that reading them waits for no device.
    #[must_use]
    pub fn memory_backed(&self) -> bool {
        self.memory_backed
    }
}

/// Removes the scratch directory of a run that was killed just now, but for the file `keep` in it.
/// A directory that is no scratch directory stays, and so does that of a run that lives.
pub(crate) fn remove_of_dead(path: &Path, keep: Option<&str>) -> anyhow::Result<()> {
    let Some(owner) = path.file_name().and_then(|name| Owner::parse(name.to_str()?)) else {
        return Ok(());
    };
    // A process closes its pipes before it is gone.
    let begun = Instant::now();
    let lives = || birth(owner.process) == Some(owner.started);
    while lives() && !is_zombie(owner.process) {
        if begun.elapsed() > LAST_BREATH {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let ours = fs::symlink_metadata(path)
        .is_ok_and(|it| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw());
    if !ours {
        return Ok(());
    }
    remove(path, keep).with_context(|| format!("{} cannot be removed", path.display()))
}

/// Removes a directory, or all that is in it but one file. Nothing of what is mounted below is
/// touched: that is not the directory's own.
pub(crate) fn remove(path: &Path, keep: Option<&str>) -> anyhow::Result<()> {
    let mounts = proc::text("self/mountinfo").unwrap_or_default();
    let below = format!("{}/", path.display());
    if let Some(point) = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|point| point.starts_with(&below))
    {
        bail!("{point} is still mounted");
    }
    // A guardian that is at the same directory is as good.
    let gone = |done: std::io::Result<()>| match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    let Some(keep) = keep else { return Ok(gone(fs::remove_dir_all(path))?) };
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => gone(fs::remove_dir_all(entry.path()))?,
            false if entry.file_name() == keep => {}
            false => gone(fs::remove_file(entry.path()))?,
        }
    }
    Ok(())
}

/// Whether it is a scratch directory of this user's whose Kneepoint was killed.
pub(crate) fn is_left_over(path: &Path) -> bool {
    let Some(owner) = path.file_name().and_then(|name| Owner::parse(name.to_str()?)) else {
        return false;
    };
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    about.is_dir() && about.uid() == rustix::process::geteuid().as_raw() && owner.is_dead()
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
        let process = own_pid();
        let namespace = pid_namespace().context("the PID namespace cannot be read: mount /proc")?;
        let started = birth(process).context("no process can be read: mount /proc")?;
        Ok(Self { namespace, process, started })
    }

    /// Whether it was of this PID namespace and lives no more.
    fn is_dead(self) -> bool {
        Some(self.namespace) == pid_namespace() && birth(self.process) != Some(self.started)
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
    proc::inode("self/ns/pid")
}

/// Whether a mark or a scratch directory's name is of a Kneepoint that lives no more.
pub(crate) fn is_of_dead(name: &str) -> bool {
    Owner::parse(name).is_some_and(Owner::is_dead)
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
    use crate::recovery::recover_in;
    use tempfile::TempDir;

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
        let others = parent.path().join("kneepoint-runs");
        fs::create_dir(&others).unwrap();
        let link = parent.path().join(Owner { started: me.started - 2, ..me }.prefix() + "link");
        std::os::unix::fs::symlink(&others, link).unwrap();

        assert_eq!(recover_in(parent.path()).unwrap(), [earlier]);
        assert!(own.path().exists() && elsewhere.exists() && living.exists() && others.exists());
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

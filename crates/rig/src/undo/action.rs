//! What there is to put back, and how each of it is done.

use crate::ending;
use crate::search_path::SearchPath;
use anyhow::Context as _;
use kneepoint_machine::proc::process::{birth, mappings};
use kneepoint_machine::proc::tasks;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long mounts and devices may take to become free.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(2);
/// Where POSIX shared memory has its names.
const SHARED_MEMORY: &str = "/dev/shm";

/// How to put something back. Doing it twice, or where it was never done, changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Action {
    /// Kill a process and all its descendants.
    Kill {
        /// The process.
        process: u32,
        /// When it started, in clock ticks since boot: tells it from a later one of its id.
        started: u64,
    },
    /// Kill everything that bears a mark in its environment or is in a control group, however it
    /// has gone off, and remove the group.
    EndGroup {
        /// The mark.
        mark: String,
        /// The control group's directory, where there is one.
        directory: Option<PathBuf>,
    },
    /// Unmount what is mounted there.
    Unmount {
        /// The mount point.
        path: PathBuf,
    },
    /// Detach a loop device, if it still has this file behind it.
    DetachLoop {
        /// The device, e.g. `/dev/loop0`.
        device: PathBuf,
        /// The file.
        backing: PathBuf,
    },
    /// Reset a compressed-memory device and remove it where it had been added.
    ResetZram {
        /// Its number.
        index: u32,
        /// Whether it was added, and so has to go.
        added: bool,
    },
    /// Remove compressed-memory devices that hold nothing and were not there before: noted before
    /// one is added, whose number only the kernel chooses.
    RemoveUnusedZram {
        /// Numbers of those that were there.
        before: Vec<u32>,
    },
    /// Remove POSIX shared memory with names of this beginning that a user made and no process
    /// has mapped any more.
    RemoveSharedMemory {
        /// Begin of the names.
        prefix: String,
        /// The user's id.
        user: u32,
        /// Names that were there before.
        before: Vec<String>,
    },
    /// Remove System V shared memory that nobody has attached, where the process that made it is
    /// gone: one that another program has started is known to nobody after its end.
    RemoveSegment {
        /// By what those find it who share it.
        key: i32,
    },
    /// Remove an empty directory, such as a control group's.
    RemoveDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Write what stood in a file before, such as a kernel setting.
    RestoreFile {
        /// The file.
        path: PathBuf,
        /// What it held.
        content: String,
    },
}

impl Action {
    /// Kill this process, which is alive now, and its descendants.
    ///
    /// # Errors
    /// It is not alive.
    pub fn kill(process: u32) -> anyhow::Result<Self> {
        let started = birth(process)
            .with_context(|| format!("process {process} ended before it could be watched"))?;
        Ok(Self::Kill { process, started })
    }

    /// The processes that it is about.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Self::EndGroup { directory: Some(directory), .. } => ending::all_members(directory),
            Self::Kill { process, started } if birth(*process) == Some(*started) => {
                tasks::family(&[*process])
            }
            _ => Vec::new(),
        }
    }

    /// Kills all that are in a group, without waiting for their end; that is for [`Self::undo`].
    pub(super) fn kill_at_once(&self) {
        if let Self::EndGroup { directory: Some(directory), .. } = self {
            // Without control groups, or on kernels before 5.14, they end one after the other.
            let _ = fs::write(directory.join("cgroup.kill"), "1");
        }
    }

    /// Puts it back.
    ///
    /// # Errors
    /// It could not be put back, and why.
    pub fn undo(&self) -> anyhow::Result<()> {
        match self {
            Self::Kill { process, started } => ending::kill(*process, *started),
            Self::EndGroup { mark, directory } => ending::end(mark, directory.as_deref()),
            Self::Unmount { path } => unmount_at(path),
            Self::DetachLoop { device, backing } => detach_loop(device, backing),
            Self::ResetZram { index, added } => reset_zram(*index, *added),
            Self::RemoveUnusedZram { before } => remove_unused_zram(before),
            Self::RemoveSharedMemory { prefix, user, before } => {
                remove_unmapped(Path::new(SHARED_MEMORY), prefix, *user, before)
            }
            Self::RemoveSegment { key } => ending::remove_shared_memory_of(*key),
            Self::RemoveDirectory { path } => match fs::remove_dir(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("{} cannot be removed", path.display()))
                }
                _ => Ok(()),
            },
            Self::RestoreFile { path, content } => fs::write(path, content)
                .with_context(|| format!("{} cannot be restored", path.display())),
        }
    }
}

/// Unmounts. What somebody else is in, such as a shell, comes off the tree all the same and goes
/// for good when he leaves.
fn unmount_at(path: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let busy = begun.elapsed() > TIMEOUT;
        let how = if busy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match unmount(path, UnmountFlags::NOFOLLOW | how) {
            // Not mounted, or the mount point itself is gone.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if !busy => std::thread::sleep(5 * GLANCE),
            Err(error) => {
                return Err(error).with_context(|| format!("{} stays mounted", path.display()));
            }
        }
    }
}

fn detach_loop(device: &Path, backing: &Path) -> anyhow::Result<()> {
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let behind = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    let Ok(behind) = behind else { return Ok(()) };
    let behind = behind.trim_end().trim_end_matches(" (deleted)");
    if Path::new(behind) != backing {
        return Ok(());
    }
    SearchPath::own().run("losetup", &["--detach", &device.display().to_string()])
}

fn reset_zram(index: u32, added: bool) -> anyhow::Result<()> {
    let folder = PathBuf::from(format!("/sys/block/zram{index}"));
    if !folder.exists() {
        return Ok(());
    }
    // Who looks what a new device is, such as udev, has it open for a moment.
    patiently(|| fs::write(folder.join("reset"), "1"))
        .with_context(|| format!("zram{index} cannot be reset"))?;
    if added {
        patiently(|| fs::write("/sys/class/zram-control/hot_remove", index.to_string()))
            .with_context(|| format!("zram{index} cannot be removed"))?;
    }
    Ok(())
}

/// Does something again and again while the kernel says that it is busy.
fn patiently(mut act: impl FnMut() -> std::io::Result<()>) -> std::io::Result<()> {
    let begun = Instant::now();
    loop {
        match act() {
            Err(error)
                if error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
                    && begun.elapsed() < TIMEOUT =>
            {
                std::thread::sleep(5 * GLANCE);
            }
            done => return done,
        }
    }
}

/// Numbers of the compressed-memory devices that there are.
pub(crate) fn zram_devices() -> Vec<u32> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.strip_prefix("zram")?.parse().ok()).collect()
}

fn remove_unused_zram(before: &[u32]) -> anyhow::Result<()> {
    for index in zram_devices().into_iter().filter(|index| !before.contains(index)) {
        let size = fs::read_to_string(format!("/sys/block/zram{index}/disksize"));
        if size.is_ok_and(|size| size.trim() == "0") {
            reset_zram(index, true)?;
        }
    }
    Ok(())
}

/// Names of POSIX shared memory that begin so.
pub(crate) fn shared_memory(prefix: &str) -> Vec<String> {
    names(Path::new(SHARED_MEMORY), prefix)
}

fn names(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn remove_unmapped(
    folder: &Path,
    prefix: &str,
    user: u32,
    before: &[String],
) -> anyhow::Result<()> {
    let mut made: Vec<PathBuf> = names(folder, prefix)
        .into_iter()
        .filter(|name| !before.contains(name))
        .map(|name| folder.join(name))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.uid() == user))
        .collect();
    if made.is_empty() {
        return Ok(());
    }
    for maps in tasks::processes().into_iter().filter_map(|pid| mappings(pid).ok()) {
        made.retain(|path| !maps.contains(&*path.to_string_lossy()));
    }
    for path in made {
        fs::remove_file(&path).with_context(|| format!("{} stays", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_machine::proc::process::is_zombie;
    use kneepoint_machine::proc::tasks::family_with_births as family;
    use std::process::Command;

    #[test]
    fn shared_memory_goes_but_for_what_was_there_and_what_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["PostgreSQL.1", "PostgreSQL.2", "PostgreSQL.3", "other"] {
            fs::write(path(name), vec![0; 4096]).unwrap();
        }
        let user = rustix::process::geteuid().as_raw();
        // A program that has the file mapped: its own executable is mapped.
        fs::copy("/bin/sleep", path("PostgreSQL.4")).unwrap();
        let mut holder = Command::new("sh")
            .args(["-c", "exec \"$0\" 600"])
            .arg(path("PostgreSQL.4"))
            .spawn()
            .unwrap();
        let mapped = |pid| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        while !mapped(holder.id()).contains("PostgreSQL.4") {
            std::thread::sleep(GLANCE);
        }
        let before = ["PostgreSQL.1".to_owned()];
        remove_unmapped(folder.path(), "PostgreSQL.", user + 1, &before).unwrap();
        assert_eq!(names(folder.path(), "PostgreSQL.").len(), 4);
        remove_unmapped(folder.path(), "PostgreSQL.", user, &before).unwrap();
        let mut left = names(folder.path(), "");
        left.sort();
        assert_eq!(left, ["PostgreSQL.1", "PostgreSQL.4", "other"]);
        holder.kill().unwrap();
        holder.wait().unwrap();
    }

    #[test]
    fn what_is_busy_is_tried_again() {
        let busy = || std::io::Error::from_raw_os_error(Errno::BUSY.raw_os_error());
        let mut answers = vec![Ok(()), Err(busy()), Err(busy())];
        patiently(|| answers.pop().unwrap_or(Ok(()))).unwrap();
        assert!(answers.is_empty());
        assert!(patiently(|| Err(std::io::Error::other("no"))).is_err());
    }

    #[test]
    fn a_family_is_killed_and_an_old_id_is_nobody() {
        let mut parent = Command::new("sh").args(["-c", "sleep 600 & sleep 600"]).spawn().unwrap();
        let action = Action::kill(parent.id()).unwrap();
        let stale = Action::Kill { process: parent.id(), started: 1 };
        stale.undo().unwrap();
        assert!(parent.try_wait().unwrap().is_none());
        while family(parent.id()).len() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let everyone = family(parent.id());
        action.undo().unwrap();
        parent.wait().unwrap();
        let alive = |(pid, born): &(u32, u64)| birth(*pid) == Some(*born) && !is_zombie(*pid);
        assert!(!everyone.iter().any(alive));
        action.undo().unwrap();
    }
}

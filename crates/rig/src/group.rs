//! Everything that descends from one start of a program, however it has gone off: a daemon has
//! left its session and its parent, but neither its control group nor, as a rule, its environment.
//!
//! Each start gets a mark in its environment and, where control groups of version 2 can be written,
//! a group of its own below Kneepoint's. Both have their names from the scratch directory and a
//! number, so they can be noted before anything exists that bears them. The group has no
//! controllers switched on: it changes nothing about how its processes run.

use crate::undo::{Action, Change, Undo, remove_shared_memory, send};
use anyhow::bail;
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::process::{birth, environment, name};
use kneepoint_machine::proc::{self, tasks};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the mark in the environment.
pub(crate) const MARK: &str = "KNEEPOINT_MARK";
/// How long killed processes may take to be gone.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often they are looked for meanwhile.
const GLANCE: Duration = Duration::from_millis(2);

/// A group for one start of a program. Dropping it kills what is in it.
#[derive(Debug)]
pub(crate) struct Group {
    mark: String,
    directory: Option<PathBuf>,
    change: Option<Change>,
}

impl Group {
    /// Notes a group, then makes it.
    ///
    /// # Errors
    /// It cannot be noted.
    pub(crate) fn begin(undo: &Undo) -> anyhow::Result<Self> {
        let mark = undo.next_mark();
        let directory = own_directory().map(|own| own.join(&mark));
        let action = Action::EndGroup { mark: mark.clone(), directory: directory.clone() };
        let change = undo.register(action)?;
        let directory = directory.filter(|path| fs::create_dir(path).is_ok());
        Ok(Self { mark, directory, change: Some(change) })
    }

    /// What its processes have in their environment as [`MARK`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Its control group, where it has one.
    #[cfg(test)]
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Puts a process in that has not begun to do anything. Where the kernel refuses, the mark
    /// has to do.
    pub(crate) fn admit(&mut self, process: u32) {
        let Some(directory) = &self.directory else { return };
        if fs::write(directory.join("cgroup.procs"), process.to_string()).is_err() {
            let _ = fs::remove_dir(directory);
            self.directory = None;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

impl Group {
    /// Has the kernel kill all that is in it, whatever that is just starting. False where there is
    /// no control group, or one that cannot do so: kernels before 5.14.
    pub(crate) fn kill(&self) -> bool {
        let file = self.directory.as_ref().map(|directory| directory.join("cgroup.kill"));
        file.is_some_and(|file| fs::write(file, "1").is_ok())
    }

    /// Kills what is in it, and removes it.
    pub(crate) fn end(&mut self) {
        let Some(change) = self.change.take() else { return };
        match &self.directory {
            // The kernel knows who is in it. Who has left it nevertheless is looked for once, at
            // the end of the run: that means reading something of every process there is.
            Some(directory) if end_directory(directory).is_ok() => change.settle(),
            _ => drop(change),
        }
    }
}

/// Kills what bears the mark or is in the directory's control group, and removes that.
///
/// # Errors
/// Something does not end.
pub(crate) fn end(mark: &str, directory: Option<&Path>) -> anyhow::Result<()> {
    let emptied = directory.map_or(Ok(()), end_directory);
    end_marked(|found| found == mark).map(drop).and(emptied)
}

/// Kills what is in groups beside which this process's would be and whose names begin so, and
/// removes them: a damaged journal knows of them no more.
///
/// # Errors
/// Something does not end.
pub(crate) fn end_named(prefix: &str) -> anyhow::Result<()> {
    let own = own_directory().and_then(|own| fs::read_dir(own).ok());
    let named = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix))
    };
    let mut outcome = Ok(());
    for entry in own.into_iter().flatten().flatten().filter(named) {
        // The others are tried all the same.
        outcome = outcome.and(end_directory(&entry.path()));
    }
    outcome
}

fn end_directory(directory: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut ended = members(directory);
    loop {
        match remove_tree(directory) {
            Ok(()) => return remove_shared_memory(&ended),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return remove_shared_memory(&ended);
            }
            Err(error) if begun.elapsed() > TIMEOUT => {
                bail!("{}: processes in it do not end, though killed: {error}", directory.display())
            }
            Err(_) => {}
        }
        // Kernels before 5.14 have no such file.
        if fs::write(directory.join("cgroup.kill"), "1").is_err() {
            let members = members(directory);
            for pid in &members {
                send(&(*pid, birth(*pid).unwrap_or(0)), Signal::KILL);
            }
            ended.extend(members);
        }
        std::thread::sleep(GLANCE);
    }
}

/// The processes of a group, without those of groups below it.
fn members(directory: &Path) -> Vec<u32> {
    let listed = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    listed.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group with those in it: a Kneepoint that was measured made some of its own.
fn remove_tree(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

/// Kills the processes with such marks until there are none, and returns those killed, with what
/// they were called.
///
/// # Errors
/// One of them does not end.
pub(crate) fn end_marked(wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<(u32, String)>> {
    let mut killed = std::collections::BTreeMap::new();
    let begun = Instant::now();
    loop {
        let found = marked(&wanted);
        if found.is_empty() {
            return Ok(killed.into_iter().collect());
        }
        for (pid, born) in &found {
            let name = name(*pid);
            send(&(*pid, *born), Signal::KILL);
            killed.entry(*pid).or_insert(name);
        }
        if begun.elapsed() > TIMEOUT {
            bail!("process {} does not end, though killed", found[0].0);
        }
        std::thread::sleep(GLANCE);
    }
}

/// Processes with such a mark, but for this one, with their start times.
pub(crate) fn marked(wanted: impl Fn(&str) -> bool) -> Vec<(u32, u64)> {
    let pids = tasks::processes().into_iter();
    let ours = pids.filter(|pid| *pid != own_pid()).filter_map(|pid| {
        let born = birth(pid)?;
        // A process that has ended but was not reaped has no environment any more.
        let environment = environment(pid).ok()?;
        let mark = environment.split(|&byte| byte == 0).find_map(|entry| {
            std::str::from_utf8(entry).ok()?.strip_prefix(MARK)?.strip_prefix('=')
        })?;
        wanted(mark).then_some((pid, born))
    });
    ours.collect()
}

/// The directory of Kneepoint's own control group of version 2; none where there is no such
/// hierarchy.
fn own_directory() -> Option<PathBuf> {
    let mounts = proc::text("self/mountinfo").ok()?;
    let own = proc::text("self/cgroup").ok()?;
    directory_in(&mounts, &own).filter(|path| path.is_dir())
}

fn directory_in(mounts: &str, own: &str) -> Option<PathBuf> {
    // proc_pid_mountinfo(5): id parent major:minor root point options ... - type source options
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        (after.split(' ').next() == Some("cgroup2"))
            .then(|| (fields.get(3).copied(), fields.get(4).copied()))
    });
    let (Some(root), Some(point)) = mount? else { return None };
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = if root == "/" { path } else { path.strip_prefix(root)? };
    Some(Path::new(point).join(below.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_goes_with_those_in_it() {
        let Some(own) = own_directory() else {
            println!("SKIP a_group_goes_with_those_in_it: no control groups");
            return;
        };
        let outer = own.join(format!("kneepoint-test-{}", std::process::id()));
        if fs::create_dir_all(outer.join("inner/deeper")).is_err() {
            println!("SKIP a_group_goes_with_those_in_it: no control group can be made");
            return;
        }
        let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(outer.join("inner/deeper/cgroup.procs"), sleeper.id().to_string()).unwrap();
        end_directory(&outer).unwrap();
        assert!(!outer.exists());
        assert!(!sleeper.wait().unwrap().success());
    }

    #[test]
    fn its_own_control_group_is_found() {
        let mounts = "25 1 0:22 / /sys rw shared:7 - sysfs sysfs rw\n\
            30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let place = |mounts: &str, own: &str| {
            directory_in(mounts, own).map(|path| path.display().to_string())
        };
        let own = "4:memory:/x\n0::/user.slice/session-1.scope\n";
        let expected = "/sys/fs/cgroup/user.slice/session-1.scope";
        assert_eq!(place(mounts, own).as_deref(), Some(expected));
        assert_eq!(place(mounts, "0::/\n").as_deref(), Some("/sys/fs/cgroup/"));
        let bound = mounts.replace("0:26 / ", "0:26 /docker/1 ");
        assert_eq!(place(&bound, "0::/docker/1/a\n").as_deref(), Some("/sys/fs/cgroup/a"));
        assert_eq!(place(&bound, "0::/elsewhere\n"), None);
        assert_eq!(place("", "0::/\n"), None);
        assert_eq!(place(mounts, "4:memory:/x\n"), None);
    }
}

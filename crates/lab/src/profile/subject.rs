//! Whom to watch, and who cannot be watched.

use anyhow::{Context as _, Result, bail, ensure};
use kneepoint_probe::proc::stat::{TaskStat, read_process};
use kneepoint_probe::proc::tasks;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Whom to watch, as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// These processes, and all that descends from them.
    Pids(Vec<u32>),
    /// All processes of a control group and of those below it.
    Cgroup(PathBuf),
    /// A command to be started.
    Command(Vec<String>),
}

/// A process as it was found: its number alone could be given to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pid: u32,
    pub(super) name: String,
    birth: u64,
}

impl Found {
    /// Whether it is there still, and has not ended.
    pub(super) fn lives(&self) -> bool {
        read_process(self.pid).is_some_and(|stat| stat.birth == self.birth && !has_ended(&stat))
    }
}

fn has_ended(stat: &TaskStat) -> bool {
    matches!(stat.state, 'Z' | 'X' | 'x')
}

impl Subject {
    /// The processes that there are to watch; none yet of a command.
    ///
    /// # Errors
    /// There is none, or one that cannot or may not be watched.
    pub(super) fn find(&self) -> Result<Vec<Found>> {
        match self {
            Self::Pids(pids) => pids.iter().map(|pid| find(*pid)).collect(),
            Self::Cgroup(path) => of_group(path),
            Self::Command(_) => Ok(Vec::new()),
        }
    }
}

/// The process, if it is one that can be watched.
pub(super) fn find(pid: u32) -> Result<Found> {
    let stat = read_process(pid).with_context(|| format!("there is no process {pid}"))?;
    let name = format!("process {pid} ({})", stat.comm);
    if pid == std::process::id() {
        bail!("{name} is Kneepoint itself: give another one");
    }
    ensure!(!stat.kernel, "{name} is a thread of the kernel: only programs can be watched");
    ensure!(!has_ended(&stat), "{name} has ended, and its parent has not noticed yet (a zombie)");
    let process = group_of(pid);
    if let Some(process) = process.filter(|process| *process != pid) {
        bail!("{name} is a thread: give its process, {process}");
    }
    if matches!(stat.state, 'T' | 't') {
        bail!("{name} is stopped, and nothing can be seen of it; `kill -CONT {pid}` lets it go on");
    }
    if ancestors().contains(&pid) {
        bail!(
            "{name} has started this Kneepoint, which would watch itself: watch it from elsewhere"
        );
    }
    may_watch(pid, &name)?;
    Ok(Found { pid, name: stat.comm, birth: stat.birth })
}

/// The process that a thread is of.
fn group_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Own parents, the nearest first.
fn ancestors() -> Vec<u32> {
    let parent = |pid: &u32| read_process(*pid).map(|stat| stat.parent).filter(|pid| *pid > 0);
    std::iter::successors(parent(&std::process::id()), parent).collect()
}

/// Another user's processes can only be watched by root.
fn may_watch(pid: u32, name: &str) -> Result<()> {
    let own = rustix::process::geteuid();
    let owner = fs::metadata(format!("/proc/{pid}")).map(|about| about.uid());
    let owner = owner.with_context(|| format!("{name} has ended"))?;
    ensure!(own.is_root() || owner == own.as_raw(), "{name} belongs to another user: run as root");
    Ok(())
}

/// All processes of a group that are programs, Kneepoint apart.
fn of_group(path: &Path) -> Result<Vec<Found>> {
    let reported = path.display();
    // A whole path may lie in another mount of the hierarchy.
    let place = if path.is_absolute() && path.join("cgroup.procs").exists() {
        path.to_owned()
    } else {
        Path::new(GROUPS).join(path.strip_prefix("/").unwrap_or(path))
    };
    let mut pids = Vec::new();
    let listed = fs::read_to_string(place.join("cgroup.procs"));
    listed.with_context(|| {
        format!(
            "{reported}: there is no such control group below {GROUPS}; `systemd-cgls` lists them"
        )
    })?;
    collect(&place, &mut pids);
    pids.sort_unstable();
    ensure!(!pids.is_empty(), "{reported}: no process is in this control group");
    let (own, above) = (std::process::id(), ancestors());
    let mut refused = None;
    let mut found = Vec::new();
    for pid in pids.into_iter().filter(|pid| *pid != own && !above.contains(pid)) {
        match find(pid) {
            Ok(one) => found.push(one),
            Err(why) => refused = Some(why),
        }
    }
    match (found.is_empty(), refused) {
        (false, _) => Ok(found),
        (true, Some(why)) => Err(why.context(format!("{reported}: nothing in it can be watched"))),
        (true, None) => bail!("{reported}: nothing but Kneepoint and its parents is in it"),
    }
}

fn collect(place: &Path, pids: &mut Vec<u32>) {
    let listed = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    pids.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), pids);
        }
    }
}

/// The command line of a process, or its name where it has none.
pub(super) fn command_line(found: &Found) -> String {
    let bytes = fs::read(format!("/proc/{}/cmdline", found.pid)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let program = text.split('\0').next().unwrap_or_default();
    if program.is_empty() { found.name.clone() } else { program.to_owned() }
}

/// Threads of living processes and of all that descends from them.
pub(super) fn threads(roots: &[u32]) -> Vec<u32> {
    tasks::family(roots).into_iter().flat_map(tasks::threads).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pid: u32) -> String {
        find(pid).unwrap_err().to_string()
    }

    #[test]
    fn who_cannot_be_watched_is_shown_why() {
        assert!(refused(std::process::id()).contains("Kneepoint itself"));
        assert!(refused(u32::MAX >> 1).contains("there is no process"));
        assert!(refused(ancestors()[0]).contains("has started this Kneepoint"));
        if let Some(kernel) = tasks::kernel_threads().into_iter().next() {
            assert!(refused(kernel).contains("a thread of the kernel"));
        }
        let (tell, reported) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            let _ = wait.recv();
        });
        let why = refused(reported.recv().unwrap());
        assert!(why.contains("is a thread: give its process"), "{why}");
        drop(done);
        thread.join().unwrap();
    }

    #[test]
    fn what_has_ended_or_stands_still_is_refused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let found = find(pid).unwrap();
        assert!(found.lives() && found.name == "sleep", "{found:?}");
        let target = rustix::process::Pid::from_child(&child);
        let signal = |signal| rustix::process::kill_process(target, signal).unwrap();
        let becomes = |state: char| {
            while read_process(pid).unwrap().state != state {
                std::thread::yield_now();
            }
        };
        signal(rustix::process::Signal::STOP);
        becomes('T');
        assert!(refused(pid).contains("kill -CONT"));
        signal(rustix::process::Signal::KILL);
        becomes('Z');
        assert!(refused(pid).contains("zombie") && !found.lives());
        child.wait().unwrap();
        assert!(refused(pid).contains("there is no process") && !found.lives());
    }

    #[test]
    fn a_group_that_is_not_there_is_reported() {
        let why = of_group(Path::new("no/such/group")).unwrap_err().to_string();
        assert!(why.contains("no such control group"), "{why}");
    }
}

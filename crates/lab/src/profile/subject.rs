//! Whom to watch, and who cannot be watched.

use super::container;
use anyhow::{Context as _, Result, bail, ensure};
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::stat::read_process;
use kneepoint_machine::proc::{process, tasks};
use std::fs;
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
    /// All processes of the container of this name, or whose id begins so.
    Container(String),
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
        read_process(self.pid).is_some_and(|stat| stat.birth == self.birth && !stat.has_ended())
    }
}

/// Processes to watch.
#[derive(Debug, Default)]
pub(super) struct Whom {
    pub(super) processes: Vec<Found>,
    /// The container that they are in, where that was asked for.
    pub(super) within: Option<String>,
}

impl Subject {
    /// The processes that there are to watch; none yet of a command.
    ///
    /// # Errors
    /// There is none, or one that cannot or may not be watched.
    pub(super) fn find(&self) -> Result<Whom> {
        let of = |processes| Whom { processes, within: None };
        match self {
            Self::Pids(pids) => pids.iter().map(|pid| find(*pid)).collect::<Result<_>>().map(of),
            Self::Cgroup(path) => of_group(path).map(of),
            Self::Container(name) => {
                let (within, pids) = container::processes(name).context("--container")?;
                Ok(Whom { processes: watchable(pids, &within)?, within: Some(within) })
            }
            Self::Command(_) => Ok(Whom::default()),
        }
    }
}

impl Whom {
    /// Leaves out who has gone since they were found, or was given another's number; the lines say
    /// who.
    ///
    /// # Errors
    /// Nobody is left.
    pub(super) fn look_again(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        self.processes.retain(|one| match gone(one) {
            Some(why) => {
                lines.push(why);
                false
            }
            None => true,
        });
        match lines.first() {
            Some(why) if self.processes.is_empty() => bail!("{why}"),
            _ => Ok(lines),
        }
    }
}

/// Why a process that was found cannot be watched any more.
fn gone(one: &Found) -> Option<String> {
    let Found { pid, name, birth } = one;
    let name = format!("process {pid} ({name})");
    match read_process(*pid) {
        Some(stat) if stat.birth != *birth => Some(format!(
            "{name} ended while Kneepoint made ready, and its number is that of {} now: look for \
             the new one",
            stat.comm
        )),
        Some(stat) if !stat.has_ended() => is_stopped(stat.state).then(|| stopped(&name, *pid)),
        _ => Some(format!("{name} ended while Kneepoint made ready")),
    }
}

fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't')
}

fn stopped(name: &str, pid: u32) -> String {
    format!("{name} is stopped, and nothing can be seen of it; `kill -CONT {pid}` lets it go on")
}

/// The process, if it is one that can be watched.
pub(super) fn find(pid: u32) -> Result<Found> {
    let stat = read_process(pid).with_context(|| format!("there is no process {pid}"))?;
    let name = format!("process {pid} ({})", stat.comm);
    if pid == own_pid() {
        bail!("{name} is Kneepoint itself: give another one");
    }
    ensure!(!stat.kernel, "{name} is a thread of the kernel: only programs can be watched");
    if stat.has_ended() && tasks::threads(pid).len() > 1 {
        bail!("{name} goes on without its first thread: such a process cannot be watched");
    }
    ensure!(!stat.has_ended(), "{name} has ended, and its parent has not noticed yet (a zombie)");
    let process = process::status(pid, "Tgid").and_then(|id| id.parse::<u32>().ok());
    if let Some(process) = process.filter(|process| *process != pid) {
        bail!("{name} is a thread: give its process, {process}");
    }
    if is_stopped(stat.state) {
        bail!(stopped(&name, pid));
    }
    if ancestors().contains(&pid) {
        bail!(
            "{name} has started this Kneepoint, which would watch itself: watch it from elsewhere"
        );
    }
    may_watch(pid, &name)?;
    Ok(Found { pid, name: stat.comm, birth: stat.birth })
}

/// Own parents, the nearest first.
fn ancestors() -> Vec<u32> {
    let parent = |pid: &u32| read_process(*pid).map(|stat| stat.parent).filter(|pid| *pid > 0);
    std::iter::successors(parent(&own_pid()), parent).collect()
}

/// Another user's processes can only be watched by root.
fn may_watch(pid: u32, name: &str) -> Result<()> {
    let own = rustix::process::geteuid();
    let owner = process::owner(pid).with_context(|| format!("{name} has ended"))?;
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
    watchable(pids, &reported.to_string())
}

/// Those of the processes that can be watched, Kneepoint apart; `reported` is where they are.
fn watchable(pids: Vec<u32>, reported: &str) -> Result<Vec<Found>> {
    let (own, above) = (own_pid(), ancestors());
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
    let bytes = process::arguments(found.pid);
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
    fn who_goes_while_kneepoint_makes_ready_is_left_out_with_a_line() {
        let mut children =
            [0; 3].map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap());
        let found = |child: &std::process::Child| find(child.id()).unwrap();
        let mut whom = Whom { processes: children.iter().map(found).collect(), within: None };
        assert_eq!(whom.look_again().unwrap(), Vec::<String>::new());
        // As if its number had been given to another one.
        whom.processes[0].birth -= 1;
        children[1].kill().unwrap();
        children[1].wait().unwrap();
        let lines = whom.look_again().unwrap();
        assert!(lines[0].contains("its number is that of sleep now"), "{lines:?}");
        assert!(lines[1].ends_with("ended while Kneepoint made ready"), "{lines:?}");
        assert_eq!(whom.processes, [found(&children[2])]);
        children[2].kill().unwrap();
        let why = loop {
            if let Err(why) = whom.look_again() {
                break why.to_string();
            }
        };
        assert!(why.contains("ended while Kneepoint made ready") && !why.contains('\n'), "{why}");
        for mut child in children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    #[test]
    fn a_group_that_is_not_there_is_reported() {
        let why = of_group(Path::new("no/such/group")).unwrap_err().to_string();
        assert!(why.contains("no such control group"), "{why}");
    }
}

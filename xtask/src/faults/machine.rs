//! What a run may leave on the machine, distinguished from everybody else's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Name of what all processes of a point have in their environment.
pub(super) const MARK: &str = "KNEEPOINT_FAULTS";
/// Kernel settings that a run has no business with.
const SETTINGS: [&str; 5] = [
    "kernel/sched_autogroup_enabled",
    "kernel/perf_event_paranoid",
    "kernel/printk",
    "vm/swappiness",
    "vm/overcommit_memory",
];

/// Whom a signal is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    Kneepoint,
    Guardian,
    Systems,
    /// Everybody at once.
    All,
}

/// Names of what is there that a run could have made.
pub(super) struct Machine(BTreeSet<String>);

impl Machine {
    pub(super) fn now() -> Self {
        let mut found = BTreeSet::new();
        for (kind, folder) in
            [("shared memory", "/dev/shm"), ("file", "/tmp"), ("pin", "/sys/fs/bpf")]
        {
            found.extend(names(folder).map(|name| format!("{kind} {folder}/{name}")));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        found.extend(points.map(|point| format!("mount {point}")));
        for name in names("/sys/block") {
            let folder = PathBuf::from("/sys/block").join(&name);
            if let Ok(file) = fs::read_to_string(folder.join("loop/backing_file")) {
                found.insert(format!("device {name} {}", file.trim()));
            }
            if name.starts_with("zram") {
                found.insert(format!("device {name}"));
            }
        }
        groups(Path::new("/sys/fs/cgroup"), 0, &mut found);
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let ids = segments.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        found.extend(ids.map(|id| format!("segment {id}")));
        for name in SETTINGS {
            let value = fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
            found.insert(format!("setting {name} = {}", value.trim()));
        }
        Self(found)
    }

    /// What is there now and was not, of runs that live no more; waits so long for it to go.
    pub(super) fn left_within(&self, mark: &str, timeout: Duration) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let now = Self::now().0;
            let new = now.difference(&self.0).filter(|name| !of_the_living(name));
            let mut left: Vec<String> = new.cloned().collect();
            left.extend(marked(mark).into_iter().map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                format!("process {pid} {}", name.trim())
            }));
            if left.is_empty() || begun.elapsed() >= timeout {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether something has its name from a run that is still on, somebody else's: the name says
/// whose it is, and where it does not, nobody can tell but by Kneepoint's name in it.
fn of_the_living(name: &str) -> bool {
    let Some((_, rest)) = name.split_once("kneepoint-") else {
        // Files that any program may make meanwhile.
        return name.starts_with("file ") || name.starts_with("shared memory /dev/shm/sem.");
    };
    let mut parts = rest.split('-');
    let (Some(_), Some(pid), Some(born)) = (parts.next(), parts.next(), parts.next()) else {
        return true;
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    match fields.split_whitespace().nth(19) {
        Some(started) => started == born,
        // No number: a name of another kind.
        None => pid.parse::<u32>().is_err(),
    }
}

fn names(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn groups(folder: &Path, depth: u32, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if depth < 8 && path.is_dir() && !path.is_symlink() {
            groups(&path, depth + 1, found);
            found.insert(format!("control group {}", path.display()));
        }
    }
}

/// Processes that a point has started, directly or not, by their environment or their directory.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let ours = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
            || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(mark))
    };
    names("/proc").filter_map(|name| name.parse().ok()).filter(ours).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The processes of a point that are meant, of the one that was started for it.
pub(super) fn targets(whom: &Whom, started: u32, place: &Path) -> Vec<u32> {
    let all = marked(&place.display().to_string());
    let is = |pid: u32, word: &str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|part| part == word)
    };
    // Under strace, Kneepoint is its child.
    let below = all.iter().copied().find(|pid| parent_of(*pid) == Some(started) && is(*pid, "run"));
    let main = below.filter(|_| is(started, "-qq")).unwrap_or(started);
    let guardians = all.iter().copied().filter(|pid| is(*pid, "guardian"));
    match whom {
        Whom::Kneepoint => vec![main],
        Whom::Guardian => guardians.collect(),
        Whom::Systems => {
            all.iter().copied().filter(|pid| *pid != main && !is(*pid, "guardian")).collect()
        }
        Whom::All => guardians.chain([main]).chain(all.iter().copied()).collect(),
    }
}

/// Sends a signal by kill(1); who has ended meanwhile is none.
pub(super) fn send(signal: &str, processes: &[u32]) {
    if processes.is_empty() {
        return;
    }
    let ids = processes.iter().map(ToString::to_string);
    let mut kill = Command::new("kill");
    let _ = kill.arg(format!("-{signal}")).args(ids).stderr(Stdio::null()).status();
}

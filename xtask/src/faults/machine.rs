//! What a run may leave in its sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Name of what all processes of a point have in their environment.
pub(super) const MARK: &str = "KNEEPOINT_FAULTS";
/// Kernel settings that a run has no business with.
const SETTINGS: [&str; 6] = [
    "kernel/sched_autogroup_enabled",
    "kernel/perf_event_paranoid",
    "kernel/printk",
    "kernel/randomize_va_space",
    "vm/swappiness",
    "vm/overcommit_memory",
];

/// Whom a signal is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    Kneepoint,
    Guardian,
    Systems,
    /// Those of these names.
    Named(&'static [&'static str]),
    /// Everybody at once.
    All,
}

/// A signal, sent some time after the start or after the last act that awaited somebody.
pub(super) struct Act {
    pub(super) after: Duration,
    pub(super) signal: &'static str,
    pub(super) whom: Whom,
    /// Its time begins once these are there, if anybody is awaited.
    pub(super) awaits: Option<Whom>,
}

impl Act {
    /// Whether it asks Kneepoint to end.
    pub(super) fn is_request(&self) -> bool {
        matches!(self.whom, Whom::Kneepoint) && matches!(self.signal, "INT" | "TERM" | "HUP")
    }
}

/// Where a point happens.
pub(super) struct Scene<'a> {
    /// The folder in which it is all run; a file system of its own is mounted there.
    pub(super) home: &'a Path,
    /// The control group of all its processes.
    pub(super) group: &'a Path,
    /// What no process of another point has in its environment as [`MARK`].
    pub(super) mark: String,
    /// Whether the processes of others can be seen too.
    pub(super) shared: bool,
}

/// Names of what is there that a run could have made.
pub(super) struct Machine(BTreeSet<String>);

impl Scene<'_> {
    pub(super) fn now(&self) -> Machine {
        let mut found = BTreeSet::new();
        let temporary = self.home.join("tmp");
        for (kind, folder) in [("shared memory", Path::new("/dev/shm")), ("file", &temporary)] {
            found.extend(names(folder).map(|name| format!("{kind} {name}")));
        }
        let ours = |name: &String| name.contains("kneepoint");
        let pins = names(Path::new("/sys/fs/bpf")).filter(ours);
        found.extend(pins.map(|name| format!("pin {name}")));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        // Those of other runs, copied when the sandbox was made, go as they please.
        let ours = scratch_folders();
        let points = points.filter(|point| !point.contains("kneepoint-") || point.contains(&ours));
        found.extend(points.map(|point| format!("mount {point}")));
        self.devices(&mut found);
        groups(self.group, &mut found);
        for (kind, file) in [("segment", "shm"), ("semaphores", "sem"), ("message queue", "msg")] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{file}")).unwrap_or_default();
            let ids = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
            found.extend(ids.map(|id| format!("{kind} {id}")));
        }
        for file in ["unix", "tcp", "tcp6", "udp", "udp6"] {
            let table = fs::read_to_string(format!("/proc/self/net/{file}")).unwrap_or_default();
            found.extend(table.lines().skip(1).filter(|line| listens(file, line)).map(|line| {
                format!("socket {file} {}", line.split_whitespace().last().unwrap_or_default())
            }));
        }
        for name in SETTINGS {
            let value = fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
            found.insert(format!("setting {name} = {}", value.trim()));
        }
        Machine(found)
    }

    /// Loop devices know their files, which know whose they are by the scratch folder's name.
    fn devices(&self, found: &mut BTreeSet<String>) {
        let ours = scratch_folders();
        for name in names(Path::new("/sys/block")).filter(|_| !self.shared) {
            let backing = PathBuf::from("/sys/block").join(&name).join("loop/backing_file");
            let file = fs::read_to_string(backing).unwrap_or_default();
            if file.contains(&ours) {
                found.insert(format!("device {name} {}", file.trim()));
            }
        }
    }

    /// What is there now and was not; waits so long for it to go.
    pub(super) fn left_within(&self, before: &Machine, timeout: Duration) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let now = self.now().0;
            let mut left: Vec<String> = now.difference(&before.0).cloned().collect();
            left.extend(before.0.difference(&now).map(|name| format!("no more: {name}")));
            let processes = self.processes().into_iter();
            left.extend(processes.map(|pid| format!("process {}", name_of(pid))));
            if left.is_empty() || begun.elapsed() >= timeout {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Processes of the point that have not ended.
    fn processes(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let own = std::process::id();
        let all = names(Path::new("/proc")).filter_map(|name| name.parse().ok());
        all.filter(|pid| *pid != own && state(*pid).is_some_and(|state| state != 'Z'))
            .filter(|pid| {
                let environment = || fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                !self.shared
                    || environment().split(|&byte| byte == 0).any(|one| one == wanted.as_bytes())
            })
            .collect()
    }

    /// The processes that are meant, of the one that was started for the point.
    pub(super) fn targets(&self, whom: Whom, started: u32) -> Vec<u32> {
        let all = self.processes();
        let is = |pid: u32, word: &str| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').any(|part| part == word)
        };
        // Under strace, Kneepoint is its child.
        let below =
            all.iter().copied().find(|pid| parent_of(*pid) == Some(started) && is(*pid, "run"));
        let main = below.filter(|_| is(started, "-qq")).unwrap_or(started);
        let guardians = all.iter().copied().filter(|pid| is(*pid, "guardian"));
        match whom {
            Whom::Kneepoint => vec![main],
            Whom::Guardian => guardians.collect(),
            Whom::Systems => {
                all.iter().copied().filter(|pid| *pid != main && !is(*pid, "guardian")).collect()
            }
            Whom::Named(names) => {
                all.iter().copied().filter(|pid| names.contains(&&*name_of(*pid))).collect()
            }
            Whom::All => guardians.chain([main]).chain(all.iter().copied()).collect(),
        }
    }
}

/// What the names of scratch folders of runs in this namespace begin with.
fn scratch_folders() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino());
    format!("kneepoint-{namespace}-")
}

/// Whether a line of a table of sockets is of one that waits for others, or has a name.
fn listens(file: &str, line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match file {
        // proc_net(5): a name is the eighth field.
        "unix" => fields.len() > 7,
        "tcp" | "tcp6" => fields.get(3) == Some(&"0A"),
        _ => true,
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn groups(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            groups(&path, found);
            found.insert(format!("control group {}", path.display()));
        }
    }
}

/// Field of `/proc/PID/stat`, counted from the state.
fn stat(pid: u32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field).map(str::to_owned)
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn state(pid: u32) -> Option<char> {
    stat(pid, 0)?.chars().next()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid, 1)?.parse().ok()
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

/// Kinds of eBPF objects, as bpftool(8) and proc_pid_fdinfo(5) call them.
const OBJECTS: [(&str, &str); 3] = [("prog", "prog_id:"), ("map", "map_id:"), ("link", "link_id:")];

/// The eBPF objects that these processes hold.
pub(super) fn objects_of(processes: &[u32]) -> BTreeSet<String> {
    let infos = processes.iter().flat_map(|pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_to_string(entry.path()).ok())
    });
    infos.flat_map(|info| objects_in(&info)).collect()
}

/// The objects that stand behind a file descriptor.
fn objects_in(info: &str) -> Vec<String> {
    let ids = OBJECTS.iter().filter_map(|&(kind, field)| {
        let line = info.lines().find_map(|line| line.strip_prefix(field))?;
        let id: u64 = line.trim().parse().ok()?;
        (id > 0).then(|| format!("eBPF {kind} {id}"))
    });
    ids.collect()
}

/// Those of `held` that are in the kernel after so long at the latest: it lets go of them a moment
/// after their last holder. Without bpftool none is known.
pub(super) fn objects_left(held: &BTreeSet<String>, timeout: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left: Vec<String> = match held.is_empty() {
            true => Vec::new(),
            false => objects_in_kernel().intersection(held).cloned().collect(),
        };
        if left.is_empty() || begun.elapsed() >= timeout {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn objects_in_kernel() -> BTreeSet<String> {
    let shown = OBJECTS.iter().flat_map(|&(kind, _)| {
        let output = Command::new("bpftool").args(["--json", kind, "show"]).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let objects: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
        let ids = objects.into_iter().filter_map(|object| object["id"].as_u64());
        ids.map(move |id| format!("eBPF {kind} {id}")).collect::<Vec<_>>()
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_descriptor_shows_its_objects() {
        let link = "pos:\t0\nlink_type:\ttracing\nlink_id:\t7\nprog_tag:\tab\nprog_id:\t12\n";
        assert_eq!(objects_in(link), ["eBPF prog 12", "eBPF link 7"]);
        assert_eq!(objects_in("pos:\t0\nmap_type:\t1\nmap_id:\t3\n"), ["eBPF map 3"]);
        assert!(objects_in("pos:\t0\nflags:\t02\nprog_id:\t0\n").is_empty());
    }

    #[test]
    fn a_request_is_a_signal_that_asks_kneepoint() {
        let act = |signal, whom| Act { after: Duration::ZERO, signal, whom, awaits: None };
        assert!(act("INT", Whom::Kneepoint).is_request());
        assert!(!act("KILL", Whom::Kneepoint).is_request());
        assert!(!act("TERM", Whom::Named(&["postgres"])).is_request());
    }
}

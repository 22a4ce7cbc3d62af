//! How processes end that belong to a run: one with its descendants, all of a control group, all
//! that bear a mark. Killed until they are gone, and what the kernel keeps for them removed.

use crate::search_path::SearchPath;
use anyhow::bail;
use kneepoint_machine::proc::process::{birth, environment, is_zombie, name};
use kneepoint_machine::proc::{self, tasks};
use kneepoint_machine::{here, own_pid};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the mark in the environment.
pub(crate) const MARK: &str = "KNEEPOINT_MARK";
/// How long a process may take for one thing, its end included, until it counts as hung: where the
/// cores are wanted by others as well, the start of a server has taken more than half a minute.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(120);
/// How often what was killed is looked for.
const GLANCE: Duration = Duration::from_millis(2);
/// How long children of a server that died may take to let go of its shared memory.
const DETACHING: Duration = Duration::from_secs(3);

/// Kills a process and its descendants. Descendants are found before their parents go: an orphan
/// could not be distinguished from anybody else's process.
///
/// # Errors
/// One of them does not end.
pub(crate) fn kill(process: u32, started: u64) -> anyhow::Result<()> {
    match birth(process) {
        Some(found) if found == started => {}
        // Somebody else has its number by now, and may have made shared memory under it.
        Some(_) => return Ok(()),
        None => return remove_shared_memory(&[process]),
    }
    let family = tasks::family_with_births(process);
    for member in &family {
        send(member, Signal::KILL);
    }
    let begun = Instant::now();
    while family.iter().any(|(pid, born)| birth(*pid) == Some(*born) && !is_zombie(*pid)) {
        if begun.elapsed() > HUNG_AFTER {
            bail!("process {process} or a child of it does not end, though killed");
        }
        std::thread::sleep(GLANCE);
    }
    remove_shared_memory(&family.iter().map(|(pid, _)| *pid).collect::<Vec<_>>())
}

/// Removes System V shared memory that processes which are gone have made, once nobody has it
/// attached: PostgreSQL keeps a segment that says that it runs, and its children hold that until
/// they notice that their server has died.
pub(crate) fn remove_shared_memory(creators: &[u32]) -> anyhow::Result<()> {
    remove_segments(|segment| creators.contains(&segment.creator))
}

/// Removes System V shared memory of this key that a process has made which is gone.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn remove_shared_memory_of(key: i32) -> anyhow::Result<()> {
    let gone = |process| birth(process).is_none() || is_zombie(process);
    remove_segments(|segment| segment.key == key && gone(segment.creator))
}

fn remove_segments(ours: impl Fn(&Segment<'_>) -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let table = proc::text("sysvipc/shm").unwrap_or_default();
        let made = segments_in(&table).filter(&ours);
        let (free, held): (Vec<_>, Vec<_>) = made.into_iter().partition(|it| it.attached == 0);
        for segment in free {
            let removed = SearchPath::own().run("ipcrm", &["--shmem-id", segment.id]);
            let now = proc::text("sysvipc/shm").unwrap_or_default();
            // Somebody else may have done so just now: a guardian, or who recovers.
            if segments_in(&now).any(|one| (one.id, one.key) == (segment.id, segment.key)) {
                removed?;
            }
        }
        if held.is_empty() || begun.elapsed() > DETACHING {
            return Ok(());
        }
        std::thread::sleep(GLANCE);
    }
}

/// A segment of System V shared memory.
#[derive(Debug, PartialEq, Eq)]
struct Segment<'a> {
    id: &'a str,
    /// What those find it by who share it.
    key: i32,
    /// The process that made it.
    creator: u32,
    /// How often it is mapped.
    attached: u64,
}

/// The segments in a table like `/proc/sysvipc/shm`.
fn segments_in(table: &str) -> impl Iterator<Item = Segment<'_>> {
    let lines = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.filter_map(|fields| {
        // key shmid perms size cpid lpid nattch ...
        let &[key, id, _, _, creator, _, attached, ..] = fields.as_slice() else { return None };
        let (key, creator) = (key.parse().ok()?, creator.parse().ok()?);
        Some(Segment { id, key, creator, attached: attached.parse().ok()? })
    })
}

/// Sends a signal to exactly this process.
pub(crate) fn send((pid, born): &(u32, u64), signal: Signal) {
    if birth(*pid) == Some(*born) {
        // It can have ended just now: then there is nothing left to do.
        let _ = here().signal(*pid, signal);
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

/// Kills all in a control group, and removes it with those in it.
///
/// # Errors
/// Something in it does not end.
pub(crate) fn end_directory(directory: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut ended = members(directory);
    loop {
        match remove_tree(directory) {
            Ok(()) => return remove_shared_memory(&ended),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return remove_shared_memory(&ended);
            }
            Err(error) if begun.elapsed() > HUNG_AFTER => {
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

/// The processes of a group and of those below it.
pub(crate) fn all_members(directory: &Path) -> Vec<u32> {
    let mut all = members(directory);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(all_members(&entry.path()));
        }
    }
    all
}

/// The processes of a group, without those of groups below it.
fn members(directory: &Path) -> Vec<u32> {
    let listed = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    listed.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group with those in it: a Kneepoint that was measured made some of its own.
///
/// One with nothing in it goes at once, which takes no file descriptor where there is none left.
fn remove_tree(directory: &Path) -> std::io::Result<()> {
    if fs::remove_dir(directory).is_ok() {
        return Ok(());
    }
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
        if begun.elapsed() > HUNG_AFTER {
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
pub(crate) fn own_directory() -> Option<PathBuf> {
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

    #[test]
    fn segments_are_read_with_who_made_them() {
        let table = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime\n\
            1 7 1600 56 4711 4720 0 0 0 0 0 1 2 3\n-5 9 1600 56 47 1 2 0 0 0 0 1 2 3\n\
            torn 4 1600\nx 4 1600 56 47 1 2 0\n";
        let expected = [
            Segment { id: "7", key: 1, creator: 4711, attached: 0 },
            Segment { id: "9", key: -5, creator: 47, attached: 2 },
        ];
        assert_eq!(segments_in(table).collect::<Vec<_>>(), expected);
        assert_eq!(segments_in("").count(), 0);
    }

    #[test]
    fn a_segment_goes_by_its_key_once_its_maker_is_gone() {
        let key = 0x6b6e_0000 + i32::try_from(std::process::id() & 0xffff).unwrap();
        let script =
            "import ctypes,sys; print(ctypes.CDLL(None).shmget(int(sys.argv[1]), 56, 0o1600))";
        let made =
            std::process::Command::new("python3").args(["-c", script, &key.to_string()]).output();
        let id = made.map(|made| String::from_utf8(made.stdout).unwrap()).unwrap_or_default();
        if id.trim().parse::<u32>().is_err() {
            println!(
                "SKIP a_segment_goes_by_its_key_once_its_maker_is_gone: no segment without python3"
            );
            return;
        }
        let there = || {
            let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
            segments_in(&table).any(|segment| segment.id == id.trim())
        };
        remove_shared_memory_of(key + 1).unwrap();
        assert!(there());
        remove_shared_memory_of(key).unwrap();
        assert!(!there());
    }
}

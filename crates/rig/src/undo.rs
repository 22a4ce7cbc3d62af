//! What has to be put back on the machine: noted before it is done, undone by a guard.
//!
//! Every change that outlives a process (a server, a mount, a loop device) is first
//! [registered](Undo::register). The returned [`Change`] undoes it when dropped. Where Kneepoint is
//! killed, no guard runs; then the guardian does, a process that learns of every change and acts
//! once its standard input ends. Where both are killed, the journal in the scratch directory
//! tells [`crate::scratch::recover`] what is left.

use crate::scratch::start_time;
use crate::search_path::SearchPath;
use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name under which the guardian is served.
pub(crate) const GUARDIAN: &str = "guardian";
/// The journal's name within a scratch directory.
const JOURNAL: &str = "undo.jsonl";
/// How long killed processes may take to be gone, and mounts to become free.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long children of a server that died may take to let go of its shared memory.
const DETACHING: Duration = Duration::from_secs(3);

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
        let started = start_time(process)
            .with_context(|| format!("process {process} ended before it could be watched"))?;
        Ok(Self::Kill { process, started })
    }

    /// Puts it back.
    ///
    /// # Errors
    /// It could not be put back, and why.
    pub fn undo(&self) -> anyhow::Result<()> {
        match self {
            Self::Kill { process, started } => kill(*process, *started),
            Self::Unmount { path } => unmount_at(path),
            Self::DetachLoop { device, backing } => detach_loop(device, backing),
            Self::ResetZram { index, added } => reset_zram(*index, *added),
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

/// A process and its descendants. Descendants are found before their parents go: an orphan could
/// not be told from anybody else's process.
fn kill(process: u32, started: u64) -> anyhow::Result<()> {
    match start_time(process) {
        Some(found) if found == started => {}
        // Somebody else has its number by now, and may have made shared memory under it.
        Some(_) => return Ok(()),
        None => return remove_shared_memory(process),
    }
    let family = family(process);
    for member in &family {
        send(member, Signal::KILL);
    }
    let begun = Instant::now();
    while family.iter().any(|(pid, born)| start_time(*pid) == Some(*born) && !is_zombie(*pid)) {
        if begun.elapsed() > PATIENCE {
            bail!("process {process} or a child of it does not end, though killed");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for (pid, _) in family {
        remove_shared_memory(pid)?;
    }
    Ok(())
}

/// Removes System V shared memory that a process which is gone has made, once nobody has it
/// attached: PostgreSQL keeps a segment that says that it runs, and its children hold that until
/// they notice that their server has died.
fn remove_shared_memory(creator: u32) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let made = segments_of(&table, creator);
        let (free, held): (Vec<_>, Vec<_>) = made.into_iter().partition(|it| it.attached == 0);
        for segment in free {
            run("ipcrm", &["--shmem-id", segment.id])?;
        }
        if held.is_empty() || begun.elapsed() > DETACHING {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A segment of System V shared memory.
#[derive(Debug, PartialEq, Eq)]
struct Segment<'a> {
    id: &'a str,
    /// How often it is mapped.
    attached: u64,
}

/// The segments in a table like `/proc/sysvipc/shm` that a process has made.
fn segments_of(table: &str, creator: u32) -> Vec<Segment<'_>> {
    let lines = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let ours = lines.filter_map(|fields| {
        // key shmid perms size cpid lpid nattch ...
        let &[_, id, _, _, made_by, _, attached, ..] = fields.as_slice() else { return None };
        let attached = attached.parse().ok()?;
        (made_by.parse() == Ok(creator)).then_some(Segment { id, attached })
    });
    ours.collect()
}

/// Sends a signal to exactly this process.
fn send((pid, born): &(u32, u64), signal: Signal) {
    let id = i32::try_from(*pid).ok().and_then(Pid::from_raw);
    if let (Some(id), true) = (id, start_time(*pid) == Some(*born)) {
        // It can have ended just now: then there is nothing left to do.
        let _ = kill_process(id, signal);
    }
}

/// A process and all that descend from it, with their start times.
pub(crate) fn family(root: u32) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let Some(born) = start_time(pid) else { continue };
        found.push((pid, born));
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(children.split_ascii_whitespace().flat_map(str::parse::<u32>));
        }
    }
    found
}

pub(crate) fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

fn unmount_at(path: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match unmount(path, UnmountFlags::NOFOLLOW) {
            // Not mounted, or the mount point itself is gone.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
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
    run("losetup", &["--detach", &device.display().to_string()])
}

fn reset_zram(index: u32, added: bool) -> anyhow::Result<()> {
    let folder = PathBuf::from(format!("/sys/block/zram{index}"));
    if !folder.exists() {
        return Ok(());
    }
    fs::write(folder.join("reset"), "1").with_context(|| format!("zram{index} cannot be reset"))?;
    if added {
        fs::write("/sys/class/zram-control/hot_remove", index.to_string())
            .with_context(|| format!("zram{index} cannot be removed"))?;
    }
    Ok(())
}

/// Runs a program to its end.
///
/// # Errors
/// It cannot be started or fails; with what it said.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(SearchPath::own().resolved(Path::new(program)))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be started"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = format!("{program} {}", arguments.join(" "));
    bail!("{line}: {}: {}", output.status, said.trim().lines().last().unwrap_or_default())
}

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// To be undone, unless a later line says that it was.
    Change { id: u64, action: Action },
    /// Was undone.
    Undone { id: u64 },
    /// The run ended in order: its directory is its own to remove.
    Closed,
}

/// The changes of one run. Clones share the journal.
#[derive(Clone, Debug)]
pub struct Undo(Arc<Mutex<Journal>>);

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    /// Made with the first change, so that who changes nothing leaves no file.
    file: Option<File>,
    server: PathBuf,
    guardian: Option<Guardian>,
    next: u64,
}

impl Undo {
    /// A journal in `scratch`, watched by a guardian that is `server`'s `serve-workload`. Both
    /// begin with the first change.
    #[must_use]
    pub fn begin(scratch: &Path, server: &Path) -> Self {
        let (path, server) = (scratch.join(JOURNAL), server.to_owned());
        let journal = Journal { path, file: None, server, guardian: None, next: 0 };
        Self(Arc::new(Mutex::new(journal)))
    }

    /// Notes how to undo a change. Call it before making the change where that is possible.
    ///
    /// # Errors
    /// It cannot be noted; then do not make the change.
    pub fn register(&self, action: Action) -> anyhow::Result<Change> {
        let mut journal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = journal.next;
        journal.next += 1;
        journal.note(&Entry::Change { id, action: action.clone() })?;
        Ok(Change { undo: self.clone(), id, action: Some(action) })
    }
}

impl Journal {
    fn note(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(entry).context("a journal line cannot be written")?;
        line.push(b'\n');
        if self.file.is_none() {
            let made = OpenOptions::new().append(true).create(true).open(&self.path);
            let told = || format!("{}: no journal can be kept", self.path.display());
            self.file = Some(made.with_context(told)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&line).context("the undo journal cannot be written")?;
        }
        if self.guardian.is_none() {
            let scratch = self.path.parent().unwrap_or(Path::new("."));
            self.guardian = Some(Guardian::spawn(&self.server, scratch)?);
        }
        let guardian = self.guardian.as_mut().map(|guardian| &mut guardian.journal);
        match guardian {
            Some(stdin) => stdin.write_all(&line).context("the undo guardian is gone"),
            None => Ok(()),
        }
    }
}

/// A change of the machine; dropping it undoes it.
#[derive(Debug)]
pub struct Change {
    undo: Undo,
    id: u64,
    action: Option<Action>,
}

impl Change {
    /// Undoes it.
    ///
    /// # Errors
    /// It could not be undone; it stays in the journal.
    pub fn undo(mut self) -> anyhow::Result<()> {
        self.act()
    }

    fn act(&mut self) -> anyhow::Result<()> {
        let Some(action) = self.action.take() else { return Ok(()) };
        action.undo()?;
        let mut journal = self.undo.0.lock().unwrap_or_else(PoisonError::into_inner);
        journal.note(&Entry::Undone { id: self.id })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Err(error) = self.act() {
            tracing::warn!("{error:#}; `kneepoint recover` tries again");
        }
    }
}

/// The process that undoes what a killed Kneepoint could not.
#[derive(Debug)]
struct Guardian {
    child: Child,
    journal: ChildStdin,
}

impl Guardian {
    fn spawn(server: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(server)
            .args(["serve-workload", GUARDIAN])
            .arg(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{}: no undo guardian can be started", server.display()))?;
        let journal = child.stdin.take().context("the undo guardian has no standard input")?;
        Ok(Self { child, journal })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(Guardian { mut child, mut journal }) = self.guardian.take() {
            let mut line = serde_json::to_vec(&Entry::Closed).unwrap_or_default();
            line.push(b'\n');
            // A guardian that is gone needs not be told.
            let _ = journal.write_all(&line);
            // The end of its input ends the guardian; by now there is nothing left to undo.
            drop(journal);
            let _ = child.wait();
        }
    }
}

/// The guardian's life: learns of changes until its input ends, then undoes what is left. Where
/// the run was killed, its scratch directory goes too.
pub(crate) fn guard(scratch: &Path) -> anyhow::Result<()> {
    // Ctrl-C reaches all processes of a terminal's group: the guardian must outlive it.
    let _ = rustix::process::setsid();
    let left = pending(std::io::stdin().lock());
    undo_all(left.actions)?;
    if left.closed { Ok(()) } else { crate::scratch::remove_of_dead(scratch) }
}

/// Undoes what a journal in a scratch directory says is left. None there: nothing to do.
///
/// # Errors
/// Something could not be undone; the rest was tried all the same.
pub(crate) fn undo_left(scratch: &Path) -> anyhow::Result<()> {
    match File::open(scratch.join(JOURNAL)) {
        Ok(file) => undo_all(pending(std::io::BufReader::new(file)).actions),
        Err(_) => Ok(()),
    }
}

/// What a journal leaves to do.
struct Pending {
    /// Changes without a line that says they were undone, the latest first.
    actions: Vec<Action>,
    /// Whether the run ended in order.
    closed: bool,
}

/// Reads a journal; a torn line is no change.
fn pending(lines: impl BufRead) -> Pending {
    let mut open = BTreeMap::new();
    let mut closed = false;
    for line in lines.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Entry::Change { id, action }) => {
                open.insert(id, action);
            }
            Ok(Entry::Undone { id }) => {
                open.remove(&id);
            }
            Ok(Entry::Closed) => closed = true,
            Err(_) => {}
        }
    }
    Pending { actions: open.into_values().rev().collect(), closed }
}

fn undo_all(actions: Vec<Action>) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for action in actions {
        outcome = outcome.and(action.undo());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entry: &Entry) -> String {
        serde_json::to_string(entry).unwrap() + "\n"
    }

    #[test]
    fn what_is_not_undone_is_pending_latest_first() {
        let restore = |name: &str| Action::RestoreFile { path: name.into(), content: "1".into() };
        let journal = line(&Entry::Change { id: 0, action: restore("a") })
            + &line(&Entry::Change { id: 1, action: restore("b") })
            + &line(&Entry::Change { id: 2, action: restore("c") })
            + &line(&Entry::Undone { id: 1 })
            + "{\"change\":{\"id\":3,\"act";
        let left = pending(journal.as_bytes());
        assert_eq!(left.actions, [restore("c"), restore("a")]);
        assert!(!left.closed);
        assert!(pending(line(&Entry::Closed).as_bytes()).closed);
    }

    #[test]
    fn segments_belong_to_who_made_them() {
        let table = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime\n\
            1 7 1600 56 4711 4720 0 0 0 0 0 1 2 3\n2 8 1600 56 47 4720 1 0 0 0 0 1 2 3\n\
            3 9 1600 56 4711 1 2 0 0 0 0 1 2 3\ntorn 4 1600\n";
        let expected = [Segment { id: "7", attached: 0 }, Segment { id: "9", attached: 2 }];
        assert_eq!(segments_of(table, 4711), expected);
        assert_eq!(segments_of(table, 471), []);
        assert_eq!(segments_of("", 4711), []);
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
        let alive = |(pid, born): &(u32, u64)| start_time(*pid) == Some(*born) && !is_zombie(*pid);
        assert!(!everyone.iter().any(alive));
        action.undo().unwrap();
    }
}

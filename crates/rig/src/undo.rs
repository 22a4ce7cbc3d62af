//! What has to be put back on the machine: noted before it is done, undone by a guard.
//!
//! Every change that outlives a process (a server, a mount, a loop device) is first
//! [registered](Undo::register). The returned [`Change`] undoes it when dropped. Where Kneepoint is
//! killed, no guard runs; then the guardian does, a process that learns of every change and acts
//! once its standard input ends. Where both are killed, the journal in the scratch directory
//! tells [`crate::recovery::recover`] what is left.

mod action;

pub use action::Action;
pub(crate) use action::{shared_memory, zram_devices};

use crate::ending;
use crate::scratch::{self, Scratch};
use anyhow::{Context as _, bail, ensure};
use kneepoint_machine::{Running, Start, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name under which the guardian is served.
pub(crate) const GUARDIAN: &str = "guardian";
/// How long a guardian may take to end once nothing is left to undo.
const LEAVING: Duration = Duration::from_secs(1);
/// How often the guardian tries to put all back, and how long it waits in between.
const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// How often is looked whether it has.
const GLANCE: Duration = Duration::from_millis(1);
/// The journal's name within a scratch directory.
pub(crate) const JOURNAL: &str = "undo.jsonl";

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    /// To be undone, unless a later line says that it was.
    Change { id: u64, action: Action },
    /// Was undone.
    Undone { id: u64 },
    /// The run ended in order and has removed its directory.
    Closed,
}

/// The changes of one run. Clones share the journal.
#[derive(Clone, Debug)]
pub struct Undo(Arc<Mutex<Journal>>);

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    /// Whether the directory goes with the journal.
    in_own: bool,
    /// Made with the first change, so that who changes nothing leaves no file.
    file: Option<File>,
    server: PathBuf,
    guardian: Option<Guardian>,
    next: u64,
    /// What is to be killed when everything has to stop, by the number of its change.
    killable: BTreeMap<u64, Action>,
    /// Whether everything has to stop: nothing is started any more.
    halted: bool,
}

impl Undo {
    /// A journal in `scratch`, watched by a guardian that is `server`'s `serve-workload`. Both
    /// begin with the first change.
    #[must_use]
    pub fn begin(scratch: &Path, server: &Path) -> Self {
        let (path, server) = (scratch.join(JOURNAL), server.to_owned());
        let journal = Journal {
            path,
            in_own: false,
            file: None,
            server,
            guardian: None,
            next: 0,
            killable: BTreeMap::new(),
            halted: false,
        };
        Self(Arc::new(Mutex::new(journal)))
    }

    /// A scratch directory and a journal in it, with whose last clone it goes. The guardian is
    /// there before the directory is, and after it, so that there is no moment at which a kill
    /// leaves it.
    ///
    /// # Errors
    /// No directory can be made, or no guardian started.
    pub fn in_scratch(server: &Path) -> anyhow::Result<(Scratch, Self)> {
        let mut made = None;
        for place in Scratch::places()? {
            let undo = Self::begin(&place, server);
            undo.lock().guarded()?;
            match Scratch::create_at(&place) {
                Ok(scratch) => {
                    undo.lock().in_own = true;
                    return Ok((scratch, undo));
                }
                Err(error) => made = Some(error),
            }
        }
        Err(made.unwrap_or_else(|| anyhow::anyhow!("there is no place for a scratch directory")))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The executable whose `serve-workload` serves the guardian and launches programs.
    pub(crate) fn server(&self) -> PathBuf {
        self.lock().server.clone()
    }

    /// A mark that nobody else has.
    pub(crate) fn next_mark(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}{number}", mark_prefix(self.lock().scratch()))
    }

    /// Kills every process that was started and lets none be started any more: whoever waits for
    /// one of them goes on. What else was changed is undone by its guards as ever.
    pub fn halt(&self) {
        let mut journal = self.lock();
        journal.halted = true;
        let killable = std::mem::take(&mut journal.killable);
        drop(journal);
        let there = kill_at_once(killable.values());
        for action in killable.into_values().rev() {
            if let Err(error) = action.undo() {
                tracing::warn!("{error:#}");
            }
        }
        if let Err(error) = ending::remove_shared_memory(&there) {
            tracing::warn!("{error:#}; `kneepoint recover` tries again");
        }
    }

    /// Notes how to undo a change. Call it before making the change where that is possible.
    ///
    /// # Errors
    /// It cannot be noted; then do not make the change.
    pub fn register(&self, action: Action) -> anyhow::Result<Change> {
        let mut journal = self.lock();
        let kills = matches!(action, Action::Kill { .. } | Action::EndGroup { .. });
        ensure!(!(kills && journal.halted), "nothing is started any more: the run was stopped");
        journal.next += 1;
        let id = journal.next;
        journal.note(&Entry::Change { id, action: action.clone() })?;
        if kills {
            journal.killable.insert(id, action.clone());
        }
        Ok(Change { undo: self.clone(), id, action: Some(action) })
    }
}

impl Journal {
    fn note(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(entry).context("a journal line cannot be written")?;
        line.push(b'\n');
        if self.file.is_none() {
            let made = OpenOptions::new().append(true).create(true).open(&self.path);
            let reported = || format!("{}: no journal can be kept", self.path.display());
            self.file = Some(made.with_context(reported)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&line).context("the undo journal cannot be written")?;
        }
        self.guarded()?.write_all(&line).context("the undo guardian is gone")
    }

    /// What the guardian reads, which is started where there is none yet.
    fn guarded(&mut self) -> anyhow::Result<&mut File> {
        let guardian = match self.guardian.take() {
            Some(guardian) => guardian,
            None => Guardian::spawn(&self.server, self.scratch())?,
        };
        Ok(&mut self.guardian.insert(guardian).journal)
    }

    fn scratch(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
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

    /// Nothing is left to undo: it was done otherwise, or another change has taken its place.
    pub(crate) fn settle(mut self) {
        self.action = None;
        if let Err(error) = self.noted() {
            tracing::warn!("{error:#}");
        }
    }

    fn act(&mut self) -> anyhow::Result<()> {
        let Some(action) = self.action.take() else { return Ok(()) };
        action.undo()?;
        self.noted()
    }

    fn noted(&self) -> anyhow::Result<()> {
        let mut journal = self.undo.lock();
        journal.killable.remove(&self.id);
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
    running: Running,
    journal: File,
}

impl Guardian {
    fn spawn(server: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let mut running = Start::new(server)
            .args(["serve-workload", GUARDIAN])
            .arg(scratch)
            .input(Stream::Pipe)
            .output(Stream::Nothing)
            // Ctrl-C reaches all processes of a terminal's group: the guardian must outlive it.
            .in_own_group()
            .begin()
            .with_context(|| format!("{}: no undo guardian can be started", server.display()))?;
        let journal = running.take_input().context("the undo guardian has no standard input")?;
        Ok(Self { running, journal })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(Guardian { mut running, mut journal }) = self.guardian.take() {
            // Whoever has left all groups still bears a mark.
            let prefix = mark_prefix(self.scratch());
            if let Err(error) = ending::end_marked(|mark| mark.starts_with(&prefix)) {
                tracing::warn!("{error:#}; `kneepoint recover` tries again");
            }
            if self.in_own && scratch::remove(self.scratch(), None).is_err() {
                // The guardian tries again once this process is gone.
                return;
            }
            let mut line = serde_json::to_vec(&Entry::Closed).unwrap_or_default();
            line.push(b'\n');
            // A guardian that is gone needs not be reported.
            let _ = journal.write_all(&line);
            // The end of its input ends the guardian; by now there is nothing left to undo.
            drop(journal);
            end_guardian(&mut running);
        }
    }
}

/// Waits until the guardian has ended. One that somebody has stopped would be waited for without
/// end: it is killed then, and what it could not undo is in the journal for whoever recovers.
fn end_guardian(running: &mut Running) {
    let begun = Instant::now();
    while matches!(running.ended(), Ok(None)) {
        if begun.elapsed() > LEAVING {
            let _ = running.kill();
            let _ = running.wait();
            return;
        }
        std::thread::sleep(GLANCE);
    }
}

/// What the marks of a run begin with.
fn mark_prefix(scratch: &Path) -> String {
    format!("{}.", scratch.file_name().unwrap_or_default().to_string_lossy())
}

/// The guardian's life: learns of changes until its input ends, then undoes what is left. Where
/// the run was killed, its scratch directory goes too.
pub(crate) fn guard(scratch: &Path) -> anyhow::Result<()> {
    let left = pending(std::io::stdin().lock());
    let put_back = || {
        let outcome = undo_all(scratch, left.actions.clone());
        if left.closed {
            return outcome;
        }
        // What could not be undone stays in the journal, for whoever recovers.
        let keep = outcome.is_err().then_some(JOURNAL);
        outcome.and(scratch::remove_of_dead(scratch, keep))
    };
    // What fails once may not fail again, and nobody else is left to try.
    (1..TRIES).fold(put_back(), |outcome, _| {
        outcome.or_else(|_| {
            std::thread::sleep(BETWEEN_TRIES);
            put_back()
        })
    })
}

/// Undoes what a journal in a scratch directory says is left, and ends what bears the run's marks.
///
/// # Errors
/// Something could not be undone; the rest was tried all the same.
pub(crate) fn undo_left(scratch: &Path) -> anyhow::Result<()> {
    let actions = match File::open(scratch.join(JOURNAL)) {
        Ok(file) => pending(std::io::BufReader::new(file)).actions,
        Err(_) => Vec::new(),
    };
    undo_all(scratch, actions)
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

/// Kills all of all groups at once: who lives may hold on to what another has made. Returns who
/// was there, for what they have made.
fn kill_at_once<'a>(actions: impl Iterator<Item = &'a Action> + Clone) -> Vec<u32> {
    let there = actions.clone().flat_map(Action::processes).collect();
    actions.for_each(Action::kill_at_once);
    there
}

/// Undoes all, whatever fails of it.
fn undo_all(scratch: &Path, actions: Vec<Action>) -> anyhow::Result<()> {
    let mut failures: Vec<String> = Vec::new();
    let mut tried = |done: anyhow::Result<()>| {
        failures.extend(done.err().map(|error| format!("{error:#}")));
    };
    let prefix = mark_prefix(scratch);
    let there = kill_at_once(actions.iter());
    tried(ending::end_marked(|mark| mark.starts_with(&prefix)).map(drop));
    for action in actions {
        tried(action.undo());
    }
    tried(ending::end_marked(|mark| mark.starts_with(&prefix)).map(drop));
    tried(ending::end_named(&prefix));
    tried(ending::remove_shared_memory(&there));
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{}; `kneepoint recover` tries again", failures.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;

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

    proptest! {
        #[test]
        fn a_damaged_journal_leaves_only_changes_that_were_noted(
            undone in prop::collection::vec(any::<bool>(), 0..12),
            damages in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8),
            cut: Index,
        ) {
            let restore = |id: u64| Action::RestoreFile {
                path: format!("file-{id}").into(),
                content: "1".into(),
            };
            let ids = || (0..).zip(&undone);
            let mut journal: String =
                ids().map(|(id, _)| line(&Entry::Change { id, action: restore(id) })).collect();
            let ended = ids().filter(|(_, undone)| **undone);
            journal.extend(ended.map(|(id, _)| line(&Entry::Undone { id })));
            let mut open: Vec<Action> =
                ids().filter(|(_, undone)| !**undone).map(|(id, _)| restore(id)).collect();
            open.reverse();
            prop_assert_eq!(pending(journal.as_bytes()).actions, open);
            // A cut one: each change that is whole is there, and nothing that was not noted.
            let cut = &journal.as_bytes()[..cut.index(journal.len() + 1)];
            let noted: Vec<Action> = ids().map(|(id, _)| restore(id)).collect();
            prop_assert!(pending(cut).actions.iter().all(|action| noted.contains(action)));
            let mut bytes = cut.to_vec();
            for (at, value) in damages.iter().filter(|_| !cut.is_empty()) {
                bytes[at.index(cut.len())] = *value;
            }
            let _ = pending(&bytes[..]);
        }
    }

    #[test]
    fn one_failure_keeps_nothing_else_from_being_undone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("setting"), "changed").unwrap();
        fs::create_dir_all(path("full/child")).unwrap();
        let restore = |name: &str| Action::RestoreFile { path: path(name), content: "1".into() };
        let actions = vec![
            Action::RemoveDirectory { path: path("full") },
            restore("absent/setting"),
            restore("setting"),
        ];
        let error = undo_all(folder.path(), actions).unwrap_err().to_string();
        assert!(error.contains("full") && error.contains("absent/setting"), "{error}");
        assert_eq!(fs::read_to_string(path("setting")).unwrap(), "1");
    }
}

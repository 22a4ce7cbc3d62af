//! What private servers have in common, whatever they serve: a home of their own in the scratch
//! directory, a template that all starts copy, a start that ends when the server answers, an end in
//! order, and the generator's count beside the server's.
//!
//! A product adds its data: programs, arguments, how one asks whether it is ready, what it counts.

use crate::placement;
use crate::process::{self, Account, Process, Program};
use crate::undo::Undo;
use anyhow::{Context as _, ensure};
use kneepoint_machine::ExitStatus;
use kneepoint_machine::proc::tasks::family;
use kneepoint_vocab::{CountCheck, Ratio};
use rustix::process::Signal;
use std::fs::{self, DirBuilder, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How far the generator's count may lie from the server's.
const AGREEMENT: Ratio = Ratio(0.01);

/// A directory that nobody but its account can enter. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    account: Option<Account>,
}

impl Home {
    /// Makes one below `scratch`; its name begins with `name`.
    ///
    /// # Errors
    /// It cannot be made, or not be given to the account.
    pub(super) fn make(
        scratch: &Path,
        name: &str,
        account: Option<Account>,
    ) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::named(scratch, &format!("{name}-{number}"), account)
    }

    /// The same with just this name, which nobody else has.
    ///
    /// # Errors
    /// Like [`Home::make`].
    pub(super) fn named(
        scratch: &Path,
        name: &str,
        account: Option<Account>,
    ) -> anyhow::Result<Self> {
        let path = scratch.join(name.replace(['/', '\0'], "-"));
        let failed = || format!("{}: no directory can be made", path.display());
        DirBuilder::new().mode(0o700).create(&path).with_context(failed)?;
        let home = Self { path: path.clone(), account };
        home.give(&path)?;
        if account.is_some() {
            // The account only passes through: it can neither list the scratch directory nor
            // write to it.
            fs::set_permissions(scratch, Permissions::from_mode(0o711)).with_context(failed)?;
        }
        Ok(home)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is; Kneepoint's own user's where absent.
    pub(super) fn account(&self) -> Option<Account> {
        self.account
    }

    /// Makes a file or directory the account's.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn give(&self, path: &Path) -> anyhow::Result<()> {
        let Some(account) = self.account else { return Ok(()) };
        chown(path, Some(account.user), Some(account.group))
            .with_context(|| format!("{} cannot be given to the server", path.display()))
    }

    /// Copies what a template holds to `part` of this home, as its account.
    ///
    /// # Errors
    /// There is no room, or the template is gone.
    pub(super) fn copy(
        &self,
        template: &Path,
        part: &str,
        undo: &Undo,
        timeout: Duration,
    ) -> anyhow::Result<()> {
        let target = self.path.join(part);
        let arguments = [Path::new("-a"), Path::new("--reflink=auto"), template, &target];
        let mut program = Program::new("cp", "cp", arguments, &self.path);
        program.account = self.account;
        process::run(program, timeout, undo).map(drop)
    }

    /// Moves a part of it to `place`, where it stays.
    ///
    /// # Errors
    /// It is not there, or `place` is taken.
    pub(super) fn keep(self, part: &str, place: &Path) -> anyhow::Result<()> {
        let part = self.path.join(part);
        fs::rename(&part, place)
            .with_context(|| format!("{} cannot become {}", part.display(), place.display()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{}: cannot be removed: {error}", self.path.display());
        }
    }
}

/// What all starts copy, at this place in the scratch directory: made where it is not there yet.
/// Variants start side by side: one makes it and the others wait. It has to get its name once it is
/// whole, so that who finds it there need not wait for another's.
///
/// # Errors
/// Those of `make`.
pub(super) fn template(
    place: PathBuf,
    make: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if !place.is_dir() {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if !place.is_dir() {
            make(&place)?;
        }
    }
    Ok(place)
}

/// A port of the loopback interface that nobody listens on.
///
/// # Errors
/// None is free.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.context("no port of the loopback interface is free")?.port())
}

/// A server that runs. Dropping it kills it with all its children.
#[derive(Debug)]
pub(super) struct PrivateServer {
    process: Process,
    undo: Undo,
    timeout: Duration,
}

impl PrivateServer {
    /// Starts it, and does not wait; it may take `timeout` for each thing that it is asked for.
    ///
    /// # Errors
    /// There is no such program.
    pub(super) fn begin(
        program: Program<'_>,
        undo: &Undo,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let process = program.spawn(undo)?;
        Ok(Self { process, undo: undo.clone(), timeout })
    }

    /// Starts it, and waits until `ready` holds.
    ///
    /// # Errors
    /// It ends before that, or is not ready in time: with the last of what it said.
    pub(super) fn start(
        program: Program<'_>,
        undo: &Undo,
        timeout: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<Self> {
        let mut server = Self::begin(program, undo, timeout)?;
        server.process.await_ready(timeout, |_| ready())?;
        Ok(server)
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its process.
    pub(super) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The last of what it said, to be put after a message.
    pub(super) fn tail(&self) -> String {
        self.process.tail()
    }

    /// An error about it: what happened, and the last of what it said.
    pub(super) fn lost(&self, what: &str) -> anyhow::Error {
        self.process.lost(what)
    }

    /// How it ended; none while it runs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Fails once it has ended.
    ///
    /// # Errors
    /// It has: with the last of what it said.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(self.lost(&format!("died under its clients: {status}"))),
        }
    }

    /// The error to report: that the server died, if it did, else the one that was met.
    pub(super) fn blame(&mut self, met: anyhow::Error) -> anyhow::Error {
        self.alive().err().unwrap_or(met)
    }

    /// Puts all its processes on these CPUs, on all of Kneepoint's where there are none; those that
    /// it starts later stay there too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn place(&self, cpus: &[u32]) -> anyhow::Result<()> {
        let all = placement::allowed();
        let cpus = if cpus.is_empty() { &all } else { cpus };
        family(&[self.pid()]).iter().try_for_each(|member| placement::pin(*member, cpus))
    }

    /// Runs a program of its surroundings to its end.
    ///
    /// # Errors
    /// It fails; where the server has died, that.
    pub(super) fn run(&mut self, program: Program<'_>) -> anyhow::Result<String> {
        let ran = process::run(program, self.timeout, &self.undo);
        ran.map_err(|error| self.blame(error))
    }

    /// Takes it down in its own way, by a signal.
    ///
    /// # Errors
    /// It does not end in time; it is killed then.
    pub(super) fn stop(self, signal: Signal) -> anyhow::Result<()> {
        self.process.terminate(signal, self.timeout)
    }
}

/// The counts of both sides, if they agree; else `reported` says what each counted.
///
/// # Errors
/// They are more than 1 % apart: there is no telling which is right.
pub(super) fn agreed(
    counts: CountCheck,
    reported: impl FnOnce(&CountCheck) -> String,
) -> anyhow::Result<CountCheck> {
    ensure!(counts.disagreement() <= AGREEMENT, "{}", reported(&counts));
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::undo;
    use tempfile::TempDir;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_home_is_closed_copied_kept_and_gone() {
        let scratch = TempDir::new().unwrap();
        let undo = undo(scratch.path());
        let first = Home::make(scratch.path(), "a/b", None).unwrap();
        let second = Home::make(scratch.path(), "a/b", None).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(first.path().join("data")).unwrap();
        fs::write(first.path().join("data/file"), "x").unwrap();
        let (gone, place) = (first.path().to_owned(), scratch.path().join("template"));
        first.keep("data", &place).unwrap();
        assert!(!gone.exists());
        second.copy(&place, "data", &undo, LONG).unwrap();
        assert_eq!(fs::read_to_string(second.path().join("data/file")).unwrap(), "x");
        assert!(second.copy(Path::new("/nonexistent/x"), "more", &undo, LONG).is_err());
        let gone = second.path().to_owned();
        drop(second);
        assert!(!gone.exists());
    }

    #[test]
    fn a_template_is_made_once() {
        let scratch = TempDir::new().unwrap();
        let place = scratch.path().join("whole");
        assert!(template(place.clone(), |_| anyhow::bail!("no")).is_err());
        let make = |place: &Path| Ok(fs::create_dir(place)?);
        assert_eq!(template(place.clone(), make).unwrap(), place);
        assert_eq!(template(place.clone(), make).unwrap(), place);
    }

    #[test]
    fn a_server_is_awaited_blamed_and_stopped() {
        let scratch = TempDir::new().unwrap();
        let undo = undo(scratch.path());
        let ready = scratch.path().join("ready");
        let script = format!("touch {}; exec sleep 600", ready.display());
        let program = || Program::new("it", "sh", ["-c", &script], scratch.path());
        let mut server = PrivateServer::start(program(), &undo, LONG, || ready.exists()).unwrap();
        server.alive().unwrap();
        server.place(&[]).unwrap();
        let failing = Program::new("false", "false", [""; 0], scratch.path());
        assert!(server.run(failing).unwrap_err().to_string().contains("exit code 1"));
        server.process().signal(Signal::KILL).unwrap();
        server.process().await_end(LONG).unwrap();
        let error = server.blame(anyhow::anyhow!("something else")).to_string();
        assert!(error.contains("died under its clients: signal: 9"), "{error}");
        let server = PrivateServer::start(program(), &undo, LONG, || true).unwrap();
        server.stop(Signal::TERM).unwrap();
        let short = Program::new("it", "false", [""; 0], scratch.path());
        let error = PrivateServer::start(short, &undo, LONG, || false).unwrap_err().to_string();
        assert!(error.contains("ended before it was ready"), "{error}");
    }

    #[test]
    fn counts_a_percent_apart_are_refused() {
        let check = |server| CountCheck { counter: "x".into(), generator: 1000, server };
        let reported = |counts: &CountCheck| format!("{} and {}", counts.generator, counts.server);
        assert!(agreed(check(1009), reported).is_ok());
        assert_eq!(agreed(check(1020), reported).unwrap_err().to_string(), "1000 and 1020");
    }
}

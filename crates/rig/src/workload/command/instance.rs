//! What a start of a variant has besides the command: its directory, its hooks, its server.

use super::line::{Line, Values};
use super::settings::Settings;
use super::working;
use crate::placement;
use crate::process::{self, Process, Program};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use crate::workload::private::{Home, PrivateServer, free_port};
use crate::workload::{Drive, Setup};
use anyhow::{Context as _, bail};
use kneepoint_vocab::Proof;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a server is asked whether it is ready.
const GLANCE: Duration = Duration::from_millis(10);
/// How long a server that was asked to stop may take for that.
const STOPPING: Duration = Duration::from_secs(10);

/// How much longer a command is told to run whose operations are counted from outside.
const COUNTED_LONGER: Duration = Duration::from_secs(60);

/// What became of a server that did not start, with what may have been in its way: another start of
/// it, where nothing in its command gives each a place of its own.
fn alone(start: &Line, error: anyhow::Error) -> anyhow::Error {
    if start.has("{port}") || start.has("{directory}") {
        return error;
    }
    anyhow::anyhow!(
        "{error:#}; a run has several servers at once: {{port}} and {{directory}} in `start` give \
         each its own"
    )
}

/// The directory that all starts of a run share.
fn shared(scratch: &Path) -> PathBuf {
    scratch.join("command-shared")
}

/// Runs `setup`, once for all starts.
pub(super) fn set_up(settings: &Settings, setup: &Setup) -> anyhow::Result<()> {
    let shared = shared(&setup.scratch);
    fs::create_dir_all(&shared).with_context(|| shared.display().to_string())?;
    let Some(line) = &settings.setup else { return Ok(()) };
    let values = Values::from([
        ("{clients}", setup.max_clients.to_string()),
        ("{cores}", placement::allowed().len().to_string()),
        ("{shared}", shared.display().to_string()),
    ]);
    let program = program("setup", line.filled(&values), &shared, settings);
    process::run(program, settings.timeout, &setup.undo).map(drop)
}

/// A program of the recipe, started where the recipe wants it. Its output goes to `logs`, for the
/// user's own directories are not Kneepoint's to write to.
fn program<'a>(
    name: &'static str,
    words: Vec<String>,
    logs: &'a Path,
    settings: &Settings,
) -> Program<'a> {
    // A relative program is looked for from there too.
    let here = PathBuf::from(".");
    let from = settings.directory.as_ref().unwrap_or(&here);
    let from = std::path::absolute(from).unwrap_or(here);
    let mut chdir = OsString::from("--chdir=");
    chdir.push(from);
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    // env(1) would look in `PATH` alone, which the recipe may have set for it.
    if let (Some(first), None) = (words.first_mut(), settings.path()) {
        *first = SearchPath::own().resolved(Path::new(first)).into_os_string();
    }
    let mut program = Program::new(name, "env", std::iter::once(chdir).chain(words), logs);
    program.environment = settings.environment.for_program();
    program
}

/// One start of a variant. Dropping it runs `conclude`, kills the server and removes the directory.
pub(super) struct Instance {
    settings: Settings,
    values: Values,
    home: Home,
    pub(super) undo: Undo,
    pub(super) server: Option<PrivateServer>,
    /// What the server showed of its environment when it began.
    pub(super) shown: Vec<Proof>,
    /// Kept, though it has ended: what it sent into the background ends with the instance.
    prepared: Option<Process>,
    /// Whether `conclude` is still to be run.
    open: bool,
}

impl Instance {
    /// Runs `prepare`, then brings the server up.
    pub(super) fn start(settings: &Settings, setup: &Setup) -> anyhow::Result<Self> {
        let name = format!("{}-{}-command", setup.variant, setup.start);
        let home = Home::named(&setup.scratch, &name, None)?;
        let mut instance = Self {
            settings: settings.clone(),
            values: Values::new(),
            home,
            undo: setup.undo.clone(),
            server: None,
            shown: Vec::new(),
            prepared: None,
            open: false,
        };
        instance.values = Values::from([
            ("{clients}", setup.max_clients.to_string()),
            ("{cores}", placement::allowed().len().to_string()),
            ("{directory}", instance.home.path().display().to_string()),
            ("{shared}", shared(&setup.scratch).display().to_string()),
        ]);
        if settings.lines().any(|line| line.has("{port}")) {
            instance.values.insert("{port}", free_port()?.to_string());
        }
        instance.open = true;
        if let Some(line) = &settings.prepare {
            let program = instance.program("prepare", line.filled(&instance.values), settings);
            let mut process = program.spawn(&instance.undo)?;
            process.await_success(settings.timeout)?;
            instance.prepared = Some(process);
        }
        instance.serve()?;
        Ok(instance)
    }

    fn hook(&self, name: &'static str, line: &Line) -> anyhow::Result<()> {
        let program = self.hook_program(name, line.filled(&self.values));
        process::run(program, self.settings.timeout, &self.undo).map(drop)
    }

    /// Starts the server and waits until it is ready.
    fn serve(&mut self) -> anyhow::Result<()> {
        let Some(start) = self.settings.start.clone() else { return Ok(()) };
        let program = self.program("the server", start.filled(&self.values), &self.settings);
        let mut server = PrivateServer::begin(program, &self.undo, STOPPING)?;
        // Looked at while it is young: servers like to write their title over their variables.
        if !self.settings.environment.is_empty() {
            let (launcher, set) = (self.undo.server(), &self.settings.environment);
            self.shown = shown::once_begun("the server", server.process(), &launcher, set);
        }
        self.server = Some(server);
        let Some(ready) = self.settings.ready.clone() else {
            return self.check().map_err(|error| alone(&start, error));
        };
        let deadline = Instant::now() + self.settings.ready_within;
        loop {
            self.check().map_err(|error| alone(&start, error))?;
            let left = deadline.saturating_duration_since(Instant::now());
            let program = self.program("ready", ready.filled(&self.values), &self.settings);
            match process::run(program, left, &self.undo) {
                Ok(_) => return Ok(()),
                Err(error) if left.is_zero() => {
                    let within = self.settings.ready_within;
                    let said = self.server.as_ref().map(PrivateServer::tail).unwrap_or_default();
                    bail!("the server was not ready within {within:?}: {error:#}{said}")
                }
                Err(_) => std::thread::sleep(GLANCE.min(left)),
            }
        }
    }

    /// A program of the recipe, in this instance.
    pub(super) fn program(
        &self,
        name: &'static str,
        words: Vec<String>,
        settings: &Settings,
    ) -> Program<'_> {
        program(name, words, self.home.path(), settings)
    }

    /// A program of the recipe that runs beside the command.
    pub(super) fn hook_program(&self, name: &'static str, words: Vec<String>) -> Program<'_> {
        self.program(name, words, &self.settings)
    }

    /// What stands for placeholders outside slices.
    pub(super) fn placeholders(&self) -> &Values {
        &self.values
    }

    /// What stands for placeholders in a slice.
    pub(super) fn values(&self, drive: &Drive) -> Values {
        let cores = match drive.cpus.system.len() {
            0 => placement::allowed().len(),
            own => own,
        };
        let mut values = self.values.clone();
        values.insert("{clients}", drive.clients.to_string());
        values.insert("{cores}", cores.to_string());
        values.insert("{seconds}", self.told(drive).as_secs().to_string());
        values
    }

    /// How long the command is told to run in a slice, whole seconds.
    pub(super) fn told(&self, drive: &Drive) -> Duration {
        let looks = working::look(drive.clients) + working::longest_look(drive.clients);
        let mut lasts = Duration::from_nanos(drive.lasts.0) + looks;
        if self.settings.counter().is_some() {
            // It is ended once the window has closed, and must not end by itself before.
            lasts = lasts * 4 + COUNTED_LONGER;
        }
        let seconds = lasts.as_secs() + u64::from(lasts.subsec_nanos() > 0);
        Duration::from_secs(seconds.max(1))
    }

    /// Whether the server is still there, where there is one.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        match server.ended() {
            None => Ok(()),
            Some(status) => Err(server.lost(&format!("ended, {}", process::reported(status)))),
        }
    }

    /// Runs `conclude`, then stops the server as an administrator would.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let concluded = self.conclude();
        let stopped = self.server.take().map_or(Ok(()), |server| server.stop(Signal::TERM));
        concluded.and(stopped)
    }

    fn conclude(&mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        match &self.settings.conclude {
            Some(line) => self.hook("conclude", line),
            None => Ok(()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = self.conclude() {
            tracing::warn!("{error:#}");
        }
        drop(self.server.take());
        drop(self.prepared.take());
    }
}

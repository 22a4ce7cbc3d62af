//! `command`: any command line as the load, alone or against a server that a recipe starts.
//!
//! Each slice is one run of the command with the level's number of clients. What it did in that
//! run is read from what it prints, or is a fixed amount of work over the time that it took.

mod beginning;
mod counter;
mod counting;
mod figure;
mod formats;
mod general;
mod instance;
mod line;
mod proving;
mod settings;
mod unknown;
mod working;

pub(super) use counting::by_rate;

use super::private::PrivateServer;
use super::{
    Configured, Configuring, Description, Drive, Need, Setup, SliceOutput, System, Texts, Workload,
    check_clients,
};
use crate::environment;
use crate::placement;
use crate::process::{Process, Program, reported};
use crate::scheduling::Scheduling;
use crate::search_path::{SearchPath, is_executable};
use anyhow::{Context as _, anyhow, bail, ensure};
use beginning::Awaited;
use counter::Count;
use instance::Instance;
use kneepoint_vocab::{Clients, Nanos, Proof, VariantId};
use rustix::process::Signal;
use settings::Settings;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The workload's name.
pub const NAME: &str = "command";
/// How long a command that was asked to stop may take for that.
const STOPPING: Duration = Duration::from_secs(10);
/// Where Debian has programs that recipes like to use.
const PACKAGES: [(&str, &str); 15] = [
    ("ab", "apache2-utils"),
    ("fio", "fio"),
    ("hey", "hey"),
    ("mariadbd", "mariadb-server"),
    ("nginx", "nginx-light"),
    ("redis-benchmark", "redis-tools"),
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
    ("stress-ng", "stress-ng"),
    ("sysbench", "sysbench"),
    ("hyperfine", "hyperfine"),
    ("memcached", "memcached"),
    ("wrk", "wrk"),
    ("curl", "curl"),
    ("sh", "dash"),
];

/// The workload `command`.
#[derive(Clone, Copy, Debug)]
pub struct Command;

impl Workload for Command {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "any command line, alone or against a server that the recipe starts"
    }

    fn made_once(&self) -> &'static [&'static str] {
        &["setup"]
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        Ok(Arc::new(Settings::parse(settings)?))
    }
}

impl Configured for Settings {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        let mut needs: Vec<Need> = Vec::new();
        let own = self.path().map_or_else(|| path.clone(), |own| SearchPath::of(own.as_ref()));
        for program in self.lines().map(line::Line::program) {
            if !program.contains('{') && needs.iter().all(|need| need.what != program) {
                needs.push(need(program, self.directory.as_deref(), &own));
            }
        }
        let served = self.start.as_ref().unwrap_or(&self.run).program();
        needs.extend(self.environment.needs(own.find(served).as_deref()));
        // Every line is started by it.
        needs.push(Need::program("env", "coreutils", path));
        needs
    }

    fn program(&self, path: &SearchPath) -> Option<PathBuf> {
        let path = self.path().map_or_else(|| path.clone(), |own| SearchPath::of(own.as_ref()));
        let served = self.start.as_ref().unwrap_or(&self.run).program();
        match &self.directory {
            Some(directory) if served.contains('/') => Some(directory.join(served)),
            _ => path.find(served),
        }
    }

    fn programs(&self) -> Vec<Proof> {
        proving::planned(self)
    }

    /// In the command, or beside the server that it drives.
    fn clients(&self) -> Clients {
        if self.start.is_some() { Clients::Apart } else { Clients::Inside }
    }

    fn fresh_each_slice(&self) -> bool {
        self.clients() == Clients::Inside
    }

    fn fixed_work(&self) -> bool {
        self.counter().is_none() && self.fresh_each_slice()
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        instance::set_up(self, setup)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = self.clone();
        let instance = Instance::start(&settings, setup)?;
        let counter = settings.counter().cloned();
        let count = counter.map(|counter| Count::begin(counter, &instance)).transpose()?;
        let own = [VariantId::BASELINE, VariantId::CONTROL, VariantId::UNPROBED];
        Ok(Box::new(Commanded {
            settings,
            scheduling: setup.scheduling.clone(),
            instance,
            count,
            variant: !own.contains(&setup.variant.0.as_str()),
            most: setup.max_clients,
            run: None,
            place: None,
            counted_by: None,
        }))
    }
}

/// A program; one with a path is looked for from where the command will run.
fn need(program: &str, directory: Option<&Path>, path: &SearchPath) -> Need {
    match directory {
        Some(directory) if program.contains('/') => {
            let here = is_executable(&directory.join(program));
            Need { what: program.to_owned(), package: String::new(), here }
        }
        _ => {
            let package = PACKAGES.iter().find(|(name, _)| *name == program);
            Need::program(program, package.map_or("", |(_, package)| *package), path)
        }
    }
}

/// One start of a variant.
struct Commanded {
    settings: Settings,
    /// How its threads run where it is the system.
    scheduling: Scheduling,
    instance: Instance,
    most: u32,
    run: Option<Run>,
    /// Where clients stand among helpers as busy, once that was seen.
    place: Option<working::Place>,
    /// The count that another program tells, where operations are counted by that.
    count: Option<Count>,
    /// Whether it is a variant, which has to show what it is.
    variant: bool,
    /// By what automatic counting went in earlier slices: it must not change its mind.
    counted_by: Option<&'static str>,
}

/// A run of the command: one slice.
struct Run {
    process: Process,
    ended: JoinHandle<Instant>,
    marked: bool,
    clients: u32,
    /// How long it was told to take.
    told: Duration,
    /// How long after its start its clients began, where that was seen.
    begun: Option<Duration>,
}

impl Commanded {
    fn running(&mut self) -> anyhow::Result<&mut Run> {
        self.run.as_mut().ok_or_else(|| anyhow!("{NAME}: no clients are running"))
    }

    /// Starts the command as a slice does.
    fn spawn(&self, drive: &Drive) -> anyhow::Result<Process> {
        let apart = self.instance.server.is_some();
        let cpus = if apart { &drive.cpus.generator } else { &drive.cpus.system };
        let words = self.settings.run.filled(&self.instance.values(drive));
        Program {
            cpus: cpus.clone(),
            scheduling: if apart { Scheduling::default() } else { self.scheduling.clone() },
            ..self.instance.program("the command", words, &self.settings)
        }
        .spawn(&self.instance.undo)
    }

    fn watched(&self, drive: &Drive) -> anyhow::Result<(Process, JoinHandle<Instant>)> {
        let process = self.spawn(drive)?;
        let ended = working::watch(&process)?;
        Ok((process, ended))
    }

    /// Waits until the clients of a run work, where they live in it and not all of it counts.
    fn await_clients(&self, process: &mut Process, drive: &Drive) -> Awaited {
        if self.instance.server.is_some() || self.settings.counting.needs_the_end() {
            return Awaited::Unseen;
        }
        let lasts = match self.settings.until_stopped {
            // It may be told to take much longer.
            true => Duration::from_nanos(drive.lasts.0),
            false => self.instance.told(drive),
        };
        self.settings.beginning.wait(process, drive.clients, lasts)
    }

    /// What can be read back of a variant: its server, and the command, which is run for that for
    /// as long as it takes to look at it.
    fn proofs(&self) -> anyhow::Result<Vec<Proof>> {
        if !self.variant {
            return Ok(proving::planned(&self.settings));
        }
        let server = self.instance.server.as_ref();
        let mut proofs =
            server.map_or_else(Vec::new, |server| proving::of_server(&self.settings, server));
        proofs.extend(self.instance.shown.iter().cloned());
        let mut process = self.spawn(&Drive::new(1, Nanos(0)))?;
        let launcher = self.instance.undo.server();
        let own = server.is_none().then_some(&self.scheduling);
        proofs.extend(proving::of_command(&self.settings, &mut process, &launcher, own));
        Ok(proofs)
    }

    /// Ends a command whose operations were counted from outside: by asking, else as it goes.
    fn end_counted(&self, mut run: Run) -> anyhow::Result<()> {
        if let Some(status) = run.process.ended() {
            let what =
                format!("ended before its window closed ({}): give it more work", reported(status));
            return Err(run.process.lost(&what));
        }
        run.process.signal(Signal::TERM)?;
        let _ = run.process.await_end(STOPPING);
        Ok(())
    }

    /// Waits for the command's end, its own or the one it is asked for.
    fn await_end(&self, run: &mut Run) -> anyhow::Result<()> {
        let process = &mut run.process;
        let asked = self.settings.until_stopped && process.ended().is_none();
        if asked {
            process.signal(Signal::TERM)?;
        }
        let timeout = if asked { STOPPING } else { self.settings.timeout };
        let status = process.await_end(timeout).map_err(|error| {
            if self.settings.until_stopped {
                return error;
            }
            anyhow!("{error:#}; let it end by itself ({{seconds}}, or until = \"stopped\")")
        })?;
        // Dying of the signal that it was sent is how most programs obey.
        use std::os::unix::process::ExitStatusExt as _;
        let obeyed = asked && status.signal() == Some(Signal::TERM.as_raw());
        if status.success() || obeyed {
            return Ok(());
        }
        Err(process.lost(&reported(status)))
    }

    fn output(&mut self, run: Run) -> anyhow::Result<SliceOutput> {
        let Run { process, ended, clients, told, begun, .. } = run;
        let ended = ended.join().map_err(|_| anyhow!("{NAME}: nobody saw it end"))?;
        let wall = ended.saturating_duration_since(process.begun());
        self.settings.beginning.took(clients, wall, told);
        let worked = beginning::from_its_clients(wall, begun);
        let (printed, complained) = (process.printed()?, process.complained()?);
        let counted = self.settings.counting.count(&printed, &complained, wall, worked);
        let counting::Run { counted: (operations, counted_over), by, latency } =
            counted.map_err(|why| anyhow!("{NAME}: {why}{}", process.tail()))?;
        match self.counted_by.replace(by) {
            Some(earlier) if earlier != by => {
                bail!(
                    "{NAME}: its output was {earlier} at first, and is {by} now{}",
                    process.tail()
                )
            }
            _ => {}
        }
        Ok(SliceOutput { operations, counted_over, per_client: Vec::new(), latency, counts: None })
    }
}

impl System for Commanded {
    fn pids(&self) -> Vec<u32> {
        match (&self.instance.server, &self.run) {
            (Some(server), _) => vec![server.pid()],
            (None, run) => run.iter().map(|run| run.process.pid()).collect(),
        }
    }

    fn generators(&self) -> Vec<u32> {
        let apart = self.instance.server.is_some();
        self.run.iter().filter(|_| apart).map(|run| run.process.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        let mut settings = vec![
            ("command".to_owned(), self.settings.run.to_string()),
            ("counted".to_owned(), self.settings.counting.reported()),
        ];
        if let Some(start) = &self.settings.start {
            settings.push(("server".to_owned(), start.to_string()));
        }
        settings.extend(self.settings.environment.reported());
        if let Some(count) = &self.count {
            settings.push(("a reading of the count adds".to_owned(), count.own().to_string()));
        }
        Ok((self.proofs()?, settings))
    }

    fn environment(&self) -> Vec<(String, String)> {
        let server = self.instance.server.as_ref().map(PrivateServer::pid);
        environment::of(server, &self.settings.environment)
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.run.is_none(), "{NAME}: clients are already running");
        check_clients(NAME, drive.clients, self.most)?;
        self.instance.check()?;
        let apart = self.instance.server.is_some();
        if let Some(server) = &self.instance.server {
            placement::pin(server.pid(), &drive.cpus.system)?;
        }
        if let Some(count) = &mut self.count {
            let lasts = Duration::from_nanos(drive.lasts.0);
            count.prepare(&self.instance, lasts, &drive.cpus.generator)?;
        }
        let (mut process, mut ended) = self.watched(drive)?;
        let begun = match self.await_clients(&mut process, drive) {
            Awaited::Begun(begun) => Some(begun),
            Awaited::Unseen => None,
            Awaited::Over => {
                // It is short, so that nothing can be waited for.
                (process, ended) = self.watched(drive)?;
                None
            }
        };
        let (clients, told) = (drive.clients, self.instance.told(drive));
        let run = self.run.insert(Run { process, ended, marked: false, clients, told, begun });
        let workers = working::workers(&mut run.process, drive.clients);
        if let Err(error) = self.working() {
            self.run = None;
            return Err(error);
        }
        // The generator's threads are no clients of the ledger, and which thread of a server
        // serves whom only the server knows.
        Ok(if apart { Vec::new() } else { workers })
    }

    fn settled_clients(&mut self, clients: u32) -> Option<Vec<u32>> {
        if self.instance.server.is_some() {
            return None;
        }
        let run = self.run.as_mut()?;
        working::workers_now(&mut run.process, clients, &mut self.place)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.instance.check()?;
        let run = self.running()?;
        match run.process.ended() {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => Err(run.process.lost(&reported(status))),
        }
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        if self.working()? {
            self.running()?.marked = true;
            if let Some(count) = &mut self.count {
                count.open(&self.instance)?;
            }
            return Ok(());
        }
        let Some(run) = self.run.take() else { return Ok(()) };
        let took = run.process.begun().elapsed();
        bail!(
            "{NAME}: it ended within {took:.1?}, before its window opened: give it more work{}",
            run.process.tail()
        )
    }

    fn close(&mut self) -> anyhow::Result<()> {
        if let Some(run) = self.run.as_mut().filter(|_| self.instance.server.is_none())
            && run.process.ended().is_none()
        {
            self.settings.beginning.count(&mut run.process, run.clients);
        }
        match &mut self.count {
            Some(count) if self.run.is_some() => count.close(&self.instance),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let closed = self.close();
        let mut run = self.run.take().with_context(|| format!("{NAME}: no clients are running"))?;
        ensure!(run.marked, "{NAME}: no window is open");
        if let Some(count) = &self.count {
            // Where the server is gone, a count that cannot be read would only hide that.
            self.instance.check()?;
            closed?;
            self.end_counted(run)?;
            return count.output();
        }
        self.await_end(&mut run)?;
        self.instance.check()?;
        self.output(run)
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        self.run = None;
        self.instance.stop()
    }
}

//! `postgres`: a private PostgreSQL server under pgbench, one backend process a client.
//!
//! Every variant starts from a copy of one loaded cluster, as an account of its own where Kneepoint
//! is root. The server listens on a UNIX socket in a directory that nobody else can enter. In each
//! slice, the transactions that pgbench counts are checked against those that the server counts.

mod factors;
mod log;
mod pgbench;
mod programs;
mod server;
mod session;
mod settings;
mod template;

use super::private::{Home, agreed};
use super::{
    Configured, Configuring, Description, Drive, MOST_CLIENTS, Need, Setup, SliceOutput, System,
    Tally, Texts, Workload, check_clients,
};
use crate::ending::HUNG_AFTER;
use crate::placement::{self, BESIDE, Spread};
use crate::process::{Account, Process};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use crate::{priority, serving};
use anyhow::{Context as _, ensure};
use factors::Factors;
use kneepoint_vocab::{Clients, CountCheck};
use log::{Edge, Log, Rates};
use pgbench::{Extent, Report};
use programs::Programs;
use rustix::process::Signal;
use server::{CLUSTER, Launch, Server};
use settings::{Connection, Settings};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use template::TemplateContext;

/// The workload's name.
const NAME: &str = "postgres";
/// The role that everybody connects as.
const ROLE: &str = "postgres";
/// The clients' database.
const DATABASE: &str = "bench";
/// The database of the control connection, whose transactions must not count.
const CONTROL: &str = "postgres";
/// The script that tells what a client finds.
const FACTORS_FILE: &str = "factors.sql";
/// Connections beside those of the clients.
const SPARE_CONNECTIONS: u32 = 10;
/// The workload `postgres`.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// How long a program or an answer may take before it counts as hung, beyond what the work
    /// itself takes.
    pub timeout: Duration,
}

impl Postgres {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER };
}

impl Workload for Postgres {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "pgbench's transactions on a private PostgreSQL server, one backend process a client"
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        let (settings, timeout) = (Settings::parse(settings)?, self.timeout);
        Ok(Arc::new(Configuration { settings, timeout }))
    }
}

/// The workload as it is set.
#[derive(Debug)]
struct Configuration {
    settings: Settings,
    timeout: Duration,
}

impl Configured for Configuration {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        let programs = Programs::find(path);
        let here = programs.is_some();
        let what = "postgres, initdb and pgbench of one version";
        let mut needs = vec![
            Need { what: what.to_owned(), package: "postgresql".to_owned(), here },
            Need::program("cp", "coreutils", path),
            // Removes the shared memory of a server that was killed.
            Need::program("ipcrm", "util-linux", path),
        ];
        let server = programs.map(|programs| programs.postgres);
        needs.extend(self.settings.environment.needs(server.as_deref()));
        needs
    }

    fn clients(&self) -> Clients {
        Clients::Apart
    }

    fn tells_progress(&self) -> bool {
        true
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        self.template(setup, &found()?).map(drop)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let clients = setup.max_clients;
        check_clients(NAME, clients, MOST_CLIENTS)?;
        let settings = self.settings.clone();
        let programs = found()?;
        // A variant of another scale than the baseline's makes its template at its first start.
        let template = self.template(setup, &programs)?;
        let name = format!("{}-{}", setup.variant, setup.start);
        let home = Home::named(&setup.scratch, &name, Account::unprivileged(ROLE))?;
        home.copy(&template, CLUSTER, &setup.undo, self.timeout)?;
        fs::write(home.path().join(FACTORS_FILE), factors::SCRIPT)
            .context("pgbench's script cannot be written")?;
        let launch = Launch {
            programs: &programs,
            home,
            parameters: parameters(&settings, clients),
            tcp: settings.connection == Connection::Tcp,
            environment: settings.environment.clone(),
            undo: &setup.undo,
            timeout: self.timeout,
        };
        let server = Server::start(launch)?;
        let mut postgres = Cluster {
            run: None,
            server,
            programs,
            settings,
            overhead: Overhead::default(),
            rates: Rates::default(),
            most_clients: clients,
            undo: setup.undo.clone(),
            timeout: self.timeout,
        };
        postgres.overhead = postgres.calibrate()?;
        Ok(Box::new(postgres))
    }
}

impl Configuration {
    /// The template for its scale, made where it is not there yet.
    fn template(&self, setup: &Setup, programs: &Programs) -> anyhow::Result<PathBuf> {
        let template_context = TemplateContext {
            programs,
            scratch: &setup.scratch,
            undo: &setup.undo,
            timeout: self.timeout,
        };
        template::of_scale(self.settings.scale, &template_context)
    }
}

/// Lets each of pgbench's threads begin on one CPU with the backends that serve its clients, as a
/// lasting load comes to lie: by itself it takes 10 s and more to get there.
fn begin_beside(generator: &Process, backends: &[u32]) -> anyhow::Result<()> {
    let Some(groups) = serving::groups(generator.pid(), backends) else { return Ok(()) };
    let spread = Spread::together(&groups)?;
    std::thread::sleep(BESIDE);
    drop(spread);
    Ok(())
}

fn found() -> anyhow::Result<Programs> {
    Programs::find(&SearchPath::own())
        .context("PostgreSQL's programs are not here: install the package postgresql")
}

fn parameters(settings: &Settings, clients: u32) -> Vec<String> {
    let waits = if settings.synchronous_commit { "on" } else { "off" };
    vec![
        format!("max_connections={}", clients + SPARE_CONNECTIONS),
        format!("shared_buffers={}MB", settings.shared_buffers),
        format!("synchronous_commit={waits}"),
        // The log lies in memory, once for each variant.
        "max_wal_size=256MB".to_owned(),
    ]
}

/// Transactions that the server counts beside those of the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Overhead {
    /// Of a whole run: pgbench looks at the tables before it connects its clients.
    run: u64,
    /// Of each client: it connects, and statements are prepared outside of its transactions.
    client: u64,
}

impl Overhead {
    /// From what one and two clients cost.
    fn from(one: u64, two: u64) -> anyhow::Result<Self> {
        let client = two.checked_sub(one);
        let run = client.and_then(|client| one.checked_sub(client));
        let (Some(client), Some(run)) = (client, run) else {
            anyhow::bail!("PostgreSQL counts {one} transactions beside pgbench's own, then {two}");
        };
        Ok(Self { run, client })
    }

    fn of(self, clients: u32) -> u64 {
        self.run + self.client * u64::from(clients)
    }
}

/// A generator that runs.
struct Run {
    generator: Process,
    clients: u32,
    /// The server's count before it began.
    before: u64,
    log: Log,
    begun: Edge,
    opened: Option<Edge>,
    closed: Option<Edge>,
}

/// A server that is up. Fields are dropped in order: clients first, then the server, then its
/// files.
struct Cluster {
    run: Option<Run>,
    server: Server,
    programs: Programs,
    settings: Settings,
    overhead: Overhead,
    rates: Rates,
    most_clients: u32,
    undo: Undo,
    timeout: Duration,
}

impl Cluster {
    fn pgbench(&self, arguments: &[String], cpus: &[u32]) -> anyhow::Result<Process> {
        let path = self.server.home().path();
        let mut program = pgbench::pgbench(&self.programs, self.server.reach(), arguments, path);
        program.cpus = cpus.to_vec();
        program.spawn(&self.undo)
    }

    fn script(&self, clients: u32, threads: u32, extent: Extent) -> Vec<String> {
        pgbench::arguments(self.settings.script, self.settings.protocol, clients, threads, extent)
    }

    /// Runs one transaction of each of so many clients, and returns the report with what the
    /// server counted.
    fn run_once(&mut self, clients: u32) -> anyhow::Result<(Report, u64)> {
        let before = self.server.transactions()?;
        let arguments = self.script(clients, 1, Extent::Transactions(1));
        let printed = self.pgbench(&arguments, &[])?.await_success(self.timeout)?;
        let report = Report::parse(&printed)?;
        let counted = self.server.transactions()?.saturating_sub(before);
        Ok((report, counted))
    }

    /// What a run costs beside its script differs between versions and protocols: it is measured.
    fn calibrate(&mut self) -> anyhow::Result<Overhead> {
        let mut beside = |clients| {
            let (report, counted) = self.run_once(clients)?;
            anyhow::Ok(counted.saturating_sub(report.transactions))
        };
        let (one, two) = (beside(1)?, beside(2)?);
        Overhead::from(one, two)
    }

    /// Starts pgbench for so many seconds, and returns it once all its clients work.
    fn drive(&mut self, drive: &Drive, seconds: u64) -> anyhow::Result<(Run, Vec<u32>)> {
        let before = self.server.transactions()?;
        let cpus = &drive.cpus.generator;
        let cores = if cpus.is_empty() { placement::allowed().len() } else { cpus.len() };
        let threads = drive.clients.min(u32::try_from(cores.max(1)).unwrap_or(u32::MAX));
        let mut arguments = self.script(drive.clients, threads, Extent::Seconds(seconds));
        let sampling = self.rates.sampling(drive.clients);
        arguments.extend(log::arguments(self.server.home().path(), sampling));
        let started = Edge::now();
        let mut generator = self.pgbench(&arguments, cpus)?;
        let backends = self.server.await_backends(&mut generator, drive.clients)?;
        for backend in &backends {
            priority::raise_other(*backend);
            placement::pin(*backend, &drive.cpus.system)?;
        }
        if cpus.is_empty() {
            begin_beside(&generator, &backends)?;
        }
        let home = self.server.home().path();
        let log = Log::of(home, generator.pid(), threads, started, sampling);
        let begun = Edge::now();
        let clients = drive.clients;
        let run = Run { generator, clients, before, log, begun, opened: None, closed: None };
        Ok((run, backends))
    }

    /// The generator's count against the server's.
    fn cross_check(&mut self, run: &Run, report: &Report) -> anyhow::Result<CountCheck> {
        let protocol = self.settings.protocol.option();
        ensure!(
            report.clients == run.clients && report.protocol == protocol,
            "pgbench ran {} clients in mode {}, not {} in mode {protocol}",
            report.clients,
            report.protocol,
            run.clients
        );
        let counts = CountCheck {
            counter: "xact_commit + xact_rollback".to_owned(),
            generator: report.transactions + self.overhead.of(run.clients),
            server: self.server.transactions()?.saturating_sub(run.before),
        };
        agreed(counts, |counts| {
            format!(
                "pgbench accounts for {} transactions and PostgreSQL for {}: more than 1 % apart",
                counts.generator, counts.server
            )
        })
    }
}

impl System for Cluster {
    fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    fn generators(&self) -> Vec<u32> {
        self.run.iter().map(|run| run.generator.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.run.is_none(), "{NAME}: clients are running");
        let (report, _) = self.run_once(1)?;
        let arguments = ["-n", "-c", "1", "-t", "1", "-f", FACTORS_FILE].map(str::to_owned);
        let mut reported = self.pgbench(&arguments, &[])?;
        reported.await_success(self.timeout)?;
        let mut proofs = Factors::parse(&reported.complained()?)?.proofs(&self.settings, &report);
        let environment = &self.settings.environment;
        proofs.extend(shown::variables("postgres", self.server.pid(), environment));
        let mut settings: Vec<_> = environment.reported().into_iter().collect();
        for (name, parameter) in [
            ("PostgreSQL", "server_version"),
            ("max_connections", "max_connections"),
            ("max_wal_size", "max_wal_size"),
            ("fsync", "fsync"),
            ("full_page_writes", "full_page_writes"),
            ("autovacuum", "autovacuum"),
            ("data_checksums", "data_checksums"),
        ] {
            let value = self.server.query(&format!("SHOW {parameter}"))?;
            settings.push((name.to_owned(), value.concat().concat()));
        }
        Ok((proofs, settings))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.run.is_none(), "{NAME}: clients are already running");
        let (clients, most) = (drive.clients, self.most_clients);
        check_clients(NAME, clients, most)?;
        self.server.alive()?;
        self.server.place(&drive.cpus.system)?;
        let seconds = pgbench::seconds_for(drive.lasts, self.timeout);
        let (run, backends) = self.drive(drive, seconds)?;
        self.run = Some(run);
        Ok(backends)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.server.alive()?;
        let Some(run) = &mut self.run else { return Ok(false) };
        match run.generator.ended() {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => Err(run.generator.lost(&format!("failed under way: {status}"))),
        }
    }

    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        let run = self.run.as_mut().with_context(|| format!("{NAME}: no clients are running"))?;
        run.log.read()?;
        let (at, operations) = run.log.reported(&run.begun);
        Ok(Some(Tally { at, operations }))
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        let run = self.run.as_mut().with_context(|| format!("{NAME}: no clients are running"))?;
        (run.opened, run.closed) = (Some(Edge::now()), None);
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let run = self.run.as_mut().with_context(|| format!("{NAME}: no clients are running"))?;
        run.closed.get_or_insert_with(Edge::now);
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let run = self.run.take().with_context(|| format!("{NAME}: no clients are running"));
        let mut run = run?;
        let closed = run.closed.unwrap_or_else(Edge::now);
        // What its own timer would send: clients end after the transaction that each is at.
        if run.generator.ended().is_none() {
            run.generator.signal(Signal::ALARM)?;
        }
        let ended = run.generator.await_success(self.timeout);
        // Where the server is gone, pgbench's complaint about it would only hide that.
        self.server.alive()?;
        let report =
            Report::parse(&ended?).map_err(|error| run.generator.lost(&error.to_string()))?;
        // Both counts are of the whole run: a backend adds what it has done when it ends.
        let counts = self.cross_check(&run, &report)?;
        run.log.read()?;
        run.log.check(report.transactions, run.clients)?;
        let opened = run.opened.with_context(|| format!("{NAME}: no window was opened"))?;
        let done = run.log.between(&opened, &closed, run.clients)?;
        let operations: u64 = done.per_client.iter().sum();
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let rate = operations as f64 / done.over.seconds().0;
        self.rates.keep(run.clients, rate);
        Ok(SliceOutput {
            operations,
            counted_over: done.over,
            per_client: done.per_client,
            latency: done.latency,
            counts: Some(counts),
        })
    }

    fn stop(self: Box<Self>) -> anyhow::Result<()> {
        let Self { run, server, .. } = *self;
        drop(run);
        server.stop().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_beside_the_script_follows_from_two_runs() {
        let overhead = Overhead::from(5, 7).unwrap();
        assert_eq!(overhead, Overhead { run: 3, client: 2 });
        assert_eq!(overhead.of(32), 67);
        assert!(Overhead::from(5, 4).is_err() && Overhead::from(5, 11).is_err());
    }
}

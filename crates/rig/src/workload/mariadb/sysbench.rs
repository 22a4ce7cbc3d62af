//! `mariadb-sysbench` as it runs: a server of its own, and one sysbench a slice whose threads are
//! the clients.

use super::counts::{Counts, Window};
use super::instance::Instance;
use super::settings::SysbenchSettings;
use super::{template, told};
use crate::output;
use crate::process::{Process, Program};
use crate::undo::Undo;
use crate::workload::{Description, Drive, Setup, SliceOutput, System, Tally};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{CountCheck, Nanos};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes that a row takes in the table and its two indexes.
const ROW_BYTES: u64 = 300;
/// How far the generator's count may be from the server's.
const COUNT_TOLERANCE: f64 = 0.01;

/// Bytes that the tables take.
fn table_bytes(settings: &SysbenchSettings) -> u64 {
    u64::from(settings.tables) * u64::from(settings.table_size) * ROW_BYTES
}

/// Loads sysbench's tables for all starts to copy.
pub(super) fn prepare(
    setup: &Setup,
    settings: &SysbenchSettings,
    patience: Duration,
) -> anyhow::Result<()> {
    template::make(setup, &settings.server, table_bytes(settings), patience, |instance| {
        let mut arguments = vec![settings.script.clone()];
        arguments.extend(instance.route());
        arguments.extend(sizes(settings));
        arguments.extend([format!("--rand-seed={}", seed(setup.seed, 0)), "prepare".to_owned()]);
        let directory = instance.home().path().to_owned();
        let mut program = Program::new("sysbench", "sysbench", arguments, &directory);
        program.shielded = true;
        instance.run(program)?;
        Ok(())
    })
}

/// Starts a server on a copy of the tables.
pub(super) fn start(
    setup: &Setup,
    settings: SysbenchSettings,
    generator: &'static str,
    patience: Duration,
) -> anyhow::Result<Box<dyn System>> {
    let home = template::copy(setup)?;
    let script = home.path().join("oltp.lua");
    fs::write(&script, include_str!("oltp.lua")).with_context(|| script.display().to_string())?;
    let bytes = table_bytes(&settings);
    let mut instance = Instance::start(setup, &settings.server, home, bytes, patience)?;
    let warm: Vec<String> = (1..=settings.tables)
        .map(|table| {
            format!(
                "SELECT SUM(LENGTH(pad)) FROM sbtest{table} FORCE INDEX (PRIMARY); \
                 SELECT SUM(k) FROM sbtest{table} FORCE INDEX (k_{table});"
            )
        })
        .collect();
    instance.ask(&format!("USE {}; {}", super::instance::DATABASE, warm.concat()))?;
    Ok(Box::new(Sysbench {
        running: None,
        instance,
        settings,
        generator,
        script,
        patience,
        undo: setup.undo.clone(),
        max_clients: setup.max_clients,
        seed: setup.seed,
        slices: 0,
    }))
}

/// Options that say how large the tables are.
fn sizes(settings: &SysbenchSettings) -> [String; 2] {
    [format!("--tables={}", settings.tables), format!("--table_size={}", settings.table_size)]
}

/// A seed for sysbench, which takes 0 as the time of day.
pub(super) fn seed(seed: u64, slice: u64) -> u64 {
    seed.wrapping_add(slice.wrapping_mul(0x9e37_79b9)) % 0x7fff_fffe + 1
}

/// Longer than any slice lasts, in whole seconds: the generator is told to end, and ends by itself
/// only where nobody does.
fn whole_seconds(slice: Nanos, patience: Duration) -> u64 {
    slice.0.div_ceil(1_000_000_000) + patience.as_secs().max(1)
}

struct Sysbench {
    // Dropped before the server: fields are dropped in order.
    running: Option<Running>,
    instance: Instance,
    settings: SysbenchSettings,
    /// The program that drives the server.
    generator: &'static str,
    script: PathBuf,
    patience: Duration,
    undo: Undo,
    max_clients: u32,
    seed: u64,
    slices: u64,
}

/// One run of the generator.
struct Running {
    generator: Process,
    clients: u32,
    /// The server's count before the generator started.
    questions: u64,
    window: Window,
}

impl Sysbench {
    fn arguments(&self, clients: u32, seconds: u64) -> Vec<String> {
        let mut arguments = vec![self.script.display().to_string()];
        arguments.extend(self.instance.route());
        arguments.extend(sizes(&self.settings));
        let mix = self.settings.mix.iter();
        arguments.extend(mix.map(|(name, value)| format!("--{name}={value}")));
        arguments.extend([
            format!("--threads={clients}"),
            format!("--time={seconds}"),
            "--events=0".to_owned(),
            "--histogram=on".to_owned(),
            "--percentile=95".to_owned(),
            format!("--rand-seed={}", seed(self.seed, self.slices)),
            "run".to_owned(),
        ]);
        arguments
    }

    /// Ends the generator, and checks what it counted against its own report and the server's
    /// count, both of which are of its whole run.
    fn read(&mut self, running: &mut Running) -> anyhow::Result<SliceOutput> {
        running.window.close()?;
        running.window.counts().end()?;
        let printed = running.generator.await_success(self.patience);
        let printed = printed.map_err(|error| self.instance.blame(error))?;
        self.instance.alive()?;
        let served = self.instance.questions_since(running.questions)?;
        let report = output::sysbench::parse(&printed)
            .map_err(|error| running.generator.lost(&format!("printed no report: {error}")))?;
        ensure!(
            report.errors == 0,
            "sysbench: {} transactions failed and were tried again; no number",
            report.errors
        );
        let counted = running.window.counts().operations()?;
        ensure!(
            counted == report.operations,
            "sysbench reports {} transactions, its clients counted {counted}; no number",
            report.operations
        );
        // Each client's good-bye is a question to the server and no query to sysbench.
        let queries = report.statements.context("sysbench reports no queries")?;
        let counts = checked(queries + u64::from(running.clients), served)?;
        running.window.output(Some(counts))
    }
}

/// Waits until all clients of a generator are connected, and returns the kernel ids of the
/// server's threads that serve them, in client order; none where threads serve any connection.
pub(super) fn await_clients(
    instance: &mut Instance,
    generator: &mut Process,
    clients: u32,
    patience: Duration,
) -> anyhow::Result<Vec<u32>> {
    let mut found = None;
    let awaited = generator.await_ready(patience, |generator| {
        found = generator.complained().ok().and_then(|text| told::served(&text, clients));
        found.is_some()
    });
    awaited.map_err(|error| instance.blame(error))?;
    let served = found.unwrap_or_default();
    for it in &served {
        instance.check_route(&it.host)?;
    }
    if !instance.one_thread_each() {
        return Ok(Vec::new());
    }
    let threads = served.into_iter().map(|it| it.thread);
    threads.map(|thread| instance.own_thread(thread)).collect()
}

/// The counts of both sides, if they agree.
pub(super) fn checked(generator: u64, server: u64) -> anyhow::Result<CountCheck> {
    let counts = CountCheck { counter: "Questions".to_owned(), generator, server };
    ensure!(
        counts.disagreement().0 <= COUNT_TOLERANCE,
        "the counts disagree: the generator asked {generator} questions, mariadbd counts {server}; \
         no number"
    );
    Ok(counts)
}

impl System for Sysbench {
    fn pids(&self) -> Vec<u32> {
        vec![self.instance.pid()]
    }

    fn generators(&self) -> Vec<u32> {
        self.running.iter().map(|running| running.generator.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "clients are running");
        let (proofs, mut settings) = self.instance.describe()?;
        let own = [("script", self.settings.script.clone())];
        settings.extend(own.map(|(name, value)| (name.to_owned(), value)));
        settings.extend(sizes(&self.settings).iter().filter_map(|option| {
            let (name, value) = option.strip_prefix("--")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        }));
        let mix = self.settings.mix.iter();
        settings.extend(mix.map(|(name, value)| ((*name).to_owned(), value.clone())));
        Ok((proofs, settings))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.running.is_none(), "clients are running already");
        ensure!(
            (1..=self.max_clients).contains(&drive.clients),
            "clients must be 1 to {} (found {})",
            self.max_clients,
            drive.clients
        );
        self.instance.alive()?;
        self.instance.pin(&drive.cpus.system)?;
        let questions = self.instance.questions()?;
        self.slices += 1;
        let arguments = self.arguments(drive.clients, whole_seconds(drive.lasts, self.patience));
        let directory = self.instance.home().path().to_owned();
        let counts = Counts::begin(&directory, drive.clients)?;
        let mut program = Program::new("sysbench", self.generator, arguments, &directory);
        program.cpus.clone_from(&drive.cpus.generator);
        program.shielded = true;
        program.environment = counts.environment();
        program.environment.push(("KNEEPOINT_SCRIPT".into(), self.settings.script.clone().into()));
        let mut generator = program.spawn(&self.undo)?;
        let clients = drive.clients;
        let threads = await_clients(&mut self.instance, &mut generator, clients, self.patience)?;
        let window = Window::over(counts);
        self.running = Some(Running { generator, clients, questions, window });
        Ok(threads)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.instance.alive()?;
        let running = self.running.as_mut().context("no clients are running")?;
        match running.generator.ended() {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => Err(running.generator.lost(&format!("failed ({status})"))),
        }
    }

    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        self.running.as_ref().map(|running| running.window.progress()).transpose()
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        self.instance.alive()?;
        self.running.as_mut().context("no clients are running")?.window.mark()
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.running.as_mut().context("no clients are running")?.window.close()
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let mut running = self.running.take().context("no clients are running")?;
        self.read(&mut running)
    }

    fn stop(self: Box<Self>) -> anyhow::Result<()> {
        drop(self.running);
        self.instance.stop().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_nobody_ends_outlasts_the_slice() {
        let told = |millis, patience| {
            whole_seconds(Nanos::from_millis(millis), Duration::from_millis(patience))
        };
        assert_eq!([told(0, 200), told(950, 30_000), told(1001, 30_000)], [1, 31, 32]);
    }

    #[test]
    fn a_seed_is_never_zero_and_differs_from_slice_to_slice() {
        assert_ne!(seed(u64::MAX, 3), 0);
        assert_ne!(seed(7, 1), seed(7, 2));
        assert_eq!(seed(7, 1), seed(7, 1));
    }

    #[test]
    fn counts_a_percent_apart_are_refused() {
        assert!(checked(1000, 1009).is_ok());
        let error = checked(1000, 1011).unwrap_err().to_string();
        assert!(error.contains("asked 1000 questions, mariadbd counts 1011"), "{error}");
        assert!(checked(1000, 0).is_err());
    }
}

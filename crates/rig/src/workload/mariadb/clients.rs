//! The clients of one server start: threads of one sysbench that lives as long as the server does
//! and wait at gates between slices, so that a slice measures clients that have long found their
//! cores, caches and connections. New ones need seconds for that.

use super::counts::{Counts, Window};
use super::instance::Instance;
use super::reported;
use crate::output;
use crate::placement::{self, BESIDE, Spread};
use crate::process::{Process, Program};
use crate::undo::Undo;
use crate::workload::SliceOutput;
use crate::workload::private::agreed;
use anyhow::{Context as _, ensure};
use kneepoint_machine::proc::process::has_thread;
use kneepoint_vocab::{CountCheck, Ratio};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Operations of the run that tells how many statements an operation has.
const TRIAL: u64 = 100;

/// How sysbench is called.
pub(super) struct Call<'a> {
    /// The program, a name in `PATH` or a path.
    pub(super) program: &'static str,
    /// What all calls have in common: script, route to the server, tables.
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: &'a Path,
    pub(super) seed: u64,
    /// How long all clients work, uncounted, before the first slice.
    pub(super) run_in: Duration,
    pub(super) timeout: Duration,
    pub(super) undo: &'a Undo,
}

impl Call<'_> {
    /// Starts it; with no number of operations it goes on until it is ended.
    fn spawn(
        &self,
        counts: &Counts,
        clients: u32,
        operations: u64,
        gates: Option<&Path>,
    ) -> anyhow::Result<Process> {
        let mut arguments = self.arguments.clone();
        arguments.extend([
            format!("--threads={clients}"),
            "--time=0".to_owned(),
            format!("--events={operations}"),
            format!("--rand-seed={}", self.seed),
            "run".to_owned(),
        ]);
        let mut program = Program::new("sysbench", self.program, arguments, self.directory);
        program.shielded = true;
        program.environment = counts.environment();
        program.environment.extend(self.environment.clone());
        program.environment.extend(gates.map(|path| ("KNEEPOINT_GATES".into(), path.into())));
        program.spawn(self.undo)
    }

    /// Statements of one operation, from sysbench's own report on a short run of one client.
    ///
    /// # Errors
    /// It fails, reports errors, or reports another number of operations than its client counted.
    fn statements(&self) -> anyhow::Result<Ratio> {
        let counts = Counts::begin(self.directory, 1)?;
        let mut generator = self.spawn(&counts, 1, TRIAL, None)?;
        let printed = generator.await_success(self.timeout)?;
        let report = output::sysbench::parse(&printed)
            .map_err(|error| generator.lost(&format!("printed no report: {error}")))?;
        ensure!(
            report.errors == 0,
            "sysbench: {} transactions failed and were tried again; no number",
            report.errors
        );
        let counted = counts.operations()?;
        ensure!(
            counted == report.operations && counted > 0,
            "sysbench reports {} transactions, its client counted {counted}; no number",
            report.operations
        );
        // The client asks once which thread serves it.
        let asked = report.statements.context("sysbench reports no queries")?.saturating_sub(1);
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        Ok(Ratio(asked as f64 / counted as f64))
    }
}

/// Clients that work, or wait at their gates.
pub(super) struct Clients {
    generator: Process,
    /// Kernel ids of the threads that the clients are, in client order.
    own: Vec<u32>,
    /// Kernel ids of the server's threads that serve them, in client order; none where threads
    /// serve any connection.
    threads: Vec<u32>,
    window: Window,
    gates: PathBuf,
    statements: Ratio,
    timeout: Duration,
    slice: Slice,
}

/// What a slice began with.
#[derive(Clone, Copy, Default)]
struct Slice {
    clients: u32,
    /// The server's count,
    questions: u64,
    /// and the clients' own ones of operations begun and ended.
    begun: u64,
    ended: u64,
}

impl Clients {
    /// Connects all clients, lets them find their cores among these CPUs, and leaves them waiting.
    ///
    /// # Errors
    /// sysbench fails, or a client is not served as it should be.
    pub(super) fn start(
        instance: &mut Instance,
        call: &Call<'_>,
        clients: u32,
        cpus: &[u32],
    ) -> anyhow::Result<Self> {
        let statements = call.statements().map_err(|error| instance.blame(error))?;
        let counts = Counts::begin(call.directory, clients)?;
        counts.stop(clients)?;
        let gates = call.directory.join("gate-");
        for client in 0..clients {
            make_gate(&gate(&gates, client))?;
        }
        let mut generator = call.spawn(&counts, clients, 0, Some(&gates))?;
        let timeout = call.timeout;
        let threads = await_clients(instance, &mut generator, clients, timeout)?;
        let own =
            await_own(&mut generator, clients, timeout).map_err(|error| instance.blame(error))?;
        let window = Window::over(counts);
        let slice = Slice { clients, ..Slice::default() };
        let mut started =
            Self { generator, own, threads, window, gates, statements, timeout, slice };
        started.await_gates(instance)?;
        started.release(instance, clients, cpus)?;
        std::thread::sleep(call.run_in);
        started.window.counts().stop(clients)?;
        started.await_gates(instance)?;
        Ok(started)
    }

    pub(super) fn pid(&self) -> u32 {
        self.generator.pid()
    }

    pub(super) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Fails if sysbench has ended.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        match self.generator.ended() {
            None => Ok(()),
            Some(status) => Err(self.generator.lost(&format!("ended ({status})"))),
        }
    }

    /// Lets so many clients go on these CPUs, and returns the threads that serve them.
    ///
    /// They begin as a load is that has worked for a while: spread evenly, each client beside its
    /// server thread where both may use the same CPUs. Else that takes the scheduler seconds after
    /// each change of their number, and throughput is a fifth lower meanwhile.
    ///
    /// # Errors
    /// sysbench or the server is gone.
    pub(super) fn release(
        &mut self,
        instance: &mut Instance,
        clients: u32,
        cpus: &[u32],
    ) -> anyhow::Result<Vec<u32>> {
        self.alive()?;
        let all = placement::allowed();
        placement::pin(self.pid(), if cpus.is_empty() { &all } else { cpus })?;
        let counts = self.window.counts();
        let (begun, ended) = (counts.begun(clients)?, counts.operations()?);
        self.slice = Slice { clients, questions: instance.questions()?, begun, ended };
        self.window.renew(clients);
        self.window.counts().go_on(clients)?;
        let first = |threads: &[u32]| threads.iter().copied().take(clients as usize).collect();
        let (own, serving): (Vec<u32>, Vec<u32>) = (first(&self.own), first(&self.threads));
        let spread = Spread::over(&[&own, &serving]).map_err(|error| instance.blame(error))?;
        for client in 0..clients {
            open_gate(&gate(&self.gates, client))?;
        }
        std::thread::sleep(BESIDE);
        drop(spread);
        Ok(serving)
    }

    /// Sends the clients back to their gates, and checks what they counted against the server.
    ///
    /// # Errors
    /// sysbench or the server died, an operation failed, or the counts disagree.
    pub(super) fn halt(&mut self, instance: &mut Instance) -> anyhow::Result<SliceOutput> {
        // Clients of a server that is gone may wait for it for long.
        instance.alive()?;
        let closed = self.window.close();
        self.window.counts().stop(self.slice.clients)?;
        self.await_gates(instance)?;
        instance.alive()?;
        self.alive()?;
        closed?;
        let served = instance.questions_since(self.slice.questions)?;
        let Slice { clients, begun, ended, .. } = self.slice;
        let counts = self.window.counts();
        let (begun, ended) = (counts.begun(clients)? - begun, counts.operations()? - ended);
        ensure!(
            begun == ended,
            "sysbench: {} transactions failed and were tried again; no number",
            begun.abs_diff(ended)
        );
        let counts = checked(asked(ended, self.statements), served)?;
        self.window.output(Some(counts))
    }

    fn await_gates(&mut self, instance: &mut Instance) -> anyhow::Result<()> {
        let (clients, counts) = (self.slice.clients, self.window.counts());
        let awaited = self.generator.await_ready(self.timeout, |_| {
            counts.at_gates(clients).is_ok_and(|waiting| waiting == u64::from(clients))
        });
        awaited.map_err(|error| instance.blame(error))
    }
}

/// Statements of so many operations.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are positive and far below 2^53"
)]
fn asked(operations: u64, statements: Ratio) -> u64 {
    (operations as f64 * statements.0).round() as u64
}

fn gate(gates: &Path, client: u32) -> PathBuf {
    let mut name = gates.as_os_str().to_owned();
    name.push(client.to_string());
    PathBuf::from(name)
}

fn make_gate(path: &Path) -> anyhow::Result<()> {
    // A generator that died has left its own.
    let _ = fs::remove_file(path);
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("{}: no gate for a client", path.display()))
}

fn open_gate(path: &Path) -> anyhow::Result<()> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).context("a flag of open fits an int")?;
    let gate = File::options().write(true).custom_flags(flags).open(path);
    gate.and_then(|mut gate| gate.write_all(b"."))
        .with_context(|| format!("{}: a client cannot be let go", path.display()))
}

/// Waits until all clients of a generator are connected, and returns the kernel ids of the
/// server's threads that serve them, in client order; none where threads serve any connection.
pub(super) fn await_clients(
    instance: &mut Instance,
    generator: &mut Process,
    clients: u32,
    timeout: Duration,
) -> anyhow::Result<Vec<u32>> {
    let mut found = None;
    let awaited = generator.await_ready(timeout, |generator| {
        found = generator.complained().ok().and_then(|text| reported::served(&text, clients));
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

/// Waits until all clients have told which thread they are, and returns these in client order.
fn await_own(generator: &mut Process, clients: u32, timeout: Duration) -> anyhow::Result<Vec<u32>> {
    let mut found = None;
    generator.await_ready(timeout, |generator| {
        found = generator.complained().ok().and_then(|text| reported::threads(&text, clients));
        found.is_some()
    })?;
    let found = found.unwrap_or_default();
    let pid = generator.pid();
    for thread in &found {
        let is_its_own = has_thread(pid, *thread);
        ensure!(is_its_own, "thread {thread} is to be a client, but is none of sysbench's");
    }
    Ok(found)
}

/// The counts of both sides, if they agree.
pub(super) fn checked(generator: u64, server: u64) -> anyhow::Result<CountCheck> {
    let counts = CountCheck { counter: "Questions".to_owned(), generator, server };
    agreed(counts, |_| {
        format!(
            "the counts disagree: the generator asked {generator} questions, mariadbd counts \
             {server}; no number"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_percent_apart_are_refused() {
        assert!(checked(1000, 1009).is_ok());
        let error = checked(1000, 1011).unwrap_err().to_string();
        assert!(error.contains("asked 1000 questions, mariadbd counts 1011"), "{error}");
        assert!(checked(1000, 0).is_err());
    }

    #[test]
    fn a_gate_lets_one_go_and_one_without_a_client_says_so() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = gate(&folder.path().join("gate-"), 7);
        assert!(path.ends_with("gate-7"));
        make_gate(&path).unwrap();
        let error = format!("{:#}", open_gate(&path).unwrap_err());
        assert!(error.contains("a client cannot be let go"), "{error}");
        let client = File::options().read(true).write(true).open(&path).unwrap();
        open_gate(&path).unwrap();
        let mut byte = [0; 1];
        std::io::Read::read_exact(&mut &client, &mut byte).unwrap();
        assert_eq!(&byte, b".");
        make_gate(&path).unwrap();
    }
}

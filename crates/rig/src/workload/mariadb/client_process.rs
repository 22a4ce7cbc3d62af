//! The clients of super-smack: processes of one thread each, which begin together and do a fixed
//! number of rounds, or go on until they are told to end.

use super::clients::await_clients;
use super::counts::{Counts, Window};
use super::instance::Instance;
use super::reported;
use super::settings::{Smack, SmackSettings};
use super::sysbench::seed;
use crate::output;
use crate::process::{Process, Program};
use crate::undo::Undo;
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{Latency, Nanos};
use std::fs::{self, File};
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Queries of a round.
pub(super) const QUERIES_A_ROUND: u64 = 2;

/// Starts the clients, whose common standard input is the shell's, and fails if one of them does.
/// Arguments: how many, the first one's seed, then those of each client.
const SHELL: &str = r#"
clients=$1; seed=$2; shift 2
exec 3<&0 </dev/null
pids=; client=0
while [ $client -lt $clients ]; do
    KNEEPOINT_CLIENT=$client sysbench "$@" --rand-seed=$((seed + client)) run \
        <&3 >client-$client.out &
    pids="$pids $!"; client=$((client + 1))
done
exec 3<&-
failed=0
for pid in $pids; do wait $pid || failed=1; done
exit $failed
"#;

/// What a client process is to do.
pub(super) struct Task<'a> {
    pub(super) settings: &'a SmackSettings,
    pub(super) words: &'a Path,
    pub(super) clients: u32,
    /// Rounds of each client; until the process is told to end where absent.
    pub(super) rounds: Option<u64>,
    pub(super) cpus: &'a [u32],
    pub(super) seed: u64,
    pub(super) timeout: Duration,
}

/// Clients that are at work.
pub(super) struct ClientProcess {
    pub(super) generator: Process,
    /// Kernel ids of the server's threads that serve them, in client order.
    pub(super) threads: Vec<u32>,
    pub(super) window: Window,
    directory: PathBuf,
    clients: u32,
    rounds: Option<u64>,
    timeout: Duration,
}

/// What they have done.
pub(super) struct Deeds {
    /// Queries of each client.
    pub(super) per_client: Vec<u64>,
    /// From the first begin to the last end: stragglers count.
    pub(super) span: Nanos,
    pub(super) latency: Option<Latency>,
    /// What the server should have counted.
    pub(super) questions: u64,
}

impl ClientProcess {
    /// Starts the clients and lets them go once all are connected.
    pub(super) fn start(
        instance: &mut Instance,
        task: &Task<'_>,
        undo: &Undo,
    ) -> anyhow::Result<Self> {
        let directory = instance.home().path().to_owned();
        let script = directory.join("smack.lua");
        fs::write(&script, include_str!("smack.lua"))
            .with_context(|| script.display().to_string())?;
        let (gate, release) = std::io::pipe().context("no pipe for the clients")?;
        let counts = Counts::begin(&directory, task.clients)?;
        let gate = File::from(OwnedFd::from(gate));
        let mut program = program(instance, task, &script, &directory, gate);
        program.environment.extend(counts.environment());
        let mut generator = program.spawn(undo)?;
        let threads = await_clients(instance, &mut generator, task.clients, task.timeout)?;
        let go: PipeWriter = release;
        drop(go);
        Ok(Self {
            generator,
            threads,
            window: Window::over(counts),
            directory,
            clients: task.clients,
            rounds: task.rounds,
            timeout: task.timeout,
        })
    }

    /// Waits until all clients have done their rounds; where they have no number, ends them.
    pub(super) fn finish(&mut self, instance: &mut Instance) -> anyhow::Result<Deeds> {
        if self.rounds.is_none() {
            self.window.close()?;
            self.window.counts().stop(self.clients)?;
        }
        let ended = self.generator.await_success(self.timeout);
        ended.map_err(|error| instance.blame(error))?;
        instance.alive()?;
        let reported = self.generator.complained()?;
        self.read(&reported)
            .map_err(|error| self.generator.lost(&format!("is not to be trusted: {error:#}")))
    }

    fn read(&self, reported: &str) -> anyhow::Result<Deeds> {
        let clients = reported::ended(reported, self.clients)?;
        let per_client: Vec<u64> = clients.iter().map(|it| it.operations).collect();
        if let Some(wanted) = self.rounds.map(|rounds| rounds * QUERIES_A_ROUND) {
            ensure!(
                per_client.iter().all(|done| *done == wanted),
                "each client was to make {wanted} queries, they made {per_client:?}"
            );
        }
        let counted = self.window.counts().operations()?;
        ensure!(
            counted == per_client.iter().sum::<u64>(),
            "the clients counted {counted} queries and made {per_client:?}"
        );
        let begin = clients.iter().map(|it| it.span.0).min().unwrap_or_default();
        let end = clients.iter().map(|it| it.span.1).max().unwrap_or_default();
        let mut questions = u64::from(self.clients);
        let mut reports = Vec::new();
        for (client, wanted) in per_client.iter().enumerate() {
            let file = self.directory.join(format!("client-{client}.out"));
            let text = fs::read_to_string(&file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            let report = output::sysbench::parse(&text)?;
            ensure!(
                report.operations == *wanted,
                "sysbench reports {} queries, not {wanted}",
                report.operations
            );
            questions += report.statements.context("sysbench reports no queries")?;
            reports.push((report, text));
        }
        let latency = output::sysbench::together(&reports);
        Ok(Deeds { per_client, span: Nanos(end.0 - begin.0), latency, questions })
    }
}

fn program<'a>(
    instance: &Instance,
    task: &Task<'_>,
    script: &Path,
    directory: &'a Path,
    gate: File,
) -> Program<'a> {
    let first_seed = seed(task.seed, 0) / 2;
    let mut arguments = vec![
        "-c".to_owned(),
        SHELL.to_owned(),
        "super-smack".to_owned(),
        task.clients.to_string(),
        first_seed.max(1).to_string(),
        script.display().to_string(),
    ];
    arguments.extend(instance.route());
    arguments.extend([
        "--threads=1".to_owned(),
        "--time=0".to_owned(),
        format!("--events={}", task.rounds.unwrap_or(0) * QUERIES_A_ROUND),
        "--histogram=on".to_owned(),
        "--percentile=95".to_owned(),
    ]);
    let mut program = Program::new("super-smack's clients", "sh", arguments, directory);
    program.shielded = true;
    let updates = if task.settings.script == Smack::UpdateSelect { "1" } else { "0" };
    program.environment = vec![
        ("KNEEPOINT_WORDS".into(), task.words.into()),
        ("KNEEPOINT_UPDATES".into(), updates.into()),
    ];
    program.cpus = task.cpus.to_vec();
    program.input = Some(gate);
    program
}

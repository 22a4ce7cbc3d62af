//! `mariadb-smack` as it runs: super-smack's table on a server of its own, and its clients.

use super::client_process::{ClientProcess, Task};
use super::clients::checked;
use super::http_auth::HttpAuth;
use super::instance::{DATABASE, Instance};
use super::settings::{Smack, SmackSettings};
use super::sysbench::seed;
use super::template;
use crate::undo::Undo;
use crate::workload::{Description, Drive, Setup, SliceOutput, System, Tally, check_clients};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::Proof;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that a row takes with its index.
const ROW_BYTES: u64 = 200;
/// The file with the keys that clients ask for.
fn words_in(scratch: &Path) -> PathBuf {
    scratch.join("mariadb-words")
}

/// Loads super-smack's table for all starts to copy.
pub(super) fn prepare(
    setup: &Setup,
    settings: &SmackSettings,
    timeout: Duration,
) -> anyhow::Result<()> {
    let bytes = u64::from(settings.rows) * ROW_BYTES;
    template::make(setup, &settings.server, bytes, timeout, |instance| {
        let table = HttpAuth::draw(settings.rows, setup.seed);
        let file = instance.home().path().join("http_auth.sql");
        let statements = format!("USE {DATABASE};\n{}", table.statements(&settings.engine));
        fs::write(&file, statements).with_context(|| file.display().to_string())?;
        instance.feed(File::open(&file).with_context(|| file.display().to_string())?)?;
        let words = words_in(&setup.scratch);
        fs::write(&words, table.words().join("\n") + "\n")
            .with_context(|| words.display().to_string())
    })
}

/// Starts a server on a copy of the table.
pub(super) fn start(
    setup: &Setup,
    settings: SmackSettings,
    timeout: Duration,
) -> anyhow::Result<Box<dyn System>> {
    let home = template::copy(setup, timeout)?;
    let bytes = u64::from(settings.rows) * ROW_BYTES;
    let mut instance = Instance::start(setup, &settings.server, home, bytes, timeout)?;
    if engine(&mut instance)? != settings.engine {
        instance.ask(&format!("ALTER TABLE {DATABASE}.http_auth ENGINE={}", settings.engine))?;
    }
    instance.ask(&format!("SELECT SUM(LENGTH(pass)) FROM {DATABASE}.http_auth"))?;
    Ok(Box::new(SmackSystem {
        running: None,
        instance,
        settings,
        words: words_in(&setup.scratch),
        timeout,
        undo: setup.undo.clone(),
        max_clients: setup.max_clients,
        seed: setup.seed,
        slices: 0,
    }))
}

/// The storage engine that the table has.
fn engine(instance: &mut Instance) -> anyhow::Result<String> {
    let answer = instance.ask(&format!(
        "SELECT ENGINE FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = '{DATABASE}' AND TABLE_NAME = 'http_auth'"
    ))?;
    Ok(answer.trim().to_owned())
}

struct SmackSystem {
    // Dropped before the server: fields are dropped in order.
    running: Option<Running>,
    instance: Instance,
    settings: SmackSettings,
    words: PathBuf,
    timeout: Duration,
    undo: Undo,
    max_clients: u32,
    seed: u64,
    slices: u64,
}

struct Running {
    client_process: ClientProcess,
    /// The server's count before the clients started.
    questions: u64,
}

impl System for SmackSystem {
    fn pids(&self) -> Vec<u32> {
        vec![self.instance.pid()]
    }

    fn generators(&self) -> Vec<u32> {
        self.running.iter().map(|running| running.client_process.generator.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "clients are running");
        let (mut proofs, mut settings) = self.instance.describe()?;
        let found = engine(&mut self.instance)?;
        proofs.push(Proof::equal("engine of http_auth", &self.settings.engine, found));
        let script = match self.settings.script {
            Smack::SelectKey => "select-key",
            Smack::UpdateSelect => "update-select",
        };
        let rounds = match self.settings.rounds {
            Some(rounds) => format!("{rounds} for each client"),
            None => "until the window has closed".to_owned(),
        };
        let own = [
            ("script", script.to_owned()),
            ("rows", self.settings.rows.to_string()),
            ("rounds", rounds),
        ];
        settings.extend(own.map(|(name, value)| (name.to_owned(), value)));
        Ok((proofs, settings))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.running.is_none(), "clients are running already");
        check_clients(super::SMACK, drive.clients, self.max_clients)?;
        self.instance.alive()?;
        self.instance.pin(&drive.cpus.system)?;
        let questions = self.instance.questions()?;
        self.slices += 1;
        // A fixed number of rounds may take far longer than the slice.
        let longest = Duration::from_nanos(drive.lasts.0.saturating_mul(20));
        let task = Task {
            settings: &self.settings,
            words: &self.words,
            clients: drive.clients,
            rounds: self.settings.rounds.map(u64::from),
            cpus: &drive.cpus.generator,
            seed: seed(self.seed, self.slices),
            timeout: self.timeout + longest,
        };
        let client_process = ClientProcess::start(&mut self.instance, &task, &self.undo)?;
        let threads = client_process.threads.clone();
        self.running = Some(Running { client_process, questions });
        Ok(threads)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.instance.alive()?;
        let running = self.running.as_mut().context("no clients are running")?;
        match running.client_process.generator.ended() {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => {
                Err(running.client_process.generator.lost(&format!("failed ({status})")))
            }
        }
    }

    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        let running = self.running.as_ref().context("no clients are running")?;
        match self.settings.rounds {
            Some(_) => Ok(None),
            None => running.client_process.window.progress().map(Some),
        }
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        self.instance.alive()?;
        self.running.as_mut().context("no clients are running")?.client_process.window.mark()
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.running.as_mut().context("no clients are running")?.client_process.window.close()
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let running = self.running.take().context("no clients are running")?;
        let Running { mut client_process, questions } = running;
        let deeds = client_process.finish(&mut self.instance)?;
        let served = self.instance.questions_since(questions)?;
        let counts = Some(checked(deeds.questions, served)?);
        if self.settings.rounds.is_none() {
            return client_process.window.output(counts);
        }
        // A fixed amount of work is counted as a whole.
        Ok(SliceOutput {
            operations: deeds.per_client.iter().sum(),
            counted_over: deeds.span,
            per_client: deeds.per_client,
            latency: deeds.latency,
            counts,
        })
    }

    fn stop(self: Box<Self>) -> anyhow::Result<()> {
        drop(self.running);
        self.instance.stop().map(drop)
    }
}

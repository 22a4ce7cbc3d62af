//! `mariadb-smack` as it runs: super-smack's table on a server of its own, and its clients.

use super::crowd::{Crowd, QUERIES_A_ROUND, Task};
use super::http_auth::HttpAuth;
use super::instance::{DATABASE, Instance};
use super::settings::{Smack, SmackSettings};
use super::sysbench::{checked, seed};
use super::template;
use crate::placement;
use crate::undo::Undo;
use crate::workload::{Description, Drive, Setup, SliceOutput, System};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{Nanos, Proof};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that a row takes with its index.
const ROW_BYTES: u64 = 200;
/// Rounds of each client while the server's pace is looked for, at first.
const TRIAL_ROUNDS: u64 = 2000;
/// How long a run must last for its pace to be trusted.
const TRIAL: Nanos = Nanos::from_millis(400);

/// The file with the keys that clients ask for.
fn words_in(scratch: &Path) -> PathBuf {
    scratch.join("mariadb-words")
}

/// The file with the rounds a second that were found.
fn pace_in(scratch: &Path) -> PathBuf {
    scratch.join("mariadb-pace")
}

/// Loads super-smack's table for all starts to copy, and finds how many rounds a slice may have.
pub(super) fn prepare(
    setup: &Setup,
    settings: &SmackSettings,
    patience: Duration,
) -> anyhow::Result<()> {
    let bytes = u64::from(settings.rows) * ROW_BYTES;
    template::make(setup, &settings.server, bytes, patience, |instance| {
        let table = HttpAuth::draw(settings.rows, setup.seed);
        let file = instance.home().path().join("http_auth.sql");
        let statements = format!("USE {DATABASE};\n{}", table.statements(&settings.engine));
        fs::write(&file, statements).with_context(|| file.display().to_string())?;
        instance.feed(File::open(&file).with_context(|| file.display().to_string())?)?;
        let words = words_in(&setup.scratch);
        fs::write(&words, table.words().join("\n") + "\n")
            .with_context(|| words.display().to_string())?;
        let pace = pace(setup, settings, instance, patience)?;
        let file = pace_in(&setup.scratch);
        fs::write(&file, pace.to_string()).with_context(|| file.display().to_string())
    })
}

/// Rounds a second with a client for each core: the best of two runs that are long enough, after
/// shorter ones that warm the server up.
fn pace(
    setup: &Setup,
    settings: &SmackSettings,
    instance: &mut Instance,
    patience: Duration,
) -> anyhow::Result<u64> {
    let words = words_in(&setup.scratch);
    let most = u32::try_from(placement::allowed().len()).unwrap_or(1);
    let mut task = Task {
        settings,
        words: &words,
        clients: most.clamp(1, 64),
        rounds: TRIAL_ROUNDS,
        cpus: &[],
        seed: setup.seed,
        patience,
    };
    let (mut best, mut long_enough) = (1, 0);
    while long_enough < 2 {
        let deeds = Crowd::start(instance, &task, &setup.undo)?.finish(instance)?;
        let rounds = deeds.per_client.iter().sum::<u64>() / QUERIES_A_ROUND;
        if deeds.span < TRIAL {
            task.rounds *= 2;
        } else {
            best = best.max(rounds * 1_000_000_000 / deeds.span.0.max(1));
            long_enough += 1;
        }
    }
    Ok(best)
}

/// Starts a server on a copy of the table.
pub(super) fn start(
    setup: &Setup,
    settings: SmackSettings,
    patience: Duration,
) -> anyhow::Result<Box<dyn System>> {
    let pace = fs::read_to_string(pace_in(&setup.scratch)).ok();
    let pace = pace.and_then(|text| text.parse().ok()).context("the pace was never found")?;
    let home = template::copy(setup)?;
    let bytes = u64::from(settings.rows) * ROW_BYTES;
    let mut instance = Instance::start(setup, &settings.server, home, bytes, patience)?;
    if engine(&mut instance)? != settings.engine {
        instance.ask(&format!("ALTER TABLE {DATABASE}.http_auth ENGINE={}", settings.engine))?;
    }
    instance.ask(&format!("SELECT SUM(LENGTH(pass)) FROM {DATABASE}.http_auth"))?;
    Ok(Box::new(SmackSystem {
        running: None,
        instance,
        settings,
        words: words_in(&setup.scratch),
        pace,
        patience,
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
    /// Rounds a second of all clients together that a slice is laid out for.
    pace: u64,
    patience: Duration,
    undo: Undo,
    max_clients: u32,
    seed: u64,
    slices: u64,
}

struct Running {
    crowd: Crowd,
    /// The server's count before the clients started.
    questions: u64,
}

/// Rounds of each client: as many as were asked for, or a share of those that fit the slice and
/// a fifth more, so that a quick slice does not end before its window.
fn rounds(fixed: Option<u32>, pace: u64, lasts: Nanos, clients: u32) -> u64 {
    let fitting =
        u128::from(pace) * u128::from(lasts.0) * 6 / 5 / 1_000_000_000 / u128::from(clients);
    fixed.map_or(u64::try_from(fitting).unwrap_or(u64::MAX), u64::from).max(1)
}

impl System for SmackSystem {
    fn pids(&self) -> Vec<u32> {
        vec![self.instance.pid()]
    }

    fn generators(&self) -> Vec<u32> {
        self.running.iter().map(|running| running.crowd.generator.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "clients are running");
        let (mut proofs, mut settings) = self.instance.describe()?;
        let found = engine(&mut self.instance)?;
        let expected = self.settings.engine.clone();
        let active = found == expected;
        proofs.push(Proof { what: "engine of http_auth".to_owned(), expected, found, active });
        let script = match self.settings.script {
            Smack::SelectKey => "select-key",
            Smack::UpdateSelect => "update-select",
        };
        let rounds = match self.settings.rounds {
            Some(rounds) => format!("{rounds} for each client"),
            None => {
                format!("{} for each second of a slice, divided by the clients", self.pace * 6 / 5)
            }
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
        let rounds = rounds(self.settings.rounds, self.pace, drive.lasts, drive.clients);
        // A level far slower than the pace that was found is no hang.
        let longest = Duration::from_nanos(drive.lasts.0.saturating_mul(20));
        let task = Task {
            settings: &self.settings,
            words: &self.words,
            clients: drive.clients,
            rounds,
            cpus: &drive.cpus.generator,
            seed: seed(self.seed, self.slices),
            patience: self.patience + longest,
        };
        let crowd = Crowd::start(&mut self.instance, &task, &self.undo)?;
        let threads = crowd.threads.clone();
        self.running = Some(Running { crowd, questions });
        Ok(threads)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.instance.alive()?;
        let running = self.running.as_mut().context("no clients are running")?;
        match running.crowd.generator.ended() {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => Err(running.crowd.generator.lost(&format!("failed ({status})"))),
        }
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        // A fixed amount of work is counted as a whole.
        ensure!(self.running.is_some(), "no clients are running");
        self.instance.alive()
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let Running { crowd, questions } = self.running.take().context("no clients are running")?;
        let deeds = crowd.finish(&mut self.instance)?;
        let served = self.instance.questions_since(questions)?;
        let counts = checked(deeds.questions, served)?;
        Ok(SliceOutput {
            operations: deeds.per_client.iter().sum(),
            counted_over: deeds.span,
            per_client: deeds.per_client,
            latency: deeds.latency,
            counts: Some(counts),
        })
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
    fn rounds_fill_the_slice_and_are_shared_by_the_clients() {
        let second = Nanos::from_millis(1000);
        assert_eq!(rounds(None, 30_000, second, 1), 36_000);
        assert_eq!(rounds(None, 30_000, Nanos::from_millis(500), 10), 1800);
        assert_eq!(rounds(None, 3, Nanos(0), 10), 1);
        assert_eq!(rounds(Some(10_000), 30_000, second, 100), 10_000);
    }
}

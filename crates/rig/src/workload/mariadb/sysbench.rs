//! `mariadb-sysbench` as it runs: a server of its own, and one sysbench beside it whose threads are
//! the clients.

use super::clients::{Call, Clients};
use super::instance::Instance;
use super::settings::SysbenchSettings;
use super::{MariadbSysbench, template};
use crate::process::Program;
use crate::undo::Undo;
use crate::workload::{Description, Drive, Setup, SliceOutput, System, Tally};
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes that a row takes in the table and its two indexes.
const ROW_BYTES: u64 = 300;

/// Bytes that the tables take.
fn table_bytes(settings: &SysbenchSettings) -> u64 {
    u64::from(settings.tables) * u64::from(settings.table_size) * ROW_BYTES
}

/// Loads sysbench's tables for all starts to copy.
pub(super) fn prepare(
    setup: &Setup,
    settings: &SysbenchSettings,
    timeout: Duration,
) -> anyhow::Result<()> {
    template::make(setup, &settings.server, table_bytes(settings), timeout, |instance| {
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
    workload: MariadbSysbench,
) -> anyhow::Result<Box<dyn System>> {
    let home = template::copy(setup)?;
    let script = home.path().join("oltp.lua");
    fs::write(&script, include_str!("oltp.lua")).with_context(|| script.display().to_string())?;
    let bytes = table_bytes(&settings);
    let mut instance = Instance::start(setup, &settings.server, home, bytes, workload.timeout)?;
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
        clients: None,
        running: false,
        instance,
        settings,
        workload,
        script,
        undo: setup.undo.clone(),
        max_clients: setup.max_clients,
        seed: seed(setup.seed, u64::from(setup.start)),
    }))
}

/// Options that say how large the tables are.
fn sizes(settings: &SysbenchSettings) -> [String; 2] {
    [format!("--tables={}", settings.tables), format!("--table_size={}", settings.table_size)]
}

/// A seed for sysbench, which takes 0 as the time of day.
pub(super) fn seed(seed: u64, run: u64) -> u64 {
    seed.wrapping_add(run.wrapping_mul(0x9e37_79b9)) % 0x7fff_fffe + 1
}

struct Sysbench {
    // Dropped before the server: fields are dropped in order.
    /// From the first slice on; none after one that failed, whose clients may be anywhere.
    clients: Option<Clients>,
    /// Whether they work.
    running: bool,
    instance: Instance,
    settings: SysbenchSettings,
    workload: MariadbSysbench,
    script: PathBuf,
    undo: Undo,
    max_clients: u32,
    seed: u64,
}

impl Sysbench {
    /// Clients that wait: those of the last slice, or new ones.
    fn waiting(&mut self, cpus: &[u32]) -> anyhow::Result<Clients> {
        if let Some(mut clients) = self.clients.take() {
            clients.alive().map_err(|error| self.instance.blame(error))?;
            return Ok(clients);
        }
        let mut arguments = vec![self.script.display().to_string()];
        arguments.extend(self.instance.route());
        arguments.extend(sizes(&self.settings));
        let mix = self.settings.mix.iter();
        arguments.extend(mix.map(|(name, value)| format!("--{name}={value}")));
        let directory = self.instance.home().path().to_owned();
        let call = Call {
            program: self.workload.generator,
            arguments,
            environment: vec![("KNEEPOINT_SCRIPT".into(), self.settings.script.clone().into())],
            directory: &directory,
            seed: self.seed,
            run_in: self.workload.run_in,
            timeout: self.workload.timeout,
            undo: &self.undo,
        };
        Clients::start(&mut self.instance, &call, self.max_clients, cpus)
    }

    fn working_clients(&mut self) -> anyhow::Result<&mut Clients> {
        ensure!(self.running, "no clients are running");
        self.clients.as_mut().context("no clients are running")
    }
}

impl System for Sysbench {
    fn pids(&self) -> Vec<u32> {
        vec![self.instance.pid()]
    }

    fn generators(&self) -> Vec<u32> {
        self.clients.iter().filter(|_| self.running).map(Clients::pid).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(!self.running, "clients are running");
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
        ensure!(!self.running, "clients are running already");
        ensure!(
            (1..=self.max_clients).contains(&drive.clients),
            "clients must be 1 to {} (found {})",
            self.max_clients,
            drive.clients
        );
        self.instance.alive()?;
        self.instance.pin(&drive.cpus.system)?;
        let mut clients = self.waiting(&drive.cpus.generator)?;
        let threads = clients.release(&mut self.instance, drive.clients, &drive.cpus.generator)?;
        (self.clients, self.running) = (Some(clients), true);
        Ok(threads)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.instance.alive()?;
        self.working_clients()?.alive()?;
        Ok(true)
    }

    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        self.working_clients()?.window().progress().map(Some)
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        self.instance.alive()?;
        self.working_clients()?.window().mark()
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.working_clients()?.window().close()
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        ensure!(self.running, "no clients are running");
        self.running = false;
        let mut clients = self.clients.take().context("no clients are running")?;
        let output = clients.halt(&mut self.instance)?;
        self.clients = Some(clients);
        Ok(output)
    }

    fn stop(self: Box<Self>) -> anyhow::Result<()> {
        drop(self.clients);
        self.instance.stop().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_never_zero_and_differs_from_run_to_run() {
        assert_ne!(seed(u64::MAX, 3), 0);
        assert_ne!(seed(7, 1), seed(7, 2));
        assert_eq!(seed(7, 1), seed(7, 1));
    }
}

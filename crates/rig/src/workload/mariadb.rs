//! `mariadb-sysbench` and `mariadb-smack`: a private MariaDB server, driven by sysbench.
//!
//! A run loads the tables once; each start of each variant gets a copy and a server of its own, in
//! a directory that goes away with it. The clients live in sysbench, and a thread of the server
//! serves each of them.

mod allocator;
mod client_process;
mod clients;
mod counts;
mod http_auth;
mod instance;
mod reported;
mod settings;
mod smack;
mod sysbench;
mod template;

use super::{Need, SettingError, Setup, System, Workload};
use crate::search_path::SearchPath;
use anyhow::Context as _;
use kneepoint_vocab::Clients;
use settings::{ServerSettings, SmackSettings, SysbenchSettings};
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of the workload that runs sysbench's own scripts.
pub(super) const SYSBENCH: &str = "mariadb-sysbench";
/// Name of the workload that does what super-smack does.
pub(super) const SMACK: &str = "mariadb-smack";
/// How long the server and its tools may take for one thing before they count as hung.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What new clients take until their pace is the one that they keep.
const RUN_IN: Duration = Duration::from_secs(5);

/// The load generator.
const GENERATOR: &str = "sysbench";

/// The workload `mariadb-sysbench`.
#[derive(Clone, Debug)]
pub struct MariadbSysbench {
    /// How long a start, a stop, or the end of a generator may take.
    pub timeout: Duration,
    /// The program that drives the server, a name in `PATH` or a path.
    pub generator: &'static str,
    /// How long all clients of a new server work, uncounted, before the first slice.
    pub run_in: Duration,
}

impl MariadbSysbench {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: TIMEOUT, generator: GENERATOR, run_in: RUN_IN };
}

impl Workload for MariadbSysbench {
    fn name(&self) -> &'static str {
        SYSBENCH
    }

    fn summary(&self) -> &'static str {
        "sysbench's scripts on a private MariaDB server, tables in memory"
    }

    fn needs(&self, settings: &BTreeMap<String, String>, path: &SearchPath) -> Vec<Need> {
        needs(SysbenchSettings::parse(settings).ok().map(|settings| settings.server), path)
    }

    fn clients(&self, _: &BTreeMap<String, String>) -> Clients {
        Clients::Apart
    }

    fn made_once(&self) -> &'static [&'static str] {
        &["tables", "table_size"]
    }

    fn tells_progress(&self, _: &BTreeMap<String, String>) -> bool {
        true
    }

    fn check(&self, settings: &BTreeMap<String, String>) -> Result<(), SettingError> {
        SysbenchSettings::parse(settings).map(|_| ())
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        let settings = SysbenchSettings::parse(&setup.settings).context(SYSBENCH)?;
        sysbench::prepare(setup, &settings, self.timeout)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = SysbenchSettings::parse(&setup.settings).context(SYSBENCH)?;
        sysbench::start(setup, settings, self.clone())
    }
}

/// The workload `mariadb-smack`.
#[derive(Clone, Debug)]
pub struct MariadbSmack {
    /// How long a start, a stop, or the end of the clients may take beyond the slice.
    pub timeout: Duration,
}

impl MariadbSmack {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: TIMEOUT };
}

impl Workload for MariadbSmack {
    fn name(&self) -> &'static str {
        SMACK
    }

    fn summary(&self) -> &'static str {
        "super-smack's rounds on a private MariaDB server, a process for each client"
    }

    fn needs(&self, settings: &BTreeMap<String, String>, path: &SearchPath) -> Vec<Need> {
        let settings = SmackSettings::parse(settings).ok();
        let mut needs = needs(settings.map(|settings| settings.server), path);
        needs.push(Need::program("sh", "dash", path));
        needs
    }

    fn clients(&self, _: &BTreeMap<String, String>) -> Clients {
        Clients::Apart
    }

    fn tells_progress(&self, settings: &BTreeMap<String, String>) -> bool {
        SmackSettings::parse(settings).is_ok_and(|settings| settings.rounds.is_none())
    }

    fn fixed_work(&self, settings: &BTreeMap<String, String>) -> bool {
        SmackSettings::parse(settings).is_ok_and(|settings| settings.rounds.is_some())
    }

    fn made_once(&self) -> &'static [&'static str] {
        &["rows"]
    }

    fn check(&self, settings: &BTreeMap<String, String>) -> Result<(), SettingError> {
        SmackSettings::parse(settings).map(|_| ())
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        let settings = SmackSettings::parse(&setup.settings).context(SMACK)?;
        smack::prepare(setup, &settings, self.timeout)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = SmackSettings::parse(&setup.settings).context(SMACK)?;
        smack::start(setup, settings, self.timeout)
    }
}

/// Programs and libraries without which a server does not run as it should.
fn needs(settings: Option<ServerSettings>, path: &SearchPath) -> Vec<Need> {
    let mut needs = vec![
        Need::program("mariadbd", "mariadb-server-core", path),
        Need::program("mariadb-install-db", "mariadb-server-core", path),
        Need::program("mariadb", "mariadb-client-core", path),
        Need::program(GENERATOR, "sysbench", path),
    ];
    if let Some(settings) = settings {
        needs.extend(settings.allocator.need());
        needs.extend(settings.environment.needs(path.find("mariadbd").as_deref()));
    }
    needs
}

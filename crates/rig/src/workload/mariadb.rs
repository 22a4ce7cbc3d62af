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

use super::{Configured, Configuring, Need, Setup, System, Texts, Workload};
use crate::ending::HUNG_AFTER;
use crate::search_path::SearchPath;
use kneepoint_vocab::Clients;
use settings::{ServerSettings, SmackSettings, SysbenchSettings};
use std::sync::Arc;
use std::time::Duration;

/// Name of the workload that runs sysbench's own scripts.
pub(super) const SYSBENCH: &str = "mariadb-sysbench";
/// Name of the workload that does what super-smack does.
pub(super) const SMACK: &str = "mariadb-smack";

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
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER, generator: GENERATOR, run_in: RUN_IN };
}

impl Workload for MariadbSysbench {
    fn name(&self) -> &'static str {
        SYSBENCH
    }

    fn summary(&self) -> &'static str {
        "sysbench's scripts on a private MariaDB server, tables in memory"
    }

    fn made_once(&self) -> &'static [&'static str] {
        &["tables", "table_size"]
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        let settings = SysbenchSettings::parse(settings)?;
        Ok(Arc::new(Sysbenched { settings, own: self.clone() }))
    }
}

/// `mariadb-sysbench` as it is set.
#[derive(Debug)]
struct Sysbenched {
    settings: SysbenchSettings,
    own: MariadbSysbench,
}

impl Configured for Sysbenched {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        needs(&self.settings.server, path)
    }

    fn clients(&self) -> Clients {
        Clients::Apart
    }

    fn tells_progress(&self) -> bool {
        true
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        sysbench::prepare(setup, &self.settings, self.own.timeout)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        sysbench::start(setup, self.settings.clone(), self.own.clone())
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
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER };
}

impl Workload for MariadbSmack {
    fn name(&self) -> &'static str {
        SMACK
    }

    fn summary(&self) -> &'static str {
        "super-smack's rounds on a private MariaDB server, a process for each client"
    }

    fn made_once(&self) -> &'static [&'static str] {
        &["rows"]
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        let (settings, timeout) = (SmackSettings::parse(settings)?, self.timeout);
        Ok(Arc::new(Smacked { settings, timeout }))
    }
}

/// `mariadb-smack` as it is set.
#[derive(Debug)]
struct Smacked {
    settings: SmackSettings,
    timeout: Duration,
}

impl Configured for Smacked {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        let mut needs = needs(&self.settings.server, path);
        needs.push(Need::program("sh", "dash", path));
        needs
    }

    fn clients(&self) -> Clients {
        Clients::Apart
    }

    fn tells_progress(&self) -> bool {
        self.settings.rounds.is_none()
    }

    fn fixed_work(&self) -> bool {
        self.settings.rounds.is_some()
    }

    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        smack::prepare(setup, &self.settings, self.timeout)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        smack::start(setup, self.settings.clone(), self.timeout)
    }
}

/// Programs and libraries without which a server does not run as it should.
fn needs(settings: &ServerSettings, path: &SearchPath) -> Vec<Need> {
    let mut needs = vec![
        Need::program("mariadbd", "mariadb-server-core", path),
        Need::program("mariadb-install-db", "mariadb-server-core", path),
        Need::program("mariadb", "mariadb-client-core", path),
        Need::program("cp", "coreutils", path),
        Need::program(GENERATOR, "sysbench", path),
    ];
    needs.extend(settings.allocator.need());
    needs.extend(settings.environment.needs(path.find("mariadbd").as_deref()));
    needs
}

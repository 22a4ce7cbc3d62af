//! The loaded store that all starts copy: made once a run by a server of its own.

use super::instance::{self, DATABASE, Home, Instance, USER};
use super::settings::ServerSettings;
use crate::workload::Setup;
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the store lies within a scratch directory.
fn place(scratch: &Path) -> PathBuf {
    scratch.join("mariadb-template")
}

/// Makes the template: system tables, an account and a database for the clients, and what `fill`
/// puts into it.
pub(super) fn make(
    setup: &Setup,
    settings: &ServerSettings,
    table_bytes: u64,
    timeout: Duration,
    fill: impl FnOnce(&mut Instance) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let home = Home::make(setup)?;
    instance::install(setup, &home, timeout).context("making MariaDB's system tables")?;
    let mut instance = Instance::start(setup, settings, home, table_bytes, timeout)?;
    instance.ask(&accounts()).context("making the clients' account")?;
    fill(&mut instance).context("loading the tables")?;
    // What is left for later would be done while a slice runs.
    instance.ask("SET GLOBAL innodb_fast_shutdown = 0")?;
    let home = instance.stop().context("shutting the loading server down")?;
    let place = place(&setup.scratch);
    fs::rename(home.store(), &place).with_context(|| place.display().to_string())
}

/// A home with a copy of the template.
pub(super) fn copy(setup: &Setup) -> anyhow::Result<Home> {
    Home::copied(setup, &place(&setup.scratch))
}

/// The administrator is left with the socket alone, since he has no password.
fn accounts() -> String {
    let hosts = ["localhost", "127.0.0.1"].map(|host| {
        format!("CREATE USER {USER}@'{host}'; GRANT ALL ON {DATABASE}.* TO {USER}@'{host}';")
    });
    format!(
        "DELETE FROM mysql.global_priv WHERE Host <> 'localhost' OR User = ''; \
         FLUSH PRIVILEGES; CREATE DATABASE {DATABASE}; {}",
        hosts.concat()
    )
}

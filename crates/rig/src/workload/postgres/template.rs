//! The loaded cluster that servers start from a copy of, one for each scale.

use super::pgbench::pgbench;
use super::programs::Programs;
use super::server::{CLUSTER, Launch, Server};
use super::{DATABASE, ROLE};
use crate::environment::Variables;
use crate::process::{self, Account, Program};
use crate::undo::{self, Action, Undo};
use crate::workload::private::{self, Home};
use anyhow::Context as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a template is made with.
pub(super) struct TemplateContext<'a> {
    pub(super) programs: &'a Programs,
    pub(super) scratch: &'a Path,
    pub(super) undo: &'a Undo,
    /// For each step.
    pub(super) timeout: Duration,
}

/// The data directory of the template of this scale, made where it is not there yet.
pub(super) fn of_scale(scale: u32, context: &TemplateContext<'_>) -> anyhow::Result<PathBuf> {
    private::template(context.scratch.join(format!("pg-scale-{scale}")), |place| {
        make(scale, context, place)
            .with_context(|| format!("a PostgreSQL cluster of scale {scale} cannot be made"))
    })
}

fn make(scale: u32, context: &TemplateContext<'_>, place: &Path) -> anyhow::Result<()> {
    let TemplateContext { programs, scratch, undo, timeout } = *context;
    let home = Home::make(scratch, "postgres", Account::unprivileged(ROLE))?;
    let (folder, account) = (home.path().join(CLUSTER), home.account());
    // initdb would remove one that it has made itself, and with it the key to what it leaves.
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    home.give(&folder)?;
    let key = key_of(&folder)?;
    let folder = folder.to_str().context("the scratch directory's name is not UTF-8")?;
    let arguments = [
        "--pgdata",
        folder,
        "--username",
        ROLE,
        "--no-sync",
        "--encoding=UTF8",
        "--no-locale",
        "--auth-local=trust",
        "--auth-host=md5",
    ];
    // The server that initdb runs for a moment keeps a segment there, whatever it is reported.
    let owner = account.map_or(rustix::process::geteuid().as_raw(), |account| account.user);
    let segments = undo.register(Action::RemoveSharedMemory {
        prefix: "PostgreSQL.".to_owned(),
        user: owner,
        before: undo::shared_memory("PostgreSQL."),
    })?;
    let interlock = undo.register(Action::RemoveSegment { key })?;
    let mut initdb = Program::new("initdb", &programs.initdb, arguments, home.path());
    initdb.account = account;
    initdb.shielded = true;
    process::run(initdb, timeout, undo)?;
    segments.settle();
    interlock.settle();
    // Nothing here has to survive a crash, and without it tables are loaded without a log.
    let parameters = ["wal_level=minimal", "max_wal_senders=0", "fsync=off"].map(str::to_owned);
    let launch = Launch {
        programs,
        home,
        parameters: parameters.into(),
        tcp: false,
        environment: Variables::default(),
        undo,
        timeout,
    };
    let mut server = Server::start(launch)?;
    server.query(&format!("CREATE DATABASE {DATABASE}"))?;
    let arguments = ["-i", "-q", "-s", &scale.to_string()].map(str::to_owned);
    let directory = server.home().path().to_owned();
    let load = pgbench(programs, server.reach(), &arguments, &directory);
    server.run(load)?;
    server.stop()?.keep(CLUSTER, place)
}

/// The key of the segment by which PostgreSQL sees whether a cluster is in use: its inode, since
/// version 12.
fn key_of(cluster: &Path) -> anyhow::Result<i32> {
    let inode = fs::metadata(cluster).with_context(|| cluster.display().to_string())?.ino();
    let [a, b, c, d, ..] = inode.to_le_bytes();
    Ok(i32::from_le_bytes([a, b, c, d]))
}

//! The loaded cluster that servers start from a copy of, one for each scale.

use super::home::Home;
use super::pgbench::pgbench;
use super::programs::Programs;
use super::server::{Launch, Server};
use super::{DATABASE, ROLE};
use crate::environment::Variables;
use crate::process::{self, Account, Program};
use crate::undo::{self, Action, Undo};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a template is made with.
pub(super) struct TemplateContext<'a> {
    pub(super) programs: &'a Programs,
    pub(super) account: Option<Account>,
    pub(super) scratch: &'a Path,
    pub(super) undo: &'a Undo,
    /// For each step.
    pub(super) timeout: Duration,
}

/// The data directory of the template of this scale, made where it is not there yet. Variants start
/// side by side: one makes it and the others wait.
pub(super) fn of_scale(
    scale: u32,
    template_context: &TemplateContext<'_>,
) -> anyhow::Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let whole = template_context.scratch.join(format!("pg-scale-{scale}"));
    // It gets its name once it is whole: who finds it there need not wait for another scale's.
    if !whole.is_dir() {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if !whole.is_dir() {
            make(scale, template_context, &whole)
                .with_context(|| format!("a PostgreSQL cluster of scale {scale} cannot be made"))?;
        }
    }
    Ok(whole.join("data"))
}

fn make(scale: u32, template_context: &TemplateContext<'_>, whole: &Path) -> anyhow::Result<()> {
    let TemplateContext { programs, account, undo, timeout, .. } = *template_context;
    let home = Home::make(template_context.scratch, "pg-part", account)?;
    let folder = home.path().join("data");
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
    let mut initdb = Program::new("initdb", &programs.initdb, arguments, home.path());
    initdb.account = account;
    initdb.shielded = true;
    process::run(initdb, timeout, undo)?;
    segments.settle();
    // Nothing here has to survive a crash, and without it tables are loaded without a log.
    let parameters = ["wal_level=minimal", "max_wal_senders=0", "fsync=off"].map(str::to_owned);
    let launch = Launch {
        programs,
        account,
        home: &home,
        parameters: parameters.into(),
        tcp: false,
        environment: Variables::default(),
        undo,
        timeout,
    };
    let mut server = Server::start(launch)?;
    server.query(&format!("CREATE DATABASE {DATABASE}"))?;
    let arguments = ["-i", "-q", "-s", &scale.to_string()].map(str::to_owned);
    process::run(pgbench(programs, server.reach(), &arguments, home.path()), timeout, undo)?;
    server.stop()?;
    home.keep_as(whole)
}

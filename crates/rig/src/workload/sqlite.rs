//! `sqlite-oltp`: the bundled SQLite as the system under test, in a child process of its own.
//!
//! The child is Kneepoint's own executable, so nothing has to be installed. It loads sysbench's
//! table and runs sysbench's read-only transaction, one connection a client. In the baseline all
//! connections share one page cache, whose mutex they contend for.

mod clients;
#[allow(unsafe_code, reason = "calls into SQLite that rusqlite has no safe form for")]
mod ffi;
mod files;
mod proofs;
mod protocol;
mod server;
mod settings;
mod table;
mod tally;
mod transaction;

use super::peer::Peer;
use super::{
    Configured, Configuring, Description, Drive, MOST_CLIENTS, Need, Setup, SliceOutput, System,
    Texts, Workload, check_clients,
};
use crate::cargo_run::{self, TakenBack};
use crate::ending::{HUNG_AFTER, MARK};
use crate::environment::Variables;
use crate::group::Group;
use crate::placement;
use crate::search_path::SearchPath;
use crate::shown;
use anyhow::bail;
use files::DatabaseFile;
use kneepoint_machine::Start;
use protocol::{Blueprint, Reply, Request};
use settings::Settings;
use std::sync::Arc;
use std::time::Duration;

/// The workload's name.
pub(super) const NAME: &str = "sqlite-oltp";

/// The workload `sqlite-oltp`.
#[derive(Clone, Debug)]
pub struct SqliteOltp {
    /// How long the child may take for one answer before it counts as hung.
    pub timeout: Duration,
}

impl SqliteOltp {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER };
}

impl Workload for SqliteOltp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "sysbench's read-only transactions on the bundled SQLite, one connection a client"
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        let (settings, environment) = Settings::parse(settings)?;
        Ok(Arc::new(Configuration { settings, environment, timeout: self.timeout }))
    }
}

/// The workload as it is set.
#[derive(Debug)]
struct Configuration {
    settings: Settings,
    environment: Variables,
    timeout: Duration,
}

impl Configured for Configuration {
    fn needs(&self, _: &SearchPath) -> Vec<Need> {
        self.environment.needs(None)
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let clients = setup.max_clients;
        check_clients(NAME, clients, MOST_CLIENTS)?;
        let name = format!("{}-{}.db", setup.variant, setup.start).replace(['/', '\0'], "-");
        let file = DatabaseFile::new(&setup.scratch.join(name));
        let blueprint = Blueprint {
            settings: self.settings,
            file: file.path().to_owned(),
            scratch: setup.scratch.clone(),
            clients,
            start: setup.start,
            seed: setup.seed,
        };
        let mut group = Group::begin(&setup.undo)?;
        let environment = self.environment.clone();
        let TakenBack { without, with } = cargo_run::taken_back();
        let start = Start::new(&setup.server)
            .args(["serve-workload", NAME])
            .without(without)
            .with(with)
            .with(environment.pairs())
            .with([(MARK, group.mark())]);
        let peer = Peer::spawn(NAME, start, self.timeout)?;
        // It does nothing before it is asked to start.
        group.admit(peer.pid());
        let mut sqlite = Sqlite { peer, environment, _group: group, _file: file };
        match sqlite.ask(&Request::Start(blueprint))? {
            Reply::Ready => Ok(Box::new(sqlite)),
            other => Err(out_of_turn(&other)),
        }
    }
}

/// A child that serves. Fields are dropped in order: the child is killed, then its files go.
struct Sqlite {
    peer: Peer,
    environment: Variables,
    _group: Group,
    _file: DatabaseFile,
}

impl Sqlite {
    fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        match self.peer.ask(request)? {
            Reply::Failed { reason } => bail!("{NAME}: {reason}"),
            reply => Ok(reply),
        }
    }
}

fn out_of_turn(reply: &Reply) -> anyhow::Error {
    anyhow::anyhow!("{NAME}: the child answered out of turn: {reply:?}")
}

impl System for Sqlite {
    fn pids(&self) -> Vec<u32> {
        vec![self.peer.pid()]
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        match self.ask(&Request::Describe)? {
            Reply::Described { mut proofs, mut settings } => {
                proofs.extend(shown::variables("the server", self.peer.pid(), &self.environment));
                settings.extend(self.environment.reported());
                Ok((proofs, settings))
            }
            other => Err(out_of_turn(&other)),
        }
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        placement::pin(self.peer.pid(), &drive.cpus.system)?;
        match self.ask(&Request::Begin { clients: drive.clients })? {
            Reply::Begun { threads } => Ok(threads),
            other => Err(out_of_turn(&other)),
        }
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        match self.ask(&Request::Mark)? {
            Reply::Marked => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        match self.ask(&Request::Finish)? {
            Reply::Finished(output) => Ok(output),
            other => Err(out_of_turn(&other)),
        }
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        match self.ask(&Request::Stop)? {
            Reply::Stopped => self.peer.await_end(),
            other => Err(out_of_turn(&other)),
        }
    }
}

/// The child's side of it.
pub(super) fn serve() -> anyhow::Result<()> {
    server::serve()
}

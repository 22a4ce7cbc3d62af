//! The child's side: one thread that reads requests, and clients when asked for.
//!
//! Between requests that thread blocks in `read` on standard input, so an idle variant uses
//! no CPU. The end of that input means that Kneepoint is gone, however it went.

use super::clients::{Client, ClientThreads};
use super::files::DatabaseFile;
use super::protocol::{Blueprint, Reply, Request};
use super::settings::{Allocator, Database};
use super::transaction::Transaction;
use super::{ffi, proofs, table};
use crate::priority::{self, Priority};
use crate::rights::{self, Work};
use crate::workload::{Description, SliceOutput};
use anyhow::{Context as _, bail, ensure};
use rand_pcg::Pcg64;
use rusqlite::Connection;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Write};

/// The database and its clients. Fields are dropped in order: the file goes last.
struct Server {
    client_threads: Option<ClientThreads>,
    /// Clients without a thread, in client order.
    parked: Vec<Client>,
    /// Keeps a database in memory alive, and is the second connection where there is one client.
    keeper: Connection,
    priority: Priority,
    blueprint: Blueprint,
    _file: DatabaseFile,
}

/// Serves requests on standard input until told to stop or the input ends.
pub(super) fn serve() -> anyhow::Result<()> {
    let priority = priority::raise();
    rustix::thread::set_name(c"requests").context("the thread cannot be named")?;
    allow_many_files();
    // All that it needs from here on are its own files.
    rights::keep_only(Work::Serving);
    let mut requests = BufReader::new(std::io::stdin());
    let mut replies = std::io::stdout();
    let Some(first) = receive(&mut requests)? else { return Ok(()) };
    let Request::Start(blueprint) = first else { bail!("the first request was {first:?}") };
    let scratch = blueprint.scratch.clone();
    let outcome = attend(blueprint, priority, &mut requests, &mut replies);
    if !matches!(outcome, Ok(Ended::Reported)) {
        // Nobody else is left to do it. Another variant's files keep the directory where it is.
        let _ = std::fs::remove_dir(&scratch);
    }
    outcome.map(|_| ())
}

/// How the conversation ended.
enum Ended {
    /// By a request to stop.
    Reported,
    /// By the end of the input.
    Orphaned,
}

fn attend(
    blueprint: Blueprint,
    priority: Priority,
    requests: &mut impl BufRead,
    replies: &mut impl Write,
) -> anyhow::Result<Ended> {
    let mut server = match Server::start(blueprint, priority) {
        Ok(server) => server,
        Err(error) => {
            send(replies, &Reply::Failed { reason: format!("{error:#}") })?;
            return Ok(Ended::Reported);
        }
    };
    send(replies, &Reply::Ready)?;
    while let Some(request) = receive(requests)? {
        if request == Request::Stop {
            drop(server);
            send(replies, &Reply::Stopped)?;
            return Ok(Ended::Reported);
        }
        let reply = server.answer(request);
        send(
            replies,
            &reply.unwrap_or_else(|error| Reply::Failed { reason: format!("{error:#}") }),
        )?;
    }
    Ok(Ended::Orphaned)
}

fn receive(requests: &mut impl BufRead) -> anyhow::Result<Option<Request>> {
    let mut line = String::new();
    if requests.read_line(&mut line).context("standard input")? == 0 {
        return Ok(None);
    }
    let request = serde_json::from_str(&line);
    request.map(Some).with_context(|| format!("standard input: no request: {}", line.trim()))
}

fn send(replies: &mut impl Write, reply: &Reply) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(reply).context("a reply cannot be written as JSON")?;
    line.push(b'\n');
    replies.write_all(&line).and_then(|()| replies.flush()).context("standard output")
}

/// Each connection to a database in a file needs a file descriptor; the soft limit may be lower
/// than the number of clients. Where it cannot be raised, opening will say so.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

impl Server {
    fn start(blueprint: Blueprint, priority: Priority) -> anyhow::Result<Self> {
        let settings = &blueprint.settings;
        if !settings.memstatus {
            ffi::switch_memory_statistics_off()
                .map_err(|code| anyhow::anyhow!("SQLITE_CONFIG_MEMSTATUS failed: code {code}"))?;
        }
        if settings.allocator == Allocator::Mimalloc {
            ffi::allocate_with_mimalloc()
                .map_err(|code| anyhow::anyhow!("SQLITE_CONFIG_MALLOC failed: code {code}"))?;
        }
        let file = DatabaseFile::new(&blueprint.file);
        let mut keeper = table::open(settings, &blueprint.file)?;
        table::load(&mut keeper, settings.rows, blueprint.seed)?;
        warm(&keeper, settings.rows, &mut Pcg64::new(u128::from(blueprint.seed), 0))?;
        let mut parked = Vec::new();
        for index in 0..blueprint.clients {
            let connection = table::open(settings, &blueprint.file)
                .with_context(|| format!("connection {} of {}", index + 1, blueprint.clients))?;
            let state = u128::from(blueprint.start) << 64 | u128::from(blueprint.seed);
            let mut random = Pcg64::new(state, u128::from(index));
            warm(&connection, settings.rows, &mut random)?;
            parked.push(Client { connection, random });
        }
        Ok(Self { client_threads: None, parked, keeper, priority, blueprint, _file: file })
    }

    fn answer(&mut self, request: Request) -> anyhow::Result<Reply> {
        Ok(match request {
            Request::Describe => {
                let (proofs, settings) = self.describe()?;
                Reply::Described { proofs, settings }
            }
            Request::Begin { clients } => Reply::Begun { threads: self.begin(clients)? },
            Request::Mark => {
                self.client_threads
                    .as_mut()
                    .context("mark before begin: no clients are running")?
                    .mark();
                Reply::Marked
            }
            Request::Finish => Reply::Finished(self.finish()?),
            Request::Start(_) | Request::Stop => bail!("{request:?} out of turn"),
        })
    }

    fn begin(&mut self, clients: u32) -> anyhow::Result<Vec<u32>> {
        ensure!(self.client_threads.is_none(), "begin before finish: clients are already running");
        let (wanted, most) = (clients as usize, self.parked.len());
        ensure!((1..=most).contains(&wanted), "clients must be 1 to {most} (found {wanted})");
        let chosen = self.parked.drain(..wanted).collect();
        match ClientThreads::begin(chosen, self.blueprint.settings.rows) {
            Ok((client_threads, threads)) => {
                self.client_threads = Some(client_threads);
                Ok(threads)
            }
            Err((clients, error)) => {
                self.park(clients);
                Err(error)
            }
        }
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let client_threads =
            self.client_threads.take().context("finish before begin: no clients are running")?;
        let (clients, output) = client_threads.finish();
        self.park(clients);
        output
    }

    fn park(&mut self, clients: Vec<Client>) {
        self.parked.splice(0..0, clients);
    }

    fn describe(&self) -> anyhow::Result<Description> {
        ensure!(self.client_threads.is_none(), "describe before finish: clients are running");
        let mut connections = vec![&self.keeper];
        connections.extend(self.parked.iter().map(|client| &client.connection));
        let proofs = proofs::all(&self.blueprint.settings, &self.blueprint.file, &connections)?;
        let connection = self.parked.last().map_or(&self.keeper, |client| &client.connection);
        let mut settings = table::about(connection).context("SQLite does not tell its settings")?;
        let place = match self.blueprint.settings.database {
            Database::Memory => "memory".to_owned(),
            Database::File => self.blueprint.file.display().to_string(),
        };
        settings.push(("database".to_owned(), place));
        let allocator = match self.blueprint.settings.allocator {
            Allocator::Libc => "libc".to_owned(),
            Allocator::Mimalloc => format!("mimalloc {}", ffi::mimalloc_version()),
        };
        settings.push(("allocator".to_owned(), allocator));
        settings.push(("connections".to_owned(), connections.len().to_string()));
        settings.push(("ids".to_owned(), "uniform".to_owned()));
        settings.extend(self.priority.settings());
        Ok((proofs, settings))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(client_threads) = self.client_threads.take() {
            // What they counted since the last window has no reader any more.
            drop(client_threads.disband());
        }
    }
}

/// Reads the schema, prepares the statements and touches the first pages.
fn warm(connection: &Connection, rows: u32, random: &mut Pcg64) -> anyhow::Result<()> {
    let transaction = Transaction::prepare(connection, rows);
    transaction
        .and_then(|mut transaction| transaction.run(random))
        .map(|_| ())
        .context("the first transaction of a connection failed")
}

//! One PostgreSQL server: brought up, asked by its own protocol, taken down in order.

use super::home::Home;
use super::pgbench::Reach;
use super::programs::Programs;
use super::session::Session;
use super::{CONTROL, DATABASE, ROLE};
use crate::environment::Variables;
use crate::placement;
use crate::priority;
use crate::process::{Account, Process, Program};
use crate::undo::{Undo, family};
use anyhow::Context as _;
use rustix::process::Signal;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number in the socket's name: nobody else's socket is in that directory.
const SOCKET_NUMBER: u16 = 5432;
/// How often something that is waited for is asked about.
const GLANCE: Duration = Duration::from_millis(1);
/// Begins of the statements of pgbench's built-in scripts. The connection that pgbench makes
/// for itself beforehand, to look at the tables, writes its statements otherwise.
const STATEMENTS: &str = "^(SELECT abalance|UPDATE pgbench_|INSERT INTO pgbench_|BEGIN|END)";

/// What a server is started with.
pub(super) struct Launch<'a> {
    pub(super) programs: &'a Programs,
    pub(super) account: Option<Account>,
    /// Where its cluster lies, in `data`.
    pub(super) home: &'a Home,
    /// Its parameters, as `name=value`.
    pub(super) parameters: Vec<String>,
    pub(super) tcp: bool,
    /// What is set in its environment.
    pub(super) environment: Variables,
    pub(super) undo: &'a Undo,
    pub(super) timeout: Duration,
}

/// A server that is up. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    control: Session,
    process: Process,
    reach: Reach,
    timeout: Duration,
}

impl Server {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// It does not come up in time: with the end of its log.
    pub(super) fn start(launch: Launch<'_>) -> anyhow::Result<Self> {
        let home = launch.home.path();
        let port = if launch.tcp { free_port()? } else { SOCKET_NUMBER };
        let addresses = if launch.tcp { "127.0.0.1" } else { "" };
        let mut parameters = launch.parameters;
        parameters.extend([
            format!("listen_addresses={addresses}"),
            // Files in the cluster go with it; those of other kinds would outlive a killed server.
            "dynamic_shared_memory_type=mmap".to_owned(),
            // Its workers would come at times of their own, and their transactions would count.
            "autovacuum=off".to_owned(),
            "password_encryption=md5".to_owned(),
        ]);
        let mut arguments = vec![
            "-D".to_owned(),
            home.join("data").display().to_string(),
            "-k".to_owned(),
            home.display().to_string(),
            "-p".to_owned(),
            port.to_string(),
        ];
        arguments.extend(parameters.into_iter().flat_map(|one| ["-c".to_owned(), one]));
        let mut program = Program::new("postgres", &launch.programs.postgres, arguments, home);
        program.account = launch.account;
        program.shielded = true;
        program.environment = vec![("LC_ALL".into(), "C".into())];
        program.environment.extend(launch.environment.for_program());
        let mut process = program.spawn(launch.undo)?;
        let socket = home.join(format!(".s.PGSQL.{port}"));
        let mut control = None;
        process.await_ready(launch.timeout, |_| {
            control = Session::open(&socket, ROLE, CONTROL, launch.timeout).ok();
            control.is_some()
        })?;
        let host = if launch.tcp { addresses.to_owned() } else { home.display().to_string() };
        let mut server = Self {
            control: control.context("the server was ready, yet nobody has connected")?,
            process,
            reach: Reach { host, port, password: None },
            timeout: launch.timeout,
        };
        if launch.tcp {
            server.set_password()?;
        }
        // Each of its processes leads a session, and so a scheduling group, of its own.
        for (member, _) in family(server.pid()) {
            priority::raise_other(member);
        }
        Ok(server)
    }

    /// Other users of the machine can reach the port, but not get in.
    fn set_password(&mut self) -> anyhow::Result<()> {
        let password = self.query("SELECT gen_random_uuid()")?.concat().concat();
        self.query(&format!("ALTER ROLE {ROLE} PASSWORD '{password}'"))?;
        self.reach.password = Some(password);
        Ok(())
    }

    /// The postmaster's process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How clients reach it.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Puts all its processes on these CPUs; those that it starts later stay there too.
    pub(super) fn place(&self, cpus: &[u32]) -> anyhow::Result<()> {
        if cpus.is_empty() {
            return Ok(());
        }
        family(self.pid()).iter().try_for_each(|(member, _)| placement::pin(*member, cpus))
    }

    /// Fails once it has ended.
    ///
    /// # Errors
    /// It has: with the end of its log.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        match self.process.ended() {
            None => Ok(()),
            Some(status) => Err(self.process.lost(&format!("died under its clients: {status}"))),
        }
    }

    /// Asks over the control connection, which is to a database of its own and so counts in no
    /// other.
    pub(super) fn query(&mut self, statement: &str) -> anyhow::Result<super::session::Rows> {
        let answer = self.control.query(statement);
        answer.map_err(|error| self.process.lost(&format!("is out of reach: {error:#}")))
    }

    fn number(&mut self, statement: &str) -> anyhow::Result<u64> {
        let answer = self.control.number(statement);
        answer.map_err(|error| self.process.lost(&format!("is out of reach: {error:#}")))
    }

    /// Transactions that ended in the clients' database, once no client is connected any more:
    /// a backend adds what it has done at the latest when it ends.
    pub(super) fn transactions(&mut self) -> anyhow::Result<u64> {
        let connected =
            format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{DATABASE}'");
        let deadline = Instant::now() + self.timeout;
        while self.number(&connected)? > 0 {
            if Instant::now() > deadline {
                let timeout = self.timeout;
                return Err(self.process.lost(&format!("keeps clients longer than {timeout:?}")));
            }
            std::thread::sleep(GLANCE);
        }
        self.number(&format!(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{DATABASE}'"
        ))
    }

    /// Waits until so many clients are connected and have begun their script; the processes that
    /// serve them, in the order of their connections.
    pub(super) fn await_backends(
        &mut self,
        generator: &mut Process,
        clients: u32,
    ) -> anyhow::Result<Vec<u32>> {
        let question = format!(
            "SELECT pid FROM pg_stat_activity WHERE datname = '{DATABASE}' AND \
             backend_type = 'client backend' AND query ~ '{STATEMENTS}' ORDER BY backend_start, pid"
        );
        let deadline = Instant::now() + self.timeout;
        loop {
            let rows = self.query(&question)?;
            if rows.len() >= clients as usize {
                let pids = rows.iter().flatten().map(|pid| pid.parse());
                return pids.collect::<Result<_, _>>().context("a process id is a number");
            }
            if let Some(status) = generator.ended() {
                self.alive()?;
                let seen = rows.len();
                return Err(generator.lost(&format!(
                    "ended with {seen} of {clients} clients seen at work: {status}"
                )));
            }
            if Instant::now() > deadline {
                let (seen, timeout) = (rows.len(), self.timeout);
                return Err(generator
                    .lost(&format!("had {seen} of {clients} clients at work after {timeout:?}")));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Takes it down as its manual says, without waiting for clients.
    ///
    /// # Errors
    /// It does not end in time; it is killed then.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        drop(self.control);
        self.process.terminate(Signal::INT, self.timeout)
    }
}

/// A port that nobody uses on the loopback interface at the moment.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// Copies a cluster, as the account that owns it.
pub(super) fn copy(
    from: &Path,
    home: &Home,
    account: Option<Account>,
    undo: &Undo,
    timeout: Duration,
) -> anyhow::Result<()> {
    let target = home.path().join("data");
    let arguments = [Path::new("-a"), Path::new("--reflink=auto"), from, &target];
    let mut program = Program::new("cp", "cp", arguments, home.path());
    program.account = account;
    crate::process::run(program, timeout, undo).map(|_| ())
}

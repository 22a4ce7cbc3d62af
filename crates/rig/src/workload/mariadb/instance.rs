//! One private MariaDB server in a directory of its own: its configuration, its start, questions
//! put to it, its end.

use super::settings::{Connection, ServerSettings};
use crate::environment::Variables;
use crate::process::{self, Account, Program};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use crate::workload::private::{Home, PrivateServer, free_port};
use crate::workload::{Description, Setup};
use anyhow::{Context as _, bail, ensure};
use kneepoint_machine::proc::process::has_thread;
use kneepoint_vocab::Proof;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

/// Folder of the server's own files within its home.
pub(super) const STORE: &str = "store";
/// The socket's name within a home.
const SOCKET: &str = "s";
/// Longest path of a UNIX socket.
const LONGEST_SOCKET: usize = 107;
/// The database that holds the tables.
pub(super) const DATABASE: &str = "sbtest";
/// Who clients are; may do anything with [`DATABASE`] and nothing else.
pub(super) const USER: &str = "kneepoint";
/// What two readings of `Questions` differ by, one right after the other: the first one's
/// good-bye and the second one's question. The greeting is not counted.
const READING: u64 = 2;
/// Bytes that InnoDB keeps in memory beside the tables.
const LEAST_POOL: u64 = 64 << 20;

/// A directory below the scratch directory that the server's account owns.
pub(super) fn home(setup: &Setup) -> anyhow::Result<Home> {
    let home = Home::make(&setup.scratch, "mariadb", Account::unprivileged("mysql"))?;
    let socket = socket(&home);
    let length = socket.as_os_str().len();
    ensure!(
        length <= LONGEST_SOCKET,
        "{}: {length} bytes are too long for a socket; set TMPDIR to a shorter path",
        socket.display()
    );
    Ok(home)
}

fn store(home: &Home) -> PathBuf {
    home.path().join(STORE)
}

fn socket(home: &Home) -> PathBuf {
    home.path().join(SOCKET)
}

/// A server that runs. Dropping it kills it and removes its home.
#[derive(Debug)]
pub(super) struct Instance {
    // Dropped before the home: fields are dropped in order.
    server: PrivateServer,
    home: Home,
    port: Option<u16>,
    settings: ServerSettings,
    /// What it was started with besides what Kneepoint itself has.
    environment: Variables,
    undo: Undo,
    timeout: Duration,
}

impl Instance {
    /// Starts a server in `home`, whose store is made already, for tables of so many bytes.
    pub(super) fn start(
        setup: &Setup,
        settings: &ServerSettings,
        home: Home,
        table_bytes: u64,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let port = match settings.connection {
            Connection::Socket => None,
            Connection::Tcp => Some(free_port()?),
        };
        let text = configuration(&home, settings, port, table_bytes, setup.max_clients);
        let file = home.path().join("my.cnf");
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        let path = SearchPath::own().find("mariadbd").context("mariadbd is not here")?;
        let arguments = [format!("--defaults-file={}", file.display())];
        let mut program = Program::new("mariadbd", path, arguments, home.path());
        program.account = home.account();
        program.shielded = true;
        let mut environment = settings.environment.clone();
        if let Some((name, value)) = settings.allocator.environment()? {
            environment.set(name, &value);
        }
        program.environment = environment.for_program();
        let (settings, undo) = (settings.clone(), setup.undo.clone());
        let answers =
            || socket(&home).exists() && ask(&home, &undo, timeout, "SELECT 1", None).is_ok();
        let server = PrivateServer::start(program, &undo, timeout, answers)?;
        Ok(Self { server, home, port, settings, environment, undo, timeout })
    }

    /// The server's process id.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Fails with the server's last words if it has ended.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        self.server.alive()
    }

    /// The error to report: that the server died, if it did, else the one that was met.
    pub(super) fn blame(&mut self, met: anyhow::Error) -> anyhow::Error {
        self.server.blame(met)
    }

    /// Puts the server on these CPUs, on all of Kneepoint's where there are none.
    pub(super) fn pin(&self, cpus: &[u32]) -> anyhow::Result<()> {
        self.server.place(cpus)
    }

    /// Runs statements as the server's administrator; rows are lines, columns split by tabs.
    pub(super) fn ask(&mut self, statements: &str) -> anyhow::Result<String> {
        let answer = ask(&self.home, &self.undo, self.timeout, statements, None);
        answer.map_err(|error| self.blame(error))
    }

    /// Runs the statements in a file.
    pub(super) fn feed(&mut self, statements: File) -> anyhow::Result<String> {
        let answer = ask(&self.home, &self.undo, self.timeout, "", Some(statements));
        answer.map_err(|error| self.blame(error))
    }

    /// The server's count of what it was asked.
    pub(super) fn questions(&mut self) -> anyhow::Result<u64> {
        let answer = self.ask("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        let count = answer.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok());
        count.with_context(|| format!("mariadbd counts no Questions (it answered {answer:?})"))
    }

    /// What others than Kneepoint asked since the reading `before`.
    pub(super) fn questions_since(&mut self, before: u64) -> anyhow::Result<u64> {
        let now = self.questions()?;
        now.checked_sub(before + READING).context("mariadbd's Questions ran backwards")
    }

    /// sysbench's options that lead to this server.
    pub(super) fn route(&self) -> Vec<String> {
        let mut options = vec![
            "--db-driver=mysql".to_owned(),
            format!("--mysql-db={DATABASE}"),
            format!("--mysql-user={USER}"),
        ];
        match self.port {
            None => options.push(format!("--mysql-socket={}", socket(&self.home).display())),
            Some(port) => {
                options.extend(["--mysql-host=127.0.0.1".into(), format!("--mysql-port={port}")]);
            }
        }
        options
    }

    /// Whether a client that the server sees at `host` came the way it should.
    pub(super) fn check_route(&self, host: &str) -> anyhow::Result<()> {
        let expected = match self.settings.connection {
            Connection::Socket => "localhost",
            Connection::Tcp => "127.0.0.1",
        };
        ensure!(
            host.split(':').next() == Some(expected),
            "a client came from {host}, not from {expected}"
        );
        Ok(())
    }

    /// Whether a thread of the server belongs to each connection.
    pub(super) fn one_thread_each(&self) -> bool {
        self.settings.one_thread_each()
    }

    /// The thread, if it is the server's.
    pub(super) fn own_thread(&self, thread: u32) -> anyhow::Result<u32> {
        let pid = self.pid();
        ensure!(
            has_thread(pid, thread),
            "thread {thread} is to serve a client, but is none of mariadbd's (process {pid})"
        );
        Ok(thread)
    }

    /// Proofs of all factors that are the server's, and what it tells of itself.
    pub(super) fn describe(&mut self) -> anyhow::Result<Description> {
        let answer = self.ask("SHOW GLOBAL VARIABLES")?;
        let found: BTreeMap<&str, &str> =
            answer.lines().filter_map(|line| line.split_once('\t')).collect();
        let deaf = match self.settings.connection {
            Connection::Socket => "ON",
            Connection::Tcp => "OFF",
        };
        let wanted = self.settings.variables.iter().map(|(name, value)| (*name, value.as_str()));
        let mut proofs: Vec<Proof> = wanted
            .chain([("skip_networking", deaf)])
            .map(|(name, expected)| {
                let found = *found.get(name).unwrap_or(&"nothing");
                Proof::equal(format!("SHOW VARIABLES {name}"), expected, found)
            })
            .collect();
        proofs.extend(self.settings.allocator.proof(self.pid(), &self.environment)?);
        proofs.extend(shown::variables("mariadbd", self.pid(), &self.environment));
        let reported = [
            "version",
            "innodb_buffer_pool_size",
            "innodb_log_file_size",
            "version_malloc_library",
        ];
        let settings = reported
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), (*found.get(name)?).to_owned())));
        Ok((proofs, settings.chain(self.environment.reported()).collect()))
    }

    /// Shuts the server down in its own way and hands its home back.
    pub(super) fn stop(self) -> anyhow::Result<Home> {
        self.server.stop(Signal::TERM)?;
        Ok(self.home)
    }

    /// Runs a program of this server's surroundings to its end.
    pub(super) fn run(&mut self, program: Program<'_>) -> anyhow::Result<String> {
        self.server.run(program)
    }
}

fn ask(
    home: &Home,
    undo: &Undo,
    timeout: Duration,
    statements: &str,
    input: Option<File>,
) -> anyhow::Result<String> {
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        "--user=root".to_owned(),
        format!("--socket={}", socket(home).display()),
        "--batch".to_owned(),
        "--skip-column-names".to_owned(),
    ];
    if input.is_none() {
        arguments.push(format!("--execute={statements}"));
    }
    let mut program = Program::new("the mariadb client", "mariadb", arguments, home.path());
    program.shielded = true;
    program.input = input;
    process::run(program, timeout, undo)
}

fn configuration(
    home: &Home,
    settings: &ServerSettings,
    port: Option<u16>,
    table_bytes: u64,
    clients: u32,
) -> String {
    let (store, socket) = (store(home), socket(home));
    let (store, socket) = (store.display(), socket.display());
    let network = match port {
        None => "skip-networking".to_owned(),
        Some(port) => format!("bind-address=127.0.0.1\nport={port}"),
    };
    let variables: String =
        settings.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let pool = (LEAST_POOL + table_bytes).next_multiple_of(8 << 20);
    // A few connections more than clients: those of the administrator.
    let connections = clients.max(64) + 16;
    // Under a usual limit on open files, a larger cache would be given fewer instances than asked.
    let tables = (2 * clients).max(200);
    format!(
        "[mariadbd]\n\
         datadir={store}\nsocket={socket}\npid-file={store}/mariadbd.pid\ntmpdir={store}\n\
         {network}\nskip-name-resolve\nperformance_schema=OFF\n\
         table_open_cache={tables}\nlog_warnings=1\n\
         max_connections={connections}\nmax_prepared_stmt_count=1048576\n\
         innodb_buffer_pool_size={pool}\ninnodb_log_file_size=48M\n\
         innodb_buffer_pool_load_at_startup=OFF\ninnodb_buffer_pool_dump_at_shutdown=OFF\n\
         {variables}"
    )
}

/// Makes the server's system tables in `home`, before its first start.
pub(super) fn install(setup: &Setup, home: &Home, timeout: Duration) -> anyhow::Result<()> {
    let store = store(home);
    fs::create_dir(&store).with_context(|| store.display().to_string())?;
    home.give(&store)?;
    let arguments = [
        "--no-defaults".to_owned(),
        format!("--datadir={}", store.display()),
        format!("--tmpdir={}", store.display()),
        "--innodb-log-file-size=48M".to_owned(),
        "--auth-root-authentication-method=normal".to_owned(),
        "--skip-test-db".to_owned(),
        "--skip-name-resolve".to_owned(),
    ];
    let path =
        SearchPath::own().find("mariadb-install-db").context("mariadb-install-db is not here")?;
    let mut program = Program::new("mariadb-install-db", path, arguments, home.path());
    program.account = home.account();
    program.shielded = true;
    process::run(program, timeout, &setup.undo)?;
    if !store.join("mysql").is_dir() {
        bail!("mariadb-install-db made no system tables in {}", store.display());
    }
    Ok(())
}

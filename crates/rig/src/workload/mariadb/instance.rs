//! One private MariaDB server in a directory of its own: its configuration, its start, questions
//! put to it, its end.

use super::settings::{Connection, ServerSettings};
use crate::environment::Variables;
use crate::placement;
use crate::process::{self, Account, Process, Program};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use crate::workload::{Description, Setup};
use anyhow::{Context as _, bail, ensure};
use kneepoint_vocab::Proof;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Folder of the server's own files within its home.
const STORE: &str = "store";
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

/// The directory of one server, gone when dropped.
#[derive(Debug)]
pub(super) struct Home {
    directory: TempDir,
    account: Option<Account>,
}

impl Home {
    /// A directory below the scratch directory that the server's account owns.
    pub(super) fn make(setup: &Setup) -> anyhow::Result<Self> {
        let account = Account::unprivileged("mysql");
        if account.is_some() {
            // The account has to pass through; what it owns below stays closed to others.
            fs::set_permissions(&setup.scratch, Permissions::from_mode(0o711))
                .with_context(|| setup.scratch.display().to_string())?;
        }
        let directory = tempfile::Builder::new()
            .prefix("mariadb-")
            .tempdir_in(&setup.scratch)
            .with_context(|| format!("{}: no directory can be made", setup.scratch.display()))?;
        let home = Self { directory, account };
        home.give(home.path())?;
        let length = home.socket().as_os_str().len();
        ensure!(
            length <= LONGEST_SOCKET,
            "{}: {length} bytes are too long for a socket; set TMPDIR to a shorter path",
            home.socket().display()
        );
        Ok(home)
    }

    /// A home whose server finds a copy of what another one has stored.
    pub(super) fn copied(setup: &Setup, stored: &Path) -> anyhow::Result<Self> {
        let home = Self::make(setup)?;
        home.copy(stored, &home.store())
            .with_context(|| format!("{} cannot be copied", stored.display()))?;
        Ok(home)
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn store(&self) -> PathBuf {
        self.path().join(STORE)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path().join(SOCKET)
    }

    pub(super) fn account(&self) -> Option<Account> {
        self.account
    }

    /// Makes a file or directory the account's.
    fn give(&self, path: &Path) -> anyhow::Result<()> {
        let Some(account) = self.account else { return Ok(()) };
        chown(path, Some(account.user), Some(account.group))
            .with_context(|| format!("{} cannot be given to the server", path.display()))
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        fs::create_dir(to)?;
        self.give(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.copy(&entry.path(), &target)?;
            } else {
                fs::copy(entry.path(), &target)?;
                self.give(&target)?;
            }
        }
        Ok(())
    }
}

/// A server that runs. Dropping it kills it and removes its home.
#[derive(Debug)]
pub(super) struct Instance {
    // Dropped before the home: fields are dropped in order.
    server: Process,
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
        let server = program.spawn(&setup.undo)?;
        let (settings, undo) = (settings.clone(), setup.undo.clone());
        let mut instance = Self { server, home, port, settings, environment, undo, timeout };
        instance.await_ready()?;
        Ok(instance)
    }

    fn await_ready(&mut self) -> anyhow::Result<()> {
        let Self { server, home, undo, timeout, .. } = self;
        server.await_ready(*timeout, |_| {
            home.socket().exists() && ask(home, undo, *timeout, "SELECT 1", None).is_ok()
        })
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
        match self.server.ended() {
            None => Ok(()),
            Some(status) => Err(self.server.lost(&format!("ended ({status})"))),
        }
    }

    /// The error to tell: that the server died, if it did, else the one that was met.
    pub(super) fn blame(&mut self, met: anyhow::Error) -> anyhow::Error {
        self.alive().err().unwrap_or(met)
    }

    /// Puts the server on these CPUs, on all of Kneepoint's where there are none.
    pub(super) fn pin(&self, cpus: &[u32]) -> anyhow::Result<()> {
        let all = placement::allowed();
        placement::pin(self.pid(), if cpus.is_empty() { &all } else { cpus })
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
            None => options.push(format!("--mysql-socket={}", self.home.socket().display())),
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
            Path::new(&format!("/proc/{pid}/task/{thread}")).exists(),
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
                let found = (*found.get(name).unwrap_or(&"nothing")).to_owned();
                let active = found == expected;
                let what = format!("SHOW VARIABLES {name}");
                Proof { what, expected: expected.to_owned(), found, active }
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
        self.server.terminate(Signal::TERM, self.timeout)?;
        Ok(self.home)
    }

    /// Runs a program of this server's surroundings to its end.
    pub(super) fn run(&mut self, program: Program<'_>) -> anyhow::Result<String> {
        let said = process::run(program, self.timeout, &self.undo);
        said.map_err(|error| self.blame(error))
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
        format!("--socket={}", home.socket().display()),
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

/// A port of the loopback interface that nobody has now.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.context("no port of the loopback interface is free")?.port())
}

fn configuration(
    home: &Home,
    settings: &ServerSettings,
    port: Option<u16>,
    table_bytes: u64,
    clients: u32,
) -> String {
    let (store, socket) = (home.store(), home.socket());
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
    let store = home.store();
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

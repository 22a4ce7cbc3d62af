//! A folder of its own for each test, the binary run in it, and what a run may have left behind.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user `nobody`.
const NOBODY: u32 = 65534;
/// Environment variable by which processes of a test are distinguished from all others.
const MARK: &str = "KNEEPOINT_TEST_MARK";

static CORES: RwLock<()> = RwLock::new(());

/// Only one live test at a time: they share the cores.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    CORES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Live tests that mostly wait, or whose figures do not matter, run beside each other.
pub(crate) fn together() -> RwLockReadGuard<'static, ()> {
    CORES.read().unwrap_or_else(PoisonError::into_inner)
}

/// The recorded runs.
pub(crate) const FIXTURES: [&str; 7] = [
    "sqlite-shared-cache",
    "cut-off",
    "fallback",
    "treated-curve",
    "python-threads",
    "python-stripped",
    "postgres-tpcb",
];

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)
}

/// Files of a run directory without its page, copied to `to`.
pub(crate) fn copy_run(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    ids.split_whitespace().nth(1) == Some("0")
}

/// Waits until something holds; fails after a time that no working system takes.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Whether `words` stand in what it printed, wherever its lines break.
    pub(crate) fn prints(&self, words: &str) -> bool {
        self.out.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
    }

    /// What it printed as JSON.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It failed with this code, and said so in one line that holds all `words`, besides the lines
    /// of progress that a busy machine leaves time for.
    pub(crate) fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let reported: Vec<&str> =
            self.err.lines().filter(|line| !line.contains(" s left  ")).collect();
        assert!(reported.len() == 1 && reported[0].starts_with("kneepoint: "), "{self:?}");
        assert!(self.err.ends_with('\n'), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {self:?}");
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("RUST_BACKTRACE"), "{self:?}");
    }
}

/// A folder of its own, in which commands run.
pub(crate) struct Sandbox {
    home: TempDir,
    mark: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("kneepoint-cli-").tempdir().unwrap();
        let mark = home.path().display().to_string();
        Self { home, mark }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Names in the folder.
    pub(crate) fn listed(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_kneepoint")), arguments)
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env(MARK, &self.mark)
            .env("RUST_BACKTRACE", "1")
            .env_remove("KNEEPOINT_LOG")
            .stdin(Stdio::null());
        command
    }

    /// The command as `nobody`, who may write into the folder. Needs root. The binary is copied,
    /// for the build folder may be closed to others; not by this process, since a child that a
    /// neighbouring test starts meanwhile would hold it open for writing, and no such file is run.
    pub(crate) fn as_nobody(&self, arguments: &[&str]) -> Command {
        fs::set_permissions(self.home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let program = std::env::temp_dir().join(format!("{}-bin", self.mark));
        if !program.exists() {
            let mut install = Command::new("install");
            install.args(["-m", "755", env!("CARGO_BIN_EXE_kneepoint")]).arg(&program);
            assert!(install.status().unwrap().success());
        }
        let mut command = self.command_of(&program, arguments);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments))
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        self.spawn_by(&["env", "--default-signal=INT,HUP"], arguments)
    }

    /// Started by a program that becomes Kneepoint, since what the tests themselves were started to
    /// ignore is ignored by all that they start.
    pub(crate) fn spawn_by(&self, starter: &[&str], arguments: &[&str]) -> Child {
        let own = [env!("CARGO_BIN_EXE_kneepoint")];
        let words = [&starter[1..], &own, arguments].concat();
        let mut command = self.command_of(Path::new(starter[0]), &words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Living processes that this test started, directly or not.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let marked = |process: &u32| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(marked).collect()
    }

    /// Everything that a command may leave is gone: processes, scratch directories, and files
    /// other than `files`.
    pub(crate) fn assert_clean(&self, process: Option<u32>, files: &[&str]) {
        assert_eq!(self.processes(), Vec::<u32>::new(), "still running");
        assert_eq!(self.listed(), files, "files");
        if let Some(process) = process {
            assert_eq!(scratch_of(process), Vec::<PathBuf>::new(), "scratch directories");
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_file(std::env::temp_dir().join(format!("{}-bin", self.mark)));
    }
}

pub(crate) fn ran(mut command: Command) -> Ran {
    Ran::of(command.output().unwrap())
}

pub(crate) fn finished(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

/// Scratch directories of this process, by their names.
pub(crate) fn scratch_of(process: u32) -> Vec<PathBuf> {
    let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let owned = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.strip_prefix("kneepoint-").is_some_and(|rest| {
            rest.split('-').nth(1).is_some_and(|part| part == process.to_string())
        })
    };
    entries.map(|entry| entry.path()).filter(owned).collect()
}

/// A small file system in memory, gone with the guard.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a tmpfs; `None` where that is not allowed.
    pub(crate) fn tmpfs(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
        let done = mount.stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(&self.0).status();
    }
}

/// A recipe of about two seconds of measuring, with these rows.
pub(crate) fn short_recipe(rows: u32) -> String {
    format!(
        r#"name = "short"
summary = "a short run for tests"
operation = "transactions"
treatments = ["sqlite-private-cache"]

[workload]
kind = "sqlite-oltp"

[workload.settings]
rows = {rows}

[sweep]
clients = ["1", "2"]
focus = "2"

[protocol]
slice_ms = 100
ramp_ms = 20
sweep_blocks = 2
effect_blocks = [2, 2]
budget_s = 120
"#
    )
}

//! The points: where a fault strikes, drawn from a seed, so that each can be had again.

use super::machine::{Act, Whom};
use super::programs::{PROGRAMS, Program};
use super::servers::{FAULTS, Fault, Product};
use kneepoint_stats::random::Generator;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Kneepoint is killed.
    Killed,
    /// Its guardian and it are killed.
    BothKilled,
    /// Its guardian alone is killed or stopped, and it is asked to end.
    GuardianKilled,
    /// Its systems are killed or stopped.
    SystemStruck,
    /// It is asked to end.
    Asked,
    /// It is killed at a system call.
    KilledAtCall,
    /// A system call of it fails.
    CallFails,
    /// What it measures misbehaves.
    Program,
    /// The run directory was damaged.
    Damaged,
    /// It and its guardian are killed, and the journal is damaged.
    Journal,
    /// It is killed, and goes on.
    Resumed,
    /// It has few files, processes or little memory.
    Starved,
    /// There is no room for the run directory.
    DiskFull,
    /// It is stopped for a while.
    Frozen,
    /// Names and texts are hostile.
    Hostile,
    /// It is killed with the full collector at work.
    Collecting,
    /// A server of others, its generator, or Kneepoint beside it is struck.
    Server(Product),
}

pub(super) const KINDS: [(Kind, &str); 19] = [
    (Kind::Killed, "Kneepoint killed"),
    (Kind::BothKilled, "it and its guardian killed"),
    (Kind::GuardianKilled, "guardian killed or stopped"),
    (Kind::SystemStruck, "system killed or stopped"),
    (Kind::Asked, "asked to end"),
    (Kind::KilledAtCall, "killed at a system call"),
    (Kind::CallFails, "a system call fails"),
    (Kind::Program, "program misbehaves"),
    (Kind::Damaged, "directory damaged"),
    (Kind::Journal, "both killed, journal damaged"),
    (Kind::Resumed, "killed, goes on"),
    (Kind::Starved, "few files, processes, memory"),
    (Kind::DiskFull, "disk full"),
    (Kind::Frozen, "stopped for a while"),
    (Kind::Hostile, "hostile texts"),
    (Kind::Collecting, "killed while collecting"),
    (Kind::Server(Product::Mariadb), "MariaDB"),
    (Kind::Server(Product::Postgres), "PostgreSQL"),
    (Kind::Server(Product::Redis), "Redis"),
];

/// So many kinds take turns; those behind them are dear and come seldom.
const ORDINARY: usize = 16;
/// Every so many points is one with a server,
const SERVER_EVERY: usize = 9;
/// which is of these in turn: a round has each ordinary kind twice.
const SERVERS: [Product; 4] = [Product::Mariadb, Product::Redis, Product::Postgres, Product::Redis];
const ROUND: usize = SERVER_EVERY * SERVERS.len();

/// The kind of the point of this number.
fn kind_of(number: usize) -> Kind {
    let (place, at) = ((number % ROUND) / SERVER_EVERY, number % SERVER_EVERY);
    match at == SERVER_EVERY - 1 {
        true => Kind::Server(SERVERS[place]),
        false => KINDS[(place * (SERVER_EVERY - 1) + at) % ORDINARY].0,
    }
}

/// Families of system calls for strace(1), and the errors that they may meet.
const CALLS: [(&str, &[&str]); 14] = [
    ("openat", &["EMFILE", "ENOENT", "EACCES"]),
    ("mkdir", &["ENOSPC", "EROFS"]),
    ("write", &["ENOSPC", "EIO", "EPIPE"]),
    ("read", &["EIO", "EINTR"]),
    ("fsync,fdatasync", &["EIO", "ENOSPC"]),
    ("rename", &["ENOSPC", "EXDEV"]),
    ("unlink,unlinkat,rmdir", &["EBUSY", "EROFS"]),
    ("clone,clone3,vfork", &["EAGAIN", "ENOMEM"]),
    ("mmap", &["ENOMEM"]),
    ("execve", &["ENOENT", "ENOMEM"]),
    ("pipe2", &["EMFILE", "ENFILE"]),
    ("memfd_create", &["EMFILE", "ENOSYS"]),
    ("sched_setaffinity", &["EINVAL", "EPERM"]),
    ("wait4,waitid,pidfd_open", &["ECHILD", "EINTR"]),
];

/// Most calls of mmap that a loader makes for Kneepoint.
const LOADED: u32 = 24;

/// Limits for prlimit(1).
const LIMITS: [&str; 10] = [
    "--nofile=8",
    "--nofile=16",
    "--nofile=32",
    "--nofile=64",
    "--as=60000000",
    "--as=200000000",
    "--stack=65536",
    "--fsize=1000",
    "--fsize=20000",
    "--memlock=0",
];

/// Texts that want to be more.
pub(super) const HOSTILE: [&str; 8] = [
    "\u{1b}]0;owned\u{7}\u{1b}[2J",
    "a\rb\u{8}\u{8}",
    "\u{202e}\u{2066}gnp.exe\u{61c}\u{e0041}",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'; rm -rf --no-preserve-root /nowhere; '",
    "%s%n{}{{0}}${HOME}`id`",
    "\u{feff}\u{0085}\u{2028}\u{9b}31m",
];

/// Operations per second that a well-behaved command claims.
const RATE: f64 = 250.0;
const WELL: &str = "sleep 0.05; echo \"250 ops/s\"; : {clients}";

/// One point.
pub(super) struct Point {
    pub(super) kind: Kind,
    pub(super) seed: u64,
    adapter: usize,
    program: usize,
    hook: usize,
    call: usize,
    error: usize,
    at: u32,
    signal: usize,
    text: usize,
    limit: usize,
    after: Duration,
    /// Which fault a server of others has its turn with.
    turn: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, errors) = CALLS[self.call];
        let after = self.after.as_millis();
        f.write_str(self.name())?;
        match self.kind {
            Kind::Program => write!(f, " ({} {})", self.hook(), self.misbehaves().name),
            Kind::KilledAtCall => write!(f, " ({call} {}, {})", self.at, self.adapter()),
            Kind::CallFails => {
                let error = errors[self.error % errors.len()];
                write!(f, " ({call} {}, {error}, {})", self.at, self.adapter())
            }
            Kind::Damaged => Ok(()),
            Kind::Starved => write!(f, " ({}, {})", LIMITS[self.limit], self.adapter()),
            Kind::Hostile => write!(f, " ({:?})", HOSTILE[self.text]),
            Kind::Server(_) => write!(f, " ({}, {after} ms)", self.fault().1),
            _ => write!(f, " ({}, {after} ms)", self.adapter()),
        }
    }
}

impl Point {
    /// The point of this number.
    pub(super) fn drawn(seed: u64, number: u32) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number);
        let mut random = Generator::new(seed);
        let mut below = |most: usize| random.below(most);
        Self {
            kind: kind_of(number as usize),
            seed,
            adapter: below(4),
            program: below(PROGRAMS.len()),
            hook: below(4),
            call: below(CALLS.len()),
            error: below(6),
            // Many calls come early, some come late.
            at: u32::try_from([below(4), below(40), below(400)][below(3)] + 1).unwrap_or(1),
            signal: below(3),
            text: below(HOSTILE.len()),
            limit: below(LIMITS.len()),
            after: Duration::from_millis(u64::try_from(below(1200)).unwrap_or(0)),
            turn: number as usize / ROUND + number as usize % ROUND / SERVER_EVERY,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name)
    }

    /// Whether it needs the process ids of the machine.
    pub(super) fn shares_processes(&self) -> bool {
        self.kind == Kind::Collecting
    }

    fn adapter(&self) -> &'static str {
        match (self.kind, self.adapter) {
            (Kind::Resumed | Kind::Frozen | Kind::Collecting, _) | (_, 0) => "sqlite",
            (_, 1) => "server",
            _ => "command",
        }
    }

    /// The server of others that is struck, and how.
    fn served(&self) -> Option<(Product, Fault)> {
        match self.kind {
            Kind::Server(product) => Some((product, self.fault().0)),
            _ => None,
        }
    }

    fn fault(&self) -> (Fault, &'static str) {
        FAULTS[self.turn % FAULTS.len()]
    }

    /// Whether it may strike the program's loader, before Kneepoint itself begins.
    pub(super) fn strikes_the_loader(&self) -> bool {
        let fails = self.kind == Kind::CallFails && CALLS[self.call].0 == "mmap";
        self.kind == Kind::Starved || fails && self.at <= LOADED
    }

    /// Programs that stand before others of their names.
    pub(super) fn disguises(&self) -> Vec<(&'static str, String)> {
        self.served().map_or_else(Vec::new, |(product, fault)| product.disguises(fault))
    }

    /// Whether nobody is left afterwards who could put anything back.
    pub(super) fn leaves_nobody(&self) -> bool {
        let guardian_too = matches!(self.served(), Some((_, Fault::BothKilled)));
        matches!(self.kind, Kind::BothKilled | Kind::Journal) || guardian_too
    }

    fn misbehaves(&self) -> &'static Program {
        &PROGRAMS[self.program]
    }

    /// Where a command misbehaves: half of them where throughput is measured.
    fn hook(&self) -> &'static str {
        ["prepare", "start", "run", "run"][self.hook]
    }

    /// Operations per second that may be believed, where something claims any.
    pub(super) fn truth(&self) -> Option<f64> {
        match (self.kind, self.adapter()) {
            (Kind::Program, _) if self.hook() == "run" => self.misbehaves().says,
            (Kind::Server(_), _) => None,
            _ => Some(RATE),
        }
    }

    /// Whether what is measured is counted, not claimed.
    pub(super) fn counts(&self) -> bool {
        match self.served() {
            Some((_, fault)) => fault != Fault::Lies,
            None => self.kind != Kind::Program && self.adapter() == "sqlite",
        }
    }

    /// Longest window in ns of a slice that counts: half as long again as planned, and half a
    /// second.
    pub(super) fn longest_window(&self) -> u64 {
        (self.slice() * 3 / 2 + 500) * 1_000_000
    }

    /// The length of slices in ms.
    fn slice(&self) -> u64 {
        self.served().map_or(40, |(product, _)| product.slice())
    }

    pub(super) fn hostile(&self) -> Option<&'static str> {
        (self.kind == Kind::Hostile).then(|| HOSTILE[self.text])
    }

    /// What is run.
    pub(super) fn recipe(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let sh = |script: &str| quoted(&format!("sh -c '{}'", script.replace('\'', "'\\''")));
        let (kind, settings) = match (self.kind, self.adapter()) {
            (Kind::Server(product), _) => product.workload(self.fault().0),
            (Kind::Program, _) => {
                let bad = sh(self.misbehaves().script);
                let well = match self.hook() {
                    "run" => String::new(),
                    _ => format!("run = {}\n", sh(WELL)),
                };
                ("command", format!("{} = {bad}\n{well}", self.hook()))
            }
            (Kind::Hostile, _) => {
                let text = HOSTILE[self.text];
                let said = format!("printf '%s\\n' \"$ARMED\" >&2; {WELL}");
                let failing = if self.hook == 0 { "; exit 1" } else { "" };
                let line = quoted(&format!(
                    "env {} sh -c '{}{failing}'",
                    word(&format!("ARMED={text}")),
                    said.replace('\'', "'\\''")
                ));
                ("command", format!("run = {line}\n"))
            }
            (_, "sqlite") => ("sqlite-oltp", "rows = 1000\n".to_owned()),
            (_, "server") => {
                let start = sh("setsid sleep 608 & sleep 609");
                ("command", format!("start = {start}\nrun = {}\n", sh(WELL)))
            }
            _ => ("command", format!("run = {}\n", sh(WELL))),
        };
        let treatments = if kind == "sqlite-oltp" { "\"sqlite-private-cache\"" } else { "" };
        let text = self.hostile().unwrap_or("a run under faults");
        // Servers of others take their time to start.
        let budget = if self.served().is_some() { 12 } else { 3 };
        let slice = self.slice();
        format!(
            "name = \"faulty\"\nsummary = {}\noperation = {}\ntreatments = [{treatments}]\n\
             [workload]\nkind = \"{kind}\"\n[workload.settings]\n{settings}\
             [sweep]\nclients = [\"1\", \"2\"]\nfocus = \"2\"\n[protocol]\nslice_ms = {slice}\n\
             ramp_ms = 5\nsweep_blocks = 1\neffect_blocks = [1, 1]\nbudget_s = {budget}\n",
            quoted(text),
            quoted(self.hostile().unwrap_or("runs"))
        )
    }

    /// Kneepoint, or what starts it.
    pub(super) fn starter(&self, program: &Path) -> Vec<OsString> {
        let (call, errors) = CALLS[self.call];
        let what = match self.kind {
            Kind::KilledAtCall => "signal=KILL".to_owned(),
            Kind::CallFails => format!("error={}", errors[self.error % errors.len()]),
            Kind::Starved => {
                return vec!["prlimit".into(), LIMITS[self.limit].into(), program.into()];
            }
            _ => return vec![program.into()],
        };
        let inject = format!("inject={call}:{what}:when={}", self.at);
        let strace = ["strace", "-qq", "-o", "/dev/null", "-e"].map(OsString::from);
        let mut words = strace.to_vec();
        // The first execve is strace's own.
        words.extend([format!("trace={call}").into(), "-e".into(), inject.into()]);
        if self.call.is_multiple_of(2) {
            // Guardian and systems too.
            words.push("-f".into());
        }
        words.push(program.into());
        words
    }

    pub(super) fn arguments(&self) -> Vec<&'static str> {
        let tier = if self.kind == Kind::Collecting { "full" } else { "fallback" };
        vec!["run", "recipe.toml", "--out", "runs/run", "--tier", tier]
    }

    /// Room for the run directory, where there is little.
    pub(super) fn room(&self) -> Option<String> {
        let pages = 1 + self.at % 40;
        (self.kind == Kind::DiskFull).then(|| format!("size={}k", 4 * pages))
    }

    /// What is done to it meanwhile, in order.
    pub(super) fn acts(&self) -> Vec<Act> {
        let after = |after, signal, whom| Act { after, signal, whom, awaits: None };
        let act = |signal, whom| after(self.after, signal, whom);
        let late = self.after.max(Duration::from_millis(700));
        let ask = after(late, ["INT", "TERM", "HUP"][self.signal], Whom::Kneepoint);
        match self.kind {
            Kind::Killed | Kind::Resumed => vec![act("KILL", Whom::Kneepoint)],
            // Attaching takes its time.
            Kind::Collecting => vec![after(self.after * 3, "KILL", Whom::Kneepoint)],
            // The guardian first: it would act at once.
            Kind::BothKilled | Kind::Journal => {
                vec![act("KILL", Whom::Guardian), act("KILL", Whom::All)]
            }
            Kind::GuardianKilled => {
                vec![act(["KILL", "STOP"][self.hook % 2], Whom::Guardian), ask]
            }
            Kind::SystemStruck => {
                vec![act(["KILL", "STOP", "TERM"][self.signal], Whom::Systems), ask]
            }
            Kind::Asked | Kind::Program => vec![ask],
            Kind::Frozen => {
                let on = self.after + Duration::from_millis(900);
                vec![act("STOP", Whom::Kneepoint), after(on, "CONT", Whom::Kneepoint)]
            }
            Kind::Server(product) => {
                // Some while the data is made, some while it is measured.
                let late = self.after * [1, 4, 8][self.signal];
                product.acts(self.fault().0, late, ["INT", "TERM", "HUP"][self.hook % 3])
            }
            _ => Vec::new(),
        }
    }
}

/// A text as one word of a command line.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_a_recipe_and_can_be_had_again() {
        for number in 0..2000 {
            let (one, same) = (Point::drawn(3, number), Point::drawn(3, number));
            assert_eq!((one.to_string(), one.recipe()), (same.to_string(), same.recipe()));
            let recipe: Result<toml::Table, _> = toml::from_str(&one.recipe());
            assert!(recipe.is_ok(), "{one}: {}", one.recipe());
        }
    }

    #[test]
    fn a_round_has_every_kind_and_eight_rounds_every_fault_of_every_server() {
        let kinds: Vec<Kind> = (0..ROUND).map(kind_of).collect();
        let count = |kind: Kind| kinds.iter().filter(|one| **one == kind).count();
        assert!(KINDS[..ORDINARY].iter().all(|(kind, _)| count(*kind) == 2), "{kinds:?}");
        assert_eq!(KINDS[ORDINARY..].iter().map(|(kind, _)| count(*kind)).sum::<usize>(), 4);
        assert!(KINDS.iter().all(|(kind, _)| count(*kind) > 0));
        for product in Product::ALL {
            let points =
                (0..8 * u32::try_from(ROUND).unwrap()).map(|number| Point::drawn(1, number));
            let faults: Vec<&str> = points
                .filter(|point| point.kind == Kind::Server(product))
                .map(|point| point.fault().1)
                .collect();
            assert!(FAULTS.iter().all(|(_, name)| faults.contains(name)), "{faults:?}");
        }
    }
}

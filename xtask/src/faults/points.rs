//! The points: where a fault strikes, drawn from a seed, so that each can be had again.

use super::machine::Whom;
use anyhow::Result;
use kneepoint_stats::random::Generator;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Kneepoint is killed.
    Killed,
    /// Its guardian and it are killed.
    BothKilled,
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
}

const KINDS: [Kind; 8] = [
    Kind::Killed,
    Kind::BothKilled,
    Kind::SystemStruck,
    Kind::Asked,
    Kind::KilledAtCall,
    Kind::CallFails,
    Kind::Program,
    Kind::Damaged,
];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Killed => "Kneepoint killed",
            Self::BothKilled => "it and its guardian killed",
            Self::SystemStruck => "system killed or stopped",
            Self::Asked => "asked to end",
            Self::KilledAtCall => "killed at a system call",
            Self::CallFails => "a system call fails",
            Self::Program => "program misbehaves",
            Self::Damaged => "directory damaged",
        }
    }
}

/// Commands that misbehave, each for `sh`.
const PROGRAMS: [(&str, &str); 16] = [
    ("dies", "sleep 0.05; exit 3"),
    ("is killed", "sleep 0.05; kill -KILL $$"),
    ("hangs", "sleep 600"),
    ("ignores TERM", "trap '' TERM INT HUP; while :; do sleep 600; done"),
    ("floods", "timeout 0.5 yes flood; echo rate: 5 ops/s"),
    ("floods messages", "timeout 0.5 yes flood >&2; echo rate: 5"),
    ("says nothing", "sleep 0.3"),
    ("lies", "sleep 0.3; echo rate: nan; echo nan ops/s"),
    ("is no text", "sleep 0.3; head -c 4096 /dev/urandom"),
    ("steers", "sleep 0.3; printf '\\033]0;x\\007\\033[2J\\r' >&2; exit 1"),
    ("forks away", "sleep 0.1; setsid sleep 604 & (setsid sh -c 'sleep 605 &' &); sleep 0.3"),
    ("leaves its environment", "setsid env -i sleep 606 & sleep 0.3"),
    ("is stopped", "sleep 0.05; kill -STOP $$; sleep 600"),
    ("forks much", "for i in $(seq 60); do sleep 607 & done; sleep 0.3"),
    ("closes everything", "exec >&- 2>&- <&-; sleep 0.3"),
    ("daemonises", "redis-server --port 0 --daemonize yes --dir /tmp --save '' >&2; sleep 0.3"),
];

/// Families of system calls for strace(1), and the errors that they may meet.
const CALLS: [(&str, &[&str]); 10] = [
    ("openat", &["EMFILE", "ENOENT", "EACCES"]),
    ("mkdir", &["ENOSPC", "EROFS"]),
    ("write", &["ENOSPC", "EIO", "EPIPE"]),
    ("fsync,fdatasync", &["EIO", "ENOSPC"]),
    ("rename", &["ENOSPC", "EXDEV"]),
    ("clone,clone3,vfork", &["EAGAIN", "ENOMEM"]),
    ("mmap", &["ENOMEM"]),
    ("bpf", &["EPERM", "ENOMEM"]),
    ("pipe2", &["EMFILE", "ENFILE"]),
    ("memfd_create", &["EMFILE", "ENOSYS"]),
];

/// A signal, sent some time after the start.
pub(super) struct Act {
    pub(super) after: Duration,
    pub(super) signal: &'static str,
    pub(super) whom: Whom,
}

impl Act {
    /// Whether it asks Kneepoint to end.
    pub(super) fn is_request(&self) -> bool {
        matches!(self.whom, Whom::Kneepoint) && matches!(self.signal, "INT" | "TERM" | "HUP")
    }
}

/// One point.
pub(super) struct Point {
    pub(super) kind: Kind,
    seed: u64,
    adapter: usize,
    program: usize,
    call: usize,
    error: usize,
    at: u32,
    signal: usize,
    after: Duration,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, errors) = CALLS[self.call];
        match self.kind {
            Kind::Program => write!(f, "{} ({})", self.kind.name(), PROGRAMS[self.program].0),
            Kind::KilledAtCall => write!(f, "{} ({call}, {})", self.kind.name(), self.at),
            Kind::CallFails => {
                let error = errors[self.error % errors.len()];
                write!(f, "{} ({call}, {}, {error})", self.kind.name(), self.at)
            }
            Kind::Damaged => write!(f, "{}", self.kind.name()),
            _ => write!(f, "{} ({}, {:?})", self.kind.name(), self.adapter(), self.after),
        }
    }
}

impl Point {
    /// The point of this number.
    pub(super) fn drawn(seed: u64, number: u32) -> Self {
        let seed = seed ^ (u64::from(number) << 32);
        let mut random = Generator::new(seed);
        let mut below = |most: usize| random.below(most);
        Self {
            kind: KINDS[number as usize % KINDS.len()],
            seed,
            adapter: below(3),
            program: below(PROGRAMS.len()),
            call: below(CALLS.len()),
            error: below(6),
            // Many calls come early, some come late.
            at: u32::try_from([below(4), below(40), below(400)][below(3)] + 1).unwrap_or(1),
            signal: below(3),
            after: Duration::from_millis(u64::try_from(below(2500)).unwrap_or(0)),
        }
    }

    fn adapter(&self) -> &'static str {
        ["sqlite", "command", "server"][self.adapter]
    }

    /// What is run.
    pub(super) fn recipe(&self) -> String {
        let (kind, settings) = match (self.kind, self.adapter) {
            (Kind::Program, _) => {
                let line = PROGRAMS[self.program].1.replace('\'', "'\\''");
                ("command", format!("run = \"\"\"sh -c '{}'\"\"\"", line.replace('\\', "\\\\")))
            }
            (_, 0) => ("sqlite-oltp", "rows = 1000".to_owned()),
            (_, 1) => ("command", "run = \"sh -c 'sleep 0.4; : {clients}'\"".to_owned()),
            _ => (
                "command",
                "start = \"sh -c 'setsid sleep 608 & sleep 609'\"\nrun = \"sleep 0.4\"".to_owned(),
            ),
        };
        let treatments = if kind == "sqlite-oltp" { "\"sqlite-private-cache\"" } else { "" };
        format!(
            "name = \"faulty\"\nsummary = \"a run under faults\"\noperation = \"runs\"\n\
             treatments = [{treatments}]\n[workload]\nkind = \"{kind}\"\n[workload.settings]\n\
             {settings}\n[sweep]\nclients = [\"1\", \"2\"]\nfocus = \"2\"\n[protocol]\n\
             slice_ms = 200\nramp_ms = 20\nsweep_blocks = 2\neffect_blocks = [2, 2]\nbudget_s = 4\n"
        )
    }

    /// Kneepoint, or strace(1) and Kneepoint.
    pub(super) fn starter(&self, program: &Path) -> Vec<OsString> {
        let (call, errors) = CALLS[self.call];
        let what = match self.kind {
            Kind::KilledAtCall => "signal=KILL".to_owned(),
            Kind::CallFails => format!("error={}", errors[self.error % errors.len()]),
            _ => return vec![program.into()],
        };
        let inject = format!("inject={call}:{what}:when={}", self.at);
        let strace = ["strace", "-qq", "-o", "/dev/null", "-e"].map(OsString::from);
        let mut words = strace.to_vec();
        words.extend([format!("trace={call}").into(), "-e".into(), inject.into(), program.into()]);
        words
    }

    pub(super) fn arguments(&self) -> Vec<&'static str> {
        vec!["run", "recipe.toml", "--out", "run", "--tier", "fallback"]
    }

    /// What is done to it meanwhile, in order.
    pub(super) fn acts(&self) -> Vec<Act> {
        let act = |signal, whom| Act { after: self.after, signal, whom };
        let ask = Act {
            after: self.after.max(Duration::from_millis(1500)),
            signal: ["INT", "TERM", "HUP"][self.signal],
            whom: Whom::Kneepoint,
        };
        match self.kind {
            Kind::Killed => vec![act("KILL", Whom::Kneepoint)],
            // The guardian first: it would act at once.
            Kind::BothKilled => vec![act("KILL", Whom::Guardian), act("KILL", Whom::All)],
            Kind::SystemStruck => {
                vec![act(["KILL", "STOP", "TERM"][self.signal], Whom::Systems), ask]
            }
            Kind::Asked | Kind::Program => vec![ask],
            Kind::KilledAtCall | Kind::CallFails | Kind::Damaged => Vec::new(),
        }
    }

    /// Damages one file of a run directory.
    pub(super) fn damage(&self, run: &Path) -> Result<()> {
        let mut random = Generator::new(self.seed);
        let names =
            ["host.json", "plan.toml", "arms.jsonl", "trials.jsonl", "stacks.jsonl", "end.json"];
        let path = run.join(names[random.below(names.len())]);
        let mut bytes = fs::read(&path)?;
        let place = random.below(bytes.len());
        match random.below(5) {
            0 => bytes.truncate(place),
            1 => bytes[place] ^= 1 << random.below(8),
            2 => {
                let end = (place + random.below(200)).min(bytes.len());
                bytes.drain(place..end);
            }
            3 => {
                let copy = bytes[place..].to_vec();
                bytes.splice(place..place, copy);
            }
            _ => {
                fs::remove_file(&path)?;
                std::os::unix::fs::symlink("/dev/zero", &path)?;
                return Ok(());
            }
        }
        Ok(fs::write(&path, bytes)?)
    }
}

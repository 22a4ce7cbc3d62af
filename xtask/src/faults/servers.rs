//! Servers of others under faults: MariaDB, PostgreSQL and Redis with little data. They are killed,
//! stopped or deaf, their load generators die, hang or lie, or Kneepoint is killed beside them.

use super::machine::{Act, Whom};
use crate::setup::{find_program, has_postgres};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that Kneepoint drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    Mariadb,
    Postgres,
    Redis,
}

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    ServerKilled,
    ServerStopped,
    /// It takes no notice of being asked to end.
    ServerDeaf,
    GeneratorKilled,
    GeneratorStopped,
    /// Generator and server do not count the same.
    Lies,
    Killed,
    /// Kneepoint and its guardian.
    BothKilled,
}

/// All faults, with names.
pub(super) const FAULTS: [(Fault, &str); 8] = [
    (Fault::ServerKilled, "server killed"),
    (Fault::Lies, "counts that lie"),
    (Fault::BothKilled, "Kneepoint and guardian killed"),
    (Fault::GeneratorStopped, "generator stopped"),
    (Fault::ServerDeaf, "server ignores TERM"),
    (Fault::Killed, "Kneepoint killed"),
    (Fault::ServerStopped, "server stopped"),
    (Fault::GeneratorKilled, "generator killed"),
];

/// How long after the fault Kneepoint is asked to end.
const THEN: Duration = Duration::from_millis(1500);
/// When it is asked where nothing is sent before.
const LATER: Duration = Duration::from_secs(8);

impl Product {
    /// All that there are.
    pub(super) const ALL: [Self; 3] = [Self::Mariadb, Self::Postgres, Self::Redis];

    /// A program that it lacks here, if any.
    pub(super) fn lacking(self) -> Option<&'static str> {
        let all: &[&'static str] = match self {
            Self::Mariadb => &["mariadbd", "mariadb-install-db", "mariadb", "sysbench"],
            Self::Postgres => return (!has_postgres()).then_some("postgres"),
            Self::Redis => &["redis-server", "redis-cli", "redis-benchmark"],
        };
        all.iter().copied().find(|name| find_program(name).is_none())
    }

    fn server(self) -> Whom {
        Whom::Named(match self {
            Self::Mariadb => &["mariadbd"],
            Self::Postgres => &["postgres"],
            Self::Redis => &["redis-server"],
        })
    }

    fn generator(self) -> Whom {
        Whom::Named(match self {
            Self::Mariadb => &["sysbench"],
            Self::Postgres => &["pgbench"],
            Self::Redis => &["redis-benchmark"],
        })
    }

    /// The length of its slices in ms.
    pub(super) fn slice(self) -> u64 {
        // The count of Redis is read by a program that takes its time.
        if self == Self::Redis { 500 } else { 100 }
    }

    /// Kind and settings of the workload.
    pub(super) fn workload(self, fault: Fault) -> (&'static str, String) {
        match self {
            Self::Mariadb => {
                let mut settings = "script = \"select-key\"\nengine = \"MyISAM\"\nrows = 1000\n\
                    rounds = \"auto\"\n"
                    .to_owned();
                if fault == Fault::ServerDeaf {
                    // A shell stands before it, and its threads are not those of the shell.
                    settings.push_str("thread_handling = \"pool-of-threads\"\n");
                }
                ("mariadb-smack", settings)
            }
            Self::Postgres => {
                let settings = "script = \"select-only\"\nscale = 1\nshared_buffers = \"16MiB\"\n";
                ("postgres", settings.to_owned())
            }
            Self::Redis => {
                let socket = "-s {directory}/redis.sock";
                let settings = format!(
                    "start = \"redis-server --port 0 --unixsocket {{directory}}/redis.sock \
                     --dir {{directory}} --save ''\"\n\
                     ready = \"redis-cli {socket} ping\"\n\
                     run = \"redis-benchmark {socket} -q -t get -n 2000000000 -c {{clients}}\"\n\
                     counter = \"redis-cli {socket} info stats\"\n\
                     counter_pattern = \"total_commands_processed:([0-9]+)\"\n"
                );
                ("command", settings)
            }
        }
    }

    /// What is sent meanwhile, the first `after` so long of whom it waits for.
    pub(super) fn acts(self, fault: Fault, after: Duration, ask: &'static str) -> Vec<Act> {
        let first = |signal, whom, awaited| Act { after, signal, whom, awaits: Some(awaited) };
        let asked = Act { after: THEN, signal: ask, whom: Whom::Kneepoint, awaits: None };
        let (server, generator) = (self.server(), self.generator());
        match fault {
            Fault::ServerKilled => vec![first("KILL", server, server), asked],
            Fault::ServerStopped => vec![first("STOP", server, server), asked],
            Fault::GeneratorKilled => vec![first("KILL", generator, generator), asked],
            Fault::GeneratorStopped => vec![first("STOP", generator, generator), asked],
            Fault::Killed => vec![first("KILL", Whom::Kneepoint, server)],
            Fault::BothKilled => {
                // The guardian first: it would act at once.
                let killed = Act {
                    after: Duration::ZERO,
                    signal: "KILL",
                    whom: Whom::Kneepoint,
                    awaits: None,
                };
                vec![first("KILL", Whom::Guardian, server), killed]
            }
            Fault::ServerDeaf | Fault::Lies => {
                vec![Act { after: LATER, awaits: Some(server), ..asked }]
            }
        }
    }

    /// Programs that stand before its own in the path, by name.
    pub(super) fn disguises(self, fault: Fault) -> Vec<(&'static str, String)> {
        let real = |name: &str| self.real(name).display().to_string();
        let deaf = |name| {
            let script = format!("trap '' TERM INT HUP\n'{}' \"$@\"\nexit $?\n", real(name));
            (name, script)
        };
        // Those of PostgreSQL are looked for in one folder together.
        let same = |name| (name, format!("exec '{}' \"$@\"\n", real(name)));
        match (fault, self) {
            (Fault::ServerDeaf, Self::Mariadb) => vec![deaf("mariadbd")],
            (Fault::ServerDeaf, Self::Redis) => vec![deaf("redis-server")],
            (Fault::ServerDeaf, Self::Postgres) => {
                vec![deaf("postgres"), same("initdb"), same("pgbench")]
            }
            // Each line's first number is another one.
            (Fault::Lies, Self::Mariadb) => {
                let real = real("sysbench");
                let script = format!("'{real}' \"$@\" | sed 's/\\([0-9]\\)/9\\1/'\n");
                vec![("sysbench", script)]
            }
            // Somebody else works on the server beside it.
            (Fault::Lies, Self::Postgres) => {
                let real = real("pgbench");
                let other = "-h \"$2\" -p \"$4\" -U \"$6\" -n -S -c 1 -t 4000 bench";
                let script = format!(
                    "case \"$*\" in *' -T '*) '{real}' {other} >/dev/null 2>&1 & ;; esac\n\
                     exec '{real}' \"$@\"\n"
                );
                vec![same("postgres"), same("initdb"), ("pgbench", script)]
            }
            // The count runs backwards.
            (Fault::Lies, Self::Redis) => {
                let count = "$((9000000000000000 - $(date +%s%N) / 1000))";
                let script = format!(
                    "case \"$*\" in *'info stats') echo total_commands_processed:{count} ;;\n\
                     *) exec '{}' \"$@\" ;; esac\n",
                    real("redis-cli")
                );
                vec![("redis-cli", script)]
            }
            _ => Vec::new(),
        }
    }

    /// Where a program of it really is.
    fn real(self, name: &str) -> PathBuf {
        let found = match self {
            Self::Postgres => newest(Path::new("/usr/lib/postgresql")).map(|bin| bin.join(name)),
            _ => find_program(name),
        };
        found.unwrap_or_else(|| PathBuf::from(name))
    }
}

/// The programs of PostgreSQL's newest version, where Debian keeps all.
fn newest(versions: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    });
    numbered.filter(|(_, bin)| bin.join("postgres").is_file()).max().map(|(_, bin)| bin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_ends_with_a_request_or_a_kill() {
        for product in Product::ALL {
            for (fault, name) in FAULTS {
                let acts = product.acts(fault, Duration::from_millis(5), "INT");
                let last = acts.last().unwrap();
                assert!(matches!(last.whom, Whom::Kneepoint), "{product:?} {name}");
                assert!(acts[0].awaits.is_some(), "{product:?} {name}");
            }
        }
    }

    #[test]
    fn disguises_lead_to_programs_by_path() {
        for product in Product::ALL {
            for (_, script) in FAULTS.iter().flat_map(|(fault, _)| product.disguises(*fault)) {
                assert!(script.ends_with('\n') && script.contains("\"$@\""), "{script}");
            }
        }
    }

    #[test]
    fn the_newest_version_counts() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["9", "15", "17", "odd"] {
            fs::create_dir_all(folder.path().join(version).join("bin")).unwrap();
        }
        for version in ["9", "15"] {
            fs::write(folder.path().join(version).join("bin/postgres"), "").unwrap();
        }
        assert_eq!(newest(folder.path()), Some(folder.path().join("15/bin")));
        assert_eq!(newest(&folder.path().join("absent")), None);
    }
}

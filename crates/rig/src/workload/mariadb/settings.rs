//! The settings of both MariaDB workloads: how the server runs, and what it is asked.

use super::allocator::Allocator;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, number};
use std::collections::BTreeMap;

/// A server variable that variants may differ in.
struct Variable {
    name: &'static str,
    values: Values,
}

enum Values {
    Number { least: u32, most: u32, default: u32 },
    OneOf { words: &'static [&'static str], default: &'static str },
}

/// Settings of these names are variables of the server, written as they are.
const VARIABLES: &[Variable] = &[
    Variable {
        name: "innodb_flush_log_at_trx_commit",
        values: Values::OneOf { words: &["0", "1", "2"], default: "1" },
    },
    Variable {
        name: "table_open_cache_instances",
        values: Values::Number { least: 1, most: 64, default: 8 },
    },
    Variable {
        name: "thread_handling",
        values: Values::OneOf {
            words: &[ONE_THREAD_EACH, "pool-of-threads"],
            default: ONE_THREAD_EACH,
        },
    },
];

const ONE_THREAD_EACH: &str = "one-thread-per-connection";

/// How clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A UNIX socket; the server listens nowhere else.
    Socket,
    /// TCP on the loopback interface.
    Tcp,
}

/// How the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerSettings {
    pub(super) connection: Connection,
    pub(super) allocator: Allocator,
    /// Server variables with their values, all that variants may differ in.
    pub(super) variables: BTreeMap<&'static str, String>,
    /// What is set in the server's environment.
    pub(super) environment: Variables,
}

impl ServerSettings {
    /// Whether a thread of the server belongs to each connection.
    pub(super) fn one_thread_each(&self) -> bool {
        self.variables.get("thread_handling").is_some_and(|value| value == ONE_THREAD_EACH)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, SettingError> {
        let connections = [("socket", Connection::Socket), ("tcp", Connection::Tcp)];
        let mut variables = BTreeMap::new();
        for Variable { name, values } in VARIABLES {
            let value = match *values {
                Values::Number { least, most, default } => {
                    reader.number(name, least..=most, default)?.to_string()
                }
                Values::OneOf { words, default } => reader.word(name, words, default)?.to_owned(),
            };
            variables.insert(*name, value);
        }
        Ok(Self {
            connection: reader.one_of("connection", &connections, Connection::Socket)?,
            allocator: reader.one_of("allocator", &Allocator::ALL, Allocator::Libc)?,
            variables,
            environment: reader.environment()?,
        })
    }
}

/// Scripts of sysbench that need nothing but its tables and end in no deadlock.
const SCRIPTS: [&str; 4] =
    ["oltp_read_only", "oltp_point_select", "oltp_update_non_index", "oltp_update_index"];

/// Options of these scripts that say what a transaction is made of, with sysbench's defaults.
const MIX: [(&str, u32); 6] = [
    ("point_selects", 10),
    ("simple_ranges", 1),
    ("sum_ranges", 1),
    ("order_ranges", 1),
    ("distinct_ranges", 1),
    ("range_size", 100),
];

/// The settings of `mariadb-sysbench`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SysbenchSettings {
    pub(super) server: ServerSettings,
    pub(super) script: String,
    pub(super) tables: u32,
    pub(super) table_size: u32,
    /// Options of the script and their values.
    pub(super) mix: BTreeMap<&'static str, String>,
}

impl SysbenchSettings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut reader = Reader::new(super::SYSBENCH, texts);
        let server = ServerSettings::read(&mut reader)?;
        let mut mix = BTreeMap::new();
        for (name, default) in MIX {
            let least = u32::from(name == "range_size");
            mix.insert(name, reader.number(name, least..=10_000, default)?.to_string());
        }
        let settings = Self {
            server,
            script: reader.word("script", &SCRIPTS, SCRIPTS[0])?.to_owned(),
            tables: reader.number("tables", 1..=64, 1)?,
            table_size: reader.number("table_size", 1_000..=10_000_000, 100_000)?,
            mix,
        };
        reader.finish()?;
        Ok(settings)
    }
}

/// What a client of super-smack does in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Smack {
    /// Two selects by the primary key.
    SelectKey,
    /// A select, then an update, of two rows drawn apart.
    UpdateSelect,
}

/// The settings of `mariadb-smack`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SmackSettings {
    pub(super) server: ServerSettings,
    pub(super) script: Smack,
    pub(super) engine: String,
    pub(super) rows: u32,
    /// Rounds of each client; absent where they are to fit the length of a slice.
    pub(super) rounds: Option<u32>,
}

impl SmackSettings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut reader = Reader::new(super::SMACK, texts);
        let scripts = [("select-key", Smack::SelectKey), ("update-select", Smack::UpdateSelect)];
        let engines = ["MyISAM", "InnoDB", "Aria"];
        let settings = Self {
            server: ServerSettings::read(&mut reader)?,
            script: reader.one_of("script", &scripts, Smack::SelectKey)?,
            engine: reader.word("engine", &engines, engines[0])?.to_owned(),
            rows: reader.number("rows", 1_000..=1_000_000, 90_000)?,
            rounds: reader.parsed("rounds", None, rounds)?,
        };
        reader.finish()?;
        Ok(settings)
    }
}

fn rounds(text: &str) -> Result<Option<u32>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let rounds = number(text, &(1..=10_000_000)).map(Some);
    rounds.map_err(|wrong| format!("{wrong}, or auto"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn nothing_said_is_sysbench_s_own_mix_over_the_socket() {
        let settings = SysbenchSettings::parse(&BTreeMap::new()).unwrap();
        assert_eq!((settings.script.as_str(), settings.table_size), ("oltp_read_only", 100_000));
        assert_eq!(settings.mix["point_selects"], "10");
        assert_eq!(settings.server.connection, Connection::Socket);
        assert!(settings.server.one_thread_each());
        assert_eq!(SmackSettings::parse(&BTreeMap::new()).unwrap().rows, 90_000);
    }

    #[test]
    fn each_setting_is_read() {
        let pairs = [
            ("allocator", "jemalloc"),
            ("connection", "tcp"),
            ("distinct_ranges", "10"),
            ("environment", "GLIBC_TUNABLES=glibc.malloc.arena_max=1"),
            ("innodb_flush_log_at_trx_commit", "0"),
            ("script", "oltp_update_index"),
            ("table_open_cache_instances", "1"),
            ("table_size", "10000"),
            ("tables", "4"),
            ("thread_handling", "pool-of-threads"),
        ];
        let settings = SysbenchSettings::parse(&texts(&pairs)).unwrap();
        assert_eq!((settings.tables, settings.table_size), (4, 10_000));
        assert_eq!(settings.script, "oltp_update_index");
        assert_eq!(settings.mix["distinct_ranges"], "10");
        let server = settings.server;
        assert_eq!((server.connection, server.allocator), (Connection::Tcp, Allocator::Jemalloc));
        assert_eq!(server.variables["innodb_flush_log_at_trx_commit"], "0");
        assert_eq!(server.variables["table_open_cache_instances"], "1");
        assert_eq!(server.environment.get("GLIBC_TUNABLES"), Some("glibc.malloc.arena_max=1"));
        assert!(!server.one_thread_each());
        let pairs = [
            ("script", "update-select"),
            ("engine", "InnoDB"),
            ("rounds", "500"),
            ("rows", "2000"),
        ];
        let settings = SmackSettings::parse(&texts(&pairs)).unwrap();
        assert_eq!((settings.script, settings.rounds), (Smack::UpdateSelect, Some(500)));
        assert_eq!((settings.engine.as_str(), settings.rows), ("InnoDB", 2000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = [
            ("script", "oltp_insert", "script must be oltp_read_only, oltp_point_select, "),
            ("allocator", "mine", "allocator must be libc, libc-one-arena, jemalloc or "),
            ("environment", "A", "environment is NAME=VALUE words (found \"A\")"),
            ("table_size", "0", "table_size must be 1000 to 10000000 (found \"0\")"),
            ("range_size", "0", "range_size must be 1 to 10000 (found \"0\")"),
            (
                "innodb_flush_log_at_trx_commit",
                "3",
                "innodb_flush_log_at_trx_commit must be 0, 1 or 2",
            ),
            ("table_open_cache_instances", "x", "table_open_cache_instances must be 1 to 64"),
            ("tabels", "1", "mariadb-sysbench has no setting \"tabels\"; there are: allocator, "),
        ];
        for (key, value, message) in refused {
            let error = SysbenchSettings::parse(&texts(&[(key, value)])).unwrap_err();
            assert_eq!(error.setting, key);
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
        let refused = [
            ("engine", "memory", "engine must be MyISAM, InnoDB or Aria (found \"memory\")"),
            ("rounds", "0", "rounds must be 1 to 10000000, or auto (found \"0\")"),
            ("tables", "1", "mariadb-smack has no setting \"tables\""),
        ];
        for (key, value, message) in refused {
            let error = SmackSettings::parse(&texts(&[(key, value)])).unwrap_err();
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
    }
}

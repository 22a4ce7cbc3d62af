//! The settings of both MariaDB workloads: how the server runs, and what it is asked.

use super::allocator::Allocator;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, number, within, word, written};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

const ONE_THREAD_EACH: &str = "one-thread-per-connection";

/// How clients reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connection {
    /// A UNIX socket; the server listens nowhere else.
    #[default]
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
        let ServerTexts { connection, allocator, environment } = reader.part()?;
        let variables = reader.part::<ServerVariables>()?.named();
        Ok(Self { connection, allocator, variables, environment })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerTexts {
    connection: Connection,
    allocator: Allocator,
    environment: Variables,
}

/// Settings of these names are variables of the server, written as they are.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerVariables {
    #[serde(deserialize_with = "flush")]
    innodb_flush_log_at_trx_commit: String,
    #[serde(deserialize_with = "within::<_, 1, 64>")]
    table_open_cache_instances: u32,
    #[serde(deserialize_with = "threads")]
    thread_handling: String,
}

impl Default for ServerVariables {
    fn default() -> Self {
        Self {
            innodb_flush_log_at_trx_commit: "1".to_owned(),
            table_open_cache_instances: 8,
            thread_handling: ONE_THREAD_EACH.to_owned(),
        }
    }
}

impl ServerVariables {
    fn named(self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("innodb_flush_log_at_trx_commit", self.innodb_flush_log_at_trx_commit),
            ("table_open_cache_instances", self.table_open_cache_instances.to_string()),
            ("thread_handling", self.thread_handling),
        ])
    }
}

fn flush<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    word(from, &["0", "1", "2"])
}

fn threads<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    word(from, &[ONE_THREAD_EACH, "pool-of-threads"])
}

/// Scripts of sysbench that need nothing but its tables and end in no deadlock.
const SCRIPTS: [&str; 4] =
    ["oltp_read_only", "oltp_point_select", "oltp_update_non_index", "oltp_update_index"];

fn script<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    word(from, &SCRIPTS)
}

/// Options of these scripts that say what a transaction is made of, with sysbench's defaults.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Mix {
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    point_selects: u32,
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    simple_ranges: u32,
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    sum_ranges: u32,
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    order_ranges: u32,
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    distinct_ranges: u32,
    #[serde(deserialize_with = "within::<_, 1, 10_000>")]
    range_size: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            point_selects: 10,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            range_size: 100,
        }
    }
}

impl Mix {
    fn named(&self) -> BTreeMap<&'static str, String> {
        let options = [
            ("point_selects", self.point_selects),
            ("simple_ranges", self.simple_ranges),
            ("sum_ranges", self.sum_ranges),
            ("order_ranges", self.order_ranges),
            ("distinct_ranges", self.distinct_ranges),
            ("range_size", self.range_size),
        ];
        options.map(|(name, value)| (name, value.to_string())).into()
    }
}

/// What clients of sysbench ask for.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SysbenchTexts {
    #[serde(deserialize_with = "script")]
    script: String,
    #[serde(deserialize_with = "within::<_, 1, 64>")]
    tables: u32,
    #[serde(deserialize_with = "within::<_, 1_000, 10_000_000>")]
    table_size: u32,
}

impl Default for SysbenchTexts {
    fn default() -> Self {
        Self { script: SCRIPTS[0].to_owned(), tables: 1, table_size: 100_000 }
    }
}

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
        let mix = reader.part::<Mix>()?.named();
        let SysbenchTexts { script, tables, table_size } = reader.part()?;
        let settings = Self { server, script, tables, table_size, mix };
        reader.finish()?;
        Ok(settings)
    }
}

/// What a client of super-smack does in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
        let server = ServerSettings::read(&mut reader)?;
        let SmackTexts { script, engine, rows, rounds } = reader.part()?;
        let settings = Self { server, script, engine, rows, rounds };
        reader.finish()?;
        Ok(settings)
    }
}

/// What clients of super-smack ask for.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SmackTexts {
    script: Smack,
    #[serde(deserialize_with = "engine")]
    engine: String,
    #[serde(deserialize_with = "within::<_, 1_000, 1_000_000>")]
    rows: u32,
    #[serde(deserialize_with = "rounds")]
    rounds: Option<u32>,
}

impl Default for SmackTexts {
    fn default() -> Self {
        let engine = ENGINES[0].to_owned();
        Self { script: Smack::SelectKey, engine, rows: 90_000, rounds: None }
    }
}

/// Storage engines that the table can have.
const ENGINES: [&str; 3] = ["MyISAM", "InnoDB", "Aria"];

fn engine<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    word(from, &ENGINES)
}

fn rounds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    written(from, |text| {
        if text == "auto" {
            return Ok(None);
        }
        let rounds = number(text, &(1..=10_000_000)).map(Some);
        rounds.map_err(|wrong| format!("{wrong}, or auto"))
    })
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

//! The settings of both MariaDB workloads: how the server runs, and what it is asked.

use super::allocator::Allocator;
use crate::workload::SettingError;
use std::collections::BTreeMap;

/// A server variable that arms may differ in.
struct Variable {
    name: &'static str,
    default: &'static str,
    values: Values,
}

enum Values {
    Number(u32, u32),
    OneOf(&'static [&'static str]),
}

/// Settings of these names are variables of the server, written as they are.
const VARIABLES: &[Variable] = &[
    Variable {
        name: "innodb_flush_log_at_trx_commit",
        default: "1",
        values: Values::OneOf(&["0", "1", "2"]),
    },
    Variable { name: "table_open_cache_instances", default: "8", values: Values::Number(1, 64) },
    Variable {
        name: "thread_handling",
        default: ONE_THREAD_EACH,
        values: Values::OneOf(&[ONE_THREAD_EACH, "pool-of-threads"]),
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
    /// Server variables with their values, all that arms may differ in.
    pub(super) variables: BTreeMap<&'static str, String>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        let variables = VARIABLES.iter().map(|known| (known.name, known.default.to_owned()));
        Self {
            connection: Connection::Socket,
            allocator: Allocator::Libc,
            variables: variables.collect(),
        }
    }
}

impl ServerSettings {
    /// Whether a thread of the server belongs to each connection.
    pub(super) fn one_thread_each(&self) -> bool {
        self.variables.get("thread_handling").is_some_and(|value| value == ONE_THREAD_EACH)
    }

    /// Takes a setting; false where it is none of the server's.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "connection" => {
                let choices = [("socket", Connection::Socket), ("tcp", Connection::Tcp)];
                self.connection = choose(key, value, &choices)?;
            }
            "allocator" => self.allocator = choose(key, value, &Allocator::ALL)?,
            _ => {
                let Some(known) = VARIABLES.iter().find(|known| known.name == key) else {
                    return Ok(false);
                };
                match known.values {
                    Values::Number(least, most) => {
                        number(key, value, least, most)?;
                    }
                    Values::OneOf(words) => {
                        let choices: Vec<_> = words.iter().map(|word| (*word, ())).collect();
                        choose(key, value, &choices)?;
                    }
                }
                self.variables.insert(known.name, value.to_owned());
            }
        }
        Ok(true)
    }

    fn names() -> impl Iterator<Item = &'static str> {
        ["connection", "allocator"].into_iter().chain(VARIABLES.iter().map(|known| known.name))
    }
}

/// Scripts of sysbench that need nothing but its tables and end in no deadlock.
const SCRIPTS: [&str; 4] =
    ["oltp_read_only", "oltp_point_select", "oltp_update_non_index", "oltp_update_index"];

/// Options of these scripts that say what a transaction is made of, with sysbench's defaults.
const MIX: [(&str, &str); 6] = [
    ("point_selects", "10"),
    ("simple_ranges", "1"),
    ("sum_ranges", "1"),
    ("order_ranges", "1"),
    ("distinct_ranges", "1"),
    ("range_size", "100"),
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

impl Default for SysbenchSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            script: SCRIPTS[0].to_owned(),
            tables: 1,
            table_size: 100_000,
            mix: MIX.iter().map(|(name, default)| (*name, (*default).to_owned())).collect(),
        }
    }
}

impl SysbenchSettings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for (key, value) in texts {
            settings.set(key, value).map_err(|problem| refusal(key, problem))?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if self.server.set(key, value)? {
            return Ok(());
        }
        match key {
            "script" => {
                let choices = SCRIPTS.map(|script| (script, script.to_owned()));
                self.script = choose(key, value, &choices)?;
            }
            "tables" => self.tables = number(key, value, 1, 64)?,
            "table_size" => self.table_size = number(key, value, 1_000, 10_000_000)?,
            _ => {
                let Some((name, _)) = MIX.iter().find(|(name, _)| *name == key) else {
                    let own = ["script", "tables", "table_size"].into_iter();
                    return Err(unknown(super::SYSBENCH, key, own.chain(MIX.map(|it| it.0))));
                };
                let value = number(key, value, u32::from(*name == "range_size"), 10_000)?;
                self.mix.insert(name, value.to_string());
            }
        }
        Ok(())
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

impl Default for SmackSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            script: Smack::SelectKey,
            engine: "MyISAM".to_owned(),
            rows: 90_000,
            rounds: None,
        }
    }
}

impl SmackSettings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for (key, value) in texts {
            settings.set(key, value).map_err(|problem| refusal(key, problem))?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if self.server.set(key, value)? {
            return Ok(());
        }
        match key {
            "script" => {
                let choices =
                    [("select-key", Smack::SelectKey), ("update-select", Smack::UpdateSelect)];
                self.script = choose(key, value, &choices)?;
            }
            "engine" => {
                let choices = ["MyISAM", "InnoDB", "Aria"].map(|name| (name, name.to_owned()));
                self.engine = choose(key, value, &choices)?;
            }
            "rows" => self.rows = number(key, value, 1_000, 1_000_000)?,
            "rounds" if value == "auto" => self.rounds = None,
            "rounds" => self.rounds = Some(number(key, value, 1, 10_000_000)?),
            _ => {
                let own = ["script", "engine", "rows", "rounds"];
                return Err(unknown(super::SMACK, key, own.into_iter()));
            }
        }
        Ok(())
    }
}

fn refusal(setting: &str, problem: String) -> SettingError {
    SettingError { setting: setting.to_owned(), problem }
}

fn unknown(workload: &str, key: &str, own: impl Iterator<Item = &'static str>) -> String {
    let mut known: Vec<_> = own.chain(ServerSettings::names()).collect();
    known.sort_unstable();
    format!("{workload} has no setting {key:?}; there are: {}", known.join(", "))
}

fn choose<T: Clone>(key: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(word, _)| *word == value);
    chosen.map(|(_, choice)| choice.clone()).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        format!("{key} must be {} (found {value:?})", words.join(" or "))
    })
}

fn number(key: &str, value: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{key} must be {least} to {most} (found {value:?})"))
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
            ("script", "oltp_insert", "script must be oltp_read_only or oltp_point_select or "),
            ("allocator", "mine", "allocator must be libc or libc-one-arena or jemalloc or "),
            ("table_size", "0", "table_size must be 1000 to 10000000 (found \"0\")"),
            ("range_size", "0", "range_size must be 1 to 10000 (found \"0\")"),
            ("innodb_flush_log_at_trx_commit", "3", "innodb_flush_log_at_trx_commit must be 0 or "),
            ("table_open_cache_instances", "x", "table_open_cache_instances must be 1 to 64"),
            ("tabels", "1", "mariadb-sysbench has no setting \"tabels\"; there are: allocator, "),
        ];
        for (key, value, message) in refused {
            let error = SysbenchSettings::parse(&texts(&[(key, value)])).unwrap_err();
            assert_eq!(error.setting, key);
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
        let refused = [
            ("engine", "memory", "engine must be MyISAM or InnoDB or Aria (found \"memory\")"),
            ("rounds", "0", "rounds must be 1 to 10000000 (found \"0\")"),
            ("tables", "1", "mariadb-smack has no setting \"tables\""),
        ];
        for (key, value, message) in refused {
            let error = SmackSettings::parse(&texts(&[(key, value)])).unwrap_err();
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
    }
}

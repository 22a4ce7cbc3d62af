//! The settings of the PostgreSQL workload, from text.

use super::NAME;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::Reader;
use std::collections::BTreeMap;

/// Which of pgbench's built-in transactions the clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// One `SELECT` by primary key.
    SelectOnly,
    /// Three `UPDATE`s, a `SELECT` and an `INSERT`: TPC-B, nearly.
    TpcbLike,
}

impl Script {
    /// Its name on pgbench's command line.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::SelectOnly => "select-only",
            Self::TpcbLike => "tpcb-like",
        }
    }

    /// What pgbench's report calls it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::SelectOnly => "<builtin: select only>",
            Self::TpcbLike => "<builtin: TPC-B (sort of)>",
        }
    }
}

/// How pgbench sends statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// As text, planned each time.
    Simple,
    /// Parsed and bound each time.
    Extended,
    /// Parsed once.
    Prepared,
}

impl Protocol {
    /// Its name on pgbench's command line and in its report.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

/// What the clients connect through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A UNIX socket.
    Socket,
    /// TCP on 127.0.0.1.
    Tcp,
}

/// Everything in which two variants of this workload can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The clients' transaction.
    pub(super) script: Script,
    /// Branches; each has 10 tellers and 100 000 accounts.
    pub(super) scale: u32,
    /// How statements are sent.
    pub(super) protocol: Protocol,
    /// Whether a commit waits until it is durable.
    pub(super) synchronous_commit: bool,
    /// The server's page cache, in MiB.
    pub(super) shared_buffers: u32,
    /// What the clients connect through.
    pub(super) connection: Connection,
    /// What is set in the server's environment.
    pub(super) environment: Variables,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            script: Script::SelectOnly,
            scale: 1,
            protocol: Protocol::Prepared,
            synchronous_commit: true,
            shared_buffers: 128,
            connection: Connection::Socket,
            environment: Variables::default(),
        }
    }
}

const MOST_SCALE: u32 = 1_000;
const MOST_BUFFERS: u32 = 1 << 20;

impl Settings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let default = Self::default();
        let mut reader = Reader::new(NAME, texts);
        let scripts = [Script::SelectOnly, Script::TpcbLike].map(|one| (one.option(), one));
        let protocols = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];
        let protocols = protocols.map(|one| (one.option(), one));
        let connections = [("socket", Connection::Socket), ("tcp", Connection::Tcp)];
        let buffers = default.shared_buffers;
        let settings = Self {
            script: reader.one_of("script", &scripts, default.script)?,
            scale: reader.number("scale", 1..=MOST_SCALE, default.scale)?,
            protocol: reader.one_of("protocol", &protocols, default.protocol)?,
            synchronous_commit: reader.switch("synchronous_commit", default.synchronous_commit)?,
            shared_buffers: reader.mebibytes("shared_buffers", 1..=MOST_BUFFERS, buffers)?,
            connection: reader.one_of("connection", &connections, default.connection)?,
            environment: reader.environment()?,
        };
        reader.finish()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let owned = texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::parse(&owned.collect())
    }

    #[test]
    fn nothing_said_is_the_default() {
        let spelled = [
            ("script", "select-only"),
            ("scale", "1"),
            ("protocol", "prepared"),
            ("synchronous_commit", "on"),
            ("shared_buffers", "128MiB"),
            ("connection", "socket"),
        ];
        assert_eq!(parse(&spelled).unwrap(), Settings::default());
    }

    #[test]
    fn each_setting_is_read() {
        let texts = [
            ("script", "tpcb-like"),
            ("scale", "10"),
            ("protocol", "simple"),
            ("synchronous_commit", "off"),
            ("shared_buffers", "32MiB"),
            ("connection", "tcp"),
            ("environment", "A=1"),
        ];
        let expected = Settings {
            script: Script::TpcbLike,
            scale: 10,
            protocol: Protocol::Simple,
            synchronous_commit: false,
            shared_buffers: 32,
            connection: Connection::Tcp,
            environment: Variables::parse("A=1").unwrap(),
        };
        assert_eq!(parse(&texts).unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = [
            ("script", "tpcc", "script must be select-only or tpcb-like (found \"tpcc\")"),
            ("scale", "0", "scale must be 1 to 1000 (found \"0\")"),
            ("scale", "1e3", "scale must be 1 to 1000 (found \"1e3\")"),
            ("protocol", "", "protocol must be simple, extended or prepared (found \"\")"),
            ("synchronous_commit", "local", "synchronous_commit must be on or off"),
            ("shared_buffers", "128", "shared_buffers must be 1MiB to 1048576MiB"),
            ("shared_buffers", "0MiB", "shared_buffers must be 1MiB to 1048576MiB"),
            ("connection", "udp", "connection must be socket or tcp (found \"udp\")"),
            ("rows", "5", "postgres has no setting \"rows\""),
        ];
        for (key, value, message) in refused {
            let error = parse(&[(key, value)]).unwrap_err();
            assert_eq!(error.setting, key);
            assert!(error.problem.starts_with(message), "{}", error.problem);
        }
    }
}

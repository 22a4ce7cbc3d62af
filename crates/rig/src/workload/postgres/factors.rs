//! What a connection of pgbench finds: one proof for each factor in which variants differ.
//!
//! pgbench is asked to run a statement that tells what it sees as a warning, which pgbench passes
//! on. So the proofs come from a connection that is made in the same way as those of the clients.

use super::pgbench::Report;
use super::settings::{Connection, Settings};
use anyhow::Context as _;
use kneepoint_vocab::Proof;

/// Marks the warning among other messages.
const MARK: &str = "kneepoint|";

/// The script that tells.
pub(super) const SCRIPT: &str = "DO $$ BEGIN RAISE WARNING 'kneepoint|%|%|%|%|', \
    coalesce(host(inet_server_addr()), 'socket'), current_setting('synchronous_commit'), \
    pg_size_bytes(current_setting('shared_buffers')), \
    (SELECT count(*) FROM pgbench_branches); END $$;\n";

/// What a connection has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factors {
    connection: String,
    synchronous_commit: String,
    shared_buffers: String,
    branches: String,
}

impl Factors {
    /// Reads them from pgbench's messages.
    pub(super) fn parse(messages: &str) -> anyhow::Result<Self> {
        let reported =
            messages.lines().find_map(|line| line.split_once(MARK)).map(|(_, reported)| reported);
        let fields: Vec<&str> = reported.unwrap_or_default().split('|').collect();
        let [connection, synchronous_commit, shared_buffers, branches, _] = fields[..] else {
            return Err(anyhow::anyhow!("{:?}", messages.trim()))
                .context("a connection of pgbench did not tell what it finds");
        };
        let [connection, synchronous_commit, shared_buffers, branches] =
            [connection, synchronous_commit, shared_buffers, branches].map(str::to_owned);
        Ok(Self { connection, synchronous_commit, shared_buffers, branches })
    }

    /// All proofs; `report` is of a run of the clients' own script.
    pub(super) fn proofs(&self, settings: &Settings, report: &Report) -> Vec<Proof> {
        let connection = match settings.connection {
            Connection::Socket => "socket",
            Connection::Tcp => "127.0.0.1",
        };
        let waits = if settings.synchronous_commit { "on" } else { "off" };
        let buffers = u64::from(settings.shared_buffers) << 20;
        vec![
            Proof::equal("script that pgbench reports", settings.script.title(), &report.script),
            Proof::equal("rows of pgbench_branches", settings.scale, &self.branches),
            Proof::equal(
                "query mode that pgbench reports",
                settings.protocol.option(),
                &report.protocol,
            ),
            Proof::equal("synchronous_commit of a client", waits, &self.synchronous_commit),
            Proof::equal("shared_buffers in bytes", buffers, &self.shared_buffers),
            Proof::equal("inet_server_addr() of a client", connection, &self.connection),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Nanos;

    fn report() -> Report {
        Report {
            transactions: 1,
            counted_over: Nanos(1),
            script: "<builtin: select only>".to_owned(),
            protocol: "prepared".to_owned(),
            clients: 1,
        }
    }

    #[test]
    fn each_residue_is_recognised_by_its_own_proof() {
        let proven = "WARNING:  kneepoint|socket|on|134217728|1|\n";
        let inactive = |messages: &str| {
            let factors = Factors::parse(messages).unwrap();
            let proofs = factors.proofs(&Settings::default(), &report());
            let open = proofs.into_iter().filter(|proof| !proof.active);
            open.map(|proof| proof.what).collect::<Vec<_>>()
        };
        assert_eq!(inactive(proven), Vec::<String>::new());
        for (passage, replacement, what) in [
            ("socket", "127.0.0.1", "inet_server_addr() of a client"),
            ("|on|", "|off|", "synchronous_commit of a client"),
            ("134217728", "16777216", "shared_buffers in bytes"),
            ("|1|", "|10|", "rows of pgbench_branches"),
        ] {
            assert_eq!(inactive(&proven.replace(passage, replacement)), [what]);
        }
    }

    #[test]
    fn silence_proves_nothing() {
        for messages in ["", "WARNING:  other\n", "WARNING:  kneepoint|socket|on\n"] {
            assert!(Factors::parse(messages).is_err(), "{messages}");
        }
    }
}

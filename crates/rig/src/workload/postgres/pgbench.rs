//! pgbench: how it is asked to run, and what its report says.

use super::programs::Programs;
use super::settings::{Protocol, Script};
use super::{DATABASE, ROLE};
use crate::process::Program;
use anyhow::{Context as _, bail, ensure};
use kneepoint_vocab::Nanos;
use std::path::Path;
use std::time::Duration;

/// Where a server is to be found, and how one gets in.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// An address, or the directory of the UNIX socket.
    pub(super) host: String,
    /// The TCP port, or the number in the socket's name.
    pub(super) port: u16,
    /// Asked for over TCP only.
    pub(super) password: Option<String>,
}

/// How much one run of pgbench is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// So many transactions of each client.
    Transactions(u32),
    /// So many seconds from its start, connecting included.
    Seconds(u64),
}

/// Longer than any slice lasts, in whole seconds: pgbench is told to end, and ends by itself only
/// where nobody does.
pub(super) fn seconds_for(slice: Nanos, timeout: Duration) -> u64 {
    slice.0.div_ceil(1_000_000_000) + timeout.as_secs().max(1)
}

/// pgbench with these arguments against the server at `reach`.
pub(super) fn pgbench<'a>(
    programs: &Programs,
    reach: &Reach,
    arguments: &[String],
    directory: &'a Path,
) -> Program<'a> {
    let (host, port) = (reach.host.clone(), reach.port.to_string());
    let server = ["-h".to_owned(), host, "-p".to_owned(), port, "-U".to_owned(), ROLE.to_owned()];
    let arguments = server.iter().chain(arguments).map(String::as_str).chain([DATABASE]);
    let mut program = Program::new("pgbench", &programs.pgbench, arguments, directory);
    program.shielded = true;
    // What the user's own sessions prefer is not to change what is measured.
    let mut environment = vec![("LC_ALL", "C"), ("PGOPTIONS", ""), ("PGSSLMODE", "disable")];
    environment.extend(reach.password.as_deref().map(|password| ("PGPASSWORD", password)));
    program.environment =
        environment.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    program
}

/// Arguments of a run of one of the built-in scripts.
pub(super) fn arguments(
    script: Script,
    protocol: Protocol,
    clients: u32,
    threads: u32,
    extent: Extent,
) -> Vec<String> {
    let (flag, amount) = match extent {
        Extent::Transactions(each) => ("-t", each.to_string()),
        Extent::Seconds(seconds) => ("-T", seconds.to_string()),
    };
    [
        "--no-vacuum",
        "-b",
        script.option(),
        "-M",
        protocol.option(),
        "-c",
        &clients.to_string(),
        "-j",
        &threads.to_string(),
        flag,
        &amount,
    ]
    .map(str::to_owned)
    .into()
}

/// What pgbench reports of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Transactions that ended well.
    pub(super) transactions: u64,
    /// Over how long, by its own clock: from the last client's connection on.
    pub(super) counted_over: Nanos,
    /// The script that it ran.
    pub(super) script: String,
    /// How it sent statements.
    pub(super) protocol: String,
    /// Clients that it ran.
    pub(super) clients: u32,
}

impl Report {
    /// Reads what pgbench has printed.
    ///
    /// # Errors
    /// Something is missing or makes no sense, or transactions failed.
    pub(super) fn parse(printed: &str) -> anyhow::Result<Self> {
        let transactions = value(printed, "number of transactions actually processed:")?;
        // Where the number was fixed beforehand, pgbench adds a slash and that number.
        let transactions = transactions.split('/').next().unwrap_or_default();
        let transactions: u64 = number(transactions, "transactions processed")?;
        // Versions before 15 know no failed transactions: a client that fails ends there.
        if let Ok(failed) = value(printed, "number of failed transactions:") {
            let failed = failed.split(' ').next().unwrap_or_default();
            ensure!(failed == "0", "pgbench reports {failed} failed transactions");
        }
        ensure!(transactions > 0, "pgbench ended not one transaction");
        let per_second = rate(printed)?;
        #[allow(clippy::cast_precision_loss, reason = "operation counts are far below 2^53")]
        let seconds = transactions as f64 / per_second;
        let counted_over = Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|length| u64::try_from(length.as_nanos()).ok())
            .filter(|nanos| *nanos > 0);
        let Some(counted_over) = counted_over else {
            bail!("pgbench reports {per_second} transactions a second, which cannot be");
        };
        Ok(Self {
            transactions,
            counted_over: Nanos(counted_over),
            script: value(printed, "transaction type:")?.to_owned(),
            protocol: value(printed, "query mode:")?.to_owned(),
            clients: number(value(printed, "number of clients:")?, "clients")?,
        })
    }
}

/// Transactions a second without the time it took to connect, as versions before and since 14
/// say it.
fn rate(printed: &str) -> anyhow::Result<f64> {
    let kinds = ["(without initial connection time)", "(excluding connections establishing)"];
    let found = printed.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("tps = ")?;
        kinds.iter().find_map(|kind| rest.strip_suffix(kind))
    });
    let text = found.context("pgbench's report has no line `tps = ...`")?;
    number(text, "transactions a second")
}

fn value<'a>(printed: &'a str, label: &str) -> anyhow::Result<&'a str> {
    let found = printed.lines().find_map(|line| line.trim().strip_prefix(label));
    let found = found.with_context(|| format!("pgbench's report has no line `{label} ...`"))?;
    Ok(found.trim())
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> anyhow::Result<T> {
    let parsed = text.trim().parse().ok();
    parsed.with_context(|| format!("pgbench reports {text:?} as its {what}: no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPORT: &str = "pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 32
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 20642
number of failed transactions: 0 (0.000%)
latency average = 1.434 ms
initial connection time = 99.557 ms
tps = 22307.524386 (without initial connection time)
";

    #[test]
    fn a_report_is_read_with_its_own_length() {
        let report = Report::parse(REPORT).unwrap();
        assert_eq!(report.transactions, 20_642);
        assert_eq!((report.clients, report.protocol.as_str()), (32, "prepared"));
        assert_eq!(report.script, Script::SelectOnly.title());
        let seconds = report.counted_over.seconds().0;
        assert!((seconds - 20_642.0 / 22_307.524_386).abs() < 1e-6, "{seconds}");
    }

    #[test]
    fn reports_of_older_versions_and_fixed_work_are_read_too() {
        let old = REPORT
            .replace("number of failed transactions: 0 (0.000%)\n", "")
            .replace("processed: 20642", "processed: 20642/20642")
            .replace(
                "tps = 22307.524386 (without initial connection time)",
                "tps = 20642.0 (including connections establishing)\n\
                 tps = 22307.524386 (excluding connections establishing)",
            );
        assert_eq!(Report::parse(&old).unwrap(), Report::parse(REPORT).unwrap());
    }

    #[test]
    fn nonsense_is_reported_by_its_line() {
        let refused = [
            ("processed: 20642", "processed: many", "\"many\" as its transactions processed"),
            ("processed: 20642", "processed: 0", "not one transaction"),
            ("number of transactions actually", "number of", "no line `number of transactions"),
            ("transactions: 0 (0.000%)", "transactions: 7 (0.1%)", "7 failed transactions"),
            ("tps = 22307.524386", "tps = 0.000000", "reports 0 transactions a second"),
            ("tps = 22307.524386", "tps = -5", "reports -5 transactions a second"),
            ("tps = 22307.524386", "tps = inf", "reports inf transactions a second"),
            ("tps = 22307.524386", "tps = nan", "reports NaN transactions a second"),
            ("tps = ", "tpm = ", "no line `tps = ...`"),
            ("number of clients: 32", "number of clients: 0x20", "\"0x20\" as its clients"),
            ("query mode: prepared\n", "", "no line `query mode: ...`"),
        ];
        for (passage, replacement, message) in refused {
            assert!(REPORT.contains(passage), "{passage}");
            let error = Report::parse(&REPORT.replace(passage, replacement)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        assert!(Report::parse("").is_err());
    }

    #[test]
    fn a_run_that_nobody_ends_outlasts_the_slice() {
        let seconds =
            |millis, timeout| seconds_for(Nanos::from_millis(millis), Duration::from_secs(timeout));
        assert_eq!([seconds(800, 0), seconds(800, 30), seconds(5001, 30)], [2, 31, 36]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(tps = |number of |:|[0-9./-]|\\PC|\n){0,40}") {
            let _ = Report::parse(&text);
        }

        #[test]
        fn any_figures_are_read_back(processed in 1_u64..1 << 40, per_second in 0.01_f64..1e9) {
            let text = REPORT
                .replace("20642", &processed.to_string())
                .replace("22307.524386", &per_second.to_string());
            let read = Report::parse(&text);
            let seconds = processed as f64 / per_second;
            if (1e-9..1.8e10).contains(&seconds) {
                let report = read.unwrap();
                prop_assert_eq!(report.transactions, processed);
                let off = report.counted_over.seconds().0 - seconds;
                prop_assert!(off.abs() <= 1e-9 + seconds * 1e-9);
            }
        }
    }
}

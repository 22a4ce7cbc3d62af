//! Plain runs of a load generator against a server that is up, as a person would start them.

use super::stolen::Stolen;
use anyhow::{Context, Result, bail, ensure};
use kneepoint_rig::placement;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The most seconds at the begin of a run that do not count.
const FIRST: u32 = 5;
/// Fewer seconds than this say nothing: then all count.
const FEWEST: usize = 5;
/// Settings of `mariadb-sysbench` that are options of sysbench's.
const SYSBENCH: [&str; 8] = [
    "tables",
    "table_size",
    "point_selects",
    "simple_ranges",
    "sum_ranges",
    "order_ranges",
    "distinct_ranges",
    "range_size",
];

/// What one run counted, a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counted {
    /// Over the run without its first seconds and those that the hypervisor took part of, by the
    /// generator's own interval reports.
    pub(super) settled: f64,
    /// Seconds that were left out because the hypervisor took part of them.
    pub(super) left_out: usize,
    /// Over the whole run, by its last report.
    pub(super) whole: f64,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Second {
    /// When it ended, in seconds since the generator began.
    pub(super) at: f64,
    /// Operations in it.
    pub(super) rate: f64,
    /// Whether the hypervisor took nothing of it.
    pub(super) left_alone: bool,
}

/// How to drive a server.
pub(super) struct Hand {
    program: PathBuf,
    arguments: Vec<String>,
    kind: Kind,
    /// Cores of the generator alone; all where empty.
    cpus: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sysbench,
    Pgbench,
}

impl Hand {
    /// Against the server with this process id, which is given the priority and the cores that it
    /// would have, were it started by hand.
    pub(super) fn of(
        workload: &str,
        settings: &BTreeMap<String, String>,
        server: u32,
        generator_cores: usize,
    ) -> Result<Self> {
        as_everybody(server)?;
        let allowed = placement::allowed();
        let (own, cpus) = allowed.split_at(allowed.len().saturating_sub(generator_cores));
        if !cpus.is_empty() {
            placement::pin(server, own)?;
        }
        let (kind, program, arguments) = match workload {
            "mariadb-sysbench" => (Kind::Sysbench, "sysbench".into(), sysbench(settings, server)?),
            "postgres" => {
                let exe = std::fs::read_link(format!("/proc/{server}/exe"))?;
                (Kind::Pgbench, exe.with_file_name("pgbench"), pgbench(settings, server)?)
            }
            other => bail!("nobody drives a {other} by hand: mariadb-sysbench and postgres only"),
        };
        Ok(Self { program, arguments, kind, cpus: cpus.to_vec() })
    }

    /// One run.
    pub(super) fn drive(&self, clients: u32, seconds: u32) -> Result<Counted> {
        let mut command = self.command(clients, seconds);
        let (output, stolen) = Stolen::during(|| command.stdin(Stdio::null()).output());
        let (text, good) = self.said(output)?;
        let counted = if good { read(&text, seconds, &stolen) } else { None };
        counted.with_context(|| format!("{}: {text}", self.program.display()))
    }

    /// One run with something done meanwhile, which is given when it began; its seconds, and what
    /// was done.
    pub(super) fn meanwhile<T>(
        &self,
        clients: u32,
        seconds: u32,
        work: impl FnOnce(Instant) -> Result<T>,
    ) -> Result<(Vec<Second>, T)> {
        let mut command = self.command(clients, seconds);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let child = command.spawn().with_context(|| self.program.display().to_string())?;
        // What it prints fits into a pipe.
        let (done, stolen) = Stolen::during(|| work(begun));
        let (text, good) = self.said(child.wait_with_output())?;
        ensure!(good, "{}: {text}", self.program.display());
        let second = |(at, rate)| Second { at, rate, left_alone: stolen.left_alone(at) };
        Ok((text.lines().filter_map(interval).map(second).collect(), done?))
    }

    /// What it printed, and whether it ended well.
    fn said(&self, output: std::io::Result<Output>) -> Result<(String, bool)> {
        let output = output.with_context(|| self.program.display().to_string())?;
        let text = [output.stdout, output.stderr].concat();
        Ok((String::from_utf8_lossy(&text).into_owned(), output.status.success()))
    }

    fn command(&self, clients: u32, seconds: u32) -> Command {
        // A session of its own, so that it has not the priority that this one may have.
        let mut command = Command::new("setsid");
        command.arg("--wait");
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
            command.args(["taskset", "-c", &cpus.join(",")]);
        }
        command.arg(&self.program);
        command.args(&self.arguments);
        match self.kind {
            Kind::Sysbench => command.args([
                format!("--threads={clients}"),
                format!("--time={seconds}"),
                "--events=0".to_owned(),
                "--report-interval=1".to_owned(),
                "run".to_owned(),
            ]),
            Kind::Pgbench => {
                let cores = u32::try_from(placement::allowed().len()).unwrap_or(1);
                let threads = clients.min(cores).to_string();
                let (clients, seconds) = (clients.to_string(), seconds.to_string());
                command.args(["-c", &clients, "-j", &threads, "-T", &seconds, "-P", "1", "bench"])
            }
        };
        command
    }
}

/// The figures in what a generator has printed.
fn read(text: &str, seconds: u32, stolen: &Stolen) -> Option<Counted> {
    let first = f64::from(FIRST.min(seconds / 3));
    let each = text.lines().filter_map(interval).filter(|(at, _)| *at > first + 0.5);
    let (alone, taken): (Vec<_>, Vec<_>) = each.partition(|(at, _)| stolen.left_alone(*at));
    let left_out = if alone.len() < FEWEST { 0 } else { taken.len() };
    let used = if left_out > 0 { alone } else { [alone, taken].concat() };
    let rates: Vec<f64> = used.into_iter().map(|(_, rate)| rate).collect();
    let whole = text.lines().find_map(whole)?;
    #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
    let settled = rates.iter().sum::<f64>() / rates.len() as f64;
    settled.is_finite().then_some(Counted { settled, whole, left_out })
}

/// When an interval ended and its rate, from sysbench's `[ 5s ] thds: 8 tps: 4218.00 ...` or
/// pgbench's `progress: 5.0 s, 4218.0 tps, ...`.
fn interval(line: &str) -> Option<(f64, f64)> {
    if let Some(rest) = line.strip_prefix("progress: ") {
        let (at, rest) = rest.split_once(" s, ")?;
        return Some((at.parse().ok()?, rest.split(' ').next()?.parse().ok()?));
    }
    let (at, rest) = line.strip_prefix("[ ")?.split_once("s ]")?;
    let rate = rest.split_once("tps: ")?.1.split(' ').next()?;
    Some((at.parse().ok()?, rate.parse().ok()?))
}

fn whole(line: &str) -> Option<f64> {
    if let Some(rest) = line.strip_prefix("tps = ") {
        return rest.split(' ').next()?.parse().ok();
    }
    let rest = line.trim().strip_prefix("transactions:")?;
    rest.split_once('(')?.1.split(' ').next()?.parse().ok()
}

fn words(server: u32) -> Result<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{server}/cmdline"))?;
    Ok(bytes.split(|byte| *byte == 0).map(|it| String::from_utf8_lossy(it).into_owned()).collect())
}

fn sysbench(settings: &BTreeMap<String, String>, server: u32) -> Result<Vec<String>> {
    let words = words(server)?;
    let file = words.iter().find_map(|word| word.strip_prefix("--defaults-file="));
    let file = file.context("mariadbd runs without a file of settings")?;
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let socket = text.lines().find_map(|line| line.strip_prefix("socket="));
    let script = settings.get("script").map_or("oltp_read_only", String::as_str);
    let mut arguments = vec![
        script.to_owned(),
        "--db-driver=mysql".to_owned(),
        "--mysql-db=sbtest".to_owned(),
        "--mysql-user=kneepoint".to_owned(),
        format!("--mysql-socket={}", socket.context("mariadbd listens at no socket")?),
    ];
    let options = SYSBENCH.iter().filter_map(|name| Some((name, settings.get(*name)?)));
    arguments.extend(options.map(|(name, value)| format!("--{name}={}", value.replace('_', ""))));
    Ok(arguments)
}

fn pgbench(settings: &BTreeMap<String, String>, server: u32) -> Result<Vec<String>> {
    let words = words(server)?;
    let after = |flag: &str| {
        let place = words.iter().position(|word| word == flag);
        let value = place.and_then(|place| words.get(place + 1)).cloned();
        value.with_context(|| format!("postgres runs without {flag}"))
    };
    let setting = |name: &str, default: &str| {
        settings.get(name).cloned().unwrap_or_else(|| default.to_owned())
    };
    let (socket, port) = (after("-k")?, after("-p")?);
    let (script, protocol) = (setting("script", "select-only"), setting("protocol", "prepared"));
    let fixed = ["-h", &socket, "-p", &port, "-U", "postgres", "--no-vacuum"];
    let asked = ["-b", &script, "-M", &protocol];
    Ok(fixed.iter().chain(&asked).map(|word| (*word).to_owned()).collect())
}

/// Takes away the priority that the server was started with, from all its threads and children.
fn as_everybody(server: u32) -> Result<()> {
    let mut members = vec![server];
    let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
    let children = children.unwrap_or_default();
    members.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    let mut renice = Command::new("renice");
    renice.args(["-n", "0", "-p"]).env("LC_ALL", "C");
    for member in members {
        // Where the kernel has no groups of sessions there is none to lower.
        let _ = std::fs::write(format!("/proc/{member}/autogroup"), "0");
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{member}/task")) else { continue };
        renice.args(tasks.flatten().map(|entry| entry.file_name()));
    }
    let output = renice.output().context("renice")?;
    let told = String::from_utf8_lossy(&output.stderr);
    // A child of the server may end at any time.
    match told.lines().find(|line| !line.ends_with("No such process")) {
        Some(refused) => bail!("renice: {refused}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysbench_is_read_without_its_first_seconds() {
        let line = |second: u32, rate: f64| {
            format!("[ {second}s ] thds: 8 tps: {rate:.2} qps: 1.00 (r/w/o: 1.00/0.00/0.00)\n")
        };
        let rates = [1000.0, 2000.0, 3000.0, 5000.0, 5100.0, 4900.0, 5000.0, 5000.0, 5000.0];
        let mut text: String = (1..).zip(rates).map(|(second, rate)| line(second, rate)).collect();
        text.push_str("    transactions:                        36000  (4000.00 per sec.)\n");
        let nobody = Stolen::default();
        let found = read(&text, 9, &nobody).unwrap();
        assert_eq!(found, Counted { settled: 5000.0, whole: 4000.0, left_out: 0 });
        assert_eq!(read("nothing", 9, &nobody), None);
    }

    #[test]
    fn pgbench_is_read_too() {
        let text = "progress: 1.0 s, 100.0 tps, lat 0.1 ms stddev 0.1, 0 failed\n\
                    progress: 2.0 s, 300.0 tps, lat 0.1 ms stddev 0.1, 0 failed\n\
                    progress: 3.0 s, 500.0 tps, lat 0.1 ms stddev 0.1, 0 failed\n\
                    tps = 300.500000 (without initial connection time)\n";
        let expected = Counted { settled: 400.0, whole: 300.5, left_out: 0 };
        assert_eq!(read(text, 3, &Stolen::default()).unwrap(), expected);
    }
}

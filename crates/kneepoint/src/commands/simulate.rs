//! `kneepoint simulate`: what a machine of a twin file would do at levels.

use crate::cli::SimulateArgs;
use crate::{OK, print};
use anyhow::{Context, Result, anyhow, bail};
use kneepoint_model::sim::SimError;
use kneepoint_model::sweep::{Line, Simulated, Sweep, SweepError, sweep};
use kneepoint_model::twin::Twin;
use kneepoint_report::number;
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::{Level, Ratio, Seconds};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Largest twin file, bytes: a person wrote it.
const LARGEST: u64 = 16 << 20;
/// Lines of time per operation that are shown.
const SHOWN: usize = 4;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    schema: u32,
    twin: &'a str,
    seed: u64,
    levels: Vec<&'a Simulated>,
}

pub(crate) fn simulate(args: &SimulateArgs) -> Result<u8> {
    let path = args.twin.display();
    let about = fs::metadata(&args.twin).with_context(|| format!("{path}: cannot be read"))?;
    if !about.is_file() || about.len() > LARGEST {
        bail!("{path}: not a twin file: give a TOML file of at most 16 MiB (docs/twin.md)");
    }
    let text = fs::read_to_string(&args.twin).with_context(|| format!("{path}: cannot be read"))?;
    let wrong = |it: kneepoint_model::twin::TwinError| {
        anyhow!("{path}:{}:{}: {}", it.line, it.column, it.message)
    };
    let twin = Twin::parse(&text).map_err(wrong)?;
    let cores = args.cores().map_or_else(|| vec![twin.cores.count], |it| it.0.clone());
    let of = |cores: u32| args.clients().0.iter().map(move |&clients| Level { clients, cores });
    let levels: Vec<Level> = cores.into_iter().flat_map(of).collect();
    let how = Sweep {
        seed: args.seed,
        precision: args.precision,
        budget: args.budget,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
    };
    if let Some(directory) = &args.out {
        kept(&twin, &levels, &how, directory).with_context(|| path.to_string())?;
    }
    let outcomes = sweep(&twin, &levels, &how).map_err(|error| match error {
        SweepError::Twin(it) => wrong(it),
        other => anyhow!("{path}: {other}"),
    })?;
    let mut points = Vec::new();
    for (level, outcome) in levels.iter().zip(&outcomes) {
        points.push(outcome.as_ref().map_err(|error| failed(&path.to_string(), *level, error))?);
    }
    if args.json {
        let printed = Printed { schema: 1, twin: &twin.name, seed: args.seed, levels: points };
        print::out(&(serde_json::to_string_pretty(&printed)? + "\n"))?;
    } else {
        print::out(&table(&twin, args.seed, &points))?;
    }
    Ok(OK)
}

/// Writes the simulated run as a run directory.
fn kept(twin: &Twin, levels: &[Level], how: &Sweep, directory: &Path) -> Result<()> {
    let mut record = kneepoint_model::recorded::record(twin, levels, how)?;
    record.host.kneepoint = env!("CARGO_PKG_VERSION").to_owned();
    record.host.begun = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    record.host.arguments = super::run::arguments();
    kneepoint_lab::write_record(&record, directory)?;
    print::note(&format!("kneepoint: the simulated run lies in {}", directory.display()));
    Ok(())
}

fn failed(path: &str, level: Level, error: &SimError) -> anyhow::Error {
    let Level { clients, cores } = level;
    anyhow!("{path}: {clients} clients on {cores} cores: {error}")
}

/// A line a level.
fn table(twin: &Twin, seed: u64, points: &[&Simulated]) -> String {
    let mut text = format!("{}   simulated, seed {seed}\n\n", print::inert(&twin.name));
    text.push_str("clients  cores      ops/s  95 % int.   response  busy  time per operation\n");
    for point in points {
        let _ = writeln!(
            text,
            "{:>7} {:>6} {:>10}  {:<9} {:>10} {:>5}  {}",
            point.level.clients,
            point.level.cores,
            number::plain_rate(point.throughput),
            interval(point),
            number::plain_seconds(point.response),
            number::plain_percent(Ratio(point.busy.0 / f64::from(point.level.cores))),
            spent(&point.thread),
        );
    }
    if points.iter().any(|point| !point.settled) {
        text.push_str("~  not settled within --budget: the interval says too little\n");
    }
    text
}

fn interval(point: &Simulated) -> String {
    let sign = if point.settled { "±" } else { "~" };
    format!("{sign}{:.2} %", 100.0 * point.half_width.0)
}

/// The greatest lines of time per operation.
fn spent(lines: &[Line]) -> String {
    let all: f64 = lines.iter().map(|line| line.amount).sum();
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by(|a, b| b.amount.total_cmp(&a.amount));
    let shown = lines.iter().take(SHOWN).filter(|line| line.amount > 0.005 * all);
    let one = |line: &&Line| {
        let amount = number::plain_percent(Ratio(line.amount / all));
        format!("{} {amount}", named(line))
    };
    let text = shown.map(one).collect::<Vec<_>>().join(", ");
    if text.is_empty() { number::plain_seconds(Seconds(0.0)) } else { text }
}

fn named(line: &Line) -> String {
    match (line.kind, line.object.as_str()) {
        (LineKind::Running, _) => "running".to_owned(),
        (LineKind::Runnable, _) => "waiting for a core".to_owned(),
        (_, "") => "other".to_owned(),
        (_, object) => print::inert(object),
    }
}

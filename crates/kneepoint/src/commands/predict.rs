//! `kneepoint predict`: forecasts of levels and changes that a run did not measure, from its curve
//! and by its calibrated twin.

use crate::cli::PredictArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Result, anyhow, bail};
use kneepoint_model::calibrate::{Asked, Observed, Oracle};
use kneepoint_model::predict::{Curve, Forecast, Weights, forecast};
use kneepoint_model::twin::Change;
use kneepoint_report::number;
use kneepoint_vocab::findings::{CurvePoint, Residual, TwinForecast};
use kneepoint_vocab::{Findings, Level, PerSecond, Ratio};
use serde::Serialize;
use std::fmt::Write as _;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    schema: u32,
    recipe: &'a str,
    operation: &'a str,
    trustworthy: bool,
    measured: Vec<Measured>,
    /// From throughput alone; empty where the curve does not say.
    forecasts: &'a [Forecast],
    #[serde(skip_serializing_if = "Option::is_none")]
    twin: Option<&'a ByTwin>,
}

#[derive(Serialize)]
struct Measured {
    level: Level,
    throughput: f64,
}

pub(crate) fn predict(args: &PredictArgs) -> Result<u8> {
    let findings = crate::commands::report::findings(&args.directory)?;
    let path = args.directory.display();
    let most = findings.curve.points.iter().map(|point| point.level.clients).max().unwrap_or(1);
    let clients = args.clients.as_ref().map_or_else(|| vec![2 * most], |it| it.0.clone());
    let measured = cores_of(&findings);
    let cores = args.cores.as_ref().map_or_else(|| vec![measured], |it| it.0.clone());
    let of = |cores: u32| clients.iter().map(move |&clients| Level { clients, cores });
    let levels: Vec<Level> = cores.iter().flat_map(|&cores| of(cores)).collect();
    let changes = args.changes();
    let by_curve = if changes.is_empty() {
        by_curve(&findings, &levels)?
    } else {
        Err(anyhow!("a curve does not say what a change brings"))
    };
    let by_twin = by_twin(&findings, &levels, &changes);
    if let (Err(curve), Err(twin)) = (&by_curve, &by_twin) {
        if changes.is_empty() {
            bail!("{path}: {curve}; {twin}");
        }
        bail!("{path}: {twin}");
    }
    let points = points(&findings, measured);
    if args.json {
        let printed = Printed {
            schema: 2,
            recipe: &findings.recipe,
            operation: &findings.operation,
            trustworthy: findings.trustworthy,
            measured: points.iter().map(known).collect(),
            forecasts: by_curve.as_deref().unwrap_or_default(),
            twin: by_twin.as_ref().ok(),
        };
        print::out(&(serde_json::to_string_pretty(&printed)? + "\n"))?;
    } else {
        let mut text = heading(&findings, measured, points.len());
        match &by_curve {
            Ok(forecasts) => text.push_str(&table(forecasts)),
            Err(_) if !changes.is_empty() => {}
            Err(why) => text.push_str(&print::hanging("by the curve: ", 2, &format!("{why}\n"))),
        }
        match &by_twin {
            Ok(twin) => text.push_str(&twin_table(twin, !changes.is_empty())),
            Err(why) => text.push_str(&print::hanging("by a twin: ", 2, &format!("{why}\n"))),
        }
        if !findings.trustworthy {
            text.push_str("the run itself is not to be relied on: see its report\n");
        }
        print::out(&text)?;
    }
    Ok(if findings.trustworthy { OK } else { NOT_TRUSTWORTHY })
}

/// Forecasts that continue the curve, or why it cannot be continued.
fn by_curve(findings: &Findings, levels: &[Level]) -> Result<Result<Vec<Forecast>>> {
    let weights = Weights::shipped()?;
    let one = |level: &Level| {
        let Level { clients, cores } = level;
        forecast(&curve(findings, *cores), *level, &weights)
            .map_err(|why| anyhow!("{clients} clients on {cores} cores: {why}"))
    };
    Ok(levels.iter().map(one).collect())
}

/// What a calibrated twin says.
#[derive(Serialize)]
struct ByTwin {
    /// Root mean square of what it is off by at the measured levels.
    error: Ratio,
    residuals: Vec<Residual>,
    forecasts: Vec<TwinForecast>,
    open: Vec<String>,
}

fn by_twin(findings: &Findings, levels: &[Level], changes: &[Change]) -> Result<ByTwin> {
    let twin = super::calibrate::of(findings)?;
    let changes: Vec<Change> =
        changes.iter().map(|change| named(&twin.observed, change)).collect::<Result<_>>()?;
    let mut oracle = Oracle::new(&twin, findings.protocol.seed, super::calibrate::workers())?;
    let asked = levels.iter().map(|&level| Asked { level, changes: changes.clone() });
    let forecasts = asked.map(|it| oracle.ask(&it)).collect::<Result<_, _>>()?;
    let residuals = twin.residuals.clone();
    Ok(ByTwin { error: twin.error, residuals, forecasts, open: twin.open.clone() })
}

/// The change with the lock's whole name, where part of it was given.
fn named(seen: &Observed, change: &Change) -> Result<Change> {
    let whole = |part: &str| {
        let all: Vec<&str> = seen.locks.iter().map(|lock| lock.name.as_str()).collect();
        let like: Vec<&str> = all.iter().copied().filter(|name| name.contains(part)).collect();
        match (all.iter().find(|name| **name == part), &like[..]) {
            (Some(name), _) => Ok((*name).to_owned()),
            (None, [name]) => Ok((*name).to_owned()),
            (None, []) if all.is_empty() => {
                Err(anyhow!("no lock costs this run enough to be in its twin"))
            }
            (None, []) => {
                Err(anyhow!("no lock is called `{part}`; the twin has {}", all.join(", ")))
            }
            (None, some) => Err(anyhow!("`{part}` may be {}: give more of it", some.join(" or "))),
        }
    };
    Ok(match change {
        Change::Without(lock) => Change::Without(whole(lock)?),
        Change::Split(lock, parts) => Change::Split(whole(lock)?, *parts),
        Change::Kind(lock, kind) => Change::Kind(whole(lock)?, *kind),
        Change::Speed(factor) => Change::Speed(*factor),
    })
}

fn known(point: &CurvePoint) -> Measured {
    Measured { level: point.level, throughput: point.throughput.value.0 }
}

/// The most cores that were measured.
fn cores_of(findings: &Findings) -> u32 {
    let all = findings.by_cores.iter().map(|one| one.cores);
    let own = findings.curve.points.iter().map(|point| point.level.cores);
    all.chain(own).max().unwrap_or(1)
}

/// The points on so many cores, or on the most where those were not measured.
fn points(findings: &Findings, cores: u32) -> &[CurvePoint] {
    let same = findings.by_cores.iter().find(|one| one.cores == cores);
    let most = findings.by_cores.iter().max_by_key(|one| one.cores);
    same.or(most).map_or(&findings.curve.points, |one| &one.curve.points)
}

fn curve(findings: &Findings, cores: u32) -> Curve {
    let points = points(findings, cores);
    Curve {
        cores: points.iter().map(|point| point.level.cores).max().unwrap_or(1),
        points: points.iter().map(|it| (it.level.clients, it.throughput.value)).collect(),
    }
}

fn heading(findings: &Findings, cores: u32, levels: usize) -> String {
    format!(
        "{}   {levels} levels measured on {cores} cores   {}/s, intervals of 90 %\n\n",
        print::inert(&findings.recipe),
        print::inert(&findings.operation),
    )
}

/// Forecasts from throughput alone.
fn table(forecasts: &[Forecast]) -> String {
    let mut text = "clients  cores   forecast  interval          the curve is\n".to_owned();
    for it in forecasts {
        let members: Vec<&str> = it.members.iter().map(|member| member.words()).collect();
        let _ = writeln!(
            text,
            "{}  {}: {}",
            row(it.level, it.throughput, it.low, it.high),
            it.shape.words(),
            members.join(" + "),
        );
    }
    text
}

fn row(level: Level, throughput: PerSecond, low: PerSecond, high: PerSecond) -> String {
    let interval = format!("{} – {}", number::plain_rate(low), number::plain_rate(high));
    let forecast = number::plain_rate(throughput);
    format!("{:>7} {:>6} {forecast:>10}  {interval:<16}", level.clients, level.cores)
}

/// Forecasts by the twin; with changes, over the system as it is.
fn twin_table(twin: &ByTwin, changed: bool) -> String {
    let off = number::plain_percent(twin.error);
    let over = if changed { "over the system as it is" } else { "" };
    let mut text =
        format!("clients  cores   forecast  interval          by a twin, {off} off  {over}")
            .trim_end()
            .to_owned();
    text.push('\n');
    for it in &twin.forecasts {
        text.push_str(&row(it.level, it.throughput, it.low, it.high));
        if changed {
            let (low, high) = (it.ratio_low.0, it.ratio_high.0);
            let ratio = number::plain_factor(it.ratio);
            let _ = write!(text, "  {ratio} [{low:.2}–{high:.2}]");
        }
        text = text.trim_end().to_owned() + "\n";
    }
    for line in &twin.open {
        let _ = writeln!(text, "not determined: {}", print::inert(line));
    }
    text
}

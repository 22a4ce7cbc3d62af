//! `kneepoint predict`: forecasts of levels and changes that a run did not measure, from its curve
//! and by its calibrated twin.

use crate::cli::PredictArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Result, anyhow, bail};
use kneepoint_model::calibrate::{Asked, Observed, Oracle, Tried};
use kneepoint_model::predict::{Curve, Forecast, Weights, forecast};
use kneepoint_model::twin::Change;
use kneepoint_report::number;
use kneepoint_report::terminal::next as words;
use kneepoint_vocab::findings::{
    CurvePoint, Effect, NoTwin, Residual, TreatedCurve, TwinForecast, Undetermined,
};
use kneepoint_vocab::{Findings, Level, PerSecond, Ratio, VariantRole};
use serde::Serialize;
use std::fmt::Write as _;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    schema: u32,
    recipe: &'a str,
    operation: &'a str,
    /// The variant that is forecast; absent for the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
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
    let mut findings = crate::commands::report::findings(&args.directory)?;
    let path = args.directory.display();
    let most = findings.curve.points.iter().map(|point| point.level.clients).max().unwrap_or(1);
    let clients = args.clients.as_ref().map_or_else(|| vec![2 * most], |it| it.0.clone());
    let measured = cores_of(&findings);
    let cores = args.cores.as_ref().map_or_else(|| vec![measured], |it| it.0.clone());
    let of = |cores: u32| clients.iter().map(move |&clients| Level { clients, cores });
    let levels: Vec<Level> = cores.iter().flat_map(|&cores| of(cores)).collect();
    let variant = match &args.variant {
        Some(name) => Some(variant_of(&findings, name).map_err(|why| anyhow!("{path}: {why}"))?),
        None => None,
    };
    let changes = args.changes();
    let by_twin = by_twin(&findings, &levels, &changes, variant.as_ref());
    let by_curve = match &variant {
        _ if !changes.is_empty() => Err(anyhow!("a curve does not say what a change brings")),
        Some(Variant { curve: None, label, .. }) => {
            Err(anyhow!("{} was tried at one level, which is no curve", print::inert(label)))
        }
        Some(Variant { curve: Some(own), .. }) => {
            findings.curve = own.curve.clone();
            findings.by_cores = own.by_cores.clone();
            by_curve(&findings, &levels)?
        }
        None => by_curve(&findings, &levels)?,
    };
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
            variant: variant.as_ref().map(|it| it.label.as_str()),
            trustworthy: findings.trustworthy,
            measured: points.iter().map(known).collect(),
            forecasts: by_curve.as_deref().unwrap_or_default(),
            twin: by_twin.as_ref().ok(),
        };
        print::out(&(serde_json::to_string_pretty(&printed)? + "\n"))?;
    } else {
        let mut text = heading(&findings, variant.as_ref(), measured, points.len());
        match &by_curve {
            Ok(forecasts) => text.push_str(&table(forecasts)),
            Err(_) if !changes.is_empty() => {}
            Err(why) => text.push_str(&print::hanging("by the curve: ", 2, &format!("{why}\n"))),
        }
        match &by_twin {
            Ok(twin) => text.push_str(&twins(twin, !changes.is_empty(), variant.as_ref())),
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
    open: Vec<Undetermined>,
}

fn by_twin(
    findings: &Findings,
    levels: &[Level],
    changes: &[Change],
    variant: Option<&Variant>,
) -> Result<ByTwin> {
    let tried = match variant {
        Some(Variant { tried: None, label, .. }) => {
            bail!("what {} brings at one level is not known", print::inert(label))
        }
        Some(Variant { tried, .. }) => *tried,
        None => None,
    };
    let none = |why: NoTwin| anyhow!(words::no_twin(&why));
    let twin = super::calibrate::of(findings).map_err(none)?;
    let changes: Vec<Change> =
        changes.iter().map(|change| named(&twin.observed, change)).collect::<Result<_>>()?;
    let workers = super::calibrate::workers();
    let mut oracle = Oracle::new(&twin, findings.protocol.seed, workers).map_err(none)?;
    let asked = |level: Level| Asked { level, changes: changes.clone() };
    let mut ask = |&level: &Level| match &tried {
        Some(tried) => oracle.ask_tried(&asked(level), tried),
        None => oracle.ask(&asked(level)),
    };
    let forecasts = levels.iter().map(&mut ask).collect::<Result<_, _>>().map_err(none)?;
    let residuals = twin.residuals.clone();
    Ok(ByTwin { error: twin.error, residuals, forecasts, open: twin.open.clone() })
}

/// A variant that the run measured.
struct Variant {
    label: String,
    /// Its own curve, where the sweep measured that.
    curve: Option<TreatedCurve>,
    /// What it brought where it was tried.
    tried: Option<Tried>,
}

/// The variant of this name, or the only one whose name or label holds it.
fn variant_of(findings: &Findings, name: &str) -> Result<Variant> {
    let tried = |it: &&Effect| it.role == VariantRole::Treatment;
    let all: Vec<&Effect> = findings.effects.iter().filter(tried).collect();
    let like = |it: &&&Effect| it.variant.0.contains(name) || it.label.contains(name);
    let same = |it: &&&Effect| it.variant.0 == name || it.label == name;
    let found: Vec<&&Effect> = match all.iter().find(same) {
        Some(one) => vec![one],
        None => all.iter().filter(like).collect(),
    };
    let names = |all: &[&&Effect], with: &str| {
        let names: Vec<String> = all.iter().map(|it| print::inert(&it.variant.0)).collect();
        names.join(with)
    };
    let effect = match &found[..] {
        [one] => one,
        [] if all.is_empty() => bail!("the run tried no variants: `run --variant` tries them"),
        [] => {
            let all: Vec<&&Effect> = all.iter().collect();
            bail!("no variant is called `{name}`; the run has {}", names(&all, ", "))
        }
        some => bail!("`{name}` may be {}: give more of it", names(some, " or ")),
    };
    let level = findings.effects_at.unwrap_or(findings.focus);
    Ok(Variant {
        label: effect.label.clone(),
        curve: findings.treated.iter().find(|it| it.variant == effect.variant).cloned(),
        tried: effect.ratio.map(|ratio| Tried { level, ratio }),
    })
}

/// The change with the lock's whole name, where part of it was given. What costs CPU alone can be
/// away, but neither split nor of another kind.
fn named(seen: &Observed, change: &Change) -> Result<Change> {
    let locks: Vec<&str> = seen.locks.iter().map(|lock| lock.name.as_str()).collect();
    let of_cpu = seen.cpu.iter().map(|cause| cause.name.as_str());
    let confined = seen.confined.iter().map(|it| it.name.as_str());
    let all: Vec<&str> = locks.iter().copied().chain(confined).chain(of_cpu).collect();
    Ok(match change {
        Change::Without(cause) => Change::Without(whole("cause", cause, &all)?),
        Change::Split(lock, parts) => Change::Split(whole("lock", lock, &locks)?, *parts),
        Change::Kind(lock, kind) => Change::Kind(whole("lock", lock, &locks)?, *kind),
        Change::Speed(_) | Change::Uncrowded => change.clone(),
    })
}

/// The one whose name this is, or the only one whose name holds it.
fn whole(what: &str, part: &str, all: &[&str]) -> Result<String> {
    let like: Vec<&str> = all.iter().copied().filter(|name| name.contains(part)).collect();
    match (all.iter().find(|name| **name == part), &like[..]) {
        (Some(name), _) => Ok((*name).to_owned()),
        (None, [name]) => Ok((*name).to_owned()),
        (None, []) if all.is_empty() => {
            Err(anyhow!("no {what} costs this run enough to be in its twin"))
        }
        (None, []) => Err(anyhow!("no {what} is called `{part}`; the twin has {}", all.join(", "))),
        (None, some) => Err(anyhow!("`{part}` may be {}: give more of it", some.join(" or "))),
    }
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

fn heading(findings: &Findings, variant: Option<&Variant>, cores: u32, levels: usize) -> String {
    let label = |variant: &Variant| format!(", {}", print::inert(&variant.label));
    let variant = variant.map_or_else(String::new, label);
    format!(
        "{}{variant}   {levels} levels measured on {cores} cores   {}/s, intervals of 90 %\n\n",
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

/// Forecasts by the twin, and what is assumed of a variant that was tried.
fn twins(twin: &ByTwin, changed: bool, variant: Option<&Variant>) -> String {
    let mut text = twin_table(twin, changed || variant.is_some());
    if let Some(tried) = variant.and_then(|it| it.tried) {
        let ratio = number::plain_factor(tried.ratio.value);
        let clients = number::counted(tried.level.clients, "client");
        let beside = if changed { ", but for what the changes bring" } else { "" };
        let _ = writeln!(text, "assumed: it keeps the {ratio} of {clients}{beside}");
    }
    text
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
    for one in &twin.open {
        let _ = writeln!(text, "not determined: {}", print::inert(&words::undetermined(one)));
    }
    text
}

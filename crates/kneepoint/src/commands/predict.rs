//! `kneepoint predict`: forecasts of levels that a run did not measure, from its curve.

use crate::cli::PredictArgs;
use crate::{NOT_TRUSTWORTHY, OK, print};
use anyhow::{Result, anyhow};
use kneepoint_model::predict::{Curve, Forecast, Weights, forecast};
use kneepoint_report::number;
use kneepoint_vocab::findings::CurvePoint;
use kneepoint_vocab::{Findings, Level};
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
    forecasts: &'a [Forecast],
}

#[derive(Serialize)]
struct Measured {
    level: Level,
    throughput: f64,
}

pub(crate) fn predict(args: &PredictArgs) -> Result<u8> {
    let findings = crate::commands::report::findings(&args.directory)?;
    let path = args.directory.display();
    let weights = Weights::shipped()?;
    let most = findings.curve.points.iter().map(|point| point.level.clients).max().unwrap_or(1);
    let clients = args.clients.as_ref().map_or_else(|| vec![2 * most], |it| it.0.clone());
    let measured = cores_of(&findings);
    let cores = args.cores.as_ref().map_or_else(|| vec![measured], |it| it.0.clone());
    let mut forecasts = Vec::new();
    for &cores in &cores {
        let curve = curve(&findings, cores);
        for &clients in &clients {
            let level = Level { clients, cores };
            let one = forecast(&curve, level, &weights)
                .map_err(|why| anyhow!("{path}: {clients} clients on {cores} cores: {why}"))?;
            forecasts.push(one);
        }
    }
    let points = points(&findings, measured);
    if args.json {
        let printed = Printed {
            schema: 1,
            recipe: &findings.recipe,
            operation: &findings.operation,
            trustworthy: findings.trustworthy,
            measured: points.iter().map(known).collect(),
            forecasts: &forecasts,
        };
        print::out(&(serde_json::to_string_pretty(&printed)? + "\n"))?;
    } else {
        print::out(&table(&findings, measured, points.len(), &forecasts))?;
    }
    Ok(if findings.trustworthy { OK } else { NOT_TRUSTWORTHY })
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

fn table(findings: &Findings, cores: u32, levels: usize, forecasts: &[Forecast]) -> String {
    let mut text = format!(
        "{}   {levels} levels measured on {cores} cores   {}/s, from throughput alone\n\n",
        print::inert(&findings.recipe),
        print::inert(&findings.operation),
    );
    text.push_str("clients  cores   forecast  90 % interval     the curve is\n");
    for it in forecasts {
        let interval = format!("{} – {}", number::plain_rate(it.low), number::plain_rate(it.high));
        let members: Vec<&str> = it.members.iter().map(|member| member.words()).collect();
        let _ = writeln!(
            text,
            "{:>7} {:>6} {:>10}  {interval:<16}  {}: {}",
            it.level.clients,
            it.level.cores,
            number::plain_rate(it.throughput),
            it.shape.words(),
            members.join(" + "),
        );
    }
    if !findings.trustworthy {
        text.push_str("the run itself is not to be relied on: see its report\n");
    }
    text
}

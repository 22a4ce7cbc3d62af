//! Several runs of one experiment, each against the first.
//!
//! Two runs are two dates: nothing was interleaved, so their intervals are independent, and what
//! changed between them beside the system is for the reader to judge. `alike` lists what the
//! records know of that.

mod alike;
pub mod condition;
mod price;
mod ratio;

use crate::number::tally;
use condition::Condition;
use kneepoint_stats::two_way::STARTS_TO_RESAMPLE;
use kneepoint_vocab::comparison::{
    Apart, ComparedRun, Comparison, ComparisonCaveat, Incomparable, LevelRatio, RunPair,
};
use kneepoint_vocab::findings::CurvePoint;
use kneepoint_vocab::{Findings, Level, Phase, ProtocolName, RunRecord, StoppedBy, VariantId};
use std::collections::BTreeSet;

/// Version of [`Comparison`] that this crate makes.
pub const SCHEMA: u32 = 3;
/// The recipe of a command line: two of them may be two versions of one program.
const COMMAND: &str = "command";
/// Half-width that the luck of one start is allowed, in smallest effects, as for treatments.
const LUCK: f64 = 1.5;

/// One of the runs.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name, unique among the runs.
    pub name: &'a str,
    /// What it measured.
    pub record: &'a RunRecord,
    /// What [`crate::analyse`] found in it.
    pub findings: &'a Findings,
}

/// Compares every run with the first, and answers what is `asked`.
///
/// # Errors
/// Fewer than two runs, one in which nothing was measured, different experiments, or no level that
/// two runs share.
pub fn compare(runs: &[Run<'_>], asked: &[Condition]) -> Result<Comparison, Incomparable> {
    let [first, others @ ..] = runs else { return Err(Incomparable::TooFew) };
    if others.is_empty() {
        return Err(Incomparable::TooFew);
    }
    runs.iter().try_for_each(measured)?;
    others.iter().try_for_each(|run| same_experiment(first, run))?;
    let by_cores = runs.iter().any(|run| run.findings.by_cores.len() > 1);
    let pairs: Vec<RunPair> =
        others.iter().map(|run| pair(first, run, by_cores)).collect::<Result<_, _>>()?;
    let freedom = runs.iter().map(freedom).min().unwrap_or(1);
    Ok(Comparison {
        schema: SCHEMA,
        recipe: first.findings.recipe.clone(),
        operation: first.findings.operation.clone(),
        runs: runs.iter().map(compared).collect(),
        not_alike: alike::unlike(runs),
        caveats: caveats(runs, &pairs),
        conditions: asked.iter().map(|one| one.answer(&pairs, freedom)).collect(),
        trustworthy: runs.iter().all(|run| run.findings.trustworthy),
        pairs,
    })
}

fn measured(run: &Run<'_>) -> Result<(), Incomparable> {
    let name = || run.name.to_owned();
    if run.record.plan.protocol == ProtocolName::Profile {
        return Err(Incomparable::Profile { run: name() });
    }
    if points(run).iter().any(|point| point.throughput.value.0 > 0.0) {
        return Ok(());
    }
    Err(Incomparable::Empty { run: name() })
}

/// Throughputs of different recipes count different things.
fn same_experiment(first: &Run<'_>, run: &Run<'_>) -> Result<(), Incomparable> {
    let (one, other) = (&first.record.plan, &run.record.plan);
    let apart = |one: &String, other: &String| Apart {
        first: first.name.to_owned(),
        first_has: one.clone(),
        run: run.name.to_owned(),
        run_has: other.clone(),
    };
    if one.operation != other.operation {
        return Err(Incomparable::Operations { of: apart(&one.operation, &other.operation) });
    }
    if one.recipe == other.recipe {
        return Ok(());
    }
    Err(Incomparable::Recipes { of: apart(&one.recipe, &other.recipe) })
}

/// The points of all curves of a run, by cores and clients.
fn points<'a>(run: &Run<'a>) -> Vec<&'a CurvePoint> {
    let findings = run.findings;
    if findings.by_cores.len() > 1 {
        return findings.by_cores.iter().flat_map(|one| &one.curve.points).collect();
    }
    findings.curve.points.iter().collect()
}

/// What two runs have to agree in to be at one level: clients, and cores where a run has several
/// numbers of them. Machines of different sizes meet at the same number of clients.
fn place(level: Level, by_cores: bool) -> (u32, u32) {
    (if by_cores { level.cores } else { 0 }, level.clients)
}

fn pair(first: &Run<'_>, run: &Run<'_>, by_cores: bool) -> Result<RunPair, Incomparable> {
    let (under, over) = (points(first), points(run));
    let spread = (ratio::Side::of(first), ratio::Side::of(run));
    let at = |one: &CurvePoint, other: &CurvePoint| ratio::at((one, other), &spread, by_cores);
    let there = |point: &CurvePoint| {
        over.iter().find(|other| place(other.level, by_cores) == place(point.level, by_cores))
    };
    let levels: Vec<LevelRatio> =
        under.iter().filter_map(|point| Some(at(point, there(point)?))).collect();
    let empty = |of: &Run<'_>| Incomparable::Empty { run: of.name.to_owned() };
    let top = peak(&under).ok_or_else(|| empty(first))?;
    let other_top = peak(&over).ok_or_else(|| empty(run))?;
    if levels.is_empty() {
        let (first, run) = (first.name.to_owned(), run.name.to_owned());
        return Err(Incomparable::NoCommonLevel { first, run });
    }
    let places = |points: &[&CurvePoint]| -> BTreeSet<(u32, u32)> {
        points.iter().map(|point| place(point.level, by_cores)).collect()
    };
    let unmatched = places(&under).symmetric_difference(&places(&over)).map(|one| one.1).collect();
    Ok(RunPair {
        run: run.name.to_owned(),
        over: first.name.to_owned(),
        peak: at(top, other_top),
        levels,
        unmatched,
        price: price::price(first, run, |level| place(level, by_cores)),
    })
}

/// The point of the greatest throughput.
fn peak<'a>(points: &[&'a CurvePoint]) -> Option<&'a CurvePoint> {
    let greater = |best: &'a CurvePoint, point: &'a CurvePoint| {
        if point.throughput.value.0 > best.throughput.value.0 { point } else { best }
    };
    points.iter().copied().reduce(greater)
}

/// Starts of the baseline that the sweep was measured on.
fn starts(run: &Run<'_>) -> u32 {
    let trials = run.record.trials.iter().filter(|trial| {
        trial.counts()
            && trial.id.phase == Phase::Sweep
            && trial.id.variant.0 == VariantId::BASELINE
    });
    tally(trials.map(|trial| trial.id.start).collect::<BTreeSet<u32>>().len())
}

/// Half-width on the log scale that the luck of few starts is allowed; none where starts carry
/// the interval already. What another tool wrote is one start for each repetition.
fn allowance(run: &Run<'_>) -> f64 {
    let starts = starts(run);
    let carried = usize::try_from(starts).is_ok_and(|starts| starts >= STARTS_TO_RESAMPLE);
    if starts == 0 || carried || run.record.plan.protocol == ProtocolName::Imported {
        return 0.0;
    }
    LUCK * run.record.plan.smallest_effect.0.ln_1p() / f64::from(starts).sqrt()
}

/// Degrees of freedom of a run's intervals: starts where they carry it, else blocks; less one.
fn freedom(run: &Run<'_>) -> u32 {
    let starts = starts(run);
    let carried = usize::try_from(starts).is_ok_and(|starts| starts >= STARTS_TO_RESAMPLE);
    let units = if carried { starts } else { run.findings.protocol.sweep_blocks };
    units.saturating_sub(1).max(1)
}

fn compared(run: &Run<'_>) -> ComparedRun {
    let findings = run.findings;
    ComparedRun {
        name: run.name.to_owned(),
        begun: findings.host.begun.clone(),
        kneepoint: findings.host.kneepoint.clone(),
        summary: findings.summary.clone(),
        peak: peak(&points(run)).map_or(findings.curve.peak, |point| point.level),
        starts: starts(run),
        trustworthy: findings.trustworthy,
        noise_floor: (findings.noise.pairs > 1).then_some(findings.noise.floor),
    }
}

/// What limits a comparison, the gravest first.
fn caveats(runs: &[Run<'_>], pairs: &[RunPair]) -> Vec<ComparisonCaveat> {
    let distrusted = runs.iter().filter(|run| !run.findings.trustworthy);
    let mut reported: Vec<ComparisonCaveat> = distrusted
        .map(|run| ComparisonCaveat::NotTrustworthy { run: run.name.to_owned() })
        .collect();
    reported.extend(runs.iter().flat_map(of_one));
    if runs.iter().any(|run| run.record.plan.recipe == COMMAND)
        && runs.iter().any(|run| run.record.plan.summary != runs[0].record.plan.summary)
    {
        reported.push(ComparisonCaveat::CommandsDiffer);
    }
    if pairs.iter().any(|pair| !pair.unmatched.is_empty()) {
        reported.push(ComparisonCaveat::LevelsLeftOut);
    }
    reported
}

/// How one of the runs was measured, where that limits the comparison.
fn of_one(run: &Run<'_>) -> Vec<ComparisonCaveat> {
    let name = || run.name.to_owned();
    let imported = run.record.plan.protocol == ProtocolName::Imported;
    let blocks = run.findings.protocol.sweep_blocks;
    let mut reported = Vec::new();
    if ratio::is_bare(&run.findings.curve) {
        reported.push(ComparisonCaveat::SingleRepetition { run: name() });
    } else if !imported && allowance(run) > 0.0 {
        reported.push(ComparisonCaveat::FewStarts { run: name(), starts: starts(run) });
    } else if blocks < 3 {
        reported.push(ComparisonCaveat::FewRepetitions { run: name(), blocks });
    }
    if imported {
        reported.push(ComparisonCaveat::OtherTool { run: name() });
    }
    if matches!(
        run.findings.protocol.stopped_by,
        StoppedBy::Interrupted | StoppedBy::CutOff | StoppedBy::Failed(_)
    ) {
        reported.push(ComparisonCaveat::CutShort { run: name() });
    }
    reported
}

//! `kneepoint run`: the whole loop in one command.

use super::{against, recipe, report, variants};
use crate::cli::{ProtocolArg, RunArgs, UsageError};
use crate::progress::Bar;
use crate::{ERROR, OK, print, signals};
use anyhow::{Context, Result, bail};
use kneepoint_lab::RunOptions;
use kneepoint_lab::run::Outcome;
use kneepoint_vocab::{Host, Nanos, Plan, ProtocolName};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: &RunArgs) -> Result<u8> {
    if let Some(directory) = &args.resume {
        return resume(directory, args.json);
    }
    let arguments = arguments();
    let begun = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let host = kneepoint_probe::host(env!("CARGO_PKG_VERSION"), &begun, arguments);
    let options = options(args, &host)?;
    let plan = kneepoint_lab::plan(&options, host.cores)?;
    if args.dry_run {
        kneepoint_lab::require(&options)?;
        let fixed_work = options.recipe.baseline.fixed_work();
        return show_plan(&plan, fixed_work, args.json);
    }
    measure(&plan, args.json, |bar, stop| kneepoint_lab::run(&options, &plan, &host, bar, stop))
}

/// Measures, and tells what came of it.
fn measure(
    plan: &Plan,
    json: bool,
    run: impl FnOnce(&mut Bar, &Arc<AtomicBool>) -> Result<Outcome>,
) -> Result<u8> {
    let stop = signals::stop_on_signals()?;
    let mut bar = Bar::new(&plan.operation);
    let outcome = run(&mut bar, &stop)?;
    bar.finish();
    let findings = report::findings(&outcome.directory)
        .with_context(|| format!("what was measured lies in {}", outcome.directory.display()))?;
    let findings = report::with_next(findings);
    let code = report::finish_run(&findings, &outcome.directory, json)?;
    if outcome.interrupted {
        print::note("kneepoint: interrupted: the report tells only what was measured until then");
        return Ok(ERROR);
    }
    Ok(code)
}

/// Goes on with a run: its arguments are on record, and so is the seed.
fn resume(directory: &Path, json: bool) -> Result<u8> {
    let record = kneepoint_lab::open(directory)?;
    let reported = || directory.display().to_string();
    let Some(begun) = recipe::begun_with(&record.host) else {
        bail!("{}: it was not begun by `kneepoint run`", reported());
    };
    let host = kneepoint_probe::host(env!("CARGO_PKG_VERSION"), &record.host.begun, arguments());
    let mut options = options(&begun, &host).with_context(reported)?;
    options.seed = Some(record.plan.seed);
    options.directory = directory.to_owned();
    let plan = kneepoint_lab::plan(&options, host.cores)?;
    kneepoint_lab::resumable(&record, &plan, &host).with_context(reported)?;
    drop(record);
    measure(&plan, json, |bar, stop| kneepoint_lab::resume(&options, &plan, bar, stop))
}

/// Kneepoint's own arguments, for the record; what is no text is reported as near as text can.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn options(args: &RunArgs, host: &Host) -> Result<RunOptions> {
    let mut recipe = recipe::of(args)?;
    if !args.command.is_empty() && !args.command.iter().any(|word| word.contains("{clients}")) {
        print::note("kneepoint: the command has no {clients}: it is the same at every level");
    }
    if args.protocol == ProtocolArg::Published {
        let given = [
            ("--variant", !args.variant.is_empty()),
            ("--cross", !args.cross.is_empty()),
            ("--against", args.against.is_some()),
            ("--try-at", args.try_at.is_some()),
        ];
        for (option, given) in given {
            if given {
                let problem = format!("{option}: a published protocol measures the baseline alone");
                return Err(UsageError(problem).into());
            }
        }
    }
    if let Some(directory) = &args.against {
        against::add(&mut recipe, directory)?;
    }
    for variant in &args.variant {
        variants::add(&mut recipe, variant)?;
    }
    for pair in &args.cross {
        let added = recipe.add_cross(pair);
        added.map_err(|problem| UsageError(format!("--cross: {problem}")))?;
    }
    let whole = recipe.clone();
    let left_out = recipe.leave_out_lacking();
    // What the baseline lacks too is refused as a whole, not reported once a treatment.
    if recipe.needs().iter().any(|need| !need.here) {
        recipe = whole;
    } else {
        left_out.iter().for_each(|line| print::note(&format!("kneepoint: {line}")));
    }
    Ok(RunOptions {
        recipe,
        levels: args.levels.clone(),
        try_at: args.try_at,
        cores: args.cores.clone(),
        generator_cores: args.generator_cores,
        seed: args.seed,
        precision: args.precision,
        allowed_overhead: args.allow_overhead,
        budget: args.budget,
        tier: args.tier.map(Into::into),
        directory: args.out.clone().unwrap_or_else(|| default_directory(&host.begun)),
        numbered: args.out.is_none(),
        server: std::env::current_exe().context("finding Kneepoint's own executable")?,
    })
}

/// `kneepoint-runs/2026-11-21T20-31-05`, from the run's begin.
pub(crate) fn default_directory(begun: &str) -> PathBuf {
    let stamp: String = begun.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    PathBuf::from("kneepoint-runs").join(stamp)
}

fn show_plan(plan: &Plan, fixed_work: bool, json: bool) -> Result<u8> {
    if json {
        print::out(&format!("{}\n", serde_json::to_string_pretty(plan)?))?;
        return Ok(OK);
    }
    let list = |numbers: BTreeSet<u32>| {
        numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let clients = list(plan.levels.iter().map(|level| level.clients).collect());
    let cores = list(plan.levels.iter().map(|level| level.cores).collect());
    let mut text = format!("{}  {}\n\n", plan.recipe, plan.summary);
    text.push_str(&format!("clients     {clients}\ncores       {cores}\n"));
    if plan.generator_cores > 0 {
        text.push_str(&format!("generator   {} cores of its own\n", plan.generator_cores));
    }
    for variant in plan.sweep_variants.iter().filter_map(|id| plan.variant(id)) {
        text.push_str(&format!("sweep       also with {}\n", variant.label));
    }
    if plan.protocol == ProtocolName::Published {
        text.push_str(&format!("protocol    published: {}\n", published(plan, fixed_work)));
    } else {
        let clients = kneepoint_report::number::counted(plan.focus.clients, "client");
        text.push_str(&format!("treatments  at {clients}:\n"));
    }
    for variant in plan.variants.iter().skip(1) {
        text.push_str(&format!("            {} over {}\n", variant.label, variant.over));
    }
    let longest = kneepoint_lab::plan::duration(plan).min(plan.budget).seconds().0;
    text.push_str(&format!("seed        {}\ntime        at most {longest:.0} s\n", plan.seed));
    print::out(&text.lines().map(|line| print::inert(line) + "\n").collect::<String>())?;
    Ok(OK)
}

/// `at most 120 s a level, 5 times, after 360 s of warm-up`.
fn published(plan: &Plan, fixed_work: bool) -> String {
    let seconds = |length: Nanos| length.seconds().0;
    let most = if fixed_work { "at most " } else { "" };
    let times = match plan.sweep_blocks {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let warm_up = match plan.warm_up.map_or(0.0, seconds) {
        0.0 => "without warm-up".to_owned(),
        length => format!("after {length} s of warm-up"),
    };
    format!("{most}{} s a level, {times}, {warm_up}", seconds(plan.slice))
}

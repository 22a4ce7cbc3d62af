//! `kneepoint run`: the whole loop in one command.

use super::report;
use crate::cli::{CountingArgs, ProtocolArg, RunArgs, UsageError};
use crate::progress::Bar;
use crate::{ERROR, OK, print};
use anyhow::{Context, Result};
use kneepoint_lab::RunOptions;
use kneepoint_rig::recipe::Recipe;
use kneepoint_vocab::{Host, Nanos, Plan, ProtocolName};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: &RunArgs) -> Result<u8> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let begun = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let host = kneepoint_probe::host(env!("CARGO_PKG_VERSION"), &begun, arguments);
    let options = options(args, &host)?;
    let plan = kneepoint_lab::plan(&options, host.cores)?;
    if args.dry_run {
        let fixed_work = options.recipe.workload.fixed_work(&options.recipe.settings);
        return show_plan(&plan, fixed_work, args.json);
    }
    let stop = stop_on_signals()?;
    let mut bar = Bar::new();
    let outcome = kneepoint_lab::run(&options, &plan, &host, &mut bar, &stop)?;
    bar.finish();
    let findings = report::findings(&outcome.directory)?;
    let page = report::write_into(&findings, &outcome.directory)?;
    let code =
        if args.json { report::finish_json(&findings)? } else { report::finish(&findings, &page)? };
    if outcome.interrupted {
        print::note("kneepoint: interrupted: the report tells only what was measured until then");
        return Ok(ERROR);
    }
    Ok(code)
}

fn options(args: &RunArgs, host: &Host) -> Result<RunOptions> {
    let mut recipe = asked_for(args)?;
    if args.protocol == ProtocolArg::Published {
        recipe = recipe.as_published()?;
    }
    let whole = recipe.clone();
    let left_out = recipe.leave_out_lacking();
    // What the baseline lacks too is refused as a whole, not told once a treatment.
    if recipe.needs().iter().any(|need| !need.here) {
        recipe = whole;
    } else {
        left_out.iter().for_each(|line| print::note(&format!("kneepoint: {line}")));
    }
    Ok(RunOptions {
        recipe,
        levels: args.levels.clone(),
        cores: args.cores.clone(),
        generator_cores: args.generator_cores,
        seed: args.seed,
        precision: args.precision,
        budget: args.budget,
        tier: args.tier.map(Into::into),
        directory: args.out.clone().unwrap_or_else(|| default_directory(&host.begun)),
        server: std::env::current_exe().context("finding Kneepoint's own executable")?,
    })
}

/// The recipe that runs where none is named.
const DEFAULT: &str = "sqlite-shared-cache";

fn asked_for(args: &RunArgs) -> Result<Recipe> {
    if args.command.is_empty() {
        return recipe(args.recipe.as_deref().unwrap_or(DEFAULT));
    }
    let CountingArgs { throughput, json_pointer, operations, work } = &args.counting;
    let given = [
        ("throughput", throughput),
        ("json", json_pointer),
        ("operations", operations),
        ("work", work),
    ];
    let owned = |(key, value): (&str, &Option<String>)| Some((key.to_owned(), value.clone()?));
    let settings = given.into_iter().filter_map(owned).collect();
    let recipe =
        Recipe::of_command(&args.command, settings).map_err(|error| UsageError(error.problem))?;
    if !args.command.iter().any(|word| word.contains("{clients}")) {
        print::note("kneepoint: the command has no {clients}: it is the same at every level");
    }
    Ok(recipe)
}

/// A built-in recipe by its name, or a file by anything that looks like a path.
fn recipe(name: &str) -> Result<Recipe> {
    if name.ends_with(".toml") || name.contains('/') {
        return Ok(Recipe::load(Path::new(name))?);
    }
    Ok(Recipe::named(name)?)
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
    for arm in plan.sweep_arms.iter().filter_map(|id| plan.arm(id)) {
        text.push_str(&format!("sweep       also with {}\n", arm.label));
    }
    if plan.protocol == ProtocolName::Published {
        text.push_str(&format!("protocol    published: {}\n", published(plan, fixed_work)));
    } else {
        text.push_str(&format!("treatments  at {} clients:\n", plan.focus.clients));
    }
    for arm in plan.arms.iter().skip(1) {
        text.push_str(&format!("            {} over {}\n", arm.label, arm.over));
    }
    let longest = kneepoint_lab::plan::duration(plan).min(plan.budget).seconds().0;
    text.push_str(&format!("seed        {}\ntime        at most {longest:.0} s\n", plan.seed));
    print::out(&text)?;
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

/// Set by the first Ctrl-C, hang-up or termination; a second one ends Kneepoint at once, and its
/// systems end with it. Signals that Kneepoint was started to ignore, as by nohup(1), stay ignored.
fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let ignored = ignored_signals();
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|one| ignored >> (one - 1) & 1 == 0)
    {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(ERROR), stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .context("installing the signal handlers")?;
    }
    Ok(stop)
}

/// Bit n - 1 stands for signal n: proc_pid_status(5). None where the kernel does not tell.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

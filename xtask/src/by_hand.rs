//! Does Kneepoint count what a person counts who drives the same server by hand?
//!
//! Each round brings up a server of the recipe's kind and settings, with the priority of everybody,
//! and drives it at each level, in random order, with plain `sysbench` or `pgbench`; between the
//! rounds Kneepoint runs the recipe on servers of its own. Both see the same drift of the
//! machine so, and each level is compared over all rounds. Kneepoint repeats slices that the
//! hypervisor disturbed; by hand, seconds that it disturbed are left out. With `--profile` the same
//! generator tells what watching the server costs.

mod generator;
mod profiled;
mod stolen;
mod table;

use crate::aa::{effect_blocks, table, untreated};
use anyhow::{Context, Result, bail, ensure};
use generator::{Counted, Hand};
use kneepoint_rig::recipe::Recipe;
use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::{Setup, placement};
use kneepoint_stats::random::Generator;
use kneepoint_vocab::VariantId;
use profiled::{Profiled, Watch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FLAGS: &str = "--rounds N, --seconds S, --clients 1,2,8, --budget TIME, --profile, \
                     --tier full|fallback, --out DIR, --program FILE";

struct Options {
    recipes: Vec<String>,
    rounds: u32,
    /// Of each run by hand.
    seconds: u32,
    /// Levels; 1, 2, 8 and the recipe's last one where absent.
    clients: Option<Vec<u32>>,
    /// Of each of Kneepoint's runs.
    budget: String,
    /// Whether `profile` is held against runs instead.
    profile: bool,
    /// The tiers of `profile`.
    tiers: Vec<Watch>,
    out: PathBuf,
    program: PathBuf,
}

/// What was counted at a level.
#[derive(Clone, Debug, Default)]
struct Level {
    /// By hand without the first seconds, one figure a round.
    hand: Vec<f64>,
    /// By hand over the whole run.
    whole: Vec<f64>,
    /// By Kneepoint, one figure a run.
    kneepoint: Vec<f64>,
    /// Cores that the server kept busy, by Kneepoint, one figure a run.
    cores: Vec<f64>,
    profiled: Profiled,
}

/// Compares each recipe, prints its table, and leaves it in a file too.
///
/// # Errors
/// A server does not come up, a run fails, or a level does not agree.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    if !options.program.is_file() {
        bail!("no {}: run `cargo build --release` first", options.program.display());
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let mut apart = Vec::new();
    for name in &options.recipes {
        let levels = compare(&options, name).with_context(|| name.clone())?;
        let (text, agrees) = match options.profile {
            true => profiled::table(name, &levels),
            false => self::table::of(name, &levels),
        };
        let file = options.out.join(format!("by-hand-{name}.txt"));
        std::fs::write(&file, &text).with_context(|| file.display().to_string())?;
        println!("{text}\n{}\n", file.display());
        apart.extend((!agrees).then_some(name.as_str()));
    }
    ensure!(apart.is_empty(), "not as by hand: {}", apart.join(", "));
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        recipes: Vec::new(),
        rounds: 4,
        seconds: 15,
        clients: None,
        budget: "70s".to_owned(),
        profile: false,
        tiers: vec![Watch::Full, Watch::Fallback],
        out: std::env::temp_dir().join(format!("kneepoint-by-hand-{pid}")),
        program: crate::built("release/kneepoint"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().with_context(|| format!("{flag} wants a value"));
        match *flag {
            "--rounds" => options.rounds = value()?.parse().context("--rounds wants a number")?,
            "--seconds" => options.seconds = value()?.parse().context("--seconds: a number")?,
            "--clients" => {
                let levels = value()?.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>();
                options.clients = Some(levels.context("--clients wants numbers")?);
            }
            "--budget" => options.budget = (*value()?).to_owned(),
            "--profile" => options.profile = true,
            "--tier" => {
                let tier = Watch::named(value()?).context("--tier wants full or fallback")?;
                options.tiers = vec![tier];
            }
            "--out" => options.out = PathBuf::from(value()?),
            "--program" => options.program = std::path::absolute(value()?)?,
            name if !name.starts_with('-') => options.recipes.push(name.to_owned()),
            other => bail!("unknown flag {other}: by-hand takes RECIPE..., {FLAGS}"),
        }
    }
    ensure!(!options.recipes.is_empty(), "by-hand wants at least one recipe");
    ensure!(options.rounds > 0 && options.seconds > 1, "at least a round of two seconds");
    Ok(options)
}

fn compare(options: &Options, name: &str) -> Result<BTreeMap<u32, Level>> {
    let recipe = Recipe::named(name)?;
    let cores = u32::try_from(placement::allowed().len()).unwrap_or(1);
    let last = recipe.clients.iter().map(|level| level.resolve(cores)).max().unwrap_or(1);
    let mut clients = options.clients.clone().unwrap_or_else(|| vec![1, 2, 8, last]);
    clients.sort_unstable();
    clients.dedup();
    let sweep = sweep_alone(options, name)?;
    let kept = generator_cores(&options.program, &sweep, &clients)?;
    let scratch = Scratch::create()?;
    let setup = Setup {
        server: options.program.clone(),
        scratch: scratch.path().to_owned(),
        variant: VariantId::new(VariantId::BASELINE),
        settings: recipe.settings.clone(),
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: clients.last().copied().unwrap_or(1),
        seed: 1,
        undo: Undo::begin(scratch.path(), &options.program),
    };
    recipe.workload.prepare(&setup)?;
    let mut order = Generator::new(u64::from(std::process::id()));
    let mut levels: BTreeMap<u32, Level> = BTreeMap::new();
    for round in 0..options.rounds {
        by_kneepoint(options, (name, &sweep), round, &clients, &mut levels)?;
        // One process differs from the next, so each round has one of its own.
        let system = recipe.workload.start(&Setup { start: round, ..setup.clone() })?;
        let server = *system.pids().first().context("the server has no process")?;
        let hand = Hand::of(recipe.workload.name(), &recipe.settings, server, kept)?;
        let mut shuffled = clients.clone();
        order.shuffle(&mut shuffled);
        for level in shuffled {
            let entry = levels.entry(level).or_default();
            if options.profile {
                let what = (level, options.tiers.as_slice());
                entry.profiled.take(&hand, &options.program, server, what)?;
                println!("{name}  round {round}  {level:>3} clients, profiled");
                continue;
            }
            let counted = hand.drive(level, options.seconds)?;
            let Counted { settled, whole, left_out } = counted;
            println!(
                "{name}  round {round}  {level:>3} clients by hand  {settled:.0}/s, \
                 {left_out} disturbed seconds left out"
            );
            entry.hand.push(settled);
            entry.whole.push(whole);
        }
        system.stop()?;
    }
    by_kneepoint(options, (name, &sweep), options.rounds, &clients, &mut levels)?;
    Ok(levels)
}

fn list(clients: &[u32]) -> String {
    clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The recipe without treatments, in a file: what is compared is the curve.
fn sweep_alone(options: &Options, name: &str) -> Result<PathBuf> {
    let path = crate::root().join(format!("recipes/{name}.toml"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut recipe = untreated(&text)?;
    effect_blocks(table(&mut recipe, "protocol")?, 1);
    let file = options.out.join(format!("{name}.toml"));
    std::fs::write(&file, toml::to_string(&recipe)?).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// How many cores Kneepoint gives to the generator alone.
fn generator_cores(program: &Path, recipe: &Path, clients: &[u32]) -> Result<usize> {
    let output = Command::new(program)
        .arg("run")
        .arg(recipe)
        .args(["--dry-run", "--json", "--levels", &list(clients)])
        .output()
        .with_context(|| program.display().to_string())?;
    let plan: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the plan of {}: {}", recipe.display(), said.trim())
    })?;
    Ok(plan["generator_cores"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0))
}

/// One run of the recipe; its throughput at each level.
fn by_kneepoint(
    options: &Options,
    (name, recipe): (&str, &Path),
    round: u32,
    clients: &[u32],
    levels: &mut BTreeMap<u32, Level>,
) -> Result<()> {
    let output = Command::new(&options.program)
        .arg("run")
        .arg(recipe)
        .args(["--json", "--budget", &options.budget, "--levels", &list(clients), "--out"])
        .arg(options.out.join(format!("{name}-{round}")))
        .stdin(Stdio::null())
        .output()
        .with_context(|| options.program.display().to_string())?;
    let findings: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("Kneepoint: {}: {}", output.status, said.trim())
    })?;
    for point in findings["curve"]["points"].as_array().into_iter().flatten() {
        let level = point["level"]["clients"].as_u64().and_then(|it| u32::try_from(it).ok());
        let found = point["throughput"]["value"].as_f64();
        let (Some(level), Some(found)) = (level, found.filter(|it| *it > 0.0)) else { continue };
        println!("{name}  round {round}  {level:>3} clients, Kneepoint  {found:.0}/s");
        let entry = levels.entry(level).or_default();
        entry.kneepoint.push(found);
        entry.cores.extend(demand(&findings, level).map(|demand| demand * found));
    }
    let half = findings["protocol"]["precision"].as_f64().unwrap_or(f64::NAN);
    println!("{name}  round {round}  interval at the peak +-{:.1} %", 100.0 * half);
    Ok(())
}

/// CPU seconds of the server for an operation at a level.
fn demand(findings: &Value, clients: u32) -> Option<f64> {
    let ledgers = findings["ledgers"].as_array()?;
    let of = ledgers.iter().find(|it| it["level"]["clients"].as_u64() == Some(clients.into()))?;
    of["core"]["demand"]["value"].as_f64()
}

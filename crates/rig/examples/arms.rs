//! Runs each arm of a built-in recipe for a moment and prints what it counted and proved.
//!
//! `cargo run --release -p kneepoint-rig --example arms [RECIPE]`
//!
//! A demonstration of the interface, not a measurement: one slice an arm, no randomised blocks,
//! no intervals.

use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::{Recipe, Setup, serve};
use std::io::Write as _;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    match args.next() {
        Some(word) if word == "serve-workload" => Ok(serve(args)),
        name => show(name.as_deref().unwrap_or("sqlite-shared-cache")),
    }
}

fn show(recipe: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let recipe = Recipe::named(recipe)?;
    let scratch = Scratch::create()?;
    for arm in recipe.arms() {
        let setup = Setup {
            server: std::env::current_exe()?,
            scratch: scratch.path().to_owned(),
            arm: arm.plan.id.clone(),
            settings: arm.settings,
            start: 0,
            max_clients: 4,
            seed: 1,
        };
        let begun = Instant::now();
        let mut system = recipe.workload.start(&setup)?;
        let ready = begun.elapsed();
        write!(out, "{:22} ready in {ready:4.1?}", arm.plan.id.to_string())?;
        for clients in [1, 2, 4] {
            system.begin(clients)?;
            sleep(Duration::from_millis(300));
            system.mark()?;
            sleep(Duration::from_millis(1000));
            let slice = system.finish()?;
            let rate = slice.operations as f64 / slice.counted_over.seconds().0;
            write!(out, "  {clients}: {rate:6.0}/s")?;
        }
        let (proofs, settings) = system.describe()?;
        writeln!(out)?;
        for proof in proofs {
            let word = if proof.active { "ok " } else { "NOT" };
            writeln!(out, "    {word} {}: {} ({})", proof.what, proof.found, proof.expected)?;
        }
        if arm.plan.id.0 == "baseline" {
            settings.iter().try_for_each(|(name, value)| writeln!(out, "    {name} = {value}"))?;
        }
        system.stop()?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `run --against DIR`: what an earlier run measured becomes a variant of this one.

use super::recipe as recipes;
use crate::cli::{RunArgs, UsageError};
use crate::print;
use anyhow::{Context as _, Result};
use kneepoint_lab::against;
use kneepoint_rig::environment::{self, Variables};
use kneepoint_rig::recipe::{Earlier, Recipe};
use kneepoint_rig::workload::command;
use kneepoint_vocab::{Clients, RunRecord, VariantStart};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The setting that says where a command runs, and the variable that says where somebody stood.
const DIRECTORY: &str = "directory";
const STANDING: &str = "PWD";

/// The begin of a run is on record in whole seconds.
const ROUNDED: Duration = Duration::from_secs(1);

/// Adds it, and says whether it is another binary.
pub(crate) fn add(recipe: &mut Recipe, directory: &Path) -> Result<()> {
    let record = kneepoint_lab::open(directory).context("--against")?;
    let reported = directory.display();
    let said = added(recipe, directory, &record)
        .map_err(|why| UsageError(format!("--against {reported}: {why}")))?;
    print::note(&format!("kneepoint: --against {reported}: {said}"));
    Ok(())
}

/// Adds it; a line that says what is compared.
fn added(recipe: &mut Recipe, directory: &Path, record: &RunRecord) -> Result<String, String> {
    let start = against::baseline(record)?;
    if (&record.plan.recipe, &record.plan.operation) != (&recipe.name, &recipe.operation) {
        return Err(format!(
            "it is a run of {}, and this is one of {}",
            record.plan.recipe, recipe.name
        ));
    }
    let args = recipes::begun_with(&record.host)
        .ok_or("its arguments are of another version of Kneepoint, and not understood")?;
    let earlier = recipes::of(&args).map_err(|error| error.to_string())?;
    if earlier.name != record.plan.recipe {
        return Err(format!("its recipe was {}, and is {} now", record.plan.recipe, earlier.name));
    }
    let measured = placed(&earlier, start);
    unchanged(&measured, &args, record, start)?;
    let same = against::same_programs(&measured.programs(), &recipe.programs());
    let environment = match is_command_alone(recipe) {
        true => {
            let now = environment::of(None, &Variables::default());
            against::variables(&start.environment, &now)?
        }
        // Servers do not see what the calling shell sets.
        false => Default::default(),
    };
    let name = directory.canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let binary = match same {
        Some(true) => ", the same binary",
        Some(false) => ", another binary",
        None => "",
    };
    let label = format!("as in {}{binary}", name.as_deref().unwrap_or("that run"));
    let label = label.replace(char::is_control, " ");
    recipe.add_against(&label, &Earlier { settings: measured.settings.clone(), environment })?;
    let changes = recipe.treatments.last().map(|one| one.variant_plan().changes.join(", "));
    let changes = changes.unwrap_or_default();
    let programs = against::reported(&measured.programs());
    Ok(match same {
        Some(true) => format!("the same binary, {programs}; {changes}"),
        Some(false) => {
            let own = against::reported(&recipe.programs());
            format!("another binary, {programs}; the baseline runs {own}")
        }
        None => changes,
    })
}

/// A command that is the system itself, started as the calling shell would start it.
fn is_command_alone(recipe: &Recipe) -> bool {
    recipe.workload.name() == command::NAME && recipe.baseline.clients() == Clients::Inside
}

/// The recipe where it was run: a program by a relative path may be that of another directory,
/// which the record knows where the shell said so.
fn placed(earlier: &Recipe, start: &VariantStart) -> Recipe {
    let leads = |recipe: &Recipe| against::changed(&start.proofs, &recipe.programs()).is_none();
    let stood = start.environment.iter().find(|(name, _)| name == STANDING);
    let own = earlier.workload.name() == command::NAME && !earlier.settings.contains_key(DIRECTORY);
    if let Some((_, stood)) = stood.filter(|_| own && !leads(earlier)) {
        let mut settings = earlier.settings.clone();
        settings.insert(DIRECTORY.to_owned(), stood.clone());
        if let Ok(baseline) = earlier.workload.configure(&settings) {
            let mut moved = earlier.clone();
            (moved.settings, moved.baseline) = (settings, baseline);
            if leads(&moved) {
                return moved;
            }
        }
    }
    earlier.clone()
}

/// Whether all that was measured is still what it was, as far as that can be told.
fn unchanged(
    earlier: &Recipe,
    args: &RunArgs,
    record: &RunRecord,
    start: &VariantStart,
) -> Result<(), String> {
    if let Some(why) = against::changed(&start.proofs, &earlier.programs()) {
        return Err(why);
    }
    let begun = record.host.begun.parse::<jiff::Timestamp>().ok();
    let begun = begun.map(|begun| SystemTime::from(begun) + ROUNDED);
    let file = args.recipe.as_ref().filter(|name| name.ends_with(".toml") || name.contains('/'));
    let mut files: Vec<PathBuf> = file.map(PathBuf::from).into_iter().collect();
    files.extend(against::without_build(&start.proofs).into_iter().map(PathBuf::from));
    for file in files {
        let written = file.metadata().and_then(|about| about.modified()).ok();
        if written.zip(begun).is_some_and(|(written, begun)| written > begun) {
            return Err(format!(
                "{} was changed since, and what it held then is not on record",
                file.display()
            ));
        }
    }
    let is_own = against::reported(&start.proofs).is_empty() && earlier.programs().is_empty();
    let version = env!("CARGO_PKG_VERSION");
    if is_own && record.host.kneepoint != version {
        let then = &record.host.kneepoint;
        return Err(format!("Kneepoint {then} measured it, and this is {version}"));
    }
    Ok(())
}

//! The recipe that a command line names, now or in an earlier run.

use crate::cli::{Cli, Command, CountingArgs, ProtocolArg, RunArgs, UsageError};
use anyhow::Result;
use clap::Parser as _;
use kneepoint_rig::recipe::Recipe;
use kneepoint_vocab::Host;
use std::path::Path;

/// The recipe that runs where none is named.
const DEFAULT: &str = "sqlite-shared-cache";

/// A built-in recipe by its name, or a file by anything that looks like a path.
pub(crate) fn asked_for(name: &str) -> Result<Recipe> {
    if name.ends_with(".toml") || name.contains('/') {
        return Ok(Recipe::load(Path::new(name))?);
    }
    Ok(Recipe::named(name)?)
}

/// What a command line of `run` asks for, without variants of its own.
pub(crate) fn of(args: &RunArgs) -> Result<Recipe> {
    let recipe = match args.command.is_empty() {
        true => asked_for(args.recipe.as_deref().unwrap_or(DEFAULT))?,
        false => of_command(args)?,
    };
    match args.protocol {
        ProtocolArg::Default => Ok(recipe),
        ProtocolArg::Published => Ok(recipe.as_published()?),
    }
}

fn of_command(args: &RunArgs) -> Result<Recipe> {
    let CountingArgs { throughput, json_pointer, operations, work } = &args.counting;
    let given = [
        ("throughput", throughput),
        ("json", json_pointer),
        ("operations", operations),
        ("work", work),
    ];
    let owned = |(key, value): (&str, &Option<String>)| Some((key.to_owned(), value.clone()?));
    let settings = given.into_iter().filter_map(owned).collect();
    let recipe = Recipe::of_command(&args.command, settings);
    recipe.map_err(|error| UsageError(error.problem).into())
}

/// The arguments that a run was begun with, as they are on record; none where it was not begun by
/// `kneepoint run`.
pub(crate) fn begun_with(host: &Host) -> Option<Box<RunArgs>> {
    let words = std::iter::once("kneepoint").chain(host.arguments.iter().map(String::as_str));
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Some(Command::Run(args))) if args.resume.is_none() => Some(args),
        _ => None,
    }
}

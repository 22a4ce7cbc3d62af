//! Variants: those that `run --variant` asks for, and those that `list --variants` shows.

use super::recipe;
use crate::cli::{ListArgs, UsageError};
use crate::{OK, print};
use anyhow::Result;
use kneepoint_rig::recipe::{Fitting, Recipe};
use kneepoint_rig::treatment::AUTO;
use kneepoint_vocab::{ProtocolName, Relief};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Adds what `--variant` asks for: one variant, or those that fit.
pub(crate) fn add(recipe: &mut Recipe, typed: &str) -> Result<()> {
    match typed.split_once(':') {
        None if typed.trim() == AUTO => {
            add_fitting(recipe, None);
            Ok(())
        }
        Some((name, directory)) if name.trim() == AUTO => {
            add_fitting(recipe, Some(&causes(Path::new(directory.trim()))?));
            Ok(())
        }
        _ => {
            let added = recipe.add_variant(typed);
            added.map_err(|problem| UsageError(format!("--variant: {problem}")).into())
        }
    }
}

/// What could relieve the causes of an earlier run or profile, with their names.
type Causes = Vec<(Relief, Vec<String>)>;

fn causes(directory: &Path) -> Result<Causes> {
    let record = kneepoint_lab::open(directory)?;
    if record.plan.protocol == ProtocolName::Profile {
        let profile = kneepoint_analysis::profile::profile(&record);
        return Ok(kneepoint_analysis::reliefs(profile.causes.iter().map(|one| &one.cause)));
    }
    Ok(kneepoint_analysis::reliefs(kneepoint_analysis::analyse(&record).causes.iter()))
}

/// Adds those that fit, and says of each why it is tried.
fn add_fitting(recipe: &mut Recipe, causes: Option<&Causes>) {
    let wanted: Option<Vec<Relief>> =
        causes.map(|causes| causes.iter().map(|(relief, _)| *relief).collect());
    let added = recipe.add_fitting(wanted.as_deref());
    for one in &added {
        let found = |causes: &Causes| {
            let names = causes.iter().find(|(relief, _)| Some(*relief) == one.relieves);
            names.map_or_else(String::new, |(_, names)| format!("found: {}; ", names.join(", ")))
        };
        let found = causes.map(found).unwrap_or_default();
        let (id, changes, expects) = (&one.id, one.changes.join(", "), &one.expects);
        print::note(&format!("kneepoint: {AUTO} tries {id} ({changes}): {found}{expects}"));
    }
    if added.is_empty() {
        let why = match causes {
            Some(causes) if causes.is_empty() => "no cause found there is one that they relieve",
            _ => "all that fit are tried already, or lack something here",
        };
        print::note(&format!("kneepoint: {AUTO} adds no variant: {why}; see list --variants"));
    }
}

/// Where descriptions begin.
const COLUMN: usize = 25;

/// `kneepoint list --variants`.
pub(crate) fn list(args: &ListArgs) -> Result<u8> {
    let recipe = match &args.recipe {
        Some(name) => recipe::asked_for(name)?,
        None => Recipe::of_command(&["env".to_owned()], BTreeMap::new())
            .map_err(|error| UsageError(error.problem))?,
    };
    let (fitting, settings) = (recipe.fitting(), recipe.known_settings());
    let text = if args.json {
        let all = json!({ "recipe": recipe.name, "variants": fitting, "settings": settings });
        format!("{}\n", serde_json::to_string_pretty(&all)?)
    } else {
        as_text(args.recipe.as_deref(), &fitting, &settings)
    };
    print::out(&text)?;
    Ok(OK)
}

fn as_text(recipe: Option<&str>, fitting: &[Fitting], settings: &[String]) -> String {
    let (title, run) = match recipe {
        Some(name) => (name.to_owned(), format!("kneepoint run {name} --variant NAME")),
        None => {
            let run = "kneepoint run --variant NAME -- COMMAND".to_owned();
            ("a command of your own".to_owned(), run)
        }
    };
    let mut text = format!("variants of {} ({})\n", print::inert(&title), print::inert(&run));
    let all = fitting.iter();
    let here = |one: &&Fitting| !one.tried && one.lacking.is_none();
    let parts: [(&str, Vec<&Fitting>); 3] = [
        ("tried without being asked", all.clone().filter(|one| one.tried).collect()),
        ("can be tried", all.clone().filter(here).collect()),
        ("cannot be tried here", all.filter(|one| !one.tried && !here(one)).collect()),
    ];
    for (heading, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
        text.push_str(&format!("\n{heading}\n"));
        for one in part {
            let head = format!("  {:<22} ", one.id);
            text.push_str(&print::hanging(&head, COLUMN, &described(one)));
        }
    }
    let own = "of your own (--variant 'NAME: CHANGES', see run --help); settings for set.KEY=VALUE";
    text.push_str(&format!("\n{own}\n"));
    text.push_str(&print::hanging("  ", 2, &settings.join(", ")));
    text
}

/// What it is, what it should relieve, what it changes, and what it lacks.
fn described(one: &Fitting) -> String {
    let changes = one.changes.join(", ");
    let parts = [one.label.clone(), one.expects.clone(), changes];
    let mut said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    said.extend(one.lacking.clone());
    said.join("; ")
}

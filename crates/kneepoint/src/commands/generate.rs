//! `kneepoint --generate`: man pages, completions and schemas, from the same structures as the
//! parser and the reports.

use crate::cli::{Cli, Generate};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate as complete};
use clap_mangen::Man;

pub(crate) fn generate(what: Generate) -> Result<u8> {
    if let Some(schema) = schema(what) {
        crate::print::out(&schema)?;
        return Ok(crate::OK);
    }
    let mut bytes = Vec::new();
    match shell(what) {
        Some(shell) => complete(shell, &mut with_recipes()?, "kneepoint", &mut bytes),
        None => page(what)?.render(&mut bytes)?,
    }
    if matches!(what, Generate::CompleteFish) {
        bytes.extend_from_slice(recipes_for_fish()?.as_bytes());
    }
    crate::print::out(&String::from_utf8_lossy(&bytes))?;
    Ok(crate::OK)
}

/// The names of recipes, which the script for fish lacks: it is made of options alone.
fn recipes_for_fish() -> Result<String> {
    let mut script = String::new();
    for recipe in kneepoint_rig::recipe::all()? {
        for command in ["run", "list"] {
            script.push_str(&format!(
                "complete -c kneepoint -n \"__fish_kneepoint_using_subcommand {command}\" \
                 -a \"{}\" -d 'recipe'\n",
                recipe.name
            ));
        }
    }
    Ok(script)
}

/// What programs can rely on in the JSON that commands print.
fn schema(what: Generate) -> Option<String> {
    Some(match what {
        Generate::SchemaFindings => kneepoint_report::json::schema(),
        Generate::SchemaProfile => kneepoint_report::json::profile_schema(),
        Generate::SchemaComparison => kneepoint_report::json::comparison_schema(),
        _ => return None,
    })
}

const fn shell(what: Generate) -> Option<Shell> {
    Some(match what {
        Generate::CompleteBash => Shell::Bash,
        Generate::CompleteZsh => Shell::Zsh,
        Generate::CompleteFish => Shell::Fish,
        Generate::CompleteElvish => Shell::Elvish,
        Generate::CompletePowershell => Shell::PowerShell,
        _ => return None,
    })
}

/// The command line where the names of built-in recipes are known, for completions.
fn with_recipes() -> Result<clap::Command> {
    let names = kneepoint_rig::recipe::all()?.into_iter().map(|recipe| recipe.name.leak() as &str);
    let names = PossibleValuesParser::new(names.collect::<Vec<_>>());
    let offered = |command: clap::Command| {
        let names = names.clone();
        command.mut_arg("recipe", |recipe| recipe.value_parser(names))
    };
    Ok(Cli::command().mut_subcommand("run", offered).mut_subcommand("list", offered))
}

/// The man page of Kneepoint or of one of its commands.
fn page(what: Generate) -> Result<Man> {
    // Nobody reads a page on how to get help.
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let value = what.to_possible_value().context("a hidden page")?;
    let Some(name) = value.get_name().strip_prefix("man-") else { return Ok(Man::new(all)) };
    let command = all.find_subcommand(name).context("a page of no command")?;
    Ok(Man::new(command.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_a_page_refers_to_has_one() {
        let pages: Vec<String> = Generate::value_variants()
            .iter()
            .filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()))
            .collect();
        for command in Cli::command().get_subcommands().filter(|one| !one.is_hide_set()) {
            let page = format!("man-{}", command.get_name());
            assert!(pages.contains(&page), "no {page}");
        }
        let mut bytes = Vec::new();
        page(Generate::ManRun).unwrap().render(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(".TH kneepoint-run 1") && text.contains("budget"), "{text}");
        let mut bytes = Vec::new();
        page(Generate::Man).unwrap().render(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let listed = text.lines().filter_map(|line| line.strip_prefix("kneepoint\\-"));
        let listed: Vec<&str> = listed.filter_map(|line| line.strip_suffix("(1)")).collect();
        assert!(listed.contains(&"run"), "{text}");
        for command in listed {
            assert!(pages.contains(&format!("man-{command}")), "no man-{command}");
        }
    }

    #[test]
    fn completions_know_the_recipes() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut bytes = Vec::new();
            complete(shell, &mut with_recipes().unwrap(), "kneepoint", &mut bytes);
            let mut script = String::from_utf8(bytes).unwrap();
            if shell == Shell::Fish {
                script.push_str(&recipes_for_fish().unwrap());
            }
            // Of `run RECIPE` and of `list --variants RECIPE`.
            assert!(script.matches("supersmack-select-key").count() >= 2, "{shell}: {script}");
        }
    }
}

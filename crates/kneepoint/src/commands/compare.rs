//! `kneepoint compare`: run directories beside each other; reads nothing else.

use super::{recipe, report};
use crate::cli::{CompareArgs, UsageError};
use crate::{CONDITION_HOLDS, NOT_TRUSTWORTHY, OK, print};
use anyhow::Result;
use kneepoint_analysis::compare::{Run, compare as compared};
use kneepoint_report::{export, html, json, terminal};
use kneepoint_vocab::comparison::Answer;
use kneepoint_vocab::{Comparison, Findings, RunRecord};
use std::path::{Path, PathBuf};

pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let names = names(&args.directories)?;
    let read = |directory: &PathBuf| -> Result<(RunRecord, Findings)> {
        let record = kneepoint_lab::open(directory)?;
        let findings = kneepoint_analysis::analyse(&record);
        Ok((record, findings))
    };
    let opened: Vec<(RunRecord, Findings)> =
        args.directories.iter().map(read).collect::<Result<_>>()?;
    let runs: Vec<Run<'_>> = names
        .iter()
        .zip(&opened)
        .map(|(name, (record, findings))| Run { name, record, findings })
        .collect();
    let comparison = compared(&runs, &args.fail_if)
        .map_err(|why| UsageError(terminal::comparison::refusal(&why)))?;
    if let Some(page) = &args.html {
        report::write_there(&html::comparison::render(&comparison), page)?;
    }
    let mut text = if args.json {
        json::comparison(&comparison)
    } else if args.markdown {
        export::comparison::markdown(&comparison)
    } else {
        terminal::comparison::render(&comparison, print::width(), print::colour())
    };
    let is_text = !args.json && !args.markdown;
    if let Some(line) = interleaved(&args.directories, &opened).filter(|_| is_text) {
        text.push_str(&format!("next    {}\n", print::inert(&line)));
    }
    if let (Some(page), true) = (&args.html, is_text) {
        text.push_str(&format!("report  {}\n", page.display()));
    }
    print::out(&text)?;
    Ok(code(&comparison))
}

/// The command that measures the last run's system and the first one's side by side, where these
/// are two of one experiment: two dates are no pair, two variants of one run are.
fn interleaved(directories: &[PathBuf], opened: &[(RunRecord, Findings)]) -> Option<String> {
    let ((first, _), (last, _)) = (opened.first()?, opened.last()?);
    kneepoint_lab::against::baseline(first).ok()?;
    let (then, now) = (recipe::begun_with(&first.host)?, recipe::begun_with(&last.host)?);
    if (&then.command, &then.recipe) == (&now.command, &now.recipe) {
        return None;
    }
    let mut words = vec!["kneepoint".to_owned(), "run".to_owned(), "--against".to_owned()];
    words.push(directories.first()?.display().to_string());
    words.extend(now.recipe.clone());
    let counting = &now.counting;
    let options = [
        ("--throughput", &counting.throughput),
        ("--json-pointer", &counting.json_pointer),
        ("--operations", &counting.operations),
        ("--work", &counting.work),
    ];
    for (option, value) in options {
        words.extend(value.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    if !now.command.is_empty() {
        words.push("--".to_owned());
        words.extend(now.command.clone());
    }
    Some(kneepoint_rig::environment::words_of(&words))
}

/// What cannot be relied on fails nothing for sure, and is no success either.
fn code(comparison: &Comparison) -> u8 {
    let holds = |answer: Answer| answer == Answer::Holds;
    if !comparison.trustworthy {
        NOT_TRUSTWORTHY
    } else if comparison.conditions.iter().any(|one| holds(one.answer)) {
        CONDITION_HOLDS
    } else {
        OK
    }
}

/// The last word of each path, or the whole path where that is no name for it alone.
fn names(directories: &[PathBuf]) -> Result<Vec<String>> {
    if directories.len() < 2 {
        let why = "give two run directories or more: `kneepoint compare BEFORE AFTER`";
        return Err(UsageError(why.to_owned()).into());
    }
    let real: Vec<PathBuf> = directories
        .iter()
        .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
        .collect();
    for (at, path) in real.iter().enumerate() {
        if real[..at].contains(path) {
            let why =
                format!("{} is given twice: a run has nothing to tell of itself", path.display());
            return Err(UsageError(why).into());
        }
    }
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let short: Vec<Option<String>> = real.iter().map(|path| last(path)).collect();
    let name = |(at, path): (usize, &PathBuf)| match &short[at] {
        Some(name) if short.iter().filter(|other| *other == &short[at]).count() == 1 => {
            name.clone()
        }
        _ => path.display().to_string(),
    };
    Ok(directories.iter().enumerate().map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_differ() {
        let of = |paths: [&str; 2]| names(&paths.map(PathBuf::from)).unwrap();
        assert_eq!(of(["/no/before/", "/no/after"]), ["before", "after"]);
        assert_eq!(of(["/no/1/run", "/no/2/run"]), ["/no/1/run", "/no/2/run"]);
        let twice = names(&["/no/x", "/no/x"].map(PathBuf::from)).unwrap_err();
        assert!(twice.to_string().contains("given twice"), "{twice}");
        assert!(names(&[PathBuf::from("/no/x")]).is_err());
    }
}

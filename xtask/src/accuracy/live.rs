//! A few specimens, diagnosed live: what recorded runs cannot show, from the collector on.

use super::build::Form;
use super::run::take;
use super::score::{Outcome, Scored};
use super::specimen::Specimen;
use super::{Options, line};
use anyhow::{Result, bail};

/// A user lock, a lock of the kernel, and nothing wrong.
const SET: [&str; 3] = ["mutex_half", "shared_append", "null_cpu"];
const BUDGET: &str = "9s";
/// A machine with other work on it may need more than one try.
const TRIES: u64 = 3;

/// Diagnoses the set with the program that the tests have built.
///
/// # Errors
/// A diagnosis fails, or is wrong in every try.
pub(crate) fn live() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kneepoint-specimens-{}", std::process::id()));
    let options = Options {
        names: Vec::new(),
        runs: 1,
        seed: 1,
        budget: BUDGET.to_owned(),
        forms: vec![Form::Debug],
        out: folder.clone(),
        program: crate::root().join("target/debug/kneepoint"),
        again: None,
        write: false,
        check: false,
    };
    let specimens = Specimen::all(&crate::root().join("specimens"))?;
    let set = specimens.iter().filter(|one| SET.contains(&one.name.as_str()));
    let judged =
        set.zip([0, TRIES, 2 * TRIES]).try_for_each(|(one, from)| diagnosed(&options, one, from));
    let _ = std::fs::remove_dir_all(folder);
    judged
}

/// Tries are numbered from `from` on: each has a folder of its own.
fn diagnosed(options: &Options, specimen: &Specimen, from: u64) -> Result<()> {
    for number in from..from + TRIES {
        let scored = take(options, specimen, Form::Debug, number);
        println!("{}", line(&scored));
        if is_right(&scored) {
            return Ok(());
        }
    }
    bail!("{} was not diagnosed in {TRIES} tries", specimen.name)
}

/// Where the planted cause costs nothing, as on one core, there was nothing to find.
fn is_right(scored: &Scored) -> bool {
    match &scored.outcome {
        Outcome::Planted(marks) => marks.top_1,
        Outcome::Null { alarm } => !alarm,
        Outcome::Void => true,
        Outcome::Failed { .. } => false,
    }
}

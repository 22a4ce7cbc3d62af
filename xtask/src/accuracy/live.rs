//! A few specimens, diagnosed live: what recorded runs cannot show, from the collector on.

use super::build::Form;
use super::others::Times;
use super::run::{directory, take};
use super::score::{Outcome, Scored};
use super::specimen::Specimen;
use super::{Options, line};
use anyhow::Result;
use std::process::Command;
use std::{fmt, fs};

/// A user lock, a lock of the kernel, and nothing wrong.
const SET: [&str; 3] = ["mutex_half", "shared_append", "null_cpu"];
const BUDGET: &str = "9s";
/// A machine with other work on it may need more than one try.
const TRIES: u64 = 3;

/// Others that take more of the cores' time than this disturb.
const DISTURBED: f64 = 0.05;

/// A specimen that was not diagnosed right in any try.
#[derive(Debug)]
pub(crate) struct Missed {
    /// Its name.
    pub(crate) specimen: String,
    /// What came of each try.
    pub(crate) tries: Vec<String>,
    /// Share of all cores' time that went to others meanwhile: hypervisor and programs.
    pub(crate) others: f64,
}

impl Missed {
    /// Whether others took so much that it tells little about the program.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.others > DISTURBED
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { specimen, tries, others } = self;
        let tries = tries.join("; ");
        write!(to, "{specimen}: others took {:.0} % of the cores; {tries}", 100.0 * others)
    }
}

/// Diagnoses the set with the program that the tests have built, and tells what was missed.
///
/// # Errors
/// The specimens cannot be read.
pub(crate) fn live() -> Result<Vec<Missed>> {
    let folder = std::env::temp_dir().join(format!("kneepoint-specimens-{}", std::process::id()));
    let options = Options {
        names: Vec::new(),
        runs: 1,
        seed: 1,
        budget: BUDGET.to_owned(),
        forms: vec![Form::Debug],
        out: folder.clone(),
        program: crate::built("debug/kneepoint"),
        again: None,
        scores: None,
        since: None,
        write: false,
        check: false,
        gain: None,
        tools: false,
    };
    let specimens = Specimen::all(&crate::root().join("specimens"))?;
    let set = specimens.iter().filter(|one| SET.contains(&one.name.as_str()));
    let judged = set.zip([0, TRIES, 2 * TRIES]);
    let missed = judged.filter_map(|(one, from)| missed(&options, one, from)).collect();
    let _ = fs::remove_dir_all(folder);
    Ok(missed)
}

/// Tries are numbered from `from` on: each has a folder of its own.
fn missed(options: &Options, specimen: &Specimen, from: u64) -> Option<Missed> {
    let begun = Times::now();
    let mut tries = Vec::new();
    for number in from..from + TRIES {
        let scored = take(options, specimen, Form::Debug, number);
        let line = line(&scored);
        println!("{line}");
        if is_right(&scored) {
            return None;
        }
        println!("{}", said(options, number));
        tries.push(line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "));
    }
    let others = begun.zip(Times::now()).map_or(0.0, |(begun, now)| now.others_since(begun));
    Some(Missed { specimen: specimen.name.clone(), tries, others })
}

/// What the program prints of a run.
fn said(options: &Options, number: u64) -> String {
    let run = directory(&options.out, number);
    let output = Command::new(&options.program).arg("report").arg(run).output();
    output.map_or_else(|error| error.to_string(), |it| String::from_utf8_lossy(&it.stdout).into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_told_with_what_others_took() {
        let tries = vec!["WRONG 12 s kind (cpu)".to_owned(), "FAILED 1 s no such file".to_owned()];
        let missed = |others| Missed { specimen: "one".to_owned(), tries: tries.clone(), others };
        assert_eq!(
            missed(0.031).to_string(),
            "one: others took 3 % of the cores; WRONG 12 s kind (cpu); FAILED 1 s no such file"
        );
        assert!(missed(0.06).is_disturbed() && !missed(0.04).is_disturbed());
    }
}

//! Whether every specimen compiles without a warning, and runs.

use super::build::{Built, Form};
use super::specimen::Specimen;
use anyhow::{Result, ensure};
use kneepoint_stats::random::Generator;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

/// A run that did nothing in its time gets so many times that.
const PATIENCE: f64 = 10.0;
/// Specimens at once for each core: they sleep a part of their time.
const AT_ONCE: usize = 2;

/// How specimens are tried.
pub(super) struct Trial<'a> {
    pub(super) forms: &'a [Form],
    pub(super) clients: &'a [u64],
    pub(super) seconds: f64,
    /// Where they are built.
    pub(super) folder: &'a Path,
}

/// Builds and runs each specimen and its treated twin; what is wrong, one line each.
pub(super) fn complaints(specimens: &[Specimen], trial: &Trial<'_>) -> Vec<String> {
    let jobs: Vec<(&Specimen, Form)> = specimens
        .iter()
        .flat_map(|specimen| trial.forms.iter().map(move |form| (specimen, *form)))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = AT_ONCE * available_parallelism().map_or(1, usize::from);
    scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((specimen, form)) = jobs.get(number) else { break };
                    let Err(error) = one(specimen, *form, trial, number) else { continue };
                    let line = format!("{} ({}): {error:#}", specimen.name, form.as_str());
                    found.lock().expect("no worker panics with it").push(line);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort();
    found
}

fn one(specimen: &Specimen, form: Form, trial: &Trial<'_>, number: usize) -> Result<()> {
    let folder = trial.folder.join(format!("{}-{}", specimen.name, form.as_str()));
    // What a program leaves in memory goes by its name: each has its own, also beside other checks.
    let seed = u64::from(std::process::id()) << 32 | number as u64;
    let built = Built::make(specimen, form, &folder, &mut Generator::new(seed))?;
    for twin in [&[][..], &[super::twin()][..]] {
        let words = [&specimen.expected.middle()[..], twin].concat();
        for clients in trial.clients {
            let mut rate = built.rate(*clients, trial.seconds, &words)?;
            if rate <= 0.0 {
                rate = built.rate(*clients, PATIENCE * trial.seconds, &words)?;
            }
            let what = twin.first().map_or("", String::as_str);
            ensure!(rate > 0.0, "{clients} clients {what} did nothing");
        }
    }
    let truth = built.say(2, trial.seconds, &[super::truth_flag()])?;
    serde_json::from_str::<super::truth::Truth>(&truth)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_specimen_compiles_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        let specimens = Specimen::all(&crate::root().join("specimens")).unwrap();
        let trial =
            Trial { forms: &[Form::Debug], clients: &[2], seconds: 0.1, folder: folder.path() };
        let found = complaints(&specimens, &trial);
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }
}

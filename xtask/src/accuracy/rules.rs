//! Rules by which idle cores are charged, side by side on the same runs.

use super::run::{folders, rescored};
use super::score::Scored;
use super::specimen::Specimen;
use super::tables;
use anyhow::Result;
use kneepoint_analysis::Charging;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Findings of a run directory, as `kneepoint report --json` prints them, with idle cores charged
/// by this rule.
fn findings_by(directory: &Path, rule: Charging) -> Result<Value> {
    let record = kneepoint_lab::open(directory)?;
    let findings = kneepoint_analysis::analyse_by(&record, rule);
    Ok(serde_json::from_str(&kneepoint_report::json::render(&findings))?)
}

/// All runs of these specimens that are kept in a folder, judged by a rule on as many threads as
/// there are cores.
pub(super) fn judged(kept: &Path, specimens: &[Specimen], rule: Charging) -> Result<Vec<Scored>> {
    let folders = folders(kept)?;
    let findings = |directory: &Path| findings_by(directory, rule);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut scored = Vec::new();
    std::thread::scope(|scope| {
        let parts = folders.chunks(folders.len().div_ceil(threads).max(1)).map(|part| {
            let judge = move |folder: &PathBuf| rescored(specimens, folder, findings);
            scope.spawn(move || part.iter().map(judge).collect::<Vec<_>>())
        });
        for part in parts.collect::<Vec<_>>() {
            scored.extend(part.join().into_iter().flatten());
        }
    });
    Ok(scored.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The runs that are kept in a folder as a table with a line for each rule.
pub(super) fn table(kept: &Path, specimens: &[Specimen]) -> Result<String> {
    let by = |rule: Charging| Ok((rule.as_str(), judged(kept, specimens, rule)?));
    let scored = Charging::ALL.into_iter().map(by).collect::<Result<Vec<_>>>()?;
    Ok(tables::rules(&scored))
}

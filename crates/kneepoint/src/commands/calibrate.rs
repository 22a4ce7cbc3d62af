//! `kneepoint calibrate`: from a run directory to a twin file of it, on standard output.

use crate::cli::CalibrateArgs;
use crate::{OK, print};
use anyhow::{Result, anyhow};
use kneepoint_model::calibrate::{Calibrated, Observed, calibrate};
use kneepoint_report::terminal::next as words;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::NoTwin;

pub(crate) fn print_twin(args: &CalibrateArgs) -> Result<u8> {
    let findings = kneepoint_analysis::analyse(&kneepoint_lab::open(&args.directory)?);
    let path = args.directory.display();
    let twin = of(&findings).map_err(|why| anyhow!("{path}: {}", words::no_twin(&why)))?;
    let mut text = String::new();
    for line in twin.file(words::undetermined).lines() {
        text.push_str(&print::inert(line));
        text.push('\n');
    }
    print::out(&text)?;
    Ok(OK)
}

/// The twin of a run, calibrated with the run's own seed.
pub(crate) fn of(findings: &Findings) -> Result<Calibrated, NoTwin> {
    calibrate(&Observed::of(findings)?, findings.protocol.seed, workers())
}

/// Threads to simulate with; they change nothing but how long it takes.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

//! What a run needs before its first step: that all is there, a collector, and the ground that
//! systems start from.

use crate::options::RunOptions;
use crate::progress::Progress;
use crate::variants::Ground;
use anyhow::{Result, anyhow, bail};
use kneepoint_probe::{Census, Probe, ProbeOptions};
use kneepoint_rig::Need;
use kneepoint_vocab::{Nanos, Plan, Tier};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run needs before its first step.
pub(super) struct Prepared {
    pub(super) probe: Probe,
    /// What counts locks, where it can.
    pub(super) census: Option<Census>,
    pub(super) remarks: Vec<String>,
    pub(super) ground: Ground,
}

pub(super) fn prepare(
    options: &RunOptions,
    plan: &Plan,
    progress: &mut dyn Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Prepared> {
    // The collector goes first: loading beside a busy system can take seconds.
    let (probe, mut remarks) = Probe::attach(&ProbeOptions {
        tier: options.tier,
        stacks: true,
        ..ProbeOptions::default()
    })?;
    let census = match (plan.census && probe.tier() == Tier::Full).then(Census::load) {
        Some(Ok(census)) => Some(census),
        Some(Err(error)) => {
            remarks.push(format!("locks are not counted: {error:#}"));
            None
        }
        None => None,
    };
    progress.step(Nanos(0), plan.budget, "preparing the system");
    let ground = Ground::lay(options, plan, stop).map_err(|error| {
        if stop.load(Ordering::Relaxed) {
            anyhow!("interrupted before anything was measured")
        } else {
            error
        }
    })?;
    Ok(Prepared { probe, census, remarks, ground })
}

/// Refuses a recipe for which something is not on the machine, and says how to get it.
///
/// # Errors
/// Something is lacking.
pub fn require(options: &RunOptions) -> Result<()> {
    let recipe = &options.recipe;
    let needs = recipe.needs();
    let lacking: Vec<_> = needs.iter().filter(|need| !need.here).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let what: Vec<_> = lacking.iter().map(|need| need.what.as_str()).collect();
    let how = Need::install_line(&needs).map(|line| format!("; {line}")).unwrap_or_default();
    bail!("{} needs {}, not found here{how}", recipe.name, what.join(", "))
}

//! Going on with a run that was cut off.
//!
//! The steps are the same as ever, since the seed is; those on record are passed over, with the
//! looks between them, until one is not. Two dates are no pair: what was measured of the block in
//! which the run was cut off counts as disturbed, and is taken once more at the block's end.
//! Processes are new ones, with a start of their own.

use super::{Outcome, Planned, Runner, is_steady, prepare, require};
use crate::clock::Clock;
use crate::earlier::{Earlier, stands};
use crate::open::open;
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::schedule::{Step, estimate};
use crate::store::Store;
use anyhow::{Result, bail, ensure};
use kneepoint_vocab::{
    Disposition, Host, Nanos, Phase, Plan, RunRecord, StoppedBy, TrialId, TrialRecord,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whether a run can be gone on with by `plan` on `host`.
///
/// # Errors
/// It has ended, or it was begun by another plan, Kneepoint, kernel or machine.
pub fn resumable(record: &RunRecord, plan: &Plan, host: &Host) -> Result<()> {
    let ended = record.end.as_ref().map(|end| &end.stopped_by);
    ensure!(
        ended.is_none_or(|why| *why == StoppedBy::Interrupted),
        "the run has ended: `kneepoint report` tells what it says"
    );
    let about = |host: &Host| (host.kneepoint.clone(), host.kernel.clone(), host.cpu.clone());
    let (begun, now) = (about(&record.host), about(host));
    if begun != now {
        bail!(
            "it was begun by Kneepoint {} on {}, {}, and this is {} on {}, {}: begin a new one",
            begun.0,
            begun.1,
            begun.2,
            now.0,
            now.1,
            now.2
        );
    }
    ensure!(
        record.plan == *plan,
        "its recipe or the machine's cores are not what they were: begin a new one"
    );
    Ok(())
}

/// Goes on with the run in `options.directory`, which [`resumable`] has found fit.
///
/// # Errors
/// As [`super::run()`]; or another Kneepoint writes there, or its files are damaged.
pub fn resume(
    options: &RunOptions,
    plan: &Plan,
    progress: &mut dyn Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome> {
    require(options)?;
    let store = Store::reopen(&options.directory)?;
    let record = open(&options.directory)?;
    if let Some(torn) = record.torn.first() {
        bail!("{}: cannot go on: {torn}; begin a new run", options.directory.display());
    }
    let prepared = prepare(options, plan, progress, stop)?;
    let until = record.trials.iter().map(|trial| trial.window.begin + trial.window.length).max();
    let clock = Clock::at(until.unwrap_or(Nanos(0)));
    let mut runner = Runner::new(options, plan, prepared, store, clock, progress, stop);
    runner.earlier = Earlier::of(&record);
    runner.steady = runner.was_steady(&record.trials);
    runner.started = record.variants;
    runner.conduct()
}

impl Runner<'_> {
    /// The number of the attempt at a step that is to be made; none where the record has what
    /// came of it.
    pub(super) fn open_attempt(&mut self, step: &Step) -> Option<u32> {
        match step {
            // The processes of that start are gone, and new ones may not be needed.
            Step::Start { .. } if self.earlier.is_ahead() => {
                self.earlier.replaying = true;
                None
            }
            Step::Start { .. } => Some(0),
            Step::WarmUp | Step::Look { .. } => (!self.earlier.replaying).then_some(0),
            Step::Slice(planned) => {
                let attempts = self.earlier.take(planned);
                let next = attempts.last().map_or(0, |last| last.id.attempt + 1);
                let done = attempts.iter().any(stands);
                self.taken.extend(attempts);
                if done {
                    let passed = estimate(self.plan, step);
                    self.pending.0 = self.pending.0.saturating_sub(passed.0);
                }
                (!done).then_some(next)
            }
        }
    }

    /// Starts every variant anew; once the record has come to its end, with a warm-up.
    pub(super) fn bring_up(&mut self) -> Result<()> {
        self.replace_variants()?;
        let again = std::mem::take(&mut self.earlier.replaying) && !self.taken.is_empty();
        if again {
            let text = "The run was cut off and went on later, with new processes.".to_owned();
            self.progress.remark(&text);
            self.remarks.push(text);
            self.warm_up()?;
        }
        Ok(())
    }

    /// Before the first slice that is not on record: puts back its block's, and starts the
    /// variants.
    pub(super) fn go_on(&mut self, planned: &Planned) -> Result<()> {
        if !self.earlier.replaying {
            return Ok(());
        }
        let rest = self.earlier.take_rest();
        let strays: BTreeSet<TrialId> = rest.iter().map(|trial| trial.id.clone()).collect();
        self.taken.extend(rest);
        let block = |id: &TrialId| (id.phase, id.block);
        let cut = |id: &TrialId| block(id) == (planned.phase, planned.block) || strays.contains(id);
        let mut disturbed = BTreeSet::new();
        for trial in self.taken.iter_mut().filter(|trial| cut(&trial.id) && stands(trial)) {
            trial.disposition = Disposition::Disturbed;
            disturbed.insert(trial.id.clone());
            if !strays.contains(&trial.id) {
                self.put_back.push((once_more(&trial.id, planned), trial.id.attempt + 1));
            }
        }
        if !disturbed.is_empty() {
            self.store.put_back(&disturbed)?;
        }
        self.bring_up()
    }

    /// What the warm-up on record has found.
    fn was_steady(&self, trials: &[TrialRecord]) -> bool {
        let recipe = &self.options.recipe;
        let settles = self.plan.settle > Nanos(0) && self.plan.warm_up.is_none();
        let warm_up = || trials.iter().filter(|trial| trial.id.phase == Phase::WarmUp);
        let last_start = warm_up().map(|trial| trial.id.start).max();
        let of_last = || warm_up().filter(|trial| Some(trial.id.start) == last_start);
        let series: Vec<f64> = of_last().map(|trial| trial.throughput().0).collect();
        recipe.baseline.fresh_each_slice()
            || of_last().next_back().is_some_and(|last| is_steady(&series, last, settles))
    }
}

/// A slice that was taken already, in the block of `beside`.
fn once_more(id: &TrialId, beside: &Planned) -> Planned {
    Planned {
        phase: id.phase,
        block: id.block,
        position: id.position,
        variant: id.variant.clone(),
        level: id.level,
        start: beside.start,
    }
}

//! What a runtime's tasks wait for outside of it: a timer, the network.
//!
//! One parked thread polls for all tasks. Waits of several tasks overlap in it, so that of n tasks
//! that are free of each other an operation polls for an n-th of the time that one alone polls for.
//! What is more stands for tasks that wait for each other meanwhile: one sleeps, and the rest want
//! what it has. So the part
//!
//! s = max(0, 1 − a / (n p))
//!
//! of such waits is for what the tasks wait for of each other, with p the polled seconds of an
//! operation at n clients and a those of one client alone, which are no more than it is off a core
//! for. Nothing is known where no level of one client was measured, or where the clients live in a
//! load generator, whose turn it may be.

use crate::frames::stacks::Stacks;
use crate::number::{count, quotient, seconds};
use crate::waits::parking::polls_for_tasks;
use kneepoint_vocab::{
    Clients, Disposition, Fact, Phase, RunRecord, StackKind, StackWeight, TrialRecord, VariantId,
    WaitKey,
};
use std::collections::BTreeMap;

/// Seconds of an operation that are polled for where one client is alone, by variant.
#[derive(Default)]
pub(super) struct Outside(BTreeMap<VariantId, f64>);

impl Outside {
    pub(super) fn of(record: &RunRecord, stacks: &Stacks<'_>) -> Self {
        let mut sums: BTreeMap<VariantId, (f64, f64)> = BTreeMap::new();
        if record.plan.clients == Clients::Apart {
            return Self::default();
        }
        let alone = record.trials.iter().filter(|trial| {
            trial.id.level.clients == 1
                && trial.id.phase == Phase::Sweep
                && trial.disposition == Disposition::Kept
        });
        for trial in alone {
            let Some(polled) = polled_of_one(trial, stacks) else { continue };
            let off_core = (1.0 / trial.throughput().0 - running_of_one(trial)).max(0.0);
            let sum = sums.entry(trial.id.variant.clone()).or_default();
            sum.0 += polled.min(off_core);
            sum.1 += 1.0;
        }
        Self(sums.into_iter().map(|(variant, (sum, of))| (variant, sum / of)).collect())
    }

    /// The part of the polled time of `trial` that tasks wait for each other.
    pub(super) fn for_each_other(&self, trial: &TrialRecord, stacks: &Stacks<'_>) -> f64 {
        let clients = trial.id.level.clients;
        let Some(alone) = self.0.get(&trial.id.variant).filter(|_| clients > 1) else { return 0.0 };
        polled_of_one(trial, stacks).map_or(0.0, |polled| excess(*alone, polled, clients))
    }
}

/// The part of what an operation polls for at so many clients that is more than their overlapping
/// waits.
fn excess(alone: f64, polled: f64, clients: u32) -> f64 {
    if polled <= 0.0 {
        return 0.0;
    }
    (1.0 - alone / (f64::from(clients) * polled)).max(0.0)
}

/// Stacks of a wait, in nanoseconds of waiting.
#[derive(Clone, Copy, Default)]
pub(super) struct Polled {
    /// Those that look for tasks,
    pub(super) for_tasks: f64,
    /// and all.
    pub(super) all: f64,
}

impl Polled {
    pub(super) fn part(self) -> f64 {
        quotient(self.for_tasks, self.all)
    }
}

/// The waits in which threads poll for tasks.
fn polled_parts(trial: &TrialRecord, stacks: &Stacks<'_>) -> BTreeMap<WaitKey, Polled> {
    parts_of(trial, |stack| polls_for_tasks(stacks, stack))
}

/// The waits in which threads look `for_tasks`.
pub(super) fn parts_of(
    trial: &TrialRecord,
    for_tasks: impl Fn(&StackWeight) -> bool,
) -> BTreeMap<WaitKey, Polled> {
    let mut waits: BTreeMap<WaitKey, Polled> = BTreeMap::new();
    for (key, stack) in trial.facts.iter().filter_map(of_no_object) {
        let polled = waits.entry(key.clone()).or_default();
        let weight = count(stack.weight.0.max(1));
        polled.all += weight;
        if for_tasks(stack) {
            polled.for_tasks += weight;
        }
    }
    waits.retain(|_, polled| polled.for_tasks > 0.0);
    waits
}

fn of_no_object(fact: &Fact) -> Option<(&WaitKey, &StackWeight)> {
    let Fact::Stack(stack) = fact else { return None };
    let key = stack.wait.as_ref().filter(|key| key.object == 0)?;
    (stack.kind == StackKind::OffCpu).then_some((key, stack))
}

/// Polled seconds of one operation; none where nothing polls for tasks, or nothing was done.
fn polled_of_one(trial: &TrialRecord, stacks: &Stacks<'_>) -> Option<f64> {
    let parts = polled_parts(trial, stacks);
    let polled = trial.facts.iter().filter_map(|fact| match fact {
        Fact::Wait(wait) => parts.get(&wait.key).map(|it| it.part() * seconds(wait.blocked)),
        _ => None,
    });
    let operations = trial.throughput().0 * seconds(trial.window.length);
    (!parts.is_empty() && operations > 0.0).then(|| polled.sum::<f64>() / operations)
}

/// CPU seconds of one operation.
fn running_of_one(trial: &TrialRecord) -> f64 {
    let running = trial.facts.iter().filter_map(|fact| match fact {
        Fact::ThreadTime(time) => Some(seconds(time.running)),
        _ => None,
    });
    quotient(running.sum(), trial.throughput().0 * seconds(trial.window.length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tasks_poll_for_at_once_overlaps() {
        assert!(excess(1e-3, 1e-3 / 4.0, 4) <= 1e-12, "all four sleep at once");
        assert!((excess(1e-3, 1e-3, 4) - 0.75).abs() < 1e-12, "one after the other");
        assert!((excess(0.0, 1e-3, 2) - 1.0).abs() < 1e-12, "one alone never sleeps");
        assert!(excess(1e-3, 1e-4, 4) <= 0.0 && excess(1e-3, 0.0, 4) <= 0.0);
    }
}

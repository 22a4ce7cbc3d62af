//! What collected, what it missed, what it cost, and how it agrees with `schedstat`.

use crate::frames::stacks::Stacks;
use crate::number::{count, estimate, finite, quotient, seconds};
use crate::scaling::curve::CONFIDENCE;
use kneepoint_stats::Interval;
use kneepoint_stats::interval::mean_interval;
use kneepoint_vocab::findings::{Collector, Unseen};
use kneepoint_vocab::units::{Ratio, Seconds};
use kneepoint_vocab::{Estimate, Fact, Level, ThreadTime, Tier, TrialRecord, VariantId};
use std::collections::BTreeMap;

/// Windows that cover less than this part of the counted time are said to.
pub(crate) const WHOLE: f64 = 0.9;

/// Sums of both clocks over threads that have both.
#[derive(Clone, Copy, Default)]
struct Clocks {
    running: f64,
    running_reference: f64,
    runnable: f64,
    runnable_reference: f64,
    /// Waits that ended.
    waits: f64,
}

impl Clocks {
    fn add(&mut self, time: &ThreadTime) {
        if let Some(reference) = time.schedstat_running {
            self.running += seconds(time.running);
            self.running_reference += seconds(reference);
        }
        if let Some(reference) = time.schedstat_runnable {
            self.runnable += seconds(time.runnable_woken) + seconds(time.runnable_preempted);
            self.runnable_reference += seconds(reference);
        }
    }

    /// What the reference has more of running time for each wait.
    fn per_wait(&self) -> Option<Seconds> {
        let more = self.running_reference - self.running;
        (more > 0.0 && self.waits > 0.0).then(|| Seconds(more / self.waits))
    }
}

fn check(collector: f64, reference: f64) -> Option<Ratio> {
    (reference > 0.0).then(|| Ratio(quotient(collector, reference)))
}

/// From all `trials` that count; costs from the baseline's at the focus level.
pub(crate) fn collector(
    trials: &[&TrialRecord],
    stacks: &Stacks<'_>,
    focus: Level,
    on_off: Option<Estimate<Ratio>>,
) -> Collector {
    let mut all = Clocks::default();
    let mut levels: BTreeMap<Level, Clocks> = BTreeMap::new();
    let mut losses: BTreeMap<String, u64> = BTreeMap::new();
    let mut tier: Option<Tier> = None;
    let (mut taken, mut complete, mut compiled) = (0_u64, 0_u64, 0_u64);
    for trial in trials {
        for fact in &trial.facts {
            match fact {
                // The weaker tier is the one to speak of.
                Fact::Tier { tier: spoke } => tier = tier.max(Some(*spoke)),
                Fact::ThreadTime(time) => {
                    all.add(time);
                    levels.entry(trial.id.level).or_default().add(time);
                }
                Fact::Wait(wait) => {
                    levels.entry(trial.id.level).or_default().waits += count(wait.count);
                }
                Fact::Loss(loss) => {
                    let sum = losses.entry(loss.what.clone()).or_default();
                    *sum = sum.saturating_add(loss.count);
                }
                Fact::Stack(stack) => {
                    taken = taken.saturating_add(stack.count);
                    if stacks.complete(stack.stack) {
                        complete = complete.saturating_add(stack.count);
                    } else if stacks.ends_compiled(stack.stack) {
                        compiled = compiled.saturating_add(stack.count);
                    }
                }
                _ => {}
            }
        }
    }
    let (programs, reader) = costs(trials, focus);
    let covered = covered(trials, focus);
    let running_worst = worst(&levels);
    Collector {
        tier,
        cannot_see: tier.map(cannot_see).unwrap_or_default(),
        programs,
        reader,
        on_off,
        covered,
        on_off_active: on_off.zip(covered).map(|(ratio, covered)| while_active(ratio, covered)),
        running_check: check(all.running, all.running_reference),
        running_worst,
        running_per_wait: running_worst
            .and_then(|(level, _)| levels.get(&level).and_then(Clocks::per_wait)),
        runnable_check: check(all.runnable, all.runnable_reference),
        stacks: taken,
        stacks_complete: (taken > 0).then(|| Ratio(quotient(count(complete), count(taken)))),
        stacks_cut_compiled: (compiled > 0).then(|| Ratio(quotient(count(compiled), count(taken)))),
        losses: losses.into_iter().filter(|(_, lost)| *lost > 0).collect(),
    }
}

/// Mean over the baseline's watched slices at the focus level.
fn covered(trials: &[&TrialRecord], focus: Level) -> Option<Ratio> {
    let baseline = trials.iter().filter(|trial| {
        trial.id.level == focus
            && trial.id.variant.0 == VariantId::BASELINE
            && !trial.facts.is_empty()
    });
    let shares: Vec<f64> = baseline
        .filter(|trial| trial.counted_over.0 > 0)
        .map(|trial| quotient(seconds(trial.window.length), seconds(trial.counted_over)).min(1.0))
        .collect();
    (!shares.is_empty()).then(|| Ratio(crate::number::mean(&shares)))
}

/// What is left of throughput while the collector watches, where it watches only a share of the
/// time that operations were counted over: throughput is lost in that share alone.
fn while_active(on_off: Estimate<Ratio>, covered: Ratio) -> Estimate<Ratio> {
    let left = |ratio: Ratio| (1.0 - (1.0 - ratio.0) / covered.0.max(f64::EPSILON)).max(0.0);
    estimate(left(on_off.value), left(on_off.low), left(on_off.high))
}

fn worst(levels: &BTreeMap<Level, Clocks>) -> Option<(Level, Ratio)> {
    levels
        .iter()
        .filter_map(|(level, clocks)| {
            let ratio = check(clocks.running, clocks.running_reference)?;
            Some((*level, Ratio((ratio.0 - 1.0).abs())))
        })
        .reduce(|worst, next| if next.1.0 > worst.1.0 { next } else { worst })
}

/// Shares of the machine's capacity at the focus level: eBPF programs, Kneepoint's own threads.
fn costs(trials: &[&TrialRecord], focus: Level) -> (Option<Estimate<Ratio>>, Option<Ratio>) {
    let (mut programs, mut readers) = (Vec::new(), Vec::new());
    for trial in trials {
        if trial.id.level != focus || trial.id.variant.0 != VariantId::BASELINE {
            continue;
        }
        let mut capacity = 0.0;
        let mut cost = None;
        for fact in &trial.facts {
            match fact {
                Fact::CoreTime(core) => capacity = seconds(core.total),
                Fact::Cost(found) => cost = Some(*found),
                _ => {}
            }
        }
        if let (Some(cost), true) = (cost, capacity > 0.0) {
            programs.push(finite(seconds(cost.programs) / capacity));
            readers.push(finite(seconds(cost.reader) / capacity));
        }
    }
    if programs.is_empty() {
        return (None, None);
    }
    let mean = crate::number::mean(&programs);
    let interval = mean_interval(&programs, CONFIDENCE).unwrap_or(Interval::around(mean, 0.0));
    let at_least_none = estimate(mean, interval.low.max(0.0), interval.high);
    (Some(at_least_none), Some(Ratio(crate::number::mean(&readers))))
}

fn cannot_see(tier: Tier) -> Vec<Unseen> {
    match tier {
        Tier::Full => vec![Unseen::UserSpins, Unseen::SharedHolders],
        Tier::Fallback => vec![
            Unseen::SingleWaits,
            Unseen::ShortWaits,
            Unseen::KernelLocks,
            Unseen::IdleReasons,
            Unseen::EndedThreads,
        ],
    }
}

/// Stacks of a kind: number taken, and the share of their weight that reached the outermost
/// frame.
pub(crate) fn completeness<'a>(
    weights: impl Iterator<Item = (&'a kneepoint_vocab::StackWeight, bool)>,
) -> Option<Ratio> {
    let (mut all, mut complete) = (0.0, 0.0);
    for (stack, reached) in weights {
        all += seconds(stack.weight);
        complete += if reached { seconds(stack.weight) } else { 0.0 };
    }
    (all > 0.0).then(|| Ratio(quotient(complete, all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_schedstat_has_more_is_told_by_wait() {
        let clocks =
            |running, waits| Clocks { running, running_reference: 1.1, waits, ..Clocks::default() };
        let per_wait = clocks(1.0, 10_000.0).per_wait().unwrap();
        assert!((per_wait.0 - 10e-6).abs() < 1e-12);
        assert_eq!(clocks(1.2, 10_000.0).per_wait(), None);
        assert_eq!(clocks(1.0, 0.0).per_wait(), None);
    }

    #[test]
    fn a_loss_falls_in_the_time_that_windows_cover() {
        let counted = estimate(0.9, 0.8, 1.05);
        let active = while_active(counted, Ratio(0.5));
        let close = |found: Ratio, wanted: f64| (found.0 - wanted).abs() < 1e-12;
        assert!(close(active.value, 0.8) && close(active.low, 0.6) && close(active.high, 1.1));
        assert_eq!(while_active(counted, Ratio(1.0)).value, counted.value);
        assert_eq!(while_active(counted, Ratio(0.1)).low, Ratio(0.0));
    }
}

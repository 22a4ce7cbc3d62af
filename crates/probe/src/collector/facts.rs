//! The facts of a window of the full tier, from its sums.

use super::Observation;
use super::offcpu::{self, Records};
use super::window::{self, Harvest, Sums};
use super::wire::counter;
use crate::proc::stat;
use crate::stack::WindowStacks;
use kneepoint_vocab::{CollectorCost, Fact, Loss, Nanos, Tier};

/// What the programs counted of their own failures in the window.
pub(crate) struct Missed {
    /// By `enum counter`.
    pub counters: [u64; counter::COUNT as usize],
    /// Runs skipped by the kernel.
    pub skipped: u64,
    /// Switches of the system's threads.
    pub switches: u64,
    /// Share of the wake-ups that were looked at for who ends waits.
    pub wakers_share: f64,
}

/// All facts of a closed window, in a fixed order.
pub(crate) fn assemble(
    harvest: &Harvest,
    stacks: WindowStacks,
    waits: &Records,
    missed: &Missed,
    ticks: stat::CpuTicks,
    cost: CollectorCost,
) -> Observation {
    let sums = Sums::of(harvest);
    let charged = sums.waits.values().map(|wait| wait.idle_charged).sum();
    let (mut cores, silent_cores) = window::core_time(harvest, charged);
    cores.irq = Nanos(ticks.irq * stat::TICK);
    cores.steal = Nanos(ticks.steal * stat::TICK);
    let running = sums.groups.values().map(|group| group.running).sum();
    let (off_cpu, orphans) =
        offcpu::weights(&stacks.marked, waits, &harvest.objects, missed.wakers_share);
    let mut facts = vec![Fact::Tier { tier: Tier::Full }];
    facts.extend(sums.groups.into_values().map(Fact::ThreadTime));
    facts.extend(sums.waits.into_values().map(Fact::Wait));
    facts.push(Fact::CoreTime(cores));
    facts.extend(offcpu::on_cpu(&stacks.on_cpu, running).into_iter().map(Fact::Stack));
    facts.extend(off_cpu.into_iter().map(Fact::Stack));
    let wakers = offcpu::wakers(&stacks.marked, waits, harvest);
    facts.extend(wakers.into_iter().map(Fact::Waker));
    facts.extend(losses(missed, silent_cores, orphans, &stacks).into_iter().map(Fact::Loss));
    facts.push(Fact::Cost(cost));
    let length = Nanos(harvest.end - harvest.begin);
    Observation { facts, new_stacks: stacks.new_stacks, length }
}

/// What was missed; only what did happen.
fn losses(missed: &Missed, silent_cores: u64, orphans: u64, stacks: &WindowStacks) -> Vec<Loss> {
    let count = |index: u32| missed.counters[index as usize];
    let switches = Some(missed.switches);
    let marks = Some(count(counter::MARKS));
    let all = [
        ("thread map full", count(counter::THREADS_FULL), switches),
        ("wait map full", count(counter::WAITS_FULL), switches),
        ("exited-thread map full", count(counter::EXITED_FULL), None),
        ("process map full", count(counter::CLASSES_FULL), None),
        ("wake-ups missed", count(counter::MISSED_WAKE), switches),
        ("switches out of order", count(counter::ODD_SWITCH), switches),
        ("kernel locks with a missed end", count(counter::STALE_LOCK), None),
        ("program runs skipped", missed.skipped, switches),
        ("cores without an event", silent_cores, None),
        ("wait records lost", count(counter::RECORDS_LOST), marks),
        ("stack marks refused", count(counter::MARKS_LOST), marks),
        ("stacks without a wait", orphans, marks),
        ("stack records lost", stacks.lost, Some(stacks.taken + stacks.lost)),
        ("stack timer throttled", stacks.throttled, None),
        ("stacks truncated", stacks.truncated, Some(stacks.taken)),
    ];
    let happened = all.into_iter().filter(|(_, count, _)| *count > 0);
    happened.map(|(what, count, of)| Loss { what: what.to_owned(), count, of }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_losses_that_happened_are_reported() {
        let mut missed = Missed {
            counters: [0; counter::COUNT as usize],
            skipped: 0,
            switches: 900,
            wakers_share: 1.0,
        };
        let stacks = WindowStacks::default();
        assert!(losses(&missed, 0, 0, &stacks).is_empty());
        missed.counters[counter::MISSED_WAKE as usize] = 2;
        let found = losses(&missed, 0, 0, &stacks);
        let expected = Loss { what: "wake-ups missed".to_owned(), count: 2, of: Some(900) };
        assert_eq!(found, [expected]);
    }
}

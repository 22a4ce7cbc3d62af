//! Waits for the next request that are partly waits for a lock.
//!
//! Some servers wait for locks in the same call: `PostgreSQL`'s lock manager sleeps until its
//! latch, a descriptor, is readable. There the stacks tell: as much of the blocked time as stands
//! in functions of the lock manager is a lock's.

use crate::frames::stacks::Stacks;
use crate::ledgers::row::Row;
use crate::number::{count, quotient, seconds};
use crate::waits::groups::Groups;
use kneepoint_vocab::{Fact, StackKind, TrialRecord, Wait, WaitKey};
use std::collections::BTreeMap;

/// What the stacks of one key of waits say.
#[derive(Default)]
struct Stood {
    /// Blocked thread-seconds in locks that are polled for, and stacks, by wait group.
    locks: BTreeMap<usize, (f64, f64)>,
    /// Stacks in all.
    stacks: f64,
}

/// Waits of one slice for locks that are polled for, by wait group.
pub(crate) struct Polled<'a>(BTreeMap<&'a WaitKey, Stood>);

impl<'a> Polled<'a> {
    pub(crate) fn of(trial: &'a TrialRecord, groups: &Groups, stacks: &Stacks<'_>) -> Self {
        let mut found: BTreeMap<&WaitKey, Stood> = BTreeMap::new();
        for fact in &trial.facts {
            if let Fact::Stack(stack) = fact
                && stack.kind == StackKind::OffCpu
                && let Some(key) = &stack.wait
            {
                let stood = found.entry(key).or_default();
                stood.stacks += count(stack.count);
                if let Some(group) = groups.polled_for(stacks.frames(stack.stack)) {
                    let lock = stood.locks.entry(group).or_default();
                    lock.0 += seconds(stack.weight);
                    lock.1 += count(stack.count);
                }
            }
        }
        Self(found)
    }

    /// The locks that waits of a key are partly for.
    pub(crate) fn locks(&self, key: &WaitKey) -> impl Iterator<Item = usize> {
        self.0.get(key).into_iter().flat_map(|stood| stood.locks.keys().copied())
    }

    /// Adds a wait for the next request to `row`, whose window has this length in seconds. A
    /// thread's stacks are all taken with about one probability, so as many of its waits as of its
    /// stacks are a lock's.
    pub(crate) fn add(&mut self, row: &mut Row, wait: &Wait, window: f64) {
        let (blocked, idle) = (seconds(wait.blocked) / window, seconds(wait.idle_charged) / window);
        let ended = count(wait.count) / window;
        let stood = self.0.remove(&wait.key).unwrap_or_default();
        let locked: f64 = stood.locks.values().map(|(time, _)| time).sum();
        // Stacks are weighted estimates: together they can exceed what was counted.
        let all = seconds(wait.blocked).max(locked);
        let (mut time_left, mut ended_left) = (1.0, 1.0);
        for (group, (time, stacks)) in &stood.locks {
            let (time, stacks) = (quotient(*time, all), quotient(*stacks, stood.stacks));
            row.blocked[*group] += time * blocked;
            row.waited[*group] += time * blocked;
            row.charged[*group] += time * idle;
            row.waits[*group] += stacks * ended;
            row.woken[*group] += stacks * ended;
            time_left -= time;
            ended_left -= stacks;
        }
        row.no_request += time_left * blocked;
        row.idle_no_request += time_left * idle;
        row.woken_for_work += ended_left * ended;
    }
}

//! What a window came to, in a form in which the programs and the reference can be compared: every
//! sum, in nanoseconds.

use super::event::Comm;
use super::host::Kept;
use super::method::Log;
use super::window::{self, Harvest, Sums};
use super::wire::{WaitId, WaitSum, counter, name_of, reason};
use kneepoint_vocab::{CoreTime, Nanos, ThreadRole, ThreadTime};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// existed, running, runnable once woken, runnable once preempted, blocked, switches.
pub(super) type ThreadSums = [u64; 6];

/// blocked, count, longest, idle charged, and blocked by five kinds of holders.
pub(super) type WaitSums = [u64; 9];

/// Idle, system, generator, Kneepoint, other processes, kernel, idle charged to the scheduler, idle
/// of ended stretches that nobody was charged for.
pub(super) type CoreSums = [u64; 8];

/// All sums of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Threads that live at the end, by number.
    pub threads: BTreeMap<u32, ThreadSums>,
    /// All threads by name, and whether they are client threads: how many, and their sums.
    pub groups: BTreeMap<(String, bool), (u64, ThreadSums)>,
    pub waits: BTreeMap<WaitId, WaitSums>,
    pub cores: Vec<CoreSums>,
    /// Sums of the cores with idle time of all kinds, and cores without an event.
    pub machine: (CoreSums, u64),
    /// Wake-ups missed, switches out of order, kernel locks with a missed end; up to now.
    pub missed: [u64; 3],
}

fn sums_of(group: &ThreadTime) -> ThreadSums {
    [
        group.existed.0,
        group.running.0,
        group.runnable_woken.0,
        group.runnable_preempted.0,
        group.blocked.0,
        group.switches,
    ]
}

fn of_machine(time: &CoreTime) -> CoreSums {
    [
        time.idle.0,
        time.system.0,
        time.generator.0,
        time.kneepoint.0,
        time.others.0,
        time.kernel.0,
        time.idle_scheduler.0,
        time.idle_uncharged.0,
    ]
}

/// Adds `more` to a sum of waits.
pub(super) fn add(sums: &mut WaitSums, more: &WaitSums) {
    for (index, (sum, more)) in sums.iter_mut().zip(more).enumerate() {
        *sum = if index == 2 { (*sum).max(*more) } else { *sum + more };
    }
}

fn flat(sum: &WaitSum) -> WaitSums {
    let [none, running, runnable, blocked, unknown] = sum.holders;
    let WaitSum { blocked: time, count, longest, idle, .. } = *sum;
    [time, count, longest, idle, none, running, runnable, blocked, unknown]
}

impl Account {
    /// What user space makes of the programs' maps.
    pub(super) fn of(kept: &Kept) -> Self {
        let mut account = Self::default();
        let harvest = |threads: Vec<_>| Harvest {
            begin: kept.begin,
            end: kept.end,
            threads,
            ..Harvest::default()
        };
        for one in &kept.threads {
            let sums = Sums::of(&harvest(vec![*one]));
            let group = sums.groups.values().next().unwrap();
            account.threads.insert(one.0, sums_of(group));
        }
        let mut all = harvest(kept.threads.clone());
        all.exited = kept.exited.iter().copied().filter(|(_, sum)| sum.threads > 0).collect();
        all.waits.clone_from(&kept.waits);
        all.cores.clone_from(&kept.cores);
        let sums = Sums::of(&all);
        for ((role, name), group) in &sums.groups {
            let key = (name.clone(), *role == ThreadRole::Client);
            account.groups.insert(key, (u64::from(group.threads), sums_of(group)));
        }
        account.add_waits(kept, &sums);
        let charged = account.waits.values().map(|sums| Nanos(sums[3])).sum();
        let (machine, silent) = window::core_time(&all, charged);
        account.machine = (of_machine(&machine), silent);
        for core in &kept.cores {
            let mut one = harvest(Vec::new());
            one.cores.push(*core);
            let (time, silent) = window::core_time(&one, Nanos(0));
            let mut sums = of_machine(&time);
            sums[7] = core.idle_uncharged;
            account.cores.push(if silent == 0 { sums } else { [0; 8] });
        }
        let counted = [counter::MISSED_WAKE, counter::ODD_SWITCH, counter::STALE_LOCK];
        account.missed = counted.map(|which| kept.counters[which as usize]);
        account
    }

    /// Waits by all that is known of them. User space sums them by less; its totals are the same.
    fn add_waits(&mut self, kept: &Kept, sums: &Sums) {
        let mut put = |id: WaitId, sum: &WaitSums| {
            add(self.waits.entry(id).or_default(), sum);
        };
        for (id, sum) in kept.waits.iter().filter(|(_, sum)| sum.count > 0) {
            put(*id, &flat(sum));
        }
        for (_, thread) in &kept.threads {
            thread.waits().for_each(|(id, sum)| put(id, &flat(&sum)));
            if thread.block_start != 0 {
                let until = if thread.wake_ts == 0 { kept.end } else { thread.wake_ts };
                let blocked = until - thread.block_start;
                let count = u64::from(thread.wake_ts != 0);
                put(thread.wait(), &[blocked, count, blocked, 0, 0, 0, 0, 0, 0]);
            }
        }
        let total = |index: usize| self.waits.values().map(|sums| sums[index]).sum::<u64>();
        let by_cause =
            |of: fn(&kneepoint_vocab::Wait) -> u64| sums.waits.values().map(of).sum::<u64>();
        assert_eq!(total(0), by_cause(|wait| wait.blocked.0), "blocked, by cause");
        assert_eq!(total(1), by_cause(|wait| wait.count), "waits, by cause");
        assert_eq!(total(3), by_cause(|wait| wait.idle_charged.0), "idle charged, by cause");
    }

    /// The first difference from what it should be.
    pub(super) fn differs(&self, should: &Self) -> Option<String> {
        None.or_else(|| differing("thread", &self.threads, &should.threads))
            .or_else(|| differing("threads of name, client:", &self.groups, &should.groups))
            .or_else(|| differing("wait", &named(&self.waits), &named(&should.waits)))
            .or_else(|| differing("core", &numbered(&self.cores), &numbered(&should.cores)))
            .or_else(|| {
                let (is, should) = (&self.machine, &should.machine);
                (is != should).then(|| format!("cores: the programs {is:?}, the method {should:?}"))
            })
            .or_else(|| {
                let (is, should) = (&self.missed, &should.missed);
                (is != should)
                    .then(|| format!("missed: the programs {is:?}, the method {should:?}"))
            })
    }

    /// What is not conserved: each thread is in one state at any time, each core does one thing.
    pub(super) fn leaks(&self, length: u64) -> Option<String> {
        for (tid, [existed, running, woken, preempted, blocked, _]) in &self.threads {
            if running + woken + preempted + blocked != *existed {
                return Some(format!("thread {tid}: its states do not add up to its life"));
            }
        }
        let blocked: u64 = self.groups.values().map(|(_, sums)| sums[4]).sum();
        if self.waits.values().map(|sums| sums[0]).sum::<u64>() != blocked {
            return Some("waits do not add up to the blocked time".to_owned());
        }
        let ([spent @ .., scheduler, uncharged], _) = self.machine;
        if spent.iter().sum::<u64>() != length * self.cores.len() as u64 {
            return Some("cores do not add up to the window".to_owned());
        }
        let charged: u64 = self.waits.values().map(|sums| sums[3]).sum();
        let adds_up = charged + scheduler + uncharged == spent[0];
        (!adds_up).then(|| "charges do not add up to the idle time".to_owned())
    }
}

/// Whether every stack of a wait was drawn with the probability that the method says, and its
/// record says how long the wait lasted and for what.
pub(super) fn records_differ(kept: &Kept, log: &Log) -> Option<String> {
    for mark in kept.marks.iter().filter(|mark| mark.kind == 1) {
        let Some(wait) = log.get(&(mark.tid, mark.at)) else {
            return Some(format!("{mark:?}: no such wait"));
        };
        if mark.p != wait.probability {
            return Some(format!("{mark:?}: the method says {wait:?}"));
        }
        let Some(record) = kept.records.iter().find(|record| record.id == mark.id) else {
            if wait.finished {
                return Some(format!("{mark:?}: a wait that ended has no record"));
            }
            continue;
        };
        if record.blocked != wait.blocked || record.wait != wait.id || record.p != mark.p {
            return Some(format!("{record:?}: the method says {wait:?}"));
        }
    }
    None
}

fn numbered<T: Copy>(all: &[T]) -> BTreeMap<usize, T> {
    all.iter().copied().enumerate().collect()
}

/// Readable keys.
fn named(waits: &BTreeMap<WaitId, WaitSums>) -> BTreeMap<String, WaitSums> {
    let text = |comm: &Comm| name_of(comm);
    let key = |id: &WaitId| {
        let kind = if id.reason == reason::FUTEX { "futex" } else { "reason" };
        let WaitId { object, nr, op, reason, role, .. } = *id;
        let name = text(&id.comm);
        format!("{name}, {kind} {reason}, object {object:x}, call {nr}, op {op:x}, client {role}")
    };
    waits.iter().map(|(id, sums)| (key(id), *sums)).collect()
}

fn differing<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    is: &BTreeMap<K, V>,
    should: &BTreeMap<K, V>,
) -> Option<String> {
    let key = is.keys().chain(should.keys()).find(|key| is.get(key) != should.get(key))?;
    let (is, should) = (is.get(key), should.get(key));
    Some(format!("{what} {key:?}:\n  the programs {is:?}\n  the method   {should:?}"))
}

//! The fallback tier: no privilege needed for processes of the same user. A thread of our own
//! reads `/proc/PID/task/TID/syscall`, of few threads 100 times a second, of many some 500 files a
//! second in all; `schedstat` at both edges says exactly how long each thread ran and was
//! runnable, and the readings say what the rest was for.
//!
//! Stacks of what runs come from timers on the threads, in the first part of a window where these
//! switch so often that timers are dear: the part is what the window before says, and there are
//! the more stacks in it.
//!
//! It cannot see single waits, wakers, kernel locks or the life of short threads.

use super::offcpu;
use super::timers::{self, LastWindow, Timers, Timing};
use super::{Collector, Kind, Observation, ProbeError, Watch, open_stacks};
use crate::meter::{CpuMeter, MeterReading};
use crate::proc::schedstat::SchedStat;
use crate::proc::{stat, syscall, tasks};
use crate::stack::{StackCollector, WindowStacks};
use crate::sys;
use crate::target::Target;
use kneepoint_machine::proc::Watched;
use kneepoint_vocab::{
    CollectorCost, CoreTime, Fact, Holders, Loss, Nanos, ThreadRole, ThreadTime, Tier, Wait,
    WaitKey, WaitReason,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Asked interval of the readings where threads are few; late ones weigh more.
const INTERVAL: Duration = Duration::from_millis(10);
/// The same for each thread, where they are many: what is read takes time from what is measured,
/// and a share that all readings of a window tell is as good, however they lie in it.
const INTERVAL_EACH: Duration = Duration::from_millis(2);
/// The longest, so that a window has some of each thread.
const LONGEST: Duration = Duration::from_millis(200);
/// Between two looks for new threads, which cost a few files of each thread.
const RESCAN: Duration = Duration::from_millis(50);
/// The same for each thread, where they are many.
const RESCAN_EACH: Duration = Duration::from_millis(15);

/// The `/proc` collector.
pub(crate) struct FallbackCollector {
    cpus: Vec<u32>,
    stacks: Option<StackCollector>,
    window: Option<OpenWindow>,
    frozen: Option<FrozenWindow>,
    last: Option<LastWindow>,
    /// Whether the first window alone may have timers, where they are dear.
    sparing: bool,
}

/// A window that has ended, before its stacks are named.
struct FrozenWindow {
    ledger: Ledger,
    readings: Readings,
    meter: MeterReading,
    length: u64,
}

struct OpenWindow {
    begin: u64,
    target: Target,
    counts: BTreeMap<u32, (u32, SchedStat)>,
    meter: CpuMeter,
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<Readings>,
}

/// What `/proc` shows, read again and again: works everywhere.
pub(super) const KIND: Kind = Kind {
    tier: Tier::Fallback,
    attach: |cpus, options, remarks| {
        let stacks = open_stacks(options.stacks, &cpus, Watch::OwnProcesses, remarks);
        let collector = FallbackCollector::new(cpus, stacks);
        Ok(Box::new(FallbackCollector { sparing: options.sparing, ..collector }))
    },
};

impl FallbackCollector {
    pub(crate) fn new(cpus: Vec<u32>, stacks: Option<StackCollector>) -> Self {
        Self { cpus, stacks, window: None, frozen: None, last: None, sparing: false }
    }
}

impl Collector for FallbackCollector {
    fn open(&mut self, target: &Target) -> Result<(), ProbeError> {
        if self.window.is_some() {
            return Err(ProbeError::Order("a window is already open; close it first"));
        }
        let target = Target { cpus: target.cpus_of(&self.cpus), ..target.clone() };
        let pids = tasks::family(&target.pids);
        let timing = Timing::after(self.last, self.sparing);
        let stacks = self.stacks.as_mut().filter(|_| timing.length > 0);
        let clocks = stacks.map(|stacks| stacks.begin_at(&pids, timing.hz));
        let clocks = clocks.transpose().map_err(|error| ProbeError::Sampling(error.to_string()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, roots) = (Arc::clone(&stop), target.pids.clone());
        let meter = CpuMeter::start(&target);
        let counts = tasks::counts(&pids);
        let begin = sys::monotonic();
        let sampler = std::thread::Builder::new()
            .name("kp-procfs".to_owned())
            .spawn(move || {
                let until = begin.saturating_add(timing.length);
                let timers = clocks.map(|clocks| Timers::new(clocks, until));
                read_until(&flag, &roots, begin, timers)
            })
            .map_err(|error| ProbeError::Sampling(error.to_string()))?;
        self.window = Some(OpenWindow { begin, target, counts, meter, stop, sampler });
        Ok(())
    }

    /// Ends the window: reads all that must be read while the threads live.
    fn freeze(&mut self) -> Result<(), ProbeError> {
        let window = self.window.take().ok_or(ProbeError::Order("no window is open"))?;
        if let Some(stacks) = &self.stacks {
            stacks.pause();
        }
        window.stop.store(true, Ordering::Relaxed);
        let readings = window
            .sampler
            .join()
            .map_err(|_| ProbeError::Sampling("the reading thread failed".to_owned()))?;
        let end = sys::monotonic();
        let counts = tasks::counts(&tasks::family(&window.target.pids));
        if let Some(stacks) = &self.stacks {
            stacks.read_maps();
        }
        let meter = window.meter.finish();
        let clients = window.target.clients.iter().copied().collect();
        let ledger = Ledger::of(&readings, [&window.counts, &counts], &clients, window.begin, end);
        let length = end - window.begin;
        let cores = window.target.cpus.len();
        self.last = Some(LastWindow { switches: ledger.switches_per_core(length, cores), length });
        self.frozen = Some(FrozenWindow { ledger, readings, meter, length });
        Ok(())
    }

    /// The facts of the frozen window.
    fn collect(&mut self) -> Result<Observation, ProbeError> {
        let frozen = self.frozen.take().ok_or(ProbeError::Order("no window is frozen"))?;
        let FrozenWindow { ledger, readings, meter, length } = frozen;
        let stacks = self.stacks.as_mut().map(StackCollector::end).unwrap_or_default();
        Ok(assemble(ledger, &readings, meter, stacks, length))
    }
}

fn assemble(
    mut ledger: Ledger,
    readings: &Readings,
    meter: MeterReading,
    stacks: WindowStacks,
    length: u64,
) -> Observation {
    let cores = core_time(&meter, length);
    let spread = ledger.charge_idle(cores.idle);
    let cores = CoreTime { idle_uncharged: Nanos(cores.idle.0 - spread.0), ..cores };
    let running = ledger.groups.values().map(|group| group.running).sum();
    let mut facts = vec![Fact::Tier { tier: Tier::Fallback }];
    facts.extend(ledger.groups.into_values().map(Fact::ThreadTime));
    facts.extend(ledger.waits.into_values().map(Fact::Wait));
    facts.push(Fact::CoreTime(cores));
    facts.extend(offcpu::on_cpu(&stacks.on_cpu, running).into_iter().map(Fact::Stack));
    for (what, count, of) in [
        ("/proc readings that came late", readings.late, readings.ticks + readings.late),
        ("stack records lost", stacks.lost, stacks.taken + stacks.lost),
        ("stacks truncated", stacks.truncated, stacks.taken),
    ] {
        if count > 0 {
            facts.push(Fact::Loss(Loss { what: what.to_owned(), count, of: Some(of) }));
        }
    }
    facts.push(Fact::Cost(CollectorCost {
        reader: meter.kneepoint_cpu,
        ..CollectorCost::default()
    }));
    Observation { facts, new_stacks: stacks.new_stacks, length: Nanos(length) }
}

/// The core ledger from tick counts and process clocks, scaled to the window so that it closes.
fn core_time(meter: &MeterReading, length: u64) -> CoreTime {
    let total = length * u64::from(meter.cores);
    let known = [meter.system_cpu, meter.generator_cpu, meter.kneepoint_cpu, meter.kernel_cpu];
    let mut left = total;
    let mut take = |part: u64| {
        let part = part.min(left);
        left -= part;
        Nanos(part)
    };
    let [system, generator, kneepoint, kernel] = known.map(|part| take(part.0));
    let idle = take(meter.idle.0);
    CoreTime {
        cores: meter.cores,
        total: Nanos(total),
        system,
        generator,
        kneepoint,
        kernel,
        idle,
        others: Nanos(left),
        idle_scheduler: Nanos(0),
        idle_uncharged: idle,
        irq: meter.irq_cpu,
        steal: meter.steal_cpu,
    }
}

/// What the readings of one thread showed.
#[derive(Debug)]
struct Read {
    name: String,
    /// First and last reading, monotonic ns.
    first: u64,
    last: u64,
    /// Time by wait; `None`: on a core or runnable.
    states: BTreeMap<Option<WaitKey>, u64>,
}

/// All readings of a window.
#[derive(Debug, Default)]
struct Readings {
    threads: BTreeMap<u32, Read>,
    /// How often all threads were read.
    ticks: u64,
    /// How often they were not when they should have been.
    late: u64,
}

struct Followed {
    pid: u32,
    file: Watched,
}

fn read_until(
    stop: &AtomicBool,
    roots: &[u32],
    begin: u64,
    mut timers: Option<Timers>,
) -> Readings {
    sys::run_first();
    let mut readings = Readings::default();
    let mut followed: BTreeMap<u32, Followed> = BTreeMap::new();
    let mut links = BTreeMap::new();
    let mut before = begin;
    let mut look = begin;
    while !stop.load(Ordering::Relaxed) {
        if before >= look {
            follow_new(roots, &mut followed);
            look = before.saturating_add(nanos(rescan(followed.len())));
        }
        let interval = interval(followed.len());
        timers::rest(interval, &mut timers);
        let now = sys::monotonic();
        readings.late += missed(now - before, interval);
        followed.retain(|tid, thread| {
            let state = state_of(thread, &mut links);
            let Some(state) = state else { return false };
            note(&mut readings.threads, *tid, thread.pid, state, before, now);
            true
        });
        readings.ticks += 1;
        before = now;
    }
    readings
}

/// Between two readings of so many threads.
fn interval(threads: usize) -> Duration {
    of_each(INTERVAL_EACH, threads).clamp(INTERVAL, LONGEST)
}

/// Between two looks for new threads beside so many.
fn rescan(threads: usize) -> Duration {
    of_each(RESCAN_EACH, threads).max(RESCAN)
}

fn of_each(each: Duration, threads: usize) -> Duration {
    each.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Readings that should have been made in the time that one took, beside it.
fn missed(took: u64, interval: Duration) -> u64 {
    (took / nanos(interval).max(1)).saturating_sub(1)
}

fn follow_new(roots: &[u32], followed: &mut BTreeMap<u32, Followed>) {
    for pid in tasks::family(roots) {
        for tid in tasks::threads(pid) {
            if !followed.contains_key(&tid)
                && let Ok(file) = Watched::open(&format!("{pid}/task/{tid}/syscall"))
            {
                followed.insert(tid, Followed { pid, file });
            }
        }
    }
}

/// The thread's state now; the outer `None`: it is gone.
fn state_of(
    thread: &mut Followed,
    links: &mut BTreeMap<(u32, u64), Option<String>>,
) -> Option<Option<WaitKey>> {
    let pid = thread.pid;
    let find = |fd| links.entry((pid, fd)).or_insert_with(|| syscall::link(pid, fd)).clone();
    Some(syscall::parse(thread.file.read()?)?.wait(find))
}

fn note(
    threads: &mut BTreeMap<u32, Read>,
    tid: u32,
    pid: u32,
    state: Option<WaitKey>,
    before: u64,
    now: u64,
) {
    let read = threads.entry(tid).or_insert_with(|| Read {
        name: stat::read_task(pid, tid).map_or_else(String::new, |stat| stat.comm),
        first: before,
        last: now,
        states: BTreeMap::new(),
    });
    read.last = now;
    *read.states.entry(state).or_default() += now - before;
}

type GroupName = (ThreadRole, String);

/// The thread ledger of the window.
#[derive(Debug, Default)]
struct Ledger {
    groups: BTreeMap<GroupName, ThreadTime>,
    waits: BTreeMap<(GroupName, WaitKey), Wait>,
}

/// `part` of `whole`, of `amount`.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(amount) * u128::from(part);
    u64::try_from(product.checked_div(u128::from(whole)).unwrap_or(0)).unwrap_or(u64::MAX)
}

impl Ledger {
    fn of(
        readings: &Readings,
        [before, after]: [&BTreeMap<u32, (u32, SchedStat)>; 2],
        clients: &BTreeSet<u32>,
        begin: u64,
        end: u64,
    ) -> Self {
        let mut ledger = Self::default();
        for (tid, read) in &readings.threads {
            let role = if clients.contains(tid) { ThreadRole::Client } else { ThreadRole::Other };
            let name = (role, read.name.clone());
            let from = if before.contains_key(tid) { begin } else { read.first };
            let until = if after.contains_key(tid) { end } else { read.last };
            let start = before.get(tid).map(|(_, counts)| *counts).unwrap_or_default();
            let counted = after.get(tid).map(|(_, counts)| counts.since(start));
            ledger.add(&name, read, until.saturating_sub(from), counted);
        }
        ledger
    }

    fn add(&mut self, name: &GroupName, read: &Read, existed: u64, counted: Option<SchedStat>) {
        let sampled: u64 = read.states.values().sum();
        let ready = read.states.get(&None).copied().unwrap_or(0);
        let (running, runnable) = match counted {
            Some(counts) => {
                let running = counts.running.min(existed);
                (running, counts.runnable.min(existed - running))
            }
            None => (share(existed, ready, sampled), 0),
        };
        let blocked = existed - running - runnable;
        let group = self.groups.entry(name.clone()).or_insert_with(|| ThreadTime {
            role: Some(name.0),
            name: name.1.clone(),
            schedstat_running: Some(Nanos(0)),
            schedstat_runnable: Some(Nanos(0)),
            ..ThreadTime::default()
        });
        group.threads += 1;
        group.existed += Nanos(existed);
        group.running += Nanos(running);
        group.runnable_woken += Nanos(runnable);
        group.blocked += Nanos(blocked);
        group.switches += counted.map_or(0, |counts| counts.slices);
        match (counted, &mut group.schedstat_running, &mut group.schedstat_runnable) {
            (Some(counts), Some(running), Some(runnable)) => {
                *running += Nanos(counts.running);
                *runnable += Nanos(counts.runnable);
            }
            _ => (group.schedstat_running, group.schedstat_runnable) = (None, None),
        }
        self.spread(name, read, blocked, sampled - ready);
    }

    /// How often a second each of so many cores switched to one of the threads, in a window of
    /// `length` ns.
    fn switches_per_core(&self, length: u64, cores: usize) -> f64 {
        let switches: u64 = self.groups.values().map(|group| group.switches).sum();
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let (switches, cores) = (switches as f64, cores.max(1) as f64);
        switches / cores / Duration::from_nanos(length).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Blocked time over the waits seen, in proportion; to `Other` where none was.
    fn spread(&mut self, name: &GroupName, read: &Read, blocked: u64, seen: u64) {
        if seen == 0 && blocked > 0 {
            let reason = WaitReason::Other;
            let key = WaitKey { reason, object: 0, object_name: None, syscall: -1 };
            self.wait(name, &key).blocked += Nanos(blocked);
        }
        for (key, length) in &read.states {
            if let Some(key) = key {
                self.wait(name, key).blocked += Nanos(share(blocked, *length, seen));
            }
        }
    }

    fn wait(&mut self, name: &GroupName, key: &WaitKey) -> &mut Wait {
        self.waits.entry((name.clone(), key.clone())).or_insert_with(|| Wait {
            role: name.0,
            name: name.1.clone(),
            key: key.clone(),
            blocked: Nanos(0),
            count: 0,
            longest: Nanos(0),
            idle_charged: Nanos(0),
            holders: Holders::default(),
        })
    }

    /// Spreads idle core-time over the waits in proportion to blocked time; returns how much.
    fn charge_idle(&mut self, idle: Nanos) -> Nanos {
        let blocked: u64 = self.waits.values().map(|wait| wait.blocked.0).sum();
        let mut spread = Nanos(0);
        for wait in self.waits.values_mut() {
            wait.idle_charged = Nanos(share(idle.0, wait.blocked.0, blocked));
            spread += wait.idle_charged;
        }
        spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(states: &[(Option<u64>, u64)]) -> Read {
        let key = |object| WaitKey {
            reason: WaitReason::UserLock,
            object,
            object_name: None,
            syscall: 202,
        };
        Read {
            name: "t".into(),
            first: 0,
            last: 1000,
            states: states.iter().map(|(object, ns)| (object.map(key), *ns)).collect(),
        }
    }

    #[test]
    fn many_threads_are_read_less_often() {
        assert_eq!([0, 5, 6].map(interval).map(|at| at.as_millis()), [10, 10, 12]);
        assert_eq!([0, 3, 34].map(rescan).map(|at| at.as_millis()), [50, 50, 510]);
        assert_eq!(interval(1_000_000), LONGEST);
        let ms = |ms: u64| missed(ms * 1_000_000, Duration::from_millis(20));
        assert_eq!([0, 19, 20, 39, 40, 61].map(ms), [0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn idle_goes_to_waits_in_proportion() {
        let readings = Readings {
            threads: BTreeMap::from([(5, read(&[(Some(1), 300), (Some(2), 100), (None, 600)]))]),
            ticks: 1,
            late: 0,
        };
        let before = BTreeMap::from([(5, (1, SchedStat::default()))]);
        let counts = SchedStat { running: 500, runnable: 100, slices: 2 };
        let after = BTreeMap::from([(5, (1, counts))]);
        let mut ledger = Ledger::of(&readings, [&before, &after], &BTreeSet::new(), 0, 1000);
        assert_eq!(ledger.charge_idle(Nanos(800)), Nanos(800));
        let charged: Vec<_> =
            ledger.waits.values().map(|w| (w.blocked.0, w.idle_charged.0)).collect();
        assert_eq!(charged, [(300, 600), (100, 200)]);
    }

    proptest! {
        #[test]
        fn the_thread_ledger_closes(
            running in 0_u64..2_000, runnable in 0_u64..2_000,
            states in prop::collection::vec((prop::option::of(0_u64..4), 1_u64..500), 1..6),
            known: bool,
        ) {
            let threads = BTreeMap::from([(5, read(&states))]);
            let readings = Readings { threads, ticks: 1, late: 0 };
            let before = BTreeMap::from([(5, (1, SchedStat::default()))]);
            let counts = SchedStat { running, runnable, slices: 2 };
            let after = if known { BTreeMap::from([(5, (1, counts))]) } else { BTreeMap::new() };
            let ledger = Ledger::of(&readings, [&before, &after], &BTreeSet::new(), 0, 1000);
            let group = ledger.groups.values().next().unwrap();
            prop_assert_eq!(
                group.running.0 + group.runnable_woken.0 + group.blocked.0,
                group.existed.0
            );
            let waited: u64 = ledger.waits.values().map(|wait| wait.blocked.0).sum();
            prop_assert!(waited <= group.blocked.0 && waited + 6 >= group.blocked.0);
        }
    }
}

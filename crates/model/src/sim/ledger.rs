//! Where the cores and the threads of a simulation were: the lines of the measured ledger.
//!
//! Everything is counted in picoseconds as it happens, so the sums are exact: cores × window and
//! threads × window. Idle cores are charged by the rule of the measured ledger.

use super::program::Compiled;
use super::{Ticks, seconds};
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::{Cores, PerSecond, Ratio, Seconds};

/// What time can be charged to, by number.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) switching: u32,
    pub(super) sibling: u32,
    pub(super) scheduler: u32,
    pub(super) think: u32,
    pub(super) start: u32,
    first_lock: u32,
    first_device: u32,
    first_channel: u32,
    first_semaphore: u32,
    first_bus: u32,
    names: Vec<(Sort, String)>,
}

/// What sort of thing an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Switching,
    Sibling,
    Scheduler,
    Think,
    Start,
    Lock,
    Device,
    /// Waiting for an item.
    Work,
    /// Waiting for a reply, or for room.
    Reply,
    Semaphore,
    Bus,
}

impl Objects {
    pub(super) fn of(twin: &Compiled) -> Self {
        let mut names = vec![
            (Sort::Switching, "context switches".to_owned()),
            (Sort::Sibling, "a busy sibling".to_owned()),
            (Sort::Scheduler, "the scheduler".to_owned()),
            (Sort::Think, "think time".to_owned()),
            (Sort::Start, "the start".to_owned()),
        ];
        let first = |names: &Vec<_>| super::thread::count(names);
        let first_lock = first(&names);
        names.extend(twin.locks.iter().map(|it| (Sort::Lock, it.name.clone())));
        let first_device = first(&names);
        names.extend(twin.devices.iter().map(|it| (Sort::Device, it.name.clone())));
        let first_channel = first(&names);
        for channel in &twin.channels {
            names.push((Sort::Work, channel.name.clone()));
            names.push((Sort::Reply, channel.name.clone()));
        }
        let first_semaphore = first(&names);
        names.extend(twin.semaphores.iter().map(|it| (Sort::Semaphore, it.name.clone())));
        let first_bus = first(&names);
        names.extend(twin.buses.iter().map(|it| (Sort::Bus, it.name.clone())));
        Self {
            switching: 0,
            sibling: 1,
            scheduler: 2,
            think: 3,
            start: 4,
            first_lock,
            first_device,
            first_channel,
            first_semaphore,
            first_bus,
            names,
        }
    }

    #[inline]
    pub(super) fn lock(&self, lock: u32) -> u32 {
        self.first_lock + lock
    }

    #[inline]
    pub(super) fn device(&self, device: u32) -> u32 {
        self.first_device + device
    }

    /// Waiting for an item of the channel.
    pub(super) fn work(&self, channel: u32) -> u32 {
        self.first_channel + 2 * channel
    }

    /// Waiting for a reply of those behind the channel, or for room in it.
    pub(super) fn room(&self, channel: u32) -> u32 {
        self.first_channel + 2 * channel + 1
    }

    pub(super) fn semaphore(&self, semaphore: u32) -> u32 {
        self.first_semaphore + semaphore
    }

    pub(super) fn bus(&self, bus: u32) -> u32 {
        self.first_bus + bus
    }

    pub(super) fn is_lock(&self, object: u32) -> bool {
        (self.first_lock..self.first_device).contains(&object)
    }

    /// All of them in the order of their numbers.
    pub(super) fn all(&self) -> &[(Sort, String)] {
        &self.names
    }

    pub(super) fn name(&self, object: u32) -> &str {
        &self.names[object as usize].1
    }
}

/// What was counted in the window, in picoseconds and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Begin of the window.
    pub begin: Ticks,
    /// Its end.
    pub end: Ticks,
    /// CPU that programs asked for.
    pub useful: Ticks,
    /// CPU of transfers that have not ended yet.
    pub stalled: Ticks,
    /// Extra CPU by object.
    pub cpu: Vec<Ticks>,
    /// Idle core-time charged by object.
    pub idle: Vec<Ticks>,
    /// Idle core-time that the rule charged to nothing.
    pub uncharged: Ticks,
    /// Blocked thread-time by object: of other threads, and of clients.
    pub blocked: [Vec<Ticks>; 2],
    /// Waits that ended, and the longest of them, in the same way.
    pub waits: [Vec<u64>; 2],
    /// See `waits`.
    pub longest: [Vec<Ticks>; 2],
    /// Runnable thread-time: of other threads, and of clients.
    pub runnable: [Ticks; 2],
    /// Time on a core by class.
    pub busy: Vec<Ticks>,
    /// Operations completed in the window.
    pub operations: u64,
    /// Sum over them of the time from their start, or the window's, to their end.
    pub response: Ticks,
    /// Times that a thread began to run on a core.
    pub switches: u64,
    /// Threads taken from another core's queue.
    pub steals: u64,
    /// Slices that ended with another thread waiting.
    pub preemptions: u64,
    /// Server-time in use, by device.
    pub device_busy: Vec<Ticks>,
    /// Requests served, by device.
    pub device_served: Vec<u64>,
    /// Time held, by lock; readers count each.
    pub lock_held: Vec<Ticks>,
    /// Times taken, by lock.
    pub lock_taken: Vec<u64>,
    /// Times that it was not free, by lock.
    pub lock_waited: Vec<u64>,
    /// Operations completed since the start, before the window too.
    pub(super) completed_ever: u64,
}

impl Account {
    pub(super) fn new(objects: &Objects, twin: &Compiled) -> Self {
        let zero = vec![0; objects.names.len()];
        Self {
            cpu: zero.clone(),
            idle: zero.clone(),
            blocked: [zero.clone(), zero.clone()],
            waits: [zero.clone(), zero.clone()],
            longest: [zero.clone(), zero],
            busy: vec![0; twin.classes.len()],
            ..Self::default()
        }
    }

    pub(super) fn reset(&mut self, now: Ticks) {
        let fresh = Self {
            begin: now,
            end: now,
            cpu: vec![0; self.cpu.len()],
            idle: vec![0; self.idle.len()],
            blocked: [vec![0; self.cpu.len()], vec![0; self.cpu.len()]],
            waits: [vec![0; self.cpu.len()], vec![0; self.cpu.len()]],
            longest: [vec![0; self.cpu.len()], vec![0; self.cpu.len()]],
            busy: vec![0; self.busy.len()],
            completed_ever: self.completed_ever,
            ..Self::default()
        };
        *self = fresh;
    }

    /// Length of the window.
    #[must_use]
    pub fn window(&self) -> Ticks {
        self.end - self.begin
    }

    /// All core-time that is accounted; the law is that it is cores × window.
    #[must_use]
    pub fn core_time(&self) -> Ticks {
        let lists = self.cpu.iter().chain(&self.idle).sum::<Ticks>();
        lists + self.useful + self.stalled + self.uncharged
    }

    /// All thread-time that is accounted; the law is that it is threads × window.
    #[must_use]
    pub fn thread_time(&self) -> Ticks {
        let blocked = self.blocked.iter().flatten().sum::<Ticks>();
        blocked + self.runnable.iter().sum::<Ticks>() + self.busy.iter().sum::<Ticks>()
    }
}

/// A line of a simulated ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerLine<U> {
    /// Its kind, as in a measured ledger.
    pub kind: LineKind,
    /// The object, by its name in the twin; empty for lines that have none.
    pub object: String,
    /// How much.
    pub amount: U,
}

/// Threads of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassAccount {
    /// Its name.
    pub name: String,
    /// Cores that it kept busy: near its number of threads, it is saturated.
    pub busy: Cores,
}

/// A lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockAccount {
    /// Its name.
    pub name: String,
    /// Part of the window in which it was held; readers count each.
    pub held: Ratio,
    /// Times taken for one operation.
    pub visits: f64,
    /// Part of them in which it was not free.
    pub contended: Ratio,
    /// Mean time held.
    pub hold: Seconds,
}

/// The two ledgers of one simulated level.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedLedger {
    /// C, to which the core lines add up.
    pub cores: Cores,
    /// Operations each second.
    pub throughput: PerSecond,
    /// Where the cores were; in all C.
    pub core: Vec<LedgerLine<Cores>>,
    /// Idle cores that the rule charged to nothing and that were spread over what clients waited
    /// for: the weaker part of the estimate.
    pub spread: Cores,
    /// Where a client is in the course of an operation; in all N / X.
    pub thread: Vec<LedgerLine<Seconds>>,
    /// C / X: core-seconds of the whole machine for one operation.
    pub price: Seconds,
    /// Classes of threads.
    pub classes: Vec<ClassAccount>,
    /// Locks.
    pub locks: Vec<LockAccount>,
}

impl SimulatedLedger {
    /// The ledgers of a window.
    #[must_use]
    pub fn of(twin: &Compiled, account: &Account) -> Self {
        let objects = Objects::of(twin);
        let window = seconds(account.window()).max(f64::MIN_POSITIVE);
        let cores = |ticks: Ticks| seconds(ticks) / window;
        #[allow(clippy::cast_precision_loss, reason = "operations are far below 2^53")]
        let operations = account.operations.max(1) as f64;
        let throughput = operations / window;
        let (idle, unused, spread) = charge(twin, &objects, account, cores);
        let mut core = Vec::new();
        let mut line = |kind, object: &str, amount: f64| {
            if amount > 0.0 {
                core.push(LedgerLine { kind, object: object.to_owned(), amount: Cores(amount) });
            }
        };
        // Measured ledgers call useful what the cheapest level takes; so does this one.
        let programs = cores(account.useful + account.stalled);
        let useful = programs / twin.crowding;
        line(LineKind::Useful, "", useful);
        line(LineKind::ExtraCpu, "crowding", programs - useful);
        for ((sort, name), ticks) in objects.names.iter().zip(&account.cpu) {
            line(sort.busy(), name, cores(*ticks));
        }
        for ((sort, name), amount) in objects.names.iter().zip(&idle) {
            line(sort.idle(), name, *amount);
        }
        line(LineKind::IdleNoWork, "", unused);
        Self {
            cores: Cores(f64::from(twin.cores)),
            throughput: PerSecond(throughput),
            core,
            spread: Cores(spread),
            thread: thread_lines(twin, &objects, account, operations),
            price: Seconds(f64::from(twin.cores) / throughput),
            classes: classes(twin, account, cores),
            locks: locks(twin, account, window, operations),
        }
    }
}

impl Sort {
    fn busy(self) -> LineKind {
        match self {
            Self::Switching | Self::Scheduler => LineKind::Kernel,
            _ => LineKind::ExtraCpu,
        }
    }

    fn idle(self) -> LineKind {
        match self {
            Self::Lock | Self::Semaphore => LineKind::IdleLock,
            Self::Device => LineKind::IdleDevice,
            Self::Reply => LineKind::IdleThread,
            Self::Scheduler => LineKind::IdleScheduler,
            _ => LineKind::IdleOther,
        }
    }
}

/// Idle cores by object, unused cores, and how much of the first was spread.
///
/// As in the measured ledger: what was not asked for, C - min(N, C), comes out of what the rule
/// charged to nothing, then out of all charges in proportion; what is left uncharged is spread over
/// what clients waited for. Idle time charged to threads that wait for work counts as uncharged.
fn charge(
    twin: &Compiled,
    objects: &Objects,
    account: &Account,
    cores: impl Fn(Ticks) -> f64,
) -> (Vec<f64>, f64, f64) {
    let own = |index: usize| matches!(objects.names[index].0, Sort::Work | Sort::Start);
    let mut idle: Vec<f64> = account.idle.iter().map(|ticks| cores(*ticks)).collect();
    let mut uncharged = cores(account.uncharged);
    for (index, amount) in idle.iter_mut().enumerate() {
        if own(index) {
            uncharged += std::mem::take(amount);
        }
    }
    let clients = twin.clients();
    let asked = if clients == 0 { twin.cores } else { clients.min(twin.cores) };
    let mut unused = f64::from(twin.cores - asked);
    let from_uncharged = unused.min(uncharged);
    uncharged -= from_uncharged;
    let charged: f64 = idle.iter().sum();
    let rest = (unused - from_uncharged).min(charged);
    if charged > 0.0 {
        idle.iter_mut().for_each(|amount| *amount *= 1.0 - rest / charged);
    }
    unused = from_uncharged + rest;
    let mut weights: Vec<f64> = account.blocked[1].iter().map(|ticks| cores(*ticks)).collect();
    weights[objects.scheduler as usize] += cores(account.runnable[1]);
    let all: f64 = weights.iter().sum();
    if all > 0.0 {
        for (amount, weight) in idle.iter_mut().zip(&weights) {
            *amount += uncharged * weight / all;
        }
        (idle, unused, uncharged)
    } else {
        (idle, unused + uncharged, 0.0)
    }
}

fn thread_lines(
    twin: &Compiled,
    objects: &Objects,
    account: &Account,
    operations: f64,
) -> Vec<LedgerLine<Seconds>> {
    let busy = account.busy.iter().zip(&twin.classes).filter(|(_, class)| class.client);
    let running: Ticks = busy.map(|(ticks, _)| *ticks).sum();
    let line = |kind, object: &str, ticks: Ticks| LedgerLine {
        kind,
        object: object.to_owned(),
        amount: Seconds(seconds(ticks) / operations),
    };
    let mut lines = vec![
        line(LineKind::Running, "", running),
        line(LineKind::Runnable, "", account.runnable[1]),
    ];
    let blocked = objects.names.iter().zip(&account.blocked[1]);
    lines.extend(blocked.map(|((sort, name), ticks)| line(sort.idle(), name, *ticks)));
    lines.retain(|line| line.amount.0 > 0.0);
    lines
}

fn classes(twin: &Compiled, account: &Account, cores: impl Fn(Ticks) -> f64) -> Vec<ClassAccount> {
    let pairs = twin.classes.iter().zip(&account.busy);
    pairs
        .map(|(class, ticks)| ClassAccount { name: class.name.clone(), busy: Cores(cores(*ticks)) })
        .collect()
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn locks(twin: &Compiled, account: &Account, window: f64, operations: f64) -> Vec<LockAccount> {
    (0..twin.locks.len())
        .map(|index| {
            let taken = account.lock_taken[index] as f64;
            let held = seconds(account.lock_held[index]);
            LockAccount {
                name: twin.locks[index].name.clone(),
                held: Ratio(held / window),
                visits: taken / operations,
                contended: Ratio(account.lock_waited[index] as f64 / taken.max(1.0)),
                hold: Seconds(held / taken.max(1.0)),
            }
        })
        .collect()
}

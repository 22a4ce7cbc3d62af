//! A simulated window as the facts that a collector would have seen, so that a simulated run is a
//! run like any other.

use super::Ticks;
use super::ledger::{Account, Objects, Sort};
use super::program::{Compiled, LockKind};
use kneepoint_vocab::{
    CodeKind, CoreTime, Fact, Frame, Holders, Nanos, StackId, StackKind, StackRecord, StackWeight,
    ThreadRole, ThreadTime, Tier, Wait, WaitKey, WaitReason,
};

/// The futex system call, by which locks of programs are waited for.
const FUTEX: i32 = 202;
/// Picoseconds in a nanosecond.
const NANO: Ticks = 1000;

/// What a collector that sees everything would have recorded.
#[must_use]
pub fn facts(twin: &Compiled, account: &Account) -> Vec<Fact> {
    let objects = Objects::of(twin);
    let mut all = vec![Fact::Tier { tier: Tier::Full }, core_time(twin, &objects, account)];
    for role in [ThreadRole::Other, ThreadRole::Client] {
        all.extend(threads(twin, &objects, account, role));
    }
    let mut on_cpu = |stack: u32, ticks: Ticks| {
        if ticks >= NANO {
            all.push(Fact::Stack(StackWeight {
                kind: StackKind::OnCpu,
                stack: StackId(stack),
                wait: None,
                role: None,
                weight: nanos(ticks),
                count: 1,
            }));
        }
    };
    on_cpu(0, account.useful + account.stalled);
    for (number, ticks) in (1_u32..).zip(&account.cpu) {
        on_cpu(number, *ticks);
    }
    all
}

/// The stacks that [`facts`] refer to: the programs' own, then one for each object that takes CPU.
#[must_use]
pub fn stacks(twin: &Compiled) -> Vec<StackRecord> {
    let record = |id: u32, function: &str, module: &str| StackRecord {
        id: StackId(id),
        frames: vec![Frame { function: function.to_owned(), module: module.to_owned() }],
        truncated: false,
        code: CodeKind::Other,
        sources: Vec::new(),
        modules: Vec::new(),
    };
    let objects = Objects::of(twin);
    let spun = |name: &str| {
        let spins = |kind| matches!(kind, LockKind::TestAndSet | LockKind::Ticket | LockKind::Mcs);
        twin.locks.iter().any(|lock| lock.name == name && spins(lock.kind))
    };
    let mut all = vec![record(0, "program", &twin.name)];
    for (id, (sort, name)) in (1_u32..).zip(objects.all()) {
        all.push(match sort {
            Sort::Lock if spun(name) => StackRecord {
                code: CodeKind::Spin,
                ..record(id, &format!("{name}: spinning"), &twin.name)
            },
            Sort::Switching => record(id, "context_switch", "[kernel]"),
            Sort::Scheduler => record(id, "run_queue_lock", "[kernel]"),
            Sort::Lock => record(id, &format!("{name}: waking, spinning, moving"), &twin.name),
            _ => record(id, name, &twin.name),
        });
    }
    all
}

fn nanos(ticks: Ticks) -> Nanos {
    Nanos((ticks + NANO / 2) / NANO)
}

fn core_time(twin: &Compiled, objects: &Objects, account: &Account) -> Fact {
    let total = Ticks::from(twin.cores) * account.window();
    let system: Ticks = account.busy.iter().sum();
    Fact::CoreTime(CoreTime {
        cores: twin.cores,
        total: nanos(total),
        system: nanos(system),
        idle: nanos(total - system),
        idle_scheduler: nanos(account.idle[objects.scheduler as usize]),
        idle_uncharged: nanos(account.uncharged + account.idle[objects.start as usize]),
        ..CoreTime::default()
    })
}

/// Threads of a role, and what they waited for.
fn threads(twin: &Compiled, objects: &Objects, account: &Account, role: ThreadRole) -> Vec<Fact> {
    let client = role == ThreadRole::Client;
    let mine = || twin.classes.iter().zip(&account.busy).filter(|(it, _)| it.client == client);
    let count: u32 = mine().map(|(class, _)| class.count).sum();
    let Some((first, _)) = mine().next().filter(|_| count > 0) else { return Vec::new() };
    let number = usize::from(client);
    let running: Ticks = mine().map(|(_, ticks)| *ticks).sum();
    let blocked: Ticks = account.blocked[number].iter().sum();
    // Switches are counted for all threads together; they are told once.
    let counted = client || twin.classes.iter().all(|it| !it.client);
    let mut all = vec![Fact::ThreadTime(ThreadTime {
        role: Some(role),
        name: first.name.clone(),
        threads: count,
        existed: nanos(Ticks::from(count) * account.window()),
        running: nanos(running),
        runnable_woken: nanos(account.runnable[number]),
        blocked: nanos(blocked),
        switches: if counted { account.switches } else { 0 },
        ..ThreadTime::default()
    })];
    for (index, (sort, name)) in objects.all().iter().enumerate() {
        let blocked = account.blocked[number][index];
        if blocked == 0 && account.waits[number][index] == 0 {
            continue;
        }
        // What idle cores were charged with is known by object; clients' waits pay first.
        let pays = client || account.blocked[1][index] == 0;
        all.push(Fact::Wait(Wait {
            role,
            name: first.name.clone(),
            key: key(*sort, name, index),
            blocked: nanos(blocked),
            count: account.waits[number][index],
            longest: nanos(account.longest[number][index]),
            idle_charged: if pays && *sort != Sort::Start {
                nanos(account.idle[index])
            } else {
                Nanos(0)
            },
            holders: Holders::default(),
        }));
    }
    all
}

fn key(sort: Sort, name: &str, index: usize) -> WaitKey {
    let (reason, syscall) = match sort {
        Sort::Lock | Sort::Semaphore => (WaitReason::UserLock, FUTEX),
        Sort::Device => (WaitReason::Device, -1),
        Sort::Work => (WaitReason::Condition, FUTEX),
        Sort::Reply => (WaitReason::Pipe, 0),
        Sort::Think => (WaitReason::Timer, -1),
        _ => (WaitReason::Other, -1),
    };
    // Names of real objects stand for an address; a simulated one needs only to be distinct.
    let object = 0x1000 + 64 * index as u64;
    WaitKey { reason, object, object_name: Some(name.to_owned()), syscall }
}

/// Length of the window, as a run has it.
#[must_use]
pub fn window(account: &Account) -> Nanos {
    nanos(account.window())
}

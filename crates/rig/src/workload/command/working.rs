//! Which threads of a command do its work, and when it ended.

use crate::process::Process;
use anyhow::Context as _;
use kneepoint_machine::proc::schedstat::SchedStat;
use kneepoint_machine::proc::tasks;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long is looked which threads use CPU.
const LOOK: Duration = Duration::from_millis(30);
/// The same for each client more: they take turns on the cores.
const LOOK_EACH: Duration = Duration::from_millis(1);

/// How long [`workers`] and the start of a command take.
pub(super) fn look(clients: u32) -> Duration {
    LOOK + LOOK_EACH * clients
}

/// How often it is looked whether clients that work can be distinguished from others.
const GLANCE: Duration = Duration::from_millis(20);
/// So many looks have to find the same clients where others use CPU too: of those who share a core
/// some have not had their turn in the first.
const LOOKS: u32 = 3;
/// The most that is looked so, on a busy machine,
const TIMEOUT: Duration = Duration::from_millis(100);
/// and for each client more: those that share one lock, such as that of an interpreter, take turns
/// of some milliseconds.
const TURN: Duration = Duration::from_millis(10);

/// The most that [`workers_now`] takes.
pub(super) fn longest_look(clients: u32) -> Duration {
    TIMEOUT + TURN * clients
}

/// The same of clients that are at work: as soon as each has used CPU. What was busy at the start
/// may have been the start itself, as with a thread that starts the others and waits for them.
/// Where helpers are as busy as clients, those are the clients that are alike (see [`Place`]).
pub(super) fn workers_now(
    process: &mut Process,
    clients: u32,
    place: &mut Option<Place>,
) -> Option<Vec<u32>> {
    let begun = Instant::now();
    let before = running(process.pid());
    let (mut found, mut looks) = (Vec::new(), 0);
    loop {
        std::thread::sleep(GLANCE);
        if process.ended().is_some() {
            return None;
        }
        let tasks = used_since(&before, &running(process.pid()));
        let now = busiest(&tasks, clients as usize);
        looks = if now == found { looks + 1 } else { 1 };
        found = now;
        let alone = tasks.len() == clients as usize;
        if !found.is_empty() && (alone || looks >= LOOKS) {
            return Some(found);
        }
        if begun.elapsed() >= longest_look(clients) {
            return Some(alike(&tasks, clients as usize, place));
        }
    }
}

/// The threads of a process and its descendants that are its clients by the CPU that they used
/// while looked at; none where clients cannot be distinguished from others.
pub(super) fn workers(process: &mut Process, clients: u32) -> Vec<u32> {
    let half = look(clients) / 2;
    // What it does first, it does not do as a client.
    std::thread::sleep(half);
    let before = running(process.pid());
    std::thread::sleep(half);
    if process.ended().is_some() {
        return Vec::new();
    }
    let after = running(process.pid());
    busiest(&used_since(&before, &after), clients as usize)
}

/// A thread that used CPU between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    tid: u32,
    /// CPU, ns.
    pub(super) used: u64,
    /// Times that it got a core.
    turns: u64,
}

/// Threads that used CPU between two looks, the oldest first.
pub(super) fn used_since(
    before: &BTreeMap<u32, SchedStat>,
    after: &BTreeMap<u32, SchedStat>,
) -> Vec<Task> {
    let used = |(tid, now): (&u32, &SchedStat)| {
        let since = now.since(before.get(tid).copied().unwrap_or_default());
        let task = Task { tid: *tid, used: since.running, turns: since.slices };
        (task.used > 0).then_some(task)
    };
    after.iter().filter_map(used).collect()
}

/// How many times as much CPU as the busiest helper the idlest client must have used.
const APART: u64 = 3;

/// The busiest `clients` of some threads, in the order given; none where there are too few, or the
/// next one behind them was nearly as busy.
fn busiest(tasks: &[Task], clients: usize) -> Vec<u32> {
    let mut times: Vec<u64> = tasks.iter().map(|task| task.used).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let Some(least) = clients.checked_sub(1).and_then(|last| times.get(last)).copied() else {
        return Vec::new();
    };
    if times.get(clients).is_some_and(|helper| helper.saturating_mul(APART) > least) {
        return Vec::new();
    }
    tasks.iter().filter(|task| task.used >= least).map(|task| task.tid).collect()
}

/// Where clients stand among the threads that work, the oldest first, in a program whose helpers
/// are as busy as they are: one after the other, behind so many helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    before: usize,
    helpers: usize,
}

/// How many times as unlike any other row of threads must be for one to be the clients'.
const UNLIKE: f64 = 3.0;

/// The clients among helpers as busy as they are: threads that began one after the other and are
/// much more alike than any others that did, in CPU and in how often they got a core. What several
/// clients showed holds for one client, who is like himself whoever he is, and where the others
/// are not alike just then. None where nothing shows them.
fn alike(tasks: &[Task], clients: usize, place: &mut Option<Place>) -> Vec<u32> {
    let Some(helpers) = tasks.len().checked_sub(clients).filter(|helpers| *helpers > 0) else {
        return Vec::new();
    };
    if let Some(before) = most_alike(tasks, clients) {
        *place = Some(Place { before, helpers });
    }
    let known = place.filter(|place| place.helpers == helpers);
    known.map_or_else(Vec::new, |place| {
        tasks[place.before..place.before + clients].iter().map(|task| task.tid).collect()
    })
}

/// Where the row of `clients` threads begins that are more alike than those of any other row.
fn most_alike(tasks: &[Task], clients: usize) -> Option<usize> {
    if clients < 2 {
        return None;
    }
    let mut rows: Vec<(f64, usize)> = tasks.windows(clients).map(unlikeness).zip(0..).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    match rows.as_slice() {
        [(least, before), (next, _), ..] if *next >= UNLIKE * least => Some(*before),
        _ => None,
    }
}

/// How many times as much as the least of some threads the greatest has, of CPU times of turns; at
/// least 1.
fn unlikeness(tasks: &[Task]) -> f64 {
    /// Less than this is as good as none: a look ends within somebody's turn.
    const MILLISECOND: u64 = 1_000_000;
    const TURNS: u64 = 5;
    #[allow(clippy::cast_precision_loss, reason = "times of a look")]
    let ratio = |of: fn(&Task) -> u64, floor: u64| {
        let all = || tasks.iter().map(of);
        let (most, least) = (all().max().unwrap_or(0), all().min().unwrap_or(0));
        (most + floor) as f64 / (least + floor) as f64
    };
    ratio(|task| task.used, MILLISECOND) * ratio(|task| task.turns, TURNS)
}

/// What every thread of a family did so far.
pub(super) fn running(root: u32) -> BTreeMap<u32, SchedStat> {
    let counts = tasks::counts(&tasks::family(&[root]));
    counts.into_iter().map(|(tid, (_, counted))| (tid, counted)).collect()
}

/// Sees a process end, without ending its guard's hold of the process id.
///
/// # Errors
/// No thread can be started.
pub(super) fn watch(process: &Process) -> anyhow::Result<JoinHandle<Instant>> {
    let id = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    let see = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It ends early only where somebody has already seen the end.
        while let Some(id) = id {
            match waitid(WaitId::Pid(id), options) {
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        Instant::now()
    };
    std::thread::Builder::new().spawn(see).context("no thread can be started")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(used: &[(u32, u64)]) -> Vec<Task> {
        used.iter().map(|(tid, used)| Task { tid: *tid, used: *used, turns: 1 }).collect()
    }

    #[test]
    fn the_busiest_threads_are_the_clients_beside_helpers() {
        let helped = tasks(&[(10, 40), (11, 9_000), (12, 3_000), (13, 10), (14, 8_000)]);
        assert_eq!(busiest(&helped, 3), [11, 12, 14]);
        // Between two of like size nobody can draw a line.
        assert!(busiest(&helped, 1).is_empty());
        assert!(busiest(&helped, 6).is_empty());
        assert!(busiest(&[], 1).is_empty());
        assert_eq!(busiest(&tasks(&[(1, 5), (2, 900)]), 2), [1, 2]);
        assert!(busiest(&tasks(&[(1, 7), (2, 7), (3, 7)]), 2).is_empty());
    }

    /// CPU in ms and turns of threads numbered from 20 on.
    fn looked_at(tasks: &[(u64, u64)]) -> Vec<Task> {
        let task = |(tid, (ms, turns)): (u32, &(u64, u64))| Task {
            tid,
            used: ms * 1_000_000,
            turns: *turns,
        };
        (20..).zip(tasks).map(task).collect()
    }

    #[test]
    fn clients_beside_helpers_as_busy_are_those_who_are_alike() {
        let mut place = None;
        // One that intrudes half of the time, then four that queue for a lock.
        let several = looked_at(&[(70, 35), (30, 300), (31, 280), (64, 520), (55, 500)]);
        assert!(busiest(&several, 4).is_empty());
        assert_eq!(alike(&several, 4, &mut place), [21, 22, 23, 24]);
        assert_eq!(place, Some(Place { before: 1, helpers: 1 }));
        // One client is told by where he stands,
        let one = looked_at(&[(70, 35), (60, 20)]);
        assert_eq!(alike(&one, 1, &mut place), [21]);
        assert!(alike(&one, 1, &mut None).is_empty());
        // and only where there are as many helpers as there were.
        assert!(alike(&looked_at(&[(70, 35), (60, 20), (60, 20)]), 1, &mut place).is_empty());
    }

    #[test]
    fn threads_of_which_none_stand_out_are_no_clients() {
        let mut place = None;
        let all_alike = looked_at(&[(40, 100), (41, 95), (39, 110), (42, 100)]);
        assert!(alike(&all_alike, 3, &mut place).is_empty());
        let by_turns = looked_at(&[(40, 100), (5, 900), (40, 100), (5, 900)]);
        assert!(alike(&by_turns, 2, &mut place).is_empty());
        assert!(alike(&all_alike, 4, &mut place).is_empty(), "no helper");
        assert!(alike(&[], 2, &mut place).is_empty());
        assert_eq!(place, None);
    }
}

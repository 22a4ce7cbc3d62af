//! Which threads of a command do its work, and when it ended.

use crate::process::Process;
use crate::undo::family;
use anyhow::Context as _;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::BTreeMap;
use std::fs;
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
pub(super) fn workers_now(process: &mut Process, clients: u32) -> Option<Vec<u32>> {
    let begun = Instant::now();
    let before = running(process.pid());
    loop {
        std::thread::sleep(GLANCE);
        if process.ended().is_some() {
            return None;
        }
        let found = busiest(used_since(&before, &running(process.pid())), clients as usize);
        if !found.is_empty() || begun.elapsed() >= longest_look(clients) {
            return Some(found);
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
    busiest(used_since(&before, &after), clients as usize)
}

/// Threads that used CPU between two looks, and how much.
fn used_since(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Vec<(u32, u64)> {
    let used = |(tid, spent): (&u32, &u64)| {
        let used = spent.saturating_sub(*before.get(tid).unwrap_or(&0));
        (used > 0).then_some((*tid, used))
    };
    after.iter().filter_map(used).collect()
}

/// How many times as much CPU as the busiest helper the idlest client must have used.
const APART: u64 = 3;

/// The busiest `clients` of some threads with the CPU time that each used, in the order given;
/// none where there are too few, or where the next one behind them was nearly as busy.
fn busiest(threads: Vec<(u32, u64)>, clients: usize) -> Vec<u32> {
    let mut times: Vec<u64> = threads.iter().map(|(_, used)| *used).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let Some(least) = clients.checked_sub(1).and_then(|last| times.get(last)).copied() else {
        return Vec::new();
    };
    if times.get(clients).is_some_and(|helper| helper.saturating_mul(APART) > least) {
        return Vec::new();
    }
    threads.into_iter().filter(|(_, used)| *used >= least).map(|(tid, _)| tid).collect()
}

/// CPU time of every thread of a family, in ns.
fn running(root: u32) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    for (pid, _) in family(root) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
            let stat = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let spent = stat.split_whitespace().next().and_then(|first| first.parse().ok());
            if let (Some(tid), Some(spent)) = (tid, spent) {
                found.insert(tid, spent);
            }
        }
    }
    found
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

    #[test]
    fn the_busiest_threads_are_the_clients_beside_helpers() {
        let helped = vec![(10, 40), (11, 9_000), (12, 3_000), (13, 10), (14, 8_000)];
        assert_eq!(busiest(helped.clone(), 3), [11, 12, 14]);
        // Between two of like size nobody can draw a line.
        assert!(busiest(helped.clone(), 1).is_empty());
        assert!(busiest(helped, 6).is_empty());
        assert!(busiest(Vec::new(), 1).is_empty());
        assert_eq!(busiest(vec![(1, 5), (2, 900)], 2), [1, 2]);
        assert!(busiest(vec![(1, 7), (2, 7), (3, 7)], 2).is_empty());
    }
}

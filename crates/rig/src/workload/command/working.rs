//! Which threads of a command do its work, and when it ended.

use crate::process::Process;
use crate::undo::family;
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

/// The threads of a process and its descendants that used CPU while looked at, if they are just
/// as many as clients; else none, for then clients cannot be told from others.
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
    let used =
        |(tid, spent): (&u32, &u64)| (*spent > *before.get(tid).unwrap_or(&0)).then_some(*tid);
    let busy: Vec<u32> = after.iter().filter_map(used).collect();
    if busy.len() == clients as usize { busy } else { Vec::new() }
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
pub(super) fn watch(process: &Process) -> JoinHandle<Instant> {
    let id = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // It ends early only where somebody has already seen the end.
        while let Some(id) = id {
            match waitid(WaitId::Pid(id), options) {
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        Instant::now()
    })
}

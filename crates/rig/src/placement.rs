//! Which CPUs a process may use: the second axis of a sweep, and how a load generator gets cores
//! of its own. It ends with the process; there is nothing to undo.

use anyhow::{Context as _, ensure};
use kneepoint_machine::proc::tasks::threads;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that Kneepoint may use, ascending.
#[must_use]
pub fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(None);
    set.map(|set| listed(&set)).unwrap_or_else(|_| vec![0])
}

/// CPUs that a thread may use, ascending.
///
/// # Errors
/// There is no such thread.
pub fn of(thread: u32) -> anyhow::Result<Vec<u32>> {
    let set = sched_getaffinity(id(thread))
        .with_context(|| format!("the CPUs of thread {thread} cannot be read"))?;
    Ok(listed(&set))
}

/// Puts all threads of a process on these CPUs; threads that they start later stay there too.
/// With none nothing is changed.
///
/// # Errors
/// The kernel refuses, or one of the threads does not stay there.
pub fn pin(process: u32, cpus: &[u32]) -> anyhow::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    // A thread can start another while its own turn has not come: until none is new.
    let mut pinned = Vec::new();
    loop {
        let fresh: Vec<u32> =
            threads(process).into_iter().filter(|tid| !pinned.contains(tid)).collect();
        if fresh.is_empty() {
            break;
        }
        for tid in &fresh {
            match sched_setaffinity(id(*tid), &set) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("process {process} cannot be put on CPUs {cpus:?}")
                    });
                }
            }
        }
        pinned.extend(fresh);
    }
    for tid in threads(process) {
        // One that has ended meanwhile is nowhere.
        let Ok(found) = of(tid) else { continue };
        ensure!(found == cpus, "thread {tid} runs on CPUs {found:?}, not on {cpus:?}");
    }
    Ok(())
}

fn id(thread: u32) -> Option<Pid> {
    i32::try_from(thread).ok().and_then(Pid::from_raw)
}

fn listed(set: &CpuSet) -> Vec<u32> {
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

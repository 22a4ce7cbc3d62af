//! Which CPUs a process may use: the second axis of a sweep, and how a load generator gets cores
//! of its own. It ends with the process; there is nothing to undo.

use anyhow::{Context as _, ensure};
use kneepoint_machine::proc::tasks::threads;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::Duration;

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

/// For so long threads are kept where they begin: then the scheduler has nothing to even out.
pub(crate) const BESIDE: Duration = Duration::from_millis(100);

/// Threads that begin on one CPU each, spread evenly; free again to go where the scheduler moves
/// them once this is dropped.
pub(crate) struct Spread {
    /// With the CPUs that each may use.
    threads: Vec<(u32, CpuSet)>,
}

impl Spread {
    /// Puts the first thread of each group on the first CPU that it may use, the second on its
    /// second, and so on in turn: threads at the same place of two groups with the same CPUs begin
    /// on the same one.
    ///
    /// # Errors
    /// A thread is gone, or the kernel refuses.
    pub(crate) fn over(groups: &[&[u32]]) -> anyhow::Result<Self> {
        let mut spread = Self { threads: Vec::new() };
        for group in groups {
            for (place, thread) in group.iter().enumerate() {
                spread.put(*thread, place)?;
            }
        }
        Ok(spread)
    }

    /// Puts all of the first group on one CPU, all of the second on the next, and so on in turn.
    ///
    /// # Errors
    /// Like [`Spread::over`].
    pub(crate) fn together(groups: &[Vec<u32>]) -> anyhow::Result<Self> {
        let mut spread = Self { threads: Vec::new() };
        for (place, group) in groups.iter().enumerate() {
            for thread in group {
                spread.put(*thread, place)?;
            }
        }
        Ok(spread)
    }

    fn put(&mut self, thread: u32, place: usize) -> anyhow::Result<()> {
        let context = || format!("thread {thread} cannot be put on a CPU to begin on");
        let free = sched_getaffinity(id(thread)).with_context(context)?;
        let cpus = listed(&free);
        let mut one = CpuSet::new();
        one.set(cpus[place % cpus.len()] as usize);
        sched_setaffinity(id(thread), &one).with_context(context)?;
        self.threads.push((thread, free));
        Ok(())
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        for (thread, free) in &self.threads {
            // One that has ended meanwhile is nowhere.
            let _ = sched_setaffinity(id(*thread), free);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn threads_begin_in_turn_and_are_free_again() {
        let all = allowed();
        let (told, tids) = channel();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let told = told.clone();
                std::thread::spawn(move || {
                    told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                    std::thread::park();
                })
            })
            .collect();
        let tids: Vec<u32> =
            workers.iter().map(|_| u32::try_from(tids.recv().unwrap()).unwrap()).collect();
        let spread = Spread::over(&[&tids[..2], &tids[2..]]).unwrap();
        assert_eq!(of(tids[0]).unwrap(), all[..1]);
        assert_eq!(of(tids[1]).unwrap(), [all[1 % all.len()]]);
        assert_eq!(of(tids[2]).unwrap(), all[..1], "at the same place as the first");
        drop(spread);
        assert!(tids.iter().all(|tid| of(*tid).unwrap() == all));
        let spread = Spread::together(&[tids[..1].to_vec(), tids[1..].to_vec()]).unwrap();
        let second = &[all[1 % all.len()]];
        assert_eq!(of(tids[0]).unwrap(), all[..1]);
        assert!(tids[1..].iter().all(|tid| of(*tid).unwrap() == second));
        drop(spread);
        assert!(tids.iter().all(|tid| of(*tid).unwrap() == all));
        for worker in workers {
            worker.thread().unpark();
            worker.join().unwrap();
        }
        let gone = Spread::over(&[&[u32::MAX >> 1]]).map(drop).unwrap_err();
        assert!(gone.to_string().contains("to begin on"), "{gone}");
    }
}

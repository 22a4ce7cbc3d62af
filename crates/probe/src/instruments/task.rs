//! `top -H`: the threads of the machine that used most CPU.
//!
//! Every process is read by its CPU clock, one short call each. Threads are distinguished only in
//! the system, the load generator and Kneepoint; any other process of several threads is one row,
//! under its own name and id.

use crate::proc::{schedstat, stat, tasks};
use crate::sys;
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::process::has_threads;
use kneepoint_vocab::{Nanos, TaskCpu, TaskOwner};
use std::collections::{BTreeMap, BTreeSet};

/// Rows are kept from this share of a core on, one in so many.
const LEAST_SHARE: u64 = 100;
/// At most so many rows.
const MOST_ROWS: usize = 24;

/// Process and thread id; a whole process by its own id twice.
type Task = (u32, u32);

/// CPU of every task so far, and whose it is.
fn read(system: &[u32], generators: &[u32]) -> BTreeMap<Task, (TaskOwner, u64)> {
    let own = own_pid();
    let [system, generators] =
        [system, generators].map(|roots| tasks::family(roots).into_iter().collect::<BTreeSet<_>>());
    let kernel = tasks::kernel_threads();
    let mut found = BTreeMap::new();
    for pid in tasks::processes() {
        let owner = match pid {
            _ if kernel.contains(&pid) => TaskOwner::Kernel,
            _ if system.contains(&pid) => TaskOwner::System,
            _ if generators.contains(&pid) => TaskOwner::Generator,
            _ if pid == own => TaskOwner::Kneepoint,
            _ => TaskOwner::Other,
        };
        let apart = !matches!(owner, TaskOwner::Kernel | TaskOwner::Other);
        if apart && has_threads(pid) {
            for tid in tasks::threads(pid) {
                if let Some(counts) = schedstat::read(pid, tid) {
                    found.insert((pid, tid), (owner, counts.running));
                }
            }
        } else if let Ok(cpu) = sys::process_cpu(pid) {
            found.insert((pid, pid), (owner, cpu));
        }
    }
    found
}

/// All tasks at the start.
#[derive(Debug)]
pub(super) struct Tasks {
    begin: u64,
    roots: [Vec<u32>; 2],
    start: BTreeMap<Task, (TaskOwner, u64)>,
}

impl Tasks {
    pub(super) fn start(system: &[u32], generators: &[u32]) -> Self {
        Self {
            roots: [system.to_vec(), generators.to_vec()],
            start: read(system, generators),
            begin: sys::monotonic(),
        }
    }

    pub(super) fn finish(&self) -> Vec<TaskCpu> {
        let over = super::since(self.begin);
        let now = read(&self.roots[0], &self.roots[1]);
        let rows = now.into_iter().filter_map(|((pid, tid), (owner, end))| {
            let start = self.start.get(&(pid, tid)).map_or(0, |(_, cpu)| *cpu);
            let cpu = Nanos(end.saturating_sub(start));
            if cpu.0 <= over.0 / LEAST_SHARE {
                return None;
            }
            let name = stat::read_task(pid, tid)?.comm;
            let is_system = owner == TaskOwner::System;
            let cpus = is_system.then(|| tasks::cpus(pid, tid)).flatten();
            let cpus = cpus.and_then(|cpus| u32::try_from(cpus.len()).ok());
            Some(TaskCpu { owner, name, tid, cpu, over, cpus })
        });
        most(rows.collect(), MOST_ROWS)
    }
}

/// The largest rows, largest first. The largest of each owner and name comes before the second of
/// any, so that many alike do not hide the one that differs.
fn most(mut rows: Vec<TaskCpu>, limit: usize) -> Vec<TaskCpu> {
    let by_cpu = |a: &TaskCpu, b: &TaskCpu| b.cpu.cmp(&a.cpu).then(a.tid.cmp(&b.tid));
    rows.sort_by(by_cpu);
    let mut seen: BTreeMap<(TaskOwner, String), u32> = BTreeMap::new();
    let mut ranked: Vec<(u32, TaskCpu)> = rows
        .into_iter()
        .map(|row| {
            let count = seen.entry((row.owner, row.name.clone())).or_default();
            *count += 1;
            (*count, row)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(limit);
    let mut kept: Vec<TaskCpu> = ranked.into_iter().map(|(_, row)| row).collect();
    kept.sort_by(by_cpu);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn row(name: &str, tid: u32, cpu: u64) -> TaskCpu {
        let owner = TaskOwner::System;
        let (cpu, over) = (Nanos(cpu), Nanos(1000));
        TaskCpu { owner, name: name.to_owned(), tid, cpu, over, cpus: None }
    }

    #[test]
    fn one_that_differs_is_not_hidden_by_many_alike() {
        let mut rows: Vec<_> = (0..40).map(|tid| row("worker", tid, 500)).collect();
        rows.push(row("flusher", 99, 20));
        let kept = most(rows, 24);
        assert_eq!((kept.len(), kept[23].name.as_str()), (24, "flusher"));
    }

    proptest! {
        #[test]
        fn rows_fall_and_the_largest_stays(cpus in prop::collection::vec(1_u64..1000, 1..60)) {
            let name = |tid: usize| ["a", "b", "c"][tid % 3];
            let rows: Vec<_> = cpus
                .iter()
                .enumerate()
                .map(|(tid, cpu)| row(name(tid), u32::try_from(tid).unwrap(), *cpu))
                .collect();
            let kept = most(rows, 24);
            prop_assert_eq!(kept.len(), cpus.len().min(24));
            prop_assert!(kept.is_sorted_by(|a, b| a.cpu >= b.cpu));
            prop_assert_eq!(kept[0].cpu.0, *cpus.iter().max().unwrap());
        }
    }

    #[test]
    fn a_computing_thread_is_seen_with_its_owner() {
        let tasks = Tasks::start(&[], &[]);
        let compute = std::thread::Builder::new().name("computes".to_owned()).spawn(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(300) {
                std::hint::black_box((0..500_u64).sum::<u64>());
            }
            std::thread::sleep(Duration::from_millis(200));
        });
        std::thread::sleep(Duration::from_millis(400));
        let found = tasks.finish();
        compute.unwrap().join().unwrap();
        let ours = found.iter().find(|row| row.name == "computes");
        assert!(ours.is_some_and(|row| row.owner == TaskOwner::Kneepoint), "{found:?}");
    }

    #[test]
    fn a_thread_of_the_system_says_where_it_may_run() {
        let tasks = Tasks::start(&[own_pid()], &[]);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(100) {
            std::hint::black_box((0..500_u64).sum::<u64>());
        }
        let found = tasks.finish();
        let here =
            tasks::cpus(own_pid(), own_pid()).and_then(|cpus| u32::try_from(cpus.len()).ok());
        let own: Vec<_> = found.iter().filter(|row| row.owner == TaskOwner::System).collect();
        assert!(!own.is_empty() && own.iter().all(|row| row.cpus == here), "{found:?}");
        let others = found.iter().filter(|row| row.owner != TaskOwner::System);
        assert!(others.into_iter().all(|row| row.cpus.is_none()), "{found:?}");
    }

    #[test]
    fn a_thread_of_the_kernel_is_the_kernels() {
        let all = read(&[], &[]);
        if tasks::kernel_threads().is_empty() {
            println!("SKIP a_thread_of_the_kernel: none can be seen here");
            return;
        }
        assert_eq!(all[&(2, 2)].0, TaskOwner::Kernel);
        assert!(all.contains_key(&(1, 1)) && all[&(1, 1)].0 == TaskOwner::Other);
    }
}

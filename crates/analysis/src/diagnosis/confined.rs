//! Threads that may not run on all cores: by `sched_setaffinity`, `taskset` or a cpuset. Cores idle
//! beside them while they are ready to run, and no scheduler can help that.

use crate::ledgers::slices::Slice;
use kneepoint_vocab::findings::Confined;
use kneepoint_vocab::{Fact, TaskCpu, TaskOwner};
use std::collections::BTreeMap;

/// Threads with so much of the system's CPU make it the whole system.
const MOST: f64 = 0.5;

/// Where threads with most of the system's CPU may run on fewer cores than the level has: on how
/// many, by the CPU of those.
pub(super) fn confined(slices: &[&Slice<'_>]) -> Option<Confined> {
    let of = slices.first()?.trial.id.level.cores;
    let facts = slices.iter().flat_map(|slice| &slice.trial.facts);
    let mut known: BTreeMap<u32, u64> = BTreeMap::new();
    for task in facts.filter_map(of_system) {
        let cpus = task.cpus.unwrap_or(of).min(of);
        *known.entry(cpus).or_default() += task.cpu.0;
    }
    let all: u64 = known.values().sum();
    let narrow = known.iter().filter(|(cpus, _)| **cpus < of);
    let used: u64 = narrow.clone().map(|(_, cpu)| cpu).sum();
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let is_most = used as f64 > MOST * all as f64;
    let (cpus, _) = narrow.max_by_key(|(_, cpu)| **cpu)?;
    is_most.then_some(Confined { cpus: *cpus, of })
}

fn of_system(fact: &Fact) -> Option<&TaskCpu> {
    match fact {
        Fact::Task(task) if task.owner == TaskOwner::System => Some(task),
        _ => None,
    }
}

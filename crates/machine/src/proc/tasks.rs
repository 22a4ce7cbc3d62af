//! Which threads and child processes there are.

use super::schedstat::{self, SchedStat};
use std::collections::{BTreeMap, BTreeSet};

/// Kernel ids of the threads of a process, ascending; empty where it is gone.
#[must_use]
pub fn threads(pid: u32) -> Vec<u32> {
    super::numbers(&format!("{pid}/task")).unwrap_or_default()
}

/// Every process, ascending; empty where `/proc` cannot be listed.
#[must_use]
pub fn processes() -> Vec<u32> {
    super::numbers("").unwrap_or_default()
}

/// The kernel's own threads, ascending; empty where they cannot be seen, as in a container.
#[must_use]
pub fn kernel_threads() -> BTreeSet<u32> {
    const PARENT: u32 = 2;
    if !super::stat::read_process(PARENT).is_some_and(|stat| stat.kernel) {
        return BTreeSet::new();
    }
    let children = super::text(&format!("{PARENT}/task/{PARENT}/children"));
    let children = children.unwrap_or_default();
    let mut found: BTreeSet<u32> = children.split_ascii_whitespace().flat_map(str::parse).collect();
    found.insert(PARENT);
    found
}

/// `roots` and every process descended from them, ascending.
#[must_use]
pub fn family(roots: &[u32]) -> Vec<u32> {
    let mut known = BTreeSet::new();
    let mut open: Vec<u32> = roots.to_vec();
    while let Some(pid) = open.pop() {
        if !known.insert(pid) {
            continue;
        }
        for tid in threads(pid) {
            let Ok(text) = super::text(&format!("{pid}/task/{tid}/children")) else { continue };
            open.extend(text.split_ascii_whitespace().flat_map(str::parse::<u32>));
        }
    }
    known.into_iter().collect()
}

/// The same of one process, each with its birth: what tells it from a later one of its id. Empty
/// where it is gone.
#[must_use]
pub fn family_with_births(root: u32) -> Vec<(u32, u64)> {
    with_births(family(&[root]))
}

/// The processes of a session, each with its birth. The number of a session that has members is
/// given to nobody else.
#[must_use]
pub fn session(leader: u32) -> Vec<(u32, u64)> {
    let ours = |pid: &u32| super::process::session(*pid) == Some(leader);
    with_births(processes().into_iter().filter(ours).collect())
}

fn with_births(pids: Vec<u32>) -> Vec<(u32, u64)> {
    pids.into_iter().filter_map(|pid| Some((pid, super::process::birth(pid)?))).collect()
}

/// Scheduler counts of all threads of `pids`: tid to (pid, counts).
#[must_use]
pub fn counts(pids: &[u32]) -> BTreeMap<u32, (u32, SchedStat)> {
    let of = |pid: u32| {
        threads(pid)
            .into_iter()
            .filter_map(move |tid| Some((tid, (pid, schedstat::read(pid, tid)?))))
    };
    pids.iter().copied().flat_map(of).collect()
}

/// Bits of a CPU list such as `0-3,8` as numbers.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.trim().parse().ok()?..=high.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// CPUs that a thread of a process may use, ascending; none where it is gone.
#[must_use]
pub fn cpus(pid: u32, tid: u32) -> Option<Vec<u32>> {
    let text = super::text(&format!("{pid}/task/{tid}/status")).ok()?;
    super::process::field_of(&text, "Cpus_allowed_list").map(|list| parse_cpu_list(&list))
}

/// CPUs that this process may use, ascending.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let list = super::process::own_status("Cpus_allowed_list");
    let found = parse_cpu_list(list.as_deref().unwrap_or("0"));
    if found.is_empty() { vec![0] } else { found }
}

/// One more than the highest CPU number that the kernel can ever have.
#[must_use]
pub fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    parse_cpu_list(&text).last().map_or(1, |last| *last as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpu_list("5"), [5]);
        assert!(parse_cpu_list("").is_empty());
    }

    #[test]
    fn own_threads_and_family_are_found() {
        let own = crate::own_pid();
        assert!(threads(own).contains(&own));
        assert!(family(&[own]).contains(&own));
        assert!(counts(&[own]).contains_key(&own));
        assert_eq!(cpus(own, own), Some(allowed_cpus()));
        assert_eq!(cpus(u32::MAX, 1), None);
        assert!(threads(u32::MAX).is_empty() && family_with_births(u32::MAX).is_empty());
        let leader = crate::proc::process::session(own).unwrap();
        assert!(leader == 0 || session(leader).iter().any(|(pid, _)| *pid == own));
    }
}

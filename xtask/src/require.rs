//! Turns a skipped check into a failure where the machine has what the check lacks.

use crate::setup::{chromium, has_all, has_bpf_compiler, has_postgres};
use crate::tally::Skip;
use std::path::Path;

/// Names the capabilities that a run of the tests must not do without: a comma-separated list,
/// or `auto` for those that this machine has.
pub(crate) const VARIABLE: &str = "KNEEPOINT_REQUIRE";

/// Bits of `CapEff` in `/proc/self/status`: capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// A capability: its name, and the words by which a reason for skipping speaks of it.
const CAPABILITIES: [(&str, &[&str]); 11] = [
    ("root", &["root"]),
    ("bpf", &["bpf", "btf"]),
    ("perf", &["perf"]),
    ("chromium", &["chromium"]),
    ("clang", &["clang", "llvm-strip", "libbpf"]),
    ("mariadb", &["mariadb"]),
    ("sysbench", &["sysbench"]),
    ("postgres", &["postgres", "pgbench"]),
    ("redis", &["redis"]),
    ("fio", &["fio", "mkfs", "losetup"]),
    ("stress-ng", &["stress-ng"]),
];

/// The capabilities that [`VARIABLE`] asks for.
pub(crate) fn required() -> Vec<String> {
    match std::env::var(VARIABLE).unwrap_or_default().trim() {
        "" => Vec::new(),
        "auto" => present(),
        list => list.split(',').map(|name| name.trim().to_owned()).collect(),
    }
}

/// The capabilities that this machine has.
fn present() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = effective_capabilities(&status);
    let holds = |bit: u32| held & (1 << bit | 1 << CAP_SYS_ADMIN) != 0;
    let has = |name: &str| match name {
        "root" => holds(CAP_SYS_ADMIN),
        "bpf" => holds(CAP_BPF) && Path::new("/sys/kernel/btf/vmlinux").exists(),
        "perf" => holds(CAP_PERFMON) && Path::new("/proc/sys/kernel/perf_event_paranoid").exists(),
        "chromium" => chromium().is_some(),
        "clang" => has_bpf_compiler(),
        "mariadb" => has_all(&["mariadbd"]),
        "postgres" => has_postgres(),
        "redis" => has_all(&["redis-server", "redis-benchmark"]),
        "fio" => has_all(&["fio", "mkfs.xfs", "mkfs.ext4", "losetup"]),
        program => has_all(&[program]),
    };
    CAPABILITIES.iter().map(|(name, _)| *name).filter(|name| has(name)).map(Into::into).collect()
}

/// Whether the full collector can run here.
pub(crate) fn can_collect() -> bool {
    let has = present();
    ["bpf", "perf"].iter().all(|name| has.iter().any(|one| one == name))
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// The required capability that the reason of `skip` speaks of: it was there after all.
pub(crate) fn contradicted<'a>(skip: &Skip, required: &'a [String]) -> Option<&'a str> {
    let reason = skip.reason.to_lowercase();
    required.iter().map(String::as_str).find(|name| {
        let known = CAPABILITIES.iter().find(|(capability, _)| capability == name);
        known.map_or(&[*name][..], |(_, words)| words).iter().any(|word| reason.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(reason: &str) -> Skip {
        Skip { name: "x".into(), reason: reason.into() }
    }

    #[test]
    fn a_skip_for_something_present_is_contradicted() {
        let required = ["root", "bpf", "sysbench"].map(ToOwned::to_owned);
        assert_eq!(contradicted(&skip("no BTF in the kernel"), &required), Some("bpf"));
        assert_eq!(contradicted(&skip("needs root"), &required), Some("root"));
        assert_eq!(contradicted(&skip("sysbench not found"), &required), Some("sysbench"));
        assert_eq!(contradicted(&skip("chromium not found"), &required), None);
    }

    #[test]
    fn capabilities_are_read_from_status() {
        let held = effective_capabilities("Name:\tx\nCapEff:\t000001c000000000\n");
        assert!(held & (1 << CAP_BPF) != 0 && held & (1 << CAP_SYS_ADMIN) == 0);
        assert_eq!(effective_capabilities("nonsense"), 0);
    }
}

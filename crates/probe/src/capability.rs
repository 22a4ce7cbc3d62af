//! What this machine lets the probe do, each tried rather than guessed.

use crate::host::read;
use crate::proc::tasks;
use crate::{CpuMeter, Probe, ProbeOptions, Target};
use kneepoint_vocab::Tier;
use std::path::Path;
use std::time::{Duration, Instant};

/// One line of the doctor's report.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Capability {
    /// What.
    pub name: String,
    /// Whether it is there.
    pub available: bool,
    /// What was found.
    pub detail: String,
    /// What its lack costs the user; empty where nothing.
    pub cost_of_lacking: String,
    /// How to get it; empty where there is nothing to do.
    pub how_to_get: String,
}

fn capability(
    name: &str,
    available: bool,
    detail: impl Into<String>,
    cost_of_lacking: &str,
    how_to_get: &str,
) -> Capability {
    Capability {
        name: name.to_owned(),
        available,
        detail: detail.into(),
        cost_of_lacking: cost_of_lacking.to_owned(),
        how_to_get: how_to_get.to_owned(),
    }
}

/// Tries everything that the probe can use. Takes up to a few seconds: the eBPF programs are
/// really loaded, attached and taken off again.
#[must_use]
pub fn capabilities() -> Vec<Capability> {
    vec![
        cores(),
        btf(),
        programs(),
        perf_events(),
        paranoid(),
        kernel_names(),
        schedstat(),
        governor(),
        autogroup(),
        shared_memory(),
        hypervisor(),
        others_load(),
        noise(),
    ]
}

fn cores() -> Capability {
    let count = tasks::allowed_cpus().len();
    capability(
        "two cores or more",
        count >= 2,
        format!("{count}"),
        "nothing can scale: no knee is found",
        "a larger machine, or a wider CPU set (taskset, cpuset)",
    )
}

/// CPU of other processes above this share of capacity disturbs slices.
const OTHERS: f64 = 0.03;

fn others_load() -> Capability {
    let meter = CpuMeter::start(&Target::default());
    std::thread::sleep(Duration::from_millis(500));
    let others = meter.finish().others.0;
    capability(
        "no other processes busy",
        others <= OTHERS,
        format!("other processes use {:.1} % of the CPU", others * 100.0),
        "slices are disturbed: they are repeated, and intervals are wider",
        "stop what else runs here (top shows it), or take another machine",
    )
}

/// Half-width of the middle 90 % of equal pieces of computing, above which the machine is noisy.
const NOISY: f64 = 0.05;

/// Equal pieces of computing take equally long on a quiet machine.
fn noise() -> Capability {
    let mut lengths: Vec<f64> = (0..40).map(|_| piece()).collect();
    lengths.sort_by(f64::total_cmp);
    let spread = (lengths[37] - lengths[2]) / (lengths[37] + lengths[2]);
    capability(
        "steady speed",
        spread <= NOISY,
        format!("equal pieces of 10 ms differ by ±{:.1} %", spread * 100.0),
        "small effects take longer to tell from noise; the A/A control shows how small",
        "a machine of one's own, a fixed clock frequency, fewer neighbours",
    )
}

/// Seconds that one piece takes, about 0.01.
fn piece() -> f64 {
    let begin = Instant::now();
    let mut sum = 0_u64;
    for step in 0..16_000_000_u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
    }
    std::hint::black_box(sum);
    begin.elapsed().as_secs_f64()
}

fn btf() -> Capability {
    let path = "/sys/kernel/btf/vmlinux";
    let there = Path::new(path).exists();
    capability(
        "kernel type information (BTF)",
        there,
        if there { path } else { "missing" },
        "no eBPF accounting: see the next line",
        "a kernel with CONFIG_DEBUG_INFO_BTF, as all large distributions ship",
    )
}

fn programs() -> Capability {
    let options = ProbeOptions { tier: Some(Tier::Full), ..ProbeOptions::default() };
    let (available, detail) = match Probe::attach(&options) {
        Ok((_, remarks)) if remarks.is_empty() => (true, "loaded and attached".to_owned()),
        Ok((_, remarks)) => (true, remarks.join("; ")),
        Err(error) => (false, error.to_string()),
    };
    capability(
        "eBPF accounting",
        available,
        detail,
        "waits come from /proc readings: no counts, wakers, kernel locks or short threads",
        "run as root (or with CAP_BPF and CAP_PERFMON) on Linux 5.19 or later, x86-64",
    )
}

fn perf_events() -> Capability {
    let cpus: Vec<u32> = tasks::allowed_cpus().into_iter().take(1).collect();
    let open = |system_wide| {
        let options = crate::stack::StackOptions {
            cpus: cpus.clone(),
            on_cpu_hz: 199,
            stack_bytes: 16 << 10,
            system_wide,
        };
        crate::stack::StackCollector::open(&options).map(|_| ())
    };
    let (available, detail) = match (open(true), open(false)) {
        (Ok(()), _) => (true, "all processes, user and kernel".to_owned()),
        (Err(_), Ok(())) => (true, "own processes only".to_owned()),
        (Err(error), Err(_)) => (false, error.to_string()),
    };
    capability(
        "stacks (perf events)",
        available,
        detail,
        "causes have addresses and system calls, but no functions",
        "run as root, or sysctl kernel.perf_event_paranoid=1",
    )
}

fn paranoid() -> Capability {
    let level = read("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse().ok());
    let allowed =
        rustix::process::geteuid().is_root() || level.is_some_and(|level: i32| level <= 2);
    capability(
        "perf_event_paranoid lets us in",
        allowed,
        level.map_or("unreadable".to_owned(), |level| level.to_string()),
        "no stacks without privileges",
        "run as root, or sysctl kernel.perf_event_paranoid=2",
    )
}

fn kernel_names() -> Capability {
    let names = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let named = names.lines().take(64).any(|line| !line.starts_with("0000000000000000"));
    let detail = if named { "kallsyms shows addresses" } else { "kallsyms hides addresses" };
    capability(
        "names of kernel functions",
        named,
        detail,
        "kernel frames of stacks have no names",
        "run as root with sysctl kernel.kptr_restrict=0 or 1",
    )
}

fn schedstat() -> Capability {
    let own = std::process::id();
    let there = crate::proc::schedstat::read(own, own).is_some();
    capability(
        "per-thread scheduler counts",
        there,
        if there { "/proc/PID/task/TID/schedstat" } else { "no schedstat file" },
        "no independent check of running time; the fallback tier cannot work",
        "a kernel with CONFIG_SCHED_INFO, as all large distributions ship",
    )
}

fn governor() -> Capability {
    let found = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let steady = found.as_ref().is_none_or(|name| name == "performance");
    capability(
        "steady clock frequency",
        steady,
        found.unwrap_or_else(|| "no frequency control here".to_owned()),
        "CPU time per operation moves with the clock; intervals get wider",
        "cpupower frequency-set --governor performance",
    )
}

fn autogroup() -> Capability {
    let on = read("/proc/sys/kernel/sched_autogroup_enabled").as_deref() == Some("1");
    capability(
        "scheduling groups by terminal (autogroup)",
        on,
        if on { "on" } else { "off or not built in" },
        "other programs of this terminal compete with the system on equal terms",
        "sysctl kernel.sched_autogroup_enabled=1",
    )
}

fn shared_memory() -> Capability {
    let space = rustix::fs::statvfs("/dev/shm").map(|at| (at.f_bavail * at.f_frsize) >> 20);
    let free = space.unwrap_or(0);
    capability(
        "memory-backed files (/dev/shm)",
        free >= 256,
        format!("{free} MiB free"),
        "embedded databases lie on disk and measure the device as well",
        "mount -t tmpfs -o size=1g tmpfs /dev/shm",
    )
}

fn hypervisor() -> Capability {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = cpuinfo.contains(" hypervisor");
    capability(
        "bare metal",
        !virtual_machine,
        if virtual_machine { "a virtual machine" } else { "no hypervisor seen" },
        "neighbours steal CPU unseen and interrupts between cores cost more; steal is recorded",
        "a machine of one's own",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_says_what_its_lack_costs_and_how_to_get_it() {
        let found = capabilities();
        assert!(found.len() > 8);
        for line in found {
            assert!(!line.detail.is_empty(), "{}", line.name);
            assert!(!line.cost_of_lacking.is_empty() && !line.how_to_get.is_empty());
        }
    }
}

//! CPU meter: who used the machine between two instants, without a collector. It needs no
//! privilege, so every slice has it.
//!
//! The CPU of other processes is read from the clock of each of their processes, and idle is what
//! is left. `/proc/stat` would be simpler, but its ticks miss idle stretches shorter than a tick:
//! beside a system with many short waits it leaves a fifth of the capacity unaccounted for.

use crate::proc::stat::{self, CpuTicks, TICK};
use crate::proc::tasks;
use crate::sys;
use crate::target::Target;
use kneepoint_vocab::{Nanos, Ratio};
use std::collections::{BTreeMap, BTreeSet};

/// CPU of one process at an instant, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    own: u64,
    children: u64,
}

/// A meter that is running.
#[derive(Debug)]
pub struct CpuMeter {
    begin: u64,
    cpus: Vec<u32>,
    /// Whether these are all CPUs that anybody watched could be on.
    everywhere: bool,
    ticks: CpuTicks,
    system: Family,
    generator: Family,
    kneepoint: u64,
    other_processes: OtherProcesses,
}

/// CPU of every process that is neither in the system's family nor in the generators', ns.
#[derive(Debug)]
struct OtherProcesses {
    /// Threads of the kernel.
    kernel: BTreeMap<u32, u64>,
    /// Everybody else.
    others: BTreeMap<u32, u64>,
}

impl OtherProcesses {
    fn now(system: &[u32], generators: &[u32]) -> Self {
        let own = std::process::id();
        let known: BTreeSet<u32> =
            [system, generators].iter().flat_map(|roots| tasks::family(roots)).collect();
        let others =
            tasks::processes().into_iter().filter(|pid| *pid != own && !known.contains(pid));
        let spent = others.filter_map(|pid| Some((pid, sys::process_cpu(pid).ok()?)));
        let of_kernel = tasks::kernel_threads();
        let (kernel, others) = spent.partition(|(pid, _)| of_kernel.contains(pid));
        Self { kernel, others }
    }

    /// CPU of the kernel's threads and of everybody else from then until now. One that began
    /// meanwhile counts whole; one that ended meanwhile is not seen.
    fn used(&self, now: &Self) -> [u64; 2] {
        let rise = |then: &BTreeMap<u32, u64>, now: &BTreeMap<u32, u64>| {
            let of =
                |(pid, end): (&u32, &u64)| end.saturating_sub(then.get(pid).copied().unwrap_or(0));
            now.iter().map(of).sum()
        };
        [rise(&self.kernel, &now.kernel), rise(&self.others, &now.others)]
    }
}

/// Some processes with their descendants, and what they had spent at the start.
#[derive(Debug)]
struct Family {
    roots: Vec<u32>,
    spent: BTreeMap<u32, Spent>,
}

impl Family {
    fn start(roots: &[u32]) -> Self {
        Self { roots: roots.to_vec(), spent: spent(roots) }
    }

    /// CPU since the start, ns: of the live processes by their own clocks, of those that ended by
    /// what their parents were charged on waiting for them (in ticks).
    fn used(&self) -> u64 {
        let now = spent(&self.roots);
        let mut used = 0;
        let mut ended = 0_u64;
        for (pid, end) in &now {
            let start = self.spent.get(pid).copied().unwrap_or_default();
            used += end.own.saturating_sub(start.own);
            ended += end.children.saturating_sub(start.children);
        }
        let known: u64 = self
            .spent
            .iter()
            .filter(|(pid, _)| !now.contains_key(pid))
            .map(|(_, spent)| spent.own + spent.children)
            .sum();
        used + ended.saturating_sub(known)
    }
}

fn spent(roots: &[u32]) -> BTreeMap<u32, Spent> {
    let of = |pid: u32| {
        let children = stat::read_process(pid).map_or(0, |stat| stat.children * TICK);
        Some((pid, Spent { own: sys::process_cpu(pid).ok()?, children }))
    };
    tasks::family(roots).into_iter().filter_map(of).collect()
}

/// What a meter read. Shares are of the capacity: watched CPUs × wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeterReading {
    /// Wall time between start and finish.
    pub length: Nanos,
    /// CPUs that it covers.
    pub cores: u32,
    /// CPU of the system under test and its descendants.
    pub system_cpu: Nanos,
    /// CPU of load generators in processes of their own.
    pub generator_cpu: Nanos,
    /// CPU of Kneepoint itself, 0 where it is the system.
    pub kneepoint_cpu: Nanos,
    /// CPU of the kernel's own threads.
    pub kernel_cpu: Nanos,
    /// Interrupts and soft interrupts, by tick count.
    pub irq_cpu: Nanos,
    /// Steal, by tick count.
    pub steal_cpu: Nanos,
    /// What is left: no thread at all.
    pub idle: Nanos,
    /// Share used by processes of everybody else.
    pub others: Ratio,
    /// Share taken by the hypervisor.
    pub steal: Ratio,
    /// Share spent on interrupts.
    pub irq: Ratio,
}

impl CpuMeter {
    /// Starts over the target's CPUs, all that this process may use where it names none.
    #[must_use]
    pub fn start(target: &Target) -> Self {
        let allowed = tasks::allowed_cpus();
        let cpus = target.cpus_of(&allowed);
        let everywhere = cpus == allowed;
        // What takes longest to read goes first: the system's edge is the one that counts.
        let other_processes = OtherProcesses::now(&target.pids, &target.generators);
        let ticks = stat::read_machine(&cpus).unwrap_or_default();
        let generator = Family::start(&target.generators);
        let kneepoint = sys::process_cpu(std::process::id()).unwrap_or(0);
        let system = Family::start(&target.pids);
        let begin = sys::monotonic();
        Self { begin, cpus, everywhere, ticks, system, generator, kneepoint, other_processes }
    }

    /// Reads it.
    #[must_use]
    pub fn finish(self) -> MeterReading {
        let length = sys::monotonic().saturating_sub(self.begin);
        let system = self.system.used();
        let own = std::process::id();
        let itself = self.system.roots.contains(&own);
        let kneepoint = sys::process_cpu(own).unwrap_or(0).saturating_sub(self.kneepoint);
        let kneepoint = if itself { 0 } else { kneepoint };
        let generator = self.generator.used();
        let ticks = stat::read_machine(&self.cpus).unwrap_or_default().since(self.ticks);
        let now = OtherProcesses::now(&self.system.roots, &self.generator.roots);
        let [kernel, others] = self.other_processes.used(&now);
        let mut used = Used { system, generator, kneepoint, kernel, others };
        if !self.everywhere {
            used.fit(length, self.cpus.len(), ticks);
        }
        read(length, self.cpus.len(), ticks, used)
    }
}

/// CPU by user, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    system: u64,
    generator: u64,
    kneepoint: u64,
    kernel: u64,
    others: u64,
}

impl Used {
    fn all(&self) -> u64 {
        self.system + self.generator + self.kneepoint + self.kernel + self.others
    }

    /// Scales all but the system down to what the watched CPUs had room for, by their ticks: a
    /// process has no clock of its own for each CPU, and only the system is known to keep to
    /// these.
    fn fit(&mut self, length: u64, cpus: usize, ticks: CpuTicks) {
        let capacity = length * cpus as u64;
        let room = capacity.saturating_sub((ticks.idle + ticks.steal) * TICK + self.system);
        let others = self.all() - self.system;
        if others <= room {
            return;
        }
        let part = |of: u64| {
            u64::try_from(u128::from(of) * u128::from(room) / u128::from(others)).unwrap_or(of)
        };
        self.generator = part(self.generator);
        self.kneepoint = part(self.kneepoint);
        self.kernel = part(self.kernel);
        self.others = part(self.others);
    }
}

/// The arithmetic of a reading.
#[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn read(length: u64, cpus: usize, ticks: CpuTicks, used: Used) -> MeterReading {
    let capacity = length * cpus as u64;
    let share = |part: u64| Ratio(if capacity == 0 { 0.0 } else { part as f64 / capacity as f64 });
    let (steal, irq) = (ticks.steal * TICK, ticks.irq * TICK);
    let idle = capacity.saturating_sub(steal + used.all());
    MeterReading {
        length: Nanos(length),
        cores: u32::try_from(cpus).unwrap_or(u32::MAX),
        system_cpu: Nanos(used.system),
        generator_cpu: Nanos(used.generator),
        kneepoint_cpu: Nanos(used.kneepoint),
        kernel_cpu: Nanos(used.kernel),
        irq_cpu: Nanos(irq),
        steal_cpu: Nanos(steal),
        idle: Nanos(idle),
        others: share(used.others),
        steal: share(steal),
        irq: share(irq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_nobody_used() {
        let ticks = CpuTicks { busy: 120, idle: 60, irq: 3, steal: 20 };
        let used = Used {
            system: 900_000_000,
            generator: 100_000_000,
            others: 200_000_000,
            ..Used::default()
        };
        let reading = read(1_000_000_000, 2, ticks, used);
        assert!((reading.others.0 - 0.1).abs() < 1e-9, "{reading:?}");
        assert!((reading.steal.0 - 0.1).abs() < 1e-9, "{reading:?}");
        assert!((reading.irq.0 - 0.015).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.idle, Nanos(600_000_000));
    }

    #[test]
    fn others_get_no_more_than_the_watched_cpus_had_room_for() {
        let ticks = CpuTicks { idle: 20, ..CpuTicks::default() };
        let mut used = Used {
            system: 500_000_000,
            kernel: 200_000_000,
            others: 400_000_000,
            ..Used::default()
        };
        used.fit(1_000_000_000, 1, ticks);
        assert_eq!(
            (used.system, used.kernel, used.others),
            (500_000_000, 100_000_000, 200_000_000)
        );
        let before = used.all();
        used.fit(1_000_000_000, 1, ticks);
        assert_eq!(used.all(), before);
    }

    #[test]
    fn rounding_cannot_make_idle_negative() {
        let reading = read(
            1_000_000_000,
            1,
            CpuTicks::default(),
            Used { system: 1_000_000_001, others: 5, ..Used::default() },
        );
        assert_eq!(reading.idle, Nanos(0));
    }

    #[test]
    fn another_process_is_metered_and_children_of_the_system_are_none() {
        let spin = || {
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        let (mut child, mut other) = (spin(), spin());
        let target = Target { pids: vec![child.id()], ..Target::default() };
        let meter = CpuMeter::start(&target);
        std::thread::sleep(std::time::Duration::from_millis(200));
        let reading = meter.finish();
        for process in [&mut child, &mut other] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert!(reading.system_cpu.0 > 0 && reading.others.0 > 0.0, "{reading:?}");
    }

    #[test]
    fn own_computing_is_metered() {
        let target = Target { pids: vec![std::process::id()], ..Target::default() };
        let meter = CpuMeter::start(&target);
        let mut sum = 0_u64;
        for step in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(step));
        }
        let reading = meter.finish();
        assert!(reading.system_cpu.0 > 0, "{reading:?} {sum}");
        assert_eq!(reading.kneepoint_cpu.0, 0);
    }
}

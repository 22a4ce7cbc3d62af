//! What `vmstat`, `top -H` and `iostat` would have shown at each level.
//!
//! Means over the baseline's sweep slices of a level. Where an instrument did not mention a thread
//! or a device in a slice, that one counts as 0 there: it was idle.

use crate::number::{count, finite, mean, quotient, seconds, size};
use kneepoint_vocab::findings::{DeviceLine, LevelInstruments, PressureLine, TaskLine, Vmstat};
use kneepoint_vocab::units::{Cores, Count, PerSecond, Ratio, Seconds};
use kneepoint_vocab::{
    DeviceCounters, Fact, Level, MachineCounters, Phase, Pressure, TaskCpu, TaskOwner, TrialRecord,
};
use std::collections::BTreeMap;

/// Lines of threads a level, at most.
const MOST_TASKS: usize = 24;

/// One entry for each of `levels` where an instrument spoke.
pub(crate) fn instruments(trials: &[&TrialRecord], levels: &[Level]) -> Vec<LevelInstruments> {
    let of_level = |level: &Level| {
        let sweep = trials.iter().copied();
        let slices: Vec<&TrialRecord> =
            sweep.filter(|t| t.id.phase == Phase::Sweep && t.id.level == *level).collect();
        let found = LevelInstruments {
            level: *level,
            vmstat: vmstat(&slices),
            tasks: tasks(&slices),
            devices: devices(&slices),
            pressure: pressure(&slices),
        };
        let silent = found.vmstat.is_none()
            && found.tasks.is_empty()
            && found.devices.is_empty()
            && found.pressure.is_empty();
        (!silent).then_some(found)
    };
    levels.iter().filter_map(of_level).collect()
}

fn vmstat(slices: &[&TrialRecord]) -> Option<Vmstat> {
    let all: Vec<&MachineCounters> = slices
        .iter()
        .flat_map(|trial| &trial.facts)
        .filter_map(|fact| match fact {
            Fact::Machine(machine) if machine.over.0 > 0 && machine.cores > 0 => Some(machine),
            _ => None,
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let over = |of: fn(&MachineCounters) -> f64| {
        finite(mean(&all.iter().map(|machine| of(machine)).collect::<Vec<f64>>()))
    };
    let share = |of: fn(&MachineCounters) -> f64| {
        let capacity = |m: &MachineCounters| seconds(m.over) * f64::from(m.cores);
        Ratio(mean(&all.iter().map(|m| quotient(of(m), capacity(m))).collect::<Vec<f64>>()))
    };
    let (user, system) = (share(|m| seconds(m.user)), share(|m| seconds(m.system)));
    let (idle, iowait) = (share(|m| seconds(m.idle)), share(|m| seconds(m.iowait)));
    let steal = share(|m| seconds(m.steal));
    Some(Vmstat {
        runnable: Count(over(|m| m.runnable.0)),
        blocked: Count(over(|m| m.blocked.0)),
        interrupts: PerSecond(over(|m| quotient(count(m.interrupts), seconds(m.over)))),
        switches: PerSecond(over(|m| quotient(count(m.switches), seconds(m.over)))),
        user,
        system,
        idle,
        iowait,
        steal,
        sum: user + system + idle + iowait + steal,
    })
}

/// Threads of one owner and name in one slice.
#[derive(Clone, Copy, Default)]
struct Together {
    threads: u32,
    cores: f64,
    busiest: f64,
}

fn tasks(slices: &[&TrialRecord]) -> Vec<TaskLine> {
    let mut seen: BTreeMap<(TaskOwner, String), Vec<Together>> = BTreeMap::new();
    let mut spoke = 0_usize;
    for trial in slices {
        let mut here: BTreeMap<(TaskOwner, String), Together> = BTreeMap::new();
        for task in trial.facts.iter().filter_map(task_of) {
            let cores = quotient(seconds(task.cpu), seconds(task.over));
            let one = here.entry((task.owner, name_of(task))).or_default();
            one.threads = one.threads.saturating_add(1);
            one.cores += cores;
            one.busiest = one.busiest.max(cores);
        }
        spoke += usize::from(!here.is_empty());
        for (who, together) in here {
            seen.entry(who).or_default().push(together);
        }
    }
    let line = |((owner, name), all): ((TaskOwner, String), Vec<Together>)| {
        let over_slices =
            |of: fn(&Together) -> f64| Cores(quotient(all.iter().map(of).sum(), size(spoke)));
        TaskLine {
            owner,
            name,
            threads: all.iter().map(|one| one.threads).max().unwrap_or(0),
            cores: over_slices(|one| one.cores),
            busiest: over_slices(|one| one.busiest),
        }
    };
    let mut lines: Vec<TaskLine> = seen.into_iter().map(line).collect();
    lines.sort_by(|a, b| b.cores.0.total_cmp(&a.cores.0));
    lines.truncate(MOST_TASKS);
    lines
}

fn task_of(fact: &Fact) -> Option<&TaskCpu> {
    match fact {
        Fact::Task(task) if task.over.0 > 0 => Some(task),
        _ => None,
    }
}

/// The name that a thread is grouped by: kernel threads lose what only numbers them.
fn name_of(task: &TaskCpu) -> String {
    if task.owner == TaskOwner::Kernel { kernel_thread(&task.name) } else { task.name.clone() }
}

/// `kworker/u4:1-loop0` and `kworker/0:1H+kblockd` by what they work for, `ksoftirqd/0` without
/// its core.
fn kernel_thread(name: &str) -> String {
    if let Some(worker) = name.strip_prefix("kworker/") {
        let queue = worker.find(['-', '+']).map(|at| &worker[at + 1..]);
        return queue.map_or_else(|| "kworker".to_owned(), |queue| format!("kworker {queue}"));
    }
    match name.rsplit_once('/') {
        Some((kind, core)) if !core.is_empty() && core.bytes().all(|b| b.is_ascii_digit()) => {
            kind.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// Sums of one device over the slices of a level.
#[derive(Default)]
struct DeviceSum {
    over: f64,
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
    response: f64,
    busy: f64,
}

impl DeviceSum {
    fn add(&mut self, device: &DeviceCounters) {
        self.reads += count(device.reads);
        self.writes += count(device.writes);
        self.read_bytes += count(device.read_bytes);
        self.written_bytes += count(device.written_bytes);
        self.response += seconds(device.read_time) + seconds(device.write_time);
        self.busy += seconds(device.busy);
    }

    fn line(&self, name: String) -> DeviceLine {
        let rate = |sum: f64| PerSecond(quotient(sum, self.over));
        let requests = self.reads + self.writes;
        DeviceLine {
            name,
            reads: rate(self.reads),
            writes: rate(self.writes),
            read_bytes: rate(self.read_bytes),
            written_bytes: rate(self.written_bytes),
            response: (requests > 0.0 && self.response > 0.0)
                .then(|| Seconds(quotient(self.response, requests))),
            in_flight: Count(quotient(self.response, self.over)),
            busy: Ratio(quotient(self.busy, self.over)),
        }
    }
}

fn devices(slices: &[&TrialRecord]) -> Vec<DeviceLine> {
    let mut sums: BTreeMap<String, DeviceSum> = BTreeMap::new();
    let mut watched = 0.0;
    for trial in slices {
        let used = trial.facts.iter().filter_map(|fact| match fact {
            Fact::Device(device) if device.over.0 > 0 => Some(device),
            _ => None,
        });
        for device in used {
            let sum = sums.entry(device.name.clone()).or_default();
            sum.add(device);
            sum.over += seconds(device.over);
        }
        watched += seconds(trial.window.length);
    }
    // A slice that does not mention a device is one in which it had nothing to do.
    sums.values_mut().for_each(|sum| sum.over = sum.over.max(watched));
    sums.into_iter().map(|(name, sum)| sum.line(name)).collect()
}

fn pressure(slices: &[&TrialRecord]) -> Vec<PressureLine> {
    let mut seen: BTreeMap<(&str, &str), Vec<&Pressure>> = BTreeMap::new();
    for fact in slices.iter().flat_map(|trial| &trial.facts) {
        if let Fact::Pressure(pressure) = fact
            && pressure.over.0 > 0
        {
            seen.entry((&pressure.scope, &pressure.resource)).or_default().push(pressure);
        }
    }
    let line = |((scope, resource), all): ((&str, &str), Vec<&Pressure>)| {
        let share = |of: fn(&Pressure) -> f64| {
            let shares = all.iter().map(|one| quotient(of(one), seconds(one.over)));
            Ratio(mean(&shares.collect::<Vec<f64>>()))
        };
        PressureLine {
            resource: resource.to_owned(),
            scope: scope.to_owned(),
            some: share(|one| seconds(one.some)),
            full: share(|one| seconds(one.full)),
        }
    };
    seen.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::units::Nanos;

    #[test]
    fn kernel_threads_are_named_by_their_work() {
        assert_eq!(kernel_thread("kworker/u4:1-loop0"), "kworker loop0");
        assert_eq!(kernel_thread("kworker/0:1H+kblockd"), "kworker kblockd");
        assert_eq!(kernel_thread("kworker/u8:3-xfs-cil/loop0"), "kworker xfs-cil/loop0");
        assert_eq!(kernel_thread("kworker/u8:3"), "kworker");
        assert_eq!(kernel_thread("ksoftirqd/11"), "ksoftirqd");
        assert_eq!(kernel_thread("jbd2/loop0-8"), "jbd2/loop0-8");
    }

    #[test]
    fn a_device_s_line_follows_from_its_sums() {
        let mut sum = DeviceSum { over: 2.0, ..DeviceSum::default() };
        sum.add(&DeviceCounters {
            writes: 400,
            written_bytes: 4_096_000,
            write_time: Nanos(800_000_000),
            busy: Nanos(500_000_000),
            ..DeviceCounters::default()
        });
        let line = sum.line("loop0".to_owned());
        assert!((line.writes.0 - 200.0).abs() < 1e-9);
        assert!((line.response.unwrap().0 - 0.002).abs() < 1e-12);
        // Little: 200 requests a second of 2 ms each are 0.4 in flight.
        assert!((line.in_flight.0 - 0.4).abs() < 1e-12);
        assert!((line.busy.0 - 0.25).abs() < 1e-12);
    }
}

//! `vmstat`: ticks, context switches, interrupts and queues, from `/proc/stat`.

use crate::proc::stat::TICK;
use crate::sys;
use kneepoint_machine::proc::Watched;
use kneepoint_vocab::{Count, MachineCounters, Nanos};

/// One reading of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Ticks of the chosen CPUs: user, nice, system, idle, iowait, irq, softirq, steal.
    ticks: [u64; 8],
    cores: u32,
    switches: u64,
    interrupts: u64,
    runnable: u64,
    blocked: u64,
}

/// `None` where the text has no line of any CPU in `cpus`.
fn parse(text: &str, cpus: &[u32]) -> Option<Reading> {
    let mut reading = Reading::default();
    for line in text.lines() {
        let Some((head, rest)) = line.split_once(' ') else { continue };
        let mut numbers = rest.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        match head {
            "ctxt" => reading.switches = numbers.next()?,
            "intr" => reading.interrupts = numbers.next()?,
            "procs_running" => reading.runnable = numbers.next()?,
            "procs_blocked" => reading.blocked = numbers.next()?,
            _ => {
                let cpu = head.strip_prefix("cpu").and_then(|number| number.parse().ok());
                if cpu.is_some_and(|cpu: u32| cpus.contains(&cpu)) {
                    reading.cores += 1;
                    for (sum, ticks) in reading.ticks.iter_mut().zip(numbers) {
                        *sum += ticks;
                    }
                }
            }
        }
    }
    (reading.cores > 0).then_some(reading)
}

/// The machine's counters at the start, and the queues seen since.
#[derive(Debug)]
pub(super) struct Machine {
    begin: u64,
    cpus: Vec<u32>,
    file: Option<Watched>,
    start: Option<Reading>,
    /// Sums over the readings in between.
    runnable: u64,
    blocked: u64,
    readings: u32,
}

impl Machine {
    pub(super) fn start(cpus: Vec<u32>) -> Self {
        let mut machine = Self {
            begin: sys::monotonic(),
            cpus,
            file: Watched::open("stat").ok(),
            start: None,
            runnable: 0,
            blocked: 0,
            readings: 0,
        };
        machine.start = machine.read();
        machine
    }

    fn read(&mut self) -> Option<Reading> {
        parse(self.file.as_mut()?.read()?, &self.cpus)
    }

    pub(super) fn look(&mut self) {
        let Some(now) = self.read() else { return };
        // The thread that reads is running and none of the load.
        self.runnable += now.runnable.saturating_sub(1);
        self.blocked += now.blocked;
        self.readings += 1;
    }

    pub(super) fn finish(mut self) -> Option<MachineCounters> {
        let end = self.read()?;
        let over = super::since(self.begin);
        let start = self.start?;
        Some(self.counters(&start, &end, over))
    }

    fn counters(&self, start: &Reading, end: &Reading, over: Nanos) -> MachineCounters {
        let ticks = |fields: &[usize]| {
            let rise = |index: &usize| end.ticks[*index].saturating_sub(start.ticks[*index]);
            Nanos(fields.iter().map(rise).sum::<u64>() * TICK)
        };
        let mean = |sum: u64| {
            #[allow(clippy::cast_precision_loss, reason = "threads are far fewer than 2^53")]
            Count(if self.readings == 0 { 0.0 } else { sum as f64 / f64::from(self.readings) })
        };
        MachineCounters {
            over,
            runnable: mean(self.runnable),
            blocked: mean(self.blocked),
            readings: self.readings,
            switches: end.switches.saturating_sub(start.switches),
            interrupts: end.interrupts.saturating_sub(start.interrupts),
            user: ticks(&[0, 1]),
            system: ticks(&[2, 5, 6]),
            idle: ticks(&[3]),
            iowait: ticks(&[4]),
            steal: ticks(&[7]),
            cores: end.cores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 1 5 100 3 2 4 7 0 0\n\
                          cpu1 20 2 6 200 4 1 1 8 0 0\nintr 500 1 2 3\nctxt 1000\nbtime 1\n\
                          processes 7\nprocs_running 3\nprocs_blocked 1\n";
    const AFTER: &str = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 99 1 5 100 3 2 4 7 0 0\n\
                         cpu1 25 3 8 240 9 2 3 12 0 0\nintr 900 1 2 3\nctxt 4000\nbtime 1\n\
                         processes 7\nprocs_running 5\nprocs_blocked 0\n";

    #[test]
    fn counters_are_the_rise_over_the_chosen_cpus() {
        let [start, end] = [BEFORE, AFTER].map(|text| parse(text, &[1]).unwrap());
        let mut machine = Machine::start(vec![1]);
        (machine.runnable, machine.blocked, machine.readings) = (9, 3, 4);
        let found = machine.counters(&start, &end, Nanos::from_millis(600));
        let expected = MachineCounters {
            over: Nanos::from_millis(600),
            runnable: Count(2.25),
            blocked: Count(0.75),
            readings: 4,
            switches: 3000,
            interrupts: 400,
            user: Nanos::from_millis(60),
            system: Nanos::from_millis(50),
            idle: Nanos::from_millis(400),
            iowait: Nanos::from_millis(50),
            steal: Nanos::from_millis(40),
            cores: 1,
        };
        assert_eq!(found, expected);
        assert_eq!(parse(BEFORE, &[7]), None);
    }

    #[test]
    fn this_machine_has_them() {
        let mut machine = Machine::start(crate::proc::tasks::allowed_cpus());
        machine.look();
        let found = machine.finish().expect("/proc/stat");
        assert!(found.cores > 0 && found.readings == 1, "{found:?}");
    }
}

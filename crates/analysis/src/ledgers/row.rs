//! A slice as a row of rates, so that means over blocks are plain weighted sums.

use crate::number::quotient;
use std::collections::BTreeMap;

/// Threads that wait for a group while its holder waits for another group, by both.
pub(crate) type Behind = BTreeMap<(usize, usize), f64>;

/// One slice, or a weighted mean of slices. Rates are per second of window: cores or threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// Operations a second.
    pub(crate) throughput: f64,
    /// Cores watched.
    pub(crate) cores: f64,
    /// CPU of the system under test, summed over its threads.
    pub(crate) system: f64,
    pub(crate) generator: f64,
    /// CPU of the generator's threads, on whatever cores; none where threads were not seen.
    pub(crate) generator_threads: f64,
    pub(crate) others: f64,
    /// Threads of the kernel.
    pub(crate) kernel: f64,
    pub(crate) kneepoint: f64,
    pub(crate) idle: f64,
    pub(crate) idle_scheduler: f64,
    pub(crate) steal: f64,
    pub(crate) irq: f64,
    /// Client threads running, by the collector.
    pub(crate) running: f64,
    /// Client threads waiting for a core.
    pub(crate) runnable: f64,
    /// Threads of clients seen.
    pub(crate) clients: f64,
    /// Other threads that were blocked for most of their life.
    pub(crate) idle_threads: f64,
    /// Client threads that wait for the next request.
    pub(crate) no_request: f64,
    /// Idle core-time charged to those waits.
    pub(crate) idle_no_request: f64,
    /// Switches off a core a second.
    pub(crate) switches: f64,
    /// Idle core-time charged, by wait group.
    pub(crate) charged: Vec<f64>,
    /// Client threads blocked, by wait group.
    pub(crate) blocked: Vec<f64>,
    /// Waits that ended a second, by wait group.
    pub(crate) waits: Vec<f64>,
    /// Thread-seconds blocked a second by all roles, by wait group.
    pub(crate) waited: Vec<f64>,
    /// The part of `waited` in which the holder waits for another lock, by both groups.
    pub(crate) behind: Behind,
    /// 1 for the thread that does the work of all clients, where one does, by wait group.
    pub(crate) serial: Vec<f64>,
    /// Waits that ended a second with a thread on its way to a core, by wait group.
    pub(crate) woken: Vec<f64>,
    /// The same of waits for a request or for work.
    pub(crate) woken_for_work: f64,
    /// 1 where the collector could not charge idle time and shared it out itself, else 0.
    pub(crate) shared_out: f64,
    /// On-CPU weight by function; only shares are used.
    pub(crate) profile: Vec<f64>,
}

impl Row {
    /// CPU seconds of the system for one operation, D.
    pub(crate) fn demand(&self) -> f64 {
        quotient(self.system, self.throughput)
    }

    /// Share of the on-CPU weight by function; none where no stack was taken.
    pub(crate) fn shares(&self) -> Option<Vec<f64>> {
        let sum: f64 = self.profile.iter().sum();
        (sum > 0.0 && sum.is_finite())
            .then(|| self.profile.iter().map(|weight| weight / sum).collect())
    }

    fn add(&mut self, other: &Self, weight: f64) {
        self.throughput += weight * other.throughput;
        self.cores += weight * other.cores;
        self.system += weight * other.system;
        self.generator += weight * other.generator;
        self.others += weight * other.others;
        self.kernel += weight * other.kernel;
        self.generator_threads += weight * other.generator_threads;
        self.no_request += weight * other.no_request;
        self.idle_no_request += weight * other.idle_no_request;
        self.kneepoint += weight * other.kneepoint;
        self.idle += weight * other.idle;
        self.idle_scheduler += weight * other.idle_scheduler;
        self.steal += weight * other.steal;
        self.irq += weight * other.irq;
        self.running += weight * other.running;
        self.runnable += weight * other.runnable;
        self.clients += weight * other.clients;
        self.idle_threads += weight * other.idle_threads;
        self.woken_for_work += weight * other.woken_for_work;
        self.switches += weight * other.switches;
        self.shared_out += weight * other.shared_out;
        for (locks, behind) in &other.behind {
            *self.behind.entry(*locks).or_default() += weight * behind;
        }
        for (mine, theirs) in [
            (&mut self.charged, &other.charged),
            (&mut self.blocked, &other.blocked),
            (&mut self.waits, &other.waits),
            (&mut self.waited, &other.waited),
            (&mut self.woken, &other.woken),
            (&mut self.serial, &other.serial),
            (&mut self.profile, &other.profile),
        ] {
            mine.resize(theirs.len().max(mine.len()), 0.0);
            mine.iter_mut().zip(theirs).for_each(|(m, t)| *m += weight * t);
        }
    }
}

/// Mean of rows with weights; none where the weights add up to nothing.
pub(crate) fn mean_row(rows: &[(&Row, f64)]) -> Option<Row> {
    let sum: f64 = rows.iter().map(|(_, weight)| weight).sum();
    if sum <= 0.0 {
        return None;
    }
    let mut mean = Row::default();
    for (row, weight) in rows.iter().filter(|(_, weight)| *weight > 0.0) {
        mean.add(row, weight / sum);
    }
    Some(mean)
}

/// Thread- or CPU-seconds of one operation from a rate.
pub(crate) fn per_operation(rate: f64, row: &Row) -> f64 {
    quotient(rate, row.throughput)
}

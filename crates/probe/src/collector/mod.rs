//! Collectors: one file a tier, behind one face.

mod ebpf;
mod facts;
mod fallback;
mod maps;
mod offcpu;
mod tick;
mod timers;
mod window;
mod wire;

#[cfg(test)]
#[path = "../../tests/proof/mod.rs"]
mod proof;

use crate::stack::{StackCollector, StackOptions};
use crate::target::Target;
pub(crate) use ebpf::in_first_pid_namespace;
pub use kneepoint_machine::windows::Observation;
use kneepoint_machine::windows::Windows;
use kneepoint_vocab::{MachineName, Ratio, Tier};

/// How to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The tier to use and no other; `None` takes the best that works.
    pub tier: Option<Tier>,
    /// Whether to take stacks.
    pub stacks: bool,
    /// Whether stacks may be missing in most windows, where to take them is dear.
    pub sparing: bool,
    /// Cores to watch, the first so many of those that this process may use; 0 for all of them.
    pub cores: u32,
}

/// Why the probe could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The eBPF tier cannot be used.
    #[error("eBPF accounting: {0}; run as root on Linux 5.19 or later, or use the fallback tier")]
    Ebpf(String),
    /// Process ids mean something else to the programs than here.
    #[error(
        "eBPF accounting: the programs see the host's process ids, and this container has its own \
         (a PID namespace); share the host's, e.g. --pid=host, or use the fallback tier"
    )]
    Namespace,
    /// A map of the programs could not be read or written.
    #[error("eBPF map {map}: {source}; the machine may be short of memory")]
    Map {
        /// Its name.
        map: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Calls came in the wrong order.
    #[error("probe: {0}")]
    Order(&'static str),
    /// A process to watch is gone.
    #[error("probe: none of the processes {0:?} is alive; start the system before the window")]
    NoTarget(Vec<u32>),
    /// The sampling thread of the fallback tier failed.
    #[error("/proc sampling: {0}")]
    Sampling(String),
}

/// What every collector does. The order of calls is that of [`Probe`].
trait Collector: Send {
    fn open(&mut self, target: &Target) -> Result<(), ProbeError>;
    fn freeze(&mut self) -> Result<(), ProbeError>;
    fn collect(&mut self) -> Result<Observation, ProbeError>;

    /// One that costs nothing between windows has nothing to take off.
    fn detach(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    fn reattach(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }
}

/// A collector that can be attached: to so many CPUs, with stacks or without; it remarks on what
/// it has to do without.
struct Kind {
    tier: Tier,
    attach: fn(Vec<u32>, &ProbeOptions, &mut Vec<String>) -> Attached,
}

type Attached = Result<Box<dyn Collector>, ProbeError>;

/// All collectors, the best first.
const KINDS: [Kind; 2] = [ebpf::KIND, fallback::KIND];

/// A collector, loaded for a whole run. Its programs are attached from the begin of a window until
/// it is collected: to be called at all costs what switches often 8 % of its throughput.
pub struct Probe {
    inner: Box<dyn Collector>,
    tier: Tier,
}

impl Probe {
    /// Loads the best tier that works here, or the one asked for, and tries to attach it. Do it
    /// before the workload starts: loading takes a second or more beside busy threads. The strings
    /// say why something better was not available.
    ///
    /// # Errors
    /// That of the tier asked for where it is not available, e.g. [`ProbeError::Ebpf`].
    pub fn attach(options: &ProbeOptions) -> Result<(Self, Vec<String>), ProbeError> {
        let mut remarks = Vec::new();
        let mut cpus = crate::proc::tasks::allowed_cpus();
        if options.cores > 0 {
            cpus.truncate(options.cores as usize);
        }
        let mut refused = ProbeError::Order("no collector is of this tier");
        for kind in KINDS.iter().filter(|kind| options.tier.is_none_or(|only| only == kind.tier)) {
            match (kind.attach)(cpus.clone(), options, &mut remarks) {
                Ok(mut inner) => {
                    inner.detach()?;
                    return Ok((Self { inner, tier: kind.tier }, remarks));
                }
                Err(error) => {
                    remarks.push(error.to_string());
                    refused = error;
                }
            }
        }
        Err(refused)
    }

    /// Which tier speaks.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Attaches what is detached, and begins a window.
    ///
    /// # Errors
    /// A window is already open, the kernel refuses, no target lives, or a map failed.
    pub fn open(&mut self, target: &Target) -> Result<(), ProbeError> {
        // Where this process may open no more files, nothing can be said of anybody.
        kneepoint_machine::proc::numbers("")
            .map_err(|error| ProbeError::Sampling(error.to_string()))?;
        let alive = |pid: &u32| !crate::proc::tasks::threads(*pid).is_empty();
        if !target.pids.iter().any(alive) {
            return Err(ProbeError::NoTarget(target.pids.clone()));
        }
        self.inner.reattach()?;
        self.inner.open(target)
    }

    /// Ends the window, and reads all that must be read while its threads live. They may end
    /// before [`Probe::collect`].
    ///
    /// # Errors
    /// No window is open, or a map failed.
    pub fn freeze(&mut self) -> Result<(), ProbeError> {
        self.inner.freeze()
    }

    /// Detaches, and tells the facts of the frozen window. Names stacks, which takes CPU: not while
    /// the system is being measured.
    ///
    /// # Errors
    /// No window is frozen, or a map failed.
    pub fn collect(&mut self) -> Result<Observation, ProbeError> {
        self.inner.detach()?;
        self.inner.collect()
    }

    /// [`Probe::freeze`], then [`Probe::collect`].
    ///
    /// # Errors
    /// Theirs.
    pub fn close(&mut self) -> Result<Observation, ProbeError> {
        self.freeze()?;
        self.collect()
    }

    /// Takes the programs off the kernel's tracepoints; they stay loaded.
    ///
    /// # Errors
    /// A window is open.
    pub fn detach(&mut self) -> Result<(), ProbeError> {
        self.inner.detach()
    }

    /// Puts the programs back, without a window: they return at once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn reattach(&mut self) -> Result<(), ProbeError> {
        self.inner.reattach()
    }
}

impl Windows for Probe {
    fn machine(&self) -> MachineName {
        kneepoint_machine::here().machine()
    }

    fn open(&mut self, target: &Target) -> anyhow::Result<()> {
        Ok(Probe::open(self, target)?)
    }

    fn ready(&mut self) -> anyhow::Result<()> {
        Ok(self.reattach()?)
    }

    fn share(&self, switches: f64) -> Ratio {
        match self.tier {
            Tier::Full => crate::thinning::share(switches),
            Tier::Fallback => Ratio(1.0),
        }
    }

    fn freeze(&mut self) -> anyhow::Result<()> {
        Ok(Probe::freeze(self)?)
    }

    fn collect(&mut self) -> anyhow::Result<Observation> {
        Ok(Probe::collect(self)?)
    }
}

/// Frequency of a timer of our own, where stacks cannot be taken at the scheduler's tick.
const ON_CPU_HZ: u64 = 49;

/// Whose stacks are taken.
#[derive(Clone, Copy)]
enum Watch {
    /// Everyone's, by a timer of this frequency.
    Everyone { hz: u64 },
    /// Only those of own processes.
    OwnProcesses,
}

fn open_stacks(
    wanted: bool,
    cpus: &[u32],
    watch: Watch,
    remarks: &mut Vec<String>,
) -> Option<StackCollector> {
    if !wanted {
        return None;
    }
    let (on_cpu_hz, system_wide) = match watch {
        Watch::Everyone { hz } => (hz, true),
        Watch::OwnProcesses => (ON_CPU_HZ, false),
    };
    let options =
        StackOptions { cpus: cpus.to_vec(), on_cpu_hz, stack_bytes: 16 << 10, system_wide };
    match StackCollector::open(&options) {
        Ok(stacks) => {
            remarks.extend(stacks.remarks().iter().cloned());
            Some(stacks)
        }
        Err(error) => {
            remarks.push(format!("no stacks: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_may_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Probe>();
    }

    #[test]
    fn dead_targets_are_refused() {
        let fallback = ProbeOptions { tier: Some(Tier::Fallback), ..ProbeOptions::default() };
        let (mut probe, _) = Probe::attach(&fallback).unwrap();
        let target = Target { pids: vec![u32::MAX >> 1], ..Target::default() };
        assert!(matches!(probe.open(&target), Err(ProbeError::NoTarget(_))));
        assert!(matches!(probe.close(), Err(ProbeError::Order(_))));
    }
}

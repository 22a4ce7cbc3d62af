//! Windows on a machine: who is watched in one, what was seen, and who opens them.

use kneepoint_vocab::{Fact, MachineName, Nanos, Ratio, StackRecord};

/// Whom to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Processes of the system under test; their descendants are followed.
    pub pids: Vec<u32>,
    /// Kernel thread ids of the client threads among theirs.
    pub clients: Vec<u32>,
    /// Load generators in processes of their own.
    pub generators: Vec<u32>,
    /// CPUs that the ledgers are about; all that are watched where empty. The system's threads
    /// are expected to run there only.
    pub cpus: Vec<u32>,
}

impl Target {
    /// The CPUs that the ledgers are about, where `watched` are those that can be.
    #[must_use]
    pub fn cpus_of(&self, watched: &[u32]) -> Vec<u32> {
        if self.cpus.is_empty() { watched.to_vec() } else { self.cpus.clone() }
    }
}

/// What was seen in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Facts, in a fixed order.
    pub facts: Vec<Fact>,
    /// Stacks seen for the first time in this run.
    pub new_stacks: Vec<StackRecord>,
    /// Length of the window by the collector's own edges.
    pub length: Nanos,
}

/// What opens windows on a machine, one after the other.
pub trait Windows {
    /// Which machine they are on: whose facts these are.
    fn machine(&self) -> MachineName;

    /// Does what takes time and can be done before a window: a system that is watched from its
    /// birth should not run without it meanwhile.
    ///
    /// # Errors
    /// Nothing can be watched any more.
    fn ready(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Does what disturbs those whom a window will watch, before anything is counted.
    ///
    /// # Errors
    /// Nothing can be watched any more.
    fn prepare(&mut self, target: &Target) -> anyhow::Result<()> {
        let _ = target;
        Ok(())
    }

    /// Begins a window.
    ///
    /// # Errors
    /// One is already open, no target lives, or nothing can be watched any more.
    fn open(&mut self, target: &Target) -> anyhow::Result<()>;

    /// The part of the time that windows should watch where each core switches from one thread to
    /// another so often a second: all of it, unless watching has a price by the switch.
    fn share(&self, switches: f64) -> Ratio {
        let _ = switches;
        Ratio(1.0)
    }

    /// Ends the window, and reads all that must be read while its threads live. They may end
    /// before [`Windows::collect`].
    ///
    /// # Errors
    /// No window is open, or it cannot be read.
    fn freeze(&mut self) -> anyhow::Result<()>;

    /// What was seen in the frozen window. Names stacks, which takes CPU: not while the system is
    /// being measured.
    ///
    /// # Errors
    /// No window is frozen, or it cannot be read.
    fn collect(&mut self) -> anyhow::Result<Observation>;
}

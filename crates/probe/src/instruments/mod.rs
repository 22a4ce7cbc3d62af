//! What `vmstat`, `top`, `iostat` and the pressure files show, over about the span of a window:
//! counters of the machine that say at a glance what kind of load it is under. They need no
//! privilege and no collector.
//!
//! All counters are read before the window opens and after it is frozen, so that reading them
//! costs the window nothing; each fact says over how long it is. In between only the numbers of
//! runnable and blocked threads are read, some ten times a second.

mod device;
mod machine;
mod pressure;
mod task;

use crate::Target;
use crate::proc::tasks;
use crate::sys;
use device::Devices;
use kneepoint_vocab::{Fact, Nanos};
use machine::Machine;
use pressure::Pressures;
use task::Tasks;

/// Instruments that have been read once and will be read again.
#[derive(Debug)]
pub struct Instruments {
    machine: Machine,
    tasks: Tasks,
    devices: Devices,
    pressures: Pressures,
}

/// How long ago `begin` was.
fn since(begin: u64) -> Nanos {
    Nanos(sys::monotonic().saturating_sub(begin))
}

impl Instruments {
    /// Reads them all. What cannot be read here is left out of the facts.
    #[must_use]
    pub fn start(target: &Target) -> Self {
        let tasks = Tasks::start(&target.pids, &target.generators);
        let pressures = Pressures::start(&target.pids);
        let devices = Devices::start();
        let machine = Machine::start(target.cpus_of(&tasks::allowed_cpus()));
        Self { machine, tasks, devices, pressures }
    }

    /// Takes one reading of how many threads are runnable and how many blocked on a device.
    pub fn look(&mut self) {
        self.machine.look();
    }

    /// Reads them again: the facts of the span in between.
    #[must_use]
    pub fn finish(self) -> Vec<Fact> {
        let machine = self.machine.finish().map(Fact::Machine);
        let devices = self.devices.finish().into_iter().map(Fact::Device);
        let pressures = self.pressures.finish().into_iter().map(Fact::Pressure);
        let tasks = self.tasks.finish().into_iter().map(Fact::Task);
        machine.into_iter().chain(tasks).chain(devices).chain(pressures).collect()
    }
}

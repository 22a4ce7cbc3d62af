//! A system whose threads run where and how its variant says, whatever its workload.

use super::{Description, Drive, SliceOutput, System, Tally};
use crate::scheduling::Scheduling;
use anyhow::Context as _;
use kneepoint_vocab::{Nanos, Stability};

/// What proofs call it.
const WHO: &str = "the system";

/// A system that is up, with what its variant changes of how its threads run.
///
/// # Errors
/// The kernel refuses.
pub(super) fn begin(
    system: Box<dyn System>,
    wanted: &Scheduling,
    clients: u32,
) -> anyhow::Result<Box<dyn System>> {
    if wanted.is_empty() {
        return Ok(system);
    }
    wanted.give(&system.pids())?;
    Ok(Box::new(Scheduled { system, wanted: wanted.clone(), clients, is_shown: false }))
}

struct Scheduled {
    system: Box<dyn System>,
    wanted: Scheduling,
    /// Clients that it can be asked for.
    clients: u32,
    /// Whether it has shown that its threads run so.
    is_shown: bool,
}

impl Scheduled {
    /// What the threads show that live in a slice alone.
    fn in_a_slice(&mut self) -> anyhow::Result<Vec<kneepoint_vocab::Proof>> {
        self.begin(&Drive::new(self.clients, Nanos(0))).context("looking at its threads")?;
        let proofs = self.wanted.proofs(WHO, &self.system.pids());
        // Nobody wants its figures: a slice that did too little has shown its threads all the same.
        let _ = self.system.mark();
        let _ = self.system.finish();
        Ok(proofs)
    }
}

impl System for Scheduled {
    fn pids(&self) -> Vec<u32> {
        self.system.pids()
    }

    fn generators(&self) -> Vec<u32> {
        self.system.generators()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        let (mut proofs, settings) = self.system.describe()?;
        if !Scheduling::is_among(&proofs) {
            let idle = self.wanted.proofs(WHO, &self.system.pids());
            proofs.extend(if idle.is_empty() { self.in_a_slice()? } else { idle });
        }
        self.is_shown = Scheduling::is_among(&proofs) && proofs.iter().all(|proof| proof.active);
        Ok((proofs, settings))
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.system.environment()
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        let mut drive = drive.clone();
        if !self.wanted.cpus.is_empty() {
            drive.cpus.system.clone_from(&self.wanted.cpus);
        }
        let threads = self.system.begin(&drive)?;
        let pids = self.system.pids();
        self.wanted.give(&pids)?;
        // Of one that has never shown it, the verdict says so.
        if self.is_shown {
            self.wanted.check(&pids)?;
        }
        Ok(threads)
    }

    fn settled_clients(&mut self, clients: u32) -> Option<Vec<u32>> {
        self.system.settled_clients(clients)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        self.system.working()
    }

    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        self.system.progress()
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        self.system.mark()
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.system.close()
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        self.system.finish()
    }

    fn stability(&mut self) -> Option<Stability> {
        self.system.stability()
    }

    fn stop(self: Box<Self>) -> anyhow::Result<()> {
        self.system.stop()
    }
}

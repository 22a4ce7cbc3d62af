//! Threads that may not run on all cores: the twin has as many as they may run on, whatever the
//! machine has.

use crate::twin::Change;
use kneepoint_vocab::findings::{Cause, Charge, Confined};
use kneepoint_vocab::{Findings, Level};

/// Least loss that makes it worth it.
const WORTH: f64 = 0.3;

/// The cause that threads may not run on all cores, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedThreads {
    /// The cause's name.
    pub name: String,
    /// Cores that they may run on, and those of the machine.
    pub to: Confined,
}

impl ConfinedThreads {
    pub(super) fn of(findings: &Findings) -> Option<Self> {
        let of = |cause: &Cause| match cause.evidence.charge {
            Charge::Scheduler { confined, .. } if cause.share.value.0 >= WORTH => confined,
            _ => None,
        };
        let mut all = findings.causes.iter();
        all.find_map(|cause| Some(Self { name: cause.name.to_string(), to: of(cause)? }))
    }

    /// What a level and changes are for the twin. Threads that are let run anywhere have all cores
    /// of the machine at least; others none beyond those that they may run on.
    pub(super) fn placed(&self, level: Level, changes: &[Change]) -> (Level, Vec<Change>) {
        let is_it = |change: &Change| *change == Change::Without(self.name.clone());
        let cores = match changes.iter().any(is_it) {
            true => level.cores.max(self.to.of),
            false => level.cores.min(self.to.cpus),
        };
        let rest = changes.iter().filter(|change| !is_it(change)).cloned().collect();
        (Level { cores, ..level }, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cores_bring_nothing_to_who_may_not_use_them() {
        let name = "threads confined to 1 of 4 cores".to_owned();
        let it = ConfinedThreads { name: name.clone(), to: Confined { cpus: 1, of: 4 } };
        let level = |cores| Level { clients: 8, cores };
        let faster = Change::Speed(1.1);
        let gone = Change::Without(name);
        assert_eq!(it.placed(level(8), &[]), (level(1), Vec::new()));
        let both = it.placed(level(1), &[gone.clone(), faster.clone()]);
        assert_eq!(both, (level(4), vec![faster]));
        assert_eq!(it.placed(level(8), &[gone]), (level(8), Vec::new()));
    }
}

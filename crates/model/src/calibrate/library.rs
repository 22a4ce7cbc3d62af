//! What the kernel does for the library which a lock is in.

use super::observed::ObservedLevel;
use kneepoint_vocab::findings::{Cause, Charge};
use kneepoint_vocab::{Cores, Ratio, Seconds};

/// What the kernel does for a library, beside what waits for its lock cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Library {
    /// As a part of the CPU where causes are ranked,
    pub part: Ratio,
    /// and of an operation's least: what operations use more of where causes are ranked is first of
    /// all this.
    pub alone: Ratio,
}

/// What so much CPU of an operation at a level is of the CPU there and at least.
pub(super) fn library(own: Seconds, levels: &[ObservedLevel], at: usize) -> Option<Library> {
    let at = &levels[at];
    let waits: f64 = at.lock_cpu.iter().map(|it| it.0).sum();
    let least = levels.iter().map(|it| it.demand.0).fold(f64::INFINITY, f64::min);
    let alone = (own.0 - (at.demand.0 - least)).max(0.0);
    (own.0 > 0.0).then(|| Library {
        part: Ratio(own.0 / (at.demand.0 + waits)),
        alone: Ratio(alone / least),
    })
}

/// Cores that the kernel keeps busy for the library which a cause's lock is in.
pub(super) fn library_cores(cause: &Cause) -> Option<Cores> {
    match &cause.evidence.charge {
        Charge::Wait { wait } => wait.library,
        _ => None,
    }
}

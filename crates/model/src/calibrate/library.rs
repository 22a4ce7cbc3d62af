//! What the kernel does for the library which a lock is in.

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

/// What so much CPU of an operation is at a level where it takes `demand`, and `waits` beside
/// that, and `least` where it takes least.
pub(super) fn library(
    own: Seconds,
    demand: Seconds,
    waits: Seconds,
    least: Seconds,
) -> Option<Library> {
    let alone = (own.0 - (demand.0 - least.0)).max(0.0);
    (own.0 > 0.0).then(|| Library {
        part: Ratio(own.0 / (demand.0 + waits.0)),
        alone: Ratio(alone / least.0),
    })
}

/// Cores that the kernel keeps busy for the library which a cause's lock is in.
pub(super) fn library_cores(cause: &Cause) -> Option<Cores> {
    match &cause.evidence.charge {
        Charge::Wait { wait } => wait.library,
        _ => None,
    }
}

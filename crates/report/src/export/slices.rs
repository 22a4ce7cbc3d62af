//! What slices are called, the same in every form.

use crate::words::counted as plural;
use kneepoint_vocab::recording::{RecordedSlice, Recording};
use kneepoint_vocab::{Level, Phase};

/// Slices that count.
pub(super) fn counted(recording: &Recording) -> impl Iterator<Item = &RecordedSlice> {
    recording.slices.iter().filter(|slice| slice.counts)
}

/// The word for a part of the design.
pub(super) const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::WarmUp => "warm-up",
        Phase::Census => "census",
        Phase::Sweep => "sweep",
        Phase::Effects => "effects",
    }
}

/// `2 clients on 4 cores`; of a profile `4 cores`.
pub(super) fn level(recording: &Recording, level: Level) -> String {
    let cores = plural(level.cores, "core");
    match recording.has_levels {
        true => format!("{} on {cores}", plural(level.clients, "client")),
        false => cores,
    }
}

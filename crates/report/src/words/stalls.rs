//! Words for slices in which nothing was done.

use super::counted;
use crate::number::sentence;
use kneepoint_vocab::findings::Stall;
use kneepoint_vocab::{VariantId, WaitReason};

/// `No operation ended in 3 of 4 slices at 8 clients: threads were 97 % blocked, ...`.
pub(crate) fn stalled(stall: &Stall) -> String {
    let clients = counted(stall.level.clients, "client");
    let of = if stall.variant.0 == VariantId::BASELINE {
        String::new()
    } else {
        format!(" of {}", stall.variant)
    };
    let mut text =
        format!("No operation ended in {} of {} slices{of} at {clients}", stall.slices, stall.of);
    if let Some(threads) = &stall.threads {
        let on = threads.mostly_on.filter(|_| threads.blocked.0 > 0.005).map_or("", on);
        text += &format!(
            ": threads were {} running, {} runnable, {} blocked{on}",
            sentence::percent(threads.running),
            sentence::percent(threads.runnable),
            sentence::percent(threads.blocked),
        );
    }
    text
}

/// What they waited for, to follow `blocked`.
const fn on(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Futex { .. } => ", mostly on a futex",
        WaitReason::UserLock => ", mostly on a user lock",
        WaitReason::Condition => ", mostly on a condition variable",
        WaitReason::KernelLock => ", mostly on a kernel lock",
        WaitReason::Device => ", mostly on a device",
        WaitReason::Pipe => ", mostly on a pipe",
        WaitReason::EventCounter => ", mostly on an eventfd",
        WaitReason::Socket => ", mostly on a socket",
        WaitReason::Poll => ", mostly in poll",
        WaitReason::Timer => ", mostly on a timer",
        WaitReason::PageFault => ", mostly on page faults",
        WaitReason::File => ", mostly on a file",
        WaitReason::Process => ", mostly on another process",
        WaitReason::Other => "",
    }
}

//! Waits of a server's threads for the next request.
//!
//! Where the clients live in a load generator, each client thread of the system serves one of
//! them. Between two requests it waits in a receiving or readiness call on a socket or a pipe.
//! That is no cause within the system: it is the generator's turn. Such a thread may also wait so
//! for a server behind this one; the record does not tell the two apart, and it counts as a wait
//! for the next request. Sending never does.
//!
//! Some servers wait for locks in the same call: `PostgreSQL`'s lock manager sleeps until its
//! latch, a descriptor, is readable. There the stacks tell: as much of the blocked time as stands
//! in functions of the lock manager is a lock's.

use crate::groups::Groups;
use crate::naming::naming_frames;
use crate::number::{quotient, seconds};
use crate::slices::Row;
use crate::stacks::Stacks;
use kneepoint_vocab::{
    Clients, Fact, Frame, StackKind, ThreadRole, TrialRecord, Wait, WaitKey, WaitReason,
};
use std::collections::BTreeMap;

/// Functions of lock managers whose waiters poll.
const POLLED: [&str; 4] = ["ProcSleep", "WaitOnLock", "LockAcquireExtended", "LockAcquire"];

/// Frames that may name the lock which a polling thread waits for, innermost first; absent where
/// its stack shows none.
pub(crate) fn polled_names(frames: &[Frame]) -> Option<Vec<String>> {
    let manager = |frame: &Frame| POLLED.contains(&frame.function.as_str());
    let outermost = frames.iter().rposition(manager)?;
    Some(naming_frames(&frames[outermost + 1..]))
}

/// Blocked thread-seconds of one slice in locks that are polled for, by wait group.
pub(crate) struct Polled<'a>(BTreeMap<&'a WaitKey, BTreeMap<usize, f64>>);

impl<'a> Polled<'a> {
    pub(crate) fn of(trial: &'a TrialRecord, groups: &Groups, stacks: &Stacks<'_>) -> Self {
        let mut found: BTreeMap<&WaitKey, BTreeMap<usize, f64>> = BTreeMap::new();
        for fact in &trial.facts {
            if let Fact::Stack(stack) = fact
                && stack.kind == StackKind::OffCpu
                && let Some(key) = &stack.wait
                && let Some(group) = groups.polled_for(stacks.frames(stack.stack))
            {
                *found.entry(key).or_default().entry(group).or_default() += seconds(stack.weight);
            }
        }
        Self(found)
    }

    /// Adds a wait that [`is_for_request`] to `row`, whose window has this length in seconds.
    pub(crate) fn add(&mut self, row: &mut Row, wait: &Wait, window: f64) {
        let (blocked, idle) = (seconds(wait.blocked), seconds(wait.idle_charged));
        let locks = self.0.remove(&wait.key).unwrap_or_default();
        let locked: f64 = locks.values().sum();
        // Stacks are weighted estimates: together they can exceed what was counted.
        let of_all = |part: f64| quotient(part, blocked.max(locked));
        for (group, part) in &locks {
            row.blocked[*group] += of_all(*part) * blocked / window;
            row.waited[*group] += of_all(*part) * blocked / window;
            row.charged[*group] += of_all(*part) * idle / window;
        }
        let rest = if locks.is_empty() { 1.0 } else { 1.0 - of_all(locked) };
        row.no_request += rest * blocked / window;
        row.idle_no_request += rest * idle / window;
    }
}

/// `read`, `readv`, `recvfrom`, `recvmsg`, `recvmmsg`, `poll`, `select`, `pselect6`, `ppoll`,
/// `epoll_wait`, `epoll_pwait`, `epoll_pwait2` as `x86_64` numbers them.
const RECEIVING: [i32; 12] = [0, 19, 45, 47, 299, 7, 23, 270, 271, 232, 281, 441];
/// The same on `aarch64`, as far as it has them; no number means a sending call on `x86_64`.
const RECEIVING_AARCH64: [i32; 8] = [63, 65, 207, 212, 243, 72, 73, 22];

/// Whether a wait is one for the next request.
pub(crate) fn is_for_request(clients: Clients, wait: &Wait) -> bool {
    let receives =
        || RECEIVING.contains(&wait.key.syscall) || RECEIVING_AARCH64.contains(&wait.key.syscall);
    clients == Clients::Apart
        && wait.role == ThreadRole::Client
        && match wait.key.reason {
            WaitReason::Poll => true,
            WaitReason::Socket | WaitReason::Pipe => receives(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::units::Nanos;
    use kneepoint_vocab::{Holders, WaitKey};

    fn wait(role: ThreadRole, reason: WaitReason, syscall: i32) -> Wait {
        Wait {
            role,
            name: "worker".to_owned(),
            key: WaitKey { reason, object: 0, object_name: None, syscall },
            blocked: Nanos(1),
            count: 1,
            longest: Nanos(1),
            idle_charged: Nanos(0),
            holders: Holders::default(),
        }
    }

    #[test]
    fn only_client_threads_that_receive_wait_for_a_request() {
        use ThreadRole::{Client, Other};
        use WaitReason::{Device, Pipe, Poll, Socket};
        let apart = |role, reason, call| is_for_request(Clients::Apart, &wait(role, reason, call));
        assert!(apart(Client, Socket, 45) && apart(Client, Poll, 7) && apart(Client, Pipe, 0));
        assert!(!apart(Client, Socket, 44), "sendto");
        assert!(!apart(Client, Pipe, 1), "write");
        assert!(!apart(Other, Socket, 45));
        assert!(!apart(Client, Device, 0));
        assert!(!is_for_request(Clients::Inside, &wait(Client, Socket, 45)));
    }
}

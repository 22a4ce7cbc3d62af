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

use crate::frames::names::Catalogue;
use crate::frames::stacks::Stacks;
use crate::ledgers::slices::Row;
use crate::number::{count, quotient, seconds};
use crate::waits::groups::Groups;
use kneepoint_vocab::{
    Clients, Fact, StackKind, ThreadRole, TrialRecord, Wait, WaitKey, WaitReason,
};
use std::collections::BTreeMap;

/// What the stacks of one key of waits say.
#[derive(Default)]
struct Stood {
    /// Blocked thread-seconds in locks that are polled for, and stacks, by wait group.
    locks: BTreeMap<usize, (f64, f64)>,
    /// Stacks in all.
    stacks: f64,
}

/// Waits of one slice for locks that are polled for, by wait group.
pub(crate) struct Polled<'a>(BTreeMap<&'a WaitKey, Stood>);

impl<'a> Polled<'a> {
    pub(crate) fn of(trial: &'a TrialRecord, groups: &Groups, stacks: &Stacks<'_>) -> Self {
        let mut found: BTreeMap<&WaitKey, Stood> = BTreeMap::new();
        for fact in &trial.facts {
            if let Fact::Stack(stack) = fact
                && stack.kind == StackKind::OffCpu
                && let Some(key) = &stack.wait
            {
                let stood = found.entry(key).or_default();
                stood.stacks += count(stack.count);
                if let Some(group) = groups.polled_for(stacks.frames(stack.stack)) {
                    let lock = stood.locks.entry(group).or_default();
                    lock.0 += seconds(stack.weight);
                    lock.1 += count(stack.count);
                }
            }
        }
        Self(found)
    }

    /// Adds a wait that [`is_for_request`] to `row`, whose window has this length in seconds. A
    /// thread's stacks are all taken with about one probability, so as many of its waits as of its
    /// stacks are a lock's.
    pub(crate) fn add(&mut self, row: &mut Row, wait: &Wait, window: f64) {
        let (blocked, idle) = (seconds(wait.blocked) / window, seconds(wait.idle_charged) / window);
        let ended = count(wait.count) / window;
        let stood = self.0.remove(&wait.key).unwrap_or_default();
        let locked: f64 = stood.locks.values().map(|(time, _)| time).sum();
        // Stacks are weighted estimates: together they can exceed what was counted.
        let all = seconds(wait.blocked).max(locked);
        let (mut time_left, mut ended_left) = (1.0, 1.0);
        for (group, (time, stacks)) in &stood.locks {
            let (time, stacks) = (quotient(*time, all), quotient(*stacks, stood.stacks));
            row.blocked[*group] += time * blocked;
            row.waited[*group] += time * blocked;
            row.charged[*group] += time * idle;
            row.waits[*group] += stacks * ended;
            row.woken[*group] += stacks * ended;
            time_left -= time;
            ended_left -= stacks;
        }
        row.no_request += time_left * blocked;
        row.idle_no_request += time_left * idle;
        row.woken_for_work += ended_left * ended;
    }
}

/// Whether a wait is one for the next request. A server of event loops has no thread for each
/// client (`known` is false): its threads wait for requests as well.
pub(crate) fn is_for_request(names: Catalogue, clients: Clients, known: bool, wait: &Wait) -> bool {
    let serves = wait.role == ThreadRole::Client || !known;
    clients == Clients::Apart && serves && is_request_key(names, &wait.key)
}

/// Whether a client thread that waits so waits for the next request.
pub(crate) fn is_request_key(names: Catalogue, key: &WaitKey) -> bool {
    let receives = || names.is_receiving(key.syscall);
    match key.reason {
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
        let apart = |role, reason, call| {
            is_for_request(Catalogue::built_in(), Clients::Apart, true, &wait(role, reason, call))
        };
        assert!(apart(Client, Socket, 45) && apart(Client, Poll, 7) && apart(Client, Pipe, 0));
        assert!(!apart(Client, Socket, 44), "sendto");
        assert!(!apart(Client, Pipe, 1), "write");
        assert!(!apart(Other, Socket, 45));
        assert!(!apart(Client, Device, 0));
        assert!(!is_for_request(
            Catalogue::built_in(),
            Clients::Inside,
            true,
            &wait(Client, Socket, 45)
        ));
        let event_loop = wait(Other, Poll, 232);
        assert!(is_for_request(Catalogue::built_in(), Clients::Apart, false, &event_loop));
        assert!(!is_for_request(Catalogue::built_in(), Clients::Apart, true, &event_loop));
    }
}

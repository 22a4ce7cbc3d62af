//! Waits of a server's threads for the next request.
//!
//! Where the clients live in a load generator, each client thread of the system serves one of
//! them. Between two requests it waits in a receiving or readiness call on a socket or a pipe.
//! That is no cause within the system: it is the generator's turn. Such a thread may also wait so
//! for a server behind this one; the record does not tell the two apart, and it counts as a wait
//! for the next request. Sending never does.

use crate::frames::names::Catalogue;
use kneepoint_vocab::{Clients, ThreadRole, Wait, WaitKey, WaitReason};

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

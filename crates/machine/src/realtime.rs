//! Letting the calling thread run before all ordinary ones: a thread that opens and closes windows
//! or reads what the kernel hands out must not wait behind the clients of a system that uses every
//! core. And giving threads of others a policy.

use crate::policy::Policy;
use std::io;

/// The lowest real-time priority.
const LOWEST: i32 = 1;

/// Gives the calling thread the lowest real-time priority, which nothing that it starts inherits.
/// False where the right to do so is missing; then nothing has changed.
#[must_use]
pub fn begin() -> bool {
    set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, LOWEST)
}

/// Makes the calling thread an ordinary one again.
pub fn end() {
    // Without privileges the flag stays, which says no more than that children are ordinary too.
    let _ = set(libc::SCHED_OTHER, 0) || set(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
}

/// Gives a thread of any process this policy; threads that it starts later have it too.
///
/// # Errors
/// The right to do so is missing, or there is no such thread.
pub fn give(thread: u32, policy: Policy) -> io::Result<()> {
    let (number, priority) = policy.numbers();
    let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives during the call.
    match unsafe { libc::sched_setscheduler(thread, number, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives during the call; pid 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

//! Letting the calling thread run before all ordinary ones: a thread that opens and closes windows
//! or reads what the kernel hands out must not wait behind the clients of a system that uses every
//! core.

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

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives during the call; pid 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

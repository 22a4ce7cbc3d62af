//! One simulated thread.

use super::Ticks;

/// No thread, core or item.
pub(super) const NONE: u32 = u32::MAX;

/// The links of one thread in one kind of list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) after: u32,
    pub(super) before: u32,
}

pub(super) const UNLINKED: Links = Links { after: NONE, before: NONE };

/// A number of parts that fits the numbers used for them.
pub(super) fn count<T>(parts: &[T]) -> u32 {
    u32::try_from(parts.len()).unwrap_or(NONE)
}

/// Loops within loops that a program may have.
pub(super) const SLOTS: usize = 4;
/// Locks that a thread may hold at once.
pub(super) const HELD: usize = 8;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// On a core.
    Running,
    /// Queued for a core, or on the way to one.
    Runnable,
    /// Waits.
    Blocked,
}

/// What it does next on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Goes on with its program.
    Go,
    /// Spins for the lock that its instruction names.
    Spin,
    /// Tries the lock again that it was woken for.
    Retry,
    /// Stops spinning and sleeps.
    Park,
    /// Waits for a bus.
    Stall,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) since: Ticks,
    pub(super) lock: u32,
    pub(super) shared: bool,
}

/// A simulated thread: what nearly every event of it touches, in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Thread {
    pub(super) state: State,
    pub(super) next: Next,
    pub(super) client: bool,
    pub(super) priority: u8,
    pub(super) pinned: bool,
    /// It stands in the list of those that go on at this instant.
    pub(super) due: bool,
    pub(super) wants_shared: bool,
    /// Locks that it holds.
    pub(super) holds: u8,
    /// The instruction it is at.
    pub(super) at: u32,
    /// The core it runs on, or ran on last.
    pub(super) core: u32,
    /// Accounted up to here.
    pub(super) since: Ticks,
    /// CPU work to do: first switching, then what its locks and wake-ups cost, then the program's.
    pub(super) switching: Ticks,
    pub(super) extra: Ticks,
    pub(super) work: Ticks,
    /// Object that pays for `extra`.
    pub(super) extra_of: u32,
    /// Object that it waits or waited for.
    pub(super) cause: u32,
    pub(super) slice_end: Ticks,
    pub(super) blocked_at: Ticks,
    pub(super) ready_at: Ticks,
    pub(super) run_links: Links,
    pub(super) wait_links: Links,
    /// The lock that it wants, and how long it may spin.
    pub(super) wants: u32,
    pub(super) class: u32,
    pub(super) spin_end: Ticks,
    pub(super) started: Ticks,
    /// What it waits for once it has paid for a call.
    pub(super) awaits: u32,
    /// A lock that it let go for a sleep and takes again after that.
    pub(super) regains: u32,
}

const _: () = assert!(size_of::<Thread>() == 128, "two cache lines");

/// What only some events of a thread touch.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Aside {
    pub(super) held: [Held; HELD],
    pub(super) counters: [u32; SLOTS],
    pub(super) stalled_at: Ticks,
    /// Its place among those that idle cores may take, and the core that it is queued for.
    pub(super) steal_links: Links,
    pub(super) queued_for: u32,
    /// The item it works on.
    pub(super) item: u32,
    /// The reply came before it slept.
    pub(super) replied: bool,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self {
            held: [Held { since: 0, lock: NONE, shared: false }; HELD],
            counters: [0; SLOTS],
            stalled_at: 0,
            steal_links: UNLINKED,
            queued_for: NONE,
            item: NONE,
            replied: false,
        }
    }
}

impl Thread {
    pub(super) fn new(class: u32, entry: u32, client: bool, priority: u8, core: u32) -> Self {
        Self {
            state: State::Runnable,
            next: Next::Go,
            client,
            priority,
            pinned: false,
            due: false,
            wants_shared: false,
            holds: 0,
            at: entry,
            core,
            since: 0,
            switching: 0,
            extra: 0,
            work: 0,
            extra_of: 0,
            cause: 0,
            slice_end: 0,
            blocked_at: 0,
            ready_at: 0,
            run_links: UNLINKED,
            wait_links: UNLINKED,
            wants: NONE,
            class,
            spin_end: Ticks::MAX,
            started: 0,
            awaits: NONE,
            regains: NONE,
        }
    }

    /// CPU that it owes for switching, hand-offs and its program.
    #[inline]
    pub(super) fn owes(&self) -> Ticks {
        self.switching + self.extra + self.work
    }
}

//! Locks: who owns one, who waits for it and how, and what handing it on costs.
//!
//! One file for each way of waiting: [`spinning`](self) (test-and-set, ticket, MCS), sleeping
//! (FIFO hand-off, flag), trying again (futex, adaptive) and reader-writer.

mod barging;
mod read_write;
mod sleeping;
mod spinning;

use super::Machine;
use crate::sim::SimError;
use crate::sim::Ticks;
use crate::sim::list::{List, Wait};
use crate::sim::program::LockKind;
use crate::sim::thread::{HELD, Held, NONE, Next, State};

/// The state of a lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) owner: u32,
    pub(super) readers: u32,
    /// How many times its owner took it beyond the first.
    depth: u32,
    /// Waiters on a core or preempted there.
    pub(super) spinners: List<Wait>,
    /// Waiters that sleep.
    pub(super) sleepers: List<Wait>,
    last_core: u32,
    pub(super) held_time: Ticks,
    pub(super) taken: u64,
    pub(super) waited: u64,
}

impl Lock {
    pub(super) fn new() -> Self {
        Self {
            owner: NONE,
            readers: 0,
            depth: 0,
            spinners: List::EMPTY,
            sleepers: List::EMPTY,
            last_core: NONE,
            held_time: 0,
            taken: 0,
            waited: 0,
        }
    }

    pub(super) fn forget(&mut self) {
        self.held_time = 0;
        self.taken = 0;
        self.waited = 0;
    }

    fn free(&self) -> bool {
        self.owner == NONE && self.readers == 0
    }
}

impl Machine<'_> {
    /// A running thread takes the lock that it wants, or begins to wait. Whether it has it.
    #[inline]
    pub(super) fn acquire(&mut self, number: u32) -> bool {
        let thread = &self.threads[number as usize];
        let (wants, shared) = (thread.wants, thread.wants_shared);
        let kind = self.twin.locks[wants as usize].kind;
        let lock = &mut self.locks[wants as usize];
        let open = match kind {
            // Those who spin in order are handed the lock; nobody passes them.
            LockKind::Ticket | LockKind::Mcs => lock.owner == NONE && lock.spinners.is_empty(),
            LockKind::ReadWrite(prefer) => self.may_enter(wants, shared, prefer),
            _ => lock.owner == NONE,
        };
        if open {
            self.enter(number, wants, shared);
            return true;
        }
        let lock = &mut self.locks[wants as usize];
        if lock.owner == number {
            return self.again(number, wants);
        }
        lock.waited += 1;
        self.circle(number, wants);
        match kind {
            LockKind::TestAndSet | LockKind::Ticket | LockKind::Mcs => {
                self.spin(number, Ticks::MAX);
            }
            LockKind::Futex | LockKind::Adaptive => self.spin_or_sleep(number),
            LockKind::Fifo | LockKind::Flag | LockKind::ReadWrite(_) => self.sleep(number),
        }
        false
    }

    /// The owner takes its lock once more.
    fn again(&mut self, number: u32, lock: u32) -> bool {
        let spec = &self.twin.locks[lock as usize];
        if spec.recursive {
            self.locks[lock as usize].depth += 1;
            return true;
        }
        let what = format!("{} takes {} twice", self.name_of(number), spec.name);
        self.fault = Some(SimError::Deadlock(what));
        self.block(number, self.objects.lock(lock));
        false
    }

    /// The lock becomes the thread's.
    #[inline]
    fn enter(&mut self, number: u32, wants: u32, shared: bool) {
        let spec = &self.twin.locks[wants as usize];
        let lock = &mut self.locks[wants as usize];
        let thread = &mut self.threads[number as usize];
        if shared {
            lock.readers += 1;
        } else {
            lock.owner = number;
        }
        lock.taken += 1;
        if lock.last_core != thread.core {
            if lock.last_core != NONE && spec.transfer > 0 {
                thread.extra += spec.transfer;
                thread.extra_of = self.objects.lock(wants);
            }
            lock.last_core = thread.core;
        }
        if usize::from(thread.holds) == HELD {
            let what = format!("a thread holds more than {HELD} locks at once");
            self.fault = Some(SimError::Program(what));
            return;
        }
        let place = usize::from(thread.holds);
        self.asides[number as usize].held[place] = Held { since: self.now, lock: wants, shared };
        thread.holds += 1;
    }

    /// A waiter becomes the owner; `spinners` others still look at the lock.
    fn grant(&mut self, number: u32, wants: u32, spinners: u32) {
        let shared = self.threads[number as usize].wants_shared;
        self.enter(number, wants, shared);
        let cost = self.twin.locks[wants as usize].per_spinner * Ticks::from(spinners);
        let object = self.objects.lock(wants);
        let thread = &mut self.threads[number as usize];
        if cost > 0 {
            thread.extra += cost;
            thread.extra_of = object;
        }
        self.entered(number, wants);
    }

    /// A thread that had to wait goes on behind its instruction, or regained what it let go.
    #[inline]
    pub(super) fn entered(&mut self, number: u32, wants: u32) {
        let thread = &mut self.threads[number as usize];
        thread.next = Next::Go;
        if thread.regains == wants {
            thread.regains = NONE;
        } else {
            thread.at += 1;
        }
    }

    /// Releases the last of the locks `first..first + copies` that the thread took.
    #[inline]
    pub(super) fn release(&mut self, number: u32, first: u32, copies: u32) {
        let holds = usize::from(self.threads[number as usize].holds);
        let mine = &mut self.asides[number as usize].held;
        let found = mine[..holds].iter().rposition(|held| held.lock.wrapping_sub(first) < copies);
        let Some(place) = found else {
            let what = format!("a thread releases {}, which it does not hold", {
                &self.twin.locks[first as usize].name
            });
            self.fault = Some(SimError::Program(what));
            return;
        };
        let held = mine[place];
        let lock = &mut self.locks[held.lock as usize];
        if lock.depth > 0 && lock.owner == number {
            lock.depth -= 1;
            return;
        }
        mine.copy_within(place + 1..holds, place);
        self.threads[number as usize].holds -= 1;
        self.leave(number, held);
    }

    /// The lock is nobody's, or the next one's.
    fn leave(&mut self, number: u32, held: Held) {
        let lock = &mut self.locks[held.lock as usize];
        lock.held_time += self.now - held.since.max(self.account.begin);
        if held.shared {
            lock.readers -= 1;
        } else {
            lock.owner = NONE;
        }
        if !lock.free() || (lock.spinners.is_empty() && lock.sleepers.is_empty()) {
            return;
        }
        match self.twin.locks[held.lock as usize].kind {
            LockKind::TestAndSet => self.hand_to_any(held.lock),
            LockKind::Ticket | LockKind::Mcs => self.hand_to_first(held.lock),
            LockKind::Fifo => self.hand_to_sleeper(number, held.lock),
            LockKind::Flag => self.wake_all(number, held.lock),
            LockKind::Futex | LockKind::Adaptive => self.free_and_wake(number, held.lock),
            LockKind::ReadWrite(prefer) => self.admit(number, held.lock, prefer),
        }
    }

    /// Begins to spin until `end` at the latest.
    fn spin(&mut self, number: u32, end: Ticks) {
        let thread = &mut self.threads[number as usize];
        thread.next = Next::Spin;
        thread.spin_end = end;
        let wants = thread.wants as usize;
        self.locks[wants].spinners.push(&mut self.threads, number);
        self.variant(number);
    }

    fn sleep(&mut self, number: u32) {
        let wants = self.threads[number as usize].wants;
        self.locks[wants as usize].sleepers.push(&mut self.threads, number);
        self.block(number, self.objects.lock(wants));
    }

    /// One who spins gets the lock, on its core or not.
    fn hand_to_spinner(&mut self, number: u32, wants: u32, seen_by: u32) {
        if self.threads[number as usize].state == State::Running {
            self.settle(number);
        }
        self.locks[wants as usize].spinners.remove(&mut self.threads, number);
        self.grant(number, wants, seen_by);
        if self.threads[number as usize].state == State::Running {
            self.agenda.unset(number);
            self.soon(number);
        }
    }

    /// A thread that spun when it lost its core is back on one.
    pub(super) fn resume_spin(&mut self, number: u32) {
        let thread = &self.threads[number as usize];
        let wants = thread.wants;
        let lock = &self.locks[wants as usize];
        let kind = self.twin.locks[wants as usize].kind;
        let queued = matches!(kind, LockKind::Ticket | LockKind::Mcs);
        if lock.free() && !queued {
            self.hand_to_spinner(number, wants, 0);
        } else if self.now >= thread.spin_end
            || (kind == LockKind::Adaptive && !self.owner_runs(wants))
        {
            self.threads[number as usize].next = Next::Park;
            self.soon(number);
        } else {
            self.variant(number);
        }
    }

    /// Lets the locks go that are not held asleep; at most one of them is held at a time.
    pub(super) fn let_go(&mut self, number: u32, object: u32) {
        let holds = usize::from(self.threads[number as usize].holds);
        let mine = &mut self.asides[number as usize].held;
        let dropped = mine[..holds].iter().position(|held| {
            self.twin.locks[held.lock as usize].dropped_asleep
                && self.objects.lock(held.lock) != object
        });
        let Some(place) = dropped else { return };
        let held = mine[place];
        mine.copy_within(place + 1..holds, place);
        let thread = &mut self.threads[number as usize];
        thread.holds -= 1;
        thread.regains = held.lock;
        self.leave(number, held);
    }
}

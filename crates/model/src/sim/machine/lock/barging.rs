//! Locks whose release frees them: futex and adaptive. Who is on a core passes who sleeps.
//!
//! The futex spins up to its limit (0: not at all), then sleeps. The adaptive lock spins as long as
//! the owner is on a core, at most to its limit, and sleeps when the owner leaves it.

use super::super::Machine;
use crate::sim::Ticks;
use crate::sim::list::{List, Wait};
use crate::sim::program::LockKind;
use crate::sim::thread::{NONE, Next, State};

impl Machine<'_> {
    /// Whether the lock's owner is on a core.
    pub(super) fn owner_runs(&self, wants: u32) -> bool {
        let owner = self.locks[wants as usize].owner;
        self.threads.get(owner as usize).is_some_and(|owner| owner.state == State::Running)
    }

    pub(super) fn spin_or_sleep(&mut self, number: u32) {
        let wants = self.threads[number as usize].wants;
        let spec = &self.twin.locks[wants as usize];
        let limit = spec.spin;
        let adaptive = spec.kind == LockKind::Adaptive;
        if limit > 0 && (!adaptive || self.owner_runs(wants)) {
            self.spin(number, self.now.saturating_add(limit));
        } else {
            self.sleep(number);
        }
    }

    /// To one that spins on a core; else free, and the first sleeper tries again.
    pub(super) fn free_and_wake(&mut self, by: u32, wants: u32) {
        let lock = &self.locks[wants as usize];
        let spinners = lock.spinners.len;
        let mut candidate = lock.spinners.first;
        while candidate != NONE {
            let thread = &self.threads[candidate as usize];
            if thread.state == State::Running && thread.next == Next::Spin {
                self.hand_to_spinner(candidate, wants, spinners);
                return;
            }
            candidate = List::<Wait>::after(&mut self.threads, candidate);
        }
        if let Some(first) = self.locks[wants as usize].sleepers.pop(&mut self.threads) {
            self.threads[first as usize].next = Next::Retry;
            self.rouse(by, first, wants);
        }
    }

    /// The spin's limit is reached, or the owner left its core.
    pub(crate) fn park(&mut self, number: u32) {
        self.settle(number);
        let wants = self.threads[number as usize].wants;
        let lock = &mut self.locks[wants as usize];
        lock.spinners.remove(&mut self.threads, number);
        let thread = &mut self.threads[number as usize];
        thread.next = Next::Go;
        thread.spin_end = Ticks::MAX;
        if lock.free() {
            self.grant(number, wants, 0);
            self.agenda.unset(number);
            self.soon(number);
        } else {
            self.threads[number as usize].next = Next::Retry;
            self.sleep(number);
        }
    }

    /// An owner leaves its core: who spins for its adaptive locks stops.
    pub(crate) fn owner_left(&mut self, number: u32) {
        for index in 0..usize::from(self.threads[number as usize].holds) {
            let lock = self.asides[number as usize].held[index].lock;
            if self.twin.locks[lock as usize].kind != LockKind::Adaptive {
                continue;
            }
            let mut spinner = self.locks[lock as usize].spinners.first;
            while spinner != NONE {
                let thread = &mut self.threads[spinner as usize];
                if thread.state == State::Running && thread.next == Next::Spin {
                    thread.next = Next::Park;
                    self.soon(spinner);
                }
                spinner = List::<Wait>::after(&mut self.threads, spinner);
            }
        }
    }
}

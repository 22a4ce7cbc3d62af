//! Locks that are waited for asleep: handed to the first in line, or announced to all.
//!
//! The FIFO lock is the kernel's old sleeping mutex or semaphore: the first in line owns it from
//! the release on, before it has a core, which is what makes convoys. The flag is a mutex, a flag
//! and `wakeup()`: everybody who waits is woken by each release, and all but one sleep again.

use super::super::Machine;
use crate::sim::thread::Next;

impl Machine<'_> {
    /// To the first in line.
    pub(super) fn hand_to_sleeper(&mut self, by: u32, wants: u32) {
        let lock = &mut self.locks[wants as usize];
        if let Some(first) = lock.sleepers.pop(&mut self.threads) {
            self.grant(first, wants, 0);
            self.rouse(by, first, wants);
        }
    }

    /// All try again.
    pub(super) fn wake_all(&mut self, by: u32, wants: u32) {
        while let Some(next) = self.locks[wants as usize].sleepers.pop(&mut self.threads) {
            self.threads[next as usize].next = Next::Retry;
            self.rouse(by, next, wants);
        }
    }

    /// Wakes one who sleeps for a lock.
    pub(super) fn rouse(&mut self, by: u32, number: u32, wants: u32) {
        let object = self.objects.lock(wants);
        let look = self.twin.locks[wants as usize].look;
        if look > 0 {
            let thread = &mut self.threads[number as usize];
            thread.extra += look;
            thread.extra_of = object;
        }
        self.wake(by, number, object);
    }
}

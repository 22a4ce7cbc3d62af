//! Reader-writer locks: any number of readers or one writer; all others sleep.

use super::super::Machine;
use crate::sim::list::{List, Wait};
use crate::sim::program::Prefer;
use crate::sim::thread::NONE;

impl Machine<'_> {
    pub(super) fn may_enter(&self, wants: u32, shared: bool, prefer: Prefer) -> bool {
        let lock = &self.locks[wants as usize];
        if lock.owner != NONE || (!shared && lock.readers > 0) {
            return false;
        }
        match prefer {
            Prefer::Readers => shared || lock.sleepers.is_empty(),
            Prefer::Fifo | Prefer::Writers => lock.sleepers.is_empty(),
        }
    }

    /// The lock is free: the next writer or the next readers have it.
    pub(super) fn admit(&mut self, by: u32, wants: u32, prefer: Prefer) {
        let mut first = self.locks[wants as usize].sleepers.first;
        let kind = match prefer {
            Prefer::Fifo => self.threads[first as usize].wants_shared,
            Prefer::Readers => self.waits(wants, true),
            Prefer::Writers => !self.waits(wants, false),
        };
        while first != NONE {
            let next = List::<Wait>::after(&mut self.threads, first);
            if self.threads[first as usize].wants_shared == kind {
                self.locks[wants as usize].sleepers.remove(&mut self.threads, first);
                self.grant(first, wants, 0);
                self.rouse(by, first, wants);
                if !kind {
                    return;
                }
            } else if prefer == Prefer::Fifo {
                return;
            }
            first = next;
        }
    }

    /// Whether a reader (or a writer) sleeps for the lock.
    fn waits(&mut self, wants: u32, shared: bool) -> bool {
        let mut thread = self.locks[wants as usize].sleepers.first;
        while thread != NONE {
            if self.threads[thread as usize].wants_shared == shared {
                return true;
            }
            thread = List::<Wait>::after(&mut self.threads, thread);
        }
        false
    }
}

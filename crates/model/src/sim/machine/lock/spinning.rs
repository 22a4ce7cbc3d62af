//! Locks that are waited for on a core only: test-and-set, ticket, MCS.
//!
//! A ticket lock's release is seen by every core that spins, so the hand-off takes time in
//! proportion to them (Boyd-Wickizer and others 2012); MCS waiters look at places of their own.
//! Both hand the lock to the first in line even if that one has lost its core meanwhile. Under
//! test-and-set a waiter without a core is passed.

use super::super::Machine;
use crate::sim::list::{List, Wait};
use crate::sim::program::LockKind;
use crate::sim::thread::{NONE, Next, State};

impl Machine<'_> {
    /// To the first in line.
    pub(super) fn hand_to_first(&mut self, wants: u32) {
        let lock = &self.locks[wants as usize];
        let first = lock.spinners.first;
        let seen = match self.twin.locks[wants as usize].kind {
            LockKind::Mcs => 0,
            _ => lock.spinners.len,
        };
        self.hand_to_spinner(first, wants, seen);
    }

    /// To one of those on a core, drawn at random; free if there is none.
    pub(super) fn hand_to_any(&mut self, wants: u32) {
        let len = self.locks[wants as usize].spinners.len;
        let mut skip = self.draws.below(len);
        let mut candidate = self.locks[wants as usize].spinners.first;
        while skip > 0 {
            candidate = List::<Wait>::after(&mut self.threads, candidate);
            skip -= 1;
        }
        for _ in 0..len {
            let thread = &self.threads[candidate as usize];
            if thread.state == State::Running && thread.next == Next::Spin {
                self.hand_to_spinner(candidate, wants, len);
                return;
            }
            candidate = List::<Wait>::after(&mut self.threads, candidate);
            if candidate == NONE {
                candidate = self.locks[wants as usize].spinners.first;
            }
        }
    }
}

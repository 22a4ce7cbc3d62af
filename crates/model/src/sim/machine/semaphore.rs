//! Counting semaphores, first come first served: admission limits, pools of connections.

use super::Machine;
use crate::sim::list::{List, Wait};
use crate::sim::program::SemaphoreSpec;

/// The state of a semaphore.
#[derive(Debug)]
pub(super) struct Semaphore {
    units: u32,
    waiters: List<Wait>,
}

impl Semaphore {
    pub(super) fn new(spec: &SemaphoreSpec) -> Self {
        Self { units: spec.units, waiters: List::EMPTY }
    }
}

impl Machine<'_> {
    /// Takes a unit, or waits for one.
    pub(super) fn take_unit(&mut self, number: u32, semaphore: u32) -> bool {
        let state = &mut self.semaphores[semaphore as usize];
        if state.units > 0 {
            state.units -= 1;
            return true;
        }
        state.waiters.push(&mut self.threads, number);
        self.block(number, self.objects.semaphore(semaphore));
        false
    }

    /// Gives a unit to the first who waits, or back.
    pub(super) fn give_unit(&mut self, number: u32, semaphore: u32) {
        let state = &mut self.semaphores[semaphore as usize];
        match state.waiters.pop(&mut self.threads) {
            Some(first) => self.wake(number, first, self.objects.semaphore(semaphore)),
            None => state.units += 1,
        }
    }
}

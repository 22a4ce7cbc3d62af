//! Circles of threads that wait for each other, and what to say where nothing goes on.

use super::Machine;
use crate::sim::SimError;
use crate::sim::thread::State;
use crate::sim::thread::{NONE, count};
use std::fmt::Write;

/// Threads named where nothing goes on.
const NAMED: usize = 8;

impl Machine<'_> {
    /// `client 3`.
    pub(super) fn name_of(&self, number: u32) -> String {
        let class = self.threads[number as usize].class;
        let before: u32 = self.twin.classes[..class as usize].iter().map(|it| it.count).sum();
        format!("{} {}", self.twin.classes[class as usize].name, number - before + 1)
    }

    /// Fails where the owner of the lock waits, by way of others, for the thread that wants it.
    #[inline]
    pub(super) fn circle(&mut self, number: u32, lock: u32) {
        let owner = self.locks[lock as usize].owner;
        if owner != NONE && self.threads[number as usize].holds > 0 && self.waits_for(owner) != NONE
        {
            self.follow(number, lock);
        }
    }

    /// The lock that a thread waits for.
    fn waits_for(&self, number: u32) -> u32 {
        let thread = &self.threads[number as usize];
        let spins = thread.next == crate::sim::thread::Next::Spin;
        let sleeps = thread.state == State::Blocked && self.objects.is_lock(thread.cause);
        if spins || sleeps { thread.wants } else { NONE }
    }

    fn follow(&mut self, number: u32, lock: u32) {
        let mut path = vec![(number, lock)];
        let mut owner = self.locks[lock as usize].owner;
        while path.len() <= self.threads.len() {
            if owner == number {
                self.fault = Some(SimError::Deadlock(self.describe(&path)));
                return;
            }
            if owner == NONE {
                return;
            }
            let next = self.waits_for(owner);
            if next == NONE {
                return;
            }
            path.push((owner, next));
            owner = self.locks[next as usize].owner;
        }
    }

    fn describe(&self, path: &[(u32, u32)]) -> String {
        let mut text = String::new();
        for (thread, lock) in path {
            let lock = &self.twin.locks[*lock as usize].name;
            let _ = write!(text, "{} waits for {lock}, which is held by ", self.name_of(*thread));
        }
        text + &self.name_of(path[0].0)
    }

    /// Nothing is left to happen.
    pub(super) fn stuck(&self) -> SimError {
        SimError::Deadlock(format!("every thread waits: {}", self.waits_said()))
    }

    /// What the first threads wait for.
    pub(super) fn waits_said(&self) -> String {
        let mut text = Vec::new();
        for number in 0..count(&self.threads) {
            if text.len() == NAMED {
                text.push("...".to_owned());
                break;
            }
            let thread = &self.threads[number as usize];
            let what = match thread.state {
                State::Blocked => format!("waits ({})", self.objects.name(thread.cause)),
                State::Runnable => "is runnable".to_owned(),
                State::Running => "runs".to_owned(),
            };
            text.push(format!("{} {what}", self.name_of(number)));
        }
        text.join(", ")
    }
}

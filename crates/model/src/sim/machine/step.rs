//! Threads go through their programs.

use super::Machine;
use crate::sim::program::Op;
use crate::sim::thread::{NONE, Next, State};
use crate::sim::{SimError, Ticks};

/// Operations in a row that may take no time.
const INSTANT: u32 = 1_000_000;

impl Machine<'_> {
    /// A thread on a core goes on until something takes time.
    pub(super) fn go(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        thread.due = false;
        if thread.state != State::Running {
            return;
        }
        if thread.work > 0 {
            return self.variant(number);
        }
        if thread.awaits != NONE {
            if self.paid(number) {
                self.await_reply(number);
            }
            return;
        }
        match self.threads[number as usize].next {
            Next::Park => return self.park(number),
            Next::Spin | Next::Stall => return,
            Next::Retry => {
                if !self.paid(number) {
                    return;
                }
                self.threads[number as usize].next = Next::Go;
                if !self.acquire(number) {
                    return;
                }
                let wants = self.threads[number as usize].wants;
                self.entered(number, wants);
            }
            Next::Go => {}
        }
        if self.threads[number as usize].regains != NONE {
            let thread = &mut self.threads[number as usize];
            thread.wants = thread.regains;
            thread.wants_shared = false;
            if !self.acquire(number) {
                return;
            }
            self.threads[number as usize].regains = NONE;
        }
        while self.fault.is_none() && self.step(number) {}
    }

    /// The thread goes on at this instant, after what is under way.
    #[inline]
    pub(super) fn soon(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        if !thread.due {
            thread.due = true;
            self.todo.push_back(number);
        }
    }

    /// Whether all CPU that it owes for switching and hand-offs is spent; else it spends it now.
    #[inline]
    fn paid(&mut self, number: u32) -> bool {
        let thread = &self.threads[number as usize];
        if thread.switching + thread.extra == 0 {
            return true;
        }
        self.variant(number);
        false
    }

    /// One instruction. Whether the next one follows at once.
    #[inline]
    fn step(&mut self, number: u32) -> bool {
        let thread = &mut self.threads[number as usize];
        let op = self.twin.ops[thread.at as usize];
        if let Op::Run(law) = op {
            thread.work = self.draws.length(self.twin.laws[law as usize]);
            thread.at += 1;
            self.variant(number);
            return false;
        }
        if !self.paid(number) {
            return false;
        }
        match op {
            Op::Lock { lock, copies, shared } => {
                let copy = if copies > 1 { self.draws.below(copies) } else { 0 };
                let thread = &mut self.threads[number as usize];
                thread.wants = lock + copy;
                thread.wants_shared = shared;
                let has = self.acquire(number);
                if has {
                    self.threads[number as usize].at += 1;
                }
                has
            }
            Op::Unlock { lock, copies } => {
                self.threads[number as usize].at += 1;
                self.release(number, lock, copies);
                true
            }
            Op::Device { device, copies, law } => {
                let copy = if copies > 1 { self.draws.below(copies) } else { 0 };
                self.request(number, device + copy, law);
                false
            }
            Op::Think(law) => {
                let pause = self.draws.length(self.twin.laws[law as usize]);
                self.block(number, self.objects.think);
                self.agenda.set(number, self.now + pause);
                false
            }
            Op::End => self.end(number),
            _ => self.step_rarely(number, op),
        }
    }

    fn step_rarely(&mut self, number: u32, op: Op) -> bool {
        let thread = &mut self.threads[number as usize];
        let counters = &mut self.asides[number as usize].counters;
        thread.at += 1;
        match op {
            Op::Repeat { rounds, slot } => counters[slot as usize] = rounds,
            Op::Again { slot, target } => {
                let left = &mut counters[slot as usize];
                *left = left.saturating_sub(1);
                if *left > 0 {
                    thread.at = target;
                }
            }
            Op::Chance { probability, otherwise } => {
                let taken = self.draws.uniform() < f64::from(probability);
                thread.at = if taken { thread.at } else { otherwise };
            }
            Op::Jump(target) => thread.at = target,
            Op::Put(channel) => return self.put(number, channel),
            Op::Take(channel) => return self.receive(number, channel),
            Op::Call(channel) => return self.call(number, channel),
            Op::Reply => return self.reply(number),
            Op::Start { device, law, then } => self.start(number, device, law, then),
            Op::Acquire(semaphore) => return self.take_unit(number, semaphore),
            Op::Give(semaphore) => self.give_unit(number, semaphore),
            Op::Move { bus, bytes } => {
                self.transfer(number, bus, bytes);
                return false;
            }
            _ => {}
        }
        true
    }

    /// The end of the program: an operation of a client, and on from the start.
    #[inline]
    fn end(&mut self, number: u32) -> bool {
        let thread = &mut self.threads[number as usize];
        thread.at = self.twin.classes[thread.class as usize].entry;
        if thread.client {
            self.account.operations += 1;
            self.account.completed_ever += 1;
            self.account.response += self.now - thread.started.max(self.account.begin);
            if thread.started == self.now {
                self.instant += 1;
                if self.instant > INSTANT {
                    let what = format!("an operation of {} takes no time", self.name_of(number));
                    self.fault = Some(SimError::NoProgress(what));
                }
            } else {
                self.instant = 0;
            }
            self.threads[number as usize].started = self.now;
        }
        true
    }

    /// A blocked thread's timer went off: it is done thinking or with a device.
    #[inline]
    pub(super) fn timer_blocked(&mut self, number: u32) {
        let at = self.threads[number as usize].at;
        if let Op::Device { .. } = self.twin.ops[at as usize] {
            self.served(number);
        }
        self.threads[number as usize].at += 1;
        self.ready(number, None);
    }

    /// A thread ends another's wait; the CPU for that is `object`'s.
    #[inline]
    pub(super) fn wake(&mut self, by: u32, number: u32, object: u32) {
        let cost = self.twin.scheduler.wake;
        let waker = &mut self.threads[by as usize];
        if cost > 0 && waker.state == State::Running {
            waker.extra += cost;
            waker.extra_of = object;
        }
        let waker = (waker.state == State::Running).then_some(by);
        self.ready(number, waker);
    }

    /// A point in time this far from now.
    pub(super) fn in_future(&self, length: Ticks) -> Ticks {
        self.now.saturating_add(length)
    }
}

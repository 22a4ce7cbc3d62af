//! Cores: threads come and go, and every picosecond of both is accounted.

use super::{Machine, Queues};
use crate::sim::Ticks;
use crate::sim::list::{List, Run};
use crate::sim::thread::{NONE, Next, State, Thread};

/// A hardware thread.
pub(super) struct Core {
    /// The thread on it or on its way to it.
    pub(super) running: u32,
    /// Since when no thread runs, where none does.
    pub(super) idle_since: Ticks,
    /// Whether it is idle, also while a thread is on its way.
    pub(super) idle: bool,
    pub(super) speed: f64,
    /// Runnable threads that wait for this core.
    pub(super) queues: Queues,
}

impl Core {
    pub(super) fn new(speed: f64) -> Self {
        Self { running: NONE, idle_since: 0, idle: true, speed, queues: [List::<Run>::EMPTY; 3] }
    }
}

impl Machine<'_> {
    /// Accounts what the running thread did since the last time.
    #[inline]
    pub(super) fn settle(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        if thread.since >= self.now {
            return;
        }
        let wall = self.now - thread.since;
        thread.since = self.now;
        let account = &mut self.account;
        account.busy[thread.class as usize] += wall;
        match thread.next {
            Next::Spin | Next::Park => {
                let object = self.objects.lock(thread.wants);
                account.cpu[object as usize] += wall;
            }
            Next::Stall => account.stalled += wall,
            Next::Go | Next::Retry if self.plain => {
                let switching = wall.min(thread.switching);
                thread.switching -= switching;
                account.cpu[self.objects.switching as usize] += switching;
                let extra = (wall - switching).min(thread.extra);
                thread.extra -= extra;
                account.cpu[thread.extra_of as usize] += extra;
                let useful = wall - switching - extra;
                debug_assert!(useful <= thread.work, "worked beyond its work");
                thread.work -= useful;
                account.useful += useful;
            }
            Next::Go | Next::Retry => {
                let speed = self.cores[thread.core as usize].speed;
                let mut rest = wall;
                let mut done = scaled(wall, speed);
                let mut pay = |due: &mut Ticks| {
                    let paid = done.min(*due);
                    *due -= paid;
                    done -= paid;
                    let took = scaled(paid, 1.0 / speed).min(rest);
                    rest -= took;
                    took
                };
                account.cpu[self.objects.switching as usize] += pay(&mut thread.switching);
                account.cpu[thread.extra_of as usize] += pay(&mut thread.extra);
                let before = thread.work;
                thread.work -= done.min(before);
                // What the work takes where the sibling is idle is useful; the rest is slowness.
                let alone = scaled(before - thread.work, 1.0 / self.twin.speed).min(rest);
                account.useful += alone;
                account.cpu[self.objects.sibling as usize] += rest - alone;
            }
        }
    }

    /// Sets the timer of a running thread: the end of what it does, or of its slice.
    #[inline]
    pub(super) fn variant(&mut self, number: u32) {
        let thread = &self.threads[number as usize];
        let end = match thread.next {
            Next::Spin => thread.spin_end,
            Next::Stall => Ticks::MAX,
            _ => {
                let due = thread.owes();
                let wall = if self.plain {
                    due
                } else {
                    // One more, so that rounding leaves nothing over.
                    scaled(due, 1.0 / self.cores[thread.core as usize].speed) + 1
                };
                thread.since.max(self.now).saturating_add(wall)
            }
        };
        let at = if thread.next == Next::Stall { end } else { end.min(thread.slice_end) };
        if at == Ticks::MAX {
            self.agenda.unset(number);
        } else {
            self.agenda.set(number, at.max(self.now));
        }
    }

    /// A running thread's timer went off.
    #[inline]
    pub(super) fn timer_running(&mut self, number: u32) {
        self.settle(number);
        let thread = &self.threads[number as usize];
        let done = thread.owes() == 0;
        match thread.next {
            Next::Go | Next::Retry if done => self.go(number),
            Next::Spin if self.now >= thread.spin_end => self.park(number),
            _ if self.now >= thread.slice_end => self.slice_over(number),
            _ => self.variant(number),
        }
    }

    /// Puts a thread on a core that nothing runs on, at `start`.
    pub(super) fn place(&mut self, number: u32, core: u32, start: Ticks) {
        self.cores[core as usize].running = number;
        let thread = &mut self.threads[number as usize];
        let scheduler = &self.twin.scheduler;
        thread.switching += scheduler.switch;
        if thread.core != core {
            thread.switching += scheduler.migrate;
            thread.core = core;
        }
        let due = thread.owes();
        if start > self.now && (due == 0 || thread.next != Next::Go || self.twin.ways > 1) {
            // It decides something when it gets there.
            self.agenda.set(number, start);
        } else {
            self.begin(number, start);
        }
    }

    /// A thread begins to run on the core that it was placed on.
    #[inline]
    pub(super) fn begin(&mut self, number: u32, start: Ticks) {
        let thread = &mut self.threads[number as usize];
        let core = &mut self.cores[thread.core as usize];
        let begin = self.account.begin;
        let was_idle = core.idle;
        if was_idle {
            core.idle = false;
            let since = core.idle_since.max(begin);
            let blocked = thread.blocked_at.clamp(since, start);
            let ready = thread.ready_at.clamp(blocked, start);
            self.account.uncharged += blocked - since;
            self.account.idle[thread.cause as usize] += ready - blocked;
            self.account.idle[self.objects.scheduler as usize] += start - ready;
        }
        self.account.runnable[usize::from(thread.client)] += start - thread.ready_at.max(begin);
        self.account.switches += 1;
        thread.state = State::Running;
        thread.since = start;
        thread.slice_end = start.saturating_add(self.twin.scheduler.slice);
        let due = thread.owes();
        let next = thread.next;
        let core = thread.core;
        if was_idle && self.twin.ways > 1 {
            self.sibling_changes(core);
        }
        match next {
            Next::Spin => self.resume_spin(number),
            Next::Park => self.soon(number),
            _ if due > 0 => self.variant(number),
            _ => self.soon(number),
        }
    }

    /// A running thread waits from now on, for this object; its core takes another.
    #[inline]
    pub(super) fn block(&mut self, number: u32, object: u32) {
        self.agenda.unset(number);
        let now = self.now;
        let thread = &mut self.threads[number as usize];
        debug_assert!(thread.state == State::Running, "only a running thread blocks");
        thread.state = State::Blocked;
        thread.blocked_at = now;
        thread.cause = object;
        let (core, holds) = (thread.core, thread.holds);
        if holds > 0 {
            self.let_go(number, object);
            self.owner_left(number);
        }
        self.vacate(core);
    }

    /// Takes a running thread off its core; it stays runnable.
    pub(super) fn preempt(&mut self, number: u32) {
        self.settle(number);
        self.agenda.unset(number);
        let now = self.now;
        let thread = &mut self.threads[number as usize];
        if thread.since > now {
            // It was on its way and had not begun: what was charged ahead is taken back.
            let ahead = thread.since - now;
            self.account.idle[self.objects.scheduler as usize] -= ahead;
            self.account.runnable[usize::from(thread.client)] -= ahead;
        }
        thread.state = State::Runnable;
        thread.ready_at = now;
        thread.blocked_at = now;
        if thread.holds > 0 {
            self.owner_left(number);
        }
    }

    /// A core that lost its thread takes the next one, or idles.
    #[inline]
    pub(super) fn vacate(&mut self, core: u32) {
        self.cores[core as usize].running = NONE;
        if let Some(next) = self.pick(core) {
            self.place(next, core, self.now);
        } else {
            let own = &mut self.cores[core as usize];
            own.idle = true;
            own.idle_since = self.now;
            self.scheduler.idle_cores.insert(core);
            if self.twin.ways > 1 {
                self.sibling_changes(core);
            }
            self.arm_stealing(core);
        }
    }

    /// A core became busy or idle: its sibling runs at another speed from now on.
    fn sibling_changes(&mut self, core: u32) {
        let sibling = core ^ 1;
        if sibling >= self.twin.cores {
            return;
        }
        for (own, other) in [(core, sibling), (sibling, core)] {
            let thread = self.cores[own as usize].running;
            let runs = thread != NONE && runs(&self.threads, thread);
            if runs {
                self.settle(thread);
            }
            let shared = if self.cores[other as usize].idle { 1.0 } else { self.twin.shared_speed };
            self.cores[own as usize].speed = self.twin.speed * shared;
            if runs && own == sibling {
                self.variant(thread);
            }
        }
    }
}

fn runs(threads: &[Thread], number: u32) -> bool {
    threads[number as usize].state == State::Running
}

/// A length times a factor, rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
#[allow(clippy::cast_precision_loss, reason = "a relative error of 1e-16 is no matter")]
fn scaled(length: Ticks, factor: f64) -> Ticks {
    (length as f64 * factor).round() as Ticks
}

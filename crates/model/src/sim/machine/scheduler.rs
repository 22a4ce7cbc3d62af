//! Which thread runs where: one queue for all cores or one for each, slices, priorities, stealing.

use super::{Machine, Queues};
use crate::sim::Ticks;
use crate::sim::list::{List, Run, Steal};
use crate::sim::program::{Compiled, Placement};
use crate::sim::thread::{NONE, Next, State};

/// A set of cores, lowest first.
#[derive(Clone, Debug)]
pub(super) struct CoreSet {
    words: Vec<u64>,
    len: u32,
}

impl CoreSet {
    fn new(cores: u32) -> Self {
        Self { words: vec![0; (cores as usize).div_ceil(64)], len: 0 }
    }

    #[inline]
    pub(super) fn insert(&mut self, core: u32) {
        let bit = 1 << (core % 64);
        let word = &mut self.words[core as usize / 64];
        self.len += u32::from(*word & bit == 0);
        *word |= bit;
    }

    #[inline]
    pub(super) fn remove(&mut self, core: u32) {
        let bit = 1 << (core % 64);
        let word = &mut self.words[core as usize / 64];
        self.len -= u32::from(*word & bit != 0);
        *word &= !bit;
    }

    #[inline]
    pub(super) fn has(&self, core: u32) -> bool {
        self.words[core as usize / 64] >> (core % 64) & 1 == 1
    }

    /// The lowest.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.words).flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    index * 64 + bit
                })
            })
        })
    }
}

/// Queues and idle cores.
pub(super) struct Scheduler {
    /// Runnable threads that any core may take.
    global: Queues,
    pub(super) idle_cores: CoreSet,
    /// Threads queued for some core that an idle one may take: the longest queued first.
    stealable: List<Steal>,
    /// When the lock of each queue is free again; the last is the global one's.
    lock_free: Vec<Ticks>,
}

impl Scheduler {
    pub(super) fn new(twin: &Compiled) -> Self {
        let mut idle_cores = CoreSet::new(twin.cores);
        (0..twin.cores).for_each(|core| idle_cores.insert(core));
        Self {
            global: [List::<Run>::EMPTY; 3],
            idle_cores,
            stealable: List::EMPTY,
            lock_free: vec![0; twin.cores as usize + 1],
        }
    }
}

impl Machine<'_> {
    /// A thread that was blocked can run: finds it a core or a queue.
    #[inline]
    pub(super) fn ready(&mut self, number: u32, waker: Option<u32>) {
        let now = self.now;
        let thread = &mut self.threads[number as usize];
        let (client, cause) = (usize::from(thread.client), thread.cause as usize);
        self.account.blocked[client][cause] += now - thread.blocked_at.max(self.account.begin);
        self.account.waits[client][cause] += 1;
        let longest = &mut self.account.longest[client][cause];
        *longest = (*longest).max(now - thread.blocked_at);
        thread.state = State::Runnable;
        thread.ready_at = now;
        let (home, pinned, priority) = (thread.core, thread.pinned, thread.priority);
        let target = self.target(home, pinned, waker);
        if self.scheduler.idle_cores.has(target) {
            self.scheduler.idle_cores.remove(target);
            self.agenda.unset(self.core_entity(target));
            self.place(number, target, now + self.twin.scheduler.idle_wake);
            return;
        }
        if let Some(core) = self.weaker(target, pinned, priority) {
            let victim = self.cores[core as usize].running;
            self.preempt(victim);
            self.enqueue(victim, core, true);
            self.cores[core as usize].running = NONE;
            self.place(number, core, now);
            return;
        }
        let delay = self.queue_lock(target, pinned);
        if let Some(by) = waker {
            let thread = &mut self.threads[by as usize];
            if delay > 0 && thread.state == State::Running {
                thread.extra += delay;
                thread.extra_of = self.objects.scheduler;
            }
        }
        self.enqueue(number, target, false);
    }

    /// The core that a thread would run on or queue for.
    #[inline]
    fn target(&self, home: u32, pinned: bool, waker: Option<u32>) -> u32 {
        let idle = &self.scheduler.idle_cores;
        if pinned || idle.has(home) {
            return home;
        }
        let scheduler = &self.twin.scheduler;
        if !scheduler.per_core || scheduler.placement == Placement::Idle {
            return idle.first().unwrap_or(home);
        }
        match (scheduler.placement, waker) {
            (Placement::Waker, Some(by)) => self.threads[by as usize].core,
            _ => home,
        }
    }

    /// A core whose thread has to give way to one of this priority.
    fn weaker(&self, target: u32, pinned: bool, priority: u8) -> Option<u32> {
        let rank = |core: u32| {
            let running = self.cores[core as usize].running;
            let thread = self.threads.get(running as usize)?;
            let fixed = thread.state != State::Running || thread.next == Next::Stall;
            (!fixed && thread.priority > priority).then_some(thread.priority)
        };
        if rank(target).is_some() {
            return Some(target);
        }
        if priority > 0 || pinned || self.twin.scheduler.per_core {
            return None;
        }
        let all = (0..self.twin.cores).filter_map(|core| Some((rank(core)?, core)));
        all.max_by_key(|(rank, core)| (*rank, std::cmp::Reverse(*core))).map(|(_, core)| core)
    }

    /// Time that a use of the queue takes, its spin lock's queue included.
    #[inline]
    fn queue_lock(&mut self, core: u32, pinned: bool) -> Ticks {
        let hold = self.twin.scheduler.queue_lock;
        if hold == 0 {
            return 0;
        }
        let own = self.twin.scheduler.per_core || pinned;
        let queue = if own { core } else { self.twin.cores } as usize;
        let free = &mut self.scheduler.lock_free[queue];
        *free = (*free).max(self.now) + hold;
        *free - self.now
    }

    fn enqueue(&mut self, number: u32, core: u32, at_head: bool) {
        let thread = &self.threads[number as usize];
        let (priority, pinned) = (usize::from(thread.priority), thread.pinned);
        let own = pinned || self.twin.scheduler.per_core;
        let list = if own {
            &mut self.cores[core as usize].queues[priority]
        } else {
            &mut self.scheduler.global[priority]
        };
        if at_head {
            list.push_first(&mut self.threads, number);
        } else {
            list.push(&mut self.threads, number);
        }
        if own && !pinned && self.steals() {
            self.asides[number as usize].queued_for = core;
            self.scheduler.stealable.push(&mut self.asides, number);
            let idle = self.scheduler.idle_cores.first();
            if let Some(idle) = idle {
                self.arm_stealing(idle);
            }
        }
    }

    /// The next thread for a core.
    #[inline]
    pub(super) fn pick(&mut self, core: u32) -> Option<u32> {
        let mut picked = None;
        for priority in 0..3 {
            let own = &mut self.cores[core as usize].queues[priority];
            picked = own.pop(&mut self.threads);
            if let Some(picked) = picked {
                if self.steals() && !self.threads[picked as usize].pinned {
                    self.scheduler.stealable.remove(&mut self.asides, picked);
                }
                break;
            }
            picked = self.scheduler.global[priority].pop(&mut self.threads);
            if picked.is_some() {
                break;
            }
        }
        let picked = picked.or_else(|| self.steal(core))?;
        let pinned = self.threads[picked as usize].pinned;
        let delay = self.queue_lock(core, pinned);
        if delay > 0 {
            let thread = &mut self.threads[picked as usize];
            thread.extra += delay;
            thread.extra_of = self.objects.scheduler;
        }
        Some(picked)
    }

    /// Whether idle cores take threads that are queued for others.
    #[inline]
    fn steals(&self) -> bool {
        self.twin.scheduler.per_core && self.twin.scheduler.steal_after < Ticks::MAX
    }

    /// The longest queued thread of another core, if it has been queued long enough.
    fn steal(&mut self, core: u32) -> Option<u32> {
        let after = self.twin.scheduler.steal_after;
        let (since, thread) = self.oldest_elsewhere(core)?;
        if since.saturating_add(after) > self.now {
            return None;
        }
        let from = self.asides[thread as usize].queued_for;
        let priority = usize::from(self.threads[thread as usize].priority);
        self.cores[from as usize].queues[priority].remove(&mut self.threads, thread);
        self.scheduler.stealable.remove(&mut self.asides, thread);
        self.account.steals += 1;
        Some(thread)
    }

    /// The thread that has been queued for another core longest, and since when.
    #[inline]
    fn oldest_elsewhere(&mut self, core: u32) -> Option<(Ticks, u32)> {
        let mut thread = self.scheduler.stealable.first;
        while thread != NONE && self.asides[thread as usize].queued_for == core {
            thread = List::<Steal>::after(&mut self.asides, thread);
        }
        (thread != NONE).then(|| (self.threads[thread as usize].ready_at, thread))
    }

    /// An idle core looks again when the oldest thread elsewhere may be taken.
    pub(super) fn arm_stealing(&mut self, core: u32) {
        if let Some((since, _)) = self.oldest_elsewhere(core) {
            let at = since.saturating_add(self.twin.scheduler.steal_after).max(self.now);
            self.agenda.set(self.core_entity(core), at);
        }
    }

    /// An idle core's timer went off.
    pub(super) fn timer_idle(&mut self, core: u32) {
        if !self.scheduler.idle_cores.has(core) {
            return;
        }
        if let Some(thread) = self.steal(core) {
            self.scheduler.idle_cores.remove(core);
            self.place(thread, core, self.now);
            if let Some(idle) = self.scheduler.idle_cores.first() {
                self.arm_stealing(idle);
            }
        } else {
            self.arm_stealing(core);
        }
    }

    /// A slice ended: another thread gets the core, if one waits for it.
    pub(super) fn slice_over(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        let (core, priority) = (thread.core, usize::from(thread.priority));
        let waiting = (0..=priority).any(|level| {
            !self.cores[core as usize].queues[level].is_empty()
                || !self.scheduler.global[level].is_empty()
        });
        if waiting {
            self.preempt(number);
            self.enqueue(number, core, false);
            self.account.preemptions += 1;
            self.vacate(core);
        } else {
            thread.slice_end = self.now.saturating_add(self.twin.scheduler.slice);
            self.variant(number);
        }
    }
}

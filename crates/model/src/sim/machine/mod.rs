//! The state of one replication, and the loop over its events.

mod bus;
mod channel;
mod core;
mod deadlock;
mod device;
mod lock;
mod scheduler;
mod semaphore;
mod source;
mod step;

use super::agenda::Agenda;
use super::ledger::{Account, Objects};
use super::list::{List, Run};
use super::program::Compiled;
use super::random::Draws;
use super::thread::{Aside, NONE, State, Thread, count};
use super::{SimError, Ticks};
use bus::Bus;
use channel::{Channel, Items};
use core::Core;
use device::Device;
use lock::Lock;
use scheduler::Scheduler;
use semaphore::Semaphore;
use std::collections::VecDeque;

/// Events between two looks at whether operations still complete.
const LOOK: u64 = 1 << 20;
/// Looks without an operation after which there is no progress.
const PATIENCE: u32 = 16;

/// One replication.
pub(super) struct Machine<'a> {
    pub(super) twin: &'a Compiled,
    pub(super) now: Ticks,
    pub(super) agenda: Agenda,
    pub(super) draws: Draws,
    pub(super) threads: Vec<Thread>,
    /// What is asked of a thread now and then, by its number.
    asides: Vec<Aside>,
    cores: Vec<Core>,
    scheduler: Scheduler,
    locks: Vec<Lock>,
    devices: Vec<Device>,
    channels: Vec<Channel>,
    items: Items,
    semaphores: Vec<Semaphore>,
    buses: Vec<Bus>,
    pub(super) objects: Objects,
    pub(super) account: Account,
    /// Threads on a core that go on with their program at this instant.
    pub(super) todo: VecDeque<u32>,
    pub(super) fault: Option<SimError>,
    pub(super) events: u64,
    /// Operations that took no time at all, one after the other.
    pub(super) instant: u32,
    pub(super) plain: bool,
    first: First,
    silent: u32,
    counted: u64,
}

/// First entity of each kind; threads begin at 0.
#[derive(Clone, Copy, Debug)]
struct First {
    core: u32,
    source: u32,
    bus: u32,
    item: u32,
}

impl<'a> Machine<'a> {
    /// All threads runnable at time 0, in the order of their classes.
    pub(super) fn new(twin: &'a Compiled, seed: u64) -> Self {
        let threads = twin.threads();
        let source = threads + twin.cores;
        let bus = source + count(&twin.sources);
        let first = First { core: threads, source, bus, item: bus + count(&twin.buses) };
        let mut machine = Self {
            twin,
            now: 0,
            agenda: Agenda::new(first.item as usize),
            draws: Draws::new(seed),
            threads: Vec::with_capacity(threads as usize),
            asides: (0..threads).map(|_| Aside::new()).collect(),
            cores: (0..twin.cores).map(|_| Core::new(twin.speed)).collect(),
            scheduler: Scheduler::new(twin),
            locks: twin.locks.iter().map(|_| Lock::new()).collect(),
            devices: twin.devices.iter().map(|_| Device::new()).collect(),
            channels: twin.channels.iter().map(|_| Channel::new()).collect(),
            items: Items::new(first.item),
            semaphores: twin.semaphores.iter().map(Semaphore::new).collect(),
            buses: twin.buses.iter().map(|_| Bus::new()).collect(),
            objects: Objects::of(twin),
            account: Account::default(),
            todo: VecDeque::new(),
            fault: None,
            events: 0,
            instant: 0,
            plain: twin.ways < 2 && (twin.speed - 1.0).abs() < f64::EPSILON,
            first,
            silent: 0,
            counted: 0,
        };
        machine.account = Account::new(&machine.objects, twin);
        machine.populate();
        machine
    }

    fn populate(&mut self) {
        let twin = self.twin;
        for (number, class) in (0_u32..).zip(&twin.classes) {
            for index in 0..class.count {
                let core = class.pinned.unwrap_or(index % twin.cores);
                let mut thread =
                    Thread::new(number, class.entry, class.client, class.priority, core);
                thread.pinned = class.pinned.is_some();
                thread.cause = self.objects.start;
                self.threads.push(thread);
            }
        }
        for thread in 0..count(&self.threads) {
            self.ready(thread, None);
        }
        for source in 0..count(&twin.sources) {
            self.arm_source(source);
        }
    }

    pub(super) fn core_entity(&self, core: u32) -> u32 {
        self.first.core + core
    }

    pub(super) fn source_entity(&self, source: u32) -> u32 {
        self.first.source + source
    }

    pub(super) fn bus_entity(&self, bus: u32) -> u32 {
        self.first.bus + bus
    }

    /// Simulates until this many operations are complete.
    pub(super) fn run_until(&mut self, operations: u64, budget: u64) -> Result<(), SimError> {
        while self.account.operations < operations {
            while let Some(thread) = self.todo.pop_front() {
                self.go(thread);
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if self.account.operations >= operations {
                break;
            }
            // Before the event is taken: whoever gets this error may go on.
            if self.events >= budget {
                return Err(SimError::Budget { events: self.events, wanted: operations });
            }
            let Some((time, entity)) = self.agenda.take() else {
                return Err(self.stuck());
            };
            self.now = time;
            self.events += 1;
            if self.events.is_multiple_of(LOOK) {
                self.look()?;
            }
            self.fire(entity);
        }
        Ok(())
    }

    #[inline]
    fn fire(&mut self, entity: u32) {
        if entity < self.first.core {
            match self.threads[entity as usize].state {
                State::Running => self.timer_running(entity),
                State::Runnable => self.begin(entity, self.now),
                State::Blocked => self.timer_blocked(entity),
            }
        } else if entity < self.first.source {
            self.timer_idle(entity - self.first.core);
        } else if entity < self.first.bus {
            self.timer_source(entity - self.first.source);
        } else if entity < self.first.item {
            self.timer_bus(entity - self.first.bus);
        } else {
            self.item_done(entity - self.first.item);
        }
    }

    /// Fails where events go on and no operation completes.
    fn look(&mut self) -> Result<(), SimError> {
        let total = self.account.completed_ever;
        self.silent = if total == self.counted { self.silent + 1 } else { 0 };
        self.counted = total;
        if self.silent < PATIENCE {
            return Ok(());
        }
        let events = u64::from(PATIENCE) * LOOK;
        let what = format!("no operation completed in {events} events; {}", self.waits_said());
        Err(SimError::NoProgress(what))
    }

    /// Drops what was accounted so far: the window begins now.
    pub(super) fn forget(&mut self) {
        self.settle_all();
        self.account.reset(self.now);
        self.devices_to(self.now);
        for device in &mut self.devices {
            device.busy_time = 0;
            device.served = 0;
        }
        for lock in &mut self.locks {
            lock.forget();
        }
        for thread in &self.threads {
            // On its way to a core: what was charged ahead lies in the window.
            if thread.state == State::Running && thread.since > self.now {
                let ahead = thread.since - self.now;
                self.account.idle[self.objects.scheduler as usize] += ahead;
                self.account.runnable[usize::from(thread.client)] += ahead;
            }
        }
    }

    /// The window's account, with everything that is under way accounted up to now.
    pub(super) fn close(&mut self) -> Account {
        self.settle_all();
        self.devices_to(self.now);
        let mut account = self.account.clone();
        let now = self.now;
        let begin = account.begin;
        account.end = now;
        for core in &self.cores {
            if core.running == NONE {
                account.uncharged += now - core.idle_since.max(begin);
            } else if self.threads[core.running as usize].state == State::Runnable {
                // An idle core that a thread is on the way to.
                let thread = &self.threads[core.running as usize];
                let since = core.idle_since.max(begin);
                let ready = thread.ready_at.clamp(since, now);
                account.uncharged += ready - since;
                account.idle[self.objects.scheduler as usize] += now - ready;
            }
        }
        for thread in &self.threads {
            let client = usize::from(thread.client);
            match thread.state {
                State::Blocked => {
                    account.blocked[client][thread.cause as usize] +=
                        now - thread.blocked_at.max(begin);
                }
                State::Runnable => account.runnable[client] += now - thread.ready_at.max(begin),
                State::Running if thread.since > now => {
                    let ahead = thread.since - now;
                    account.idle[self.objects.scheduler as usize] -= ahead;
                    account.runnable[client] -= ahead;
                }
                State::Running => {}
            }
        }
        self.close_parts(&mut account);
        account
    }

    fn close_parts(&self, account: &mut Account) {
        let (now, begin) = (self.now, account.begin);
        account.device_busy = self.devices.iter().map(|device| device.busy_time).collect();
        account.device_served = self.devices.iter().map(|device| device.served).collect();
        account.lock_held = self.locks.iter().map(|lock| lock.held_time).collect();
        account.lock_taken = self.locks.iter().map(|lock| lock.taken).collect();
        account.lock_waited = self.locks.iter().map(|lock| lock.waited).collect();
        for (thread, aside) in self.threads.iter().zip(&self.asides) {
            for held in &aside.held[..usize::from(thread.holds)] {
                account.lock_held[held.lock as usize] += now - held.since.max(begin);
            }
        }
    }

    fn settle_all(&mut self) {
        for thread in 0..count(&self.threads) {
            if self.threads[thread as usize].state == State::Running {
                self.settle(thread);
            }
        }
    }
}

/// Lists of runnable threads by priority.
pub(super) type Queues = [List<Run>; 3];

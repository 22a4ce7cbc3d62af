//! Devices: k servers behind one queue, for threads that wait and for items that do not.

use super::Machine;
use crate::sim::Ticks;
use crate::sim::program::Op;
use std::collections::VecDeque;

/// The state of a device.
#[derive(Debug)]
pub(super) struct Device {
    busy: u32,
    /// Requests that wait: threads, or items beyond all threads.
    queue: VecDeque<u32>,
    since: Ticks,
    /// Server-time in use.
    pub(super) busy_time: Ticks,
    pub(super) served: u64,
}

impl Device {
    pub(super) fn new() -> Self {
        Self { busy: 0, queue: VecDeque::new(), since: 0, busy_time: 0, served: 0 }
    }

    #[inline]
    fn to(&mut self, now: Ticks) {
        self.busy_time += (now - self.since) * Ticks::from(self.busy);
        self.since = now;
    }
}

impl Machine<'_> {
    /// A running thread asks for a device and waits.
    #[inline]
    pub(super) fn request(&mut self, number: u32, device: u32, law: u32) {
        self.threads[number as usize].wants = device;
        self.block(number, self.objects.device(device));
        self.admit_request(number, device, law);
    }

    #[inline]
    fn admit_request(&mut self, entity: u32, device: u32, law: u32) {
        let state = &mut self.devices[device as usize];
        if state.busy < self.twin.devices[device as usize].servers {
            state.to(self.now);
            state.busy += 1;
            let service = self.draws.length(self.twin.laws[law as usize]);
            self.agenda.set(entity, self.now + service);
        } else {
            state.queue.push_back(entity);
        }
    }

    /// The device is done with a waiting thread's request.
    #[inline]
    pub(super) fn served(&mut self, number: u32) {
        let device = self.threads[number as usize].wants;
        self.next_request(device);
    }

    #[inline]
    fn next_request(&mut self, device: u32) {
        let state = &mut self.devices[device as usize];
        state.served += 1;
        let Some(next) = state.queue.pop_front() else {
            state.to(self.now);
            state.busy -= 1;
            return;
        };
        let law = match self.items.of_entity(next) {
            Some(item) => item.law,
            None => match self.twin.ops[self.threads[next as usize].at as usize] {
                Op::Device { law, .. } => law,
                _ => 0,
            },
        };
        let service = self.draws.length(self.twin.laws[law as usize]);
        self.agenda.set(next, self.now + service);
    }

    /// A device begins to serve the item of a running thread, which goes on.
    pub(super) fn start(&mut self, number: u32, device: u32, law: u32, then: u32) {
        let item = self.item_of(number);
        self.asides[number as usize].item = crate::sim::thread::NONE;
        let state = self.items.get_mut(item);
        (state.law, state.then, state.device) = (law, then, device);
        let entity = self.items.entity(item);
        self.agenda.grow(entity as usize + 1);
        self.admit_request(entity, device, law);
    }

    /// The device is done with an item: on it goes.
    pub(super) fn item_done(&mut self, item: u32) {
        let state = self.items.get_mut(item);
        let (device, then) = (state.device, state.then);
        self.next_request(device);
        self.deliver(item, then, None);
    }

    /// Accounts the servers' time up to now.
    pub(super) fn devices_to(&mut self, now: Ticks) {
        for device in &mut self.devices {
            device.to(now);
        }
    }
}

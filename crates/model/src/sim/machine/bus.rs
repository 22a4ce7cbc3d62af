//! Bandwidth that transfers share evenly: memory, a link. A core waits for its transfer.
//!
//! Each transfer has the rate min(each, total / transfers). Progress is counted in bytes that one
//! transfer has got since the start; the transfer with the least goal ends first.

use super::Machine;
use crate::sim::thread::Next;
use crate::sim::{SECOND, Ticks};

/// The state of a bus.
#[derive(Debug)]
pub(super) struct Bus {
    /// Thread, goal in bytes, bytes.
    transfers: Vec<(u32, f64, f64)>,
    progress: f64,
    since: Ticks,
}

impl Bus {
    pub(super) fn new() -> Self {
        Self { transfers: Vec::new(), progress: 0.0, since: 0 }
    }
}

impl Machine<'_> {
    /// Bytes each picosecond of one transfer.
    #[allow(clippy::cast_precision_loss, reason = "as many transfers as cores at most")]
    fn rate(&self, bus: u32) -> f64 {
        let spec = &self.twin.buses[bus as usize];
        let transfers = self.buses[bus as usize].transfers.len().max(1) as f64;
        spec.each.min(spec.total / transfers) / SECOND
    }

    #[allow(clippy::cast_precision_loss, reason = "a relative error of 1e-16 is no matter")]
    fn bus_to_now(&mut self, bus: u32) {
        let rate = self.rate(bus);
        let state = &mut self.buses[bus as usize];
        state.progress += (self.now - state.since) as f64 * rate;
        state.since = self.now;
        if state.transfers.is_empty() {
            state.progress = 0.0;
        }
    }

    /// A running thread moves bytes; its core waits.
    pub(super) fn transfer(&mut self, number: u32, bus: u32, bytes: u32) {
        self.settle(number);
        self.bus_to_now(bus);
        let state = &mut self.buses[bus as usize];
        let bytes = f64::from(bytes);
        state.transfers.push((number, state.progress + bytes, bytes));
        self.threads[number as usize].next = Next::Stall;
        self.asides[number as usize].stalled_at = self.now;
        self.agenda.unset(number);
        self.arm_bus(bus);
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    fn arm_bus(&mut self, bus: u32) {
        let rate = self.rate(bus);
        let state = &self.buses[bus as usize];
        let goals = state.transfers.iter().map(|(_, goal, _)| *goal);
        let first = goals.fold(f64::INFINITY, f64::min);
        let entity = self.bus_entity(bus);
        if first.is_finite() {
            let wait = ((first - state.progress).max(0.0) / rate).ceil() as Ticks;
            self.agenda.set(entity, self.in_future(wait));
        } else {
            self.agenda.unset(entity);
        }
    }

    /// A transfer is done.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    pub(super) fn timer_bus(&mut self, bus: u32) {
        self.bus_to_now(bus);
        let progress = self.buses[bus as usize].progress;
        let each = self.twin.buses[bus as usize].each / SECOND;
        let mut index = 0;
        while index < self.buses[bus as usize].transfers.len() {
            let (number, goal, bytes) = self.buses[bus as usize].transfers[index];
            if goal > progress * (1.0 + 1e-12) + 1e-6 {
                index += 1;
                continue;
            }
            self.buses[bus as usize].transfers.remove(index);
            self.settle(number);
            let begin = self.account.begin;
            self.threads[number as usize].next = Next::Go;
            // In the window: what it takes alone is useful, the rest is waiting for the others.
            let stalled = self.now - self.asides[number as usize].stalled_at.max(begin);
            let alone = ((bytes / each) as Ticks).min(stalled);
            self.account.stalled -= stalled;
            self.account.useful += alone;
            self.account.cpu[self.objects.bus(bus) as usize] += stalled - alone;
            self.soon(number);
        }
        self.arm_bus(bus);
    }
}

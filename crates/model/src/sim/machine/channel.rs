//! Queues between threads: items that carry where they came from.
//!
//! A server thread takes an item, works, hands it on, and the last one replies to the thread that
//! began it: the serial stages of a storage stack or of a server with a listener and workers.

use super::Machine;
use crate::sim::list::{List, Wait};
use crate::sim::thread::NONE;
use crate::sim::{SimError, Ticks};
use std::collections::VecDeque;

/// Origin of an item that a thread handed on without waiting.
const NOBODY: u32 = NONE - 1;

/// What goes from thread to thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Thread that waits for the reply; `NONE` for items from a source.
    origin: u32,
    born: Ticks,
    pub(super) law: u32,
    pub(super) then: u32,
    pub(super) device: u32,
}

/// All items, in use or free.
#[derive(Debug)]
pub(super) struct Items {
    all: Vec<Item>,
    free: Vec<u32>,
    /// Entity of the first one.
    first: u32,
}

impl Items {
    pub(super) fn new(first: u32) -> Self {
        Self { all: Vec::new(), free: Vec::new(), first }
    }

    fn begin(&mut self, origin: u32, born: Ticks) -> u32 {
        let item = Item { origin, born, law: 0, then: 0, device: 0 };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = item;
            return number;
        }
        self.all.push(item);
        crate::sim::thread::count(&self.all) - 1
    }

    pub(super) fn get_mut(&mut self, item: u32) -> &mut Item {
        &mut self.all[item as usize]
    }

    pub(super) fn entity(&self, item: u32) -> u32 {
        self.first + item
    }

    #[inline]
    pub(super) fn of_entity(&self, entity: u32) -> Option<&Item> {
        entity.checked_sub(self.first).map(|item| &self.all[item as usize])
    }
}

/// The state of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    items: VecDeque<u32>,
    takers: List<Wait>,
    putters: List<Wait>,
}

impl Channel {
    pub(super) fn new() -> Self {
        Self { items: VecDeque::new(), takers: List::EMPTY, putters: List::EMPTY }
    }
}

impl Machine<'_> {
    /// The item that a thread works on, or a new one of its own.
    pub(super) fn item_of(&mut self, number: u32) -> u32 {
        let aside = &mut self.asides[number as usize];
        if aside.item == NONE {
            aside.item = self.items.begin(NOBODY, self.now);
        }
        aside.item
    }

    /// An item from a source.
    pub(super) fn arrive(&mut self, channel: u32) {
        let item = self.items.begin(NONE, self.now);
        self.deliver(item, channel, None);
    }

    /// A thread hands its item on; it waits where the channel is full.
    pub(super) fn put(&mut self, number: u32, channel: u32) -> bool {
        let item = self.item_of(number);
        let state = &mut self.channels[channel as usize];
        let capacity = self.twin.channels[channel as usize].capacity as usize;
        if state.takers.is_empty() && state.items.len() >= capacity {
            state.putters.push(&mut self.threads, number);
            self.block(number, self.objects.room(channel));
            return false;
        }
        self.asides[number as usize].item = NONE;
        self.deliver(item, channel, Some(number));
        true
    }

    /// A thread hands an item on and waits for the reply.
    pub(super) fn call(&mut self, number: u32, channel: u32) -> bool {
        let item = self.items.begin(number, self.now);
        self.deliver(item, channel, Some(number));
        // The CPU for waking the taker is spent before the caller sleeps.
        self.threads[number as usize].awaits = self.objects.room(channel);
        let thread = &self.threads[number as usize];
        if thread.switching + thread.extra > 0 {
            self.variant(number);
        } else {
            self.await_reply(number);
        }
        false
    }

    /// Sleeps until the reply, unless it is there already.
    pub(super) fn await_reply(&mut self, number: u32) {
        let object = std::mem::replace(&mut self.threads[number as usize].awaits, NONE);
        if std::mem::take(&mut self.asides[number as usize].replied) {
            self.soon(number);
        } else {
            self.block(number, object);
        }
    }

    /// An item arrives in a channel.
    pub(super) fn deliver(&mut self, item: u32, channel: u32, by: Option<u32>) {
        let state = &mut self.channels[channel as usize];
        let Some(taker) = state.takers.pop(&mut self.threads) else {
            state.items.push_back(item);
            return;
        };
        self.asides[taker as usize].item = item;
        match by {
            Some(by) => self.wake(by, taker, self.objects.room(channel)),
            None => self.ready(taker, None),
        }
    }

    /// A thread takes an item, or waits for one.
    pub(super) fn receive(&mut self, number: u32, channel: u32) -> bool {
        self.drop_item(number);
        let state = &mut self.channels[channel as usize];
        let Some(item) = state.items.pop_front() else {
            state.takers.push(&mut self.threads, number);
            self.block(number, self.objects.work(channel));
            return false;
        };
        self.asides[number as usize].item = item;
        if let Some(putter) = self.channels[channel as usize].putters.pop(&mut self.threads) {
            let next = std::mem::replace(&mut self.asides[putter as usize].item, NONE);
            self.channels[channel as usize].items.push_back(next);
            self.wake(number, putter, self.objects.room(channel));
        }
        true
    }

    fn drop_item(&mut self, number: u32) {
        let item = std::mem::replace(&mut self.asides[number as usize].item, NONE);
        if item != NONE {
            self.items.free.push(item);
        }
    }

    /// Ends the item: wakes the thread that waits for it, or counts an operation of a source.
    pub(super) fn reply(&mut self, number: u32) -> bool {
        let item = self.asides[number as usize].item;
        if item == NONE {
            let what = format!("{} replies without having taken an item", self.name_of(number));
            self.fault = Some(SimError::Program(what));
            return false;
        }
        let Item { origin, born, .. } = *self.items.get_mut(item);
        self.drop_item(number);
        if origin == NONE {
            self.account.operations += 1;
            self.account.completed_ever += 1;
            self.account.response += self.now - born.max(self.account.begin);
        } else if origin == NOBODY {
            // Nobody waits.
        } else if self.threads[origin as usize].state == crate::sim::thread::State::Blocked {
            let object = self.threads[origin as usize].cause;
            self.wake(number, origin, object);
        } else {
            self.asides[origin as usize].replied = true;
        }
        true
    }
}

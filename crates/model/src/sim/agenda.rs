//! What happens next: a calendar queue (Brown 1988) of one timer for each entity.
//!
//! Timers are kept in buckets of equal width, each a short list in order of time; equal times stay
//! in the order in which they were set. So the order is that of (time, sequence), without storing a
//! sequence. The width follows the mean gap between the events that happened lately, so setting and
//! taking a timer touch a list entry or two, whether ten timers are pending or ten thousand.

use super::Ticks;

const NONE: u32 = u32::MAX;
/// In `before`: the entity has no timer.
const UNSET: u32 = u32::MAX - 1;
/// Events between two looks at whether the buckets suit.
const LOOK: u32 = 2048;

#[derive(Clone, Copy, Debug)]
struct Node {
    time: Ticks,
    after: u32,
    before: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    first: u32,
    last: u32,
}

const EMPTY: Bucket = Bucket { first: NONE, last: NONE };
const FREE: Node = Node { time: 0, after: NONE, before: UNSET };

/// A timer for each of a number of entities, taken in order of (time, order of setting).
#[derive(Clone, Debug)]
pub struct Agenda {
    nodes: Vec<Node>,
    buckets: Vec<Bucket>,
    /// A bucket is 2^shift picoseconds wide.
    shift: u32,
    /// Number of the bucket that is looked at, from time 0 on.
    cursor: u64,
    pending: usize,
    /// Events since the last look, list entries and empty buckets passed over for them.
    taken: u32,
    passed: u32,
    looked_at: Ticks,
}

impl Agenda {
    /// No timers yet, for `entities` entities.
    #[must_use]
    pub fn new(entities: usize) -> Self {
        Self {
            nodes: vec![FREE; entities],
            buckets: vec![EMPTY; 64],
            shift: 16,
            cursor: 0,
            pending: 0,
            taken: 0,
            passed: 0,
            looked_at: 0,
        }
    }

    /// Makes room for `entities` entities.
    pub fn grow(&mut self, entities: usize) {
        if entities > self.nodes.len() {
            self.nodes.resize(entities, FREE);
        }
    }

    /// Number of timers that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// When the entity's timer goes off.
    #[must_use]
    pub fn at(&self, entity: u32) -> Option<Ticks> {
        let node = &self.nodes[entity as usize];
        (node.before != UNSET).then_some(node.time)
    }

    #[inline]
    fn slot(&self, time: Ticks) -> usize {
        // The number of buckets is a power of two far below 2^32.
        #[allow(clippy::cast_possible_truncation, reason = "masked by the number of buckets")]
        let number = (time >> self.shift) as usize;
        number & (self.buckets.len() - 1)
    }

    /// Sets the entity's timer, moving it where it is set. `time` must not lie before the last one
    /// taken.
    #[inline]
    pub fn set(&mut self, entity: u32, time: Ticks) {
        if self.nodes[entity as usize].before != UNSET {
            self.unset(entity);
        }
        self.insert(entity, time);
        self.pending += 1;
    }

    #[inline]
    fn insert(&mut self, entity: u32, time: Ticks) {
        let slot = self.slot(time);
        let mut before = self.buckets[slot].last;
        let mut after = NONE;
        while before != NONE && self.nodes[before as usize].time > time {
            after = before;
            before = self.nodes[before as usize].before;
            self.passed += 1;
        }
        self.nodes[entity as usize] = Node { time, after, before };
        match before {
            NONE => self.buckets[slot].first = entity,
            _ => self.nodes[before as usize].after = entity,
        }
        match after {
            NONE => self.buckets[slot].last = entity,
            _ => self.nodes[after as usize].before = entity,
        }
    }

    /// Takes the entity's timer away, if it is set.
    #[inline]
    pub fn unset(&mut self, entity: u32) {
        let Node { time, after, before } = self.nodes[entity as usize];
        if before == UNSET {
            return;
        }
        let slot = self.slot(time);
        match before {
            NONE => self.buckets[slot].first = after,
            _ => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.buckets[slot].last = before,
            _ => self.nodes[after as usize].before = before,
        }
        self.nodes[entity as usize].before = UNSET;
        self.pending -= 1;
    }

    /// Takes the timer that goes off first.
    #[inline]
    pub fn take(&mut self) -> Option<(Ticks, u32)> {
        if self.pending == 0 {
            return None;
        }
        let mask = self.buckets.len() as u64 - 1;
        let mut tried = 0;
        loop {
            #[allow(clippy::cast_possible_truncation, reason = "masked by the number of buckets")]
            let slot = (self.cursor & mask) as usize;
            let first = self.buckets[slot].first;
            if first != NONE {
                let Node { time, after, .. } = self.nodes[first as usize];
                if time >> self.shift == self.cursor {
                    self.buckets[slot].first = after;
                    match after {
                        NONE => self.buckets[slot].last = NONE,
                        _ => self.nodes[after as usize].before = NONE,
                    }
                    self.nodes[first as usize].before = UNSET;
                    self.pending -= 1;
                    self.taken += 1;
                    if self.taken == LOOK {
                        self.look(time);
                    }
                    return Some((time, first));
                }
            }
            self.cursor += 1;
            self.passed += 1;
            tried += 1;
            if tried > mask {
                self.jump();
                tried = 0;
            }
        }
    }

    /// Nothing for a whole round of the buckets: goes to the first timer there is.
    fn jump(&mut self) {
        let times = self.buckets.iter().filter(|b| b.first != NONE);
        let first = times.map(|b| self.nodes[b.first as usize].time).min().unwrap_or(0);
        self.cursor = first >> self.shift;
    }

    /// Rebuilds the buckets where too many entries are passed over, or too few buckets are there.
    fn look(&mut self, now: Ticks) {
        let gap = ((now - self.looked_at) / u64::from(self.taken)).max(1);
        let suits = self.pending.next_power_of_two().max(32) * 2;
        let crowded = self.buckets.len() < suits || self.buckets.len() > 16 * suits;
        let slow = self.passed > self.taken + self.taken / 2;
        let shift = gap.ilog2();
        if crowded || (slow && shift != self.shift) {
            self.rebuild(shift, suits, now);
        }
        self.taken = 0;
        self.passed = 0;
        self.looked_at = now;
    }

    fn rebuild(&mut self, shift: u32, buckets: usize, now: Ticks) {
        // Equal times share a bucket, so their order survives whatever order buckets are taken in.
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; buckets]);
        self.shift = shift;
        self.cursor = now >> shift;
        for bucket in old {
            let mut entity = bucket.first;
            while entity != NONE {
                let Node { time, after, .. } = self.nodes[entity as usize];
                self.insert(entity, time);
                entity = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    #[derive(Clone, Debug)]
    enum Act {
        Set(u32, u64),
        Unset(u32),
        Take,
    }

    fn act() -> impl Strategy<Value = Act> {
        let gap = prop_oneof![
            Just(0_u64),
            0..10_u64,
            0..100_000_u64,
            Just(1_000_000_u64),
            0..5_000_000_000_000_u64
        ];
        prop_oneof![
            4 => (0..40_u32, gap).prop_map(|(entity, gap)| Act::Set(entity, gap)),
            1 => (0..40_u32).prop_map(Act::Unset),
            4 => Just(Act::Take),
        ]
    }

    proptest! {
        /// Against a heap of (time, sequence) with lazy removal.
        #[test]
        fn takes_in_the_order_of_time_and_sequence(acts in prop::collection::vec(act(), 1..6000)) {
            let mut agenda = Agenda::new(40);
            let mut heap = BinaryHeap::new();
            let mut valid = [None; 40];
            let (mut now, mut sequence) = (0, 0_u64);
            for act in acts {
                match act {
                    Act::Set(entity, gap) => {
                        sequence += 1;
                        agenda.set(entity, now + gap);
                        heap.push(Reverse((now + gap, sequence, entity)));
                        valid[entity as usize] = Some(sequence);
                    }
                    Act::Unset(entity) => {
                        agenda.unset(entity);
                        valid[entity as usize] = None;
                    }
                    Act::Take => {
                        let expected = loop {
                            match heap.pop() {
                                None => break None,
                                Some(Reverse((time, own, entity))) => {
                                    if valid[entity as usize] == Some(own) {
                                        valid[entity as usize] = None;
                                        break Some((time, entity));
                                    }
                                }
                            }
                        };
                        prop_assert_eq!(agenda.take(), expected);
                        now = expected.map_or(now, |(time, _)| time);
                    }
                }
                prop_assert_eq!(agenda.len(), valid.iter().flatten().count());
            }
        }
    }

    #[test]
    fn buckets_that_are_rebuilt_keep_the_order() {
        let mut agenda = Agenda::new(5000);
        let mut heap = BinaryHeap::new();
        let mut sequence = 0_u64;
        let mut state = 1_u64;
        for entity in 0..5000 {
            sequence += 1;
            agenda.set(entity, u64::from(entity % 7));
            heap.push(Reverse((u64::from(entity % 7), sequence, entity)));
        }
        for round in 0..200_000_u64 {
            let Some(Reverse((time, _, entity))) = heap.pop() else { unreachable!() };
            assert_eq!(agenda.take(), Some((time, entity)));
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // The scale changes by a factor of a million on the way.
            let scale = if round < 100_000 { 1_000 } else { 1_000_000_000 };
            let next = time + (state >> 33) % scale;
            sequence += 1;
            agenda.set(entity, next);
            heap.push(Reverse((next, sequence, entity)));
        }
    }
}

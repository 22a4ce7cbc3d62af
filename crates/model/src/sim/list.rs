//! First in, first out lists of threads, linked through the threads themselves.
//!
//! A thread has links for run queues, for what it waits for, and for those that idle cores may
//! take: a spinning thread that lost its core stands in all kinds of list.

use super::thread::{Aside, Links, NONE, Thread};

/// Which of a thread's links a list uses.
pub(super) trait Kind {
    /// What of a thread holds the links.
    type Of;
    fn links(of: &mut Self::Of) -> &mut Links;
}

/// Lists of runnable threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run;

/// Lists of threads that wait for a lock, a device and so on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait;

/// The list of queued threads that an idle core may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steal;

impl Kind for Run {
    type Of = Thread;

    #[inline]
    fn links(thread: &mut Thread) -> &mut Links {
        &mut thread.run_links
    }
}

impl Kind for Wait {
    type Of = Thread;

    #[inline]
    fn links(thread: &mut Thread) -> &mut Links {
        &mut thread.wait_links
    }
}

impl Kind for Steal {
    type Of = Aside;

    #[inline]
    fn links(aside: &mut Aside) -> &mut Links {
        &mut aside.steal_links
    }
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<K> {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) len: u32,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> List<K> {
    pub(super) const EMPTY: Self =
        Self { first: NONE, last: NONE, len: 0, kind: std::marker::PhantomData };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    #[inline]
    pub(super) fn push(&mut self, threads: &mut [K::Of], thread: u32) {
        *K::links(&mut threads[thread as usize]) = Links { after: NONE, before: self.last };
        match self.last {
            NONE => self.first = thread,
            last => K::links(&mut threads[last as usize]).after = thread,
        }
        self.last = thread;
        self.len += 1;
    }

    /// To the head: a thread that goes on before all others.
    pub(super) fn push_first(&mut self, threads: &mut [K::Of], thread: u32) {
        *K::links(&mut threads[thread as usize]) = Links { after: self.first, before: NONE };
        match self.first {
            NONE => self.last = thread,
            first => K::links(&mut threads[first as usize]).before = thread,
        }
        self.first = thread;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self, threads: &mut [K::Of]) -> Option<u32> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.remove(threads, first);
        Some(first)
    }

    #[inline]
    pub(super) fn remove(&mut self, threads: &mut [K::Of], thread: u32) {
        let Links { after, before } = *K::links(&mut threads[thread as usize]);
        match before {
            NONE => self.first = after,
            _ => K::links(&mut threads[before as usize]).after = after,
        }
        match after {
            NONE => self.last = before,
            _ => K::links(&mut threads[after as usize]).before = before,
        }
        self.len -= 1;
    }

    /// The thread after this one.
    #[inline]
    pub(super) fn after(threads: &mut [K::Of], thread: u32) -> u32 {
        K::links(&mut threads[thread as usize]).after
    }
}

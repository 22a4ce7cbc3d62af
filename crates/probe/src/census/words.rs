//! How long locks are held, found by looking at their words at instants that the system knows
//! nothing of: the part of the looks at which a lock is held is the part of the time.
//!
//! Nothing stands in the way of the system meanwhile, so that locks which are held for nanoseconds
//! are seen as well as any.

use super::wire::{UseKey, kind};
use crate::sys;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often each word is looked at.
const LOOKS: u32 = 2000;
/// The least from look to look, and the step by which it grows and falls back: without it, what
/// the system does at intervals of its own might be in step.
const APART: Duration = Duration::from_micros(150);
const STEP: Duration = Duration::from_micros(37);
const STEPS: u32 = 5;
/// Words that are looked at.
const MOST: usize = 64;

/// Of the C library's `pthread_rwlock_t`, the first word: readers above these bits,
const READERS: u32 = 3;
/// and that one of which says that a writer has it.
const WRITER: u32 = 2;

/// How often a lock was looked at, and how often it was held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looks {
    pub(super) all: u64,
    pub(super) held: u64,
}

/// Looks by process and address.
pub(super) type Looked = BTreeMap<(u32, u64), Looks>;

/// Looks at the words of these locks, those that are used most if they are many. A process that
/// ends is looked at no more.
pub(super) fn look(uses: &[(UseKey, u64)]) -> Looked {
    let mut locks: BTreeMap<(u32, u64), (u64, bool)> = BTreeMap::new();
    for (key, count) in uses {
        let lock = locks.entry((key.process, key.lock)).or_default();
        *lock = (lock.0 + count, key.how != kind::MUTEX);
    }
    let mut most: Vec<_> = locks.iter().map(|(place, (count, rw))| (*count, *place, *rw)).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    most.truncate(MOST);
    let mut of_process: BTreeMap<u32, Vec<(u64, bool)>> = BTreeMap::new();
    for (_, (process, lock), rw) in most {
        of_process.entry(process).or_default().push((lock, rw));
    }
    let mut looked = Looked::new();
    for turn in 0..LOOKS {
        of_process.retain(|process, locks| {
            let addresses: Vec<u64> = locks.iter().map(|(lock, _)| *lock).collect();
            let Ok(words) = sys::words_of(*process, &addresses) else { return false };
            for ((lock, rw), word) in locks.iter().zip(words) {
                let looks = looked.entry((*process, *lock)).or_default();
                looks.all += 1;
                looks.held += u64::from(is_held(word, *rw));
            }
            true
        });
        std::thread::sleep(APART + STEP * (turn % STEPS));
    }
    looked
}

/// Whether the first word of a lock says that somebody has it.
fn is_held(word: u32, rw: bool) -> bool {
    if rw { word >> READERS > 0 || word & WRITER != 0 } else { word != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_whether_its_lock_is_held() {
        // A mutex: free, taken, taken and waited for.
        assert_eq!([0, 1, 2].map(|word| is_held(word, false)), [false, true, true]);
        // A reader-writer lock: free, free after a writer, a writer, two readers.
        assert_eq!([0, 1, 3, 16].map(|word| is_held(word, true)), [false, false, true, true]);
    }

    #[test]
    fn what_is_held_is_seen_and_a_process_that_is_gone_is_not_looked_at() {
        static WORDS: [u32; 2] = [1, 0];
        let at = |word: &u32| std::ptr::from_ref(word) as u64;
        let of = |process, lock| (UseKey { process, lock, ..UseKey::default() }, 1);
        let own = kneepoint_machine::own_pid();
        let (taken, free) = (at(&WORDS[0]), at(&WORDS[1]));
        let looked = look(&[of(own, taken), of(own, free), of(u32::MAX >> 1, taken)]);
        let all = u64::from(LOOKS);
        let wanted =
            [((own, taken), Looks { all, held: all }), ((own, free), Looks { all, held: 0 })];
        assert_eq!(looked, Looked::from(wanted));
    }
}

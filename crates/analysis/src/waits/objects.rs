//! Futex words that are parts of one object.
//!
//! A condition variable of the C library has two words that are waited for in turn, a
//! reader-writer lock has two more; they are one object. Which words a type has is data
//! (`names.toml`); of which type a word is its waiters' stacks tell. A word without stacks belongs
//! to the object that it lies in.

use crate::frames::names::{Catalogue, in_kernel};
use crate::frames::stacks::Stacks;
use crate::number::seconds;
use kneepoint_vocab::{Fact, Frame, StackKind, TrialRecord, VariantId, WaitKey, WaitReason};
use std::collections::BTreeMap;

/// Addresses mean the same within one start of one variant.
type Start = (VariantId, u32);

/// Weights of stacks by where the object begins that they tell, and how long it is.
type Places = BTreeMap<(u64, u64), f64>;

/// Where objects begin, and how long they are.
#[derive(Default)]
pub(crate) struct Objects {
    begins: BTreeMap<Start, BTreeMap<u64, u64>>,
    extents: BTreeMap<Start, BTreeMap<u64, u64>>,
}

impl Objects {
    /// From the stacks of waiters.
    pub(crate) fn build(trials: &[&TrialRecord], stacks: &Stacks<'_>) -> Self {
        let mut votes: BTreeMap<Start, BTreeMap<u64, Places>> = BTreeMap::new();
        for trial in trials {
            let start = (trial.id.variant.clone(), trial.id.start);
            let of_start = votes.entry(start).or_default();
            for fact in &trial.facts {
                let Fact::Stack(stack) = fact else { continue };
                let Some(key) = stack.wait.as_ref().filter(|_| stack.kind == StackKind::OffCpu)
                else {
                    continue;
                };
                if let Some(found) = place(stacks.known, key, stacks.frames(stack.stack)) {
                    let votes = of_start.entry(key.object).or_default();
                    *votes.entry(found).or_default() += seconds(stack.weight);
                }
            }
        }
        let mut objects = Self::default();
        for (start, words) in votes {
            let begins = objects.begins.entry(start.clone()).or_default();
            let extents = objects.extents.entry(start).or_default();
            for (word, votes) in words {
                let most = votes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
                if let Some(((begin, extent), _)) = most {
                    begins.insert(word, begin);
                    extents.insert(begin, extent);
                }
            }
        }
        objects
    }

    /// Where the object begins that a wait of `trial` was for; its word, where nothing is known.
    pub(crate) fn begin(&self, trial: &TrialRecord, word: u64) -> u64 {
        let start = (trial.id.variant.clone(), trial.id.start);
        let known = self.begins.get(&start).and_then(|begins| begins.get(&word));
        let around = || {
            let (begin, extent) = self.extents.get(&start)?.range(..=word).next_back()?;
            (word - begin < *extent).then_some(begin)
        };
        known.or_else(around).copied().unwrap_or(word)
    }
}

/// Where the object of a futex wait begins, and how long it is, by the innermost function that
/// tells.
fn place(known: Catalogue, key: &WaitKey, frames: &[Frame]) -> Option<(u64, u64)> {
    let futex = matches!(key.reason, WaitReason::UserLock | WaitReason::Condition);
    let mut user = frames.iter().filter(|frame| futex && key.object != 0 && !in_kernel(frame));
    user.find_map(|frame| known.object(&frame.function, key.object))
}

/// The name of a variable that lies `by` bytes before the place with this name:
/// `app:queue+0x2c` by 44 is `app:queue`. Where that lies before the variable, which happens where
/// a library's object has another layout, the variable.
pub(crate) fn before(name: &str, by: u64) -> String {
    let (variable, offset) = name.rsplit_once("+0x").unwrap_or((name, "0"));
    match u64::from_str_radix(offset, 16).ok().and_then(|offset| offset.checked_sub(by)) {
        Some(offset) if offset > 0 => format!("{variable}+{offset:#x}"),
        _ => variable.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(functions: &[&str]) -> Vec<Frame> {
        let frame = |function: &&str| Frame {
            function: (*function).to_owned(),
            module: "libc.so.6".to_owned(),
        };
        functions.iter().map(frame).collect()
    }

    fn key(object: u64) -> WaitKey {
        WaitKey { reason: WaitReason::Condition, object, object_name: None, syscall: 202 }
    }

    #[test]
    fn the_innermost_function_that_tells_decides() {
        let wait = frames(&["__futex_abstimed_wait_common64", "pthread_cond_wait"]);
        assert_eq!(
            place(Catalogue::built_in(), &key(0x1028), &wait),
            place(Catalogue::built_in(), &key(0x102c), &wait)
        );
        let waking = frames(&["pthread_cond_broadcast", "take_turn"]);
        for word in [0x1010, 0x1014] {
            let condition = place(Catalogue::built_in(), &key(word), &waking);
            assert_eq!(condition, place(Catalogue::built_in(), &key(0x1028), &wait));
        }
        let again = frames(&["__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait"]);
        assert_eq!(place(Catalogue::built_in(), &key(0x1030), &again), Some((0x1030, 40)));
        assert_eq!(place(Catalogue::built_in(), &key(0), &wait), None);
        assert_eq!(
            place(
                Catalogue::built_in(),
                &WaitKey { reason: WaitReason::Poll, ..key(0x1028) },
                &wait
            ),
            None
        );
    }

    #[test]
    fn a_name_moves_with_its_address() {
        assert_eq!(before("app:queue+0x2c", 0x2c), "app:queue");
        assert_eq!(before("app:all+0x1b4", 44), "app:all+0x188");
        assert_eq!(before("app:queue", 0), "app:queue");
        assert_eq!(before("app:queue", 44), "app:queue", "the object begins before it");
        assert_eq!(before("app:queue+0x20", 40), "app:queue");
    }
}

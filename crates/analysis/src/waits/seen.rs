//! What the stacks of a run say of one thing that is waited for.

use crate::frames::kernel_locks::Machinery;
use crate::frames::names::{Catalogue, is_unnamed, receiver};
use crate::frames::naming::{LOCK, machinery, naming, wants_back};
use kneepoint_vocab::findings::{Name, Place};
use kneepoint_vocab::{Frame, WaitReason};
use std::collections::BTreeMap;

/// Frames of a chain that are kept as a cause's path.
const PATH: usize = 5;
/// Frames outward from the first choice that are tried for one that most stacks agree on.
const NAMING_DEPTH: usize = 4;
/// A thread that ends so much of the waits is what others wait for.
pub(crate) const NEARLY_ALL: f64 = 0.8;

/// What the record says of one node.
#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) blocked: BTreeMap<WaitReason, f64>,
    pub(super) machinery: BTreeMap<Machinery, f64>,
    pub(super) first: BTreeMap<String, f64>,
    pub(super) within: BTreeMap<String, (f64, f64)>,
    pub(super) chains: BTreeMap<Vec<String>, f64>,
    pub(super) stacks: f64,
    /// By the first choice, stacks of threads that a condition just let go and that want its lock.
    pub(super) back: BTreeMap<String, f64>,
    /// Seconds of waits that were seen to end, and those of them that one thread that serves no
    /// client ended.
    pub(super) ended: f64,
    pub(super) ended_by_one: f64,
    /// Functions of those who end the waits, as far as they have names: chains, innermost first.
    pub(super) enders: BTreeMap<Vec<String>, f64>,
}

/// The heaviest entry; ties go to the least key, so that the choice is the same every time.
pub(super) fn heaviest<K: Ord + Clone>(weights: &BTreeMap<K, f64>) -> Option<(K, f64)> {
    let mut best: Option<(&K, f64)> = None;
    for (key, weight) in weights {
        if best.is_none_or(|(_, most)| *weight > most) {
            best = Some((key, *weight));
        }
    }
    best.map(|(key, weight)| (key.clone(), weight))
}

impl Seen {
    /// A stack of `weight` in user code votes for what its frames show.
    pub(super) fn vote_of_user(&mut self, known: Catalogue, frames: &[Frame], weight: f64) {
        let (names, strength) = naming(known, frames);
        let shown = Machinery::User(machinery(known, frames));
        *self.machinery.entry(shown).or_default() += weight;
        if let Some(first) = names.first().filter(|_| wants_back(known, frames)) {
            *self.back.entry(first.clone()).or_default() += weight;
        }
        self.vote_for_names(names, weight * strength);
    }

    /// A stack of `weight` votes for a kind of lock and for its names, innermost first.
    pub(super) fn vote(&mut self, shown: Machinery, names: Vec<String>, weight: f64) {
        *self.machinery.entry(shown).or_default() += weight;
        self.vote_for_names(names, weight);
    }

    fn vote_for_names(&mut self, names: Vec<String>, weight: f64) {
        self.stacks += weight;
        let Some(first) = names.first() else { return };
        *self.first.entry(first.clone()).or_default() += weight;
        for (depth, name) in names.iter().take(NAMING_DEPTH).enumerate() {
            if names[..depth].contains(name) {
                continue;
            }
            let (sum, depths) = self.within.entry(name.clone()).or_default();
            *sum += weight;
            *depths += weight * crate::number::size(depth);
        }
        *self.chains.entry(names.into_iter().take(PATH).collect()).or_default() += weight;
    }

    /// The first choice of most stacks, else the type that it is a method of in most, else the
    /// innermost frame that most stacks share, else the heaviest first choice.
    pub(super) fn name(&self) -> Option<String> {
        let (first, weight) = heaviest(&self.first)?;
        if weight * 2.0 >= self.stacks {
            return Some(first);
        }
        let owner = receiver(&first).filter(|owner| {
            let of = self.first.iter().filter(|(name, _)| receiver(name) == Some(*owner));
            2.0 * of.map(|(_, weight)| weight).sum::<f64>() >= self.stacks
        });
        if let Some(owner) = owner {
            return Some(owner.to_owned());
        }
        let shared = self
            .within
            .iter()
            .filter(|(_, (sum, _))| *sum * 2.0 >= self.stacks)
            .min_by(|a, b| (a.1.1 / a.1.0).total_cmp(&(b.1.1 / b.1.0)));
        Some(shared.map_or(first, |(name, _)| name.clone()))
    }

    /// `name`, with the caller that most stacks agree on.
    pub(super) fn with_caller(&self, name: String) -> Name {
        match heaviest(&self.first) {
            Some((of, weight)) if weight * 2.0 >= self.stacks => Name::Known { name, of },
            _ => Name::Own(name),
        }
    }

    /// The lock of a language's runtime that most of its stacks are for.
    pub(super) fn runtime(&self, known: Catalogue) -> Option<String> {
        self.name().filter(|name| known.is_runtime_lock(name))
    }

    /// `name`, which is a method of the program's own lock type, with the function that called it
    /// in most stacks: objects of one type that different functions use are different locks.
    pub(super) fn called_by(&self, known: Catalogue, name: &str) -> Place {
        let mut callers: BTreeMap<&str, f64> = BTreeMap::new();
        for (chain, weight) in &self.chains {
            let at = chain.iter().position(|frame| frame == name);
            let outward = at.map_or(&[][..], |at| &chain[at + 1..]);
            if let Some(caller) = outward.iter().find(|frame| !known.is_own_lock(frame)) {
                *callers.entry(caller).or_default() += weight;
            }
        }
        let method = name.to_owned();
        match heaviest(&callers) {
            Some((caller, weight)) if weight * 2.0 >= self.stacks => {
                Place::Method { method, by: caller.to_owned() }
            }
            _ => Place::In(method),
        }
    }

    /// A stack of one who ends these waits.
    pub(super) fn ender(&mut self, known: Catalogue, frames: &[Frame], weight: f64) {
        let (mut names, _) = naming(known, frames);
        names.retain(|name| !is_unnamed(name));
        names.truncate(PATH);
        if !names.is_empty() {
            *self.enders.entry(names).or_default() += weight;
        }
    }

    /// Names a wait by those who end it, where code without a name waits and no lock: threads of a
    /// library's own meet there.
    pub(super) fn name_by_enders(&mut self, known: Catalogue) {
        let unnamed = heaviest(&self.first).is_some_and(|(name, _)| is_unnamed(&name));
        if !unnamed || known.is_lock(self.machinery().word()) || self.enders.is_empty() {
            return;
        }
        let weight = self.stacks;
        (self.first, self.within, self.chains) = Default::default();
        self.stacks = 0.0;
        let all: f64 = self.enders.values().sum();
        for (names, part) in std::mem::take(&mut self.enders) {
            self.vote_for_names(names, weight * part / all);
        }
    }

    /// Whether one thread that serves no client ends these waits. Who takes a lock gives it back;
    /// this thread lets others go.
    pub(super) fn is_signalled(&self) -> bool {
        self.ended > 0.0 && self.ended_by_one >= NEARLY_ALL * self.ended
    }

    pub(super) fn reason(&self) -> WaitReason {
        heaviest(&self.blocked).map_or(WaitReason::Other, |(reason, _)| reason)
    }

    pub(super) fn all_blocked(&self) -> f64 {
        self.blocked.values().sum()
    }

    /// Seconds of waits that its stacks stand for.
    pub(super) fn sampled(&self) -> f64 {
        self.machinery.values().sum()
    }

    pub(super) fn machinery(&self) -> Machinery {
        heaviest(&self.machinery).map_or(Machinery::User(LOCK), |(shown, _)| shown)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (reason, blocked) in &other.blocked {
            *self.blocked.entry(*reason).or_default() += blocked;
        }
        for (shown, weight) in &other.machinery {
            *self.machinery.entry(*shown).or_default() += weight;
        }
        for (name, weight) in &other.first {
            *self.first.entry(name.clone()).or_default() += weight;
        }
        for (name, (weight, depths)) in &other.within {
            let mine = self.within.entry(name.clone()).or_default();
            *mine = (mine.0 + weight, mine.1 + depths);
        }
        for (chain, weight) in &other.chains {
            *self.chains.entry(chain.clone()).or_default() += weight;
        }
        self.stacks += other.stacks;
        for (name, weight) in &other.back {
            *self.back.entry(name.clone()).or_default() += weight;
        }
        self.ended += other.ended;
        self.ended_by_one += other.ended_by_one;
        for (chain, weight) in &other.enders {
            *self.enders.entry(chain.clone()).or_default() += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: &[(&str, f64)]) -> Option<String> {
        let mut seen = Seen::default();
        for (function, weight) in first {
            let names = vec![(*function).to_owned(), "main.work".to_owned()];
            seen.vote(Machinery::User("mutex"), names, *weight);
        }
        seen.name()
    }

    #[test]
    fn methods_that_want_a_lock_about_equally_often_name_it_by_their_type() {
        let methods = [("main.(*book).post", 4.0), ("main.(*book).read", 3.5)];
        assert_eq!(name(&methods).unwrap(), "main.(*book).post", "most are this one's");
        let more = [methods[0], methods[1], ("main.(*book).sum.func1", 3.0)];
        assert_eq!(name(&more).unwrap(), "main.(*book)");
        let others = [methods[0], ("main.(*page).read", 3.5), ("main.(*line).read", 3.0)];
        assert_eq!(name(&others).unwrap(), "main.work");
    }
}

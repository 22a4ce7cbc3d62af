//! Pools of permits: clients queue at a semaphore for what a few of them hold asleep.
//!
//! A core that idles then was last given to a holder, which had slept: the collector charges the
//! idle time to that sleep. But the sleep is what an operation takes anyway; what others wait for
//! is a permit. A semaphore is a pool's where in each slice in which clients queue at it
//!
//! - more than one of them queues at some level, so it is shared,
//! - the clients that do not queue are about as many at every level: the limit,
//! - most of these are asleep, and one whole number lies between those asleep and all of them: the
//!   permits.
//!
//! Many a pool is a list under a mutex with a condition variable. Clients that wait for one are a
//! pool's by the same signs, if clients end these waits (who waits for work is woken by who brings
//! it) and there is more than one permit (all but one also wait where one thread is late).
//!
//! In such slices the idle time that was charged to clients' other waits is the pool's. All sums
//! stay.

use crate::frames::names::Catalogue;
use crate::frames::naming::{CONDITION, machinery, naming_frames};
use crate::frames::stacks::Stacks;
use crate::number::{mean, seconds};
use kneepoint_vocab::findings::Name;
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::{
    Fact, Holders, RunRecord, StackKind, ThreadRole, TrialRecord, VariantId, Wait, WaitKey,
    WaitReason,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What is asked about beside a condition, by its word in `names.toml`.
const SEMAPHORE: &str = "semaphore";
/// Least permits of a pool behind a condition variable.
const SEVERAL: u64 = 2;
/// Part of the waits for one that clients end.
const BY_CLIENTS: f64 = 0.5;
/// Threads that queue at a semaphore for it to limit anything.
const QUEUE: f64 = 0.5;
/// Threads that queue at one that is shared.
const SHARED: f64 = 1.0;
/// How far the clients that do not queue may differ between levels, as a part.
const FLAT: f64 = 0.25;
/// Threads by which a count of them may be off.
const SLACK: f64 = 0.2;
/// This part of the holders is asleep at least.
const ASLEEP: f64 = 0.5;

/// Pools of more permits are not looked for.
const MOST: u64 = 1 << 16;

/// A semaphore or condition variable in one start of one variant.
type Word = (VariantId, u32, WaitKey);

/// Who waits for a word, by the function that most of them called it in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller {
    function: String,
    condition: bool,
}

/// The limits of pools, by the name that the objects of their waits have in the record.
#[derive(Default)]
pub(crate) struct Pools(BTreeMap<String, Name>);

impl Pools {
    /// The limit that waits for an object of this name are for.
    pub(super) fn limit(&self, object: &str) -> Option<&Name> {
        self.0.get(object)
    }

    fn is_limit(&self, key: &WaitKey) -> bool {
        key.object_name.as_ref().is_some_and(|name| self.0.contains_key(name))
    }
}

/// The record with each pool's limit named and charged, and these names.
pub(crate) fn limited(record: &RunRecord) -> (Cow<'_, RunRecord>, Pools) {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    let words = semaphores(record, &stacks);
    let callers: BTreeSet<&Caller> = words.values().collect();
    let mut pools = Pools::default();
    let mut names: BTreeMap<&Caller, String> = BTreeMap::new();
    for caller in callers {
        let Some(permits) = permits(&record.trials, &words, caller) else { continue };
        if !is_pool(caller, permits, || by_clients(&record.trials, &words, caller)) {
            continue;
        }
        let limit = Name::PoolLimit { permits, taken_in: caller.function.clone() };
        names.insert(caller, limit.to_string());
        pools.0.insert(limit.to_string(), limit);
    }
    if names.is_empty() {
        return (Cow::Borrowed(record), pools);
    }
    let mut record = record.clone();
    for trial in &mut record.trials {
        charge(trial, &words, &names, &pools);
    }
    (Cow::Owned(record), pools)
}

/// Whether so many permits make a pool: one permit behind a condition looks like waiting for work
/// or for one that is late, and so does a condition that others than clients end the waits at.
fn is_pool(caller: &Caller, permits: u64, by_clients: impl FnOnce() -> bool) -> bool {
    !caller.condition || (permits >= SEVERAL && by_clients())
}

fn word(trial: &TrialRecord, key: &WaitKey) -> Word {
    (trial.id.variant.clone(), trial.id.start, key.clone())
}

/// Semaphores and condition variables that threads were seen to wait for.
fn semaphores(record: &RunRecord, stacks: &Stacks<'_>) -> BTreeMap<Word, Caller> {
    let mut votes: BTreeMap<Word, BTreeMap<Caller, f64>> = BTreeMap::new();
    for trial in &record.trials {
        for fact in &trial.facts {
            let Fact::Stack(stack) = fact else { continue };
            let Some(key) = stack.wait.as_ref().filter(|_| stack.kind == StackKind::OffCpu) else {
                continue;
            };
            let futex = matches!(key.reason, WaitReason::UserLock | WaitReason::Condition);
            let frames = stacks.frames(stack.stack);
            let machinery = machinery(stacks.known, frames);
            let condition = machinery == CONDITION;
            if !futex || !(condition || machinery == SEMAPHORE) {
                continue;
            }
            if let Some(function) = naming_frames(stacks.known, frames).into_iter().next() {
                let caller = Caller { function, condition };
                let of_word = votes.entry(word(trial, key)).or_default();
                *of_word.entry(caller).or_default() += seconds(stack.weight);
            }
        }
    }
    votes
        .into_iter()
        .filter_map(|(word, callers)| {
            let most = callers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some((word, most.0))
        })
        .collect()
}

/// Client threads of a slice: how many, queueing at a semaphore, and blocked on anything else.
struct Clients {
    all: f64,
    queueing: f64,
    asleep: f64,
}

impl Clients {
    fn of(trial: &TrialRecord, is_semaphore: impl Fn(&WaitKey) -> bool) -> Option<Self> {
        let (mut all, mut existed) = (0.0, 0.0);
        for fact in &trial.facts {
            if let Fact::ThreadTime(time) = fact
                && time.role == Some(ThreadRole::Client)
            {
                all += f64::from(time.threads);
                existed += seconds(time.existed);
            }
        }
        let each = existed / all;
        let mut clients = Self { all, queueing: 0.0, asleep: 0.0 };
        for wait in trial.facts.iter().filter_map(of_client) {
            let blocked = seconds(wait.blocked) / each;
            if is_semaphore(&wait.key) {
                clients.queueing += blocked;
            } else {
                clients.asleep += blocked;
            }
        }
        (all > 0.0 && each > 0.0).then_some(clients)
    }
}

fn of_client(fact: &Fact) -> Option<&Wait> {
    match fact {
        Fact::Wait(wait) if wait.role == ThreadRole::Client => Some(wait),
        _ => None,
    }
}

/// How many hold the semaphore that `caller` waits for, if it is a pool's.
fn permits(trials: &[TrialRecord], words: &BTreeMap<Word, Caller>, caller: &Caller) -> Option<u64> {
    let mut by_level: BTreeMap<_, Vec<Clients>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.id.variant.0 == VariantId::BASELINE) {
        let is = |key: &WaitKey| words.get(&word(trial, key)) == Some(caller);
        if let Some(clients) = Clients::of(trial, is).filter(|clients| clients.queueing >= QUEUE) {
            by_level.entry(trial.id.level).or_default().push(clients);
        }
    }
    let of = |part: fn(&Clients) -> f64| -> Vec<f64> {
        let mean_of = |some: &Vec<Clients>| mean(&some.iter().map(part).collect::<Vec<_>>());
        by_level.values().map(mean_of).collect()
    };
    let shared = of(|clients| clients.queueing).into_iter().any(|queue| queue > SHARED);
    let inside = of(|clients| clients.all - clients.queueing);
    let least = inside.iter().copied().fold(f64::INFINITY, f64::min);
    let most = inside.iter().copied().fold(0.0, f64::max);
    let asleep = mean(&of(|clients| clients.asleep));
    if !shared || most - least > FLAT * least || asleep < ASLEEP * most {
        return None;
    }
    let whole = |count: &u64| {
        let count = crate::number::count(*count);
        count >= asleep - SLACK && count <= least + SLACK
    };
    let mut fitting = (1..=MOST).filter(whole);
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Whether clients end most of the waits for what `caller` waits for.
fn by_clients(trials: &[TrialRecord], words: &BTreeMap<Word, Caller>, caller: &Caller) -> bool {
    let (mut clients, mut all) = (0.0, 0.0);
    for trial in trials {
        for fact in &trial.facts {
            let Fact::Waker(waker) = fact else { continue };
            if words.get(&word(trial, &waker.key)) != Some(caller) {
                continue;
            }
            for by in &waker.by {
                let ended = seconds(by.ended);
                all += ended;
                clients += if by.role == Some(ThreadRole::Client) { ended } else { 0.0 };
            }
        }
    }
    clients > BY_CLIENTS * all
}

/// Names the pools' waits in `trial`, and gives them the idle time of what their holders wait for.
fn charge(
    trial: &mut TrialRecord,
    words: &BTreeMap<Word, Caller>,
    names: &BTreeMap<&Caller, String>,
    pools: &Pools,
) {
    let (variant, start) = (trial.id.variant.clone(), trial.id.start);
    let name_of = |key: &WaitKey| {
        let caller = words.get(&(variant.clone(), start, key.clone()))?;
        names.get(caller).cloned()
    };
    let queueing = Clients::of(trial, |key| name_of(key).is_some());
    let limits = queueing.is_some_and(|clients| clients.queueing >= QUEUE);
    let mut freed = 0_u64;
    for fact in &mut trial.facts {
        match fact {
            Fact::Wait(wait) => match name_of(&wait.key) {
                Some(name) => {
                    wait.key = named(&wait.key, name);
                    wait.holders = Holders::default();
                }
                None if limits && wait.role == ThreadRole::Client => {
                    freed += std::mem::take(&mut wait.idle_charged).0;
                }
                None => {}
            },
            Fact::Stack(stack) => {
                if let Some(key) = &mut stack.wait
                    && let Some(name) = name_of(key)
                {
                    *key = named(key, name);
                }
            }
            _ => {}
        }
    }
    let mut limiting = trial.facts.iter_mut().filter_map(|fact| match fact {
        Fact::Wait(wait) if pools.is_limit(&wait.key) && wait.role == ThreadRole::Client => {
            Some(wait)
        }
        _ => None,
    });
    if let Some(wait) = limiting.next() {
        wait.idle_charged = Nanos(wait.idle_charged.0.saturating_add(freed));
    }
}

fn named(key: &WaitKey, name: String) -> WaitKey {
    WaitKey { reason: WaitReason::UserLock, object: 0, object_name: Some(name), ..key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{
        Disposition, EndedBy, Interference, Level, Phase, ThreadTime, TrialId, Waker, Window,
    };

    fn key(reason: WaitReason, object: u64) -> WaitKey {
        WaitKey { reason, object, object_name: None, syscall: 202 }
    }

    fn wait(key: WaitKey, threads: f64, idle: u64) -> Wait {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few thread-seconds"
        )]
        let blocked = Nanos((threads * 1e9) as u64);
        Wait {
            role: ThreadRole::Client,
            name: "app".to_owned(),
            key,
            blocked,
            count: 100,
            longest: Nanos(1),
            idle_charged: Nanos(idle),
            holders: Holders::default(),
        }
    }

    /// A slice of one second, in which `asleep` of `clients` sleep and `queueing` queue.
    fn trial(clients: u32, queueing: f64, asleep: f64) -> TrialRecord {
        let time = ThreadTime {
            role: Some(ThreadRole::Client),
            threads: clients,
            existed: Nanos(u64::from(clients) * 1_000_000_000),
            ..ThreadTime::default()
        };
        TrialRecord {
            machine: kneepoint_vocab::MachineName::default(),
            id: TrialId {
                phase: Phase::Sweep,
                variant: VariantId::new(VariantId::BASELINE),
                level: Level { clients, cores: 2 },
                block: 0,
                position: 0,
                attempt: 0,
                start: 0,
            },
            window: Window { begin: Nanos(0), length: Nanos(1_000_000_000) },
            operations: 1000,
            counted_over: Nanos(1_000_000_000),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            settling: None,
            interference: Interference::default(),
            disposition: Disposition::Kept,
            facts: vec![
                Fact::ThreadTime(time),
                Fact::Wait(wait(key(WaitReason::Condition, 8), queueing, 1)),
                Fact::Wait(wait(key(WaitReason::Timer, 0), asleep, 700)),
            ],
        }
    }

    fn caller(condition: bool) -> Caller {
        Caller { function: "borrow".to_owned(), condition }
    }

    fn words(trials: &[TrialRecord]) -> BTreeMap<Word, Caller> {
        let of = |trial| (word(trial, &key(WaitReason::Condition, 8)), caller(false));
        trials.iter().map(of).collect()
    }

    fn found(trials: Vec<TrialRecord>) -> Option<u64> {
        let words = words(&trials);
        permits(&trials, &words, &caller(false))
    }

    #[test]
    fn a_semaphore_that_holders_sleep_on_is_a_pool() {
        let slices = || vec![trial(2, 0.0, 1.8), trial(4, 1.9, 1.94), trial(8, 5.93, 1.94)];
        assert_eq!(found(slices()), Some(2));
        let (mut slice, words) = (trial(8, 5.93, 1.94), words(&slices()));
        let limit = Name::PoolLimit { permits: 2, taken_in: "borrow".to_owned() };
        let borrower = caller(false);
        let names = BTreeMap::from([(&borrower, limit.to_string())]);
        let pools = Pools(BTreeMap::from([(limit.to_string(), limit)]));
        charge(&mut slice, &words, &names, &pools);
        let charged: Vec<(bool, u64)> = slice
            .facts
            .iter()
            .filter_map(of_client)
            .map(|w| (pools.is_limit(&w.key), w.idle_charged.0))
            .collect();
        assert_eq!(charged, [(true, 701), (false, 0)]);
    }

    #[test]
    fn who_waits_for_a_pool_is_woken_by_clients() {
        let by = |role| {
            let mut slice = trial(8, 5.9, 1.9);
            let name = "app".to_owned();
            let key = key(WaitReason::Condition, 8);
            let words = BTreeMap::from([(word(&slice, &key), caller(true))]);
            slice.facts.push(Fact::Waker(Waker {
                key,
                tid: 7,
                name: name.clone(),
                role: Some(role),
                ended: Nanos(9),
                of: Nanos(10),
                by: vec![EndedBy { role: Some(role), name, ended: Nanos(9) }],
                behind: Vec::new(),
            }));
            by_clients(&[slice], &words, &caller(true))
        };
        assert!(by(ThreadRole::Client));
        assert!(!by(ThreadRole::Other), "they wait for work");
    }

    #[test]
    fn a_condition_is_a_pool_s_with_two_permits_that_clients_give_back() {
        assert!(is_pool(&caller(true), 2, || true));
        assert!(!is_pool(&caller(true), 1, || true), "one may be late");
        assert!(!is_pool(&caller(true), 2, || false), "others end the waits");
        assert!(is_pool(&caller(false), 1, || false), "a semaphore of one permit is one");
    }

    #[test]
    fn a_semaphore_without_sleepers_or_queue_is_none() {
        assert_eq!(found(vec![trial(4, 3.0, 0.0), trial(8, 7.0, 0.0)]), None, "nobody sleeps");
        assert_eq!(found(vec![trial(2, 0.9, 1.0)]), None, "one alone waits");
        assert_eq!(found(vec![trial(4, 1.5, 2.4), trial(8, 3.0, 4.9)]), None, "it grows");
        assert_eq!(found(vec![trial(8, 5.3, 2.3)]), None, "between two and three");
    }
}

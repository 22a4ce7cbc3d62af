//! The reference's sums, from what was noted of threads and cores in a window.

use super::account::{Account, CoreSums, ThreadSums, WaitSums, add};
use super::method::{CoreNotes, Life, Log, Logged, Notes, Seen, State, Wait};
use super::wire::{WaitId, class, name_of};
use std::collections::BTreeMap;

/// Idle time by what it is charged to: a wait, by its thread and its place there.
type Charges = BTreeMap<(usize, usize), u64>;

/// The account of a window that ends at `end`, and its waits.
pub(super) fn account(notes: &Notes, end: u64, missed: [u64; 3]) -> (Account, Log) {
    let mut account = Account { missed, ..Account::default() };
    let mut charges = Charges::new();
    for core in &notes.cores {
        let sums = core_sums(core, notes, end, &mut charges);
        if core.doing.is_empty() {
            account.machine.0[class::IDLE] += end - notes.begin;
            account.machine.1 += 1;
        }
        for (total, sum) in account.machine.0.iter_mut().zip(sums) {
            *total += sum;
        }
        account.cores.push(sums);
    }
    let charged: u64 = charges.values().sum();
    let machine = &mut account.machine.0;
    machine[7] = machine[0] - machine[6] - charged;
    let mut log = Log::new();
    for (number, life) in notes.lives.iter().enumerate() {
        let sums = life_sums(life, end);
        if life.death.is_none() {
            account.threads.insert(life.tid, sums);
        }
        let group = account.groups.entry((name_of(&life.comm), life.client)).or_default();
        group.0 += 1;
        for (total, sum) in group.1.iter_mut().zip(sums) {
            *total += sum;
        }
        for (place, wait) in life.waits.iter().enumerate() {
            let idle = charges.get(&(number, place)).copied().unwrap_or(0);
            let (id, sums) = wait_sums(life, wait, idle, end);
            add(account.waits.entry(id).or_default(), &sums);
            if notes.always_from > 0 && wait.expected > 0 {
                log.insert((life.tid, wait.begin), logged(wait, id, sums[0], notes.always_from));
            }
        }
    }
    (account, log)
}

/// A thread is in one state from one thing that is seen of it to the next. Who is seen to leave a
/// core has run until then; what one does between two arrivals cannot be reported.
fn life_sums(life: &Life, end: u64) -> ThreadSums {
    let last = life.death.unwrap_or(end);
    let mut sums = [last - life.birth, 0, 0, 0, 0, 0];
    let mut book = |state: State, length: u64| {
        let line = match state {
            State::Running => 1,
            State::Woken => 2,
            State::Preempted => 3,
            State::Blocked => 4,
        };
        sums[line] += length;
    };
    let mut from = life.birth;
    let mut doing = None;
    for (at, seen) in &life.seen {
        let state = match (seen, doing) {
            (Seen::Leaves(_), _) => Some(State::Running),
            (Seen::Enters, Some(State::Running)) => None,
            (_, doing) => Some(doing.unwrap_or_else(|| seen.before())),
        };
        if let Some(state) = state {
            book(state, at - from);
        }
        from = *at;
        doing = Some(seen.after());
    }
    if let (None, Some(state)) = (life.death, doing) {
        book(state, end - from);
    }
    sums[5] = life.seen.iter().filter(|(_, seen)| matches!(seen, Seen::Leaves(_))).count() as u64;
    sums
}

fn wait_sums(life: &Life, wait: &Wait, idle: u64, end: u64) -> (WaitId, WaitSums) {
    let comm = if wait.over.is_some() { wait.comm } else { life.comm };
    let purpose = wait.purpose;
    let id = WaitId {
        comm,
        object: purpose.object,
        nr: purpose.nr,
        op: purpose.op,
        reason: purpose.reason,
        role: u8::from(life.client),
    };
    let until = wait.over.or(wait.woken).unwrap_or(end);
    let length = until - wait.begin;
    let count = u64::from(wait.over.is_some() || wait.woken.is_some());
    let mut sums = [length, count, length, idle, 0, 0, 0, 0, 0];
    if wait.over.is_some() {
        sums[4 + purpose.holder] = length;
    }
    (id, sums)
}

/// The chance of a stack in units of 2⁻³², and what its record has to say.
fn logged(wait: &Wait, id: WaitId, blocked: u64, always_from: u64) -> Logged {
    let one = 1_u64 << 32;
    let share = u128::from(wait.expected) * u128::from(one) / u128::from(always_from);
    let probability = u64::try_from(share).unwrap_or(one).clamp(one >> 12, one);
    Logged { blocked, finished: wait.over.is_some(), probability, id }
}

/// What a core did, by class, and the idle time of its ended stretches: the scheduler's, and
/// nobody's. What is charged to waits goes to `charges`.
fn core_sums(core: &CoreNotes, notes: &Notes, end: u64, charges: &mut Charges) -> CoreSums {
    let mut sums = [0; 8];
    let until = |place: usize| core.doing.get(place + 1).map_or(end, |(at, _)| *at);
    let length = |place: usize| until(place) - core.doing[place].0;
    for (place, (_, class)) in core.doing.iter().enumerate() {
        sums[*class] += length(place);
    }
    let mut next = 0;
    for arrival in &core.arrivals {
        let is_idle = |place: &usize| core.doing[*place].1 == class::IDLE;
        let stretch = (next..arrival.place).find(is_idle);
        let idle: u64 = (next..arrival.place).filter(is_idle).map(length).sum();
        next = arrival.place + 1;
        let Some(first) = stretch else { continue };
        let begin = core.doing[first].0;
        let life = arrival.life.filter(|_| arrival.watched);
        let Some(life) = life else {
            sums[7] += idle;
            continue;
        };
        let share = |from: u64, to: u64| scaled(from.max(begin), to, idle, arrival.at - begin);
        let wait = arrival.wait.map(|place| (place, &notes.lives[life].waits[place]));
        let woken = wait.map_or(arrival.since, |(_, wait)| wait.woken.unwrap_or(arrival.at));
        let waited = wait.map_or(0, |(_, wait)| share(wait.begin, woken)).min(idle);
        let queued = share(woken, arrival.at).min(idle - waited);
        if let Some((place, _)) = wait {
            *charges.entry((life, place)).or_default() += waited;
        }
        sums[6] += queued;
        sums[7] += idle - waited - queued;
    }
    sums
}

/// The part of [from, to] in which the core was idle, where it was so for `idle` of `length`.
fn scaled(from: u64, to: u64, idle: u64, length: u64) -> u64 {
    let part = u128::from(to.saturating_sub(from));
    if length == 0 || idle >= length {
        return if length == 0 { 0 } else { part as u64 };
    }
    let share = (u128::from(idle) << 16) / u128::from(length);
    ((part * share) >> 16) as u64
}

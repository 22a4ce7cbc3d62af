//! The accounting of the eBPF programs against a reference, event by event.
//!
//! `host.rs` compiles the programs for the host and tells them events; `method.rs` reads the same
//! events as `docs/method.md` says. Every sum has to be equal to the nanosecond. The events are
//! those of a machine drawn by chance (`world.rs`); a difference is shrunk to few events.

mod account;
mod behind;
mod event;
mod faults;
mod host;
mod method;
mod purpose;
mod record;
mod replay;
mod shrink;
mod tally;
mod world;

use super::{window, wire};
use account::Account;
use event::Sequence;
use host::{Host, Kept, compiler_is_there, sources};
use method::Method;

/// Events of a sequence: two or three windows.
const LENGTH: usize = 400;
/// Events in all, unless `KNEEPOINT_EVENTS` names another number.
const EVENTS: u64 = 1_000_000;

/// What was checked.
#[derive(Debug, Default)]
struct Reported {
    /// Events of the scheduler and of kernel locks.
    events: u64,
    windows: u64,
    /// Waits that ended, and those of causes that idle time was charged to.
    waits: u64,
    charged: u64,
    /// Threads that ended.
    exits: u64,
    /// Wake-ups and switches missed, as the programs saw it.
    missed: u64,
}

impl Reported {
    fn add(&mut self, account: &Account) {
        self.windows += 1;
        self.waits += account.waits.values().map(|sums| sums[1]).sum::<u64>();
        self.charged += account.waits.values().filter(|sums| sums[3] > 0).count() as u64;
        let threads: u64 = account.groups.values().map(|(threads, _)| threads).sum();
        self.exits += threads - account.threads.len() as u64;
        self.missed += account.missed.iter().sum::<u64>();
    }
}

/// The first difference between the programs and the method in any window of the sequence, or what
/// is not conserved though every event was seen.
fn difference(host: &mut Host, sequence: &Sequence, reported: &mut Reported) -> Option<String> {
    let windows: Vec<Kept> = host.run(sequence);
    let address = |lock| host.address(lock);
    let should = Method::of(sequence, &address).run();
    assert_eq!(windows.len(), should.len(), "windows");
    for (kept, (should, log)) in windows.iter().zip(&should) {
        let is = Account::of(kept);
        let leak = || sequence.legal.then(|| is.leaks(kept.end - kept.begin)).flatten();
        let found = is.differs(should).or_else(|| account::records_differ(kept, log)).or_else(leak);
        if found.is_some() {
            return found;
        }
        reported.add(&is);
    }
    None
}

/// Tells sequences with so many events of the scheduler, and says how many those were and what they
/// came to; ends at the first difference, with the events given and the sequence.
fn search(host: &mut Host, seed: u64, events: u64) -> Result<Reported, (u64, Sequence)> {
    let (mut reported, mut number) = (Reported::default(), seed << 32);
    while reported.events < events {
        let sequence = world::sequence(number, LENGTH);
        reported.events +=
            sequence.events.iter().filter(|event| event.is_of_scheduler()).count() as u64;
        number += 1;
        if difference(host, &sequence, &mut reported).is_some() {
            return Err((reported.events, sequence));
        }
    }
    Ok(reported)
}

/// The difference in words, with the few events that show it.
fn explain(host: &mut Host, sequence: &Sequence) -> String {
    let mut differs = |sequence: &Sequence| difference(host, sequence, &mut Reported::default());
    // Fewer events than were given may well be impossible together, and then need not be conserved.
    let sequence = Sequence { legal: false, ..sequence.clone() };
    if differs(&sequence).is_none() {
        let what = differs(&Sequence { legal: true, ..sequence.clone() });
        return format!("{}\n{sequence}", what.unwrap_or_default());
    }
    let least = shrink::shrink(&sequence, &mut differs);
    let what = differs(&least).expect("the shrunk sequence still differs");
    format!("{what}\n{least}")
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was checked")]
fn every_sum_is_as_the_method_says() {
    let test = "accounting against the method";
    if !compiler_is_there(test) {
        return;
    }
    let events = std::env::var("KNEEPOINT_EVENTS").ok();
    let events = events.map_or(EVENTS, |text| text.parse().expect("KNEEPOINT_EVENTS: a number"));
    let mut host = Host::of(&sources(), "-O2");
    match search(&mut host, 1, events) {
        Ok(reported) => {
            println!("{test}: no difference; {reported:?}");
            let all = [
                reported.windows,
                reported.waits,
                reported.charged,
                reported.exits,
                reported.missed,
            ];
            assert!(all.iter().all(|count| *count > 1000), "little was checked: {reported:?}");
        }
        Err((_, sequence)) => panic!("{}", explain(&mut host, &sequence)),
    }
}

//! When the clients of a command begin: many programs first fill what they are going to work on,
//! with one thread. What they do then is no part of a window.

use super::working::{Task, running, used_since};
use crate::process::Process;
use kneepoint_machine::proc::schedstat::SchedStat;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked whether there are as many threads as clients.
const GLANCE: Duration = Duration::from_millis(10);
/// The part of its time that a run is waited for whose clients were never seen to begin.
const UNKNOWN: u32 = 4;
/// How many times its time the very first run is waited for.
const FIRST: u32 = 2;
/// So long a program may take to start; what takes no longer is no beginning of its own.
const STARTING: Duration = Duration::from_millis(50);

/// What the runs of a command have shown of its clients' beginning, for the runs to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning(Arc<Mutex<Known>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    /// Threads beside the clients while these work, at each number of clients.
    others: BTreeMap<u32, usize>,
    /// Numbers of clients that never had threads of their own.
    never: BTreeSet<u32>,
    /// The earliest that clients were seen to begin, of runs that were waited for.
    earliest: Option<Duration>,
    /// How much longer than it was told to a run took, where that was much.
    longer: BTreeMap<u32, Duration>,
}

/// What a run has to show before its clients are said to work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    /// So many threads; `sure` where runs at two levels had as many beside their clients.
    Threads { wanted: usize, sure: bool },
    /// This time has passed: the one client may be the thread that begins.
    Time(Duration),
    /// Nothing shows it.
    None,
}

/// What waiting for clients came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Awaited {
    /// They began so long after the command.
    Begun(Duration),
    /// Nothing shows when they begin.
    Unseen,
    /// The command was over before anything showed it.
    Over,
}

impl Known {
    fn sign(&self, clients: u32) -> Sign {
        if self.never.contains(&clients) {
            return Sign::None;
        }
        match (self.beside(), self.earliest) {
            (Some(0), earliest) if clients == 1 => earliest.map_or(Sign::None, Sign::Time),
            (Some(others), _) => Sign::Threads { wanted: clients as usize + others, sure: true },
            // Who starts one client mostly waits for it then.
            (None, _) => Sign::Threads { wanted: clients.max(2) as usize, sure: false },
        }
    }

    /// How many threads there are beside the clients, where two levels agree on that.
    fn beside(&self) -> Option<usize> {
        let mut counts = self.others.values();
        let first = counts.next()?;
        (self.others.len() > 1 && counts.all(|count| count == first)).then_some(*first)
    }

    /// How long the clients of a run are waited for that was told to take so long.
    fn most(&self, clients: u32, told: Duration) -> Duration {
        if self.never.is_empty() && self.earliest.is_none() {
            return told * FIRST;
        }
        let least = || self.longer.values().min();
        told / UNKNOWN + self.longer.get(&clients).or_else(least).copied().unwrap_or_default()
    }
}

impl Beginning {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the clients of a run work.
    pub(super) fn wait(&self, process: &mut Process, clients: u32, told: Duration) -> Awaited {
        let (sign, most) = {
            let known = self.known();
            (known.sign(clients), known.most(clients, told))
        };
        let (wanted, sure) = match sign {
            Sign::None => return Awaited::Unseen,
            Sign::Time(time) => return self.pass(process, clients, time),
            Sign::Threads { wanted, sure } => (wanted, sure),
        };
        let mut before = running(process.pid());
        loop {
            let took = process.begun().elapsed();
            if before.len() >= wanted {
                let mut known = self.known();
                known.earliest = Some(known.earliest.map_or(took, |earliest| earliest.min(took)));
                return Awaited::Begun(took);
            }
            let over = process.ended().is_some();
            if over || took >= most {
                self.known().never.insert(clients);
                return if over { Awaited::Over } else { Awaited::Unseen };
            }
            std::thread::sleep(GLANCE);
            let now = running(process.pid());
            // A program whose clients are no threads of their own is at work with several.
            if !sure && several_work(&before, &now) {
                return Awaited::Unseen;
            }
            before = now;
        }
    }

    fn pass(&self, process: &mut Process, clients: u32, time: Duration) -> Awaited {
        loop {
            let passed = process.begun().elapsed();
            if passed >= time {
                return Awaited::Begun(passed);
            }
            if process.ended().is_some() {
                self.known().never.insert(clients);
                return Awaited::Over;
            }
            std::thread::sleep(GLANCE.min(time - passed));
        }
    }

    /// Keeps how many threads a run has whose clients work.
    pub(super) fn count(&self, process: &mut Process, clients: u32) {
        let threads = running(process.pid()).len();
        if let Some(others) = threads.checked_sub(clients as usize) {
            self.known().others.insert(clients, others);
        }
    }

    /// Keeps how long a run took that was to take `told`. Where it took much longer, that may have
    /// gone to its beginning, for which clients are waited once more, and longer.
    pub(super) fn took(&self, clients: u32, wall: Duration, told: Duration) {
        let longer = wall.saturating_sub(told);
        let mut known = self.known();
        if longer > told / UNKNOWN && !known.longer.contains_key(&clients) {
            known.longer.insert(clients, longer);
            known.never.remove(&clients);
        }
    }
}

/// The part of a run's time in which its clients worked, where they began after `begun`.
pub(super) fn from_its_clients(wall: Duration, begun: Option<Duration>) -> Duration {
    wall.saturating_sub(begun.filter(|begun| *begun > STARTING).unwrap_or_default())
}

/// Whether two threads or more used a good part of the CPU between two looks.
fn several_work(before: &BTreeMap<u32, SchedStat>, now: &BTreeMap<u32, SchedStat>) -> bool {
    let most = u64::try_from(GLANCE.as_nanos()).unwrap_or(u64::MAX);
    let works = |task: &Task| task.used >= most / 4;
    used_since(before, now).iter().filter(|task| works(task)).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn as_many_threads_as_clients_show_that_these_began() {
        let known = Known::default();
        assert_eq!(known.sign(4), Sign::Threads { wanted: 4, sure: false });
        assert_eq!(known.sign(1), Sign::Threads { wanted: 2, sure: false });
    }

    #[test]
    fn what_two_levels_agree_on_holds_for_all() {
        let mut known = Known::default();
        known.others.insert(4, 2);
        assert_eq!(known.sign(1), Sign::Threads { wanted: 2, sure: false });
        known.others.insert(2, 2);
        assert_eq!(known.sign(1), Sign::Threads { wanted: 3, sure: true });
        assert_eq!(known.sign(8), Sign::Threads { wanted: 10, sure: true });
        // Its helpers come and go.
        known.others.insert(8, 3);
        assert_eq!(known.sign(1), Sign::Threads { wanted: 2, sure: false });
        assert_eq!(known.sign(8), Sign::Threads { wanted: 8, sure: false });
    }

    #[test]
    fn where_the_first_thread_is_a_client_one_client_begins_with_time() {
        let mut known = Known::default();
        known.others.extend([(2, 0), (4, 0)]);
        assert_eq!(known.sign(1), Sign::None);
        known.earliest = Some(SECOND);
        assert_eq!(known.sign(1), Sign::Time(SECOND));
        assert_eq!(known.sign(2), Sign::Threads { wanted: 2, sure: true });
    }

    #[test]
    fn clients_without_threads_are_waited_for_once_and_again_where_the_run_took_longer() {
        let beginning = Beginning::default();
        beginning.known().never.insert(8);
        assert_eq!(beginning.known().sign(8), Sign::None);
        beginning.took(8, SECOND * 11 / 10, SECOND);
        assert_eq!(beginning.known().sign(8), Sign::None);
        beginning.took(8, SECOND * 3, SECOND);
        assert_eq!(beginning.known().sign(8), Sign::Threads { wanted: 8, sure: false });
        assert_eq!(beginning.known().most(8, SECOND), SECOND * 2, "the first run");
        beginning.known().earliest = Some(SECOND);
        assert_eq!(beginning.known().most(8, SECOND), SECOND * 9 / 4);
        assert_eq!(beginning.known().most(4, SECOND), SECOND * 9 / 4);
        beginning.known().never.insert(8);
        beginning.took(8, SECOND * 4, SECOND);
        assert_eq!(beginning.known().sign(8), Sign::None, "once");
    }

    #[test]
    fn a_short_beginning_counts_as_none() {
        assert_eq!(from_its_clients(SECOND, None), SECOND);
        assert_eq!(from_its_clients(SECOND, Some(SECOND / 25)), SECOND);
        assert_eq!(from_its_clients(SECOND, Some(SECOND / 4)), SECOND * 3 / 4);
    }
}

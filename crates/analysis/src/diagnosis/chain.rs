//! Who waits for whom, from the clients down to who works, a device, or what is no part of the
//! system.
//!
//! Threads of one name are one link. What a link waits for is split by who ends those waits, and
//! these by what they do in turn; threads that are a link already end the branch, for then some of
//! them wait for others of them. For a lock the holder says more than who ends the wait: it is
//! shown by what it did when the wait began. Threads that serve no client are shown without what
//! they wait for when they have nothing to do. How threads spend their time at large stands for how
//! they spend it while others wait: the record does not join the two.

use crate::diagnosis::evidence::Evidence;
use crate::frames::stacks::Stacks;
use crate::ledgers::polled::Polled;
use crate::ledgers::slices::Slice;
use crate::number::{finite, quotient, seconds};
use crate::waits::groups::Groups;
use crate::waits::requests::is_for_request;
use kneepoint_vocab::findings::{Cause, CauseKind, ChainLink, ChainNode, HolderState};
use kneepoint_vocab::units::Count;
use kneepoint_vocab::{Clients, Fact, ThreadRole, Tier, TrialRecord, Waker};
use std::collections::BTreeMap;

/// Links below this part of the first are summed or left out.
const LEAST: f64 = 0.01;
/// Links of threads one behind the other, at most.
const DEEPEST: usize = 6;

/// What a chain is made from.
pub(crate) struct Given<'a> {
    pub(crate) slices: &'a [&'a Slice<'a>],
    pub(crate) groups: &'a Groups,
    pub(crate) evidence: &'a Evidence<'a>,
    pub(crate) stacks: &'a Stacks<'a>,
    pub(crate) clients: Clients,
    pub(crate) causes: &'a [Cause],
}

/// Threads that are one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who<'a> {
    Clients,
    Others(&'a str),
}

impl<'a> Who<'a> {
    fn of(role: ThreadRole, name: &'a str) -> Self {
        if role == ThreadRole::Client { Self::Clients } else { Self::Others(name) }
    }
}

/// What threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waited {
    Request,
    Group(usize),
}

/// Thread-seconds of the threads of a link.
#[derive(Default)]
struct Spent {
    running: f64,
    runnable: f64,
    waited: BTreeMap<Waited, f64>,
}

impl Spent {
    fn wait(&mut self, waited: Waited, time: f64) {
        if time > 0.0 {
            *self.waited.entry(waited).or_default() += time;
        }
    }

    fn all(&self) -> f64 {
        self.running + self.runnable + self.waited.values().sum::<f64>()
    }
}

/// What all slices say.
#[derive(Default)]
struct Seen<'a> {
    spent: BTreeMap<Who<'a>, Spent>,
    /// Names of the clients, by their thread-seconds.
    names: BTreeMap<&'a str, f64>,
    /// Blocked time by wait group and who ended it; none of the system where there is none.
    ended: BTreeMap<usize, BTreeMap<Option<Who<'a>>, f64>>,
    /// Seconds of all windows.
    watched: f64,
}

impl Given<'_> {
    /// The chain; none where the collector saw no single wait.
    pub(crate) fn chain(&self) -> Option<ChainNode> {
        let seen = self.seen();
        let first: Vec<Who<'_>> = match seen.spent.get(&Who::Clients) {
            Some(spent) if spent.all() > 0.0 => vec![Who::Clients],
            _ => seen.spent.keys().copied().collect(),
        };
        let all: f64 = first.iter().map(|who| quotient(seen.spent[who].all(), seen.watched)).sum();
        if all <= 0.0 {
            return None;
        }
        let tree = Tree { given: self, seen: &seen, least: LEAST * all };
        if first == [Who::Clients] {
            return Some(tree.threads(Who::Clients, all, &[]));
        }
        let next = first
            .iter()
            .map(|who| (*who, quotient(seen.spent[who].all(), seen.watched)))
            .filter(|(_, threads)| *threads >= tree.least)
            .map(|(who, threads)| tree.threads(who, threads, &[]));
        Some(node(ChainLink::System, all, next.collect()))
    }

    fn seen(&self) -> Seen<'_> {
        let mut seen = Seen::default();
        for slice in self.slices {
            let full = |fact: &Fact| matches!(fact, Fact::Tier { tier: Tier::Full });
            if slice.trial.facts.iter().any(full) {
                self.clients(&mut seen, slice);
                self.others(&mut seen, slice);
            }
        }
        seen
    }

    /// What clients do is in the slice's row, in threads.
    fn clients<'a>(&self, seen: &mut Seen<'a>, slice: &'a Slice<'_>) {
        // The collector's own window, which may be a part of the slice.
        let watched = slice.trial.facts.iter().find_map(|fact| match fact {
            Fact::CoreTime(core) => Some(quotient(seconds(core.total), f64::from(core.cores))),
            _ => None,
        });
        let (row, length) = (&slice.row, watched.unwrap_or(0.0));
        seen.watched += length;
        if row.clients <= 0.0 {
            return;
        }
        let spent = seen.spent.entry(Who::Clients).or_default();
        spent.running += row.running * length;
        spent.runnable += row.runnable * length;
        spent.wait(Waited::Request, row.no_request * length);
        for (group, threads) in row.blocked.iter().enumerate() {
            spent.wait(Waited::Group(group), threads * length);
        }
    }

    fn others<'a>(&self, seen: &mut Seen<'a>, slice: &Slice<'a>) {
        let trial = slice.trial;
        // Some servers wait for locks as for requests.
        let polled = Polled::of(trial, self.groups, self.stacks);
        for fact in &trial.facts {
            match fact {
                Fact::ThreadTime(time) if time.role == Some(ThreadRole::Client) => {
                    *seen.names.entry(&time.name).or_default() += seconds(time.existed);
                }
                Fact::ThreadTime(time) => {
                    let spent = seen.spent.entry(Who::Others(&time.name)).or_default();
                    spent.running += seconds(time.running);
                    spent.runnable += seconds(time.runnable_woken);
                    spent.runnable += seconds(time.runnable_preempted);
                }
                Fact::Wait(wait) if wait.role == ThreadRole::Other => {
                    let known = slice.row.clients > 0.0;
                    let request = is_for_request(self.stacks.known, self.clients, known, wait);
                    let group = self.groups.of(trial, &wait.key).filter(|_| !request);
                    let Some(group) = group else { continue };
                    if !self.groups.is_for_work(group, wait.key.reason) {
                        let spent = seen.spent.entry(Who::Others(&wait.name)).or_default();
                        spent.wait(Waited::Group(group), seconds(wait.blocked));
                    }
                }
                Fact::Waker(waker) => self.ended(seen, trial, waker, &polled),
                _ => {}
            }
        }
    }

    /// Whoever ends a wait for a request is no thread of the system; such a thread ends those for
    /// locks.
    fn ended<'a>(
        &self,
        seen: &mut Seen<'a>,
        trial: &TrialRecord,
        waker: &'a Waker,
        polled: &Polled<'_>,
    ) {
        let locks: Vec<usize> = polled.locks(&waker.key).collect();
        let group = self.groups.of(trial, &waker.key).filter(|_| locks.is_empty());
        for by in &waker.by {
            let who = by.role.map(|role| Who::of(role, &by.name));
            let of_locks = locks.iter().filter(|_| who.is_some());
            for group in of_locks.copied().chain(group) {
                *seen.ended.entry(group).or_default().entry(who).or_default() += seconds(by.ended);
            }
        }
    }
}

/// Makes nodes of what was seen.
struct Tree<'a> {
    given: &'a Given<'a>,
    seen: &'a Seen<'a>,
    /// Fewer threads are no node.
    least: f64,
}

impl<'a> Tree<'a> {
    /// So many threads of a link, behind those that wait for them.
    fn threads(&self, who: Who<'a>, threads: f64, behind: &[Who<'a>]) -> ChainNode {
        let link = match who {
            Who::Clients => ChainLink::Clients { name: common(&self.seen.names) },
            Who::Others(name) => ChainLink::Threads { name: name.to_owned() },
        };
        let again = behind.contains(&who) || behind.len() >= DEEPEST;
        let next = if again { Vec::new() } else { self.parts(who, threads, behind) };
        node(link, threads, next)
    }

    /// What they do, scaled to so many of them.
    fn parts(&self, who: Who<'a>, threads: f64, behind: &[Who<'a>]) -> Vec<ChainNode> {
        let Some(spent) = self.seen.spent.get(&who) else { return Vec::new() };
        let scaled = |time: f64| threads * quotient(time, spent.all());
        let path = [behind, &[who]].concat();
        let mut nodes = vec![
            node(ChainLink::OnCore, scaled(spent.running), Vec::new()),
            node(ChainLink::Runnable, scaled(spent.runnable), Vec::new()),
        ];
        nodes.extend(spent.waited.iter().map(|(waited, time)| {
            let threads = scaled(*time);
            match waited {
                Waited::Request => node(ChainLink::Request, threads, Vec::new()),
                Waited::Group(group) => self.wait(*group, threads, &path),
            }
        }));
        let (mut kept, small): (Vec<ChainNode>, Vec<ChainNode>) =
            nodes.into_iter().partition(|node| node.threads.0 >= self.least);
        let rest: f64 = small.iter().map(|node| node.threads.0).sum();
        if rest >= self.least {
            kept.push(node(ChainLink::OtherWaits, rest, Vec::new()));
        }
        kept.sort_by(|a, b| b.threads.0.total_cmp(&a.threads.0));
        kept
    }

    fn wait(&self, group: usize, threads: f64, path: &[Who<'a>]) -> ChainNode {
        let known = &self.given.groups.list[group];
        let cause = self.given.causes.iter().find(|cause| cause.key == known.key);
        let link = ChainLink::Wait {
            name: known.name.clone(),
            line: known.line,
            cause: cause.map(|cause| cause.id.clone()),
        };
        let next = match known.kind {
            _ if threads < self.least => Vec::new(),
            CauseKind::Lock | CauseKind::KernelLock | CauseKind::Thread => {
                self.enders(group, threads, path)
            }
            _ => Vec::new(),
        };
        node(link, threads, next)
    }

    /// Who ends the waits of a group, each for its part.
    fn enders(&self, group: usize, threads: f64, path: &[Who<'a>]) -> Vec<ChainNode> {
        let Some(ended) = self.seen.ended.get(&group) else { return Vec::new() };
        let all: f64 = ended.values().sum();
        let holders = self.holders(group);
        let mut nodes: Vec<ChainNode> = ended
            .iter()
            .map(|(who, time)| (who, threads * quotient(*time, all)))
            .filter(|(_, part)| *part >= self.least)
            .map(|(who, part)| match who {
                None => node(ChainLink::Outside, part, Vec::new()),
                Some(who) => {
                    let mut ender = self.threads(*who, part, path);
                    if !holders.is_empty() {
                        ender.next = holders
                            .iter()
                            .map(|(state, share)| (*state, part * share))
                            .filter(|(_, part)| *part >= self.least)
                            .map(|(state, part)| node(ChainLink::Holder { state }, part, vec![]))
                            .collect();
                    }
                    ender
                }
            })
            .collect();
        nodes.sort_by(|a, b| b.threads.0.total_cmp(&a.threads.0));
        nodes
    }

    /// What holders of a lock did when waits began, where the lock's word tells its owner.
    fn holders(&self, group: usize) -> Vec<(HolderState, f64)> {
        let told = self.given.evidence.holders(self.given.groups, group);
        let known = |state: HolderState| state != HolderState::Unknown;
        let of: f64 = told.iter().filter(|one| known(one.0)).map(|one| one.1.0).sum();
        if of <= 0.5 {
            return Vec::new();
        }
        let mut told: Vec<(HolderState, f64)> =
            told.into_iter().map(|(state, share)| (state, share.0)).collect();
        told.sort_by(|a, b| b.1.total_cmp(&a.1));
        told
    }
}

/// The name of most, or what all begin with and a star.
fn common(names: &BTreeMap<&str, f64>) -> String {
    let all: f64 = names.values().sum();
    let most = names.iter().max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((name, _)) = most.filter(|most| 2.0 * most.1 > all || names.len() == 1) {
        return (*name).to_owned();
    }
    let (Some((first, _)), Some((last, _))) = (names.first_key_value(), names.last_key_value())
    else {
        return String::new();
    };
    let begin = first.chars().zip(last.chars()).take_while(|(a, b)| a == b);
    let begin: String = begin.map(|(letter, _)| letter).collect();
    if begin.is_empty() { begin } else { begin + "*" }
}

fn node(link: ChainLink, threads: f64, next: Vec<ChainNode>) -> ChainNode {
    ChainNode { link, threads: Count(finite(threads)), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_called_by_most_or_by_what_their_names_begin_with() {
        let named = |names: &[(&'static str, f64)]| common(&names.iter().copied().collect());
        assert_eq!(named(&[("client-1", 1.0), ("client-2", 1.0), ("client-31", 1.0)]), "client-*");
        assert_eq!(named(&[("worker", 3.0), ("main", 1.0)]), "worker");
        assert_eq!(named(&[("a", 1.0), ("b", 1.0)]), "");
        assert_eq!(named(&[("idle", 0.0)]), "idle");
        assert_eq!(named(&[]), "");
    }
}

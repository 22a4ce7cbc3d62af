//! What the slices of a level hold about one cause: stacks, holders, longest wait.

use crate::diagnosis::flame::Flame;
use crate::frames::names::{Catalogue, in_kernel, is_unnamed};
use crate::frames::naming::{CONDITION, machinery, naming_frames, wants_back};
use crate::frames::stacks::{Stacks, kernel_entry};
use crate::ledgers::slices::{Functions, Slice};
use crate::number::{count, finite, quotient, seconds};
use crate::waits::groups::Groups;
use crate::waits::herd::{HERD_WAITS, LEAST_AFTER_WAKE};
use crate::waits::seen::NEARLY_ALL;
use kneepoint_vocab::findings::{FlameNode, HolderState, WokenBy};
use kneepoint_vocab::units::{Cores, Ratio};
use kneepoint_vocab::{
    CodeKind, Fact, Frame, StackKind, StackWeight, ThreadRole, TrialRecord, Wait,
};
use std::collections::BTreeMap;

/// Where more operations than this wait for a thread, they go through it; it does not stop them.
const SELDOM: f64 = 0.25;
/// Threads that serve no client work for this part of the time that clients wait, at least, where
/// clients wait for their work.
const AT_WORK: f64 = 0.5;
/// A thread that is busy for more than this many times of the time that each client waits does
/// something for one of them after the other.
const AT_ONCE: f64 = 1.5;

/// What tells a thread that stops the clients from one that they queue for.
#[derive(Default)]
struct Stops {
    /// Seconds that each client waited.
    waited: f64,
    waits: f64,
    operations: f64,
    /// CPU seconds of the thread that ends the waits,
    busy: f64,
    /// and of all threads that serve no client.
    helped: f64,
}

impl Stops {
    /// Whether clients wait seldom and at once, while threads that serve none of them work.
    fn hold(&self) -> bool {
        self.waited > 0.0
            && self.waits <= SELDOM * self.operations
            && self.helped >= AT_WORK * self.waited
            && self.busy <= AT_ONCE * self.waited
    }
}

/// Functions of the program in a stack, innermost first; only those outside of one, where one is
/// given. Else the kernel was called, and the C library's only make the call.
fn outside<'a>(known: Catalogue, frames: &'a [Frame], function: Option<&str>) -> Vec<&'a str> {
    let within = |function: &str| {
        let at = frames.iter().position(|frame| frame.function == function);
        at.map_or(frames.len(), |at| at + 1)
    };
    let outer = frames[function.map_or(0, within)..].iter();
    let called = |frame: &&Frame| function.is_some() || !known.in_c_library(frame);
    let names = outer.filter(|frame| !in_kernel(frame)).filter(called);
    let names = names.map(|frame| frame.function.as_str());
    let named = |name: &&str| !known.is_outermost(name) && !is_unnamed(name);
    let names = names.filter(|name| !known.is_plumbing(name) && !known.is_standard(name));
    names.filter(named).collect()
}

/// What these paths have in common, from their begin, as long as half of their weight or more does.
fn mostly(mut paths: Vec<(Vec<&str>, f64)>) -> Vec<String> {
    let half = 0.5 * paths.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut common = Vec::new();
    loop {
        let mut next: BTreeMap<&str, f64> = BTreeMap::new();
        for (path, weight) in &paths {
            if let Some(caller) = path.get(common.len()) {
                *next.entry(caller).or_default() += weight;
            }
        }
        let most = next.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((caller, _)) = most.filter(|(_, weight)| *weight >= half) else {
            return common.into_iter().map(str::to_owned).collect();
        };
        paths.retain(|(path, _)| path.get(common.len()) == Some(&caller));
        common.push(caller);
    }
}

/// The slices of a level with the stack table.
pub(crate) struct Evidence<'a> {
    slices: &'a [&'a Slice<'a>],
    stacks: &'a Stacks<'a>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(slices: &'a [&'a Slice<'a>], stacks: &'a Stacks<'a>) -> Self {
        Self { slices, stacks }
    }

    fn chosen(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> impl Iterator<Item = &'a StackWeight> {
        self.slices
            .iter()
            .flat_map(|slice| slice.trial.facts.iter().map(|fact| (slice.trial, fact)))
            .filter_map(move |(trial, fact)| match fact {
                Fact::Stack(stack) if choose(trial, stack) => Some(stack),
                _ => None,
            })
    }

    /// The flame graph of the chosen stacks.
    pub(crate) fn flame(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> Option<FlameNode> {
        let mut flame = Flame::default();
        for stack in self.chosen(choose) {
            flame.add(self.stacks.frames(stack.stack), seconds(stack.weight));
        }
        flame.finish()
    }

    /// The chosen stacks, and whether each reached the outermost frame.
    pub(crate) fn weights(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> impl Iterator<Item = (&'a StackWeight, bool)> {
        let stacks = self.stacks;
        self.chosen(choose).map(move |stack| (stack, stacks.complete(stack.stack)))
    }

    /// Who calls a function, or the kernel where none is given, innermost first, as long as one
    /// caller stands for half of the chosen stacks or more.
    pub(crate) fn callers(
        &self,
        function: Option<&str>,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> Vec<String> {
        let known = self.stacks.known;
        let outer = |stack: &StackWeight| {
            (outside(known, self.stacks.frames(stack.stack), function), seconds(stack.weight))
        };
        mostly(self.chosen(choose).map(outer).collect())
    }

    /// The way into the kernel by which a kernel lock is mostly spun for, or taken and given back.
    pub(crate) fn entry(&self, functions: &Functions, group: usize) -> Option<String> {
        let known = self.stacks.known;
        let own = |stack: &StackWeight| {
            let function = functions.of(stack.stack).filter(|_| stack.kind == StackKind::OnCpu);
            function.and_then(|function| functions.list[function].lock) == Some(group)
        };
        let mut entries: BTreeMap<&str, f64> = BTreeMap::new();
        for stack in self.chosen(|_, stack| own(stack)) {
            let kernel: Vec<&str> = self
                .stacks
                .frames(stack.stack)
                .iter()
                .filter(|frame| in_kernel(frame))
                .map(|frame| frame.function.as_str())
                .collect();
            *entries.entry(kernel_entry(known, &kernel)).or_default() += seconds(stack.weight);
        }
        let most = entries.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(most.0.to_owned())
    }

    /// The share of the waits for a lock, without those for a condition that belongs to it, by
    /// threads that the condition had just let go. None where it is small, beside those or beside
    /// what is waited for the condition.
    pub(crate) fn after_wake(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> Option<Ratio> {
        let (mut all, mut back, mut condition) = (0.0, 0.0, 0.0);
        let known = self.stacks.known;
        for stack in self.chosen(choose) {
            let (frames, weight) = (self.stacks.frames(stack.stack), seconds(stack.weight));
            if machinery(known, frames) == CONDITION {
                condition += weight;
                continue;
            }
            all += weight;
            if wants_back(known, frames) {
                back += weight;
            }
        }
        let share = quotient(back, all);
        (share >= LEAST_AFTER_WAKE && back >= HERD_WAITS * condition).then_some(Ratio(share))
    }

    /// The part of the CPU in which threads give up their cores, where it is a tenth or more.
    pub(crate) fn yielding(&self) -> Option<Ratio> {
        const LEAST: f64 = 0.1;
        let (mut all, mut yields) = (0.0, 0.0);
        for stack in self.chosen(|_, stack| stack.kind == StackKind::OnCpu) {
            let weight = seconds(stack.weight);
            all += weight;
            if self.stacks.yields(stack.stack) {
                yields += weight;
            }
        }
        let share = quotient(yields, all);
        (share >= LEAST).then_some(Ratio(finite(share)))
    }

    /// What share of the chosen stacks' weight does what.
    pub(crate) fn code(
        &self,
        choose: impl Fn(&TrialRecord, &StackWeight) -> bool,
    ) -> BTreeMap<CodeKind, f64> {
        let mut shares: BTreeMap<CodeKind, f64> = BTreeMap::new();
        for stack in self.chosen(choose) {
            *shares.entry(self.stacks.code(stack.stack)).or_default() += seconds(stack.weight);
        }
        let all: f64 = shares.values().sum();
        shares.values_mut().for_each(|share| *share = quotient(*share, all));
        shares
    }

    /// The part of the weight on a core that the kernel does for a library: in calls that it makes
    /// and, where it gives memory back and takes it again, in page faults. None where no stack was
    /// taken on a core.
    pub(crate) fn in_kernel_for(&self, library: &str) -> Option<f64> {
        let known = self.stacks.known;
        let is_for_it = |frames: &[Frame]| {
            let in_kernel: Vec<&Frame> = frames.iter().filter(|frame| in_kernel(frame)).collect();
            let faults = || in_kernel.iter().any(|frame| known.is_page_fault(&frame.function));
            !in_kernel.is_empty()
                && ((known.gives_memory_back(library) && faults())
                    || naming_frames(known, frames).first().is_some_and(|name| name == library))
        };
        let (mut all, mut own) = (0.0, 0.0);
        for stack in self.chosen(|_, stack| stack.kind == StackKind::OnCpu) {
            all += seconds(stack.weight);
            if is_for_it(self.stacks.frames(stack.stack)) {
                own += seconds(stack.weight);
            }
        }
        (all > 0.0).then(|| quotient(own, all))
    }

    fn waits(&self, groups: &Groups, group: usize) -> impl Iterator<Item = &'a Wait> {
        self.slices
            .iter()
            .flat_map(|slice| slice.trial.facts.iter().map(|fact| (slice.trial, fact)))
            .filter_map(move |(trial, fact)| match fact {
                Fact::Wait(wait) if groups.of(trial, &wait.key) == Some(group) => Some(wait),
                _ => None,
            })
    }

    /// Longest single wait in seconds; none where the tier does not see single waits.
    pub(crate) fn longest(&self, groups: &Groups, group: usize) -> Option<f64> {
        let longest =
            self.waits(groups, group).map(|wait| seconds(wait.longest)).fold(0.0, f64::max);
        (longest > 0.0).then_some(longest)
    }

    /// The one thread that ends nearly all of the waits of clients, where it serves no client
    /// itself. It may be another one in every slice, where each has processes of its own.
    pub(crate) fn waker(&self, groups: &Groups, group: usize) -> Option<WokenBy> {
        let (mut ended, mut all, mut busy) = (0.0, 0.0, 0.0);
        let mut names: BTreeMap<&str, f64> = BTreeMap::new();
        for slice in self.slices {
            let facts = || slice.trial.facts.iter();
            let mut by_thread: BTreeMap<u32, (f64, &str)> = BTreeMap::new();
            for fact in facts() {
                let Fact::Waker(waker) = fact else { continue };
                if groups.of(slice.trial, &waker.key) != Some(group) {
                    continue;
                }
                all += seconds(waker.of);
                if waker.role == Some(ThreadRole::Other) {
                    let of_thread = by_thread.entry(waker.tid).or_insert((0.0, &waker.name));
                    of_thread.0 += seconds(waker.ended);
                }
            }
            let most = by_thread.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
            let Some((tid, (by_it, name))) = most else { continue };
            ended += by_it;
            *names.entry(name).or_default() += by_it;
            let own = facts().find_map(|fact| match fact {
                Fact::Task(task) if task.tid == tid => Some(task),
                _ => None,
            });
            let used = own.map_or(0.0, |task| quotient(seconds(task.cpu), seconds(task.over)));
            busy += by_it * used;
        }
        let (name, _) = names.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (share, busy) = (quotient(ended, all), quotient(busy, ended));
        (share >= NEARLY_ALL).then(|| WokenBy {
            name: name.to_owned(),
            share: Ratio(share),
            busy: Cores(busy),
            stops: self.stopped(groups, group, busy),
        })
    }

    /// Whether a thread that ends the waits of a group and is so `busy` has stopped the clients.
    fn stopped(&self, groups: &Groups, group: usize, busy: f64) -> bool {
        let mut stops = Stops::default();
        for slice in self.slices {
            let (trial, clients) = (slice.trial, slice.trial.id.level.clients);
            if clients < 2 {
                return false;
            }
            let length = seconds(trial.window.length);
            stops.busy += busy * length;
            stops.operations += trial.throughput().0 * length;
            for fact in &trial.facts {
                match fact {
                    Fact::Wait(wait)
                        if wait.role == ThreadRole::Client
                            && groups.of(trial, &wait.key) == Some(group) =>
                    {
                        stops.waited += quotient(seconds(wait.blocked), f64::from(clients));
                        stops.waits += count(wait.count);
                    }
                    Fact::ThreadTime(time) if time.role == Some(ThreadRole::Other) => {
                        stops.helped += seconds(time.running);
                    }
                    _ => {}
                }
            }
        }
        stops.hold()
    }

    /// What holders were doing when a wait began, as shares.
    pub(crate) fn holders(&self, groups: &Groups, group: usize) -> Vec<(HolderState, Ratio)> {
        let mut sums = [0.0; 4];
        for wait in self.waits(groups, group) {
            let holders = wait.holders;
            let counts = [holders.running, holders.runnable, holders.blocked, holders.unknown];
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += count(n));
        }
        let all: f64 = sums.iter().sum();
        if all <= 0.0 {
            return Vec::new();
        }
        let states = [
            HolderState::Running,
            HolderState::Runnable,
            HolderState::Blocked,
            HolderState::Unknown,
        ];
        states.into_iter().zip(sums).map(|(state, n)| (state, Ratio(quotient(n, all)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::names::KERNEL;

    #[test]
    fn who_stops_all_clients_is_told_from_whom_they_queue_for() {
        // Four clients wait 0.4 of 10 seconds, all at once, in one of 50 operations.
        let collector = || Stops {
            waited: 4.0,
            waits: 10_000.0,
            operations: 500_000.0,
            busy: 4.0,
            helped: 4.1,
        };
        assert!(collector().hold());
        assert!(
            !Stops { waits: 500_000.0, ..collector() }.hold(),
            "each operation goes through it"
        );
        assert!(!Stops { busy: 9.0, ..collector() }.hold(), "it serves one after the other");
        assert!(!Stops { busy: 0.01, helped: 0.1, ..collector() }.hold(), "it only lets them wait");
        assert!(Stops { busy: 0.2, ..collector() }.hold(), "others work for it");
        assert!(!Stops { waited: 0.0, ..collector() }.hold(), "nobody waits");
    }

    #[test]
    fn callers_are_told_as_far_as_one_stands_for_half() {
        let path = |names: &'static str| names.split_whitespace().collect::<Vec<_>>();
        let paths = || {
            vec![
                (path("decode apply feed main"), 3.0),
                (path("decode apply replay main"), 3.0),
                (path("view read main"), 2.0),
            ]
        };
        assert_eq!(mostly(paths()), ["decode", "apply"]);
        assert_eq!(mostly(paths()[1..].to_vec()), ["decode", "apply", "replay", "main"]);
        assert!(mostly(Vec::new()).is_empty());
    }

    #[test]
    fn what_starts_threads_calls_nobody() {
        let of = |names: &[&str]| -> Vec<Frame> {
            let frame = |function: &&str| Frame {
                function: (*function).to_owned(),
                module: "bench".to_owned(),
            };
            names.iter().map(frame).collect()
        };
        let frames = of(&["mix", "std::thread::run", "serve", "start_thread", "clone3"]);
        let known = Catalogue::built_in();
        assert_eq!(outside(known, &frames, Some("mix")), ["serve"]);
        let call = |function: &str, module: &str| Frame {
            function: function.to_owned(),
            module: module.to_owned(),
        };
        let mut calls = vec![call("do_unlinkat", KERNEL), call("unlinkat", "libc.so.6")];
        calls.extend(frames.clone());
        assert_eq!(outside(known, &calls, None), ["mix", "serve"]);
        assert!(outside(known, &frames, Some("elsewhere")).is_empty());
    }
}

//! Trials digested into rows of rates, and the functions that their CPU is distinguished by.

use crate::frames::stacks::{Function, Stacks};
use crate::ledgers::behind;
use crate::ledgers::polled::Polled;
use crate::ledgers::row::Row;
use crate::number::{count, finite, quotient, seconds};
use crate::waits::groups::Groups;
use crate::waits::helpers::Helpers;
use crate::waits::requests::is_for_request;
use crate::waits::wait_work::WaitWork;
use kneepoint_vocab::units::Unit;
use kneepoint_vocab::{
    Clients, CoreTime, Fact, Level, Phase, StackId, StackKind, TaskOwner, ThreadRole, ThreadTime,
    Tier, TrialRecord, Wait,
};
use std::collections::{BTreeMap, BTreeSet};

/// A block within its start: the unit of resampling.
pub(crate) type Block = (u32, u32);

/// User functions and kernel entries that CPU time is distinguished by.
pub(crate) struct Functions {
    pub(crate) list: Vec<Function>,
    by_stack: BTreeMap<StackId, usize>,
}

impl Functions {
    /// All that occur on a core in `trials`.
    pub(crate) fn build(
        trials: &[&TrialRecord],
        stacks: &Stacks<'_>,
        groups: &Groups,
        clients: Clients,
    ) -> Self {
        let work = WaitWork::build(trials, groups, stacks, clients);
        let mut of_stack: BTreeMap<StackId, Function> = BTreeMap::new();
        for trial in trials {
            for fact in &trial.facts {
                if let Fact::Stack(stack) = fact
                    && stack.kind == StackKind::OnCpu
                {
                    of_stack
                        .entry(stack.stack)
                        .or_insert_with(|| work.classify(stacks.frames(stack.stack), groups));
                }
            }
        }
        let distinct: BTreeSet<Function> = of_stack.values().cloned().collect();
        let list: Vec<Function> = distinct.into_iter().collect();
        let by_stack = of_stack
            .into_iter()
            .filter_map(|(stack, function)| Some((stack, list.binary_search(&function).ok()?)))
            .collect();
        Self { list, by_stack }
    }

    /// The function that a stack taken on a core counts for, by index.
    pub(crate) fn of(&self, stack: StackId) -> Option<usize> {
        self.by_stack.get(&stack).copied()
    }

    /// The functions that are work of the lock of wait group `group`, by index.
    pub(crate) fn work_of(&self, group: usize) -> impl Iterator<Item = usize> {
        self.list
            .iter()
            .enumerate()
            .filter(move |(_, function)| function.lock == Some(group))
            .map(|(index, _)| index)
    }
}

/// A row and where it came from.
pub(crate) struct Slice<'a> {
    pub(crate) trial: &'a TrialRecord,
    pub(crate) row: Row,
}

impl Slice<'_> {
    pub(crate) fn block(&self) -> Block {
        (self.trial.id.start, self.trial.id.block)
    }
}

/// Rows of all `trials` that have core accounting and a throughput.
pub(crate) fn digest<'a>(
    trials: &[&'a TrialRecord],
    groups: &Groups,
    functions: &Functions,
    stacks: &Stacks<'_>,
    clients: Clients,
) -> Vec<Slice<'a>> {
    trials
        .iter()
        .filter_map(|trial| {
            row(trial, groups, functions, stacks, clients).map(|row| Slice { trial, row })
        })
        .collect()
}

/// Sweep slices at one level: of the baseline, unless `slices` hold a treatment's sweep alone.
pub(crate) fn sweep_at<'s, 'a>(slices: &'s [Slice<'a>], level: Level) -> Vec<&'s Slice<'a>> {
    slices
        .iter()
        .filter(|slice| {
            let id = &slice.trial.id;
            id.phase == Phase::Sweep && id.level == level
        })
        .collect()
}

fn row(
    trial: &TrialRecord,
    groups: &Groups,
    functions: &Functions,
    stacks: &Stacks<'_>,
    clients: Clients,
) -> Option<Row> {
    let core = trial.facts.iter().find_map(|fact| match fact {
        Fact::CoreTime(core) if core.cores > 0 && core.total.0 > 0 => Some(*core),
        _ => None,
    })?;
    let window = seconds(core.total) / f64::from(core.cores);
    let mut row = Row {
        throughput: finite(trial.throughput().get()),
        charged: vec![0.0; groups.list.len()],
        blocked: vec![0.0; groups.list.len()],
        waits: vec![0.0; groups.list.len()],
        waited: vec![0.0; groups.list.len()],
        woken: vec![0.0; groups.list.len()],
        serial: vec![0.0; groups.list.len()],
        profile: vec![0.0; functions.list.len()],
        ..Row::default()
    };
    let mut polled = Polled::of(trial, groups, stacks);
    let helpers = Helpers::of(trial, stacks);
    add_cores(&mut row, &core, window);
    add_threads(&mut row, trial, window);
    if let Some(group) = groups.serial(trial, clients) {
        row.serial[group] = 1.0;
    }
    let known = row.clients > 0.0;
    for fact in &trial.facts {
        match fact {
            Fact::Wait(wait) if is_for_request(stacks.known, clients, known, wait) => {
                polled.add(&mut row, wait, window);
            }
            Fact::Task(task) if task.owner == TaskOwner::Generator => {
                row.generator_threads += quotient(seconds(task.cpu), seconds(task.over));
            }
            Fact::Tier { tier: Tier::Fallback } => row.shared_out = 1.0,
            Fact::Wait(wait) => {
                let mine = 1.0 - helpers.share(&wait.key);
                add_wait(&mut row, trial, wait, groups, (window, mine));
            }
            Fact::Stack(stack) if stack.kind == StackKind::OnCpu => {
                if let Some(position) = functions.of(stack.stack) {
                    row.profile[position] += seconds(stack.weight);
                }
            }
            _ => {}
        }
    }
    behind::add(&mut row, trial, groups);
    (row.throughput > 0.0).then_some(row)
}

fn add_cores(row: &mut Row, core: &CoreTime, window: f64) {
    row.cores = f64::from(core.cores);
    row.system = seconds(core.system) / window;
    row.generator = seconds(core.generator) / window;
    row.others = seconds(core.others) / window;
    row.kernel = seconds(core.kernel) / window;
    row.kneepoint = seconds(core.kneepoint) / window;
    row.idle = seconds(core.idle) / window;
    row.idle_scheduler = seconds(core.idle_scheduler) / window;
    row.steal = seconds(core.steal) / window;
    row.irq = seconds(core.irq) / window;
}

fn add_threads(row: &mut Row, trial: &TrialRecord, window: f64) {
    let mut system = 0.0;
    let mut any = false;
    for fact in &trial.facts {
        let Fact::ThreadTime(time) = fact else { continue };
        any = true;
        system += seconds(time.running) / window;
        row.switches += count(time.switches) / window;
        if time.role == Some(ThreadRole::Client) {
            row.clients += f64::from(time.threads);
            row.running += seconds(time.running) / window;
            row.runnable +=
                (seconds(time.runnable_woken) + seconds(time.runnable_preempted)) / window;
        } else if waits_mostly(time) {
            row.idle_threads += f64::from(time.threads);
        }
    }
    if any {
        row.system = system;
    }
}

fn waits_mostly(time: &ThreadTime) -> bool {
    2.0 * seconds(time.blocked) >= seconds(time.existed)
}

/// Threads that serve no client and wait for work end many idle stretches without being what
/// the cores waited for. Their charges are left uncharged, to be split over what the clients
/// were blocked on meanwhile. Where the clients are not known all threads count alike, unless one
/// does the work of all. Of a runtime's own threads, which may look like clients, none counts:
/// `mine` is the part of the waits that is not theirs.
fn add_wait(
    row: &mut Row,
    trial: &TrialRecord,
    wait: &Wait,
    groups: &Groups,
    (window, mine): (f64, f64),
) {
    let Some(group) = groups.of(trial, &wait.key) else { return };
    let (blocked, ended) = (seconds(wait.blocked) / window, count(wait.count) / window);
    let client = wait.role == ThreadRole::Client;
    row.waits[group] += ended;
    row.waited[group] += blocked;
    if client {
        row.blocked[group] += mine * blocked;
    }
    let alike = row.clients <= 0.0 && !row.serial.contains(&1.0);
    let asked_for = client || alike || !groups.is_for_work(group, wait.key.reason);
    let charged = if asked_for { mine } else { 0.0 };
    row.charged[group] += charged * seconds(wait.idle_charged) / window;
    row.woken[group] += charged * ended;
    row.woken_for_work += (1.0 - charged) * ended;
}

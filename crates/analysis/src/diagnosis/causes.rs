//! Causes: slots of lost cores with the evidence that makes them causes.

use crate::diagnosis::confined::confined;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::losses::{Loss, work_of};
use crate::frames::names::KERNEL;
use crate::frames::stacks::Stacks;
use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::balance::Balance;
use crate::ledgers::behind;
use crate::ledgers::core_ledger::Slot;
use crate::ledgers::row::{Row, per_operation};
use crate::ledgers::slices::{Functions, Slice};
use crate::number::{finite, quotient, tally};
use crate::quality::collector::completeness;
use crate::waits::groups::Groups;
use crate::waits::herd::HERD_WAITS;
use kneepoint_vocab::findings::{
    Cause, CauseEvidence, CauseKind, Charge, CodeShare, Confined, HolderState, Name, Place,
    WaitEvidence, WaitWork,
};
use kneepoint_vocab::units::{Cores, PerSecond, Ratio, Seconds};
use kneepoint_vocab::{
    CauseKey, CodeKind, Estimate, SourceLine, StackKind, StackWeight, TrialRecord, WaitReason,
};
use std::collections::BTreeMap;

/// CPU of a lock's own functions below this part of C is not worth a word.
const LEAST_WORK: f64 = 0.01;

/// Code that is so much of a function's extra CPU is what it takes more for.
const HALF: f64 = 0.5;
/// Less of it is not worth a word.
const LEAST_CODE: f64 = 0.1;
/// Code that is so much of a function is all that it does.
const MOSTLY: f64 = 0.8;

/// A smaller part of the waits whose holder waits for another lock is not worth a word.
const LEAST_BEHIND: f64 = 0.1;

/// Less time than this in which nothing runs is not worth a word.
const LEAST_CONVOY: f64 = 0.1;

/// Everything that describing a cause needs.
pub(crate) struct Context<'a> {
    pub(crate) accounts: &'a Accounts,
    pub(crate) account: &'a Account,
    pub(crate) groups: &'a Groups,
    pub(crate) functions: &'a Functions,
    pub(crate) stacks: &'a Stacks<'a>,
    /// Sweep slices at the focus level.
    pub(crate) slices: &'a [&'a Slice<'a>],
}

/// The causes, in the order of `losses`.
pub(crate) fn causes(context: &Context<'_>, losses: &[Loss]) -> Vec<Cause> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut causes: Vec<Cause> = Vec::new();
    for loss in losses {
        let mut cause = describe(context, loss);
        cause.source = source(context.stacks, &cause);
        let number = numbers.entry(cause.kind.as_str()).or_default();
        *number += 1;
        cause.id = format!("{}-{number}", cause.kind.as_str());
        causes.push(cause);
    }
    for at in 0..losses.len() {
        let lock = lock_beside(context, losses, at).or_else(|| lock_inside(context, losses, at));
        causes[at].follows_from = lock.map(|lock| causes[lock].id.clone());
    }
    name_herds(&mut causes);
    causes
}

/// Says so at the condition whose threads, just let go, wait for the lock that they want back: both
/// waits are in one function. And says nothing at the lock where that is hardly worth a word.
fn name_herds(causes: &mut [Cause]) {
    let waits: Vec<Option<WaitIn>> = causes.iter().map(WaitIn::of).collect();
    for (lock, its) in waits.iter().enumerate() {
        let Some((its, share)) = its.as_ref().and_then(|wait| Some((wait, wait.after_wake?)))
        else {
            continue;
        };
        for (condition, of) in waits.iter().enumerate() {
            let beside = |of: &&WaitIn| of.kind == CauseKind::Thread && of.function == its.function;
            let Some(of) = of.as_ref().filter(beside) else { continue };
            let herd = (its.blocked * share.0 >= HERD_WAITS * of.blocked).then_some(share);
            if let Charge::Wait { wait } = &mut causes[condition].evidence.charge {
                wait.herd = herd;
            }
            if let Charge::Wait { wait } = &mut causes[lock].evidence.charge {
                wait.after_wake = herd;
            }
        }
    }
}

/// What a cause says of waits in one function.
struct WaitIn {
    kind: CauseKind,
    function: String,
    /// Threads that wait, in the mean.
    blocked: f64,
    after_wake: Option<Ratio>,
}

impl WaitIn {
    fn of(cause: &Cause) -> Option<Self> {
        let Charge::Wait { wait } = &cause.evidence.charge else { return None };
        Some(Self {
            kind: cause.kind,
            function: cause.path.first()?.clone(),
            blocked: wait.rate.map_or(0.0, |rate| rate.0) * wait.mean.0,
            after_wake: wait.after_wake,
        })
    }
}

/// Where the code lies that a cause is named by: its own frame, or the first of its path with a
/// source.
fn source(stacks: &Stacks<'_>, cause: &Cause) -> Option<SourceLine> {
    if matches!(cause.kind, CauseKind::Kernel | CauseKind::KernelLock) {
        return None;
    }
    let frames = std::iter::once(&cause.key.frame).chain(&cause.path);
    let mut found = frames.filter_map(|frame| {
        let module = stacks.module_of(frame)?;
        stacks.source(frame, module)
    });
    found.next().cloned()
}

/// The losses with each kernel lock before what its system call takes more beside it: what the
/// holder does with shared data is dearer because others want it too.
pub(crate) fn locks_first(context: &Context<'_>, mut losses: Vec<Loss>) -> Vec<Loss> {
    let mut at = 0;
    while at < losses.len() {
        let lock = lock_beside(context, &losses, at).filter(|lock| *lock > at);
        if let Some(lock) = lock {
            let loss = losses.remove(lock);
            losses.insert(at, loss);
        }
        at += 1;
    }
    losses
}

/// The kernel lock that is taken in the system call whose own work is the loss at `at`, where it is
/// at least half as great.
fn lock_beside(context: &Context<'_>, losses: &[Loss], at: usize) -> Option<usize> {
    let Slot::Function(function) = losses[at].slot else { return None };
    let what = &context.functions.list[function];
    let Name::Kernel(entry) = &what.name else { return None };
    let evidence = Evidence::new(context.slices, context.stacks);
    losses.iter().position(|loss| {
        let Slot::Group(group) = loss.slot else { return false };
        context.groups.list[group].kind == CauseKind::KernelLock
            && loss.lost.value.0 >= HALF * losses[at].lost.value.0
            && evidence.entry(context.functions, group).as_ref() == Some(entry)
    })
}

/// The lock that the holders of the lock at `at` wait for in most of its waits, if it costs more.
fn lock_inside(context: &Context<'_>, losses: &[Loss], at: usize) -> Option<usize> {
    let Slot::Group(group) = losses[at].slot else { return None };
    let (inner, share) = behind::inner(&context.account.row, group)?;
    let found = losses.iter().position(|loss| loss.slot == Slot::Group(inner));
    found.filter(|inner| share >= HALF && *inner < at)
}

/// Nothing but the charge yet: whoever follows the waits adds what serves them.
fn evidence(context: &Context<'_>, charge: Charge) -> CauseEvidence {
    CauseEvidence {
        of: Cores(finite(context.account.balance.total)),
        charge,
        served_by: None,
        woken_by: None,
        devices: Vec::new(),
        workers: Vec::new(),
    }
}

fn plain(loss: &Loss, key: CauseKey, name: Name, evidence: CauseEvidence) -> Cause {
    Cause {
        id: String::new(),
        kind: key.kind,
        key,
        name,
        source: None,
        path: Vec::new(),
        share: loss.share,
        lost: loss.lost,
        waits: None,
        wait_mean: None,
        wait_longest: None,
        wait_per_operation: None,
        holders: Vec::new(),
        stacks: None,
        waker_stacks: None,
        stacks_complete: None,
        cured_by: None,
        evidence,
        follows_from: None,
    }
}

fn describe(context: &Context<'_>, loss: &Loss) -> Cause {
    let cores = loss.lost.value;
    match loss.slot {
        Slot::Function(function) => describe_function(context, loss, function),
        Slot::OtherFunctions => {
            let stacks = context.account.balance.by_function.is_some();
            let evidence = evidence(context, Charge::OtherFunctions { cores, stacks });
            let key = CauseKey::new(CauseKind::Function, "other functions", "");
            plain(loss, key, Name::AllFunctions, evidence)
        }
        Slot::Group(group) => describe_wait(context, loss, group),
        Slot::Scheduler => {
            let confined = confined(context.slices);
            let (frame, name) = match confined {
                Some(Confined { cpus, of }) => ("confined", Name::Confined { cpus, of }),
                None => ("runnable", Name::Runnable),
            };
            let evidence = evidence(context, Charge::Scheduler { idle: cores, confined });
            plain(loss, CauseKey::new(CauseKind::Scheduler, frame, ""), name, evidence)
        }
        Slot::Generator => plain(
            loss,
            CauseKey::new(CauseKind::Generator, "load generator", ""),
            Name::Generator,
            evidence(context, generator_charge(&context.account.balance)),
        ),
    }
}

fn generator_charge(balance: &Balance) -> Charge {
    let own = Cores(finite(balance.generator));
    Charge::FullGenerator { own, idle: Cores(finite(balance.no_request_lost)) }
}

fn describe_function(context: &Context<'_>, loss: &Loss, function: usize) -> Cause {
    let what = &context.functions.list[function];
    let (key, path) = key_and_path(context.stacks, &what.name);
    let row = &context.account.row;
    let share = quotient(row.profile[function], row.profile.iter().sum());
    let now = share * row.demand();
    let least =
        context.accounts.reference.by_function.as_ref().map_or(0.0, |parts| parts[function]);
    let evidence_of = Evidence::new(context.slices, context.stacks);
    let on_cpu = |stack: &StackWeight| {
        stack.kind == StackKind::OnCpu && context.functions.of(stack.stack) == Some(function)
    };
    let code = evidence_of.code(|_, stack| on_cpu(stack));
    let charge = Charge::Function {
        cpu: Seconds(finite(now)),
        least: Seconds(finite(least)),
        least_at: context.accounts.reference_level,
        cores: loss.lost.value,
        code: code_of_extra(&code, quotient(now - least, now)),
    };
    let name = what.name.clone();
    let known = context.stacks.known;
    let callers = match &name {
        Name::Kernel(entry) if known.is_nobody_s(entry) => Vec::new(),
        Name::Kernel(_) | Name::KernelWork { .. } => {
            evidence_of.callers(None, |_, stack| on_cpu(stack))
        }
        _ => evidence_of.callers(Some(&path), |_, stack| on_cpu(stack)),
    };
    Cause {
        path: std::iter::once(path).chain(callers).collect(),
        stacks: evidence_of.flame(|_, stack| on_cpu(stack)),
        stacks_complete: completeness(evidence_of.weights(|_, stack| on_cpu(stack))),
        ..plain(loss, key, name, evidence(context, charge))
    }
}

/// The key of what a function's CPU goes by, and the function that stands for it.
fn key_and_path(stacks: &Stacks<'_>, name: &Name) -> (CauseKey, String) {
    let function = match name {
        Name::Kernel(entry) => {
            return (CauseKey::new(CauseKind::Kernel, entry, KERNEL), name.to_string());
        }
        Name::KernelWork { work, entry } => {
            let frame = format!("{work} in {entry}");
            return (CauseKey::new(CauseKind::Kernel, frame, KERNEL), name.to_string());
        }
        Name::Object { place: Place::In(caller), .. } => caller.clone(),
        _ => name.to_string(),
    };
    let module = stacks.module_of(&function).unwrap_or_default();
    (CauseKey::new(CauseKind::Function, &function, module), function)
}

/// What the code of a function does that makes its extra CPU, `extra` of all that it takes. One
/// that spins or takes cache lines from others stands for it from half of it on. Half of all code
/// reads memory whatever it does, so that has to be nearly all that the function does.
fn code_of_extra(code: &BTreeMap<CodeKind, f64>, extra: f64) -> Option<CodeShare> {
    if extra <= 0.0 {
        return None;
    }
    let share = |kind| code.get(&kind).copied().unwrap_or(0.0);
    let (atomic, retry) = (share(CodeKind::Atomic), share(CodeKind::Retry));
    // Where little is computed to be tried again, it is the line that makes it slow.
    let line = if retry > atomic { CodeKind::Retry } else { CodeKind::Atomic };
    let contended = [(CodeKind::Spin, share(CodeKind::Spin)), (line, atomic + retry)];
    let most = contended.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (kind, share) = match most {
        (kind, share) if share >= LEAST_CODE.max(HALF * extra) => (kind, share),
        _ if share(CodeKind::Memory) >= MOSTLY => (CodeKind::Memory, share(CodeKind::Memory)),
        _ => return None,
    };
    Some(CodeShare { kind, share: Ratio(finite(share)) })
}

fn describe_wait(context: &Context<'_>, loss: &Loss, group: usize) -> Cause {
    let what = &context.groups.list[group];
    let row = &context.account.row;
    let (rate, waited) = (row.waits[group], row.waited[group]);
    let evidence_of = Evidence::new(context.slices, context.stacks);
    let of_group = |kind: StackKind| {
        move |trial: &TrialRecord, stack: &StackWeight| {
            stack.kind == kind && is_wait_for(context, trial, stack, group)
        }
    };
    let waits: Estimate<PerSecond> =
        context.accounts.estimate(context.account, |r, _| r.waits[group]);
    let each: Estimate<Seconds> =
        context.accounts.estimate(context.account, |r, _| per_operation(r.blocked[group], r));
    let mean = quotient(waited, rate);
    let holders = evidence_of.holders(context.groups, group);
    let mut wait = wait_evidence(context, group, rate, mean, &holders);
    if what.kind == CauseKind::Lock {
        wait.after_wake = evidence_of.after_wake(of_group(StackKind::OffCpu));
    }
    let charge = Charge::Wait { wait };
    let woken_by = (what.kind == CauseKind::Thread)
        .then(|| evidence_of.waker(context.groups, group))
        .flatten();
    let evidence = CauseEvidence { woken_by, ..evidence(context, charge) };
    let plain = plain(loss, what.key.clone(), what.name.clone(), evidence);
    let waited_for = waited > 0.0 || context.account.balance.idle[group] > 0.0;
    if !waited_for {
        return spun_for(context, plain, group);
    }
    Cause {
        path: path_of(context, group),
        waits: (rate > 0.0).then_some(waits),
        wait_mean: (rate > 0.0).then_some(Seconds(mean)),
        wait_longest: evidence_of.longest(context.groups, group).map(Seconds),
        // Where clients share threads no thread's wait is an operation's.
        wait_per_operation: (row.clients > 0.0).then_some(each),
        holders,
        stacks: evidence_of.flame(of_group(StackKind::OffCpu)),
        waker_stacks: evidence_of.flame(of_group(StackKind::Waker)),
        stacks_complete: completeness(evidence_of.weights(of_group(StackKind::OffCpu))),
        ..plain
    }
}

/// A kernel lock that nobody slept for: the stacks of those who spin are its evidence.
fn spun_for(context: &Context<'_>, cause: Cause, group: usize) -> Cause {
    let evidence_of = Evidence::new(context.slices, context.stacks);
    let spins = |_: &TrialRecord, stack: &StackWeight| spins_for(context, stack, group);
    Cause {
        path: path_of(context, group),
        stacks: evidence_of.flame(spins),
        stacks_complete: completeness(evidence_of.weights(spins)),
        ..cause
    }
}

/// Whether a stack is of one who waits for a group, or who ends such a wait.
fn is_wait_for(
    context: &Context<'_>,
    trial: &TrialRecord,
    stack: &StackWeight,
    group: usize,
) -> bool {
    stack.wait.as_ref().and_then(|key| context.groups.of(trial, key)) == Some(group)
}

/// Whether a stack that was taken on a core is work for a group's lock.
fn spins_for(context: &Context<'_>, stack: &StackWeight, group: usize) -> bool {
    let function = context.functions.of(stack.stack).filter(|_| stack.kind == StackKind::OnCpu);
    function.and_then(|function| context.functions.list[function].lock) == Some(group)
}

/// Functions from the one that names a group outward; behind those of the kernel the program's, who
/// calls it.
fn path_of(context: &Context<'_>, group: usize) -> Vec<String> {
    let what = &context.groups.list[group];
    let mut path = what.path.clone();
    if what.kind == CauseKind::KernelLock {
        let evidence_of = Evidence::new(context.slices, context.stacks);
        path.extend(evidence_of.callers(None, |trial, stack| match stack.kind {
            StackKind::OffCpu => is_wait_for(context, trial, stack, group),
            _ => spins_for(context, stack, group),
        }));
    }
    path
}

/// The share of the time in which what is waited for is on its way to a thread that has to wake.
fn convoy(context: &Context<'_>, group: usize) -> Option<Ratio> {
    let (row, balance) = (&context.account.row, &context.account.balance);
    let kind = context.groups.list[group].kind;
    let is_passed = matches!(kind, CauseKind::Lock | CauseKind::KernelLock | CauseKind::Thread);
    if !is_passed || row.clients < 2.0 || row.blocked[group] <= 0.0 {
        return None;
    }
    let share = nothing_runs(row, balance, group).or_else(|| slower_than_one(context, group))?;
    Some(Ratio(share))
}

/// More idles than all cores but one, while next to none of the clients wait for anything else:
/// whoever had it would run, or be blocked on something.
fn nothing_runs(row: &Row, balance: &Balance, group: usize) -> Option<f64> {
    let share = balance.idle[group] - (balance.total - 1.0);
    let elsewhere = row.blocked.iter().sum::<f64>() - row.blocked[group];
    (share >= LEAST_CONVOY && elsewhere < HALF * share).then_some(share)
}

/// One client alone does more, though most operations wait for it: who has it has it for no longer
/// than that client's operation takes, what else an operation's CPU has risen by, and while it
/// waits for a core. The rest of the time nobody has it.
fn slower_than_one(context: &Context<'_>, group: usize) -> Option<f64> {
    let (row, balance) = (&context.account.row, &context.account.balance);
    let one = context.accounts.levels.iter().find(|account| account.level.clients == 1)?;
    let in_kernel = context.groups.list[group].kind == CauseKind::KernelLock;
    let is_behind = behind::inner(row, group).is_some_and(|(_, share)| share >= LEAST_BEHIND);
    if in_kernel || is_behind || row.waits[group] < HALF * row.throughput {
        return None;
    }
    let risen = balance.extra_cpu - work_of(balance, group, context.functions);
    let share = 1.0 - row.throughput / one.row.throughput - risen.max(0.0) - row.runnable;
    (share >= LEAST_CONVOY).then_some(finite(share))
}

/// Cores that the kernel keeps busy for the library whose lock a group is, where they are worth a
/// word.
fn library(context: &Context<'_>, group: usize) -> Option<Cores> {
    let what = &context.groups.list[group];
    let known = context.stacks.known;
    let library = what.path.iter().find(|frame| known.is_inside(frame))?;
    let share = Evidence::new(context.slices, context.stacks).in_kernel_for(library)?;
    let cores = share * context.account.row.system;
    (cores >= LEAST_WORK * context.account.balance.total).then(|| Cores(finite(cores)))
}

fn wait_evidence(
    context: &Context<'_>,
    group: usize,
    rate: f64,
    mean: f64,
    holders: &[(HolderState, Ratio)],
) -> WaitEvidence {
    let balance = &context.account.balance;
    let what = &context.groups.list[group];
    let work = work_of(balance, group, context.functions);
    let known = holders.iter().filter(|(state, _)| *state != HolderState::Unknown);
    let holder = known.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    WaitEvidence {
        idle: Cores(finite(balance.idle[group])),
        work: (work >= LEAST_WORK * balance.total).then_some(WaitWork {
            cores: Cores(finite(work)),
            spins: what.kind == CauseKind::KernelLock,
        }),
        rate: (rate > 0.0).then_some(PerSecond(finite(rate))),
        mean: Seconds(mean),
        holder: holder.copied().filter(|(_, share)| share.0 > 0.0),
        polls: what.kind == CauseKind::Other && what.key.frame == WaitReason::Timer.as_str(),
        convoy: convoy(context, group),
        after_wake: None,
        herd: None,
        behind: behind::inner(&context.account.row, group)
            .map(|(_, share)| Ratio(finite(share)))
            .filter(|share| share.0 >= LEAST_BEHIND),
        library: library(context, group),
        from_outer: Some(quotient(balance.from_outer[group], balance.idle[group]))
            .filter(|share| *share >= LEAST_BEHIND)
            .map(|share| Ratio(finite(share))),
        objects: tally(what.objects),
    }
}

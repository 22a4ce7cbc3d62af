//! Causes: slots of lost cores with the evidence that makes them causes.

use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::losses::{Loss, work_of};
use crate::frames::names::KERNEL;
use crate::frames::stacks::Stacks;
use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::balance::Balance;
use crate::ledgers::core_ledger::Slot;
use crate::ledgers::row::per_operation;
use crate::ledgers::slices::{Functions, Slice};
use crate::number::{finite, quotient, tally};
use crate::quality::collector::completeness;
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::{
    Cause, CauseEvidence, CauseKind, Charge, HolderState, Name, WaitEvidence, WaitWork,
};
use kneepoint_vocab::units::{Cores, PerSecond, Ratio, Seconds};
use kneepoint_vocab::{CauseKey, Estimate, StackKind};
use std::collections::BTreeMap;

/// CPU of a lock's own functions below this part of C is not worth a word.
const LEAST_WORK: f64 = 0.01;

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
        let number = numbers.entry(cause.kind.as_str()).or_default();
        *number += 1;
        cause.id = format!("{}-{number}", cause.kind.as_str());
        causes.push(cause);
    }
    causes
}

/// Nothing but the charge yet: whoever follows the waits adds what serves them.
fn evidence(context: &Context<'_>, charge: Charge) -> CauseEvidence {
    CauseEvidence {
        of: Cores(finite(context.account.balance.total)),
        charge,
        served_by: None,
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
        Slot::Scheduler => plain(
            loss,
            CauseKey::new(CauseKind::Scheduler, "runnable", ""),
            Name::Runnable,
            evidence(context, Charge::Scheduler { idle: cores }),
        ),
        Slot::Generator => plain(
            loss,
            CauseKey::new(CauseKind::Generator, "load generator", ""),
            Name::Generator,
            evidence(context, generator_charge(&context.account.balance, loss)),
        ),
    }
}

fn generator_charge(balance: &Balance, loss: &Loss) -> Charge {
    let own = Cores(finite(balance.generator));
    // Less than its CPU is lost where it has more to give.
    if loss.lost.value.0 < balance.generator * (1.0 - 1e-9) {
        return Charge::DearerGenerator { own, more: loss.lost.value };
    }
    Charge::FullGenerator { own, idle: Cores(finite(balance.no_request_lost)) }
}

fn describe_function(context: &Context<'_>, loss: &Loss, function: usize) -> Cause {
    let what = &context.functions.list[function];
    let key = if let Name::Kernel(entry) = &what.name {
        CauseKey::new(CauseKind::Kernel, entry, KERNEL)
    } else {
        let function = what.name.to_string();
        let module = context.stacks.module_of(&function).unwrap_or_default();
        CauseKey::new(CauseKind::Function, function, module)
    };
    let row = &context.account.row;
    let share = quotient(row.profile[function], row.profile.iter().sum());
    let now = share * row.demand();
    let least =
        context.accounts.reference.by_function.as_ref().map_or(0.0, |parts| parts[function]);
    let charge = Charge::Function {
        cpu: Seconds(finite(now)),
        least: Seconds(finite(least)),
        least_at: context.accounts.reference_level,
        cores: loss.lost.value,
    };
    let evidence_of = Evidence::new(context.slices, context.stacks);
    let on_cpu = |stack: &kneepoint_vocab::StackWeight| {
        stack.kind == StackKind::OnCpu && context.functions.of(stack.stack) == Some(function)
    };
    let name = what.name.clone();
    Cause {
        path: vec![name.to_string()],
        stacks: evidence_of.flame(|_, stack| on_cpu(stack)),
        stacks_complete: completeness(evidence_of.weights(|_, stack| on_cpu(stack))),
        ..plain(loss, key, name, evidence(context, charge))
    }
}

fn describe_wait(context: &Context<'_>, loss: &Loss, group: usize) -> Cause {
    let what = &context.groups.list[group];
    let row = &context.account.row;
    let (rate, waited) = (row.waits[group], row.waited[group]);
    let evidence_of = Evidence::new(context.slices, context.stacks);
    let of_group = |kind: StackKind| {
        move |trial: &kneepoint_vocab::TrialRecord, stack: &kneepoint_vocab::StackWeight| {
            let key = stack.wait.as_ref().filter(|_| stack.kind == kind);
            key.and_then(|key| context.groups.of(trial, key)) == Some(group)
        }
    };
    let waits: Estimate<PerSecond> =
        context.accounts.estimate(context.account, |r, _| r.waits[group]);
    let each: Estimate<Seconds> =
        context.accounts.estimate(context.account, |r, _| per_operation(r.blocked[group], r));
    let mean = quotient(waited, rate);
    let holders = evidence_of.holders(context.groups, group);
    let charge = wait_charge(context, group, rate, mean, &holders);
    let plain = plain(loss, what.key.clone(), what.name.clone(), evidence(context, charge));
    let waited_for = waited > 0.0 || context.account.balance.idle[group] > 0.0;
    if !waited_for {
        return spun_for(context, plain, group);
    }
    Cause {
        path: what.path.clone(),
        waits: (rate > 0.0).then_some(waits),
        wait_mean: (rate > 0.0).then_some(Seconds(mean)),
        wait_longest: evidence_of.longest(context.groups, group).map(Seconds),
        wait_per_operation: Some(each),
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
    let spins = |stack: &kneepoint_vocab::StackWeight| {
        let function = context.functions.of(stack.stack).filter(|_| stack.kind == StackKind::OnCpu);
        function.and_then(|function| context.functions.list[function].lock) == Some(group)
    };
    Cause {
        path: context.groups.list[group].path.clone(),
        stacks: evidence_of.flame(|_, stack| spins(stack)),
        stacks_complete: completeness(evidence_of.weights(|_, stack| spins(stack))),
        ..cause
    }
}

fn wait_charge(
    context: &Context<'_>,
    group: usize,
    rate: f64,
    mean: f64,
    holders: &[(HolderState, Ratio)],
) -> Charge {
    let balance = &context.account.balance;
    let what = &context.groups.list[group];
    let work = work_of(balance, group, context.functions);
    let known = holders.iter().filter(|(state, _)| *state != HolderState::Unknown);
    let holder = known.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let wait = WaitEvidence {
        idle: Cores(finite(balance.idle[group])),
        work: (work >= LEAST_WORK * balance.total).then_some(WaitWork {
            cores: Cores(finite(work)),
            spins: what.kind == CauseKind::KernelLock,
        }),
        rate: (rate > 0.0).then_some(PerSecond(finite(rate))),
        mean: Seconds(mean),
        holder: holder.copied().filter(|(_, share)| share.0 > 0.0),
        objects: tally(what.objects),
    };
    Charge::Wait { wait }
}

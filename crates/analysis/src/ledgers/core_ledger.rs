//! The core ledger as lines that people read.

use crate::frames::stacks::Function;
use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::balance::Balance;
use crate::ledgers::row::Row;
use crate::ledgers::slices::Functions;
use crate::number::{finite, quotient};
use crate::waits::groups::Groups;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::{CoreLedger, CoreLine, CoreName, IdleAccount, LineKind};
use kneepoint_vocab::units::{Cores, Ratio, Seconds};
use std::collections::BTreeMap;

/// Lines below this part of C are summed.
const LEAST_LINE: f64 = 0.01;
/// Lines below this part of C are rounding: they are left out.
const ROUNDING: f64 = 1e-9;
/// Functions with a line of their own, at most.
const MOST_FUNCTIONS: usize = 6;

/// What a line of the core ledger stands for; a cause is charged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// A user function or kernel entry, by index.
    Function(usize),
    /// Extra CPU of all other functions, or of all where there are no stacks.
    OtherFunctions,
    /// A wait group, by index: idle for it, and the CPU of its own lock functions.
    Group(usize),
    /// Runnable threads beside idle cores.
    Scheduler,
    /// The load generator: what it takes above its usual price or, where it has no more to give,
    /// its CPU on the system's cores and their idling for its next request.
    Generator,
}

/// Which causes the slots are, by [`Cause::id`](kneepoint_vocab::findings::Cause::id).
pub(crate) struct Charged<'a> {
    pub(crate) causes: &'a BTreeMap<Slot, String>,
    /// The generator has no more to give: all that it takes is charged to it.
    pub(crate) generator_full: bool,
}

impl Charged<'_> {
    pub(crate) fn cause(&self, slot: Slot) -> Option<String> {
        self.causes.get(&slot).cloned()
    }
}

/// Functions whose inflation has a line of its own at this level: the work of locks, which is
/// part of their causes however small, then the greatest others.
pub(crate) fn shown_functions(balance: &Balance, functions: &Functions) -> Vec<usize> {
    let Some(parts) = &balance.by_function else { return Vec::new() };
    let (mut work, mut plain): (Vec<usize>, Vec<usize>) =
        (0..parts.len()).partition(|f| functions.list[*f].lock.is_some());
    let greatest_first =
        |a: &usize, b: &usize| parts[*b].total_cmp(&parts[*a]).then_with(|| a.cmp(b));
    plain.retain(|f| parts[*f] >= LEAST_LINE * balance.total);
    plain.sort_by(greatest_first);
    plain.truncate(MOST_FUNCTIONS);
    work.sort_by(greatest_first);
    work.extend(plain);
    work
}

/// Wait groups whose idle time has a line of its own at this level, greatest first.
pub(crate) fn shown_groups(balance: &Balance) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..balance.idle.len())
        .filter(|group| balance.idle[*group] >= LEAST_LINE * balance.total)
        .collect();
    shown.sort_by(|a, b| balance.idle[*b].total_cmp(&balance.idle[*a]).then(a.cmp(b)));
    shown
}

/// The slot that a function's inflation is charged to: its lock's, or its own.
pub(crate) fn slot_of(what: &Function, function: usize) -> Slot {
    what.lock.map_or(Slot::Function(function), Slot::Group)
}

/// Extra CPU of one function; NaN where the resample has no stacks.
pub(crate) fn extra_cpu_of(balance: &Balance, function: usize) -> f64 {
    balance.by_function.as_ref().map_or(f64::NAN, |parts| parts[function])
}

/// Extra CPU beside the functions in `shown`.
pub(crate) fn other_extra_cpu(balance: &Balance, shown: &[usize]) -> f64 {
    balance.extra_cpu - shown.iter().map(|f| extra_cpu_of(balance, *f)).sum::<f64>()
}

struct Lines<'a> {
    accounts: &'a Accounts,
    account: &'a Account,
    charged: &'a Charged<'a>,
    lines: Vec<CoreLine>,
}

impl Lines<'_> {
    fn add(
        &mut self,
        kind: LineKind,
        name: CoreName,
        slot: Option<Slot>,
        quantity: impl Fn(&Row, &Balance) -> f64,
    ) {
        let cores: Estimate<Cores> = self.accounts.estimate(self.account, quantity);
        if cores.value.0.abs() > ROUNDING * self.account.balance.total {
            let cause = slot.and_then(|slot| self.charged.cause(slot));
            self.lines.push(CoreLine { kind, name, cores, cause });
        }
    }

    fn functions(&mut self, functions: &Functions, groups: &Groups) {
        let shown = shown_functions(&self.account.balance, functions);
        for function in &shown {
            let what = &functions.list[*function];
            let lock = what.lock.map(|group| groups.list[group].name.clone());
            let name = CoreName::Function { name: what.name.clone(), lock };
            self.add(what.kind, name, Some(slot_of(what, *function)), |_, b| {
                extra_cpu_of(b, *function)
            });
        }
        let name = if self.account.balance.by_function.is_none() {
            CoreName::Unnamed
        } else if shown.is_empty() {
            CoreName::SpreadFunctions
        } else {
            CoreName::OtherFunctions
        };
        self.add(LineKind::ExtraCpu, name, Some(Slot::OtherFunctions), |_, b| {
            other_extra_cpu(b, &shown)
        });
    }

    fn generator(&mut self) {
        let slot = self.charged.generator_full.then_some(Slot::Generator);
        self.add(LineKind::Generator, CoreName::Generator, slot, |_, b| b.generator);
    }

    fn idle(&mut self, groups: &Groups) {
        let shown = shown_groups(&self.account.balance);
        for group in &shown {
            let what = &groups.list[*group];
            let name = CoreName::Wait { name: what.name.clone() };
            self.add(what.line, name, Some(Slot::Group(*group)), |_, b| b.idle[*group]);
        }
        let turn = self.charged.generator_full.then_some(Slot::Generator);
        self.add(LineKind::IdleNoWork, CoreName::NoRequest, turn, |_, b| b.no_request);
        self.add(LineKind::IdleScheduler, CoreName::Scheduler, Some(Slot::Scheduler), {
            |_, b| b.scheduler
        });
        self.add(LineKind::IdleOther, CoreName::OtherWaits, None, |_, b| {
            let rest =
                |(group, idle): (usize, &f64)| if shown.contains(&group) { 0.0 } else { *idle };
            b.idle.iter().enumerate().map(rest).sum()
        });
        self.add(LineKind::IdleNoWork, CoreName::Unused, None, |_, b| b.unused);
    }
}

/// The ledger of one level. The unaccounted line closes the sum to C exactly.
pub(crate) fn core_ledger(
    accounts: &Accounts,
    account: &Account,
    groups: &Groups,
    functions: &Functions,
    charged: &Charged<'_>,
) -> CoreLedger {
    let mut lines = Lines { accounts, account, charged, lines: Vec::new() };
    lines.add(LineKind::Useful, CoreName::Useful, None, |_, b| b.useful);
    lines.functions(functions, groups);
    lines.generator();
    lines.add(LineKind::Kernel, CoreName::KernelThreads, None, |_, b| b.kernel);
    lines.add(LineKind::Interrupt, CoreName::Steal, None, |_, b| b.steal);
    lines.add(LineKind::Interrupt, CoreName::Interrupts, None, |_, b| b.irq);
    lines.add(LineKind::Others, CoreName::Others, None, |_, b| b.others);
    lines.add(LineKind::Others, CoreName::Kneepoint, None, |_, b| b.kneepoint);
    lines.idle(groups);
    lines.add(LineKind::Unaccounted, CoreName::Unaccounted, None, |_, b| b.unaccounted);
    let total = account.balance.total;
    CoreLedger {
        lines: lines.lines,
        total: Cores(finite(total)),
        unaccounted: Ratio(quotient(account.balance.unaccounted.abs(), total)),
        idle: Some(IdleAccount {
            charged: accounts.estimate(account, |_, b| b.ways.charged),
            handed_over: accounts.estimate(account, |_, b| b.ways.handed_over),
            spread: accounts.estimate(account, |_, b| b.ways.spread),
            doubtful: accounts.estimate(account, |_, b| b.ways.doubtful),
            unused: accounts.estimate(account, |_, b| b.unused),
        }),
        demand: accounts.estimate(account, |row, _| row.demand()),
        demand_reference: Seconds(finite(accounts.reference.demand)),
    }
}

//! Lost cores at the focus level, slot by slot.
//!
//! Lost = extra CPU + idle above 'unused' + what a saturated generator takes.
//! A load generator costs what it costs: its CPU is a line of the ledger and of the price, whose
//! rise is shown there, and no loss of the system's. One with no more to give loses all that it
//! takes and, where there are as many clients as cores, the cores that idle for its next request.
//! Where the clients and not the cores bound the throughput, a wait that one client
//! alone has as well (a timer, a disk) is a loss only as far as it is longer. Extra CPU of single
//! functions can be negative (a function got cheaper); only positive lines are losses, so the total
//! is the sum of the positive lines, and the shares of all causes add up to 1 at most. A lock loses
//! what idles for it and the extra CPU of its own lock and unlock functions together.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::balance::Balance;
use crate::ledgers::core_ledger::{Slot, extra_cpu_of, other_extra_cpu, shown_functions};
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::ledgers::slices::Functions;
use crate::number::{estimate, quotient};
use kneepoint_vocab::Estimate;
use kneepoint_vocab::units::{Cores, Ratio};

/// A slot is a cause only above this part of the lost cores.
const LEAST_SHARE: f64 = 0.01;
/// Below this part of C there is nothing to explain.
pub(crate) const LEAST_LOSS: f64 = 0.03;
/// Below this part of C a loss is explained only where it is surely more than [`LEAST_LOSS`]: a few
/// slices on a machine with other work show as much of nothing.
const SMALL_LOSS: f64 = 0.1;
/// Where half of the loss or more is CPU of no lock, it is small below this part of C,
const SMALL_LOSS_OF_CPU: f64 = 0.18;
/// and then surely more than this: clients beyond the cores cost every program a few per cent, of
/// the caches, and cores that are slower for a while show as such.
const LEAST_SURE_OF_CPU: f64 = 0.05;

/// A share's interval is this part of it wider at either end than sampling alone makes it: by so
/// much the rules themselves are off on programs whose truth is known (docs/decisions/0091).
const RULE_ERROR: f64 = 0.1;

/// A function that takes so much of C more than at the reference level is named, however wide its
/// interval is.
const LARGE: f64 = 0.1;

/// One slot's part.
pub(crate) struct Loss {
    pub(crate) slot: Slot,
    pub(crate) lost: Estimate<Cores>,
    pub(crate) share: Estimate<Ratio>,
}

/// What decides which lines of a balance are losses.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) functions: &'a Functions,
    /// Functions with a line of their own.
    pub(crate) shown: &'a [usize],
    /// Whether the load generator has no more to give: all of its CPU is lost, and the cores that
    /// idle for its next request.
    pub(crate) generator_full: bool,
    /// Blocked seconds that an operation has to wait anyway, by wait group: nothing is lost by
    /// them. Empty where nothing but the cores bounds the throughput.
    pub(crate) inherent: &'a [f64],
}

impl Rules<'_> {
    /// Lost cores of a slot, at least none; NaN where a resample cannot tell.
    pub(crate) fn lost(&self, row: &Row, balance: &Balance, slot: Slot) -> f64 {
        let cores = match slot {
            Slot::Function(function) => extra_cpu_of(balance, function),
            Slot::OtherFunctions => other_extra_cpu(balance, self.shown),
            Slot::Group(group) => {
                let idle = balance.idle[group] * self.above_inherent(row, group);
                idle + work_of(balance, group, self.functions)
            }
            Slot::Scheduler => balance.scheduler,
            Slot::Generator if self.generator_full => balance.generator + balance.no_request_lost,
            Slot::Generator => 0.0,
        };
        if cores.is_nan() { f64::NAN } else { cores.max(0.0) }
    }

    /// Lost cores of all slots. Where a resample has no stacks it cannot tell functions apart, but
    /// it knows what they take more together.
    fn lost_by_all(&self, row: &Row, balance: &Balance, slots: &[Slot]) -> f64 {
        let of_cpu = |slot: &&Slot| matches!(slot, Slot::Function(_) | Slot::OtherFunctions);
        let (cpu, others): (Vec<&Slot>, Vec<&Slot>) = slots.iter().partition(of_cpu);
        let sum = |slots: Vec<&Slot>| -> f64 {
            slots.into_iter().map(|slot| self.lost(row, balance, *slot)).sum()
        };
        let by_cpu = match balance.by_function {
            Some(_) => sum(cpu),
            None => balance.extra_cpu.max(0.0),
        };
        by_cpu + sum(others)
    }

    /// The part of a wait that is longer than it has to be anyway.
    fn above_inherent(&self, row: &Row, group: usize) -> f64 {
        match self.inherent.get(group) {
            Some(anyway) if row.blocked[group] > 0.0 => {
                (1.0 - anyway / per_operation(row.blocked[group], row)).max(0.0)
            }
            _ => 1.0,
        }
    }
}

/// Extra CPU of a lock's own functions, in cores; none where there are no stacks.
pub(crate) fn work_of(balance: &Balance, group: usize, functions: &Functions) -> f64 {
    if balance.by_function.is_none() {
        return 0.0;
    }
    let work = functions.work_of(group);
    work.map(|function| extra_cpu_of(balance, function)).sum()
}

/// Functions whose inflation is a loss of their own. What may be none is chance: of functions that
/// cost the same, half seem dearer, and if those alone counted their scatter would add up to a
/// loss. So these lines go to all other functions together, where they meet those that seem
/// cheaper.
pub(crate) fn certain_functions(
    accounts: &Accounts,
    account: &Account,
    functions: &Functions,
) -> Vec<usize> {
    let mut shown = shown_functions(&account.balance, functions);
    shown.retain(|function| {
        let extra: Estimate<Cores> =
            accounts.estimate(account, |_, balance| extra_cpu_of(balance, *function));
        let sure = extra.low.0 > 0.0 || extra.value.0 >= LARGE * account.balance.total;
        functions.list[*function].lock.is_some() || sure
    });
    shown
}

fn slots(balance: &Balance, shown: &[usize], functions: &Functions) -> Vec<Slot> {
    let plain = shown.iter().filter(|function| functions.list[**function].lock.is_none());
    let groups = (0..balance.idle.len()).map(Slot::Group);
    plain
        .map(|function| Slot::Function(*function))
        .chain([Slot::OtherFunctions])
        .chain(groups)
        .chain([Slot::Scheduler, Slot::Generator])
        .collect()
}

/// Whether a loss on `total` cores may be none: it is small, and its interval reaches 0. Such
/// losses come after all that are some.
pub(crate) fn doubtful(lost: &Estimate<Cores>, total: f64) -> bool {
    lost.low.0 <= 0.0 && lost.value.0 < LEAST_LOSS * total
}

/// Whether a slot is CPU of no lock.
fn is_plain_cpu(slot: Slot) -> bool {
    matches!(slot, Slot::Function(_) | Slot::OtherFunctions)
}

/// What a loss is ranked by: what many functions take more together is no cause that somebody could
/// go to, so that it comes after each that is half as great.
fn weight(loss: &Loss) -> f64 {
    match loss.slot {
        Slot::OtherFunctions => loss.lost.value.0 / 2.0,
        _ => loss.lost.value.0,
    }
}

/// All that is lost at one level.
pub(crate) struct Losses {
    /// Slots, greatest first, but what no single function stands for after those that are half as
    /// great; what may be nothing last. None where too little is lost.
    pub(crate) list: Vec<Loss>,
    /// All slots together.
    pub(crate) total: Estimate<Cores>,
}

/// A share with what the rules may be off by besides; as it is where there is no interval.
fn with_rule_error(accounts: &Accounts, share: &Estimate<Ratio>) -> Estimate<Ratio> {
    let error = if accounts.have_intervals() { RULE_ERROR } else { 0.0 };
    let low = share.low.0.max(0.0) * (1.0 - error);
    let high = (share.high.0 * (1.0 + error)).min(1.0);
    estimate(share.value.0, low, high.max(share.value.0))
}

/// What loses throughput at `account`.
pub(crate) fn losses(accounts: &Accounts, account: &Account, rules: &Rules<'_>) -> Losses {
    let slots = slots(&account.balance, rules.shown, rules.functions);
    let sum = |row: &Row, balance: &Balance| rules.lost_by_all(row, balance, &slots);
    let all = sum(&account.row, &account.balance);
    let total: Estimate<Cores> = accounts.estimate(account, sum);
    let total: Estimate<Cores> = estimate(total.value.0, total.low.0.max(0.0), total.high.0);
    let least = LEAST_LOSS * account.balance.total;
    let plain = slots.iter().filter(|slot| is_plain_cpu(**slot));
    let plain: f64 = plain.map(|slot| rules.lost(&account.row, &account.balance, *slot)).sum();
    let of_cpu = accounts.have_intervals() && 2.0 * plain >= all;
    let (small, least_sure) = match of_cpu {
        true => (SMALL_LOSS_OF_CPU, LEAST_SURE_OF_CPU),
        false => (SMALL_LOSS, LEAST_LOSS),
    };
    let sure = accounts.have_intervals() && total.low.0 >= least_sure * account.balance.total;
    let may_be_none = all < small * account.balance.total && !sure;
    if all.is_nan() || all < least || may_be_none {
        return Losses { list: Vec::new(), total };
    }
    let mut list: Vec<Loss> = slots
        .iter()
        .filter(|slot| rules.lost(&account.row, &account.balance, **slot) >= LEAST_SHARE * all)
        .map(|slot| {
            let share: Estimate<Ratio> =
                accounts.estimate(account, |r, b| quotient(rules.lost(r, b, *slot), sum(r, b)));
            let lost: Estimate<Cores> = accounts.estimate(account, |r, b| rules.lost(r, b, *slot));
            Loss {
                slot: *slot,
                lost: estimate(lost.value.0, lost.low.0.max(0.0), lost.high.0),
                share: with_rule_error(accounts, &share),
            }
        })
        .collect();
    let last = |loss: &Loss| doubtful(&loss.lost, account.balance.total);
    list.sort_by(|a, b| {
        let greatest_first = weight(b).total_cmp(&weight(a));
        last(a).cmp(&last(b)).then(greatest_first).then(a.slot.cmp(&b.slot))
    });
    Losses { list, total }
}

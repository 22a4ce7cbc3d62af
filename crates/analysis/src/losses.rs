//! Lost cores at the focus level, slot by slot.
//!
//! Lost = inflated + idle above 'not asked for' + generator. Idle for want of a request is lost
//! where there are as many clients as cores, and the generator's. Inflation of single functions
//! can be negative (a function got cheaper); only positive lines are losses, so the total is the
//! sum of the positive lines, and the shares of all causes add up to 1 at most. A lock loses what
//! idles for it and the extra CPU of its own lock and unlock functions together.

use crate::accounts::{Account, Accounts};
use crate::balance::Balance;
use crate::core_ledger::{Slot, inflation_of, other_inflation, shown_functions};
use crate::number::{estimate, quotient};
use crate::slices::Functions;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::units::{Cores, Ratio};

/// A slot is a cause only above this part of the lost cores.
const LEAST_SHARE: f64 = 0.01;
/// Below this part of C nothing worth a cause is lost.
const LEAST_LOSS: f64 = 0.02;

/// One slot's part.
pub(crate) struct Loss {
    pub(crate) slot: Slot,
    pub(crate) lost: Estimate<Cores>,
    pub(crate) share: Estimate<Ratio>,
}

/// Lost cores of a slot, at least none; NaN where a resample cannot tell.
fn lost(balance: &Balance, slot: Slot, shown: &[usize], functions: &Functions) -> f64 {
    let cores = match slot {
        Slot::Function(function) => inflation_of(balance, function),
        Slot::OtherFunctions => other_inflation(balance, shown),
        Slot::Group(group) => balance.idle[group] + work_of(balance, group, functions),
        Slot::Scheduler => balance.scheduler,
        Slot::Generator => balance.generator + balance.no_request_lost,
    };
    if cores.is_nan() { f64::NAN } else { cores.max(0.0) }
}

/// Extra CPU of a lock's own functions, in cores; none where there are no stacks.
pub(crate) fn work_of(balance: &Balance, group: usize, functions: &Functions) -> f64 {
    let mut work = functions.work_of(group).peekable();
    if work.peek().is_none() {
        return 0.0;
    }
    work.map(|function| inflation_of(balance, function)).sum()
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

/// Slots that lose throughput at `account`, greatest first; none where too little is lost.
pub(crate) fn losses(accounts: &Accounts, account: &Account, functions: &Functions) -> Vec<Loss> {
    let shown = shown_functions(&account.balance, functions);
    let slots = slots(&account.balance, &shown, functions);
    let total = |balance: &Balance| {
        slots.iter().map(|slot| lost(balance, *slot, &shown, functions)).sum::<f64>()
    };
    let all = total(&account.balance);
    if all.is_nan() || all < LEAST_LOSS * account.balance.total {
        return Vec::new();
    }
    let mut found: Vec<Loss> = slots
        .iter()
        .filter(|slot| lost(&account.balance, **slot, &shown, functions) >= LEAST_SHARE * all)
        .map(|slot| {
            let share: Estimate<Ratio> = accounts
                .estimate(account, |_, b| quotient(lost(b, *slot, &shown, functions), total(b)));
            let lost: Estimate<Cores> =
                accounts.estimate(account, |_, b| lost(b, *slot, &shown, functions));
            Loss {
                slot: *slot,
                lost: estimate(lost.value.0, lost.low.0.max(0.0), lost.high.0),
                share: estimate(share.value.0, share.low.0.max(0.0), share.high.0.min(1.0)),
            }
        })
        .collect();
    found.sort_by(|a, b| b.lost.value.0.total_cmp(&a.lost.value.0).then(a.slot.cmp(&b.slot)));
    found
}

//! Lost cores at the focus level, slot by slot.
//!
//! Lost = inflated + idle above 'not asked for' + generator. Inflation of single functions can
//! be negative (a function got cheaper); only positive lines are losses, so the total is the
//! sum of the positive lines, and the shares of all causes add up to 1 at most.

use crate::accounts::{Account, Accounts};
use crate::balance::Balance;
use crate::core_ledger::{Slot, inflation_of, other_inflation, shown_functions};
use crate::number::{estimate, quotient};
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
fn lost(balance: &Balance, slot: Slot, shown: &[usize]) -> f64 {
    let cores = match slot {
        Slot::Function(function) => inflation_of(balance, function),
        Slot::OtherFunctions => other_inflation(balance, shown),
        Slot::Group(group) => balance.idle[group],
        Slot::Scheduler => balance.scheduler,
        Slot::Generator => balance.generator,
    };
    if cores.is_nan() { f64::NAN } else { cores.max(0.0) }
}

fn slots(balance: &Balance, shown: &[usize]) -> Vec<Slot> {
    let functions = shown.iter().map(|function| Slot::Function(*function));
    let groups = (0..balance.idle.len()).map(Slot::Group);
    functions
        .chain([Slot::OtherFunctions])
        .chain(groups)
        .chain([Slot::Scheduler, Slot::Generator])
        .collect()
}

/// Slots that lose throughput at `account`, greatest first; none where too little is lost.
pub(crate) fn losses(accounts: &Accounts, account: &Account) -> Vec<Loss> {
    let shown = shown_functions(&account.balance);
    let slots = slots(&account.balance, &shown);
    let total =
        |balance: &Balance| slots.iter().map(|slot| lost(balance, *slot, &shown)).sum::<f64>();
    let all = total(&account.balance);
    if all.is_nan() || all < LEAST_LOSS * account.balance.total {
        return Vec::new();
    }
    let mut found: Vec<Loss> = slots
        .iter()
        .filter(|slot| lost(&account.balance, **slot, &shown) >= LEAST_SHARE * all)
        .map(|slot| {
            let share: Estimate<Ratio> =
                accounts.estimate(account, |_, b| quotient(lost(b, *slot, &shown), total(b)));
            let lost: Estimate<Cores> = accounts.estimate(account, |_, b| lost(b, *slot, &shown));
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

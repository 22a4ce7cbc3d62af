//! A level that gives what its bound allows: what it is, and where the CPU goes.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::row::Row;
use crate::ledgers::slices::Functions;
use crate::number::{finite, quotient};
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::{AtBound, Bound, BusyFunction};
use kneepoint_vocab::units::{Cores, Ratio};

/// Cores that are busy to this part are used up.
const USED_UP: f64 = 0.95;
/// Functions that are named, at most.
const MOST: usize = 3;
/// Functions below this part of the CPU are not.
const LEAST: f64 = 0.05;

/// Of the level of `account`, which falls short of no bound.
pub(crate) fn at_bound(accounts: &Accounts, account: &Account, functions: &Functions) -> AtBound {
    let used = |row: &Row| row.system + row.generator;
    let busy: Estimate<Cores> = accounts.estimate(account, |row, _| used(row));
    let of = Cores(finite(account.balance.total));
    let full = busy.value.0 >= USED_UP * of.0;
    AtBound {
        level: account.level,
        bound: if full { Bound::Cores } else { Bound::Clients },
        busy,
        of,
        functions: busiest(&account.row, functions),
    }
}

fn busiest(row: &Row, functions: &Functions) -> Vec<BusyFunction> {
    let all: f64 = row.profile.iter().sum();
    let share = |at: &usize| quotient(row.profile[*at], all);
    let mut ranked: Vec<usize> =
        (0..functions.list.len()).filter(|at| share(at) >= LEAST).collect();
    ranked.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.cmp(b)));
    ranked.truncate(MOST);
    let named = |at: usize| BusyFunction {
        name: functions.list[at].name.clone(),
        share: Ratio(share(&at)),
    };
    ranked.into_iter().map(named).collect()
}

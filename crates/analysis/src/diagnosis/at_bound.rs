//! A level that gives what its bound allows: what it is, and where the CPU goes.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::row::Row;
use crate::ledgers::slices::Functions;
use crate::number::{finite, quotient};
use crate::waits::groups::Groups;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::{AtBound, Bound, BusyFunction, CauseKind, IdleFor};
use kneepoint_vocab::units::{Cores, Ratio};

/// Cores that are busy to this part are used up.
const USED_UP: f64 = 0.95;
/// Functions that are named, at most.
const MOST: usize = 3;
/// Cores that idle for one thing are worth a word from this part of all on.
const IDLE: f64 = 0.1;
/// Functions below this part of the CPU are not.
const LEAST: f64 = 0.05;

/// Of the level of `account`, which falls short of no bound.
pub(crate) fn at_bound(
    accounts: &Accounts,
    account: &Account,
    functions: &Functions,
    groups: &Groups,
) -> AtBound {
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
        waits: idle_for(account, groups),
    }
}

/// The lock or thread that cores idle for most.
fn idle_for(account: &Account, groups: &Groups) -> Option<IdleFor> {
    let waited = |kind| matches!(kind, CauseKind::Lock | CauseKind::KernelLock | CauseKind::Thread);
    let idle = &account.balance.idle;
    let of_clients = (0..idle.len()).filter(|group| waited(groups.list[*group].kind));
    let most = of_clients.max_by(|a, b| idle[*a].total_cmp(&idle[*b]))?;
    let much = idle[most] >= IDLE * account.balance.total;
    much.then(|| IdleFor { name: groups.list[most].name.clone(), idle: Cores(idle[most]) })
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

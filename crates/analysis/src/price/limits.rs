//! What keeps a level below its bound, ranked by the rules of causes at every level.

use super::{Given, line, part_of};
use crate::diagnosis::losses::{Loss, Rules, losses};
use crate::ledgers::accounts::Account;
use crate::ledgers::core_ledger::shown_functions;
use crate::ledgers::row::per_operation;
use crate::number::estimate;
use crate::scaling::story::{alone, shortfall};
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::price::Limit;
use kneepoint_vocab::units::Seconds;

/// Greatest first; none where `account` gives what its bound allows.
pub(super) fn limits(given: &Given<'_>, account: &Account) -> Vec<Limit> {
    let Given { curve, accounts, functions, .. } = given;
    let by_cores = accounts
        .reference_level
        .map(|_| accounts.reference.of_the_machine())
        .filter(|demand| *demand > 0.0)
        .map(|demand| f64::from(given.tried.cores) / demand);
    let at = curve.points.iter().position(|point| point.level == account.level);
    let short = at.and_then(|at| shortfall(&curve.points, at, given.tried, by_cores));
    if short.is_none() {
        return Vec::new();
    }
    let shown = shown_functions(&account.balance, functions);
    let inherent = alone(&curve.points, account.level, by_cores)
        .and_then(|level| accounts.at(level))
        .map_or_else(Vec::new, Account::blocked_per_operation);
    // More clients do not take a generator's limit away.
    let generator_full = given.generator_full && account.level >= given.story.level;
    let rules = Rules { functions, shown: &shown, generator_full, inherent: &inherent };
    let losses = losses(accounts, account, &rules);
    let limit = |loss: &Loss| {
        let price: Estimate<Seconds> = accounts.estimate(account, |row, balance| {
            per_operation(rules.lost(row, balance, loss.slot), row)
        });
        Limit {
            line: line(given, part_of(loss.slot)),
            price: estimate(price.value.0, price.low.0.max(0.0), price.high.0),
            share: loss.share,
        }
    };
    losses.list.iter().map(limit).collect()
}

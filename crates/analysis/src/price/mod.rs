//! What an operation costs, and why a curve falls.
//!
//! The price is the core ledger over the throughput: core-seconds of the machine for one
//! operation, idle ones too. From one level to another it rises by the sum of what its lines rise
//! by, so two rankings answer two questions. What keeps a level below its bound is ranked as causes
//! are, at every level; what makes throughput fall is ranked by its part of the rise from the best
//! level to the worst behind it. A line that is as dear as at the best level, such as a load
//! generator that costs what it always costs, is no cause of the fall, however long it is.

mod fall;
mod limits;
mod parts;

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::balance::Balance;
use crate::ledgers::core_ledger::Slot;
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::ledgers::slices::Functions;
use crate::number::quotient;
use crate::scaling::story::Story;
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::price::{LevelPrice, Price, PriceLine, PricePart};
use kneepoint_vocab::findings::{Curve, LineKind};
use kneepoint_vocab::units::Seconds;
use kneepoint_vocab::{Estimate, Level};
use parts::{Part, Parts};
use std::collections::BTreeMap;

/// What prices are made of.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) curve: &'a Curve,
    pub(crate) accounts: &'a Accounts,
    pub(crate) groups: &'a Groups,
    pub(crate) functions: &'a Functions,
    /// Where treatments were tried.
    pub(crate) tried: Level,
    pub(crate) story: Story,
    /// Whether the load generator has no more to give at the story's level.
    pub(crate) generator_full: bool,
    /// Causes of the story's level, by slot.
    pub(crate) causes: &'a BTreeMap<Slot, String>,
}

/// The prices of all levels on the cores of the best one; none where that has no ledger.
pub(crate) fn price(given: &Given<'_>) -> Option<Price> {
    let best = given.accounts.at(given.curve.peak)?;
    let levels: Vec<&Account> =
        given.accounts.levels.iter().filter(|one| one.level.cores == best.level.cores).collect();
    let last = *levels.last()?;
    let parts = Parts::new(&levels, given.functions);
    let priced = |account: &&Account| LevelPrice {
        level: account.level,
        price: given.accounts.estimate(account, whole),
        parts: parts.list.iter().map(|part| of_part(given, &parts, account, *part)).collect(),
        limits: limits::limits(given, account),
    };
    Some(Price {
        best: best.level,
        last_over_best: given
            .accounts
            .between(best, last, |under, over| {
                vec![quotient(whole(over.0, over.1), whole(under.0, under.1))]
            })
            .estimate(|ratio| ratio[0]),
        fall: fall::fall(given, &parts, best),
        levels: levels.iter().map(priced).collect(),
    })
}

/// C / X.
fn whole(row: &Row, balance: &Balance) -> f64 {
    per_operation(balance.total, row)
}

fn of_part(given: &Given<'_>, parts: &Parts, account: &Account, part: Part) -> PricePart {
    let stacks = account.balance.by_function.is_some();
    let price: Estimate<Seconds> = given.accounts.estimate(account, |row, balance| {
        // Blocks without stacks tell nothing of functions, where others do.
        let known = !part.is_by_function() || stacks == balance.by_function.is_some();
        if known { per_operation(parts.cores(part, balance), row) } else { f64::NAN }
    });
    PricePart { line: line(given, part), price }
}

/// A part under the names of causes and of ledger lines.
fn line(given: &Given<'_>, part: Part) -> PriceLine {
    match part {
        Part::Useful => PriceLine::Useful,
        Part::Function(function) => {
            let what = &given.functions.list[function];
            PriceLine::Function { name: what.name.clone(), kernel: what.kind == LineKind::Kernel }
        }
        Part::OtherFunctions => PriceLine::OtherFunctions,
        Part::Group(group) => {
            let what = &given.groups.list[group];
            PriceLine::Wait { kind: what.kind, name: what.name.clone() }
        }
        Part::OtherGroups => PriceLine::OtherWaits,
        Part::Scheduler => PriceLine::Scheduler,
        Part::Generator => PriceLine::Generator,
        Part::NoRequest => PriceLine::NoRequest,
        Part::Kernel => PriceLine::KernelThreads,
        Part::Steal => PriceLine::Steal,
        Part::Interrupts => PriceLine::Interrupts,
        Part::Others => PriceLine::Others,
        Part::Kneepoint => PriceLine::Kneepoint,
        Part::Unused => PriceLine::Unused,
        Part::Unaccounted => PriceLine::Unaccounted,
    }
}

/// The part of the price that a slot of lost cores is.
fn part_of(slot: Slot) -> Part {
    match slot {
        Slot::Function(function) => Part::Function(function),
        Slot::OtherFunctions => Part::OtherFunctions,
        Slot::Group(group) => Part::Group(group),
        Slot::Scheduler => Part::Scheduler,
        Slot::Generator => Part::Generator,
    }
}

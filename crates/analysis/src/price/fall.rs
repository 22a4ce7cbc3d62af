//! What makes throughput fall: the rise of the price from the best level to the worst behind it.

use super::parts::{Part, Parts};
use super::{Given, line, part_of, whole};
use crate::diagnosis::losses::LEAST_LOSS;
use crate::ledgers::accounts::{Account, Between};
use crate::ledgers::balance::Balance;
use crate::ledgers::row::per_operation;
use crate::number::{finite, quotient};
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::Shape;
use kneepoint_vocab::findings::price::{Fall, Step};
use kneepoint_vocab::units::{Ratio, Seconds};

/// A rise below this part of the price is rounding.
const ROUNDING: f64 = 1e-9;

/// The rise from `best`, where the curve falls behind it.
pub(super) fn fall(given: &Given<'_>, parts: &Parts, best: &Account) -> Option<Fall> {
    let falls = matches!(given.curve.shape, Shape::Retrograde | Shape::Collapse);
    let worst = worst(given, best).filter(|_| falls)?;
    let count = parts.list.len();
    // The whole, then all parts, then the idle cores of each.
    let between = given.accounts.between(best, worst, |under, over| {
        let rise = |cores: &dyn Fn(&Balance) -> f64| {
            per_operation(cores(over.1), over.0) - per_operation(cores(under.1), under.0)
        };
        // Blocks without stacks tell nothing of functions, where others do.
        let stacks = |account: &Account, balance: &Balance| {
            account.balance.by_function.is_some() == balance.by_function.is_some()
        };
        let known = stacks(best, under.1) && stacks(worst, over.1);
        let part = |part: &Part| match known || !part.is_by_function() {
            true => rise(&|balance| parts.cores(*part, balance)),
            false => f64::NAN,
        };
        std::iter::once(whole(over.0, over.1) - whole(under.0, under.1))
            .chain(parts.list.iter().map(part))
            .chain(parts.list.iter().map(|part| rise(&|balance| parts.idle(*part, balance))))
            .collect()
    });
    let rise: Estimate<Seconds> = between.estimate(|all| all[0]);
    if rise.low.0 <= 0.0 {
        return None;
    }
    let least = ROUNDING * whole(&worst.row, &worst.balance);
    let mut steps: Vec<(u8, Step)> = (0..count)
        .filter(|at| between.values[1 + at].abs() > least)
        .map(|at| step(given, parts, &between, at))
        .map(|step| (order(&step, &between, count), step))
        .collect();
    steps.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.rise.value.0.total_cmp(&a.1.rise.value.0)));
    let steps = steps.into_iter().map(|(_, step)| step).collect();
    Some(Fall { from: best.level, to: worst.level, rise, steps })
}

/// The level of the least throughput behind the best one, on the same cores.
fn worst<'a>(given: &Given<'a>, best: &Account) -> Option<&'a Account> {
    let behind = given
        .curve
        .points
        .iter()
        .filter(|point| point.level > best.level && point.level.cores == best.level.cores);
    let known = behind.filter_map(|point| Some((point, given.accounts.at(point.level)?)));
    known
        .min_by(|a, b| a.0.throughput.value.0.total_cmp(&b.0.throughput.value.0))
        .map(|(_, account)| account)
}

fn step(given: &Given<'_>, parts: &Parts, between: &Between<'_>, at: usize) -> Step {
    let (part, count) = (parts.list[at], parts.list.len());
    let rises = between.values[1 + at] > 0.0;
    let share = |all: &[f64]| {
        let rising = rising(all, count);
        if rising.is_nan() { f64::NAN } else { quotient(all[1 + at].max(0.0), rising) }
    };
    Step {
        line: line(given, part),
        cause: given
            .causes
            .iter()
            .find(|(slot, _)| part_of(**slot) == part)
            .map(|(_, id)| id.clone()),
        rise: between.estimate(|all| all[1 + at]),
        idle: Seconds(finite(between.values[1 + count + at])),
        share: rises.then(|| {
            let share: Estimate<Ratio> = between.estimate(share);
            Estimate::of(share.value.0, share.low.0.max(0.0), share.high.0.min(1.0))
        }),
    }
}

/// All that rises; NaN where a resample cannot tell.
fn rising(all: &[f64], count: usize) -> f64 {
    let parts = &all[1..=count];
    if parts.iter().any(|rise| rise.is_nan()) {
        return f64::NAN;
    }
    parts.iter().map(|rise| rise.max(0.0)).sum()
}

/// What rises for sure first, what may be nothing then, what falls last.
fn order(step: &Step, between: &Between<'_>, count: usize) -> u8 {
    let little = step.rise.value.0 < LEAST_LOSS * rising(&between.values, count);
    match step.rise.value.0 > 0.0 {
        true if step.rise.low.0 <= 0.0 && little => 1,
        true => 0,
        false => 2,
    }
}

//! Steps of the curve that gain more than the number of clients.
//!
//! Clients that share nothing gain their number at most. A greater gain says that the fewer ones
//! were slowed down by something that the more ones do not meet: mostly cores that fall asleep
//! between two operations and have to be woken for the next.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::row::per_operation;
use crate::number::{finite, quotient, size};
use crate::scaling::curve::{CONFIDENCE, Sweep};
use kneepoint_vocab::findings::{GainEvidence, GainReason, Superlinear};
use kneepoint_vocab::units::{Cores, Ratio, Seconds};
use kneepoint_vocab::{Estimate, Level};

/// This part of what an operation takes longer with fewer clients has to be seen in a ledger for
/// it to be the reason.
const PART: f64 = 0.25;
/// Where cores are to be asleep, so many have to be idle.
const ASLEEP: f64 = 0.1;

/// Of every two neighbouring levels on `cores` cores. The intervals hold for all steps together
/// (Bonferroni).
pub(crate) fn superlinear(sweep: &Sweep<'_>, accounts: &Accounts, cores: u32) -> Vec<Superlinear> {
    let on = sweep.on(cores);
    let steps = on.windows(2);
    let confidence = 1.0 - (1.0 - CONFIDENCE) / size(steps.len().max(1));
    steps
        .filter_map(|step| {
            let (from, to) = (sweep.level(step[0]), sweep.level(step[1]));
            let clients = quotient(f64::from(to.clients), f64::from(from.clients));
            let ratio = sweep.ratio_at(step[1], step[0], confidence);
            let sure = sweep.has_intervals() && ratio.low.0 > clients;
            sure.then(|| of_step(accounts, (from, to), ratio, Ratio(clients)))
        })
        .collect()
}

fn of_step(
    accounts: &Accounts,
    (from, to): (Level, Level),
    ratio: Estimate<Ratio>,
    clients: Ratio,
) -> Superlinear {
    let both = accounts.at(from).zip(accounts.at(to));
    let evidence = both.map(|(few, more)| evidence(few, more));
    let reason = both.map_or(GainReason::Open, |(few, more)| reason(few, more));
    Superlinear { from, to, ratio, clients, reason, evidence }
}

fn waking(account: &Account) -> f64 {
    per_operation(account.row.idle_scheduler.max(account.row.runnable), &account.row)
}

fn evidence(few: &Account, more: &Account) -> GainEvidence {
    GainEvidence {
        idle: Cores(finite(few.row.idle)),
        waking: Seconds(finite(waking(few))),
        waking_with_more: Seconds(finite(waking(more))),
        cpu: Seconds(finite(few.row.demand())),
        cpu_with_more: Seconds(finite(more.row.demand())),
    }
}

/// What of the time that an operation takes longer with fewer clients the ledgers show.
fn reason(few: &Account, more: &Account) -> GainReason {
    let round =
        |account: &Account| quotient(f64::from(account.level.clients), account.row.throughput);
    let longer = round(few) - round(more);
    if longer <= 0.0 {
        return GainReason::Open;
    }
    let dearer = few.row.demand() - more.row.demand();
    // With more clients a thread also waits for a core that others use, which is no waking.
    let woken = if few.row.idle >= ASLEEP { waking(few) } else { 0.0 };
    match (woken >= PART * longer, dearer >= PART * longer) {
        (true, false) => GainReason::SleepingCores,
        (true, true) if woken >= dearer => GainReason::SleepingCores,
        (_, true) => GainReason::DearerOperations,
        (false, false) => GainReason::Open,
    }
}

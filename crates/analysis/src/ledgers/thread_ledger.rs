//! The thread ledger: what an operation spends its life on, N / X thread-seconds in all.
//!
//! Only client threads count; N is the level's number of clients, so a client thread that the
//! collector missed shows in the unaccounted line. Running time is split by the on-CPU
//! profile of the whole system under test, since stacks are not distinguished by thread.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::core_ledger::{Charged, Slot, slot_of};
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::ledgers::slices::Functions;
use crate::number::{finite, quotient};
use crate::waits::groups::Groups;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::findings::{LineKind, ThreadLedger, ThreadLine, ThreadName};
use kneepoint_vocab::units::{Ratio, Seconds};

/// Lines below this part of an operation's life are summed.
const LEAST_LINE: f64 = 0.01;
/// Lines below this part of an operation's life are rounding: they are left out.
const ROUNDING: f64 = 1e-9;
/// Functions with a line of their own, at most.
const MOST_FUNCTIONS: usize = 5;

struct Lines<'a> {
    accounts: &'a Accounts,
    account: &'a Account,
    charged: &'a Charged<'a>,
    lines: Vec<ThreadLine>,
}

impl Lines<'_> {
    fn add(
        &mut self,
        kind: LineKind,
        name: ThreadName,
        slot: Option<Slot>,
        rate: impl Fn(&Row) -> f64,
    ) {
        let value: Estimate<Seconds> =
            self.accounts.estimate(self.account, |row, _| per_operation(rate(row), row));
        let life = per_operation(f64::from(self.account.level.clients), &self.account.row);
        if value.value.0.abs() > ROUNDING * life {
            let cause = slot.and_then(|slot| self.charged.cause(slot));
            self.lines.push(ThreadLine { kind, name, per_operation: value, cause });
        }
    }

    fn running(&mut self, functions: &Functions, threads: f64) {
        let row = &self.account.row;
        let shares = row.shares().unwrap_or_default();
        let least = LEAST_LINE * threads;
        let mut shown: Vec<usize> =
            (0..shares.len()).filter(|f| shares[*f] * row.running >= least).collect();
        shown.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
        shown.truncate(MOST_FUNCTIONS);
        for function in &shown {
            let what = &functions.list[*function];
            let says_all = what.lock.is_some() || what.kind == LineKind::Kernel;
            let name = ThreadName::Function { name: what.name.clone(), says_all };
            self.add(LineKind::Running, name, Some(slot_of(what, *function)), |row| {
                row.running * share_of(row, *function)
            });
        }
        let elsewhere = ThreadName::RunningElsewhere;
        let name = if shown.is_empty() { ThreadName::Running } else { elsewhere };
        self.add(LineKind::Running, name, None, |row| {
            row.running * (1.0 - shown.iter().map(|f| share_of(row, *f)).sum::<f64>())
        });
    }

    fn blocked(&mut self, groups: &Groups, threads: f64) {
        let blocked = &self.account.row.blocked;
        let mut shown: Vec<usize> =
            (0..blocked.len()).filter(|group| blocked[*group] >= LEAST_LINE * threads).collect();
        shown.sort_by(|a, b| blocked[*b].total_cmp(&blocked[*a]).then(a.cmp(b)));
        for group in &shown {
            let what = &groups.list[*group];
            let name = ThreadName::Wait { name: what.name.clone() };
            self.add(what.line, name, Some(Slot::Group(*group)), |row| row.blocked[*group]);
        }
        let turn = self.charged.generator_full.then_some(Slot::Generator);
        self.add(LineKind::IdleNoWork, ThreadName::NoRequest, turn, |row| row.no_request);
        self.add(LineKind::IdleOther, ThreadName::OtherWaits, None, |row| {
            let rest =
                |(group, time): (usize, &f64)| if shown.contains(&group) { 0.0 } else { *time };
            row.blocked.iter().enumerate().map(rest).sum()
        });
    }
}

fn share_of(row: &Row, function: usize) -> f64 {
    quotient(row.profile[function], row.profile.iter().sum())
}

fn placed(row: &Row) -> f64 {
    row.running + row.runnable + row.no_request + row.blocked.iter().sum::<f64>()
}

/// The ledger of one level. Where no client thread is known all of it is unaccounted.
pub(crate) fn thread_ledger(
    accounts: &Accounts,
    account: &Account,
    groups: &Groups,
    functions: &Functions,
    charged: &Charged<'_>,
) -> ThreadLedger {
    let row = &account.row;
    let threads = f64::from(account.level.clients);
    let mut lines = Lines { accounts, account, charged, lines: Vec::new() };
    let known = row.clients > 0.0;
    if known {
        lines.running(functions, threads);
        lines.add(LineKind::Runnable, ThreadName::Runnable, None, |row| row.runnable);
        lines.blocked(groups, threads);
    }
    let gap = |row: &Row| threads - if known { placed(row) } else { 0.0 };
    lines.add(LineKind::Unaccounted, ThreadName::Unaccounted, None, gap);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count >= 0")]
    let idle_threads = row.idle_threads.round() as u32;
    ThreadLedger {
        lines: lines.lines,
        per_operation: Seconds(finite(per_operation(threads, row))),
        unaccounted: Ratio(quotient(gap(row).abs(), threads)),
        idle_threads,
    }
}

//! `RunRecord -> Profile`: one level of a system that ran already.
//!
//! The ledgers are those of a run, of one level that has no other to be held against: no CPU is
//! useful by comparison, so each function has a line of what it takes. Every thread counts, for
//! nobody has said which serve clients. What threads wait for that have nothing to do (requests,
//! conditions, timers, other processes) has its lines, and is no cause.

mod caveats;

use crate::diagnosis::causes::{Context, causes};
use crate::diagnosis::chain;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::losses::{Loss, Rules};
use crate::frames::stacks::Stacks;
use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::core_ledger::{Charged, Slot, core_ledger, shown_functions};
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::ledgers::slices::{Functions, Slice, digest, sweep_at};
use crate::limits::instruments;
use crate::named;
use crate::number::{estimate, finite, mean, quotient, seconds, tally};
use crate::quality::{collector, measured};
use crate::waits::classify::classified;
use crate::waits::groups::Groups;
use crate::waits::pools::limited;
use crate::waits::runtimes::told;
use kneepoint_vocab::findings::{Cause, CauseKind, LineKind, ThreadsName};
use kneepoint_vocab::profile::{Operations, ProfileCause, ThreadsLine};
use kneepoint_vocab::units::{Cores, Count, PerSecond, Ratio, Seconds};
use kneepoint_vocab::{
    Estimate, Fact, Level, Profile, RunRecord, StackKind, StoppedBy, TrialRecord,
};
use std::collections::BTreeMap;

/// Version of [`Profile`] that this crate makes.
pub const SCHEMA: u32 = 2;
/// Less than this part of C, and of the threads, is not worth a cause.
const LEAST: f64 = 0.01;
/// Wake-ups a second below which a waiting thread sleeps.
const SELDOM: f64 = 10.0;
/// Lines of threads below this part of all are summed.
const LEAST_LINE: f64 = 0.005;

/// What a profile found. Takes any record, also one that was cut off or holds nothing.
#[must_use]
pub fn profile(record: &RunRecord) -> Profile {
    let told = told(record);
    let classified = classified(&told);
    let (charged, pools) = limited(&classified);
    let record = &*charged;
    let trials = measured::measured(record);
    let (stacks, groups, functions) = named(record, &trials, &pools);
    let slices = digest(&trials, &groups, &functions, &stacks, record.plan.clients);
    let level = record.plan.focus;
    let accounts = Accounts::unreferenced(&slices, &[level], record.plan.seed);
    let seen = Seen { record, trials: &trials, stacks: &stacks, groups: &groups, slices: &slices };
    let seen = Explained { seen, functions: &functions, accounts: &accounts };
    seen.profile(level)
}

/// What was measured, digested.
struct Seen<'a> {
    record: &'a RunRecord,
    trials: &'a [&'a TrialRecord],
    stacks: &'a Stacks<'a>,
    groups: &'a Groups,
    slices: &'a [Slice<'a>],
}

struct Explained<'a> {
    seen: Seen<'a>,
    functions: &'a Functions,
    accounts: &'a Accounts,
}

impl Explained<'_> {
    fn profile(&self, level: Level) -> Profile {
        let Seen { record, trials, stacks, .. } = &self.seen;
        let account = self.accounts.at(level);
        let (slots, causes) = account.map(|account| self.causes(account)).unwrap_or_default();
        let charged = Charged { causes: &slots, generator_full: false };
        let ledger = account.map(|account| {
            core_ledger(self.accounts, account, self.seen.groups, self.functions, &charged)
        });
        let core_lines = ledger.as_ref().map_or_else(Vec::new, |one| one.lines.clone());
        let thread_lines =
            account.map_or_else(Vec::new, |account| self.thread_lines(account, &charged));
        let of_level = sweep_at(self.seen.slices, level);
        let evidence = Evidence::new(&of_level, stacks);
        let on_cpu = evidence.flame(|_, stack| stack.kind == StackKind::OnCpu);
        let named: Vec<Cause> = causes.iter().map(|one| one.cause.clone()).collect();
        let chain = chain::Given {
            slices: &of_level,
            groups: self.seen.groups,
            evidence: &evidence,
            stacks,
            clients: record.plan.clients,
            causes: &named,
        }
        .chain();
        let collector = collector::collector(trials, stacks, level, None);
        let mut reported = Profile {
            schema: SCHEMA,
            subject: record.plan.summary.clone(),
            settings: record.variants.first().map_or_else(Vec::new, |start| start.settings.clone()),
            trustworthy: false,
            host: record.host.clone(),
            windows: tally(trials.len()),
            watched: Seconds(trials.iter().map(|trial| seconds(trial.window.length)).sum()),
            stopped_by: record.end.as_ref().map_or(StoppedBy::CutOff, |end| end.stopped_by.clone()),
            operations: account.and_then(|account| self.operations(account)),
            cores: Cores(account.map_or(f64::from(level.cores), |one| finite(one.balance.total))),
            busy: account.map_or_else(
                || estimate(0.0, 0.0, 0.0),
                |account| self.accounts.estimate(account, |row, _| row.system),
            ),
            core_lines,
            unaccounted: ledger.map_or(Ratio(0.0), |one| one.unaccounted),
            threads: Count(thread_lines.iter().map(|line| line.threads.value.0).sum()),
            thread_lines,
            switches: account.map(|one| PerSecond(one.row.switches)).filter(|rate| rate.0 > 0.0),
            causes,
            chain,
            on_cpu,
            instruments: instruments::instruments(trials, &[level]).into_iter().next(),
            collector,
            caveats: Vec::new(),
        };
        reported.caveats = caveats::caveats(&reported, record);
        reported.trustworthy = caveats::is_trustworthy(&reported.caveats);
        reported
    }

    fn counted(&self) -> bool {
        self.seen.record.plan.is_counted()
    }

    fn operations(&self, account: &Account) -> Option<Operations> {
        self.counted().then(|| Operations {
            rate: self.accounts.estimate(account, |row, _| row.throughput),
            cpu: self.accounts.estimate(account, |row, _| row.demand()),
        })
    }

    /// Waits that are somebody's fault, with what they cost; and which slot is which cause.
    fn causes(&self, account: &Account) -> (BTreeMap<Slot, String>, Vec<ProfileCause>) {
        let shown = shown_functions(&account.balance, self.functions);
        let rules = Rules {
            functions: self.functions,
            shown: &shown,
            generator_full: false,
            inherent: &[],
        };
        let total = account.balance.total;
        let threads = threads(&account.row);
        let groups = self.seen.groups;
        let waited = |row: &Row, slot: Slot| match slot {
            Slot::Group(group) => row.waited[group],
            _ => row.runnable,
        };
        let blamed = (0..groups.list.len()).filter(|group| is_blamed(groups.list[*group].kind));
        let slots = blamed.map(Slot::Group).chain([Slot::Scheduler]);
        let mut found: Vec<(Slot, f64, f64)> = slots
            .map(|slot| {
                let lost = rules.lost(&account.row, &account.balance, slot);
                (slot, finite(lost), waited(&account.row, slot))
            })
            .filter(|(slot, lost, waited)| {
                let waits = *slot != Slot::Scheduler && *waited >= LEAST * threads;
                *lost >= LEAST * total || waits
            })
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)).then(a.0.cmp(&b.0)));
        let losses: Vec<Loss> = found
            .iter()
            .map(|(slot, _, _)| {
                let lost = |row: &Row, balance: &crate::ledgers::balance::Balance| {
                    finite(rules.lost(row, balance, *slot))
                };
                let share = |row: &Row, balance: &crate::ledgers::balance::Balance| {
                    quotient(lost(row, balance), balance.total)
                };
                Loss {
                    slot: *slot,
                    lost: positive(self.accounts.estimate(account, lost)),
                    share: positive(self.accounts.estimate(account, share)),
                }
            })
            .collect();
        let of_level = sweep_at(self.seen.slices, account.level);
        let context = Context {
            accounts: self.accounts,
            account,
            groups,
            functions: self.functions,
            stacks: self.seen.stacks,
            slices: &of_level,
        };
        let mut reported = causes(&context, &losses);
        if !self.counted() {
            reported.iter_mut().for_each(|cause| cause.wait_per_operation = None);
        }
        let ids = losses.iter().zip(&reported).map(|(loss, cause)| (loss.slot, cause.id.clone()));
        let ids: BTreeMap<Slot, String> = ids.collect();
        let reported = losses.iter().zip(reported).map(|(loss, cause)| {
            let slot = loss.slot;
            let threads = self.accounts.estimate(account, |row, _| waited(row, slot));
            ProfileCause { cause, threads }
        });
        (ids, reported.collect())
    }

    /// What threads did, in threads; the lines add up to how many there were.
    fn thread_lines(&self, account: &Account, charged: &Charged<'_>) -> Vec<ThreadsLine> {
        let row = &account.row;
        let least = LEAST_LINE * threads(row);
        let mut lines = Vec::new();
        let mut add = |kind, name: ThreadsName, slot: Option<Slot>, rate: &dyn Fn(&Row) -> f64| {
            let threads: Estimate<Count> = self.accounts.estimate(account, |row, _| rate(row));
            if threads.value.0 > 1e-9 {
                let per_operation = self.counted().then(|| {
                    self.accounts.estimate(account, |row, _| per_operation(rate(row), row))
                });
                let cause = slot.and_then(|slot| charged.cause(slot));
                lines.push(ThreadsLine { kind, name, threads, per_operation, cause });
            }
        };
        add(LineKind::Running, ThreadsName::Running, None, &|row| row.system);
        add(LineKind::Runnable, ThreadsName::Runnable, None, &|row| row.runnable);
        let groups = &self.seen.groups.list;
        let asleep = |group: &usize| is_asleep(groups[*group].kind, *group, row);
        let mut shown: Vec<usize> = (0..groups.len())
            .filter(|group| row.waited[*group] >= least && !asleep(group))
            .collect();
        shown.sort_by(|a, b| row.waited[*b].total_cmp(&row.waited[*a]).then(a.cmp(b)));
        for group in &shown {
            let name = ThreadsName::Wait { name: groups[*group].name.clone() };
            let slot = Some(Slot::Group(*group));
            add(groups[*group].line, name, slot, &|row| row.waited[*group]);
        }
        add(LineKind::IdleNoWork, ThreadsName::NoRequest, None, &|row| row.no_request);
        let of = |row: &Row, wanted: &dyn Fn(&usize) -> bool| -> f64 {
            (0..groups.len()).filter(|group| wanted(group)).map(|group| row.waited[group]).sum()
        };
        add(LineKind::IdleNoWork, ThreadsName::Asleep, None, &|row| of(row, &asleep));
        add(LineKind::IdleOther, ThreadsName::OtherWaits, None, &|row| {
            of(row, &|group| !asleep(group) && !shown.contains(group))
        });
        lines
    }
}

/// Whether threads that wait so have nothing to do, as timers and idle pools do: it is no lock or
/// device, and they are seldom woken. Where waits are shared out and none is counted, all threads
/// together have to be woken that seldom.
fn is_asleep(kind: CauseKind, group: usize, row: &Row) -> bool {
    let seldom = match row.shared_out > 0.0 {
        true => row.switches < SELDOM * threads(row),
        false => row.waits[group] < SELDOM * row.waited[group],
    };
    !is_blamed(kind) && seldom
}

/// Whether waits of this kind are somebody's fault.
fn is_blamed(kind: CauseKind) -> bool {
    matches!(kind, CauseKind::Lock | CauseKind::KernelLock | CauseKind::Device)
}

/// All threads of a row, whatever they do.
fn threads(row: &Row) -> f64 {
    row.system + row.runnable + row.no_request + row.waited.iter().sum::<f64>()
}

fn positive<U: kneepoint_vocab::Unit>(one: Estimate<U>) -> Estimate<U> {
    estimate(one.value.get(), one.low.get().max(0.0), one.high.get())
}

/// Threads of a profile's windows, by the collector; for a word where there are none.
pub(crate) fn saw_threads(record: &RunRecord) -> bool {
    let facts = record.trials.iter().flat_map(|trial| &trial.facts);
    let lived: Vec<f64> = facts
        .filter_map(|fact| match fact {
            Fact::ThreadTime(time) => Some(seconds(time.existed)),
            _ => None,
        })
        .collect();
    mean(&lived) > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(switches: f64, waits: f64, shared_out: f64) -> Row {
        Row {
            system: 1.0,
            waited: vec![7.0],
            waits: vec![waits],
            switches,
            shared_out,
            ..Row::default()
        }
    }

    #[test]
    fn who_is_seldom_woken_is_asleep_and_a_lock_s_waiter_never() {
        assert!(is_asleep(CauseKind::Other, 0, &row(9000.0, 69.0, 0.0)));
        assert!(!is_asleep(CauseKind::Other, 0, &row(9000.0, 71.0, 0.0)));
        assert!(!is_asleep(CauseKind::Lock, 0, &row(0.0, 0.0, 0.0)));
    }

    #[test]
    fn where_no_wait_is_counted_the_switches_tell_who_is_asleep() {
        assert!(!is_asleep(CauseKind::Other, 0, &row(9000.0, 0.0, 1.0)));
        assert!(is_asleep(CauseKind::Other, 0, &row(79.0, 0.0, 1.0)));
    }
}

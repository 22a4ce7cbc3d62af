//! The lock table: what the census counted with one client, beside the waits of the level that the
//! story is about.

use super::counted::{locks, operations, slice};
use super::groups::Groups;
use crate::number::{count, estimate, finite, mean, quotient, seconds, tally};
use kneepoint_stats::interval::{Interval, proportion_interval};
use kneepoint_vocab::findings::{Cause, LockRow, LockTable};
use kneepoint_vocab::units::{Count, Ratio, Seconds};
use kneepoint_vocab::{Fact, Level, Phase, RunRecord, TrialRecord, Unit, VariantId};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the table at most.
const MOST_ROWS: usize = 20;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// A lock that is neither taken nor waited for so often in an operation is left out.
const LEAST: f64 = 1e-3;

/// What the table is made of.
pub(crate) struct Given<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) measured: &'a [&'a TrialRecord],
    pub(crate) groups: &'a Groups,
    pub(crate) causes: &'a [Cause],
    /// Where waits are looked at.
    pub(crate) level: Level,
}

/// All uses of the locks of one name.
#[derive(Default)]
struct Used {
    objects: BTreeSet<u64>,
    taken: u64,
    shared: u64,
    looks: u64,
    held: u64,
}

/// All waits for the locks of one name.
#[derive(Clone, Copy, Default)]
struct Waited {
    times: u64,
    blocked: f64,
    longest: f64,
}

impl Given<'_> {
    /// The table; none where no locks were counted.
    pub(crate) fn table(&self) -> Option<LockTable> {
        let trial = slice(self.record)?;
        let operations = operations(trial);
        let undisturbed = self.throughput(trial.id.level);
        let (waits, waited_over) = self.waits();
        let mut rows: Vec<LockRow> = self
            .used(trial)
            .into_iter()
            .map(|(group, used)| {
                let waited = waits.get(&group).copied().unwrap_or_default();
                let row = self.row(group, &used, operations, (waited, waited_over));
                held(row, &used, undisturbed)
            })
            .filter(|row| {
                let often = |times: Option<Count>| times.is_some_and(|times| times.0 >= LEAST);
                row.taken.is_none() || often(row.taken) || often(row.waits)
            })
            .collect();
        let order = |row: &LockRow| {
            (row.busy.map_or(0.0, |busy| busy.value.0), row.taken.map_or(0.0, Count::get))
        };
        rows.sort_by(|a, b| {
            let (a, b) = (order(a), order(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        let more = tally(rows.len().saturating_sub(MOST_ROWS));
        rows.truncate(MOST_ROWS);
        (!rows.is_empty()).then(|| LockTable {
            level: trial.id.level,
            waits_at: self.level,
            operations: operations.map(|some| Count(finite(some))),
            rows,
            more,
        })
    }

    fn used(&self, trial: &TrialRecord) -> BTreeMap<usize, Used> {
        let mut all: BTreeMap<usize, Used> = BTreeMap::new();
        for lock in locks(trial) {
            let Some(group) = self.groups.of(trial, &lock.key()) else { continue };
            let used = all.entry(group).or_default();
            used.objects.insert(lock.object);
            used.taken += lock.taken;
            used.shared += lock.shared;
            used.looks += lock.looks;
            used.held += lock.held;
        }
        all
    }

    /// Throughput of the baseline's sweep at a level.
    fn throughput(&self, level: Level) -> f64 {
        let of_level = self.measured.iter().filter(|trial| {
            let id = &trial.id;
            id.phase == Phase::Sweep && id.level == level && id.variant.0 == VariantId::BASELINE
        });
        mean(&of_level.map(|trial| trial.throughput().0).collect::<Vec<_>>())
    }

    /// Waits of the baseline's sweep at the level by group, and the operations meanwhile.
    fn waits(&self) -> (BTreeMap<usize, Waited>, f64) {
        let of_level = self.measured.iter().filter(|trial| {
            let id = &trial.id;
            id.phase == Phase::Sweep
                && id.level == self.level
                && id.variant.0 == VariantId::BASELINE
                && trial.facts.iter().any(|fact| matches!(fact, Fact::CoreTime(_)))
        });
        let (mut all, mut operations) = (BTreeMap::<usize, Waited>::new(), 0.0);
        for trial in of_level {
            operations += trial.throughput().get() * seconds(trial.window.length);
            for fact in &trial.facts {
                let Fact::Wait(wait) = fact else { continue };
                let Some(group) = self.groups.of(trial, &wait.key) else { continue };
                let waited = all.entry(group).or_default();
                waited.times += wait.count;
                waited.blocked += seconds(wait.blocked);
                waited.longest = waited.longest.max(seconds(wait.longest));
            }
        }
        (all, operations)
    }

    fn row(
        &self,
        group: usize,
        used: &Used,
        operations: Option<f64>,
        (waited, waited_over): (Waited, f64),
    ) -> LockRow {
        let known = &self.groups.list[group];
        let cause = self.causes.iter().find(|cause| cause.key == known.key);
        let waits = (waited.times > 0).then_some(waited);
        LockRow {
            name: known.name.clone(),
            path: known.path.clone(),
            cause: cause.map(|cause| cause.id.clone()),
            objects: tally(used.objects.len()),
            taken: operations.map(|some| Count(quotient(count(used.taken), some))),
            shared: Ratio(quotient(count(used.shared), count(used.taken))),
            busy: None,
            held: None,
            held_per_operation: None,
            at_most: None,
            waits: waits.map(|one| Count(quotient(count(one.times), waited_over))),
            wait: waits.map(|one| Seconds(quotient(one.blocked, count(one.times)))),
            wait_longest: waits.map(|one| Seconds(finite(one.longest))),
        }
    }
}

/// What the looks at its word say of a lock, of which there is one: the part of the time in which
/// it is held is throughput times how long for an operation (utilisation law, U = X · D). Looks
/// were taken while nothing was in the way, so the throughput is that of the level in the sweep.
fn held(row: LockRow, used: &Used, throughput: f64) -> LockRow {
    if used.objects.len() != 1 || used.looks == 0 || used.held == 0 || throughput <= 0.0 {
        return row;
    }
    let part = proportion_interval(used.held, used.looks, CONFIDENCE);
    let per_operation = part.map(|part| part / throughput);
    let each = row.taken.map(|taken| per_operation.map(|held| quotient(held, taken.0)));
    LockRow {
        busy: Some(estimate(part.value, part.low, part.high)),
        held: each.map(|each| estimate(each.value, each.low, each.high)),
        held_per_operation: Some(estimate(
            per_operation.value,
            per_operation.low,
            per_operation.high,
        )),
        at_most: (used.shared == 0).then(|| {
            let over = |held: f64| quotient(1.0, held);
            let Interval { value, low, high } = per_operation;
            estimate(over(value), over(high), over(low))
        }),
        ..row
    }
}

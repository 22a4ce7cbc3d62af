//! The core ledger as bare numbers: where C cores went, for one mean row.
//!
//! ```text
//! C = X·D_ref + Σ_f X·(D_f − D_f,ref) + generator + others + Kneepoint
//!   + kernel threads + steal + irq + idle unused + idle without a request
//!   + Σ_c idle for c + idle for the scheduler + U
//! ```
//!
//! The system's CPU is summed over its threads, everything else over its cores: two accounts of
//! the same switches, so U is a check of the one against the other. `schedstat` is not used for
//! it: where waits are short it books the way of a core out of idling, and of another process off
//! the core, on the thread that was woken. It stays a check of its own. Two rules need words:
//!
//! * *Steal and interrupts.* The collector's clock runs on while the hypervisor or an interrupt
//!   holds a core, so both lie inside its other lines. They get lines of their own only as far as
//!   the other lines leave something to account for: steal first, then irq, never more than
//!   `/proc/stat` counted.
//! * *Idle.* Idle that was charged to a wait stays there. At N clients C − N cores (or those
//!   outside the level's CPU set) were unused: they are taken from uncharged idle first,
//!   then from all charges in proportion. What then remains uncharged is split over what client
//!   threads were blocked on or runnable for meanwhile, in proportion to thread-time; where
//!   no thread of a client is known, it goes to the thread that does the work of all, or is split
//!   as what was charged; where there is nothing of the kind either, runnable threads were
//!   lacking, and it counts as unused.
//!   Idle beside a thread that was woken already goes to what that thread had waited for.

use crate::ledgers::behind;
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::number::quotient;
use kneepoint_vocab::Level;

/// D_ref and its split by function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    /// CPU seconds of one operation at the level where it is least.
    pub(crate) demand: f64,
    /// The same by function; none where that level has no stacks.
    pub(crate) by_function: Option<Vec<f64>>,
    /// CPU seconds of the load generator for one operation at that level, on the system's cores.
    pub(crate) generator: f64,
}

impl Reference {
    /// CPU seconds that one operation costs the machine: D_ref, and where the generator runs on the
    /// same cores, what that takes.
    pub(crate) fn of_the_machine(&self) -> f64 {
        self.demand + self.generator
    }

    pub(crate) fn of(row: &Row) -> Self {
        let demand = row.demand();
        let by_function =
            row.shares().map(|shares| shares.iter().map(|share| share * demand).collect());
        Self { demand, by_function, generator: per_operation(row.generator, row) }
    }
}

/// All terms in cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balance {
    pub(crate) total: f64,
    pub(crate) useful: f64,
    /// The sum over functions, X·(D − D_ref).
    pub(crate) extra_cpu: f64,
    /// Its parts; none where either level has no stacks.
    pub(crate) by_function: Option<Vec<f64>>,
    pub(crate) generator: f64,
    pub(crate) others: f64,
    /// Threads of the kernel.
    pub(crate) kernel: f64,
    pub(crate) kneepoint: f64,
    pub(crate) steal: f64,
    pub(crate) irq: f64,
    pub(crate) unused: f64,
    /// Idle while those who should run waited for the next request.
    pub(crate) no_request: f64,
    /// The part of `no_request` that a generator with no more to give would have lost: all of it
    /// where there are clients for every core.
    pub(crate) no_request_lost: f64,
    /// Idle by wait group.
    pub(crate) idle: Vec<f64>,
    /// The part of it that waits for other locks bring, whose holders wait for this one.
    pub(crate) from_outer: Vec<f64>,
    pub(crate) scheduler: f64,
    /// How what idled came to its lines.
    pub(crate) ways: Ways,
    pub(crate) unaccounted: f64,
}

/// Idle cores by the way in which they came to their lines; with `unused` all that idled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// Charged to the wait of who ended the stretch, or to the scheduler.
    pub(crate) charged: f64,
    /// Given to waits by the number of their wake-ups.
    pub(crate) handed_over: f64,
    /// Charged to nobody, and split over what was blocked or runnable meanwhile.
    pub(crate) spread: f64,
    /// The part of that which went elsewhere than what was charged.
    pub(crate) doubtful: f64,
}

/// With less charged than this part of what is shared out, that agrees with nothing.
const ENOUGH_CHARGED: f64 = 0.25;

impl Balance {
    pub(crate) fn of(row: &Row, reference: &Reference, level: Level) -> Self {
        let useful = row.throughput * reference.demand;
        let idle = split_idle(row, level);
        let mut balance = Self {
            total: row.cores,
            useful,
            extra_cpu: row.system - useful,
            by_function: inflation(row, reference),
            generator: row.generator,
            others: row.others,
            kernel: row.kernel,
            kneepoint: row.kneepoint,
            unused: idle.unused,
            no_request: idle.no_request,
            no_request_lost: if level.clients >= level.cores { idle.no_request } else { 0.0 },
            idle: idle.groups,
            from_outer: idle.from_outer,
            scheduler: idle.scheduler,
            ways: idle.ways,
            ..Self::default()
        };
        let left = balance.total - balance.sum();
        balance.steal = row.steal.min(left.max(0.0));
        balance.irq = row.irq.min((left - balance.steal).max(0.0));
        balance.unaccounted = balance.total - balance.sum();
        balance
    }

    fn sum(&self) -> f64 {
        self.useful
            + self.extra_cpu
            + self.generator
            + self.others
            + self.kernel
            + self.kneepoint
            + self.steal
            + self.irq
            + self.unused
            + self.no_request
            + self.idle.iter().sum::<f64>()
            + self.scheduler
    }
}

fn inflation(row: &Row, reference: &Reference) -> Option<Vec<f64>> {
    let by_function = reference.by_function.as_ref()?;
    let demand = row.demand();
    let shares = row.shares()?;
    let extra = |(share, least): (&f64, &f64)| row.throughput * (share * demand - least);
    Some(shares.iter().zip(by_function).map(extra).collect())
}

struct Idle {
    unused: f64,
    no_request: f64,
    groups: Vec<f64>,
    from_outer: Vec<f64>,
    scheduler: f64,
    ways: Ways,
}

fn split_idle(row: &Row, level: Level) -> Idle {
    let direct: f64 = row.charged.iter().sum::<f64>() + row.idle_no_request + row.idle_scheduler;
    // Charges can exceed the idle time by rounding or by a lost record, never by intent.
    let fit = if direct > row.idle { quotient(row.idle, direct) } else { 1.0 };
    let mut groups: Vec<f64> = row.charged.iter().map(|charge| charge * fit).collect();
    let mut no_request = row.idle_no_request * fit;
    let mut scheduler = row.idle_scheduler * fit;
    let charged = groups.iter().sum::<f64>() + no_request + scheduler;
    let mut uncharged = (row.idle - charged).max(0.0);

    let asked = f64::from(level.clients.min(level.cores));
    let mut unused = row.idle.min((row.cores - asked).max(0.0));
    let from_charged = (unused - uncharged).max(0.0);
    uncharged = (uncharged - unused).max(0.0);
    let keep = if charged > 0.0 { (1.0 - from_charged / charged).max(0.0) } else { 0.0 };
    groups.iter_mut().for_each(|group| *group *= keep);
    no_request *= keep;
    scheduler *= keep;

    let serial = uncharged * row.serial.iter().sum::<f64>().min(1.0);
    for (group, serial) in groups.iter_mut().zip(&row.serial) {
        *group += uncharged * serial;
    }
    uncharged -= serial;
    let (to_waits, to_scheduler) = (groups.iter().sum::<f64>() + no_request, scheduler);
    let by_charges = [&groups[..], &[no_request, scheduler]].concat();
    let waiting: f64 = row.blocked.iter().sum::<f64>() + row.no_request + row.runnable;
    let mut spread = uncharged;
    if waiting > 0.0 {
        for (group, blocked) in groups.iter_mut().zip(&row.blocked) {
            *group += uncharged * quotient(*blocked, waiting);
        }
        no_request += uncharged * quotient(row.no_request, waiting);
        scheduler += uncharged * quotient(row.runnable, waiting);
    } else if !spread_as_charged(&mut groups, uncharged) {
        unused += uncharged;
        spread = 0.0;
    }
    let after = [&groups[..], &[no_request, scheduler]].concat();
    let doubtful = spread * unlike(&by_charges, &after);
    let whole = scheduler;
    hand_over(row, &mut groups, &mut scheduler);
    let from_outer = behind::pass_on(row, &mut groups);
    // What was handed over had in part been spread before: it stays spread.
    let handed_over = to_scheduler * quotient(whole - scheduler, whole);
    let charged = to_waits + to_scheduler - handed_over;
    let known = 1.0 - row.shared_out.clamp(0.0, 1.0);
    let ways = Ways {
        charged: charged * known,
        handed_over: handed_over * known,
        spread: spread + (charged + handed_over) * (1.0 - known),
        doubtful: doubtful * known + (spread + charged + handed_over) * (1.0 - known),
    };
    Idle { unused, no_request, groups, from_outer, scheduler, ways }
}

/// The part of what is shared out that went elsewhere than what was charged before: half the sum of
/// the differences of shares, the distance of total variation.
fn unlike(charged: &[f64], after: &[f64]) -> f64 {
    let spread: Vec<f64> = after.iter().zip(charged).map(|(all, own)| all - own).collect();
    let [own, more]: [f64; 2] = [charged.iter().sum(), spread.iter().sum()];
    if own < ENOUGH_CHARGED * more {
        return 1.0;
    }
    let apart = |(one, other): (&f64, &f64)| (quotient(*one, own) - quotient(*other, more)).abs();
    charged.iter().zip(&spread).map(apart).sum::<f64>() / 2.0
}

/// Where no client is known the rest is like what was charged, if anything was.
fn spread_as_charged(groups: &mut [f64], uncharged: f64) -> bool {
    let charged: f64 = groups.iter().sum();
    let more = uncharged * quotient(1.0, charged);
    groups.iter_mut().for_each(|group| *group += *group * more);
    charged > 0.0
}

/// A thread that was woken and is on its way to a core still waits for what it had been blocked
/// on. Idle cores beside such threads are those waits', in proportion to the wake-ups that each
/// made; wake-ups for requests and for work leave their part to the scheduler.
fn hand_over(row: &Row, groups: &mut [f64], scheduler: &mut f64) {
    let all = row.woken.iter().sum::<f64>() + row.woken_for_work;
    if all <= 0.0 {
        return;
    }
    let whole = *scheduler;
    for (group, woken) in groups.iter_mut().zip(&row.woken) {
        let part = whole * woken / all;
        *group += part;
        *scheduler -= part;
    }
    *scheduler = scheduler.max(0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(clients: u32, cores: u32) -> Level {
        Level { clients, cores }
    }

    #[test]
    fn unused_cores_come_out_of_uncharged_idle_first() {
        let row =
            Row { cores: 2.0, idle: 1.3, charged: vec![0.2], blocked: vec![0.5], ..Row::default() };
        let idle = split_idle(&row, level(1, 2));
        assert!((idle.unused - 1.0).abs() < 1e-12);
        assert!((idle.groups[0] - 0.3).abs() < 1e-12, "{:?}", idle.groups);
    }

    #[test]
    fn what_is_shared_out_as_it_was_charged_is_not_in_doubt() {
        let of = |charged: [f64; 2], blocked: [f64; 2]| {
            let (charged, blocked) = (charged.to_vec(), blocked.to_vec());
            let row = Row { cores: 2.0, idle: 1.6, charged, blocked, ..Row::default() };
            split_idle(&row, level(4, 2)).ways
        };
        let alike = of([0.8, 0.0], [3.0, 0.0]);
        assert!((alike.spread - 0.8).abs() < 1e-12 && alike.doubtful.abs() < 1e-12, "{alike:?}");
        let in_part = of([0.8, 0.0], [3.0, 1.0]);
        assert!((in_part.doubtful - 0.2).abs() < 1e-12, "{in_part:?}");
        let elsewhere = of([0.8, 0.0], [0.0, 3.0]);
        assert!((elsewhere.doubtful - 0.8).abs() < 1e-12, "{elsewhere:?}");
        let hardly = of([0.1, 0.0], [3.0, 0.0]);
        assert!((hardly.doubtful - hardly.spread).abs() < 1e-12, "{hardly:?}");
    }

    #[test]
    fn uncharged_idle_is_split_over_what_clients_waited_for() {
        let row = Row {
            cores: 2.0,
            idle: 1.0,
            charged: vec![0.0, 0.0],
            blocked: vec![3.0, 0.0],
            runnable: 1.0,
            ..Row::default()
        };
        let idle = split_idle(&row, level(8, 2));
        assert!((idle.groups[0] - 0.75).abs() < 1e-12);
        assert!((idle.scheduler - 0.25).abs() < 1e-12);
        assert!(idle.unused.abs() < 1e-12);
        assert!((idle.ways.spread - 1.0).abs() < 1e-12 && idle.ways.charged.abs() < 1e-12);
    }

    #[test]
    fn who_was_handed_a_lock_and_is_on_its_way_still_waits_for_it() {
        let row = Row {
            cores: 2.0,
            idle: 1.0,
            idle_scheduler: 1.0,
            woken: vec![300.0, 0.0],
            woken_for_work: 100.0,
            charged: vec![0.0, 0.0],
            ..Row::default()
        };
        let idle = split_idle(&row, level(8, 2));
        assert!((idle.groups[0] - 0.75).abs() < 1e-12, "{:?}", idle.groups);
        assert!((idle.scheduler - 0.25).abs() < 1e-12);
        assert!((idle.ways.handed_over - 0.75).abs() < 1e-12);
        assert!((idle.ways.charged - 0.25).abs() < 1e-12 && idle.ways.spread.abs() < 1e-12);
    }

    #[test]
    fn steal_fills_only_what_is_left() {
        let row = Row { cores: 1.0, system: 0.9, idle: 0.08, steal: 0.5, ..Row::default() };
        let balance = Balance::of(&row, &Reference::default(), level(1, 1));
        assert!((balance.steal - 0.02).abs() < 1e-12);
        assert!(balance.unaccounted.abs() < 1e-12);
    }

    fn rows() -> impl Strategy<Value = Row> {
        let part = || 0.0_f64..3.0;
        let four = || prop::collection::vec(0.0_f64..2.0, 4);
        let more = (part(), part(), part());
        let less = (part(), part(), part(), part(), part(), part());
        (less, (four(), four(), four()), 1.0_f64..1e5, more).prop_map(|(a, v, throughput, b)| Row {
            kernel: b.0,
            no_request: b.1,
            idle_no_request: b.2,
            throughput,
            cores: 4.0,
            system: a.0,
            idle: a.1,
            idle_scheduler: a.2,
            others: a.3,
            steal: a.4,
            runnable: a.5,
            woken: v.1.iter().rev().copied().collect(),
            charged: v.0,
            blocked: v.1,
            profile: v.2,
            ..Row::default()
        })
    }

    proptest! {
        #[test]
        fn everything_idle_is_placed_and_everything_adds_up(
            row in rows(), reference in rows(), clients in 0_u32..9
        ) {
            let idle = split_idle(&row, level(clients, 4));
            let groups: f64 = idle.groups.iter().sum();
            let placed = idle.unused + idle.no_request + idle.scheduler + groups;
            prop_assert!((placed - row.idle).abs() < 1e-9, "{placed} of {}", row.idle);
            prop_assert!(idle.groups.iter().all(|group| *group >= 0.0));
            let Ways { charged, handed_over, spread, doubtful } = idle.ways;
            prop_assert!((-1e-9..=spread + 1e-9).contains(&doubtful), "{doubtful} of {spread}");
            let ways = idle.unused + charged + handed_over + spread;
            let lacking = row.idle - ways;
            prop_assert!(lacking.abs() < 1e-9, "{ways} of {}", row.idle);
            prop_assert!(charged >= -1e-12 && handed_over >= -1e-12 && spread >= 0.0);
            let balance = Balance::of(&row, &Reference::of(&reference), level(clients, 4));
            prop_assert!((balance.sum() + balance.unaccounted - 4.0).abs() < 1e-9);
            if let Some(parts) = &balance.by_function {
                let sum: f64 = parts.iter().sum();
                prop_assert!((sum - balance.extra_cpu).abs() < 1e-6 * (1.0 + sum.abs()));
            }
        }
    }
}

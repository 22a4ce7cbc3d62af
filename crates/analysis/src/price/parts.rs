//! The parts of a price: the core ledger cut into pieces that are the same at every level.

use crate::ledgers::accounts::Account;
use crate::ledgers::balance::Balance;
use crate::ledgers::slices::Functions;

/// What is nowhere this part of C is summed.
const LEAST_PART: f64 = 0.01;
/// Functions, and waits, with a part of their own, at most.
const MOST: usize = 12;

/// One piece of the core ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Useful,
    /// CPU above D_ref of a function that is no wait's, by index.
    Function(usize),
    OtherFunctions,
    /// A wait group, by index: what idles for it, and the CPU above D_ref that it brings.
    Group(usize),
    OtherGroups,
    Scheduler,
    Generator,
    NoRequest,
    Kernel,
    Steal,
    Interrupts,
    Others,
    Kneepoint,
    Unused,
    Unaccounted,
}

/// What stands beside functions and waits.
const BESIDE: [Part; 13] = [
    Part::Useful,
    Part::OtherFunctions,
    Part::OtherGroups,
    Part::Scheduler,
    Part::Generator,
    Part::NoRequest,
    Part::Kernel,
    Part::Steal,
    Part::Interrupts,
    Part::Others,
    Part::Kneepoint,
    Part::Unused,
    Part::Unaccounted,
];

impl Part {
    /// Whether it needs stacks to be told from its neighbours.
    pub(super) const fn is_by_function(self) -> bool {
        use Part::{Function, Group, OtherFunctions, OtherGroups};
        matches!(self, Function(_) | OtherFunctions | Group(_) | OtherGroups)
    }
}

/// Which parts there are.
pub(super) struct Parts {
    pub(super) list: Vec<Part>,
    /// Functions with a part of their own.
    functions: Vec<usize>,
    /// Waits with a part of their own.
    groups: Vec<usize>,
    /// Functions that are a wait's work, by wait.
    work: Vec<Vec<usize>>,
}

impl Parts {
    /// Of all `levels`: what is a hundredth of C at one of them has its own part at all.
    pub(super) fn new(levels: &[&Account], functions: &Functions) -> Self {
        let groups = levels.first().map_or(0, |account| account.balance.idle.len());
        let work = (0..groups).map(|group| functions.work_of(group).collect()).collect();
        let none = Self { list: Vec::new(), functions: Vec::new(), groups: Vec::new(), work };
        let most = |part: Part| {
            let share = |one: &&Account| none.cores(part, &one.balance).abs() / one.balance.total;
            levels.iter().map(share).fold(0.0, f64::max)
        };
        let plain = (0..functions.list.len()).filter(|at| functions.list[*at].lock.is_none());
        let functions = greatest(plain, |at| most(Part::Function(at)));
        let groups = greatest(0..groups, |at| most(Part::Group(at)));
        let own = functions.iter().map(|at| Part::Function(*at));
        let list = own.chain(groups.iter().map(|at| Part::Group(*at))).chain(BESIDE).collect();
        Self { list, functions, groups, work: none.work }
    }

    /// Cores of a part. All parts of the list add up to all cores.
    pub(super) fn cores(&self, part: Part, balance: &Balance) -> f64 {
        match part {
            Part::Useful => balance.useful,
            Part::Function(function) => extra(balance, function),
            Part::OtherFunctions => {
                let own = self.functions.iter().chain(self.work.iter().flatten());
                balance.extra_cpu - own.map(|at| extra(balance, *at)).sum::<f64>()
            }
            Part::Group(group) => idle(balance, group) + self.work_of(balance, group),
            Part::OtherGroups => self
                .other_groups()
                .map(|group| idle(balance, group) + self.work_of(balance, group))
                .sum(),
            Part::Scheduler => balance.scheduler,
            Part::Generator => balance.generator,
            Part::NoRequest => balance.no_request,
            Part::Kernel => balance.kernel,
            Part::Steal => balance.steal,
            Part::Interrupts => balance.irq,
            Part::Others => balance.others,
            Part::Kneepoint => balance.kneepoint,
            Part::Unused => balance.unused,
            Part::Unaccounted => balance.unaccounted,
        }
    }

    /// The idle cores among those of a part.
    pub(super) fn idle(&self, part: Part, balance: &Balance) -> f64 {
        match part {
            Part::Group(group) => idle(balance, group),
            Part::OtherGroups => self.other_groups().map(|group| idle(balance, group)).sum(),
            Part::Scheduler | Part::NoRequest | Part::Unused => self.cores(part, balance),
            _ => 0.0,
        }
    }

    fn other_groups(&self) -> impl Iterator<Item = usize> {
        (0..self.work.len()).filter(|group| !self.groups.contains(group))
    }

    fn work_of(&self, balance: &Balance, group: usize) -> f64 {
        self.work[group].iter().map(|function| extra(balance, *function)).sum()
    }
}

/// The greatest that count, in their order.
fn greatest(all: impl Iterator<Item = usize>, size: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut own: Vec<(usize, f64)> =
        all.map(|at| (at, size(at))).filter(|(_, size)| *size >= LEAST_PART).collect();
    own.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    own.truncate(MOST);
    let mut own: Vec<usize> = own.into_iter().map(|(at, _)| at).collect();
    own.sort_unstable();
    own
}

/// Extra CPU of a function; where there are no stacks all of it is that of other functions.
fn extra(balance: &Balance, function: usize) -> f64 {
    balance.by_function.as_ref().map_or(0.0, |parts| parts[function])
}

fn idle(balance: &Balance, group: usize) -> f64 {
    balance.idle.get(group).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledgers::balance::Reference;
    use crate::ledgers::row::{Row, per_operation};
    use kneepoint_vocab::Level;
    use proptest::prelude::*;

    const KINDS: usize = 4;

    fn row() -> impl Strategy<Value = Row> {
        let cores = || 0.0_f64..1.0;
        let four = || prop::collection::vec(0.0_f64..1.0, KINDS);
        let busy = (cores(), cores(), cores(), cores(), cores());
        let idle = (cores(), cores(), cores(), cores());
        (busy, idle, (four(), four(), four()), 1.0_f64..1e5).prop_map(|(b, i, v, throughput)| Row {
            throughput,
            cores: 4.0,
            system: b.0,
            generator: b.1,
            others: b.2,
            kernel: b.3,
            steal: b.4,
            idle: i.0,
            idle_scheduler: i.1,
            no_request: i.2,
            runnable: i.3,
            charged: v.0,
            blocked: v.1,
            profile: v.2,
            ..Row::default()
        })
    }

    /// Two functions and two waits with a part of their own; function 1 is the work of wait 2,
    /// function 3 of wait 3.
    fn parts() -> Parts {
        let own = [Part::Function(0), Part::Group(0), Part::Group(2)];
        Parts {
            list: own.into_iter().chain(BESIDE).collect(),
            functions: vec![0],
            groups: vec![0, 2],
            work: vec![vec![], vec![], vec![1], vec![3]],
        }
    }

    proptest! {
        /// From any level to any other the price rises by the sum of what its parts rise by.
        #[test]
        fn a_price_rises_by_the_sum_of_its_parts(
            rows in [row(), row(), row()], clients in [1_u32..9, 1_u32..9], stacks in any::<bool>()
        ) {
            let [mut reference, under, over] = rows;
            if !stacks {
                reference.profile = vec![0.0; KINDS];
            }
            let reference = Reference::of(&reference);
            let at = |row: &Row, clients| Balance::of(row, &reference, Level { clients, cores: 4 });
            let (before, after) = (at(&under, clients[0]), at(&over, clients[1]));
            let parts = parts();
            let price = |part: &Part, row: &Row, balance: &Balance| {
                per_operation(parts.cores(*part, balance), row)
            };
            let rises: Vec<f64> = parts
                .list
                .iter()
                .map(|part| price(part, &over, &after) - price(part, &under, &before))
                .collect();
            let (low, high) = (4.0 / under.throughput, 4.0 / over.throughput);
            let sum: f64 = rises.iter().sum();
            let off = (sum - (high - low)).abs();
            prop_assert!(off < 1e-9 * (low + high), "{sum} of {}", high - low);
            // The useful part is D_ref everywhere.
            let useful = parts.list.iter().position(|part| *part == Part::Useful).unwrap();
            prop_assert!(rises[useful].abs() < 1e-9 * (low + high));
            for part in &parts.list {
                let (idle, all) = (parts.idle(*part, &after), parts.cores(*part, &after));
                // What is not accounted for may be below 0, and CPU of a function below D_ref.
                let whole = part.is_by_function() || *part == Part::Unaccounted;
                prop_assert!(idle >= -1e-12 && (idle <= all + 1e-9 || whole), "{part:?}");
            }
        }
    }
}

//! Whether the load generator, and not the system, limits the throughput.
//!
//! A generator is a program like any other: one of its threads, or its cores, may have no more to
//! give: it is saturated, and the curve is its own. Two signs, at the level of the causes:
//!
//! * its busiest thread takes 90 % of a core or more, while 20 % or more of the system's cores
//!   idle for want of a request;
//! * on cores of its own: it keeps 90 % of them busy or more.
//!
//! On the system's cores it also limits without being full where it takes more CPU than the system:
//! that is said, but its CPU is lost only as far as it grows.

use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::row::Row;
use crate::ledgers::row::per_operation;
use crate::number::{estimate, finite};
use kneepoint_vocab::findings::{Bottleneck, Generator, LevelInstruments, TaskLine};
use kneepoint_vocab::units::{Cores, Seconds};
use kneepoint_vocab::{Clients, Estimate, Plan, TaskOwner};

/// A thread or core this busy has no more to give.
pub(crate) const SATURATED: f64 = 0.9;
/// This part of the system's cores idle for want of a request is a lack of requests.
const WANT: f64 = 0.2;

/// The verdict; absent where the clients live in the system or no facts were collected.
pub(crate) fn generator(
    plan: &Plan,
    accounts: &Accounts,
    account: Option<&Account>,
    instruments: &[LevelInstruments],
) -> Option<Generator> {
    let account = account.filter(|_| plan.clients == Clients::Apart)?;
    let own_cores = plan.generator_cores;
    let cores: Estimate<Cores> = accounts.estimate(account, |row, _| {
        if own_cores > 0 { row.generator_threads } else { row.generator }
    });
    let cores = estimate(cores.value.0, cores.low.0.max(0.0), cores.high.0);
    let busiest_of = |owner: TaskOwner| {
        let here = instruments.iter().filter(|found| found.level == account.level);
        let tasks = here.flat_map(|found| &found.tasks).filter(|task| task.owner == owner);
        tasks.max_by(|a, b| a.busiest.0.total_cmp(&b.busiest.0)).cloned()
    };
    let cost = |rate: fn(&Row) -> f64| {
        accounts.estimate::<Seconds>(account, move |row, _| per_operation(rate(row), row))
    };
    let own: fn(&Row) -> f64 =
        if own_cores > 0 { |row| row.generator_threads } else { |row| row.generator };
    let mut generator = Generator {
        cores,
        own_cores,
        per_operation: Some(cost(own)),
        system_per_operation: Some(cost(|row| row.system)),
        system: busiest_of(TaskOwner::System).map(|task| task.name),
        busiest: busiest_of(TaskOwner::Generator),
        bottleneck: None,
        saturated: false,
    };
    generator.bottleneck = bottleneck(&generator, account);
    generator.saturated = generator.bottleneck.is_some();
    if generator.bottleneck.is_none() {
        generator.bottleneck = outweighs(&generator, account);
    }
    Some(generator)
}

/// Why it has no more to give, where that is so.
fn bottleneck(generator: &Generator, account: &Account) -> Option<Bottleneck> {
    let (balance, cores) = (&account.balance, generator.cores.value);
    let wanting = balance.no_request >= WANT * balance.total && balance.total > 0.0;
    let full = |task: &&TaskLine| task.busiest.0 >= SATURATED;
    if let Some(task) = generator.busiest.as_ref().filter(full).filter(|_| wanting) {
        return Some(Bottleneck::Thread {
            name: task.name.clone(),
            busiest: task.busiest,
            idle: Cores(finite(balance.no_request)),
            of: Cores(finite(balance.total)),
        });
    }
    let own = f64::from(generator.own_cores);
    let full = own > 0.0 && cores.0 >= SATURATED * own;
    full.then_some(Bottleneck::OwnCores { busy: cores, of: generator.own_cores })
}

/// It limits without being full where it takes more of the shared cores than the system.
fn outweighs(generator: &Generator, account: &Account) -> Option<Bottleneck> {
    let cores = generator.cores.value;
    let system = Cores(finite(account.row.system));
    let more = generator.own_cores == 0 && cores.0 > account.row.system;
    more.then_some(Bottleneck::Outweighs { generator: cores, system })
}

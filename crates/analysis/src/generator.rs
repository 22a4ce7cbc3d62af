//! Whether the load generator, and not the system, limits the throughput.
//!
//! A generator is a program like any other: one of its threads, or its cores, may have no more to
//! give. Then the curve is the generator's. Three signs, at the focus level:
//!
//! * its busiest thread takes 90 % of a core or more, while 20 % or more of the system's cores
//!   idle for want of a request;
//! * on cores of its own: it keeps 90 % of them busy or more;
//! * on the system's cores: it takes more CPU than the system.

use crate::accounts::{Account, Accounts};
use crate::number::estimate;
use crate::words;
use kneepoint_vocab::findings::{Generator, LevelInstruments, TaskLine};
use kneepoint_vocab::units::Cores;
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
    let busiest = instruments
        .iter()
        .filter(|found| found.level == account.level)
        .flat_map(|found| &found.tasks)
        .filter(|task| task.owner == TaskOwner::Generator)
        .max_by(|a, b| a.busiest.0.total_cmp(&b.busiest.0))
        .cloned();
    let mut generator = Generator { cores, own_cores, busiest, bottleneck: None };
    generator.bottleneck = bottleneck(&generator, account);
    Some(generator)
}

fn bottleneck(generator: &Generator, account: &Account) -> Option<String> {
    let (balance, cores) = (&account.balance, generator.cores.value.0);
    let wanting = balance.no_request >= WANT * balance.total && balance.total > 0.0;
    let full = |task: &&TaskLine| task.busiest.0 >= SATURATED;
    if let Some(task) = generator.busiest.as_ref().filter(full).filter(|_| wanting) {
        return Some(format!(
            "its thread {} uses {} of a core while {} of {} cores idle for its next request",
            task.name,
            words::percent(task.busiest.0),
            words::quantity(balance.no_request),
            words::quantity(balance.total)
        ));
    }
    let own = f64::from(generator.own_cores);
    if own > 0.0 && cores >= SATURATED * own {
        let of = words::counted(generator.own_cores, "core");
        let busy = words::quantity(cores);
        return Some(format!("it keeps {busy} of the {of} of its own busy"));
    }
    (generator.own_cores == 0 && cores > account.row.system).then(|| {
        format!(
            "it takes {} cores on the machine that it shares, the system itself {}",
            words::quantity(cores),
            words::quantity(account.row.system)
        )
    })
}

/// What to do about a generator that limits.
pub(crate) fn remedy(generator: &Generator) -> &'static str {
    if generator.own_cores > 0 {
        "give it more cores of its own (--generator-cores) or more threads"
    } else {
        "give it cores of its own (--generator-cores) or more threads"
    }
}

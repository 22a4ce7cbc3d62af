//! What next: changes tried on the run's twin, in words.

use crate::number::{self, sentence};
use kneepoint_vocab::findings::{Altered, Estimate, Name, NoTwin, TwinForecast, Undetermined};
use kneepoint_vocab::{PerSecond, Ratio};

/// A change.
pub(crate) fn altered(change: &Altered) -> String {
    match change {
        Altered::Without { lock } => format!("without {lock}"),
        Altered::Library { lock } => {
            format!("another library for {lock}, without its system calls")
        }
        Altered::Split { lock, parts } => format!("{lock} split in {parts}"),
        Altered::Queued { lock } => format!("{lock} as an MCS lock"),
        Altered::Saved { cause } if *cause == Name::AllFunctions.to_string() => {
            "operations at their least CPU".to_owned()
        }
        Altered::Saved { cause } => format!("without CPU in {cause}"),
        Altered::Faster { factor } => format!("cores {} as fast", number::plain_factor(*factor)),
        Altered::Cores { cores } => super::counted(*cores, "core"),
    }
}

/// What a change brings, with its interval of 90 %.
pub(crate) fn ratio(forecast: &TwinForecast) -> number::Shown {
    let TwinForecast { ratio, ratio_low, ratio_high, .. } = *forecast;
    number::factor(&Estimate::<Ratio> { value: ratio, low: ratio_low, high: ratio_high })
}

/// Throughput that is forecast, with its interval of 90 %.
pub(crate) fn throughput(forecast: &TwinForecast) -> number::Shown {
    let TwinForecast { throughput, low, high, .. } = *forecast;
    number::rate(&Estimate::<PerSecond> { value: throughput, low, high })
}

/// Why a run has no twin, or its twin no answer, and what would help.
pub(crate) fn no_twin(why: &NoTwin) -> String {
    let no_twin = |what: &str| format!("no twin can be calibrated: {what}");
    match why {
        NoTwin::NotWatched => {
            no_twin("nobody watched the threads; run it with the collector, as root")
        }
        NoTwin::FewLevels => no_twin("two levels with ledgers are the least; run more --levels"),
        NoTwin::NoDemand => no_twin("the CPU of an operation is not known at every level"),
        NoTwin::SharedThreads => no_twin(
            "no thread is known to serve one client; a level of 1 client, and clients that live in \
             the system, would give a twin",
        ),
        NoTwin::NoStructure => {
            "no twin of this structure can be simulated at the measured levels".to_owned()
        }
        NoTwin::NoRatio => {
            "the variant's ratio has no interval above 0; run more blocks".to_owned()
        }
        NoTwin::Misses { clients, ratio } => format!(
            "the calibrated twin misses {clients} clients by {:+.0} %; it is not used",
            100.0 * (ratio.0 - 1.0)
        ),
        NoTwin::ManyClients { clients, measured, times } => format!(
            "{clients} clients are more than {times} times the {measured} that were measured: \
             measure at least {}",
            clients.div_ceil(*times)
        ),
        NoTwin::ManyCores { cores, measured, times } => format!(
            "{cores} cores are more than {times} times the {measured} that were measured: \
             measure on at least {}",
            cores.div_ceil(*times)
        ),
        NoTwin::NoCrowd { cores } => format!(
            "no level with more clients than the {cores} cores was measured, so what they cost \
             each other is not known: measure {} clients",
            2 * cores
        ),
        NoTwin::Asleep { clients, from } => format!(
            "with {} cores sleep between operations, which no twin knows: ask for {from} or more",
            number::counted(*clients, "client")
        ),
        NoTwin::Yields { part } => yields(*part),
        NoTwin::Failed { why } => why.clone(),
    }
}

fn yields(part: Ratio) -> String {
    format!(
        "threads give up their cores (sched_yield) for {} of an operation's CPU, and what that \
         costs once no lock keeps others from running is not known",
        sentence::percent(part)
    )
}

/// What the measured levels do not determine, and which would.
pub(crate) fn undetermined(what: &Undetermined) -> String {
    match what {
        Undetermined::Start => {
            "how long an idle core takes to begin; a level of 1 client would".to_owned()
        }
        Undetermined::Asleep { from } => {
            format!("throughput of fewer than {from} clients, which leave cores asleep")
        }
        Undetermined::Yields { part } => format!("what a lock less brings: {}", yields(*part)),
        Undetermined::Visits => {
            "visits of an operation to its locks; a level between those measured would".to_owned()
        }
        Undetermined::Held { lock, low, most } => format!(
            "time under {lock}; levels between {low} and {most} clients, or {} would",
            2 * most
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_said_by_its_cause() {
        let saved = |name: Name| altered(&Altered::Saved { cause: name.to_string() });
        assert_eq!(saved(Name::Own("join".to_owned())), "without CPU in join");
        assert_eq!(saved(Name::AllFunctions), "operations at their least CPU");
    }
}

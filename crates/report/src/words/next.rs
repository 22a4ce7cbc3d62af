//! What next: changes tried on the run's twin, in words.

use crate::number;
use kneepoint_vocab::findings::{Altered, Estimate, TwinForecast};
use kneepoint_vocab::{PerSecond, Ratio};

/// A change.
pub(crate) fn altered(change: &Altered) -> String {
    match change {
        Altered::Without { lock } => format!("without {lock}"),
        Altered::Split { lock, parts } => format!("{lock} split in {parts}"),
        Altered::Queued { lock } => format!("{lock} as an MCS lock"),
        Altered::Saved { cause } => format!("without the CPU of {cause}"),
        Altered::Faster { factor } => format!("cores {} as fast", number::plain_factor(*factor)),
        Altered::Cores { cores } => format!("{cores} cores"),
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

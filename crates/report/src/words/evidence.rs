//! Words for how a run was driven and what the classic instruments saw.

use crate::number;
use crate::words::counted;
use kneepoint_vocab::fact::TaskOwner;
use kneepoint_vocab::findings::{Counts, Generator, TaskLine, Vmstat};
use kneepoint_vocab::{Findings, ProtocolName, Ratio, Unit};

/// Cores from which on a thread counts as saturated.
const SATURATED: f64 = 0.9;
/// How far from 1 the shares of a `vmstat` line may add up before it is said.
const ODD: f64 = 0.02;

/// Whether nothing was measured by Kneepoint itself.
pub(crate) fn imported(findings: &Findings) -> bool {
    findings.protocol.name == ProtocolName::Imported
}

/// Where imported results come from; nothing for a run of our own.
pub(crate) fn source(findings: &Findings) -> Option<String> {
    if !imported(findings) {
        return None;
    }
    let said = |(tool, file): (&str, &str)| match tool {
        "" => file.to_owned(),
        _ => format!("{tool}: {file}"),
    };
    let all: Vec<String> = findings.host.imports().map(said).collect();
    let first = all.first().map_or("another tool", String::as_str);
    let more = if all.len() > 1 { format!(" and {} more", all.len() - 1) } else { String::new() };
    Some(format!("from {first}{more}"))
}

/// Which protocol, and how precise the peak is; nothing but for a published one.
pub(crate) fn protocol(findings: &Findings) -> Option<String> {
    let published = findings.protocol.name == ProtocolName::Published;
    published.then(|| format!("published protocol; {}", precision(findings)))
}

/// How precise the throughput at the peak is.
pub(crate) fn precision(findings: &Findings) -> String {
    let precision = findings.protocol.precision.filter(|share| share.get() > 1e-9);
    if let Some(precision) = precision {
        return format!("precision of the peak ±{}", number::plain_percent(precision));
    }
    if findings.curve.points.iter().all(|point| point.slices <= 1) {
        "one repetition: no interval".to_owned()
    } else {
        "no interval for the peak".to_owned()
    }
}

/// What the load generator used, and of whose cores.
pub(crate) fn generator(generator: &Generator) -> String {
    let cores = number::ledger_cores(&generator.cores);
    let whose = match generator.own_cores {
        0 => "shares the system's cores".to_owned(),
        own => format!("own cores: {own}"),
    };
    let interval =
        if cores.interval.is_empty() { String::new() } else { format!(" {}", cores.interval) };
    format!("{} cores{interval}, {whose}", cores.value)
}

/// What the bench costs beside the system: `mariadbd 345 µs + sysbench 73 µs`.
pub(crate) fn bench_price(generator: &Generator) -> Option<String> {
    let system = generator.system.as_deref().unwrap_or("system");
    let own = generator.busiest.as_ref().map_or("load generator", |task| task.name.as_str());
    let (of_system, of_own) = (generator.system_per_operation?, generator.per_operation?);
    let (of_system, of_own) =
        (number::plain_seconds(of_system.value), number::plain_seconds(of_own.value));
    Some(format!("{system} {of_system} + {own} {of_own}"))
}

/// How well the two counts agree.
pub(crate) fn counts(counts: &Counts) -> String {
    format!(
        "generator and server agree: {}, worst {} in {}",
        counts.counter,
        number::plain_percent(counts.worst),
        counted(counts.trials, "trial")
    )
}

/// Whose a thread is.
pub(crate) const fn owner(owner: TaskOwner) -> &'static str {
    match owner {
        TaskOwner::System => "system",
        TaskOwner::Generator => "generator",
        TaskOwner::Kernel => "kernel",
        TaskOwner::Kneepoint => "Kneepoint",
        TaskOwner::Other => "other",
    }
}

/// Whether the busiest of these threads has nearly a whole core, and so no room left.
pub(crate) fn saturated(line: &TaskLine) -> bool {
    line.busiest.get() >= SATURATED
}

/// A share in whole percent, without sign, as `vmstat` prints it.
pub(crate) fn whole_percent(share: Ratio) -> String {
    let percent = share.get() * 100.0;
    if percent.is_finite() { format!("{percent:.0}").replace("-0", "0") } else { "–".to_owned() }
}

/// What the shares of a `vmstat` line add up to, where that is not all.
pub(crate) fn odd_sum(line: &Vmstat) -> Option<String> {
    let odd = (line.sum.get() - 1.0).abs() > ODD;
    odd.then(|| format!("{} %", whole_percent(line.sum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{Estimate, PerSecond};

    #[test]
    fn the_generator_says_whose_cores_it_has() {
        let mut of = Generator {
            cores: Estimate::of(0.41, 0.39, 0.44),
            own_cores: 0,
            busiest: None,
            bottleneck: None,
            saturated: false,
            per_operation: None,
            system_per_operation: None,
            system: None,
        };
        assert_eq!(generator(&of), "0.41 cores [0.39–0.44], shares the system's cores");
        of.own_cores = 1;
        assert_eq!(generator(&of), "0.41 cores [0.39–0.44], own cores: 1");
    }

    #[test]
    fn the_bench_has_a_price_beside_the_system_s() {
        let price = |value: f64| Some(Estimate::of(value, value, value));
        let mut of = Generator {
            cores: Estimate::of(0.41, 0.39, 0.44),
            own_cores: 0,
            busiest: None,
            bottleneck: None,
            saturated: false,
            per_operation: price(73e-6),
            system_per_operation: price(345e-6),
            system: Some("mariadbd".to_owned()),
        };
        assert_eq!(bench_price(&of).unwrap(), "mariadbd 345 µs + load generator 73.0 µs");
        of.per_operation = None;
        assert_eq!(bench_price(&of), None);
    }

    #[test]
    fn counts_say_how_far_apart_they_were() {
        let of = Counts { counter: "Questions".to_owned(), trials: 84, worst: Ratio(0.0002) };
        let said = "generator and server agree: Questions, worst 0.02 % in 84 trials";
        assert_eq!(counts(&of), said);
    }

    #[test]
    fn only_an_odd_sum_is_reported() {
        let count = kneepoint_vocab::Count(1.0);
        let mut line = Vmstat {
            runnable: count,
            blocked: count,
            interrupts: PerSecond(1.0),
            switches: PerSecond(1.0),
            user: Ratio(0.6),
            system: Ratio(0.2),
            idle: Ratio(0.19),
            iowait: Ratio(0.0),
            steal: Ratio(0.0),
            sum: Ratio(0.99),
        };
        assert_eq!(odd_sum(&line), None);
        line.sum = Ratio(0.93);
        assert_eq!(odd_sum(&line).as_deref(), Some("93 %"));
        line.sum = Ratio(f64::NAN);
        assert_eq!(odd_sum(&line), None);
    }
}

//! The words of a comparison, the same in every format.

use super::counted;
use super::line::brief;
use crate::number;
use crate::text;
use kneepoint_vocab::Comparison;
use kneepoint_vocab::comparison::{
    Answer, ComparedPart, ComparedRun, ComparisonCaveat, ConditionAnswer, ConditionPlace,
    Incomparable, LevelRatio, NoCondition, PriceLine, PricePair, RatioVerdict, RunPair, Unlike,
};
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::{Clients, Estimate, Level, ProtocolName, Seconds, Tier};

/// What two directories cannot be.
pub(crate) const NO_PAIR: &str = "Two dates are not a pair: nothing was interleaved, and what \
                                  changed on the machine between them is in every ratio.";
/// What differs is reported in so many lines.
const MOST_UNLIKE: usize = 12;
/// Columns of one value that differs.
const LONGEST: usize = 60;

/// `2026-11-21 21:43, 6 starts, A/A ±4 %`.
pub(crate) fn run(run: &ComparedRun) -> String {
    let stamp: String =
        run.begun.chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect();
    let mut said = stamp;
    if run.starts > 0 {
        said += &format!(", {}", counted(run.starts, "start"));
    }
    if let Some(floor) = run.noise_floor {
        said += &format!(", A/A ±{}", number::plain_percent(floor));
    }
    if !run.trustworthy {
        said += ", not trustworthy";
    }
    text::disarm(&said).into_owned()
}

/// `peak`, `8`, or `8 on 2 cores`.
pub(crate) fn level(level: &LevelRatio, peak: bool) -> String {
    match (peak, level.cores) {
        (true, _) => "peak".to_owned(),
        (false, None) => level.clients.to_string(),
        (false, Some(cores)) => format!("{} on {cores}", level.clients),
    }
}

/// The verdict in a word or two.
pub(crate) const fn verdict(verdict: &RatioVerdict) -> &'static str {
    match verdict {
        RatioVerdict::Faster => "faster",
        RatioVerdict::Slower => "slower",
        RatioVerdict::NotDistinguishable { .. } => "not distinguishable",
        RatioVerdict::NoInterval => "one repetition: no verdict",
    }
}

/// `after gives 1.92× [1.81–2.03] of before at the peak: faster.`
pub(crate) fn headline(pair: &RunPair) -> String {
    let ratio = number::factor(&pair.peak.ratio);
    let verdict = verdict(&pair.peak.verdict);
    format!("{} gives {ratio} of {} at the peak: {verdict}.", pair.run, pair.over)
}

/// `±2 % would take 4 min more`; `within ±0.8 %` where no more time is asked for.
pub(crate) fn needs(verdict: &RatioVerdict) -> Option<String> {
    let RatioVerdict::NotDistinguishable { difference, needs } = verdict else { return None };
    let size = number::plain_percent(*difference);
    Some(match needs {
        Some(needs) => format!("±{size} would take {} more", number::brief_seconds(*needs)),
        None => format!("within ±{size}"),
    })
}

/// `Only one has 16 and 32 clients.`
pub(crate) fn unmatched(runs: &[ComparedRun], pair: &RunPair) -> String {
    let numbers: Vec<String> = pair.unmatched.iter().map(ToString::to_string).collect();
    let whose = if runs.len() == 2 { "Only one of the two" } else { "Only one of these two" };
    format!("{whose} has {} clients.", numbers.join(", "))
}

fn at(level: Level) -> String {
    counted(level.clients, "client")
}

/// `Cost per operation at 2 clients, in core-seconds, idle cores included`.
pub(crate) fn price_title(price: &PricePair) -> String {
    let cores = match price.over_level.cores == price.level.cores {
        true => String::new(),
        false => format!(" on {} and on {} cores", price.over_level.cores, price.level.cores),
    };
    format!("Cost per operation at {}{cores}: core-seconds, idle ones too", at(price.over_level))
}

/// A row of a table of prices.
pub(crate) struct PriceRow {
    pub(crate) label: String,
    pub(crate) kind: LineKind,
    pub(crate) over: String,
    pub(crate) run: String,
}

/// So many rows: causes first, then what changed most; the rest as one row.
pub(crate) fn price_lines(price: &PricePair, most: usize) -> Vec<PriceRow> {
    let value = |one: &Option<Estimate<Seconds>>| one.map_or(0.0, |one| one.value.0);
    let least = 0.005 * price.over.value.0.max(price.run.value.0);
    let counts = |line: &&PriceLine| value(&line.over).max(value(&line.run)) >= least;
    let (shown, rest): (Vec<&PriceLine>, Vec<&PriceLine>) = price.lines.iter().partition(counts);
    let cut = shown.len().min(most);
    let mut rows: Vec<PriceRow> = shown[..cut].iter().map(|line| row(line)).collect();
    let others: Vec<&&PriceLine> = shown[cut..].iter().chain(&rest).collect();
    if !others.is_empty() {
        let sum = |of: fn(&PriceLine) -> Option<Estimate<Seconds>>| {
            let sum: f64 = others.iter().map(|line| value(&of(line))).sum();
            number::plain_seconds(Seconds(sum))
        };
        rows.push(PriceRow {
            label: format!("{} more", others.len()),
            kind: LineKind::Unaccounted,
            over: sum(|line| line.over),
            run: sum(|line| line.run),
        });
    }
    rows
}

fn row(line: &PriceLine) -> PriceRow {
    let price = |price: &Option<Estimate<Seconds>>| {
        price.as_ref().map_or_else(|| "–".to_owned(), |price| number::seconds(price).value)
    };
    let label = match &line.part {
        ComparedPart::Cause { name } => format!("cause: {}", text::disarm(&name.to_string())),
        ComparedPart::Line { name } => text::disarm(&brief(name)).into_owned(),
    };
    PriceRow { label, kind: line.kind, over: price(&line.over), run: price(&line.run) }
}

/// `kernel: 6.1.90 → 6.1.94`, and how many more there are.
pub(crate) fn unlike(comparison: &Comparison) -> Vec<String> {
    let all = &comparison.not_alike;
    let mut out: Vec<String> = all
        .iter()
        .take(MOST_UNLIKE)
        .map(|unlike| {
            let values: Vec<String> = values(unlike)
                .iter()
                .map(|value| text::shorten(&text::disarm(value), LONGEST))
                .collect();
            format!("{}: {}", text::disarm(condition(unlike)), values.join(" → "))
        })
        .collect();
    if all.len() > MOST_UNLIKE {
        out.push(format!("{} more, which --json lists", all.len() - MOST_UNLIKE));
    }
    out
}

/// A condition's name for people.
fn condition(unlike: &Unlike) -> &str {
    match unlike {
        Unlike::Cpu { .. } => "CPU",
        Unlike::Cores { .. } => "cores",
        Unlike::Memory { .. } => "memory",
        Unlike::Kernel { .. } => "kernel",
        Unlike::Distribution { .. } => "distribution",
        Unlike::Kneepoint { .. } => "Kneepoint",
        Unlike::Command { .. } => "command",
        Unlike::Summary { .. } => "summary",
        Unlike::Protocol { .. } => "protocol",
        Unlike::Clients { .. } => "clients live",
        Unlike::GeneratorCores { .. } => "generator cores",
        Unlike::Window { .. } => "window of a slice",
        Unlike::Collector { .. } => "collector",
        Unlike::OtherProcesses { .. } => "CPU of other processes",
        Unlike::Steal { .. } => "steal",
        Unlike::Noise { .. } => "noise (A/A)",
        Unlike::Named { name, .. } => name,
    }
}

/// What each run has of a condition, in their order.
fn values(unlike: &Unlike) -> Vec<String> {
    fn each<T>(values: &[T], word: impl Fn(&T) -> String) -> Vec<String> {
        values.iter().map(word).collect()
    }
    let none = || "none".to_owned();
    match unlike {
        Unlike::Cpu { values }
        | Unlike::Kernel { values }
        | Unlike::Distribution { values }
        | Unlike::Kneepoint { values }
        | Unlike::Command { values }
        | Unlike::Summary { values } => values.clone(),
        Unlike::Cores { values } | Unlike::GeneratorCores { values } => {
            each(values, ToString::to_string)
        }
        Unlike::Memory { values_bytes } => each(values_bytes, |bytes| gib(*bytes)),
        Unlike::Protocol { values } => each(values, |one| protocol(*one).to_owned()),
        Unlike::Clients { values } => each(values, |one| clients(*one).to_owned()),
        Unlike::Window { values_ns } => {
            each(values_ns, |window| number::plain_seconds(window.seconds()))
        }
        Unlike::Collector { values } => {
            each(values, |tier| tier.map_or_else(none, |tier| self::tier(tier).to_owned()))
        }
        Unlike::OtherProcesses { values } | Unlike::Steal { values } => {
            each(values, |share| number::plain_percent(*share))
        }
        Unlike::Noise { values } => {
            each(values, |share| format!("±{}", number::plain_percent(*share)))
        }
        Unlike::Named { values, .. } => each(values, |one| one.clone().unwrap_or_else(none)),
    }
}

/// With a decimal always: two values that differ by a fiftieth shall not read the same.
#[allow(clippy::cast_precision_loss, reason = "four digits are printed")]
fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn protocol(name: ProtocolName) -> &'static str {
    match name {
        ProtocolName::Default => "Kneepoint's",
        ProtocolName::Published => "published",
        ProtocolName::Imported => "imported",
        ProtocolName::Profile => "profile",
    }
}

fn clients(live: Clients) -> &'static str {
    match live {
        Clients::Inside => "inside the system",
        Clients::Apart => "apart",
    }
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Full => "full",
        Tier::Fallback => "fallback",
    }
}

/// What limits a comparison, in a sentence.
pub(crate) fn caveat(caveat: &ComparisonCaveat) -> String {
    match caveat {
        ComparisonCaveat::NotTrustworthy { run } => {
            format!("{run} is not trustworthy: its own report says why.")
        }
        ComparisonCaveat::SingleRepetition { run } => {
            format!("{run} has a single repetition: no interval.")
        }
        ComparisonCaveat::FewStarts { run, starts } => {
            let starts =
                if *starts == 1 { "one start".to_owned() } else { counted(*starts, "start") };
            format!(
                "{run} was measured on {starts} of the system: its intervals are widened by what \
                 another start may differ."
            )
        }
        ComparisonCaveat::FewRepetitions { run, blocks } => {
            format!("{run} has {blocks} repetitions: wide intervals.")
        }
        ComparisonCaveat::OtherTool { run } => {
            format!("{run} was measured by another tool: no causes are known.")
        }
        ComparisonCaveat::CutShort { run } => {
            format!("{run} did not run to its end: what it had measured is compared.")
        }
        ComparisonCaveat::CommandsDiffer => {
            "The commands differ: that both count the same is for you to know.".to_owned()
        }
        ComparisonCaveat::LevelsLeftOut => {
            "Levels that only one of the runs has are left out.".to_owned()
        }
    }
}

/// Why there is no comparison, and what to do.
pub(crate) fn refusal(why: &Incomparable) -> String {
    match why {
        Incomparable::TooFew => "two run directories are needed".to_owned(),
        Incomparable::Profile { run } => {
            format!("{run} is a profile of one level, whose load nobody knows: compare runs")
        }
        Incomparable::Empty { run } => {
            format!("{run}: nothing was measured in it, so there is nothing to compare")
        }
        Incomparable::Operations { of } => format!(
            "{} counts {}, {} counts {}: give runs of one experiment",
            of.first, of.first_has, of.run, of.run_has
        ),
        Incomparable::Recipes { of } => format!(
            "{} is a run of {}, {} of {}: give runs of one experiment",
            of.first, of.first_has, of.run, of.run_has
        ),
        Incomparable::NoCommonLevel { first, run } => {
            format!("{first} and {run} have no level in common: measure with the same --levels")
        }
    }
}

/// Why a text is no condition, and what one looks like.
pub(crate) const fn no_condition(why: NoCondition) -> &'static str {
    match why {
        NoCondition::Form => {
            "write e.g. 'throughput < -5%', 'throughput@peak < -5%' or 'throughput@8 > 10%' (at 8 \
             clients)"
        }
        NoCondition::Limit => "the limit has to lie above -100%",
    }
}

/// `after at 8 clients on 2 cores`.
fn at_place(place: &ConditionPlace) -> String {
    let run = text::disarm(&place.run);
    let clients = counted(place.clients, "client");
    match (place.peak, place.cores) {
        (true, _) => format!("{run} at the peak"),
        (false, None) => format!("{run} at {clients}"),
        (false, Some(cores)) => format!("{run} at {clients} on {cores} cores"),
    }
}

/// `throughput < -5%: holds: after at 8 clients is 0.80× [0.75–0.85]`.
pub(crate) fn answer(answer: &ConditionAnswer) -> String {
    let found = match (&answer.place, &answer.ratio) {
        (Some(place), Some(ratio)) => format!(": {} is {}", at_place(place), number::factor(ratio)),
        _ => ": there is no level that both runs have".to_owned(),
    };
    let asked = text::disarm(&answer.asked);
    match answer.answer {
        Answer::Holds => format!("{asked} holds{found}."),
        Answer::DoesNotHold => format!("{asked} does not hold anywhere; nearest{found}."),
        Answer::Undecided => format!(
            "{asked} is undecided{found}. Measure longer (--budget, --precision) to decide it."
        ),
    }
}

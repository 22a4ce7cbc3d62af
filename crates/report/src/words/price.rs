//! Words for the price of an operation: why it rises, and that it does not.

use super::{Axis, cause_word, line_word};
use crate::number;
use crate::text;
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::findings::price::{Fall, LevelPrice, Price, PriceLine, Step};
use kneepoint_vocab::{Estimate, Findings, Level, Ratio, Seconds, Unit};

/// Steps below this part of all that rises have no row of their own.
const LEAST_ROW: f64 = 0.02;
/// A load generator below this part of the price is not worth advice.
const LEAST_GENERATOR: f64 = 0.1;
/// A price that rises by less, with its whole interval, is flat.
const FLAT: f64 = 1.1;
/// Limits of the best level that are named.
const NAMED: usize = 3;

/// A part of the price by name.
pub(crate) fn name(line: &PriceLine) -> String {
    let fixed = match line {
        PriceLine::Function { name, kernel: false } => return format!("extra CPU: {name}"),
        PriceLine::Function { name, .. } => return name.to_string(),
        PriceLine::Wait { kind, name } if name.is_empty() => return cause_word(*kind).to_owned(),
        PriceLine::Wait { name, .. } => return name.to_string(),
        PriceLine::Useful => "useful: operations at their least CPU",
        PriceLine::OtherFunctions => "extra CPU in other functions",
        PriceLine::OtherWaits => "other waits",
        PriceLine::Scheduler => "idle beside runnable threads",
        PriceLine::Generator => "load generator",
        PriceLine::NoRequest => "idle: the load generator's turn",
        PriceLine::KernelThreads => "kernel threads",
        PriceLine::Steal => "steal by the hypervisor",
        PriceLine::Interrupts => "interrupts",
        PriceLine::Others => "other processes",
        PriceLine::Kneepoint => "Kneepoint itself",
        PriceLine::Unused => "cores without a client",
        PriceLine::Unaccounted => line_word(LineKind::Unaccounted),
    };
    fixed.to_owned()
}

/// A row of the waterfall.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) kind: LineKind,
    /// `+31 µs`, `−9.2 µs`.
    pub(crate) rise: String,
    /// `idle 24 µs, CPU 6.9 µs`, where it is of both.
    pub(crate) split: Option<String>,
    /// The same as `77 % idle`.
    pub(crate) idle: Option<String>,
    /// Part of all that rises, with its interval.
    pub(crate) share: Option<number::Shown>,
    /// The cause it is, by id.
    pub(crate) cause: Option<String>,
    /// What the price is before and after it, as parts of the highest that it comes to.
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// A fall as rows that lead from one price to the other.
pub(crate) struct Waterfall {
    pub(crate) title: String,
    /// Level, price and place of both ends.
    pub(crate) from: (String, String, f64),
    pub(crate) to: (String, String, f64),
    pub(crate) rows: Vec<Row>,
}

/// Why throughput falls, in `most` rows at most; nothing where it does not fall.
pub(crate) fn waterfall(findings: &Findings, axis: Axis, most: usize) -> Option<Waterfall> {
    let price = findings.price.as_ref()?;
    let fall = price.fall.as_ref()?;
    let (from, to) = (at(price, fall.from)?, at(price, fall.to)?);
    let steps = gathered(fall, most);
    let mut height = from.price.value.get();
    let mut highest = height.max(to.price.value.get());
    for step in &steps {
        height += step.rise();
        highest = highest.max(height);
    }
    let mut height = from.price.value.get();
    let rows = steps.iter().map(|step| {
        let begin = height;
        height += step.rise();
        step.row(begin / highest, height / highest)
    });
    let rows = rows.collect();
    let cost = |level: &LevelPrice| number::plain_seconds(level.price.value);
    let phrase = |level: &LevelPrice| axis.phrase(level.level);
    Some(Waterfall {
        title: format!(
            "an operation costs {} of the machine at {}, {} at {}",
            cost(from),
            phrase(from),
            cost(to),
            axis.tick(to.level)
        ),
        from: (phrase(from), cost(from), from.price.value.get() / highest),
        to: (phrase(to), cost(to), to.price.value.get() / highest),
        rows,
    })
}

fn at(price: &Price, level: Level) -> Option<&LevelPrice> {
    price.levels.iter().find(|one| one.level == level)
}

/// A step with a row of its own, or the small ones together.
enum Shown<'a> {
    Own(&'a Step),
    More { rise: f64, count: usize },
}

impl Shown<'_> {
    fn rise(&self) -> f64 {
        match self {
            Self::Own(step) => step.rise.value.get(),
            Self::More { rise, .. } => *rise,
        }
    }

    fn row(&self, begin: f64, end: f64) -> Row {
        let plain = |label: String, kind: LineKind| Row {
            label,
            kind,
            rise: signed(self.rise()),
            split: None,
            idle: None,
            share: None,
            cause: None,
            begin,
            end,
        };
        match self {
            Self::More { count, .. } => plain(format!("{count} more"), LineKind::Unaccounted),
            Self::Own(step) => Row {
                split: split(step),
                idle: is_split(step).then(|| {
                    let idle = step.idle.get() / step.rise.value.get();
                    format!("{} idle", number::plain_percent(Ratio(idle)))
                }),
                share: step.share.as_ref().map(number::percent),
                cause: step.cause.clone(),
                ..plain(text::disarm(&name(&step.line)).into_owned(), step.line.kind())
            },
        }
    }
}

/// The steps that get rows: the greatest, in their order. The rest stands before what falls.
fn gathered(fall: &Fall, most: usize) -> Vec<Shown<'_>> {
    let size = |step: &&Step| step.rise.value.get().abs();
    let rising: f64 = fall.steps.iter().map(|step| step.rise.value.get().max(0.0)).sum();
    let mut sizes: Vec<f64> = fall
        .steps
        .iter()
        .map(|step| size(&step))
        .filter(|one| *one >= LEAST_ROW * rising)
        .collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let kept = if sizes.len() < fall.steps.len() { most.saturating_sub(1) } else { most };
    sizes.truncate(kept.max(1));
    let least = sizes.last().copied().unwrap_or(f64::INFINITY);
    let (own, rest): (Vec<&Step>, Vec<&Step>) =
        fall.steps.iter().partition(|step| size(step) >= least);
    let (up, down): (Vec<&Step>, Vec<&Step>) =
        own.into_iter().partition(|step| step.rise.value.get() > 0.0);
    let more = Shown::More {
        rise: rest.iter().map(|step| step.rise.value.get()).sum(),
        count: rest.len(),
    };
    let more = Some(more).filter(|_| !rest.is_empty());
    up.into_iter().map(Shown::Own).chain(more).chain(down.into_iter().map(Shown::Own)).collect()
}

/// A rise with its sign.
pub(crate) fn signed(rise: f64) -> String {
    let sign = if rise < 0.0 { "−" } else { "+" };
    format!("{sign}{}", number::plain_seconds(Seconds(rise.abs())))
}

/// Whether both idle cores and CPU make a wait dearer.
fn is_split(step: &Step) -> bool {
    let (idle, all) = (step.idle.get(), step.rise.value.get());
    let least = 0.05 * all.abs();
    matches!(step.line, PriceLine::Wait { .. }) && idle > least && all - idle > least
}

fn split(step: &Step) -> Option<String> {
    let (idle, all) = (step.idle.get(), step.rise.value.get());
    let said = |part| number::brief_seconds(Seconds(part));
    is_split(step).then(|| format!("idle {}, CPU {}", said(idle), said(all - idle)))
}

/// What keeps the best level below its bound, where throughput falls behind it.
pub(crate) fn at_best(findings: &Findings, axis: Axis) -> Option<String> {
    let price = findings.price.as_ref()?;
    price.fall.as_ref()?;
    let best = at(price, price.best)?;
    let level = axis.phrase(best.level);
    if best.limits.is_empty() {
        return Some(format!("The best level, {level}, gives what its bound allows."));
    }
    Some(format!("The best level, {level}, loses most to {}.", limits(best)))
}

/// `lock in f 60 % [50–70], load generator 12 % [8–17]`.
pub(crate) fn limits(level: &LevelPrice) -> String {
    let named = level.limits.iter().take(NAMED);
    let limits = named.map(|limit| {
        format!("{} {}", text::disarm(&name(&limit.line)), number::percent(&limit.share))
    });
    limits.collect::<Vec<_>>().join(", ")
}

/// What to do about the load generator's part of the price, where that is much.
pub(crate) fn generator(findings: &Findings, axis: Axis) -> Option<String> {
    let price = findings.price.as_ref()?;
    let fall = price.fall.as_ref()?;
    let (best, worst) = (at(price, fall.from)?, at(price, fall.to)?);
    let part = |level: &LevelPrice| {
        let generator = |line: &PriceLine| *line == PriceLine::Generator;
        let of = level.parts.iter().find(|part| generator(&part.line));
        of.map_or(0.0, |part| part.price.value.get())
    };
    let whole = worst.price.value.get();
    let (before, after) = (part(best), part(worst));
    if after < LEAST_GENERATOR * whole {
        return None;
    }
    let said = |seconds| number::plain_seconds(Seconds(seconds));
    Some(format!(
        "The load generator takes {} of it at {}, {} at {}: on cores of its own \
         (--generator-cores) or on another machine it takes none, and an operation costs at most \
         {} there.",
        said(before),
        axis.phrase(best.level),
        said(after),
        axis.tick(worst.level),
        said(whole - after)
    ))
}

/// That the price is flat, where nothing is wrong: `the price is flat: an operation costs
/// as much at 32 clients as at 2, the best level (1.01× [0.98–1.04])`.
pub(crate) fn flat(findings: &Findings, axis: Axis) -> Option<String> {
    let price = findings.price.as_ref().filter(|price| price.fall.is_none())?;
    findings.at_bound.as_ref()?;
    let last = price.levels.last().filter(|last| last.level != price.best)?;
    let ratio = &price.last_over_best;
    let (last, best) = (axis.phrase(last.level), axis.tick(price.best));
    let shown = number::factor(ratio);
    if ratio.high.get() <= FLAT {
        return Some(format!(
            "the price is flat: an operation costs as much at {last} as at {best}, the best level \
             ({shown})"
        ));
    }
    (ratio.low.get() <= 1.0).then(|| {
        format!(
            "that an operation costs more at {last} than at {best}, the best level, is not shown \
             ({shown})"
        )
    })
}

/// The price of one part at one level, for a table.
pub(crate) fn amount(price: &Estimate<Seconds>) -> String {
    number::seconds(price).to_string()
}

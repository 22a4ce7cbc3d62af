//! What one operation costs in two runs: cores over throughput, by cause.
//!
//! The core ledger divided by X: its lines add up to C ÷ X, idle cores included. Lines of one cause
//! are one part. Parts of two runs meet by the keys of their causes, which outlive a start, and go
//! by the name that the first run has for them; lines that are no cause meet by what they count.

use super::{Run, points};
use crate::number::{estimate, quotient};
use kneepoint_vocab::comparison::{ComparedPart, PriceLine, PricePair};
use kneepoint_vocab::findings::{
    Cause, CauseKind, CoreLine, CoreName, LevelLedger, LineKind, Name,
};
use kneepoint_vocab::units::{PerSecond, Seconds};
use kneepoint_vocab::{CauseKey, Estimate, Level};
use std::collections::{BTreeMap, BTreeSet};

/// A part of the price of one run.
struct Part {
    kind: LineKind,
    /// Core-seconds; the greatest line's, which the kind is of.
    greatest: f64,
    value: f64,
    /// Squares of the distances of the ends.
    below: f64,
    above: f64,
}

/// The prices at the level that the first run's causes are of or, where the other lacks it, at the
/// last one that both have.
pub(super) fn price(
    first: &Run<'_>,
    run: &Run<'_>,
    place: impl Fn(Level) -> (u32, u32),
) -> Option<PricePair> {
    let there =
        |level: Level| run.findings.ledgers.iter().find(|other| place(other.level) == place(level));
    let ledgers = &first.findings.ledgers;
    let focus = ledgers.iter().filter(|ledger| ledger.level == first.findings.focus);
    let (under, over) =
        focus.chain(ledgers.iter().rev()).find_map(|one| Some((one, there(one.level)?)))?;
    let causes: Vec<&Cause> =
        [first, run].into_iter().flat_map(|run| &run.findings.causes).collect();
    let keys = keys(first);
    let one = Prices::of(first, under, &causes, &keys)?;
    let other = Prices::of(run, over, &causes, &keys)?;
    Some(PricePair {
        level: over.level,
        over_level: under.level,
        lines: lines(&one, &other),
        over: one.whole,
        run: other.whole,
    })
}

/// Names of the causes of a run, by their keys.
fn keys<'a>(run: &Run<'a>) -> BTreeMap<&'a CauseKey, &'a Name> {
    run.findings.causes.iter().map(|cause| (&cause.key, &cause.name)).collect()
}

struct Prices {
    whole: Estimate<Seconds>,
    parts: BTreeMap<ComparedPart, Part>,
}

impl Prices {
    fn of(
        run: &Run<'_>,
        ledger: &LevelLedger,
        causes: &[&Cause],
        keys: &BTreeMap<&CauseKey, &Name>,
    ) -> Option<Self> {
        let point = points(run).into_iter().find(|point| point.level == ledger.level)?;
        let x = point.throughput;
        if x.value.0 <= 0.0 {
            return None;
        }
        let mut parts: BTreeMap<ComparedPart, Part> = BTreeMap::new();
        for line in &ledger.core.lines {
            let price = of_line(line, &x);
            let part = parts.entry(part(run, line, causes, keys)).or_insert(Part {
                kind: line.kind,
                greatest: 0.0,
                value: 0.0,
                below: 0.0,
                above: 0.0,
            });
            if price.value.0.abs() > part.greatest {
                (part.greatest, part.kind) = (price.value.0.abs(), line.kind);
            }
            part.value += price.value.0;
            part.below += (price.value.0 - price.low.0).powi(2);
            part.above += (price.high.0 - price.value.0).powi(2);
        }
        let c = ledger.core.total.0;
        let whole = |rate: PerSecond| quotient(c, rate.0);
        Some(Self { whole: estimate(whole(x.value), whole(x.high), whole(x.low)), parts })
    }

    fn of_part(&self, part: &ComparedPart) -> Option<Estimate<Seconds>> {
        let part = self.parts.get(part)?;
        let (low, high) = (part.value - part.below.sqrt(), part.value + part.above.sqrt());
        Some(estimate(part.value, low, high))
    }
}

/// Cores over throughput. The distances of the ends are those of the cores and, to first order,
/// those of the throughput, added as variances are.
fn of_line(line: &CoreLine, x: &Estimate<PerSecond>) -> Estimate<Seconds> {
    let cores = &line.cores;
    let value = quotient(cores.value.0, x.value.0);
    let part = |end: PerSecond| value * (quotient(x.value.0, end.0) - 1.0);
    let below = quotient(cores.value.0 - cores.low.0, x.value.0).hypot(part(x.high));
    let above = quotient(cores.high.0 - cores.value.0, x.value.0).hypot(part(x.low));
    estimate(value, value - below, value + above)
}

/// The cause that a line belongs to: its own, or one of either run that it counts the waits or the
/// work of. Else the line.
fn part(
    run: &Run<'_>,
    line: &CoreLine,
    causes: &[&Cause],
    keys: &BTreeMap<&CauseKey, &Name>,
) -> ComparedPart {
    let own = line.cause.as_ref().and_then(|id| {
        let mut causes = run.findings.causes.iter();
        let cause = causes.find(|cause| &cause.id == id)?;
        Some(keys.get(&cause.key).map_or_else(|| cause.name.clone(), |name| (*name).clone()))
    });
    let counted = || causes.iter().find(|cause| counts(&line.name, cause));
    match own.or_else(|| counted().map(|cause| cause.name.clone())) {
        Some(name) => ComparedPart::Cause { name },
        None => ComparedPart::Line { name: line.name.clone() },
    }
}

/// Whether a line counts what a cause is.
fn counts(line: &CoreName, cause: &Cause) -> bool {
    match line {
        CoreName::Wait { name } => &cause.name == name,
        CoreName::Function { name, lock } => {
            lock.as_ref() == Some(&cause.name) || &cause.name == name
        }
        CoreName::Generator => cause.kind == CauseKind::Generator,
        _ => false,
    }
}

fn lines(one: &Prices, other: &Prices) -> Vec<PriceLine> {
    let all: BTreeSet<&ComparedPart> = one.parts.keys().chain(other.parts.keys()).collect();
    let mut lines: Vec<PriceLine> = all
        .into_iter()
        .filter_map(|part| {
            let kind = one.parts.get(part).or_else(|| other.parts.get(part))?.kind;
            let (over, run) = (one.of_part(part), other.of_part(part));
            Some(PriceLine { part: part.clone(), kind, over, run })
        })
        .collect();
    let value = |price: &Option<Estimate<Seconds>>| price.map_or(0.0, |price| price.value.0);
    let change = |line: &PriceLine| (value(&line.run) - value(&line.over)).abs();
    lines.sort_by(|a, b| change(b).total_cmp(&change(a)).then_with(|| a.part.cmp(&b.part)));
    lines
}

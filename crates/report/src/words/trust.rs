//! How far to trust a run, in one line.

use super::caveat;
use super::{imported, precision, protocol, shared_out};
use crate::number;
use kneepoint_vocab::findings::Severity;
use kneepoint_vocab::{Estimate, Findings, Ratio, Unit};

/// A collector that takes more of the throughput than this deserves a warning.
const DEAR: f64 = 0.05;
/// A cost whose interval is wider than this is not known, nor is noise that is said to be more.
const UNKNOWN: f64 = 0.5;
/// A ledger that leaves more than this open deserves a word.
const GAPING: f64 = 0.02;

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustWord {
    /// Nothing speaks against it.
    Good,
    /// A warning limits it.
    Limited,
    /// The verdicts cannot be relied on.
    Not,
}

/// How far to trust a run, on what grounds, and what speaks against it.
pub(crate) struct Trust {
    pub(crate) word: TrustWord,
    /// The A/A control, what the collector costs and the like; may be empty.
    pub(crate) figures: String,
    /// The gravest caveat, whole.
    pub(crate) reason: Option<String>,
}

impl Trust {
    /// `Trust: good`, `Trust: limited` or `Not trustworthy`.
    pub(crate) const fn title(&self) -> &'static str {
        match self.word {
            TrustWord::Good => "Trust: good",
            TrustWord::Limited => "Trust: limited",
            TrustWord::Not => "Not trustworthy",
        }
    }

    /// All of it: `Trust: good (A/A ±6 %, overhead 1.6 %)`.
    pub(crate) fn sentence(&self) -> String {
        let mut said = self.title().to_owned();
        if !self.figures.is_empty() {
            said += &format!(" ({})", self.figures);
        }
        if let Some(reason) = &self.reason {
            said += &format!(": {reason}");
        }
        said
    }
}

/// The part of the throughput that the collector takes while it watches, where switching it off
/// was tried.
pub(crate) fn overhead(findings: &Findings) -> Option<Estimate<Ratio>> {
    let on = findings.collector.on_off_active.or(findings.collector.on_off)?;
    let of = |ratio: Ratio| 1.0 - ratio.get();
    Some(Estimate::of(of(on.value), of(on.high), of(on.low)))
}

/// How far to trust a run.
pub(crate) fn trust(findings: &Findings) -> Trust {
    // What may be anything says nothing.
    let cost = overhead(findings).filter(|cost| cost.high.get() - cost.low.get() < UNKNOWN);
    let dear = cost.filter(|cost| cost.value.get() > DEAR && cost.low.get() > 0.0);
    let worst = findings.caveats.iter().rev().max_by_key(|caveat| caveat.severity);
    let worst = worst.filter(|caveat| caveat.severity > Severity::Note);
    let word = match (findings.trustworthy, worst.is_some() || dear.is_some()) {
        (false, _) => TrustWord::Not,
        (true, true) => TrustWord::Limited,
        (true, false) => TrustWord::Good,
    };
    let mut figures = Vec::new();
    match findings.noise.pairs {
        0 => {}
        1 => figures.push("A/A of one pair".to_owned()),
        pairs if findings.noise.floor.get() > UNKNOWN => {
            figures.push(format!("A/A of {pairs} pairs"));
        }
        _ => figures.push(format!("A/A ±{}", number::plain_percent(findings.noise.floor))),
    }
    if let Some(cost) = cost {
        figures.push(format!("overhead {}", number::percent(&cost)));
    } else if let Some(cost) = &findings.collector.programs {
        figures.push(format!("collector {} of CPU", number::percent(cost).value));
    }
    let ledger = findings.ledgers.iter().find(|ledger| ledger.level == findings.focus);
    let open = ledger.map(|ledger| ledger.core.unaccounted).filter(|open| open.get() > GAPING);
    figures.extend(open.map(|open| format!("{} unaccounted", number::plain_percent(open))));
    let shared = ledger.and_then(|ledger| shared_out(&ledger.core));
    let shared = shared.filter(|shared| shared.get() > GAPING);
    figures.extend(shared.map(|part| format!("{} idle shared out", number::plain_percent(part))));
    if imported(findings) {
        figures.push(precision(findings));
    }
    figures.extend(protocol(findings));
    let all = findings.caveats.len();
    let reason = match (worst, dear) {
        (Some(worst), _) => {
            figures.extend((all > 1).then(|| format!("caveat 1 of {all}")));
            Some(caveat::of_run(&worst.reason))
        }
        (None, Some(_)) => Some("the collector takes more than 5 % of the throughput.".to_owned()),
        (None, None) => None,
    };
    Trust { word, figures: figures.join(", "), reason }
}

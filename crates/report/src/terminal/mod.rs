//! The end of a run on one terminal screen: the same four answers as the page, in text.

mod curve;
mod ledger;
mod line;
mod verdicts;

use crate::number;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{LevelLedger, Severity};
use line::{Line, Style, wrap};

/// The most lines that a rendering has. It aims at [`SCREEN`].
pub const MOST_LINES: usize = 30;

/// Lines of a classic terminal.
pub const SCREEN: usize = 24;

/// The most rows of the ledger, causes and treatments.
#[derive(Clone, Copy)]
struct Budget {
    ledger: usize,
    causes: usize,
    effects: usize,
}

/// From generous to frugal; the first that fits one screen is taken.
const BUDGETS: [Budget; 6] = [
    Budget { ledger: 7, causes: 3, effects: 6 },
    Budget { ledger: 6, causes: 3, effects: 5 },
    Budget { ledger: 5, causes: 2, effects: 4 },
    Budget { ledger: 4, causes: 2, effects: 4 },
    Budget { ledger: 4, causes: 2, effects: 3 },
    Budget { ledger: 3, causes: 1, effects: 2 },
];

/// Renders findings as at most [`MOST_LINES`] lines of at most `width` columns, each ended by a
/// line feed. Bars are drawn in UTF-8 block characters. With `colour`, ANSI colours are added;
/// nothing is said by colour alone.
#[must_use]
pub fn render(findings: &Findings, width: usize, colour: bool) -> String {
    let mut lines = Vec::new();
    for budget in BUDGETS {
        lines = compose(findings, width, budget);
        if lines.len() <= SCREEN {
            break;
        }
    }
    lines.truncate(MOST_LINES);
    let mut out = String::new();
    for line in lines {
        out.push_str(&line.render(width, colour));
        out.push('\n');
    }
    out
}

fn compose(findings: &Findings, width: usize, budget: Budget) -> Vec<Line> {
    let axis = Axis::of(findings);
    let mut lines = header(findings, width);
    let sections = [
        curve::lines(findings, axis, width),
        ledger::lines(findings, axis, width, budget.ledger),
        verdicts::causes(findings, width, budget.causes),
        verdicts::effects(findings, width, budget.effects),
    ];
    for (index, section) in sections.into_iter().enumerate() {
        if !section.is_empty() && index < 3 {
            lines.push(Line::default());
        }
        lines.extend(section);
    }
    lines.extend(caveats(findings, width));
    lines
}

/// The ledgers of the focus level.
fn focus(findings: &Findings) -> Option<&LevelLedger> {
    findings.ledgers.iter().find(|ledger| ledger.level == findings.focus)
}

fn header(findings: &Findings, width: usize) -> Vec<Line> {
    let host = &findings.host;
    let machine = format!(
        "{}, {}, {}, {}",
        words::counted(host.cores, "core"),
        number::bytes(host.memory),
        host.kernel,
        host.distribution
    );
    let protocol = &findings.protocol;
    let mut effort = format!(
        "{}, {}",
        number::plain_seconds(protocol.elapsed),
        words::counted(protocol.slices, "slice")
    );
    if protocol.repeated > 0 {
        effort += &format!(", {} repeated", protocol.repeated);
    }
    let name = text::clip(&text::disarm(&findings.recipe), width / 2);
    let room = width.saturating_sub(text::columns(&name) + text::columns(&effort) + 4);
    let machine = text::clip(&text::disarm(&machine), room);
    let first = Line::new(Style::Bold, &name).plain("  ").then(Style::Faint, &machine);
    let column = width.saturating_sub(text::columns(&effort)).max(first.columns() + 2);
    let mut lines = vec![first.to(column).then(Style::Faint, &effort), quality(findings)];
    lines.extend(distrust(findings, width));
    for line in wrap(&findings.headline, width).into_iter().take(2) {
        lines.push(Line::new(Style::Bold, &line));
    }
    lines
}

/// The noise floor, the collector's cost and how well the ledger closes.
fn quality(findings: &Findings) -> Line {
    let mut parts = Vec::new();
    if findings.noise.pairs > 0 {
        parts.push(format!("noise floor ±{} (A/A)", number::plain_percent(findings.noise.floor)));
    }
    if let Some(cost) = &findings.collector.programs {
        parts.push(format!("collector {} of CPU", number::percent(cost).value));
    }
    if let Some(ledger) = focus(findings) {
        parts.push(format!("ledger closes to {}", number::plain_percent(ledger.core.closes_to)));
    }
    Line::new(Style::Plain, &parts.join("   "))
}

/// Why the verdicts cannot be relied on, where that is so.
fn distrust(findings: &Findings, width: usize) -> Vec<Line> {
    if findings.trustworthy {
        return Vec::new();
    }
    let serious = findings.caveats.iter().find(|caveat| caveat.severity == Severity::Serious);
    let reason = serious.map_or("see the caveats", |caveat| caveat.text.as_str());
    let words = wrap(&format!("Not trustworthy: {reason}"), width);
    words.into_iter().take(2).map(|line| Line::new(Style::Bad, &line)).collect()
}

/// The first warning, and how many others the page holds.
fn caveats(findings: &Findings, width: usize) -> Option<Line> {
    let mut warnings =
        findings.caveats.iter().filter(|caveat| caveat.severity == Severity::Warning);
    let first = warnings.next()?;
    let others = warnings.count();
    let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
    let room = width.saturating_sub(8 + more.len());
    let words = text::clip(&text::disarm(&first.text), room);
    Some(Line::new(Style::Faint, &format!("Caveat: {words}{more}")))
}

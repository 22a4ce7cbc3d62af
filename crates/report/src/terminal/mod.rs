//! The end of a run on one terminal screen: the same four answers as the page, in text.

mod curve;
mod ledger;
mod line;
mod seen;
mod several;
mod stability;
mod verdicts;

use crate::number;
use crate::series::Series;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{LevelLedger, Severity};
use line::{Line, Style, wrap};

/// The most lines that a rendering has. It aims at [`SCREEN`].
pub const MOST_LINES: usize = 29;

/// Lines that a rendering aims at; the caller's own line and a prompt still leave it on a screen.
/// Several numbers of cores, treated curves or a load generator may take it to [`MOST_LINES`].
pub const SCREEN: usize = 27;

/// Treatments that are all shown, whatever else must go: what did not help is part of the story.
const EFFECTS: usize = 6;

/// What may be shown of parts that can be cut short.
#[derive(Clone, Copy)]
struct Budget {
    /// Rows of the ledger.
    ledger: usize,
    /// Causes, and whether the first one's path has a row.
    causes: usize,
    path: bool,
    /// Numbers of cores, where there are several, and whether they have bars.
    curves: usize,
    bars: bool,
    /// Lines on the generator and of the classic instruments.
    seen: usize,
    /// A blank line above a picture.
    blank: bool,
}

/// From generous to frugal; the first that fits one screen is taken.
const BUDGETS: [Budget; 10] = [
    Budget { ledger: 6, causes: 3, path: true, ..ALL },
    Budget { ledger: 6, causes: 2, path: true, ..ALL },
    Budget { ledger: 6, causes: 2, path: false, ..ALL },
    Budget { ledger: 6, causes: 1, path: false, ..ALL },
    Budget { ledger: 5, causes: 1, path: false, ..ALL },
    Budget { ledger: 4, causes: 1, path: false, ..ALL },
    Budget { bars: false, ..LEAST },
    Budget { bars: false, blank: false, ..LEAST },
    Budget { bars: false, blank: false, curves: 4, seen: 3, ..LEAST },
    Budget { bars: false, blank: false, curves: 3, seen: 1, ..LEAST },
];
/// So many of them differ for one curve of clients that live in the system.
const PLAIN: usize = 6;
const ALL: Budget =
    Budget { ledger: 6, causes: 3, path: true, curves: 8, bars: true, seen: 4, blank: true };
const LEAST: Budget = Budget { ledger: 4, causes: 1, path: false, ..ALL };

/// Renders findings as at most [`MOST_LINES`] lines of at most `width` columns, each ended by a
/// line feed. Bars are drawn in UTF-8 block characters. With `colour`, ANSI colours are added;
/// nothing is said by colour alone.
#[must_use]
pub fn render(findings: &Findings, width: usize, colour: bool) -> String {
    let alone = findings.by_cores.is_empty() && findings.treated.is_empty();
    let plain = findings.generator.is_none() && alone;
    let (budgets, aim) =
        if plain { (&BUDGETS[..PLAIN], SCREEN) } else { (&BUDGETS[..], MOST_LINES) };
    let mut lines = Vec::new();
    for budget in budgets {
        lines = compose(findings, width, *budget);
        if lines.len() <= aim {
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
    let series = Series::of(findings);
    let picture = if series.several() {
        several::lines(findings, &series, width, budget.curves, budget.bars)
    } else {
        curve::lines(findings, series.axis, width)
    };
    let mut where_spent = ledger::lines(findings, axis, width, budget.ledger);
    where_spent.extend(seen::lines(findings, width, budget.seen));
    let sections = [
        picture,
        where_spent,
        stability::lines(findings, width),
        verdicts::causes(findings, width, budget.causes, budget.path),
        verdicts::effects(findings, width, EFFECTS),
    ];
    for (index, section) in sections.into_iter().enumerate() {
        if budget.blank && !section.is_empty() && index < 2 {
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

/// The machine and the effort, on one line where they fit, and what they are worth.
fn header(findings: &Findings, width: usize) -> Vec<Line> {
    let machine = machine(findings);
    let effort = effort(findings);
    let column = width.saturating_sub(text::columns(&effort));
    let name = text::clip(&text::disarm(&findings.recipe), column.saturating_sub(2));
    let title = Line::new(Style::Bold, &name);
    let whole = title.clone().plain("  ").then(Style::Faint, &machine);
    let mut lines = if whole.columns() + 2 <= column {
        vec![whole.to(column).then(Style::Faint, &effort)]
    } else {
        let first = title.to(column).then(Style::Faint, &effort);
        vec![first, Line::new(Style::Faint, &machine)]
    };
    lines.extend(quality(findings, width));
    lines.extend(distrust(findings, width));
    lines.extend(bottleneck(findings, width));
    lines.extend(headline(&findings.headline, width));
    lines
}

/// Columns that the headline may have, three lines of 80; what is beyond shows as cut.
const HEADLINE: usize = 240;

fn headline(text: &str, width: usize) -> Vec<Line> {
    let mut lines = wrap(text, width);
    let most = HEADLINE.div_ceil(width.max(1));
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(text::clip(&rest, width));
    }
    lines.iter().map(|line| Line::new(Style::Bold, line)).collect()
}

/// The machine as far as it is known, or where imported results come from.
fn machine(findings: &Findings) -> String {
    if let Some(source) = words::source(findings) {
        return format!("imported {source}");
    }
    let host = &findings.host;
    format!(
        "{}, {}, {}, {}",
        words::counted(host.cores, "core"),
        number::bytes(host.memory),
        words::short_kernel(&host.kernel),
        words::short_distribution(&host.distribution)
    )
}

/// How long it took and how many slices; for imported results, how many there are.
fn effort(findings: &Findings) -> String {
    let protocol = &findings.protocol;
    if words::imported(findings) {
        let results = findings.curve.points.iter().map(|point| point.slices).sum();
        return words::counted(results, "result");
    }
    let mut effort = format!(
        "{}, {}",
        number::brief_seconds(protocol.elapsed),
        words::counted(protocol.slices, "slice")
    );
    if protocol.repeated > 0 {
        effort += &format!(", {} repeated", protocol.repeated);
    }
    effort
}

/// The noise floor, the collector's cost and how well the ledger closes; the protocol where it
/// is not Kneepoint's own.
fn quality(findings: &Findings, width: usize) -> Vec<Line> {
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
    let protocol = if words::imported(findings) {
        Some(words::precision(findings))
    } else {
        words::protocol(findings)
    };
    let mut said = vec![parts.join("   ")];
    if let Some(protocol) = protocol {
        if text::columns(&said[0]) + 3 + text::columns(&protocol) <= width && !parts.is_empty() {
            said[0] += &format!("   {protocol}");
        } else {
            said.push(protocol);
        }
    }
    said.retain(|words| !words.is_empty());
    said.into_iter().map(|words| Line::new(Style::Plain, &words)).collect()
}

/// That the load generator limits the throughput, where it does.
fn bottleneck(findings: &Findings, width: usize) -> Vec<Line> {
    let reason = findings.generator.as_ref().and_then(|one| one.bottleneck.as_ref());
    let Some(reason) = reason else { return Vec::new() };
    let words = wrap(&format!("The load generator limits the throughput: {reason}"), width);
    words.into_iter().take(2).map(|line| Line::new(Style::Bad, &line)).collect()
}

/// Why the verdicts cannot be relied on, where that is so.
fn distrust(findings: &Findings, width: usize) -> Vec<Line> {
    if findings.trustworthy {
        return Vec::new();
    }
    let serious = findings.caveats.iter().find(|caveat| caveat.severity == Severity::Serious);
    let reason = serious.map_or("see the caveats", |caveat| caveat.text.as_str());
    let all = findings.caveats.len();
    let head = if all > 1 {
        format!("Not trustworthy (caveat 1 of {all}):")
    } else {
        "Not trustworthy:".to_owned()
    };
    let words = wrap(&format!("{head} {reason}"), width);
    words.into_iter().take(2).map(|line| Line::new(Style::Bad, &line)).collect()
}

/// The most severe caveat, and how many others the page holds. A serious one is told at the top.
fn caveats(findings: &Findings, width: usize) -> Option<Line> {
    if !findings.trustworthy {
        return None;
    }
    let warned = findings.caveats.iter().filter(|caveat| caveat.severity > Severity::Note);
    let worst = warned.rev().max_by_key(|caveat| caveat.severity)?;
    let all = findings.caveats.len();
    let head = if all > 1 { format!("Caveat 1 of {all}: ") } else { "Caveat: ".to_owned() };
    let words = brief(&worst.text, width.saturating_sub(head.len()));
    Some(Line::new(Style::Faint, &(head + &words)))
}

/// A sentence in one line: whole, else its first clause, else its first words.
fn brief(sentence: &str, room: usize) -> String {
    let sentence = text::disarm(sentence);
    if text::columns(&sentence) <= room {
        return sentence.into_owned();
    }
    let clause = sentence.split("; ").next().unwrap_or(&sentence);
    if text::columns(clause) <= room {
        return clause.to_owned();
    }
    let first = wrap(clause, room.saturating_sub(1)).into_iter().next().unwrap_or_default();
    text::clip(&format!("{}…", first.trim_end_matches(['…', ','])), room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_is_whole_or_shows_that_it_is_cut() {
        let told = |words: usize| {
            let lines = headline(&vec!["word"; words].join(" "), 80);
            lines.iter().map(|line| line.render(80, false).trim_end().to_owned()).collect()
        };
        let whole: Vec<String> = told(48);
        assert_eq!(whole, vec![vec!["word"; 16].join(" "); 3]);
        let cut: Vec<String> = told(49);
        assert!(cut.len() == 3 && cut[2].ends_with('…'), "{cut:?}");
        assert!(cut.iter().all(|line| text::columns(line) <= 80), "{cut:?}");
    }
}

//! The end of a run on one terminal screen: the same four answers as the page, in text.

pub mod comparison;
mod curve;
mod ledger;
mod line;
pub mod next;
mod price;
pub mod profile;
mod seen;
mod several;
mod stability;
mod verdicts;

use crate::number;
use crate::series::Series;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::LevelLedger;
use line::{Line, Style, wrap};

/// A terminal's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Lines that may be used; absent where what does not fit can be scrolled to or read in a
    /// file.
    pub height: Option<usize>,
    /// Whether to add ANSI colours.
    pub colour: bool,
}

/// What is shown of the parts that can be cut short.
#[derive(Clone, Copy)]
struct Shown {
    /// Treatments, and those that were crossed.
    effects: usize,
    crosses: usize,
    /// Causes, whether they have lines of detail, and whether the first one's path has one.
    causes: usize,
    details: bool,
    path: bool,
    /// Rows between the two prices, where throughput falls.
    price: usize,
    /// Rows of the ledger.
    ledger: usize,
    /// Numbers of cores, where there are several, and whether curves have bars.
    curves: usize,
    bars: bool,
    /// Percentiles of the response time.
    times: usize,
    /// Steps of the curve that gain more than the clients.
    gains: usize,
    /// Lines on the generator and of the classic instruments.
    seen: usize,
    /// Blank lines between parts.
    blank: bool,
}

/// What every screen has beside machine, headline and trust: the curve.
const LEAST: Shown = Shown {
    effects: 0,
    crosses: 0,
    causes: 0,
    details: false,
    path: false,
    price: 0,
    ledger: 0,
    curves: 3,
    bars: false,
    times: 0,
    gains: 0,
    seen: 0,
    blank: false,
};

/// What is added, the most important first. Each is taken if all still fits with it.
const MORE: [fn(&mut Shown); 28] = [
    |shown| shown.effects = 1,
    |shown| shown.effects = 2,
    |shown| shown.crosses = 1,
    |shown| shown.causes = 1,
    |shown| shown.price = 3,
    |shown| shown.ledger = 4,
    |shown| shown.details = true,
    |shown| shown.effects = 4,
    |shown| shown.times = 1,
    |shown| shown.times = 2,
    |shown| shown.gains = 1,
    |shown| shown.price = 5,
    |shown| shown.bars = true,
    |shown| shown.effects = 6,
    |shown| shown.seen = 1,
    |shown| shown.ledger = 6,
    |shown| shown.curves = 8,
    |shown| shown.causes = 2,
    |shown| shown.path = true,
    |shown| shown.times = 3,
    |shown| shown.seen = 4,
    |shown| shown.causes = 3,
    |shown| shown.gains = 3,
    |shown| shown.blank = true,
    |shown| shown.price = usize::MAX,
    |shown| shown.effects = usize::MAX,
    |shown| shown.crosses = usize::MAX,
    |shown| (shown.causes, shown.ledger, shown.curves) = (8, usize::MAX, usize::MAX),
];

/// Renders findings whole, as lines of at most `width` columns, each ended by a line feed. Bars
/// are drawn in UTF-8 block characters. With `colour`, ANSI colours are added; nothing is said by
/// colour alone.
#[must_use]
pub fn render(findings: &Findings, width: usize, colour: bool) -> String {
    fitted(findings, Screen { width, height: None, colour })
}

/// Renders findings for a window: what matters most, as far as it fits into the height. The
/// headline and how far to trust it come last, where they stay in sight.
#[must_use]
pub fn fitted(findings: &Findings, screen: Screen) -> String {
    let mut shown = LEAST;
    let mut lines = compose(findings, screen.width, shown);
    for more in MORE {
        let mut wanted = shown;
        more(&mut wanted);
        let longer = compose(findings, screen.width, wanted);
        if screen.height.is_none_or(|height| longer.len() <= height) {
            (shown, lines) = (wanted, longer);
        }
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&line.render(screen.width, screen.colour));
        out.push('\n');
    }
    out
}

fn compose(findings: &Findings, width: usize, shown: Shown) -> Vec<Line> {
    let axis = Axis::of(findings);
    let series = Series::of(findings);
    let picture = if series.several() {
        several::lines(findings, &series, width, shown.curves, shown.bars)
    } else {
        curve::lines(findings, series.axis, width, (shown.bars, shown.times))
    };
    let gains = gains(findings, series.axis, width, shown.gains);
    let mut where_spent = ledger::lines(findings, axis, width, shown.ledger);
    where_spent.extend(seen::lines(findings, width, shown.seen));
    let cause = (shown.causes, shown.details, shown.path);
    let sections = [
        header(findings, width),
        picture,
        gains,
        price::lines(findings, axis, width, shown.price),
        where_spent,
        stability::lines(findings, width),
        verdicts::causes(findings, width, cause),
        verdicts::effects(findings, axis, width, shown.effects),
        verdicts::crosses(findings, width, shown.crosses),
        next::lines(findings, width),
        foot(findings, width),
    ];
    let mut lines: Vec<Line> = Vec::new();
    for section in sections {
        if shown.blank && !section.is_empty() && !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(section);
    }
    lines
}

/// Steps that gain more than their clients.
fn gains(findings: &Findings, axis: Axis, width: usize, most: usize) -> Vec<Line> {
    let steps = findings.superlinear.iter().take(most);
    let said = steps.flat_map(|step| wrap(&words::superlinear(step, axis), width));
    said.map(|line| Line::new(Style::Faint, &line)).collect()
}

/// What has to be in sight at the end: the story in one sentence, and how far to trust it.
fn foot(findings: &Findings, width: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = wrap(&words::headline(findings), width)
        .iter()
        .map(|line| Line::new(Style::Bold, line))
        .collect();
    lines.extend(bottleneck(findings, width));
    let trust = words::trust(findings);
    let style = match trust.word {
        words::TrustWord::Good => Style::Good,
        words::TrustWord::Limited => Style::Plain,
        words::TrustWord::Not => Style::Bad,
    };
    lines.extend(wrap(&trust.sentence(), width).iter().map(|line| Line::new(style, line)));
    lines
}

/// The ledgers of the focus level.
fn focus(findings: &Findings) -> Option<&LevelLedger> {
    findings.ledgers.iter().find(|ledger| ledger.level == findings.focus)
}

/// The machine and the effort, on one line where they fit.
fn header(findings: &Findings, width: usize) -> Vec<Line> {
    let machine = machine(findings);
    let effort = effort(findings);
    let name = text::disarm(&findings.recipe).into_owned();
    let title = Line::new(Style::Bold, &name);
    let effort_line = Line::new(Style::Faint, &effort);
    let column = width.saturating_sub(text::columns(&effort));
    let beside = |line: Line| line.to(column).then(Style::Faint, &effort);
    let whole = title.clone().plain("  ").then(Style::Faint, &machine);
    let machine = text::shorten(&machine, width);
    if whole.columns() + 2 <= column {
        vec![beside(whole)]
    } else if title.columns() + 2 <= column {
        vec![beside(title), Line::new(Style::Faint, &machine)]
    } else {
        let title = Line::new(Style::Bold, &text::shorten(&name, width));
        vec![title, Line::new(Style::Faint, &machine), effort_line]
    }
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

/// That the load generator limits the throughput, where it does.
fn bottleneck(findings: &Findings, width: usize) -> Vec<Line> {
    let reason = findings.generator.as_ref().and_then(|one| one.bottleneck.as_ref());
    let Some(reason) = reason.map(words::bottleneck) else { return Vec::new() };
    let said = wrap(&format!("The load generator limits the throughput: {reason}"), width);
    said.iter().map(|line| Line::new(Style::Bad, line)).collect()
}

//! Runs beside each other, on a terminal: ratios with verdicts, what an operation costs, and what
//! is not alike.

use super::line::{Line, Style, wrap};
use crate::number;
use crate::text;
use crate::words::comparison as words;
use kneepoint_vocab::Comparison;
use kneepoint_vocab::comparison::{
    Incomparable, LevelRatio, NoCondition, PricePair, RatioVerdict, RunPair,
};

/// Columns of the number of clients, of a throughput and of a ratio.
const LEVEL: usize = 10;
const RATE: usize = 14;
const RATIO: usize = 20;
/// Columns of a price.
const PRICE: usize = 14;
/// Lines of a price that are shown, beside all others as one.
const MOST_LINES: usize = 8;

/// Why there is no comparison, in one line.
#[must_use]
pub fn refusal(why: &Incomparable) -> String {
    words::refusal(why)
}

/// Why a text is no condition, and what one looks like.
#[must_use]
pub fn no_condition(why: NoCondition) -> &'static str {
    words::no_condition(why)
}

/// Renders a comparison in lines of at most `width` columns, each ended by a line feed.
#[must_use]
pub fn render(comparison: &Comparison, width: usize, colour: bool) -> String {
    let mut lines = head(comparison, width);
    for pair in &comparison.pairs {
        lines.push(Line::default());
        lines.extend(ratios(comparison, pair, width));
        if let Some(price) = &pair.price {
            lines.push(Line::default());
            lines.extend(prices(pair, price, width));
        }
    }
    lines.push(Line::default());
    lines.extend(last(comparison, width));
    lines.iter().map(|line| line.render(width, colour) + "\n").collect()
}

/// The runs: name, date, version, starts.
fn head(comparison: &Comparison, width: usize) -> Vec<Line> {
    let what = format!("{}: {}/s", comparison.recipe, comparison.operation);
    let mut lines = vec![Line::new(Style::Bold, &what)];
    let names = comparison.runs.iter().map(|run| text::columns(&run.name)).max().unwrap_or(0);
    let room = names.min(width / 3);
    for run in &comparison.runs {
        let name = text::pad(&text::shorten(&text::disarm(&run.name), room), room);
        let line = Line::new(Style::Plain, &format!("  {name}  "));
        lines.push(line.then(Style::Faint, &words::run(run)));
    }
    lines
}

fn ratios(comparison: &Comparison, pair: &RunPair, width: usize) -> Vec<Line> {
    let name = |name: &str| text::pad(&text::shorten(&text::disarm(name), RATE - 1), RATE);
    let heading = text::pad("clients", LEVEL)
        + &name(&pair.over)
        + &name(&pair.run)
        + &text::pad("ratio", RATIO)
        + "verdict";
    let mut lines = vec![Line::new(Style::Bold, &heading)];
    lines.extend(ratio(&pair.peak, true, width));
    lines.extend(pair.levels.iter().flat_map(|level| ratio(level, false, width)));
    if !pair.unmatched.is_empty() {
        let said = words::unmatched(&comparison.runs, pair);
        lines.extend(wrap(&said, width).iter().map(|line| Line::new(Style::Faint, line)));
    }
    lines
}

/// A row; with a second line where the verdict does not fit on the first.
fn ratio(level: &LevelRatio, peak: bool, width: usize) -> Vec<Line> {
    let rate = |rate, clients: u32| {
        let value = number::rate(rate).value;
        text::pad(&if peak { format!("{value} @{clients}") } else { value }, RATE)
    };
    let shown = number::factor(&level.ratio).to_string();
    let line = Line::new(Style::Plain, &text::pad(&words::level(level, peak), LEVEL))
        .plain(&rate(&level.over, level.over_clients))
        .plain(&rate(&level.run, level.clients))
        .then(Style::Bold, &text::pad(&shown, RATIO));
    let line = if text::columns(&shown) >= RATIO { line.plain(" ") } else { line };
    let style = match level.verdict {
        RatioVerdict::Faster => Style::Good,
        RatioVerdict::Slower => Style::Bad,
        _ => Style::Plain,
    };
    let line = line.then(style, words::verdict(&level.verdict));
    let Some(more) = words::needs(&level.verdict) else { return vec![line] };
    if line.columns() + 2 + text::columns(&more) <= width {
        return vec![line.plain("; ").plain(&more)];
    }
    let column = LEVEL + 2 * RATE + RATIO;
    let column = column.min(width.saturating_sub(text::columns(&more)));
    vec![line, Line::default().to(column).plain(&more)]
}

fn prices(pair: &RunPair, price: &PricePair, width: usize) -> Vec<Line> {
    let room = width.saturating_sub(2 * PRICE + 2).max(10);
    let row = |label: &str, over: &str, run: &str| {
        let label = text::pad(&text::shorten(label, room - 1), room);
        text::pad("", 2) + &label + &text::pad(over, PRICE) + &text::shorten(run, PRICE)
    };
    let title = words::price_title(price);
    let mut lines: Vec<Line> =
        wrap(&title, width).iter().map(|line| Line::new(Style::Bold, line)).collect();
    let name = |name: &str| text::shorten(&text::disarm(name), PRICE - 1);
    lines.push(Line::new(Style::Faint, &row("", &name(&pair.over), &name(&pair.run))));
    let whole = |whole| number::seconds(whole).value;
    lines.push(Line::new(Style::Bold, &row("whole", &whole(&price.over), &whole(&price.run))));
    for line in words::price_lines(price, MOST_LINES) {
        lines.push(Line::new(Style::Kind(line.kind), &row(&line.label, &line.over, &line.run)));
    }
    lines
}

/// What differs, what limits, and what was asked.
fn last(comparison: &Comparison, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut tell = |style: Style, said: &str| {
        for (index, line) in wrap(said, width.saturating_sub(2)).iter().enumerate() {
            let indent = if index == 0 { "" } else { "  " };
            lines.push(Line::new(style, &format!("{indent}{line}")));
        }
    };
    for unlike in words::unlike(comparison) {
        tell(Style::Plain, &format!("Not alike: {unlike}"));
    }
    for caveat in &comparison.caveats {
        tell(Style::Plain, &words::caveat(caveat));
    }
    tell(Style::Plain, words::NO_PAIR);
    for answer in &comparison.conditions {
        tell(Style::Bold, &words::answer(answer));
    }
    lines
}

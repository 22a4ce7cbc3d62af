//! A comparison as Markdown, for a pull request.

use crate::number;
use crate::text;
use crate::words::comparison as words;
use kneepoint_vocab::Comparison;
use kneepoint_vocab::comparison::{LevelRatio, PricePair, RunPair};

/// Rows of a price, beside all others as one.
const MOST_LINES: usize = 12;

/// Renders a comparison as Markdown tables.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut out =
        format!("### {}: {}/s\n\n", cell(&comparison.recipe), cell(&comparison.operation));
    for run in &comparison.runs {
        out += &format!("- **{}**: {}\n", cell(&run.name), cell(&words::run(run)));
    }
    for pair in &comparison.pairs {
        out += &ratios(pair);
        if let Some(price) = &pair.price {
            out += &prices(pair, price);
        }
        if !pair.unmatched.is_empty() {
            out += &format!("\n{}\n", words::unmatched(&comparison.runs, pair));
        }
    }
    out.push('\n');
    for unlike in words::unlike(comparison) {
        out += &format!("- Not alike: {}\n", cell(&unlike));
    }
    for caveat in &comparison.caveats {
        out += &format!("- {}\n", cell(&words::caveat(caveat)));
    }
    out += &format!("- {}\n", words::NO_PAIR);
    for answer in &comparison.conditions {
        out += &format!("\n**{}**\n", cell(&words::answer(answer)));
    }
    out
}

fn ratios(pair: &RunPair) -> String {
    let (over, run) = (cell(&pair.over), cell(&pair.run));
    let mut out = format!("\n| clients | {over} | {run} | ratio | verdict |\n");
    out += "|---|--:|--:|--:|---|\n";
    let row = |level: &LevelRatio, peak: bool| {
        let rate = |rate, clients| {
            let value = number::rate(rate).to_string();
            if peak { format!("{value} @{clients}") } else { value }
        };
        let needs = words::needs(&level.verdict).map(|more| format!("; {more}"));
        format!(
            "| {} | {} | {} | {} | {}{} |\n",
            words::level(level, peak),
            rate(&level.over, level.over_clients),
            rate(&level.run, level.clients),
            number::factor(&level.ratio),
            words::verdict(&level.verdict),
            needs.unwrap_or_default()
        )
    };
    out += &row(&pair.peak, true);
    pair.levels.iter().for_each(|level| out += &row(level, false));
    out
}

fn prices(pair: &RunPair, price: &PricePair) -> String {
    let (over, run) = (cell(&pair.over), cell(&pair.run));
    let mut out = format!("\n{}\n\n| part | {over} | {run} |\n", words::price_title(price));
    out += "|---|--:|--:|\n";
    let whole = [&price.over, &price.run].map(|whole| number::seconds(whole).to_string());
    out += &format!("| **whole** | {} | {} |\n", whole[0], whole[1]);
    for line in words::price_lines(price, MOST_LINES) {
        out += &format!("| {} | {} | {} |\n", cell(&line.label), line.over, line.run);
    }
    out
}

/// Words from outside, so that they steer neither a table nor a page.
fn cell(words: &str) -> String {
    let mut out = String::new();
    for character in text::disarm(words).chars() {
        match character {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_steer_no_table() {
        assert_eq!(cell("a|b<c>`*_"), "a\\|b&lt;c&gt;\\`\\*\\_");
        assert_eq!(cell("[x](y)\n# z"), "\\[x\\](y) \\# z");
    }
}

//! What next: twice the cores and the first cause removed, by the run's twin; or why nothing can
//! be said.

use super::line::{Line, Style, wrap};
use crate::text;
use crate::words::next as words;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{Altered, Next, NoTwin, TwinForecast, Undetermined};

/// Why a run has no twin, or its twin no answer, in one line.
#[must_use]
pub fn no_twin(why: &NoTwin) -> String {
    words::no_twin(why)
}

/// What the measured levels do not determine, and which would.
#[must_use]
pub fn undetermined(what: &Undetermined) -> String {
    words::undetermined(what)
}

/// Two forecasts, each on a line of its own, or one line.
pub(super) fn lines(findings: &Findings, width: usize) -> Vec<Line> {
    let Some(next) = &findings.next else { return Vec::new() };
    if let Some(why) = &next.why_not {
        let said = wrap(&format!("No forecast: {}.", text::disarm(&no_twin(why))), width);
        return said.iter().map(|line| Line::new(Style::Faint, line)).collect();
    }
    let mut lines = vec![Line::new(Style::Bold, "What next").plain(&heading(findings, next))];
    let cause = next.what_if.iter().find(|it| it.first_cause);
    let twice = next.levels.first().map(|twice| {
        let change = Altered::Cores { cores: twice.level.cores };
        (format!("{} at {} clients", words::altered(&change), twice.level.clients), twice)
    });
    let tried = cause.map(|it| (words::altered(&it.change), &it.forecast));
    let names = tried.iter().chain(&twice).map(|(name, _)| text::columns(name));
    let room = names.max().unwrap_or(0).min(width.saturating_sub(FIGURES).max(12));
    lines.extend(tried.map(|(name, it)| line(&name, it, room)));
    let yields = |it: &&Undetermined| cause.is_none() && matches!(it, Undetermined::Yields { .. });
    if let Some(open) = next.open.iter().find(yields) {
        let said = wrap(
            &format!("not determined: {}", words::undetermined(open)),
            width.saturating_sub(2),
        );
        lines.extend(said.iter().map(|line| Line::new(Style::Faint, &format!("  {line}"))));
    }
    lines.extend(twice.map(|(name, it)| line(&name, it, room)));
    lines
}

fn heading(findings: &Findings, next: &Next) -> String {
    let off = crate::number::plain_percent(next.error);
    format!(" at {} clients, by a twin that is {off} off (90 % intervals)", findings.focus.clients)
}

/// Columns beside a name: in front of it, between it and its figures, and for these.
const FIGURES: usize = 40;

/// A change, of a name of at most `room` columns, and what it brings.
fn line(name: &str, forecast: &TwinForecast, room: usize) -> Line {
    let (ratio, to) = (words::ratio(forecast), words::throughput(forecast).value);
    let name = text::shorten(&text::disarm(name), room);
    Line::new(Style::Plain, &format!("  {name}"))
        .to(room + 4)
        .then(Style::Bold, &text::pad(&ratio.value, 7))
        .plain(&text::pad(&ratio.interval, 15))
        .then(Style::Faint, &format!("to {to}/s"))
}

//! A profile on a terminal: the same ledgers as a run's, a second instead of an operation.

use super::line::{Line, Style, bar, wrap};
use super::verdicts;
use crate::number;
use crate::text;
use crate::words;
use kneepoint_vocab::Profile;
use kneepoint_vocab::Ratio;
use kneepoint_vocab::findings::{Caveat, CoreLine, HolderState, Severity};
use kneepoint_vocab::profile::{ProfileCause, ThreadsLine};

/// Lines of each part.
const MOST_LINES: usize = 9;
const MOST_CAUSES: usize = 6;
/// Columns of a kind, of a bar, and of a number.
const KIND: usize = 14;
const BAR: usize = 14;
const NUMBER: usize = 8;
/// Lines below this part of all are not shown on a terminal.
const LEAST: f64 = 0.005;

/// Renders a profile in lines of at most `width` columns, each ended by a line feed.
#[must_use]
pub fn render(profile: &Profile, width: usize, colour: bool) -> String {
    let mut lines = head(profile, width);
    lines.extend(cores(profile));
    lines.extend(threads(profile));
    lines.extend(causes(profile, width));
    lines.push(Line::default());
    let headline = wrap(&words::profile::headline(profile), width);
    lines.extend(headline.iter().map(|line| Line::new(Style::Bold, line)));
    lines.extend(trust(profile, width));
    lines.iter().map(|line| line.render(width, colour) + "\n").collect()
}

fn head(profile: &Profile, width: usize) -> Vec<Line> {
    let seen = format!(
        "{}, {}",
        number::brief_seconds(profile.watched),
        words::counted(profile.windows, "window")
    );
    let title = text::shorten(&text::disarm(&profile.subject), width.saturating_sub(2) / 2);
    let title = Line::new(Style::Bold, &title);
    let host = &profile.host;
    let machine = format!(
        "{} threads, {}, {}, {}",
        words::profile::threads(profile),
        words::counted(host.cores, "core"),
        words::short_kernel(&host.kernel),
        words::short_distribution(&host.distribution)
    );
    let mut lines = vec![title.plain("  ").then(Style::Faint, &seen)];
    lines.push(Line::new(Style::Faint, &machine));
    if let Some(operations) = &profile.operations {
        let said = format!(
            "{} operations/s, {} of CPU each",
            number::rate(&operations.rate),
            number::seconds(&operations.cpu)
        );
        lines.push(Line::new(Style::Plain, &said));
    }
    lines
}

fn title(words: &str) -> [Line; 2] {
    [Line::default(), Line::new(Style::Bold, words)]
}

fn cores(profile: &Profile) -> Vec<Line> {
    let total = profile.cores.0;
    let all = &profile.core_lines;
    let size = |at: usize| all[at].cores.value.0.abs();
    // The greatest lines, in the ledger's order.
    let mut chosen: Vec<usize> = (0..all.len()).filter(|at| size(*at) >= LEAST * total).collect();
    chosen.sort_by(|a, b| size(*b).total_cmp(&size(*a)).then(a.cmp(b)));
    chosen.truncate(MOST_LINES);
    let (shown, rest): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|at| chosen.contains(at));
    let shown: Vec<&CoreLine> = shown.into_iter().map(|at| &all[at]).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<Line> =
        title(&format!("Where {} go", words::counted(profile.host.cores, "core"))).into();
    for line in &shown {
        lines.push(
            row(line.kind, line.cores.value.0 / total)
                .plain(&text::pad(&number::plain_cores(line.cores.value), NUMBER))
                .then(Style::Faint, &text::disarm(&words::line::of_profile(&line.name))),
        );
    }
    let sum: f64 = rest.iter().map(|at| all[*at].cores.value.0).sum();
    let count = rest.len();
    if count > 0 {
        let said = format!("{count} more: {}", number::plain_cores(kneepoint_vocab::Cores(sum)));
        lines.push(Line::new(Style::Faint, &format!("  {said}")));
    }
    lines
}

/// Kind and bar of a line; its number and words follow.
fn row(kind: kneepoint_vocab::findings::LineKind, part: f64) -> Line {
    let word = crate::words::profile::kind(kind);
    Line::new(Style::Plain, "  ")
        .then(Style::Kind(kind), word)
        .to(KIND)
        .then(Style::Kind(kind), &bar(part, BAR))
        .to(KIND + BAR + 1)
}

fn threads(profile: &Profile) -> Vec<Line> {
    let total = profile.threads.0;
    let shown = |line: &&ThreadsLine| line.threads.value.0 >= LEAST * total;
    let shown: Vec<&ThreadsLine> = profile.thread_lines.iter().filter(shown).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let heading = format!("What {} threads do", words::profile::threads(profile));
    let heading = match profile.operations {
        Some(_) => heading + ", and for how long per operation",
        None => heading,
    };
    let mut lines: Vec<Line> = title(&heading).into();
    for line in shown.iter().take(MOST_LINES) {
        let each = line.per_operation.as_ref().map(|each| number::seconds(each).value);
        let each = each.map_or_else(String::new, |each| text::pad(&each, NUMBER + 2));
        lines.push(
            row(line.kind, line.threads.value.0 / total)
                .plain(&text::pad(&number::plain(line.threads.value.0), NUMBER))
                .plain(&each)
                .then(Style::Faint, &text::disarm(&words::line::threads(&line.name))),
        );
    }
    if shown.len() > MOST_LINES {
        let said = format!("  {} more", shown.len() - MOST_LINES);
        lines.push(Line::new(Style::Faint, &said));
    }
    lines
}

fn causes(profile: &Profile, width: usize) -> Vec<Line> {
    if profile.causes.is_empty() {
        return Vec::new();
    }
    let all = profile.causes.len();
    let more = if all > MOST_CAUSES { format!("   {MOST_CAUSES} of {all}") } else { String::new() };
    let mut lines: Vec<Line> = title(&format!("What is waited for{more}")).into();
    for (index, one) in profile.causes.iter().take(MOST_CAUSES).enumerate() {
        lines.extend(cause(one, index + 1, width));
    }
    lines
}

fn cause(one: &ProfileCause, rank: usize, width: usize) -> Vec<Line> {
    let cause = &one.cause;
    let lost = format!("{} cores", number::cores(&cause.lost));
    let head = Line::new(Style::Plain, &format!("  {rank}  "))
        .then(Style::Kind(words::cause_line(cause.kind)), words::word_of(cause))
        .plain("  ");
    let column = width.saturating_sub(text::columns(&lost));
    let room = column.saturating_sub(head.columns() + 2);
    let spelt = cause.name.to_string();
    let name = text::shorten(&text::disarm(&spelt), room);
    let mut lines = vec![head.plain(&name).to(column).then(Style::Bold, &lost)];
    let mut parts = vec![format!("{} threads wait", number::plain(one.threads.value.0))];
    if let Some(waits) = &cause.waits {
        parts.push(format!("{} waits/s", number::rate(waits).value));
    }
    if let Some(mean) = cause.wait_mean {
        parts.push(format!("{} each", number::brief_seconds(mean)));
    }
    let seen =
        |(state, share): &&(HolderState, Ratio)| *state != HolderState::Unknown && share.0 > 0.0;
    let known = cause.holders.iter().filter(seen);
    if let Some((state, share)) = known.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) {
        parts.push(format!("holder {} {}", state.as_str(), number::plain_percent(*share)));
    }
    if let Some(source) = &cause.source {
        parts.push(words::source_line(source));
    }
    let said = verdicts::brief(&parts.join(", "), width.saturating_sub(5));
    lines.push(Line::new(Style::Plain, &format!("     {said}")));
    let unsaid = cause.path.iter().filter(|frame| !spelt.contains(frame.as_str()));
    let callers: Vec<_> = unsaid.take(4).map(|frame| text::disarm(frame)).collect();
    if !callers.is_empty() {
        let said = format!("     < {}", callers.join(" < "));
        lines.push(Line::new(Style::Faint, &text::shorten(&said, width)));
    }
    lines
}

fn trust(profile: &Profile, width: usize) -> Vec<Line> {
    let limited = profile.caveats.iter().find(|caveat| caveat.severity > Severity::Note);
    let word = match (profile.trustworthy, limited) {
        (false, _) => "Not trustworthy",
        (true, Some(_)) => "Trust: limited",
        (true, None) => "Trust: good",
    };
    let cost = words::profile::cost(&profile.collector);
    let cost = cost.map(|cost| format!(" ({cost})")).unwrap_or_default();
    let said = |caveat: &Caveat| format!(": {}", words::caveat::of_profile(&caveat.reason));
    let reason = limited.map(said).unwrap_or_default();
    let style = if profile.trustworthy { Style::Plain } else { Style::Bad };
    let said = format!("{word}{cost}{reason}");
    wrap(&said, width).iter().map(|line| Line::new(style, line)).collect()
}

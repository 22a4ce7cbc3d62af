//! Why, and what helps: ranked causes, and treatments with their verdicts.

use super::line::{Line, Style};
use crate::number;
use crate::text;
use crate::words;
use kneepoint_vocab::findings::{Cause, Effect, Verdict};
use kneepoint_vocab::{ArmRole, Findings, Unit};

/// The state of a holder that the lock word does not name.
const NOT_KNOWN: &str = "not known";

/// Ranked causes: two lines for waits, one for others; one more for a path that does not fit
/// beside its name, where `path` allows it.
pub(super) fn causes(findings: &Findings, width: usize, most: usize, path: bool) -> Vec<Line> {
    if findings.causes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![title("Why", most, findings.causes.len())];
    let shown = findings.causes.iter().take(most);
    let kinds = shown.clone().map(|cause| words::cause_word(cause.kind).len()).max().unwrap_or(0);
    for (index, cause) in shown.enumerate() {
        let (first, unsaid) = first_line(findings, cause, index + 1, kinds, width);
        lines.push(first);
        lines.extend(unsaid.filter(|_| path && index == 0));
        lines.extend(second_line(findings, cause, width));
    }
    lines
}

/// A heading that says how many of its rows follow, where not all do.
fn title(words: &str, shown: usize, all: usize) -> Line {
    let line = Line::new(Style::Bold, words);
    if all > shown { line.then(Style::Faint, &format!("   {shown} of {all}")) } else { line }
}

/// Rank, kind, name and share; and the path as a line of its own where it does not fit.
fn first_line(
    findings: &Findings,
    cause: &Cause,
    rank: usize,
    kinds: usize,
    width: usize,
) -> (Line, Option<Line>) {
    let share = format!("{} of the loss", number::percent(&cause.share));
    let mut name = text::disarm(&cause.name).into_owned();
    let origin = cause.follows_from.as_ref();
    let position = origin.and_then(|id| findings.causes.iter().position(|one| &one.id == id));
    if let Some(position) = position {
        name += &format!(", from {}", position + 1);
    }
    let kind = words::cause_word(cause.kind);
    let head = Line::new(Style::Plain, &format!("  {rank}  "))
        .then(Style::Kind(words::cause_line(cause.kind)), kind)
        .to(5 + kinds)
        .plain("  ");
    let column = width.saturating_sub(text::columns(&share));
    let room = column.saturating_sub(head.columns() + 2);
    let callers = callers(cause);
    let whole = if callers.is_empty() { name.clone() } else { format!("{name} < {callers}") };
    let (words, unsaid) = if text::columns(&whole) <= room {
        (whole, None)
    } else {
        let path = Line::new(Style::Plain, "     ").then(Style::Faint, &format!("< {callers}"));
        (brief(&name, room), Some(path).filter(|_| !callers.is_empty()))
    };
    (head.plain(&words).to(column).then(Style::Bold, &share), unsaid)
}

/// A name without its last clauses where it is too long.
fn brief(name: &str, room: usize) -> String {
    let mut kept = name;
    while text::columns(kept) > room {
        let Some((before, _)) = kept.rsplit_once(", ") else { return text::clip(name, room) };
        kept = before;
    }
    kept.to_owned()
}

/// The path to a cause, innermost first, without what its name already says.
fn callers(cause: &Cause) -> String {
    let unsaid = cause.path.iter().filter(|frame| !cause.name.contains(frame.as_str()));
    let frames: Vec<_> = unsaid.take(3).map(|frame| text::disarm(frame)).collect();
    frames.join(" < ")
}

/// How often, how long, what the holder did, and the cure. A cause that follows from another is
/// cured with that one, and needs no line for it.
fn second_line(findings: &Findings, cause: &Cause, width: usize) -> Option<Line> {
    let mut parts = Vec::new();
    if let Some(waits) = &cause.waits {
        parts.push(format!("{} waits/s", number::rate(waits).value));
    }
    if let Some(mean) = cause.wait_mean {
        parts.push(format!("{} each", number::brief_seconds(mean)));
    }
    let known =
        cause.holders.iter().filter(|(state, share)| state != NOT_KNOWN && share.get() > 0.0);
    if let Some((state, share)) = known.max_by(|a, b| a.1.get().total_cmp(&b.1.get())) {
        let state = text::disarm(state);
        parts.push(format!("holder {state} {}", number::plain_percent(*share)));
    }
    let cure = words::cure(findings, cause).map(|effect| format!("cure: {}", effect.label));
    if parts.is_empty() && (cure.is_none() || cause.follows_from.is_some()) {
        return None;
    }
    let cure = cure.map(|words| text::clip(&text::disarm(&words), width / 2)).unwrap_or_default();
    let column = width.saturating_sub(text::columns(&cure));
    let room = column.saturating_sub(7);
    let line = Line::new(Style::Plain, "     ").plain(&text::clip(&parts.join(", "), room));
    Some(line.to(column).then(Style::Good, &cure))
}

/// Treatments in the recipe's order, decided ones first where not all fit.
pub(super) fn effects(findings: &Findings, width: usize, most: usize) -> Vec<Line> {
    let tried: Vec<&Effect> =
        findings.effects.iter().filter(|effect| effect.role == ArmRole::Treatment).collect();
    if tried.is_empty() {
        return Vec::new();
    }
    let decided = |effect: &&&Effect| matches!(effect.verdict, Verdict::Better | Verdict::Worse);
    let others = tried.iter().filter(|effect| !decided(effect));
    let shown: Vec<&Effect> = if tried.len() <= most {
        tried.clone()
    } else {
        tried.iter().filter(decided).chain(others).copied().take(most).collect()
    };
    let mut lines = vec![title("What helps", most, tried.len())];
    let widest = shown.iter().map(|effect| text::columns(&ratio(effect).interval)).max();
    let room = widest.unwrap_or(0).max(12) + 1;
    for (index, effect) in shown.iter().enumerate() {
        let above = index > 0 && shown[index - 1].arm == effect.over;
        lines.push(effect_line(findings, effect, above, (width, room)));
    }
    lines
}

/// Its ratio as text; nothing where there is none.
fn ratio(effect: &Effect) -> number::Shown {
    let nothing = || number::Shown { value: String::new(), interval: String::new() };
    effect.ratio.as_ref().map_or_else(nothing, number::factor)
}

/// An effect on a line of `width` columns, where intervals have `room`.
fn effect_line(
    findings: &Findings,
    effect: &Effect,
    above: bool,
    (width, room): (usize, usize),
) -> Line {
    let name_room = (width * 3 / 8).max(8);
    let over = words::over(findings, effect);
    let plus = if over.is_some() { "+ " } else { "" };
    let name = text::clip(&format!("{plus}{}", text::disarm(&effect.label)), name_room);
    let ratio = ratio(effect);
    let style = match effect.verdict {
        Verdict::Better => Style::Good,
        Verdict::Worse => Style::Bad,
        _ => Style::Plain,
    };
    let mut verdict = words::verdict(effect.verdict);
    if let Some(over) = over {
        verdict += &if above { " (over the above)".to_owned() } else { format!(" (over {over})") };
    }
    let line = Line::new(Style::Plain, &format!("  {name}")).to(name_room + 3);
    line.then(Style::Bold, &text::pad(&ratio.value, 7))
        .plain(&text::pad(&ratio.interval, room))
        .then(style, &verdict)
}

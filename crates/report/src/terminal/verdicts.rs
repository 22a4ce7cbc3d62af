//! Why, and what helps: ranked causes, and treatments with their verdicts.

use super::line::{Line, Style, wrap};
use crate::number;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{Cause, Charge, Effect, HolderState, Verdict};
use kneepoint_vocab::{Findings, Ratio, Unit, VariantRole};

/// Below this width a share or a ratio has a line of its own.
const NARROW: usize = 60;

/// How much is lost and to what: so many ranked causes, with a line of detail each where there
/// are `details`, and a line for a path that does not fit beside the first one's name.
pub(super) fn causes(
    findings: &Findings,
    width: usize,
    (most, details, path): (usize, bool, bool),
) -> Vec<Line> {
    if most == 0 {
        return Vec::new();
    }
    let loss = words::loss(findings);
    if findings.causes.is_empty() || loss.as_ref().is_some_and(words::Loss::is_nothing) {
        return unexplained(findings, loss.as_ref(), width);
    }
    let lost = loss.map(|loss| format!(": {}", loss.sentence())).unwrap_or_default();
    let mut lines = vec![title(&format!("Why{lost}"), most, findings.causes.len())];
    let shown = findings.causes.iter().take(most);
    let kinds = shown.clone().map(|cause| words::word_of(cause).len()).max().unwrap_or(0);
    for (index, cause) in shown.enumerate() {
        let (first, unsaid) = first_line(findings, cause, index + 1, kinds, width);
        lines.extend(first);
        lines.extend(unsaid.filter(|_| path && index == 0));
        lines.extend(second_line(findings, cause, width).filter(|_| details));
    }
    lines
}

/// Where there is no loss to explain: that it is so, and where the CPU goes.
fn unexplained(findings: &Findings, loss: Option<&words::Loss>, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(at) = &findings.at_bound {
        lines.push(Line::new(Style::Bold, &text::shorten(&words::at_bound(at), width)));
        if let Some(flat) = words::price::flat(findings, Axis::of(findings)) {
            let said = wrap(&format!("and {flat}"), width);
            lines.extend(said.iter().map(|line| Line::new(Style::Plain, line)));
        }
    } else if let Some(loss) = loss {
        let said = format!("Nothing to explain: {}", loss.sentence());
        lines.push(Line::new(Style::Bold, &said));
    }
    let by_stacks = || findings.on_cpu.as_ref().map(words::busiest).unwrap_or_default();
    let busiest = match findings.at_bound.as_ref().map(words::busy_functions) {
        Some(functions) if !functions.is_empty() => functions,
        _ => by_stacks(),
    };
    if !busiest.is_empty() {
        let said = text::shorten(&busiest.join(", "), width.saturating_sub(9));
        lines.push(Line::new(Style::Plain, "CPU      ").then(Style::Faint, &said));
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
) -> (Vec<Line>, Option<Line>) {
    let share = format!("{} of the loss", number::percent(&cause.share));
    let mut name = text::disarm(&cause.name.to_string()).into_owned();
    let origin = cause.follows_from.as_ref();
    let position = origin.and_then(|id| findings.causes.iter().position(|one| &one.id == id));
    if let Some(position) = position {
        name += &format!(", from {}", position + 1);
    }
    let kind = words::word_of(cause);
    let narrow = width < NARROW;
    let head = Line::new(Style::Plain, &format!("  {rank}  "))
        .then(Style::Kind(words::cause_line(cause.kind)), kind)
        .to(if narrow { 0 } else { 5 + kinds })
        .plain("  ");
    let column = if narrow { width } else { width.saturating_sub(text::columns(&share)) };
    let room = column.saturating_sub(head.columns() + if narrow { 0 } else { 2 });
    let callers = callers(cause);
    let whole = if callers.is_empty() { name.clone() } else { format!("{name} < {callers}") };
    let (words, unsaid) = if text::columns(&whole) <= room {
        (whole, None)
    } else {
        let path = Line::new(Style::Plain, "     ").then(Style::Faint, &format!("< {callers}"));
        (brief(&name, room), Some(path).filter(|_| !callers.is_empty()))
    };
    let line = head.plain(&words);
    if narrow {
        return (vec![line, Line::new(Style::Plain, "     ").then(Style::Bold, &share)], unsaid);
    }
    (vec![line.to(column).then(Style::Bold, &share)], unsaid)
}

/// A name without its last clauses where it is too long.
pub(super) fn brief(name: &str, room: usize) -> String {
    let mut kept = name;
    while text::columns(kept) > room {
        let Some((before, _)) = kept.rsplit_once(", ") else { return text::shorten(name, room) };
        kept = before;
    }
    kept.to_owned()
}

/// The path to a cause, innermost first, without what its name already says.
fn callers(cause: &Cause) -> String {
    let name = cause.name.to_string();
    let unsaid = cause.path.iter().filter(|frame| !name.contains(frame.as_str()));
    let frames: Vec<_> = unsaid.take(4).map(|frame| text::disarm(frame)).collect();
    frames.join(" < ")
}

/// How often, how long, what the holder did, and the cure. A cause that follows from another is
/// cured with that one, and needs no line for it.
fn second_line(findings: &Findings, cause: &Cause, width: usize) -> Option<Line> {
    let mut parts = Vec::new();
    if let Charge::Wait { wait } = &cause.evidence.charge {
        let share = |share: Ratio| number::plain_percent(share);
        parts.extend(wait.convoy.map(|part| format!("a convoy {}", share(part))));
        let herd = wait.after_wake.or(wait.herd);
        parts.extend(herd.map(|part| format!("a herd {}", share(part))));
    }
    if let Some(waits) = &cause.waits {
        parts.push(format!("{} waits/s", number::rate(waits).value));
    }
    if let Some(mean) = cause.wait_mean {
        parts.push(format!("{} each", number::brief_seconds(mean)));
    }
    if let Some(lock) = words::locks::of_cause(findings, cause) {
        parts.extend(lock.held.map(|held| format!("held {}", number::brief_seconds(held.value))));
    }
    let known = cause
        .holders
        .iter()
        .filter(|(state, share)| *state != HolderState::Unknown && share.get() > 0.0);
    if let Some((state, share)) = known.max_by(|a, b| a.1.get().total_cmp(&b.1.get())) {
        parts.push(format!("holder {} {}", state.as_str(), number::plain_percent(*share)));
    }
    if let Some(by) = &cause.evidence.woken_by {
        let how = if by.stops { "stopped" } else { "ended" };
        parts.push(format!("{how} by {}", text::disarm(&by.name)));
    }
    if let Some(source) = &cause.source {
        parts.push(words::source_line(source));
    }
    let cure = words::cure(findings, cause).map(|effect| format!("cure: {}", effect.label));
    if parts.is_empty() && (cure.is_none() || cause.follows_from.is_some()) {
        return None;
    }
    let cure =
        cure.map(|words| text::shorten(&text::disarm(&words), width / 2)).unwrap_or_default();
    let column = width.saturating_sub(text::columns(&cure));
    let room = column.saturating_sub(7);
    let line = Line::new(Style::Plain, "     ").plain(&brief(&parts.join(", "), room));
    Some(line.to(column).then(Style::Good, &cure))
}

/// Treatments in the recipe's order, decided ones first where not all fit.
pub(super) fn effects(findings: &Findings, axis: Axis, width: usize, most: usize) -> Vec<Line> {
    let tried: Vec<&Effect> =
        findings.effects.iter().filter(|effect| effect.role == VariantRole::Treatment).collect();
    if tried.is_empty() || most == 0 {
        return Vec::new();
    }
    let decided = |effect: &&&Effect| matches!(effect.verdict, Verdict::Better | Verdict::Worse);
    let others = tried.iter().filter(|effect| !decided(effect));
    let shown: Vec<&Effect> = if tried.len() <= most {
        tried.clone()
    } else {
        tried.iter().filter(decided).chain(others).copied().take(most).collect()
    };
    let heading =
        format!("What helps at {}", axis.phrase(findings.effects_at.unwrap_or(findings.focus)));
    let mut lines = vec![title(&heading, most, tried.len())];
    let widest = shown.iter().map(|effect| text::columns(&ratio(effect).interval)).max();
    let room = widest.unwrap_or(0).max(12) + 1;
    for (index, effect) in shown.iter().enumerate() {
        let above = index > 0 && shown[index - 1].variant == effect.over;
        lines.extend(effect_lines(findings, effect, above, (width, room)));
    }
    lines
}

/// What variants do together, each in a sentence with the four cells below.
pub(super) fn crosses(findings: &Findings, width: usize, most: usize) -> Vec<Line> {
    if findings.crosses.is_empty() || most == 0 {
        return Vec::new();
    }
    let mut lines = vec![title("What they do together", most, findings.crosses.len())];
    let room = width.saturating_sub(4);
    for cross in findings.crosses.iter().take(most) {
        let (pair, said) = (words::cross::pair(findings, cross), words::cross::sentence(cross));
        for (at, line) in wrap(&format!("{pair}: {said}"), room).iter().enumerate() {
            let indent = if at == 0 { "  " } else { "    " };
            lines.push(Line::new(Style::Plain, &format!("{indent}{line}")));
        }
        let Some(figures) = &cross.figures else { continue };
        let cells = words::cross::cells(findings, cross, figures);
        let cells = cells.map(|(name, rate)| format!("{name} {rate}")).join(", ");
        let cells = wrap(&format!("{cells}; {}", words::cross::blocks(figures)), room);
        lines.extend(cells.iter().map(|line| Line::new(Style::Faint, &format!("    {line}"))));
    }
    lines
}

/// Its ratio as text; nothing where there is none.
fn ratio(effect: &Effect) -> number::Shown {
    let nothing = || number::Shown { value: String::new(), interval: String::new() };
    effect.ratio.as_ref().map_or_else(nothing, number::factor)
}

/// An effect on a line of `width` columns, where intervals have `room`; on two where it is narrow.
fn effect_lines(
    findings: &Findings,
    effect: &Effect,
    above: bool,
    (width, room): (usize, usize),
) -> Vec<Line> {
    let narrow = width < NARROW;
    let name_room = if narrow { width.saturating_sub(2) } else { width * 3 / 8 - 1 };
    let over = words::over(findings, effect);
    let plus = if over.is_some() { "+ " } else { "" };
    let name = text::shorten(&format!("{plus}{}", text::disarm(&effect.label)), name_room);
    let ratio = ratio(effect);
    let style = match effect.verdict {
        Verdict::Better => Style::Good,
        Verdict::Worse => Style::Bad,
        _ => Style::Plain,
    };
    let name = Line::new(Style::Plain, &format!("  {name}"));
    let (above_line, line) = if narrow {
        (Some(name), Line::new(Style::Plain, "    "))
    } else {
        (None, name.to(name_room + 3))
    };
    let line = line
        .then(Style::Bold, &text::pad(&ratio.value, 7))
        .plain(&text::pad(&ratio.interval, room))
        .then(style, &words::outcome(effect));
    let over = over.map(|over| match above {
        true => "over the above".to_owned(),
        false => format!("over {over}"),
    });
    let said = words::gain(findings, effect).into_iter().chain(over);
    let line = said.fold(line, |line, words| {
        let fits = line.columns() + 2 + text::columns(&words) <= width;
        if fits { line.plain("  ").then(Style::Faint, &words) } else { line }
    });
    above_line.into_iter().chain([line]).collect()
}

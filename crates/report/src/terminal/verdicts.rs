//! Why, and what helps: ranked causes, and treatments with their verdicts.

use super::line::{Line, Style};
use crate::number;
use crate::text;
use crate::words;
use kneepoint_vocab::findings::{Cause, Effect, Verdict};
use kneepoint_vocab::{ArmRole, Findings, Unit};

/// Ranked causes: two lines each for waits, one for others.
pub(super) fn causes(findings: &Findings, width: usize, most: usize) -> Vec<Line> {
    if findings.causes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![title("Why", most, findings.causes.len())];
    let shown = findings.causes.iter().take(most);
    let kinds = shown.clone().map(|cause| words::cause_word(cause.kind).len()).max().unwrap_or(0);
    for (index, cause) in shown.enumerate() {
        lines.push(first_line(findings, cause, index + 1, kinds, width));
        if let Some(second) = second_line(findings, cause, width) {
            lines.push(second);
        }
    }
    lines
}

/// A heading that says how many of its rows follow, where not all do.
fn title(words: &str, shown: usize, all: usize) -> Line {
    let line = Line::new(Style::Bold, words);
    if all > shown { line.then(Style::Faint, &format!("   {shown} of {all}")) } else { line }
}

fn first_line(findings: &Findings, cause: &Cause, rank: usize, kinds: usize, width: usize) -> Line {
    let share = format!("{} of the loss", number::percent(&cause.share));
    let mut name = text::disarm(&cause.name).into_owned();
    let origin = cause.follows_from.as_ref();
    let position = origin.and_then(|id| findings.causes.iter().position(|one| &one.id == id));
    if let Some(position) = position {
        name += &format!(", from {}", position + 1);
    }
    let unsaid = cause.path.iter().filter(|frame| !cause.name.contains(frame.as_str()));
    for frame in unsaid.take(3) {
        name += &format!(" < {}", text::disarm(frame));
    }
    let kind = words::cause_word(cause.kind);
    let head = Line::new(Style::Plain, &format!("  {rank}  "))
        .then(Style::Kind(words::cause_line(cause.kind)), kind)
        .to(5 + kinds)
        .plain("  ");
    let column = width.saturating_sub(text::columns(&share));
    let room = column.saturating_sub(head.columns() + 2);
    head.plain(&text::clip(&name, room)).to(column).then(Style::Bold, &share)
}

fn second_line(findings: &Findings, cause: &Cause, width: usize) -> Option<Line> {
    let mut parts = Vec::new();
    if let Some(waits) = &cause.waits {
        parts.push(format!("{} waits/s", number::rate(waits).value));
    }
    if let Some(mean) = cause.wait_mean {
        parts.push(format!("{} each", number::plain_seconds(mean)));
    }
    let holder = cause.holders.iter().max_by(|a, b| a.1.get().total_cmp(&b.1.get()));
    if let Some((state, share)) = holder {
        let state = text::disarm(state);
        parts.push(format!("holder {state} {}", number::plain_percent(*share)));
    }
    let cure = words::cure(findings, cause).map(|effect| format!("cure: {}", effect.label));
    if parts.is_empty() && cure.is_none() {
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
    for (index, effect) in shown.iter().enumerate() {
        let above = index > 0 && shown[index - 1].arm == effect.over;
        lines.push(effect_line(findings, effect, above, width));
    }
    lines
}

fn effect_line(findings: &Findings, effect: &Effect, above: bool, width: usize) -> Line {
    let name_room = (width * 3 / 8).max(8);
    let over = words::over(findings, effect);
    let plus = if over.is_some() { "+ " } else { "" };
    let name = text::clip(&format!("{plus}{}", text::disarm(&effect.label)), name_room);
    let (value, interval) = effect.ratio.as_ref().map_or_else(
        || (String::new(), String::new()),
        |ratio| {
            let shown = number::factor(ratio);
            (shown.value, shown.interval)
        },
    );
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
    line.then(Style::Bold, &text::pad(&value, 7))
        .plain(&text::pad(&interval, 13))
        .then(style, &verdict)
}

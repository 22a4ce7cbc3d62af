//! Where the cores go at the focus level: one bar a line of the core ledger.

use super::focus;
use super::line::{Line, Style, bar};
use crate::number;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{CoreLine, LineKind};
use kneepoint_vocab::{Cores, Findings, Unit};

const WORD: usize = 13;

pub(super) fn lines(findings: &Findings, axis: Axis, width: usize, most: usize) -> Vec<Line> {
    let Some(ledger) = focus(findings) else { return Vec::new() };
    let total = ledger.core.total;
    let (shown, rest) = split(&ledger.core.lines, total, most);
    let room = (width / 4).clamp(4, 30);
    let title = format!(
        "Where {} {} at {}",
        number_of_cores(total),
        if total.get() <= 1.0 { "goes" } else { "go" },
        axis.phrase(findings.focus)
    );
    let mut lines = vec![Line::new(Style::Bold, &title)];
    for line in shown {
        let cores = line.cores.value;
        let head = Line::new(Style::Plain, &format!("  {}", words::line_word(line.kind)));
        lines.push(
            head.to(2 + WORD)
                .then(Style::Kind(line.kind), &bar(cores.get() / total.get(), room))
                .to(2 + WORD + room + 1)
                .plain(&text::pad_left(&number::plain_cores(cores), 5))
                .plain("   ")
                .then(Style::Faint, &said(line)),
        );
    }
    if let Some((count, cores)) = rest {
        let words = format!("{} in the report", words::counted(count, "further line"));
        lines.push(
            Line::new(Style::Plain, "  other")
                .to(2 + WORD)
                .then(Style::Kind(LineKind::Unattributed), &bar(cores.get() / total.get(), room))
                .to(2 + WORD + room + 1)
                .plain(&text::pad_left(&number::plain_cores(cores), 5))
                .then(Style::Faint, &format!("   {words}")),
        );
    }
    lines
}

/// The label, unless it only repeats the kind's word.
fn said(line: &CoreLine) -> String {
    let label = text::disarm(&line.label).into_owned();
    if label.eq_ignore_ascii_case(words::line_word(line.kind)) { String::new() } else { label }
}

fn number_of_cores(total: Cores) -> String {
    let text = format!("{:.1}", total.get());
    let text = text.trim_end_matches(".0");
    format!("{text} core{}", if text == "1" { "" } else { "s" })
}

/// Lines worth a row, in the order of the stack, and the sum of the others.
fn split(lines: &[CoreLine], total: Cores, most: usize) -> (Vec<&CoreLine>, Option<(u32, Cores)>) {
    let mut ranked: Vec<&CoreLine> = lines.iter().collect();
    ranked.sort_by(|a, b| b.cores.value.get().total_cmp(&a.cores.value.get()));
    let worth = |line: &&CoreLine| line.cores.value.get().abs() >= total.get() * 0.004;
    let small = ranked.iter().filter(|line| !worth(line)).count();
    let most = if ranked.len() - small > most { most - 1 } else { most };
    let mut shown: Vec<&CoreLine> = ranked.iter().copied().filter(worth).take(most).collect();
    shown.sort_by_key(|line| words::order(line.kind));
    let others = ranked.iter().filter(|line| worth(line)).skip(most);
    let count = u32::try_from(others.clone().count()).unwrap_or(u32::MAX);
    let sum: Cores = others.map(|line| line.cores.value).sum();
    (shown, (count > 0).then_some((count, sum)))
}

//! What broke under the load, where that was looked for.

use super::line::{Line, Style, wrap};
use crate::words::stability;
use kneepoint_vocab::Findings;

/// One line where nothing broke, else one or two for each class that did.
pub(super) fn lines(findings: &Findings, width: usize) -> Vec<Line> {
    let Some(found) = &findings.stability else { return Vec::new() };
    let (summary, broken) = stability::sentences(found);
    let style = if broken.is_empty() { Style::Plain } else { Style::Bad };
    let mut lines: Vec<Line> =
        wrap(&summary, width).iter().map(|line| Line::new(style, line)).collect();
    for sentence in broken.iter().take(4) {
        let words = wrap(sentence, width).into_iter().take(2);
        lines.extend(words.map(|line| Line::new(Style::Bad, &line)));
    }
    lines
}

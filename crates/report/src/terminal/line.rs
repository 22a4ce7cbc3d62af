//! One line of terminal text: styled spans, clipped to a width before any colour is added.

use crate::text;
use kneepoint_vocab::findings::LineKind;

/// How a span looks where colour is allowed. It reads the same without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Faint,
    Good,
    Bad,
    Kind(LineKind),
}

impl Style {
    /// Parameters of the "select graphic rendition" sequence.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Kind(kind) => Some(match kind {
                LineKind::Useful | LineKind::Running => "32",
                LineKind::ExtraCpu => "33",
                LineKind::Kernel => "31",
                LineKind::IdleLock | LineKind::IdleKernelLock => "34",
                LineKind::IdleDevice | LineKind::IdleThread => "35",
                LineKind::IdleScheduler | LineKind::Runnable => "36",
                _ => "90",
            }),
        }
    }
}

/// A line under construction. Everything pushed is disarmed first.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    spans: Vec<(Style, String)>,
}

impl Line {
    pub(super) fn new(style: Style, words: &str) -> Self {
        Self::default().then(style, words)
    }

    pub(super) fn then(mut self, style: Style, words: &str) -> Self {
        self.spans.push((style, text::disarm(words).into_owned()));
        self
    }

    pub(super) fn plain(self, words: &str) -> Self {
        self.then(Style::Plain, words)
    }

    pub(super) fn columns(&self) -> usize {
        self.spans.iter().map(|(_, words)| text::columns(words)).sum()
    }

    /// Fills up with blanks to `column`.
    pub(super) fn to(self, column: usize) -> Self {
        let missing = column.saturating_sub(self.columns());
        self.plain(&" ".repeat(missing))
    }

    /// The line as text of at most `width` columns, without trailing blanks.
    pub(super) fn render(&self, width: usize, colour: bool) -> String {
        let mut out = String::new();
        let mut room = width;
        let last = self.spans.iter().rposition(|(_, words)| !words.trim_end().is_empty());
        let Some(last) = last else { return out };
        for (index, (style, words)) in self.spans[..=last].iter().enumerate() {
            let words = if index == last { words.trim_end() } else { words };
            let shown = text::shorten(words, room);
            room = room.saturating_sub(text::columns(&shown));
            match style.code() {
                Some(code) if colour && !shown.is_empty() => {
                    out.push_str(&format!("\u{1b}[{code}m{shown}\u{1b}[0m"));
                }
                _ => out.push_str(&shown),
            }
            if shown != words {
                break;
            }
        }
        out
    }
}

/// A bar of at most `room` columns in eighths of a column, for a part between 0 and 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the part is clamped to 0..=1 and the room is a terminal's width"
)]
pub(super) fn bar(part: f64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if !(part.is_finite() && part > 0.0) {
        return String::new();
    }
    let eighths = ((part.min(1.0) * room as f64 * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Breaks a text into lines of at most `room` columns at blanks; a longer word is clipped.
pub(super) fn wrap(words: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text::disarm(words).split_whitespace() {
        let word = text::clip(word, room);
        let Some(line) = lines.last_mut() else { continue };
        if line.is_empty() {
            *line = word;
        } else if text::columns(line) + 1 + text::columns(&word) <= room {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bars_count_eighths() {
        assert_eq!(bar(1.0, 5), "█████");
        assert_eq!(bar(0.5, 5), "██▌");
        assert_eq!(bar(0.0001, 5), "▏");
        assert_eq!(bar(f64::NAN, 5), "");
        assert_eq!(bar(7.0, 5), "█████");
    }

    #[test]
    fn colour_only_adds() {
        let line = Line::new(Style::Bold, "Why").to(6).then(Style::Good, "better");
        assert_eq!(line.render(80, false), "Why   better");
        assert_eq!(line.render(80, true), "\u{1b}[1mWhy\u{1b}[0m   \u{1b}[32mbetter\u{1b}[0m");
        assert_eq!(line.render(9, false), "Why   be…");
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit(words in ".*", room in 1usize..60) {
            for line in wrap(&words, room) {
                prop_assert!(text::columns(&line) <= room);
            }
        }
    }
}

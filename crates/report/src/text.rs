//! Names from outside, made harmless: for HTML, for a terminal, and for a given width.

use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

/// Whether a character could steer a terminal, a bidirectional layout or an XML parser instead
/// of being read.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}')
}

/// Replaces every character that steers rather than prints by U+FFFD; line feeds and tabs
/// become spaces.
#[must_use]
pub fn disarm(name: &str) -> Cow<'_, str> {
    if !name.contains(steers) {
        return Cow::Borrowed(name);
    }
    let harmless = |character| match character {
        '\n' | '\t' | '\r' => ' ',
        other if steers(other) => '\u{fffd}',
        other => other,
    };
    Cow::Owned(name.chars().map(harmless).collect())
}

/// Escapes for HTML text and for attribute values in either kind of quotes, after [`disarm`];
/// line feeds survive, since attributes use them between lines.
#[must_use]
pub fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push_str("&#10;"),
            other if steers(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Columns that a disarmed text takes on a terminal.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text, cut to at most `room` columns; an ellipsis stands for what was cut off.
#[must_use]
pub fn clip(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    if room == 0 {
        return String::new();
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > room - 1 {
            break;
        }
        used += wide;
        kept.push(character);
    }
    while columns(&kept) > room - 1 {
        kept.pop();
    }
    kept.push('…');
    kept
}

/// The text at exactly `room` columns: clipped, or padded on the right.
#[must_use]
pub fn pad(text: &str, room: usize) -> String {
    let clipped = clip(text, room);
    let missing = room.saturating_sub(columns(&clipped));
    clipped + &" ".repeat(missing)
}

/// The text at exactly `room` columns: clipped, or padded on the left.
#[must_use]
pub fn pad_left(text: &str, room: usize) -> String {
    let clipped = clip(text, room);
    let missing = room.saturating_sub(columns(&clipped));
    " ".repeat(missing) + &clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_steer_nothing() {
        assert_eq!(disarm("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb c\u{fffd}d");
        assert_eq!(
            escape("<script>\"x\"&'y'\u{7}"),
            "&lt;script&gt;&quot;x&quot;&amp;&#39;y&#39;\u{fffd}"
        );
    }

    #[test]
    fn clipping_leaves_an_ellipsis() {
        assert_eq!(clip("sqlite3BtreeEnter", 8), "sqlite3…");
        assert_eq!(clip("short", 8), "short");
        assert_eq!(pad("日本", 5), "日本 ");
        assert_eq!(pad_left("7", 3), "  7");
    }

    proptest! {
        #[test]
        fn a_padded_text_has_its_width(name in ".*", room in 0usize..60) {
            let name = disarm(&name);
            prop_assert!(columns(&clip(&name, room)) <= room);
            prop_assert_eq!(columns(&pad(&name, room)), room);
        }

        #[test]
        fn an_escaped_text_holds_no_markup(name in ".*") {
            let text = escape(&name);
            prop_assert!(!text.contains(['<', '>', '"', '\'']));
            prop_assert!(!text.chars().any(char::is_control));
        }
    }
}

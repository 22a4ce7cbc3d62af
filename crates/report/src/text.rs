//! Names from outside, made harmless: for HTML, for a terminal, and for a given width.

use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

/// Whether a character could steer a terminal, a bidirectional layout or an XML parser instead
/// of being read.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // The soft hyphen, the Arabic letter mark and the Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Spaces of no width, marks, embeddings, overrides and isolates of direction.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            // Tags: a second, invisible text.
            | '\u{e0000}'..='\u{e0fff}')
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

/// A message for a terminal: [`disarm`]ed, and so long at most; the middle of a longer one gives
/// way to an ellipsis, since its end is what usually tells.
#[must_use]
pub fn message(text: &str, most: usize) -> String {
    let text = disarm(text);
    let length = text.chars().count();
    if length <= most {
        return text.into_owned();
    }
    let head = most / 2;
    let tail = most.saturating_sub(head + 1);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{begin}…{end}")
}

/// JSON text with every character that [`disarm`] replaces as a `\u` escape, which says the same
/// to programs. Such characters stand inside strings only, but for line feeds.
#[must_use]
pub fn inert_json(text: &str) -> Cow<'_, str> {
    let armed = |character| character != '\n' && steers(character);
    if !text.contains(armed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if armed(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
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

/// The text, cut to at most `room` columns: the longest name in it loses the qualifiers in front,
/// and where that is not enough the text its end, between two words. An ellipsis stands for what
/// was cut off. Only a word that is longer than that is cut within.
#[must_use]
pub fn shorten(text: &str, room: usize) -> String {
    let cut = clip(text, room);
    if cut == text || room == 0 {
        return cut;
    }
    if let Some(unqualified) = unqualified(text, room) {
        return unqualified;
    }
    let kept = cut.trim_end_matches('…');
    let within = |character: char| character.is_alphanumeric() || character == '_';
    if !text[kept.len()..].starts_with(within) {
        return cut;
    }
    let whole = kept.trim_end_matches(within);
    let whole = whole.trim_end_matches([' ', '(', ',', '<']);
    if columns(whole) * 3 < room { cut } else { format!("{whole}…") }
}

/// The text with as many qualifiers of its longest name cut off as let it fit: what tells two
/// functions of a program apart stands at the ends of their names.
fn unqualified(text: &str, room: usize) -> Option<String> {
    let (begins, ends) =
        words(text).into_iter().max_by_key(|(begins, ends)| columns(&text[*begins..*ends]))?;
    let word = &text[begins..ends];
    let of_paths = word.contains("::") || word.contains('/');
    let separators: &[&str] = if of_paths { &["::", "/"] } else { &["."] };
    outside_brackets(word)
        .filter_map(|at| separators.iter().find_map(|by| word[..at].ends_with(by).then_some(at)))
        .filter(|at| word[*at..].starts_with(|first: char| !first.is_ascii_digit()))
        .map(|at| format!("{}…{}", &text[..begins], &text[begins + at..]))
        .find(|shortened| columns(shortened) <= room)
}

/// Beginnings and ends of the words of a text; a name with spaces in brackets is one of them.
fn words(text: &str) -> Vec<(usize, usize)> {
    let spaces = outside_brackets(text).filter(|at| text[*at..].starts_with(' '));
    let mut words = Vec::new();
    let mut begins = 0;
    for space in spaces {
        words.push((begins, space));
        begins = space + 1;
    }
    words.push((begins, text.len()));
    words
}

/// Positions in a text at which no bracket is open.
fn outside_brackets(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut open = 0_usize;
    let mut before = ' ';
    text.char_indices().filter_map(move |(at, character)| {
        let outside = open == 0;
        match character {
            '<' | '(' | '[' | '{' => open += 1,
            // The arrow of a closure's type closes nothing.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        before = character;
        outside.then_some(at)
    })
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
    fn hidden_and_turning_characters_are_shown() {
        for armed in ["\u{61c}", "\u{e0041}", "\u{202e}", "\u{2066}", "\u{9b}", "\u{ad}", "\u{7f}"]
        {
            assert_eq!(disarm(&format!("a{armed}b")), "a\u{fffd}b", "{armed:?}");
        }
    }

    #[test]
    fn a_long_message_keeps_both_ends() {
        assert_eq!(message("short", 5), "short");
        assert_eq!(message("0123456789", 5), "01…89");
        assert_eq!(message("a\u{1b}]0;x\u{7}", 99), "a\u{fffd}]0;x\u{fffd}");
    }

    #[test]
    fn inert_json_means_the_same() {
        let value = serde_json::json!({ "name": "a\u{9b}31m\u{202e}b\u{e0041}c\u{1b}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let inert = inert_json(&text);
        assert!(!inert.contains(|character| character != '\n' && steers(character)), "{inert}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&inert).unwrap(), value);
    }

    #[test]
    fn clipping_leaves_an_ellipsis() {
        assert_eq!(clip("sqlite3BtreeEnter", 8), "sqlite3…");
        assert_eq!(clip("short", 8), "short");
        assert_eq!(pad("日本", 5), "日本 ");
        assert_eq!(pad_left("7", 3), "  7");
    }

    #[test]
    fn names_are_cut_between_words() {
        assert_eq!(shorten("mutex in sqlite3BtreeEnter", 20), "mutex in…");
        assert_eq!(shorten("mutex in sqlite3BtreeEnter", 26), "mutex in sqlite3BtreeEnter");
        assert_eq!(shorten("waiting, then gone", 8), "waiting…");
        assert_eq!(shorten("sqlite3BtreeEnter", 8), "sqlite3…");
    }

    #[test]
    fn names_lose_their_qualifiers_first() {
        for (name, room, expected) in [
            ("std::sync::Mutex<T>::lock", 16, "…Mutex<T>::lock"),
            ("std::sync::Mutex<T>::lock", 14, "…lock"),
            ("lock in db::cache::Shard::Release", 27, "lock in …Shard::Release"),
            ("<a::B as c::D>::call, then gone", 20, "…call, then gone"),
            ("Map<K, Box<dyn Fn(A) -> B>>::get", 10, "…get"),
            ("github.com/them/it.(*Shop).Sell", 20, "…it.(*Shop).Sell"),
            ("java.util.Timer.run", 12, "…Timer.run"),
            ("extra CPU of 0.123456789", 20, "extra CPU of 0.…"),
            ("std::a_name_of_many_letters", 12, "std::…"),
        ] {
            assert_eq!(shorten(name, room), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_shortened_text_fits(name in ".*", room in 0usize..60) {
            prop_assert!(columns(&shorten(&disarm(&name), room)) <= room);
        }

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

//! Blanks comments and literals in Rust source, so that rules look at code only.

/// The same text with every byte of a comment, string or character literal replaced by a
/// space; line ends stay, so line numbers do too.
pub(super) fn mask(text: &str) -> String {
    let mut masker = Masker { bytes: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()) };
    while masker.at < masker.bytes.len() {
        masker.step();
    }
    String::from_utf8_lossy(&masker.out).into_owned()
}

struct Masker<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Masker<'_> {
    fn step(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            self.blank(length);
        } else if rest.starts_with(b"/*") {
            self.blank(block_comment(rest));
        } else if let Some(hashes) = raw_string(rest).filter(|_| !self.inside_word()) {
            self.blank(raw_string_length(rest, hashes));
        } else if rest[0] == b'"' {
            self.blank(quoted(rest, b'"'));
        } else if rest[0] == b'\'' && is_character(rest) {
            self.blank(quoted(rest, b'\''));
        } else {
            self.out.push(rest[0]);
            self.at += 1;
        }
    }

    /// Whether the byte before belongs to an identifier: then `r"` is no raw string's start.
    fn inside_word(&self) -> bool {
        self.at > 0 && is_word(self.bytes[self.at - 1])
    }

    fn blank(&mut self, length: usize) {
        let end = (self.at + length).min(self.bytes.len());
        let bytes = &self.bytes[self.at..end];
        self.out.extend(bytes.iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
        self.at = end;
    }
}

/// Whether a byte can stand in an identifier; bytes of other alphabets can.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Length of a block comment, which may hold further ones.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0_usize);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The number of hashes where a raw string begins here: `r"`, `r#"`, `br##"`, `cr"`.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let after_prefix = match rest {
        [b'b' | b'c', b'r', tail @ ..] | [b'r', tail @ ..] => tail,
        _ => return None,
    };
    let hashes = after_prefix.iter().take_while(|&&b| b == b'#').count();
    (after_prefix.get(hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_string_length(rest: &[u8], hashes: usize) -> usize {
    let Some(open) = rest.iter().position(|&b| b == b'"') else { return rest.len() };
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let body = &rest[open + 1..];
    match body.windows(closing.len()).position(|window| window == closing) {
        Some(at) => open + 1 + at + closing.len(),
        None => rest.len(),
    }
}

/// Length of a literal between two `quote`s, with backslash escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Tells `'x'` and `'\n'` from the lifetime `'a`.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(&first) if first >= 0x80 => rest.iter().skip(2).take(4).any(|&b| b == b'\''),
        Some(_) => rest.get(2) == Some(&b'\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::mask;
    use proptest::prelude::*;

    #[test]
    fn comments_and_literals_go_code_stays() {
        let text =
            "let a = \"unsafe \\\" // x\"; // unsafe\nlet b = 'u'; /* a /* b */ c */ f::<'a>();";
        let masked = mask(text);
        assert!(!masked.contains("unsafe") && !masked.contains("/*"));
        assert!(masked.contains("let a =") && masked.contains("f::<'a>();"));
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        let masked = mask("let a = r#\"x \" unsafe\"#; let var\n = br\"unsafe\"; tail()");
        assert!(!masked.contains("unsafe"));
        assert!(masked.contains("tail()"));
    }

    proptest! {
        #[test]
        fn lines_keep_their_numbers(text in "[a-z\"'/*#\\\\r \n]{0,80}") {
            prop_assert_eq!(mask(&text).matches('\n').count(), text.matches('\n').count());
        }
    }
}

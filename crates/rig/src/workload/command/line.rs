//! A command as people write it: words with placeholders, with or without a shell.

use std::collections::BTreeMap;
use std::fmt;

/// Spellings that people try instead, and what they mean.
const MEANT: [(&str, &str); 8] = [
    ("{client}", "{clients}"),
    ("{threads}", "{clients}"),
    ("{jobs}", "{clients}"),
    ("{core}", "{cores}"),
    ("{cpus}", "{cores}"),
    ("{second}", "{seconds}"),
    ("{time}", "{seconds}"),
    ("{dir}", "{directory}"),
];

/// What stands for each placeholder, e.g. `{clients}` and `8`.
pub(super) type Values = BTreeMap<&'static str, String>;

/// A command whose placeholders are still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// As it was written.
    text: String,
    /// Its words, split before anything is put in, so that what is put in stays one word.
    words: Vec<String>,
    shell: bool,
}

impl Line {
    /// Splits like a shell would; with `shell`, leaves that to `sh -c`.
    ///
    /// # Errors
    /// What is wrong with it, to be put after its name.
    pub(super) fn parse(text: &str, shell: bool) -> Result<Self, String> {
        if let Some((wrong, right)) = MEANT.iter().find(|(wrong, _)| is_placed(text, wrong)) {
            return Err(format!("has no placeholder {wrong}; write {right}"));
        }
        let words = if shell {
            vec![text.to_owned()]
        } else {
            shlex::split(text)
                .ok_or_else(|| format!("has an open quote or a last backslash (found {text:?})"))?
        };
        if words.iter().all(|word| word.trim().is_empty()) {
            return Err("must name a program (found nothing)".to_owned());
        }
        Ok(Self { text: text.to_owned(), words, shell })
    }

    /// Whether it has this placeholder.
    pub(super) fn has(&self, placeholder: &str) -> bool {
        self.text.contains(placeholder)
    }

    /// The program that it starts, as written.
    pub(super) fn program(&self) -> &str {
        if self.shell { "sh" } else { &self.words[0] }
    }

    /// The words to be run, with `values` in place of their placeholders.
    pub(super) fn filled(&self, values: &Values) -> Vec<String> {
        let fill = |word: &String| {
            let put = |text: String, (name, value): (&&str, &String)| text.replace(*name, value);
            values.iter().fold(word.clone(), put)
        };
        let mut words: Vec<String> = self.words.iter().map(fill).collect();
        if self.shell {
            words.splice(0..0, ["sh".to_owned(), "-c".to_owned()]);
        }
        words
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a text has this placeholder, and not a shell's `${...}`.
fn is_placed(text: &str, placeholder: &str) -> bool {
    text.match_indices(placeholder).any(|(at, _)| !text[..at].ends_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> Values {
        Values::from([("{clients}", "8".to_owned()), ("{directory}", "/a b".to_owned())])
    }

    #[test]
    fn words_split_like_a_shells_and_stay_whole_when_filled() {
        let line = Line::parse("./b -t {clients} 'x y' --in={directory}/z", false).unwrap();
        assert_eq!(line.filled(&values()), ["./b", "-t", "8", "x y", "--in=/a b/z"]);
        assert_eq!(line.program(), "./b");
        let line = Line::parse("seq {clients} | wc -l", true).unwrap();
        assert_eq!(line.filled(&values()), ["sh", "-c", "seq 8 | wc -l"]);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert!(Line::parse("a 'b", false).unwrap_err().contains("open quote"));
        assert!(Line::parse("  ", false).unwrap_err().contains("must name a program"));
        assert!(Line::parse("", true).unwrap_err().contains("must name a program"));
        assert!(Line::parse("b {threads}", false).unwrap_err().contains("write {clients}"));
        assert!(Line::parse("echo ${threads}", true).is_ok());
        assert!(Line::parse("awk '{print $1}'", false).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}", shell: bool) {
            if let Ok(line) = Line::parse(&text, shell) {
                prop_assert!(!line.filled(&values()).is_empty());
                prop_assert!(!line.program().is_empty() || text.contains(['\'', '"']));
            }
        }
    }
}

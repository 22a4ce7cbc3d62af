//! Rules on words: no bare vague names, and no talk of how the project came about.

use super::Complaint;
use super::mask::is_word;
use super::tree::Tree;

/// Too vague alone; `StackSample`, `wait_time` and the like are fine.
const VAGUE: [&str; 6] = ["sample", "load", "time", "performance", "data", "control"];

/// Papers and packages use different letters for the same coefficient, so words are used.
const GREEK: [&str; 24] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi",
    "psi", "omega",
];

/// Written in halves, so that this file does not break its own rule.
const ELSEWHERE: [&str; 14] = [
    concat!("/wo", "rk/"),
    concat!("/tmp", "/kp"),
    concat!("shared ", "notes"),
    concat!("shared/", "notes"),
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("debian", ".org"),
    concat!("this ", "session"),
    concat!("earlier ", "session"),
    concat!("previous ", "session"),
    concat!("next ", "session"),
    concat!("other ", "session"),
    concat!("the steering ", "repo"),
];

/// Words of the project's own that the field has better ones for. Only those that can mean nothing
/// else here: a floor is also one of noise, and who is told to end is not reported.
const PRIVATE: [(&str, &str); 15] = [
    ("arm", "variant"),
    ("arms", "variants"),
    ("closes_to", "unaccounted"),
    ("crew", "processes or threads"),
    ("crowd", "processes or threads"),
    ("foreign", "of other processes"),
    ("hop", "stage"),
    ("hops", "stages"),
    ("inflated", "extra CPU"),
    ("kitchen", "template context"),
    ("polluted", "disturbed"),
    ("pollutes", "disturbs"),
    ("pollution", "disturbance, interference"),
    ("stranger", "other process"),
    ("strangers", "other processes"),
];

/// History, recorded runs, statistics ('inflated' variance), timers that are armed, the eBPF
/// programs' own enumeration, and this list.
const MAY_SAY_IT: [&str; 8] = [
    "CHANGELOG.md",
    "docs/decisions/",
    "fixtures/",
    "crates/stats/",
    "crates/model/src/sim/",
    "crates/probe/bpf/",
    "crates/probe/tests/proof/",
    "xtask/src/tidy/words.rs",
];

/// Files that Cargo writes.
const GENERATED: [&str; 1] = ["Cargo.lock"];

/// Public types and fields carry no vague word and no Greek letter alone.
pub(super) fn no_bare_word_names_a_type_or_field(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs") {
        for (number, line) in file.code_lines() {
            if let Some(name) = public_type_or_field(line).filter(|name| is_banned(name)) {
                let what = format!("`{name}` says too little: name what it is, in words");
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

fn is_banned(name: &str) -> bool {
    let lower = name.to_lowercase();
    VAGUE.contains(&lower.as_str())
        || GREEK.contains(&lower.as_str())
        || name.chars().any(|c| ('\u{370}'..='\u{3ff}').contains(&c))
}

/// The name in `pub struct Name`, `pub enum Name`, `pub trait Name`, `pub type Name` and
/// `pub name: Type`.
fn public_type_or_field(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?.trim_start();
    for keyword in ["struct ", "enum ", "trait ", "type "] {
        if let Some(tail) = rest.strip_prefix(keyword) {
            return Some(leading_word(tail.trim_start()));
        }
    }
    let name = leading_word(rest);
    let tail = rest[name.len()..].trim_start();
    (!name.is_empty() && tail.starts_with(':') && !tail.starts_with("::")).then_some(name)
}

fn leading_word(text: &str) -> &str {
    let end = text.bytes().position(|byte| !is_word(byte)).unwrap_or(text.len());
    &text[..end]
}

/// A reader meets the project only: no path, host, plan or person of its making.
pub(super) fn the_project_speaks_of_itself_alone(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.files().filter(|file| !GENERATED.contains(&file.path.as_str())) {
        for (number, line) in file.lines() {
            if let Some(found) = talk_of_elsewhere(line) {
                let what = format!("speaks of `{found}`: say what the project itself knows");
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

/// Plain words of the field instead of private ones; stored names may stand in quotes.
pub(super) fn the_words_are_those_of_the_field(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let exempt = |path: &str| MAY_SAY_IT.iter().any(|it| path.starts_with(it));
    for file in tree.files().filter(|file| !exempt(&file.path)) {
        for (number, line) in file.lines() {
            if let Some((word, plain)) = PRIVATE.iter().find(|(word, _)| says(line, word)) {
                let what = format!("`{word}` is a private word: say {plain}");
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

/// Whether `line` has `word` by itself or as a part of a name, but not as a quoted one or a file's.
fn says(line: &str, word: &str) -> bool {
    let bytes = line.as_bytes();
    let part = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let end = at + word.len();
        let quoted = at > 0 && b"\"`-".contains(&bytes[at - 1]);
        let stored = line.contains("rename = \"") || line[end..].starts_with(".jsonl");
        (at == 0 || !part(at - 1)) && !part(end) && !quoted && !stored
    })
}

fn talk_of_elsewhere(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    if let Some(found) = ELSEWHERE.iter().find(|phrase| lower.contains(*phrase)) {
        return Some((*found).to_owned());
    }
    lower.match_indices("issue ").find_map(|(at, word)| {
        let number = lower[at + word.len()..].trim_start_matches('#');
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        let whole = at == 0 || !is_word(lower.as_bytes()[at - 1]);
        (whole && !digits.is_empty()).then(|| format!("{word}{digits}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Tree) -> Vec<Complaint>, path: &str, text: &str) -> Vec<usize> {
        rule(&Tree::of(&[(path, text)])).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn vague_and_greek_names_are_named() {
        let text = "pub struct Sample;\npub time: u64,\npub wait_time: u64,\npub λ: f64,\n\
                    pub sigma: f64,\npub fn load() {}\npub struct StackSample;\npub use data::X;\n";
        assert_eq!(lines(no_bare_word_names_a_type_or_field, "a.rs", text), [1, 2, 4, 5]);
    }

    #[test]
    fn private_words_are_named_and_stored_ones_are_not() {
        let text = "an arm\nlet by_arm = 1;\nwarm alarms\n#[serde(rename = \"arm\")]\n\
                    in `arms.jsonl`, of \"arm\"\nall arms\n";
        let rule = the_words_are_those_of_the_field;
        assert_eq!(lines(rule, "crates/lab/src/run.rs", text), [1, 2, 6]);
        assert!(lines(rule, "docs/decisions/0001-x.md", text).is_empty());
    }

    #[test]
    fn talk_of_elsewhere_is_named() {
        let rule = the_project_speaks_of_itself_alone;
        let text =
            format!("ok\nsee {}x\nas {} 12 says\nan issue with 3 parts\n", ELSEWHERE[0], "Issue");
        assert_eq!(lines(rule, "a.md", &text), [2, 3]);
        assert!(lines(rule, "Cargo.lock", &text).is_empty());
    }
}

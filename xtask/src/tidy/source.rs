//! Rules on Rust files: module docs, size, `unsafe`, purity, printing.

use super::Complaint;
use super::mask::is_word;
use super::tree::{File, Tree};

const MOST_LINES: usize = 600;
const MOST_COLUMNS: usize = 100;

/// Where `unsafe` may stand: the probe, the allocator, a thread's scheduling, and SQLite's C calls.
const UNSAFE_ALLOWED: [&str; 4] = [
    "crates/probe/",
    "crates/machine/src/memory.rs",
    "crates/machine/src/realtime.rs",
    "crates/rig/src/workload/sqlite/ffi.rs",
];

/// Crates that are pure functions of their arguments.
const PURE: [&str; 5] = ["analysis", "report", "stats", "model", "vocab"];

/// What a pure crate must not name, and what it would do with it.
const IMPURE: [(&str, &str); 5] = [
    ("Instant", "reads a clock"),
    ("SystemTime", "reads a clock"),
    ("fs", "touches files"),
    ("env", "reads the environment"),
    ("process", "touches processes"),
];

/// Where printing lints may be switched off.
const PRINTS: [&str; 2] = ["crates/kneepoint/", "xtask/"];

/// Each file opens with a `//!` comment.
pub(super) fn every_file_says_what_it_is_for(tree: &Tree) -> Vec<Complaint> {
    tree.with_extension("rs")
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| Complaint::new(&file.path, 1, "no `//!` on top: say what the file is for"))
        .collect()
}

/// A file is one room.
pub(super) fn no_file_is_long(tree: &Tree) -> Vec<Complaint> {
    tree.with_extension("rs")
        .filter(|file| file.lines().count() > MOST_LINES)
        .map(|file| {
            let lines = file.lines().count();
            let what = format!("{lines} lines, at most {MOST_LINES}: split it by subject");
            Complaint::new(&file.path, lines, what)
        })
        .collect()
}

/// Lines fit beside another window.
pub(super) fn no_line_is_wide(tree: &Tree) -> Vec<Complaint> {
    each_line(tree, File::lines, |line| {
        let columns = line.chars().count();
        (columns > MOST_COLUMNS)
            .then(|| format!("{columns} columns, at most {MOST_COLUMNS}: break the line"))
    })
}

/// `unsafe` is a token of few files.
pub(super) fn unsafe_stays_where_it_is_allowed(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = each_line(tree, File::code_lines, |line| {
        has_word(line, "unsafe").then(|| {
            "`unsafe` outside its few files: move it into one of them or do without".into()
        })
    });
    complaints.retain(|it| !UNSAFE_ALLOWED.iter().any(|allowed| it.path.starts_with(allowed)));
    complaints
}

/// Same run directory, same bytes: no clock, file, environment or process in pure crates.
pub(super) fn pure_crates_touch_no_machine(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = each_line(tree, File::code_lines, |line| {
        let (name, does) = IMPURE.iter().find(|(name, _)| names_std_item(line, name))?;
        Some(format!("std's `{name}` {does}: a pure crate gets such values as arguments"))
    });
    complaints
        .retain(|it| PURE.iter().any(|name| it.path.starts_with(&format!("crates/{name}/src/"))));
    complaints
}

/// Only the binary and the developer commands print.
pub(super) fn printing_stays_where_it_is_allowed(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = each_line(tree, File::code_lines, |line| {
        let off = line.contains("allow(") || line.contains("expect(");
        (off && (has_word(line, "print_stdout") || has_word(line, "print_stderr")))
            .then(|| "switches a printing lint off: return text, let the binary print it".into())
    });
    // A test that skips says so.
    complaints.retain(|it| {
        !it.path.contains("/tests/") && !PRINTS.iter().any(|allowed| it.path.starts_with(allowed))
    });
    complaints
}

fn each_line<'a, I>(
    tree: &'a Tree,
    lines: fn(&'a File) -> I,
    rule: impl Fn(&str) -> Option<String>,
) -> Vec<Complaint>
where
    I: Iterator<Item = (usize, &'a str)>,
{
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs") {
        for (number, line) in lines(file) {
            if let Some(what) = rule(line) {
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

/// Whether `word` stands in `line` as a whole identifier.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    positions(line, word).next().is_some()
}

/// Where `word` stands in `line` as a whole identifier.
fn positions<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = line.as_bytes();
    line.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let end = at + word.len();
        (at == 0 || !is_word(bytes[at - 1])) && (end == bytes.len() || !is_word(bytes[end]))
    })
}

/// Whether the line names `std::…::name`, `use std::{name, …}` or, for types, `name` at all.
fn names_std_item(line: &str, name: &str) -> bool {
    if name.starts_with(char::is_uppercase) {
        return has_word(line, name);
    }
    positions(line, name).any(|at| {
        let before = line[..at].trim_end();
        before.ends_with("std::")
            || (before.contains("std::{") && !line[at + name.len()..].starts_with("::<"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(rule: fn(&Tree) -> Vec<Complaint>, path: &str, text: &str) -> Vec<usize> {
        rule(&Tree::of(&[(path, text)])).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn a_file_without_a_doc_is_named() {
        let rule = every_file_says_what_it_is_for;
        assert_eq!(complaints(rule, "a/b.rs", "use x;\n"), [1]);
        assert!(complaints(rule, "a/b.rs", "//! What.\nuse x;\n").is_empty());
    }

    #[test]
    fn a_long_file_is_named() {
        assert_eq!(complaints(no_file_is_long, "a.rs", &"x\n".repeat(601)), [601]);
        assert!(complaints(no_file_is_long, "a.rs", &"x\n".repeat(600)).is_empty());
    }

    #[test]
    fn a_wide_line_is_named() {
        let wide = format!("\n{}\n{}", "é".repeat(100), "x".repeat(101));
        assert_eq!(complaints(no_line_is_wide, "a.rs", &wide), [3]);
    }

    #[test]
    fn unsafe_is_found_as_a_token_only() {
        let text = "// unsafe\n#![deny(unsafe_code)]\nlet a = \"unsafe\";\nunsafe { b() }\n";
        let rule = unsafe_stays_where_it_is_allowed;
        assert_eq!(complaints(rule, "crates/rig/src/lib.rs", text), [4]);
        assert!(complaints(rule, "crates/probe/src/lib.rs", text).is_empty());
        assert!(complaints(rule, "crates/rig/src/workload/sqlite/ffi.rs", text).is_empty());
    }

    #[test]
    fn a_clock_in_a_pure_crate_is_named() {
        let text = "use std::time::Duration;\nuse std::time::Instant;\nstd::fs::read(p);\n\
                    use std::{env, fmt};\nlet env = 1;\n";
        let rule = pure_crates_touch_no_machine;
        assert_eq!(complaints(rule, "crates/stats/src/lib.rs", text), [2, 3, 4]);
        assert!(complaints(rule, "crates/lab/src/lib.rs", text).is_empty());
    }

    #[test]
    fn a_library_that_prints_is_named() {
        let text = "#[allow(clippy::print_stdout, reason = \"x\")]\n";
        let rule = printing_stays_where_it_is_allowed;
        assert_eq!(complaints(rule, "crates/lab/src/lib.rs", text), [1]);
        assert!(complaints(rule, "crates/kneepoint/src/main.rs", text).is_empty());
    }
}

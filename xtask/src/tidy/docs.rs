//! Rules on Markdown: one title, links that lead somewhere, files that exist.

use super::Complaint;
use super::tree::{File, Tree};

/// Endings by which a name in backticks is taken for a file.
const ENDINGS: [&str; 10] =
    [".rs", ".md", ".toml", ".c", ".o", ".sha256", ".json", ".jsonl", ".html", ".sh"];

/// What a run writes, wherever the user runs it.
const MADE_BY_A_RUN: [&str; 2] = ["kneepoint-runs/", "target/"];

/// Exactly one `# Title`.
pub(super) fn every_page_has_one_title(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("md") {
        let titles: Vec<usize> =
            prose(file).filter(|(_, line)| line.starts_with("# ")).map(|(n, _)| n).collect();
        match titles.as_slice() {
            [_] => {}
            [] => complaints.push(Complaint::new(&file.path, 1, "no `# Title`: add one")),
            [_, second, ..] => {
                complaints.push(Complaint::new(&file.path, *second, "second title: make it `##`"));
            }
        }
    }
    complaints
}

/// Relative links lead to files of the tree.
pub(super) fn links_lead_somewhere(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose(file) {
            for target in link_targets(line).filter(|target| !leads(tree, &file.path, target)) {
                let what = format!("link to `{target}` leads nowhere: mend the path");
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

/// A file named in backticks exists, from the root, from `crates/` or from the page's folder.
pub(super) fn named_files_exist(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose(file) {
            for name in in_backticks(line).filter(|name| is_file_name(name)) {
                let own = resolve(&file.path, name);
                let candidates = [Some(name.to_owned()), Some(format!("crates/{name}")), own];
                if !candidates.iter().flatten().any(|path| tree.has(path.trim_end_matches('/'))) {
                    let what = format!("no file `{name}`: mend the name or drop it");
                    complaints.push(Complaint::new(&file.path, number, what));
                }
            }
        }
    }
    complaints
}

/// A guard named as `path/file.rs::function` is a function of that file.
pub(super) fn named_functions_exist(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose(file) {
            for name in in_backticks(line) {
                let Some((path, function)) = name.split_once(".rs::") else { continue };
                let places = [format!("{path}.rs"), format!("crates/{path}.rs")];
                let head = format!("fn {function}(");
                let mut sources = places.iter().filter_map(|place| tree.file(place));
                if !sources.any(|source| source.code.contains(&head)) {
                    let what = format!("no function `{name}`: mend the name or drop the claim");
                    complaints.push(Complaint::new(&file.path, number, what));
                }
            }
        }
    }
    complaints
}

/// Lines outside fenced code.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split(')').next())
}

fn leads(tree: &Tree, page: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
        return true;
    }
    let path = target.split('#').next().unwrap_or_default();
    resolve(page, path).is_some_and(|path| tree.has(&path))
}

/// `name` seen from the folder of `page`, as a path from the root; none if it leaves the tree.
fn resolve(page: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A path of the repository: has a `/` and a known ending, and no placeholder.
fn is_file_name(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let placeholder = name.split(['/', '.', '-']).any(|part| {
        part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()) && !part.contains("README")
    });
    let made = MADE_BY_A_RUN.iter().any(|folder| name.starts_with(folder));
    let file = ENDINGS.iter().any(|ending| name.ends_with(ending)) || name.ends_with('/');
    plain && file && !placeholder && !made && name.contains('/') && !name.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Tree) -> Vec<Complaint>, text: &str) -> Vec<usize> {
        let record = "//! x\nfn it_holds() {}\n";
        let tree = Tree::of(&[("docs/a.md", text), ("crates/vocab/src/record.rs", record)]);
        rule(&tree).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn titles_are_counted_outside_code() {
        assert_eq!(lines(every_page_has_one_title, "text\n"), [1]);
        assert_eq!(lines(every_page_has_one_title, "# a\n# b\n"), [2]);
        assert!(lines(every_page_has_one_title, "# a\n```sh\n# comment\n```\n").is_empty());
    }

    #[test]
    fn a_dangling_link_is_named() {
        let text = "[a](a.md) [b](../crates/vocab/src/record.rs#L1) [c](https://x.y/z)\n\
                    [d](gone.md)\n[e](../../out.md)\n";
        assert_eq!(lines(links_lead_somewhere, text), [2, 3]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = "`crates/vocab/src/record.rs` `vocab/src/record.rs` `recipes/NAME.toml`\n\
                    `/proc/stat` `and/or` `kneepoint-runs/x/report.html` `crates/vocab/`\n\
                    `crates/vocab/src/gone.rs`\n";
        assert_eq!(lines(named_files_exist, text), [3]);
    }

    #[test]
    fn a_guard_that_is_not_there_is_named() {
        let text = "`crates/vocab/src/record.rs::it_holds` `vocab/src/record.rs::it_holds`\n\
                    `crates/vocab/src/record.rs::it_would_hold`\n`gone.rs::x`\n";
        assert_eq!(lines(named_functions_exist, text), [2, 3]);
    }
}

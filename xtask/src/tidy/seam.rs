//! The seam to the machine: no process is started and no `/proc` is read but in one crate.

use super::Complaint;
use super::source::has_word;
use super::tree::{File, Tree};

/// The crate that does.
const SEAM: &str = "crates/machine/";
/// What of `std::process` is no process: how this one ends.
const OWN_END: &str = "ExitCode";
/// How a text begins that is a path in `/proc`, and how one does that only tells people of it.
const PATHS: [&str; 2] = ["\"/proc/", "\"/proc\""];
const FOR_PEOPLE: [&str; 1] = ["\"/proc/PID"];

/// Crates name neither `std::process` nor a path of `/proc`, tests apart.
pub(super) fn processes_and_proc_stay_behind_the_seam(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let sources = tree.with_extension("rs").filter(|file| is_source(&file.path));
    for file in sources.filter(|file| !is_test(tree, &file.path)) {
        let own = file.code_lines().zip(file.lines()).take(before_tests(file));
        for ((number, code), (_, text)) in own {
            if let Some(what) = beyond(code, text) {
                let what = format!("{what}: ask kneepoint-machine for it");
                complaints.push(Complaint::new(&file.path, number, what));
            }
        }
    }
    complaints
}

fn is_source(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(SEAM)
}

/// What a line does beyond the seam.
fn beyond(code: &str, text: &str) -> Option<&'static str> {
    let named = code.contains("std::process") || code.contains("std::{process");
    if named && !code.contains(&format!("std::process::{OWN_END}")) {
        return Some("names `std::process`");
    }
    let is_comment = code.trim().is_empty() && !text.trim_start().starts_with('"');
    let is_path = PATHS.iter().any(|path| text.contains(path));
    let is_reported = FOR_PEOPLE.iter().any(|beginning| text.contains(beginning));
    (is_path && !is_reported && !is_comment).then_some("names a path of `/proc`")
}

/// Lines of a file that stand before its tests.
fn before_tests(file: &File) -> usize {
    let lines: Vec<&str> = file.code_lines().map(|(_, line)| line.trim()).collect();
    let tests = lines.windows(2).position(|pair| pair[0] == TEST && has_word(pair[1], "mod"));
    tests.filter(|at| lines[at + 1].ends_with('{')).unwrap_or(lines.len())
}

const TEST: &str = "#[cfg(test)]";

/// Whether a file is compiled for tests only: its parent says so where it declares it.
fn is_test(tree: &Tree, path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let declared = format!("mod {};", name.trim_end_matches(".rs"));
    let parents = [format!("{folder}.rs"), format!("{folder}/mod.rs"), format!("{folder}/lib.rs")];
    parents.iter().filter_map(|parent| tree.file(parent)).any(|parent| {
        let lines: Vec<&str> = parent.code_lines().map(|(_, line)| line.trim()).collect();
        lines.windows(2).any(|pair| pair[0] == TEST && pair[1] == declared)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let parent = "#[cfg(test)]\nmod live;\nmod other;\n";
        let tree = Tree::of(&[("crates/rig/src/lib.rs", parent), (path, text)]);
        processes_and_proc_stay_behind_the_seam(&tree).into_iter().map(|it| it.line).collect()
    }

    const BEYOND: &str = "use std::process::Command;\nuse std::process::ExitCode;\n\
        fn a() { std::process::id(); }\n// reads \"/proc/stat\"\nlet a = \"/proc/stat\";\n\
        let b = \"see /proc/stat\";\nlet c = \"/proc/PID/maps\";\nlist(\"/proc\")\n";

    #[test]
    fn processes_and_paths_of_proc_are_named() {
        assert_eq!(lines("crates/rig/src/other.rs", BEYOND), [1, 3, 5, 8]);
        assert_eq!(lines("crates/lab/src/a/b.rs", "use std::{process, fs};\n"), [1]);
    }

    #[test]
    fn the_seam_and_tests_may() {
        for path in ["crates/machine/src/lib.rs", "crates/rig/tests/a.rs", "xtask/src/ci.rs"] {
            assert!(lines(path, BEYOND).is_empty(), "{path}");
        }
        assert!(lines("crates/rig/src/live.rs", BEYOND).is_empty());
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{BEYOND}}}\n");
        assert!(lines("crates/rig/src/other.rs", &tested).is_empty());
        let with_field = format!("#[cfg(test)]\nfn only() {{}}\n{BEYOND}");
        assert_eq!(lines("crates/rig/src/other.rs", &with_field), [3, 5, 7, 10]);
    }
}

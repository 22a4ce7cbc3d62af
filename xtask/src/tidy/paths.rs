//! The paths that a Rust file names: in `use` declarations, and `crate::…`, `super::…` in code.

use super::mask::is_word;

/// A path as it is written, the name it goes by here, and its line, numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// `["crate", "a", "B"]`; `*` ends a path that takes everything.
    pub(super) segments: Vec<String>,
    /// The name that a `use` brings in; none for a path in code.
    pub(super) alias: Option<String>,
    pub(super) line: usize,
}

/// All paths that masked `code` names outside its tests.
pub(super) fn paths(code: &str) -> Vec<Named> {
    let mut code = without_tests(code).into_bytes();
    let mut found = Vec::new();
    for (start, end) in use_declarations(&code) {
        let text = String::from_utf8_lossy(&code[start + "use".len()..end]).into_owned();
        let line = line_of(&code, start);
        take_apart(&text, &[], &mut |segments, alias| {
            found.push(Named { segments, alias: Some(alias), line });
        });
        blank(&mut code[start..end]);
    }
    for head in ["crate", "super"] {
        for (at, segments) in written_out(&code, head) {
            found.push(Named { segments, alias: None, line: line_of(&code, at) });
        }
    }
    found
}

/// Modules that `code` declares for tests only.
pub(super) fn test_modules(code: &str) -> Vec<String> {
    let bytes = code.as_bytes();
    test_items(bytes)
        .filter_map(|(_, item, _)| {
            let rest = code.get(item..)?.strip_prefix("mod ")?;
            Some(rest.bytes().take_while(|byte| is_word(*byte)).map(char::from).collect())
        })
        .collect()
}

/// The code with everything under `#[cfg(test)]` blanked.
fn without_tests(code: &str) -> String {
    let items: Vec<(usize, usize, usize)> = test_items(code.as_bytes()).collect();
    let mut bytes = code.as_bytes().to_vec();
    for (start, _, end) in items {
        blank(&mut bytes[start..end]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Attribute, begin and end of each item under `#[cfg(test)]`.
fn test_items(code: &[u8]) -> impl Iterator<Item = (usize, usize, usize)> {
    const ATTRIBUTE: &[u8] = b"#[cfg(test)]";
    let starts = (0..code.len()).filter(|at| code[*at..].starts_with(ATTRIBUTE));
    starts.map(|start| {
        let mut item = skip_space(code, start + ATTRIBUTE.len());
        while code[item..].starts_with(b"#[") {
            item = skip_space(code, closing(code, item + 1) + 1);
        }
        let import = code[item..].starts_with(b"use ") || code[item..].starts_with(b"pub");
        let end = (item..code.len()).find(|at| match code[*at] {
            b';' => true,
            b'{' => !import,
            _ => false,
        });
        let end = match end {
            Some(brace) if code[brace] == b'{' => closing(code, brace) + 1,
            Some(semicolon) => semicolon + 1,
            None => code.len(),
        };
        (start, item, end.min(code.len()))
    })
}

fn skip_space(code: &[u8], at: usize) -> usize {
    (at..code.len()).find(|at| !code[*at].is_ascii_whitespace()).unwrap_or(code.len())
}

/// Where the bracket that opens at `open` closes.
fn closing(code: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    code.len().saturating_sub(1)
}

/// From `use` to its semicolon.
fn use_declarations(code: &[u8]) -> Vec<(usize, usize)> {
    let begins = |at: usize| {
        code[at..].starts_with(b"use ")
            && (at == 0 || !is_word(code[at - 1]) && code[at - 1] != b'+')
    };
    (0..code.len())
        .filter(|at| begins(*at))
        .filter_map(|at| {
            let end = code[at..].iter().position(|byte| *byte == b';')?;
            Some((at, at + end))
        })
        .collect()
}

/// Hands every path of a `use` tree to `take`, with the name it goes by.
fn take_apart(tree: &str, above: &[String], take: &mut dyn FnMut(Vec<String>, String)) {
    let tree = tree.trim().trim_start_matches("::");
    if tree.is_empty() {
        return;
    }
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, Some(group.trim_end().trim_end_matches('}'))),
        None => (tree, None),
    };
    let (head, alias) = match head.split_once(" as ") {
        Some((head, alias)) => (head, Some(alias.trim())),
        None => (head, None),
    };
    let mut segments = above.to_vec();
    segments
        .extend(head.split("::").map(str::trim).filter(|one| !one.is_empty()).map(String::from));
    let Some(group) = group else {
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        let own = segments.last().cloned().unwrap_or_default();
        take(segments, alias.map_or(own, String::from));
        return;
    };
    for branch in branches(group) {
        take_apart(branch, &segments, take);
    }
}

/// Parts between the commas that stand in no further braces.
fn branches(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&group[start..]);
    found
}

/// Paths in code that begin with `head`, but for those that only say who may see an item.
fn written_out(code: &[u8], head: &str) -> Vec<(usize, Vec<String>)> {
    let starts = (0..code.len()).filter(|at| {
        let rest = &code[*at..];
        let whole = *at == 0 || !(is_word(code[*at - 1]) || code[*at - 1] == b':');
        whole && rest.starts_with(head.as_bytes()) && rest[head.len()..].starts_with(b"::")
    });
    starts
        .filter(|at| !code[..*at].ends_with(b"(in "))
        .map(|at| {
            let end = (at..code.len()).find(|at| !(is_word(code[*at]) || code[*at] == b':'));
            let text = String::from_utf8_lossy(&code[at..end.unwrap_or(code.len())]).into_owned();
            let segments = text.split("::").filter(|one| !one.is_empty()).map(String::from);
            (at, segments.collect())
        })
        .collect()
}

fn line_of(code: &[u8], at: usize) -> usize {
    1 + code[..at].iter().filter(|byte| **byte == b'\n').count()
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(code: &str) -> Vec<String> {
        let show = |one: &Named| match &one.alias {
            Some(alias) => format!("{}: {} as {alias}", one.line, one.segments.join("::")),
            None => format!("{}: {}", one.line, one.segments.join("::")),
        };
        paths(code).iter().map(show).collect()
    }

    #[test]
    fn a_tree_of_uses_is_taken_apart() {
        let code = "use crate::{a, b::{self, C as D}, e::*};\npub(crate) use super::f::G;\n";
        let expected = [
            "1: crate::a as a",
            "1: crate::b as b",
            "1: crate::b::C as D",
            "1: crate::e::* as *",
            "2: super::f::G as G",
        ];
        assert_eq!(written(code), expected);
    }

    #[test]
    fn paths_in_code_count_and_who_may_see_does_not() {
        let code =
            "fn a() -> crate::b::C<'_> {\n super::super::d::e()\n}\npub(in crate::f) fn g() {}\n";
        assert_eq!(written(code), ["1: crate::b::C", "2: super::super::d::e"]);
    }

    #[test]
    fn what_is_for_tests_does_not() {
        let code = "#[cfg(test)]\nmod tests {\n use crate::a;\n fn b() {}\n}\n#[cfg(test)]\n\
                    use crate::{c, d};\nuse crate::e;\n#[cfg(test)]\nmod more;\n";
        assert_eq!(written(code), ["8: crate::e as e"]);
        assert_eq!(test_modules(code), ["tests", "more"]);
    }
}

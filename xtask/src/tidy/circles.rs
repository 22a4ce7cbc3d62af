//! No circle of modules: of two beside each other at most one knows the other, at any depth.
//!
//! A use counts for the two modules that stand beside each other on the ways to both ends: what
//! `a::x` takes of `b::y` makes `a` know `b`. A module and those inside it are one subject, so
//! a child may use what its parent defines itself. What the parent only passes on (`use x::Y`)
//! counts as a use of where it comes from; otherwise every circle would hide behind a `mod.rs`.
//! Tests inside modules may look anywhere.

use super::Complaint;
use super::paths::{Named, paths, test_modules};
use super::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A module by its path below the crate's root.
type Module = Vec<String>;

/// Of each module the ones beside it that it uses, with a place where it does.
type Uses = BTreeMap<Module, BTreeMap<Module, Place>>;

/// File and line.
type Place = (String, usize);

/// Passed-on names are followed so far; a longer chain is a circle of its own.
const FARTHEST: usize = 8;

/// Names every circle of modules, crate by crate.
pub(super) fn no_modules_use_each_other(tree: &Tree) -> Vec<Complaint> {
    let sources: BTreeSet<&str> =
        tree.with_extension("rs").filter_map(|file| split(&file.path)).map(|(at, _)| at).collect();
    sources.into_iter().flat_map(|source| circles(&Crate::of(tree, source).uses())).collect()
}

/// `crates/a/src/` and the rest.
fn split(path: &str) -> Option<(&str, &str)> {
    let (head, _) = path.split_once("/src/")?;
    Some(path.split_at(head.len() + "/src/".len()))
}

/// One crate's files and the paths that they name.
struct Crate<'a> {
    modules: BTreeMap<Module, Vec<(&'a File, Vec<Named>)>>,
}

impl<'a> Crate<'a> {
    fn of(tree: &'a Tree, source: &str) -> Self {
        let files = tree.with_extension("rs").filter(|file| file.path.starts_with(source));
        let mut modules: BTreeMap<Module, Vec<(&File, Vec<Named>)>> = BTreeMap::new();
        let mut for_tests = BTreeSet::new();
        for file in files {
            let module = module_of(&file.path[source.len()..]);
            for name in test_modules(&file.code) {
                let mut inside = module.clone();
                inside.push(name);
                for_tests.insert(inside);
            }
            modules.entry(module).or_default().push((file, paths(&file.code)));
        }
        modules.retain(|module, _| !for_tests.iter().any(|test| module.starts_with(test)));
        Self { modules }
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (from, files) in &self.modules {
            for (file, named) in files {
                for one in named {
                    let Some(to) = self.meant(from, &one.segments, FARTHEST) else { continue };
                    let Some((mine, other)) = beside(from, &to) else { continue };
                    let place = (file.path.clone(), one.line);
                    uses.entry(mine).or_default().entry(other).or_insert(place);
                }
            }
        }
        uses
    }

    /// The module that defines what `segments` mean inside `from`; none for another crate's.
    fn meant(&self, from: &[String], segments: &[String], farthest: usize) -> Option<Module> {
        let mut at: Module = from.to_vec();
        let mut rest = segments.iter();
        match rest.next()?.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()?),
            "self" => {}
            child => at.push(child.to_owned()),
        }
        if !self.modules.contains_key(&at) {
            return None;
        }
        for name in rest {
            if name == "super" {
                at.pop()?;
                continue;
            }
            at.push(name.clone());
            if !self.modules.contains_key(&at) {
                at.pop();
                return match self.passed(&at, name) {
                    Some(one) => self.meant(&at, &one.segments, farthest.checked_sub(1)?),
                    None => Some(at),
                };
            }
        }
        Some(at)
    }

    /// The use by which the module at `at` passes a name on that it does not define.
    fn passed(&self, at: &Module, name: &str) -> Option<&Named> {
        let mut uses = self.modules.get(at)?.iter().flat_map(|(_, named)| named);
        uses.find(|one| one.alias.as_deref() == Some(name))
    }
}

/// `a/b.rs` and `a/b/mod.rs` are module `a::b`, `lib.rs` and `main.rs` the root.
fn module_of(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(String::from).collect();
    let last = parts.last().map_or("", String::as_str);
    if last == "mod" || (parts.len() == 1 && (last == "lib" || last == "main")) {
        parts.pop();
    }
    parts
}

/// The modules beside each other on the ways to both; none where one is inside the other.
fn beside(from: &Module, to: &Module) -> Option<(Module, Module)> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    (from.len() > common && to.len() > common)
        .then(|| (from[..=common].to_vec(), to[..=common].to_vec()))
}

/// One complaint for each set of modules that reach each other.
fn circles(uses: &Uses) -> Vec<Complaint> {
    let mut reported: BTreeSet<&Module> = BTreeSet::new();
    let mut complaints = Vec::new();
    for module in uses.keys() {
        if reported.contains(module) {
            continue;
        }
        let Some(circle) = shortest_circle(uses, module) else { continue };
        let steps: Vec<String> = circle
            .iter()
            .map(|(from, to, (path, line))| {
                format!("{} uses {} ({path}:{line})", from.join("::"), to.join("::"))
            })
            .collect();
        let (path, line) = circle[0].2;
        let what = format!("circle of modules: {}: move what both need below", steps.join(", "));
        complaints.push(Complaint::new(path, *line, what));
        reported.extend(circle.iter().map(|(from, ..)| *from));
    }
    complaints
}

/// One module, the next, and where it uses it.
type Step<'a> = (&'a Module, &'a Module, &'a Place);

/// The shortest way from `start` back to itself.
fn shortest_circle<'a>(uses: &'a Uses, start: &'a Module) -> Option<Vec<Step<'a>>> {
    let mut came: BTreeMap<&Module, Step<'a>> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for (next, place) in uses.get(at).into_iter().flatten() {
            if next == start {
                let mut circle = vec![(at, next, place)];
                while circle[0].0 != start {
                    circle.insert(0, came[circle[0].0]);
                }
                return Some(circle);
            }
            if !came.contains_key(next) {
                came.insert(next, (at, next, place));
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(snippets: &[(&str, &str)]) -> Vec<String> {
        no_modules_use_each_other(&Tree::of(snippets)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_is_named_with_its_places() {
        let found = found(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("crates/x/src/a.rs", "use crate::b::B;\n"),
            ("crates/x/src/b.rs", "\nfn f() { crate::c::g() }\n"),
            ("crates/x/src/c.rs", "use super::a;\nuse super::b;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        let says = "crates/x/src/a.rs:1: circle of modules: a uses b (crates/x/src/a.rs:1), \
                    b uses c (crates/x/src/b.rs:2), c uses a (crates/x/src/c.rs:1): \
                    move what both need below";
        assert_eq!(found[0], says);
    }

    #[test]
    fn a_circle_of_rooms_is_one_whichever_files_make_it() {
        let found = found(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/x/src/a/mod.rs", "mod one;\nmod two;\n"),
            ("crates/x/src/a/one.rs", "use crate::b::three;\n"),
            ("crates/x/src/a/two.rs", ""),
            ("crates/x/src/b/mod.rs", "pub mod three;\npub mod four;\n"),
            ("crates/x/src/b/three.rs", ""),
            ("crates/x/src/b/four.rs", "use crate::a::two;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a uses b (crates/x/src/a/one.rs:1)"), "{found:?}");
    }

    #[test]
    fn a_name_that_is_passed_on_counts_where_it_comes_from() {
        let own = found(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("crates/x/src/a.rs", "use crate::b::B;\n"),
            ("crates/x/src/b.rs", "use crate::A;\n"),
        ]);
        assert_eq!(own.len(), 1, "{own:?}");
        assert!(own[0].contains("b uses a (crates/x/src/b.rs:1)"), "{own:?}");
        let another_crate_s = found(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("crates/x/src/a.rs", "use crate::b::B;\npub use kneepoint_y::A;\n"),
            ("crates/x/src/b.rs", "use crate::A;\n"),
        ]);
        assert_eq!(another_crate_s, Vec::<String>::new());
    }

    #[test]
    fn child_and_parent_layers_and_tests_are_no_circle() {
        let sources = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nuse a::inner::I;\npub struct Common;\n"),
            ("crates/x/src/a.rs", "mod inner;\nuse inner::I;\npub struct A;\n"),
            ("crates/x/src/a/inner.rs", "use super::A;\nuse crate::Common;\n"),
            ("crates/x/src/b.rs", "use crate::a::A;\nuse kneepoint_y::b::B;\n"),
            ("crates/y/src/lib.rs", "mod b;\n"),
            ("crates/y/src/b.rs", "#[cfg(test)]\nmod tests {\n use crate::b;\n}\n"),
        ];
        assert_eq!(found(&sources), Vec::<String>::new());
    }
}

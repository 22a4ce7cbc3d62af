//! 'How to add' of `ARCHITECTURE.md`, done as the text says, with the files counted that it takes.

#![allow(clippy::unwrap_used, reason = "in tests")]

mod common;

use common::Sandbox;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a build of one crate reads, and what it does not.
const COPIED: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "recipes", "xtask"];

/// A collector that sees nothing, by the contract that all have.
const COLLECTOR: &str = "\
//! A collector that sees nothing.

use super::{Collector, Kind, Observation, ProbeError};
use crate::Target;
use kneepoint_vocab::Tier;

/// Attaches anywhere.
pub(super) const KIND: Kind =
    Kind { tier: Tier::Fallback, attach: |_, _, _| Ok(Box::new(Blind { open: false })) };

struct Blind {
    open: bool,
}

impl Collector for Blind {
    fn open(&mut self, _: &Target) -> Result<(), ProbeError> {
        self.open = true;
        Ok(())
    }

    fn freeze(&mut self) -> Result<(), ProbeError> {
        if std::mem::take(&mut self.open) { Ok(()) } else { Err(ProbeError::Order(\"no window\")) }
    }

    fn collect(&mut self) -> Result<Observation, ProbeError> {
        Ok(Observation::default())
    }
}
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files that the row of `what` names, for something that is called `name`. `a.rs` in `b/`
/// is one file.
fn named(what: &str, name: &str) -> BTreeSet<String> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let row = map.lines().find(|line| line.starts_with(&format!("| {what} |"))).unwrap();
    let touched = row.split('|').nth(2).unwrap();
    let mut found = Vec::<String>::new();
    for word in touched.split('`').skip(1).step_by(2).map(|word| word.replace("NAME", name)) {
        match found.last_mut() {
            Some(last) if word.ends_with('/') => *last = word + last,
            _ => found.push(word),
        }
    }
    found.into_iter().collect()
}

/// All files below, by path.
fn files(root: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let path = root.join(below);
    if path.is_dir() {
        for entry in fs::read_dir(&path).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            files(root, &format!("{below}/{name}"), found);
        }
    } else {
        found.insert(below.to_owned(), fs::read(&path).unwrap());
    }
}

fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    COPIED.iter().for_each(|below| files(root, below, &mut found));
    found
}

/// Replaces what is there exactly once.
fn replace(path: &Path, what: &str, with: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.matches(what).count(), 1, "{what:?} in {}", path.display());
    fs::write(path, text.replace(what, with)).unwrap();
}

/// The copy is always at one place, so that what was compiled for it is compiled once.
#[test]
fn a_collector_is_a_file_and_its_name_in_the_list() {
    let (root, copy) = (root(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("how-to-add"));
    let _ = fs::remove_dir_all(&copy);
    let before = tree(&root);
    for (path, bytes) in &before {
        let to = copy.join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }

    let folder = copy.join("crates/probe/src/collector");
    fs::write(folder.join("blind.rs"), COLLECTOR).unwrap();
    let list = folder.join("mod.rs");
    replace(&list, "\nmod ebpf;\n", "\nmod blind;\nmod ebpf;\n");
    replace(&list, "[Kind; 2] = [", "[Kind; 3] = [blind::KIND, ");

    let after = tree(&copy);
    let touched: BTreeSet<String> = after
        .iter()
        .filter(|(path, bytes)| before.get(*path) != Some(*bytes))
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(touched, named("a collector", "blind"), "as ARCHITECTURE.md says");

    let built_into = Path::new(env!("CARGO_BIN_EXE_kneepoint")).ancestors().nth(2).unwrap();
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--offline", "-p", "kneepoint-probe", "--lib"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", built_into)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    assert!(!said.contains("warning: "), "it is used: {said}");
    fs::remove_dir_all(&copy).unwrap();
}

/// Also that the text of an experiment names no more than the recipe and its line in the list.
#[test]
fn an_experiment_is_a_file_and_a_variant_is_a_stanza_of_it() {
    let own = named("an experiment", "own");
    assert_eq!(own, ["recipes/README.md", "recipes/own.toml"].map(str::to_owned).into());
    let sandbox = Sandbox::new();
    let recipe = fs::read_to_string(root().join("recipes/sqlite-shared-cache.toml")).unwrap();
    let mut recipe = recipe.replace("name = \"sqlite-shared-cache\"", "name = \"own\"");
    recipe.push_str(
        "\n[[variant]]\nid = \"half\"\nlabel = \"half the rows\"\nset = { rows = 50_000 }\n",
    );
    fs::write(sandbox.path("own.toml"), recipe).unwrap();
    let ran = sandbox.run(&["run", "own.toml", "--dry-run"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.prints("half the rows"), "{ran:?}");
    assert_eq!(sandbox.listed(), ["own.toml"]);

    let typed = ["run", "--variant", "fewer rows: set.rows=1000", "--dry-run"];
    let ran = sandbox.run(&typed);
    assert!(ran.prints("fewer rows"), "{ran:?}");
}

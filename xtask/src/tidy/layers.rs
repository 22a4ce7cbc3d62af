//! The layers: a crate may use only crates of a smaller layer.

use super::Complaint;
use super::tree::{File, Tree};
use std::collections::BTreeMap;
use toml::{Table, Value};

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Each manifest states its layer, and every internal dependency stands on a smaller one.
pub(super) fn every_crate_stands_above_what_it_uses(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut members = BTreeMap::new();
    for file in tree.with_extension("toml").filter(|file| is_member(&file.path)) {
        match toml::from_str::<Table>(&file.text) {
            Ok(manifest) => match layer(&manifest) {
                Some((name, layer)) => drop(members.insert(name, (layer, file, manifest))),
                None => complaints.push(Complaint::new(&file.path, 1, NO_LAYER)),
            },
            Err(error) => complaints.push(Complaint::new(&file.path, 1, error.message())),
        }
    }
    for (name, (layer, file, manifest)) in &members {
        for used in SECTIONS.iter().filter_map(|section| manifest.get(*section)?.as_table()) {
            for dependency in used.keys().filter(|dependency| *dependency != name) {
                if let Some((other, ..)) = members.get(dependency)
                    && other >= layer
                {
                    complaints.push(too_high(file, dependency, *layer, *other));
                }
            }
        }
    }
    complaints
}

const NO_LAYER: &str = "no `layer` in `[package.metadata.kneepoint]`: give the crate its layer";

fn is_member(path: &str) -> bool {
    path == "xtask/Cargo.toml" || (path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
}

fn layer(manifest: &Table) -> Option<(String, i64)> {
    let package = manifest.get("package")?;
    let layer = package.get("metadata")?.get("kneepoint")?.get("layer").and_then(Value::as_integer);
    Some((package.get("name")?.as_str()?.to_owned(), layer?))
}

fn too_high(file: &File, dependency: &str, layer: i64, other: i64) -> Complaint {
    let line = file.lines().find(|(_, line)| line.starts_with(dependency)).map_or(1, |(n, _)| n);
    let what = format!(
        "layer {layer} uses {dependency} of layer {other}: move the code down or the use up"
    );
    Complaint::new(&file.path, line, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, layer: i64, uses: &str) -> String {
        format!(
            "[package]\nname = \"{name}\"\n[package.metadata.kneepoint]\nlayer = {layer}\n\
             [dependencies]\n{uses}.workspace = true\n"
        )
    }

    #[test]
    fn an_upward_use_is_named_a_downward_one_is_not() {
        let (low, high) = (manifest("low", 1, "high"), manifest("high", 2, "low"));
        let tree = Tree::of(&[("crates/low/Cargo.toml", &low), ("crates/high/Cargo.toml", &high)]);
        let found = every_crate_stands_above_what_it_uses(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/low/Cargo.toml", 6));
    }

    #[test]
    fn equal_layers_may_not_use_each_other() {
        let (a, b) = (manifest("a", 3, "b"), manifest("b", 3, "serde"));
        let tree = Tree::of(&[("crates/a/Cargo.toml", &a), ("crates/b/Cargo.toml", &b)]);
        assert_eq!(every_crate_stands_above_what_it_uses(&tree).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_named() {
        let tree = Tree::of(&[("xtask/Cargo.toml", "[package]\nname = \"x\"\n")]);
        assert_eq!(every_crate_stands_above_what_it_uses(&tree)[0].what, NO_LAYER);
    }
}

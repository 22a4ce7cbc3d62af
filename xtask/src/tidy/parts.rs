//! Rules on things kept in step by hand: lists of recipes and decisions, the eBPF object.

use super::Complaint;
use super::tree::Tree;
use std::path::Path;

/// The committed eBPF object and its record come from the sources beside them.
pub(super) fn the_object_is_of_its_source(root: &Path) -> Vec<Complaint> {
    let folder = "crates/probe/bpf";
    let outcome = crate::bpf::recorded(&root.join(folder));
    let complaint = |error| Complaint::new(folder, 1, format!("{error:#}"));
    outcome.err().map(complaint).into_iter().collect()
}

/// `recipes/README.md` names every recipe.
pub(super) fn every_recipe_is_described(tree: &Tree) -> Vec<Complaint> {
    unlisted(tree, "recipes/", ".toml", "recipes/README.md")
}

/// `docs/decisions/README.md` links every decision record.
pub(super) fn every_decision_is_listed(tree: &Tree) -> Vec<Complaint> {
    unlisted(tree, "docs/decisions/", ".md", "docs/decisions/README.md")
}

fn unlisted(tree: &Tree, folder: &str, ending: &str, list: &str) -> Vec<Complaint> {
    let text = tree.file(list).map_or("", |file| file.text.as_str());
    tree.files()
        .filter(|file| file.path != list)
        .filter_map(|file| {
            let name = file.path.strip_prefix(folder)?.strip_suffix(ending)?;
            (!name.contains('/') && !text.contains(name))
                .then(|| Complaint::new(&file.path, 1, format!("not in `{list}`: add a line")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_recipe_is_named() {
        let tree = Tree::of(&[
            ("recipes/README.md", "# Recipes\n`known`\n"),
            ("recipes/known.toml", ""),
            ("recipes/stray.toml", ""),
        ]);
        let found = every_recipe_is_described(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "recipes/stray.toml");
    }

    #[test]
    fn an_object_without_its_record_is_named() {
        let elsewhere = std::env::temp_dir().join("kneepoint-no-such-tree");
        assert_eq!(the_object_is_of_its_source(&elsewhere).len(), 1);
    }

    #[test]
    fn an_unlisted_decision_is_named() {
        let tree = Tree::of(&[("docs/decisions/0001-x.md", "# 1")]);
        assert_eq!(every_decision_is_listed(&tree).len(), 1);
    }
}

//! Rules of the repository that the compiler does not know, each one function.
//!
//! `cargo xtask tidy` runs them all; so does a unit test, hence `cargo test`.

mod circles;
mod docs;
mod layers;
mod licences;
mod mask;
mod parts;
mod paths;
mod source;
mod tree;
mod words;

use anyhow::Result;
use std::fmt;
use std::path::Path;
use tree::Tree;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    what: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A rule sees the whole tree and names every place that breaks it.
type Rule = fn(&Tree) -> Vec<Complaint>;

const RULES: &[Rule] = &[
    layers::every_crate_stands_above_what_it_uses,
    circles::no_modules_use_each_other,
    source::every_file_says_what_it_is_for,
    source::no_file_is_long,
    source::no_line_is_wide,
    source::unsafe_stays_where_it_is_allowed,
    source::pure_crates_touch_no_machine,
    source::printing_stays_where_it_is_allowed,
    words::no_bare_word_names_a_type_or_field,
    words::the_project_speaks_of_itself_alone,
    words::the_words_are_those_of_the_field,
    docs::every_page_has_one_title,
    docs::links_lead_somewhere,
    docs::named_files_exist,
    docs::named_functions_exist,
    parts::every_recipe_is_described,
    parts::every_decision_is_listed,
];

/// Runs every rule on the repository at `root`.
///
/// # Errors
/// Where a file cannot be read or Cargo cannot list the dependencies.
pub(crate) fn check(root: &Path) -> Result<Vec<Complaint>> {
    let tree = Tree::read(root)?;
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    complaints.extend(parts::the_object_is_of_its_source(root));
    complaints.extend(licences::only_permissive_licences(root)?);
    complaints.sort();
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let complaints = super::check(&crate::root()).expect("the tree can be read");
        let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}

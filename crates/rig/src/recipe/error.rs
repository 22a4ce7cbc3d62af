//! What can be wrong with a recipe, each as one line that says where.

use std::ops::Range;
use std::path::PathBuf;

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No built-in recipe has this name.
    #[error(
        "no recipe is named {name:?}; choose one of: {known}, or give the path of a .toml file"
    )]
    Unknown {
        /// The name asked for.
        name: String,
        /// The built-in names, comma-separated.
        known: String,
    },
    /// It says nothing of a published protocol.
    #[error("{name} has no published protocol; those that have one: {}", some(having))]
    NotPublished {
        /// The recipe.
        name: String,
        /// The built-in names that have one, comma-separated.
        having: String,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file says something that makes no sense.
    #[error("{origin}:{line}:{column}: {problem}")]
    Invalid {
        /// The file as it was named.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, what is possible, and what was found.
        problem: String,
    },
}

/// A list, or the word for an empty one.
fn some(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

/// A problem at a byte range of a text; [`Self::within`] turns it into lines and columns.
#[derive(Debug)]
pub(super) struct Misfit {
    span: Range<usize>,
    problem: String,
}

impl Misfit {
    /// A problem with the text at `span`.
    pub(super) fn at(span: Range<usize>, problem: impl Into<String>) -> Self {
        Self { span, problem: problem.into() }
    }

    /// The same problem as people count: line and column of the span's begin.
    pub(super) fn within(self, origin: &str, text: &str) -> RecipeError {
        let mut begin = self.span.start.min(text.len());
        while !text.is_char_boundary(begin) {
            begin -= 1;
        }
        let before = &text[..begin];
        let line_begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        RecipeError::Invalid {
            origin: origin.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_begin..].chars().count() + 1,
            problem: self.problem,
        }
    }
}

impl From<toml::de::Error> for Misfit {
    fn from(error: toml::de::Error) -> Self {
        let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::at(error.span().unwrap_or(0..0), problem)
    }
}

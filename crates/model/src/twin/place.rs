//! Mistakes in a twin file, with the line and column they are at.

use std::ops::Range;

/// A mistake in a twin file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct TwinError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl TwinError {
    /// The mistake at a place in the text, in bytes.
    pub(super) fn at(text: &str, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        let mut start = span.map_or(0, |span| span.start).min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

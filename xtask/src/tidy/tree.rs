//! The repository as the rules see it: paths, text, and Rust code without its comments.

use super::mask::mask;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// What holds nothing of the project's own; a linked worktree has a file `.git`.
const SKIPPED: [&str; 3] = [".git", "target", "kneepoint-runs"];

/// One text file.
#[derive(Debug)]
pub(super) struct File {
    /// Path from the root, with `/`.
    pub(super) path: String,
    /// The file's text.
    pub(super) text: String,
    /// For Rust, the text with comments and literals blanked; else empty. Same line numbers.
    pub(super) code: String,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        let code = if is_rust(path) { mask(text) } else { String::new() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Lines of the text, numbered from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text)
    }

    /// Lines of the code, numbered from 1.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code)
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn is_rust(path: &str) -> bool {
    has_extension(path, "rs")
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// All files, in path order.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: Vec<File>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`; files that are not UTF-8 are known by name only.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.enter(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn enter(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.enter(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.know(&path);
                if let Ok(text) = std::fs::read_to_string(entry.path()) {
                    self.files.push(File::new(&path, &text));
                }
            }
        }
        Ok(())
    }

    /// Remembers a file and the folders around it; an empty folder is none to git either.
    fn know(&mut self, path: &str) {
        let mut known = path;
        self.paths.insert(known.to_owned());
        while let Some((folder, _)) = known.rsplit_once('/') {
            self.paths.insert(folder.to_owned());
            known = folder;
        }
    }

    /// A tree made of snippets, for the rules' own tests.
    #[cfg(test)]
    pub(super) fn of(snippets: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in snippets {
            tree.files.push(File::new(path, text));
            tree.know(path);
        }
        tree
    }

    /// Every text file.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Text files whose name ends in `.extension`.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| has_extension(&file.path, extension))
    }

    /// The text file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or folder of that path exists; the empty path is the root.
    pub(super) fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }
}

//! Everything that descends from one start of a program, however it has gone off: a daemon has
//! left its session and its parent, but neither its control group nor, as a rule, its environment.
//!
//! Each start gets a mark in its environment and, where control groups of version 2 can be written,
//! a group of its own below Kneepoint's. Both have their names from the scratch directory and a
//! number, so they can be noted before anything exists that bears them. The group has no
//! controllers switched on: it changes nothing about how its processes run.

use crate::ending::{all_members, end_directory, own_directory};
use crate::undo::{Action, Change, Undo};
use std::fs;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

/// A group for one start of a program. Dropping it kills what is in it.
#[derive(Debug)]
pub(crate) struct Group {
    mark: String,
    directory: Option<PathBuf>,
    change: Option<Change>,
}

impl Group {
    /// Notes a group, then makes it.
    ///
    /// # Errors
    /// It cannot be noted.
    pub(crate) fn begin(undo: &Undo) -> anyhow::Result<Self> {
        let mark = undo.next_mark();
        let directory = own_directory().map(|own| own.join(&mark));
        let action = Action::EndGroup { mark: mark.clone(), directory: directory.clone() };
        let change = undo.register(action)?;
        let directory = directory.filter(|path| fs::create_dir(path).is_ok());
        Ok(Self { mark, directory, change: Some(change) })
    }

    /// What its processes have in their environment as [`crate::ending::MARK`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Its control group, where it has one.
    #[cfg(test)]
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Puts a process in that has not begun to do anything. Where the kernel refuses, the mark
    /// has to do.
    pub(crate) fn admit(&mut self, process: u32) {
        let Some(directory) = &self.directory else { return };
        if fs::write(directory.join("cgroup.procs"), process.to_string()).is_err() {
            let _ = fs::remove_dir(directory);
            self.directory = None;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

impl Group {
    /// Who is in it.
    pub(crate) fn members(&self) -> Vec<u32> {
        self.directory.as_deref().map_or_else(Vec::new, all_members)
    }

    /// Has the kernel kill all that is in it, whatever that is just starting. False where there is
    /// no control group, or one that cannot do so: kernels before 5.14.
    pub(crate) fn kill(&self) -> bool {
        let file = self.directory.as_ref().map(|directory| directory.join("cgroup.kill"));
        file.is_some_and(|file| fs::write(file, "1").is_ok())
    }

    /// Kills what is in it, and removes it.
    pub(crate) fn end(&mut self) {
        let Some(change) = self.change.take() else { return };
        match &self.directory {
            // The kernel knows who is in it. Who has left it nevertheless is looked for once, at
            // the end of the run: that means reading something of every process there is.
            Some(directory) if end_directory(directory).is_ok() => change.settle(),
            _ => drop(change),
        }
    }
}

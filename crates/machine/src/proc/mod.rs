//! The one reader of `/proc`: each kind of file one room with a pure parser and a thin reader.
//!
//! Names are relative to `/proc`, e.g. `self/mountinfo`. Text that is no UTF-8 is read as far as
//! it can be shown.

pub mod io;
pub mod process;
pub mod schedstat;
pub mod sockets;
pub mod stat;
pub mod tasks;

use crate::here;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

const ROOT: &str = "/proc";

/// The path of a file, for messages and for those that are read as files of the machine.
#[must_use]
pub fn path(file: &str) -> PathBuf {
    Path::new(ROOT).join(file)
}

/// The bytes of a file.
///
/// # Errors
/// It is not there or may not be read.
pub fn bytes(file: &str) -> std::io::Result<Vec<u8>> {
    here().read(&path(file))
}

/// The text of a file.
///
/// # Errors
/// It is not there or may not be read.
pub fn text(file: &str) -> std::io::Result<String> {
    bytes(file).map(|bytes| match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Opens a file, e.g. one that is too long to be read as a whole.
///
/// # Errors
/// It is not there or may not be read.
pub fn open(file: &str) -> std::io::Result<File> {
    here().open(&path(file))
}

/// Writes to a file, such as a setting of the kernel's.
///
/// # Errors
/// The kernel refuses.
pub fn write(file: &str, content: &str) -> std::io::Result<()> {
    here().write(&path(file), content)
}

/// What a link leads to.
#[must_use]
pub fn link(file: &str) -> Option<PathBuf> {
    here().link(&path(file)).ok()
}

/// The inode of a file, which says which namespace it stands for.
#[must_use]
pub fn inode(file: &str) -> Option<u64> {
    here().about(&path(file)).ok().map(|about| about.ino())
}

/// The entries of a folder that are numbers, ascending: processes, threads, descriptors.
///
/// # Errors
/// It cannot be listed.
pub fn numbers(folder: &str) -> std::io::Result<Vec<u32>> {
    let names = here().list(&path(folder))?;
    let mut found: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

/// A file that is read again and again, from its beginning each time.
#[derive(Debug)]
pub struct Watched {
    file: File,
    buffer: Vec<u8>,
}

impl Watched {
    /// Opens it.
    ///
    /// # Errors
    /// It is not there or may not be read.
    pub fn open(file: &str) -> std::io::Result<Self> {
        Ok(Self { file: open(file)?, buffer: vec![0; 256] })
    }

    /// What it holds now; none where what it tells of is gone.
    pub fn read(&mut self) -> Option<&str> {
        let mut length = self.file.read_at(&mut self.buffer, 0).ok()?;
        while length == self.buffer.len() {
            self.buffer.resize(2 * length, 0);
            length = self.file.read_at(&mut self.buffer, 0).ok()?;
        }
        std::str::from_utf8(&self.buffer[..length]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_file_is_read_as_a_whole_each_time() {
        let mut watched = Watched::open("stat").unwrap();
        for _ in 0..2 {
            let text = watched.read().unwrap();
            assert!(text.starts_with("cpu ") && text.contains("\nprocs_running "), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_reported() {
        assert!(text("no-such-file").is_err() && link("no-such-link").is_none());
        assert!(numbers("self/task").unwrap().contains(&crate::own_pid()));
        assert!(inode("self/ns/pid").is_some());
    }
}

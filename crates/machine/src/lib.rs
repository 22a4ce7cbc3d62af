//! The seam to the machine that is measured: everything that starts a process, reads `/proc`,
//! sends a signal or opens a window goes through an [`Executor`].
//!
//! There is one, [`ThisMachine`], and [`here`] is the only place that says so. Nothing above this
//! crate names `std::process` or `/proc`, so a second implementation changes this crate and the
//! callers of [`here`], and nothing else. `cargo xtask tidy` sees to it.
//!
//! * [`Start`], [`Running`]: how a process is started, and the hold on one that was.
//! * [`proc`]: the one reader of `/proc`, for the rig and the probe alike.
//! * [`windows`]: what opens windows on a machine, and what it sees in one.
//! * [`realtime`]: letting the calling thread run before all others; [`policy`]: what there is.
//! * [`memory`]: what happens where there is none to be had.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator is one by unsafe calls")]
pub mod memory;
pub mod policy;
pub mod proc;
#[allow(unsafe_code, reason = "one system call that no safe crate offers")]
pub mod realtime;
mod start;
pub mod windows;

pub use start::{Finished, Running, Start, Stream, reported};
pub use std::process::ExitStatus;

use kneepoint_vocab::MachineName;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// What can be done on a machine. Paths are its own.
pub trait Executor: fmt::Debug + Sync {
    /// Which machine it is, as facts and hosts carry it.
    fn machine(&self) -> MachineName;

    /// Starts a process.
    ///
    /// # Errors
    /// The kernel's, e.g. that there is no such program.
    fn start(&self, start: Start) -> io::Result<Running>;

    /// Runs a program to its end, and keeps what it wrote.
    ///
    /// # Errors
    /// It cannot be started.
    fn run(&self, start: Start) -> io::Result<Finished>;

    /// Becomes this program; returns only where that fails, with why.
    fn become_program(&self, start: Start) -> io::Error;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// It is not there or may not be read.
    fn open(&self, file: &Path) -> io::Result<File>;

    /// The bytes of a file.
    ///
    /// # Errors
    /// It is not there or may not be read.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// Writes to a file of the kernel's.
    ///
    /// # Errors
    /// The kernel refuses.
    fn write(&self, file: &Path, content: &str) -> io::Result<()>;

    /// What a symbolic link leads to.
    ///
    /// # Errors
    /// It is no link, or may not be read.
    fn link(&self, link: &Path) -> io::Result<PathBuf>;

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// It cannot be listed.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// What the kernel says of a file: owner, inode, links.
    ///
    /// # Errors
    /// It is not there.
    fn about(&self, file: &Path) -> io::Result<Metadata>;

    /// Sends a signal to a process.
    ///
    /// # Errors
    /// There is no such process, or it is somebody else's.
    fn signal(&self, process: u32, signal: Signal) -> io::Result<()>;
}

/// The machine that everything is done on.
#[must_use]
pub fn here() -> &'static dyn Executor {
    &ThisMachine
}

/// This process's id.
#[must_use]
pub fn own_pid() -> u32 {
    std::process::id()
}

/// The machine that Kneepoint runs on.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl Executor for ThisMachine {
    fn machine(&self) -> MachineName {
        MachineName::default()
    }

    fn start(&self, start: Start) -> io::Result<Running> {
        start.command().spawn().map(Running::of)
    }

    fn run(&self, start: Start) -> io::Result<Finished> {
        start.command().output().map(Finished::of)
    }

    fn become_program(&self, start: Start) -> io::Error {
        use std::os::unix::process::CommandExt as _;
        start.command().exec()
    }

    fn open(&self, file: &Path) -> io::Result<File> {
        File::open(file)
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }

    fn write(&self, file: &Path, content: &str) -> io::Result<()> {
        fs::write(file, content)
    }

    fn link(&self, link: &Path) -> io::Result<PathBuf> {
        fs::read_link(link)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.file_name()).collect())
    }

    fn about(&self, file: &Path) -> io::Result<Metadata> {
        fs::metadata(file)
    }

    fn signal(&self, process: u32, signal: Signal) -> io::Result<()> {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("a process id is positive"))?;
        Ok(kill_process(id, signal)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_starts_reads_and_signals() {
        assert_eq!(here().machine(), MachineName::default());
        let mut child = Start::new("sleep").arg("60").begin().unwrap();
        // The kernel lays the arguments out a moment after it has started the program.
        while proc::process::arguments(child.id()).is_empty() {
            std::thread::yield_now();
        }
        assert!(proc::process::arguments(child.id()).starts_with(b"sleep\0"));
        assert!(child.ended().unwrap().is_none());
        here().signal(child.id(), Signal::KILL).unwrap();
        assert_eq!(reported(child.wait().unwrap()), "killed by signal 9");
        assert!(here().signal(0, Signal::KILL).is_err());
        let missing = Start::new("/nonexistent/program").begin();
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

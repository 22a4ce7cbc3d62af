//! What a process is: its birth, session, name, program, arguments, variables, mappings and files.

use super::stat::{TaskStat, read_process};
use super::{bytes, link, numbers, path, text};
use crate::here;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// When it started, in clock ticks since boot; none where it lives no more. With its id, it tells
/// a process from a later one.
#[must_use]
pub fn birth(pid: u32) -> Option<u64> {
    read_process(pid).map(|stat| stat.birth)
}

/// The session that it belongs to; 0 where its leader is outside this PID namespace, as in a
/// container, or where it is a thread of the kernel.
#[must_use]
pub fn session(pid: u32) -> Option<u32> {
    read_process(pid).map(|stat| stat.session)
}

/// Whether it has ended but was not reaped.
#[must_use]
pub fn is_zombie(pid: u32) -> bool {
    read_process(pid).as_ref().is_some_and(TaskStat::has_ended)
}

/// Whether there is such a thread of a process.
#[must_use]
pub fn has_thread(pid: u32, tid: u32) -> bool {
    here().about(&path(&format!("{pid}/task/{tid}"))).is_ok()
}

/// Whether it has several threads. A folder's links are itself, its entry above, and one a folder
/// within: here one a thread.
#[must_use]
pub fn has_threads(pid: u32) -> bool {
    here().about(&path(&format!("{pid}/task"))).is_ok_and(|folder| folder.nlink() > 3)
}

/// The user whose it is; none where it is gone.
#[must_use]
pub fn owner(pid: u32) -> Option<u32> {
    here().about(&path(&pid.to_string())).ok().map(|about| about.uid())
}

/// Its name; empty where it is gone.
#[must_use]
pub fn name(pid: u32) -> String {
    text(&format!("{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The name of one of its threads.
#[must_use]
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    Some(text(&format!("{pid}/task/{tid}/comm")).ok()?.trim_end().to_owned())
}

/// The file that it runs.
#[must_use]
pub fn image(pid: u32) -> Option<PathBuf> {
    link(&format!("{pid}/exe"))
}

/// Its arguments, each ended by a zero byte; empty where it has none or is gone.
#[must_use]
pub fn arguments(pid: u32) -> Vec<u8> {
    bytes(&format!("{pid}/cmdline")).unwrap_or_default()
}

/// The variables that it was started with, each ended by a zero byte.
///
/// # Errors
/// It is gone, or somebody else's.
pub fn environment(pid: u32) -> std::io::Result<Vec<u8>> {
    bytes(&format!("{pid}/environ"))
}

/// Its mappings, a line each.
///
/// # Errors
/// It is gone, or somebody else's.
pub fn mappings(pid: u32) -> std::io::Result<String> {
    text(&format!("{pid}/maps"))
}

/// The memory of a process, to be read at its addresses.
///
/// # Errors
/// Where the process is gone or may not be read.
pub fn memory(pid: u32) -> std::io::Result<std::fs::File> {
    super::open(&format!("{pid}/mem"))
}

/// What a file descriptor leads to.
#[must_use]
pub fn descriptor(pid: u32, number: u64) -> Option<PathBuf> {
    link(&format!("{pid}/fd/{number}"))
}

/// What its file descriptors lead to.
#[must_use]
pub fn descriptors(pid: u32) -> Vec<PathBuf> {
    let open = numbers(&format!("{pid}/fd")).unwrap_or_default();
    open.into_iter().filter_map(|number| descriptor(pid, number.into())).collect()
}

/// The place in a file that one of its descriptors is at.
#[must_use]
pub fn position(pid: u32, number: u64) -> Option<u64> {
    let about = text(&format!("{pid}/fdinfo/{number}")).ok()?;
    about.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

/// A field of its `status` file, e.g. `Tgid`.
#[must_use]
pub fn status(pid: u32, field: &str) -> Option<String> {
    field_of(&text(&format!("{pid}/status")).ok()?, field)
}

/// The same of this process, whatever its id is in the PID namespace that `/proc` shows.
#[must_use]
pub fn own_status(field: &str) -> Option<String> {
    field_of(&text("self/status").ok()?, field)
}

pub(super) fn field_of(text: &str, field: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// A path under which a file that is open in a process can be opened by others of the same user.
#[must_use]
pub fn path_of_descriptor(pid: u32, number: i32) -> PathBuf {
    path(&format!("{pid}/fd/{number}"))
}

/// The root directory as a process sees it.
#[must_use]
pub fn root(pid: u32) -> PathBuf {
    path(&format!("{pid}/root"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_pid;

    #[test]
    fn its_own_files_are_read() {
        let own = own_pid();
        assert!(birth(own).is_some_and(|ticks| ticks > 0) && session(own).is_some());
        assert!(!is_zombie(own) && has_thread(own, own) && !has_thread(own, u32::MAX));
        assert_eq!(owner(own), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(image(own), std::env::current_exe().ok());
        assert!(!arguments(own).is_empty() && !name(own).is_empty());
        assert!(mappings(own).unwrap().contains("[stack]") && environment(own).is_ok());
        assert_eq!(status(own, "Tgid"), Some(own.to_string()));
        assert_eq!(own_status("Tgid"), Some(own.to_string()));
        assert!(!descriptors(own).is_empty());
    }

    #[test]
    fn nothing_is_known_of_nobody() {
        let nobody = u32::MAX >> 1;
        assert_eq!((birth(nobody), session(nobody), image(nobody)), (None, None, None));
        assert!(arguments(nobody).is_empty() && name(nobody).is_empty());
        assert!(!is_zombie(nobody) && environment(nobody).is_err());
    }
}

//! Scheduling priority of the system under test over everything else on the machine.
//!
//! With `kernel.sched_autogroup_enabled` the kernel shares CPU between *sessions* first, and nice
//! values count only within one of them. A nice value alone therefore protects a measurement from
//! nothing; a session of its own, whose group is raised, does. It ends with the process: there is
//! nothing to undo.

use kneepoint_machine::proc::process::session;
use kneepoint_machine::{own_pid, proc, realtime};
use rustix::io::Errno;
use std::io;

/// Nice value asked for. Not the lowest: threads of the kernel must get their turn while the load
/// wants every core.
const NICE: i32 = -10;

/// What of the priority could be raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Whether the process leads a session of its own.
    pub own_session: bool,
    /// The scheduling group and its nice value, or why it was not raised.
    pub group: Result<String, String>,
    /// Nice value of the process within its group.
    pub nice: i32,
}

/// Moves the calling process to a session and scheduling group of its own, and raises both the
/// group and the process as far as the kernel permits. Never fails: it reports what it got.
#[must_use]
pub fn raise() -> Priority {
    let own_session = match rustix::process::setsid() {
        Ok(_) => true,
        Err(_) => session(own_pid()) == Some(own_pid()),
    };
    let group = if own_session {
        raise_group().map_err(|error| reason(&error))
    } else {
        Err("the process could not begin a session of its own".to_owned())
    };
    let nice = match rustix::process::setpriority_process(None, NICE) {
        Ok(()) => NICE,
        Err(_) => rustix::process::getpriority_process(None).unwrap_or(0),
    };
    Priority { own_session, group, nice }
}

impl Priority {
    /// The same as `name, value` pairs for the record of a variant.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let group = match &self.group {
            Ok(group) => group.clone(),
            Err(reason) => format!("not raised: {reason}"),
        };
        vec![("scheduling group".to_owned(), group), ("nice".to_owned(), self.nice.to_string())]
    }
}

/// Raises another process, and the scheduling group of the session that it leads, as far as the
/// kernel permits. A server that begins sessions for its children needs it for each of them.
pub fn raise_other(process: u32) {
    // Without the right to do so it runs at the priority of everybody: the noise floor tells.
    let _ = proc::write(&format!("{process}/autogroup"), &NICE.to_string());
    let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let _ = rustix::process::setpriority_process(id, NICE);
}

/// Lets the calling thread run as soon as it wakes, until dropped: the thread that opens and
/// closes windows must not wait behind the clients and the servers that have been raised above it.
#[derive(Debug)]
pub struct Prompt(());

impl Prompt {
    /// Gives the calling thread the lowest real-time priority, which nothing that it starts
    /// inherits. Nothing where the right to do so is missing: windows then open and close late on a
    /// busy machine, and tell so by their lengths.
    #[must_use]
    pub fn begin() -> Option<Self> {
        realtime::begin().then_some(Self(()))
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        realtime::end();
    }
}

fn raise_group() -> io::Result<String> {
    const FILE: &str = "self/autogroup";
    proc::write(FILE, &NICE.to_string())?;
    Ok(proc::text(FILE)?.trim().trim_start_matches('/').to_owned())
}

fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "the kernel has no autogroups".to_owned(),
        Some(Errno::PERM | Errno::ACCESS) => "needs root or CAP_SYS_NICE".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The scheduling policy in a `stat` file of `/proc`: 0 for the usual one, 1 for FIFO.
    fn policy(stat: &str) -> String {
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_ascii_whitespace().nth(38).unwrap().to_owned()
    }

    #[test]
    fn a_prompt_thread_is_prompt_alone_and_only_until_it_is_dropped() {
        let own = || policy(&fs::read_to_string("/proc/thread-self/stat").unwrap());
        let before = own();
        let Some(prompt) = Prompt::begin() else {
            println!(
                "SKIP a_prompt_thread_is_prompt_alone_and_only_until_it_is_dropped: no right to it"
            );
            return;
        };
        assert_eq!(own(), "1");
        let thread = std::thread::spawn(own).join().unwrap();
        let child = std::process::Command::new("cat").arg("/proc/self/stat").output().unwrap();
        assert_eq!([thread, policy(&String::from_utf8(child.stdout).unwrap())], ["0", "0"]);
        drop(prompt);
        assert_eq!(own(), before);
    }
}

//! Asks a Java virtual machine to write its map of compiled methods, as `jcmd PID
//! Compiler.perfmap` does (JDK 17 and later), over the machine's own attach protocol: a file
//! `.attach_pidN` and SIGQUIT make it listen on the socket `.java_pidN`; a request is the
//! protocol's version and a command with three arguments, each ended by a zero byte.
//!
//! Only machines that Kneepoint itself started are asked, and only between windows: the answer
//! costs them a thread and a safepoint. SIGQUIT ends a process that does not catch it, so it is
//! sent to none of those.

use super::jit::at_home;
use kneepoint_machine::here;
use kneepoint_machine::proc::{self, process};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the machine may take to listen, and to answer.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);
const REQUEST: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Name of the library that is such a machine.
pub(super) const LIBRARY: &str = "libjvm.so";

/// Makes the virtual machine in process `pid` write its map.
///
/// # Errors
/// Where it cannot be asked, or refuses: before JDK 17, without its attach mechanism.
pub(super) fn write_map(pid: u32) -> io::Result<()> {
    let (own, folder) = at_home(pid).ok_or(io::ErrorKind::NotFound)?;
    let socket = format!("{folder}/.java_pid{own}");
    if fs::symlink_metadata(&socket).is_err() {
        wake(pid, &format!("{folder}/.attach_pid{own}"), &socket)?;
    }
    let mut stream = UnixStream::connect(&socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    match answer.lines().next() {
        Some("0") => Ok(()),
        _ => Err(io::Error::other("the virtual machine does not know Compiler.perfmap")),
    }
}

/// Makes it listen.
fn wake(pid: u32, trigger: &str, socket: &str) -> io::Result<()> {
    let status = proc::text(&format!("{pid}/status"))?;
    let arguments = process::arguments(pid);
    if !catches_quit(&status) || forbids(&arguments) {
        return Err(io::Error::other("the virtual machine lets nobody attach"));
    }
    fs::OpenOptions::new().write(true).create_new(true).open(trigger)?;
    let woken = signal(pid).and_then(|()| {
        let begun = Instant::now();
        while fs::symlink_metadata(socket).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    });
    let removed = fs::remove_file(trigger);
    woken.and(removed)
}

fn signal(pid: u32) -> io::Result<()> {
    here().signal(pid, rustix::process::Signal::QUIT)
}

/// Whether the process has a handler for SIGQUIT, the third signal.
fn catches_quit(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b100 != 0)
}

/// Without the mechanism SIGQUIT would print all threads into the program's output.
fn forbids(arguments: &[u8]) -> bool {
    arguments.split(|byte| *byte == 0).any(|argument| argument == b"-XX:+DisableAttachMechanism")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_woken_who_does_not_catch_the_signal() {
        assert!(catches_quit("Name:\tjava\nSigCgt:\t2000000181005ccf\n"));
        assert!(!catches_quit("SigCgt:\t0000000000000002\n"));
        assert!(!catches_quit("Name:\tsh\n"));
        assert!(forbids(b"java\0-XX:+DisableAttachMechanism\0Main\0"));
        assert!(!forbids(b"java\0Main\0"));
        let us = fs::read_to_string("/proc/self/status").expect("we are alive");
        assert!(!catches_quit(&us) && wake(std::process::id(), "/nowhere", "/nowhere").is_err());
    }
}

//! Who puts the machine back when Kneepoint is killed: its guardian, and where that is killed too,
//! whoever recovers.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kneepoint_rig::recovery::recover_in;
use kneepoint_rig::undo::Undo;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

/// A process that has changed the machine.
struct Holder {
    process: Child,
    scratch: PathBuf,
    program: u32,
}

/// A test that fails leaves nothing: the guardian of a holder that was killed puts all back.
impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hold(parent: &Path, mount: bool) -> Holder {
    let mut command = Command::new(SERVER);
    command.arg("change").arg(parent).stdout(Stdio::piped());
    if mount {
        command.arg("mount");
    }
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let scratch = PathBuf::from(lines.next().unwrap().unwrap());
    let program = lines.next().unwrap().unwrap().parse().unwrap();
    Holder { process, scratch, program }
}

fn stat(process: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn alive(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != 'Z')
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn mounted_below(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(path.to_str().unwrap())
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// The program with both of its children, and the holder's guardian.
fn everyone(holder: &Holder) -> (Vec<u32>, u32) {
    eventually("the program has its child", || !children(holder.program).is_empty());
    let mut family = children(holder.program);
    family.push(holder.program);
    let guardians = children(holder.process.id());
    let guardian = guardians.into_iter().find(|pid| *pid != holder.program).unwrap();
    (family, guardian)
}

fn kill(process: u32) {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
}

fn check_guardian(mount: bool) {
    let parent = tempfile::tempdir().unwrap();
    let mut holder = hold(parent.path(), mount);
    let (family, guardian) = everyone(&holder);
    assert_eq!(mounted_below(&holder.scratch), mount);
    assert!(family.iter().all(|pid| alive(*pid)));
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    eventually("the guardian has ended", || !alive(guardian));
    assert!(!family.iter().any(|pid| alive(*pid)), "{family:?}");
    assert!(!mounted_below(&holder.scratch));
    assert!(!holder.scratch.exists());
}

#[test]
fn the_guardian_puts_back_what_a_killed_run_left_and_ends() {
    check_guardian(false);
}

#[test]
fn the_guardian_unmounts() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP the_guardian_unmounts: needs root");
        return;
    }
    check_guardian(true);
}

#[test]
fn recovery_does_what_a_killed_guardian_could_not() {
    let mount = rustix::process::geteuid().is_root();
    let parent = tempfile::tempdir().unwrap();
    let mut holder = hold(parent.path(), mount);
    let (family, guardian) = everyone(&holder);
    // The guardian first: it would act at once.
    kill(guardian);
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    eventually("the guardian has ended", || !alive(guardian));
    assert!(family.iter().all(|pid| alive(*pid)), "nobody has killed them yet");
    assert_eq!(recover_in(parent.path()).unwrap(), [holder.scratch.clone()]);
    assert!(!family.iter().any(|pid| alive(*pid)), "{family:?}");
    assert!(!mounted_below(&holder.scratch) && !holder.scratch.exists());
}

#[test]
fn a_directory_goes_with_its_journal_while_the_guardian_is_there() {
    let (scratch, undo) = Undo::in_scratch(Path::new(SERVER)).unwrap();
    let path = scratch.path().to_owned();
    fs::write(path.join("file"), "x").unwrap();
    let clone = undo.clone();
    drop(undo);
    assert!(path.is_dir());
    drop(clone);
    assert!(!path.exists());
}

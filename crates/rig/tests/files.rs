//! Writers of files as they really run: file systems made, written to, counted and gone.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;

use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::file_write::FileWrite;
use kneepoint_rig::{Drive, SearchPath, Setup, System, Workload as _};
use kneepoint_vocab::{ArmId, Nanos};
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

fn settings(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = [("total_size", "16MiB")].iter().chain(texts);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn setup(scratch: &Path, settings: BTreeMap<String, String>) -> Setup {
    Setup {
        server: SERVER.into(),
        scratch: scratch.to_owned(),
        arm: ArmId::new("test"),
        settings,
        start: 0,
        max_clients: 4,
        seed: 7,
        undo: Undo::begin(scratch, Path::new(SERVER)),
    }
}

/// Says that a test was left out, where those who sum tests up look for it.
fn skip(test: &str, reason: &str) {
    println!("SKIP {test}: {reason}");
}

/// Whether the machine has what these settings need; prints why where it has not.
fn can(test: &str, settings: &BTreeMap<String, String>) -> bool {
    let needs = FileWrite::STANDARD.needs(settings, &SearchPath::own());
    let lacking: Vec<_> = needs.iter().filter(|need| !need.here).map(|need| &need.what).collect();
    if !lacking.is_empty() {
        skip(test, &format!("no {lacking:?} here"));
    }
    lacking.is_empty()
}

/// One slice with so many writers: threads, counts, response times.
fn check_slice(system: &mut dyn System, clients: u32) {
    let threads = system.begin(&Drive::new(clients, Nanos::from_millis(950))).unwrap();
    assert_eq!(threads.len(), clients as usize);
    let [process] = system.pids()[..] else { panic!("one process") };
    for thread in &threads {
        assert!(Path::new(&format!("/proc/{process}/task/{thread}")).exists(), "{thread}");
        assert_ne!(*thread, process);
    }
    assert!(system.working().unwrap());
    system.mark().unwrap();
    sleep(Duration::from_millis(100));
    let slice = system.finish().unwrap();
    assert!(system.pids().is_empty());
    assert!(slice.operations > 0 && slice.counted_over >= Nanos::from_millis(1000), "{slice:?}");
    let counts = slice.counts.unwrap();
    assert_eq!(counts.generator, slice.operations);
    assert!(counts.disagreement().0 <= 0.01, "{counts:?}");
    let latency = slice.latency.unwrap();
    assert!(latency.p50 <= latency.p95 && latency.p95 <= latency.p99, "{latency:?}");
}

/// Brings one kind up, proves it, takes two slices, ends it, and compares the machine.
fn whole_life(test: &str, texts: &[(&str, &str)]) {
    let settings = settings(texts);
    if !can(test, &settings) {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    if !scratch.memory_backed() {
        skip(test, "the scratch directory is not in memory");
        return;
    }
    let mark = scratch.path().display().to_string();
    let mut system = FileWrite::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    let (proofs, _) = system.describe().unwrap();
    assert!(proofs.len() >= 2 && proofs.iter().all(|proof| proof.active), "{proofs:#?}");
    check_slice(system.as_mut(), 1);
    check_slice(system.as_mut(), 3);
    system.stop().unwrap();
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn one_file_in_memory_is_written_to() {
    whole_life("one_file_in_memory_is_written_to", &[]);
}

#[test]
fn many_files_are_written_to() {
    whole_life("many_files_are_written_to", &[("files", "64"), ("block_size", "4096")]);
}

#[test]
fn ext4_is_made_and_gone() {
    whole_life("ext4_is_made_and_gone", &[("filesystem", "ext4")]);
}

#[test]
fn xfs_is_made_and_gone() {
    whole_life("xfs_is_made_and_gone", &[("filesystem", "xfs"), ("files", "4")]);
}

#[test]
fn writers_that_are_killed_give_no_number_and_leave_nothing() {
    let settings = settings(&[("filesystem", "ext4")]);
    if !can("writers_that_are_killed_give_no_number_and_leave_nothing", &settings) {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let mut system = FileWrite::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    system.begin(&Drive::new(3, Nanos::from_millis(5000))).unwrap();
    let sysbench = Pid::from_raw(i32::try_from(system.pids()[0]).unwrap()).unwrap();
    kill_process(sysbench, Signal::KILL).unwrap();
    let error = format!("{:#}", system.finish().unwrap_err());
    assert!(error.contains("killed by signal 9"), "{error}");
    // And dropped in the midst of a slice, without a stop.
    system.begin(&Drive::new(2, Nanos::from_millis(5000))).unwrap();
    let left = before.left(&mark);
    assert!(left.iter().any(|line| line.starts_with("mount ")), "{left:?}");
    assert!(left.iter().any(|line| line.starts_with("loop ")), "{left:?}");
    drop(system);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn a_setup_that_cannot_be_leaves_nothing() {
    if !can("a_setup_that_cannot_be_leaves_nothing", &settings(&[])) {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    // More than the scratch directory holds.
    let much = settings(&[("total_size", "1048576MiB")]);
    let error = FileWrite::STANDARD.start(&setup(scratch.path(), much)).err().unwrap();
    assert!(format!("{error:#}").contains("set a smaller total_size"), "{error:#}");
    // A guardian that cannot be started: nothing may be changed then.
    let mut unguarded = setup(scratch.path(), settings(&[("filesystem", "ext4")]));
    unguarded.undo = Undo::begin(scratch.path(), Path::new("/nonexistent/guardian"));
    let error = FileWrite::STANDARD.start(&unguarded).err().unwrap();
    assert!(format!("{error:#}").contains("/nonexistent/guardian"), "{error:#}");
    drop(unguarded);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

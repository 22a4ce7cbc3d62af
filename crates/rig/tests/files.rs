//! Writers of files as they really run: file systems made, written to, counted and gone.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;
#[path = "support/variant.rs"]
mod variant;

use kneepoint_rig::priority::Prompt;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::file_write::FileWrite;
use kneepoint_rig::{Drive, System, Workload as _};
use kneepoint_vocab::Nanos;
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use variant::{setup, skip};

fn settings(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    variant::settings(&[("total_size", "16MiB")], texts)
}

fn can(test: &str, settings: &BTreeMap<String, String>) -> bool {
    variant::can(test, &FileWrite::STANDARD, settings)
}

/// Files of sysbench's that a process has open.
fn open_files(process: u32) -> BTreeSet<PathBuf> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    targets.filter(|path| path.to_string_lossy().contains("/test_file.")).collect()
}

/// One slice with so many writers: processes, threads, counts, response times. Returns what each
/// process had open.
fn check_slice(system: &mut dyn System, clients: u32, processes: bool) -> Vec<BTreeSet<PathBuf>> {
    // As the lab does: clients are raised over everybody else.
    let _prompt = Prompt::begin();
    let threads = system.begin(&Drive::new(clients, Nanos::from_millis(900))).unwrap();
    assert_eq!(threads.len(), clients as usize);
    let pids = system.pids();
    let owners: Vec<u32> = if processes { pids.clone() } else { pids.repeat(clients as usize) };
    assert_eq!(owners.len(), clients as usize, "{pids:?}");
    for (thread, process) in threads.iter().zip(&owners) {
        assert!(Path::new(&format!("/proc/{process}/task/{thread}")).exists(), "{thread}");
        assert_ne!(thread, process);
    }
    let open = pids.iter().map(|pid| open_files(*pid)).collect();
    assert!(system.working().unwrap());
    system.mark().unwrap();
    sleep(Duration::from_millis(100));
    let slice = system.finish().unwrap();
    assert!(system.pids().is_empty());
    assert!(slice.operations > 0 && slice.counted_over >= Nanos::from_millis(1000), "{slice:?}");
    if processes {
        assert_eq!(slice.per_client.len(), clients as usize);
        assert!(slice.per_client.iter().all(|&writes| writes > 0), "{slice:?}");
        assert_eq!(slice.operations, slice.per_client.iter().sum::<u64>());
    }
    let counts = slice.counts.unwrap();
    assert_eq!(counts.generator, slice.operations);
    assert!(counts.disagreement().0 <= 0.01, "{counts:?}");
    let latency = slice.latency.unwrap();
    assert!(Some(latency.p50) <= latency.p95 && latency.p95 <= Some(latency.p99), "{latency:?}");
    open
}

/// Brings one kind up, proves it, takes two slices, ends it, and compares the machine. Returns
/// what each process of the larger slice had open; nothing where the test is left out.
fn whole_life(test: &str, texts: &[(&str, &str)]) -> Option<Vec<BTreeSet<PathBuf>>> {
    let settings = settings(texts);
    if !can(test, &settings) {
        return None;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    if !scratch.memory_backed() {
        skip(test, "the scratch directory is not in memory");
        return None;
    }
    let mark = scratch.path().display().to_string();
    let processes = texts.contains(&("clients", "processes"));
    let mut system = FileWrite::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    let proven = |system: &mut dyn System| {
        let (proofs, _) = system.describe().unwrap();
        assert!(proofs.len() >= 3 && proofs.iter().all(|proof| proof.active), "{proofs:#?}");
    };
    proven(system.as_mut());
    check_slice(system.as_mut(), 1, processes);
    proven(system.as_mut());
    let open = check_slice(system.as_mut(), 3, processes);
    check_slice(system.as_mut(), 4, processes);
    proven(system.as_mut());
    system.stop().unwrap();
    drop(scratch);
    before.assert_nothing_left(&mark);
    Some(open)
}

#[test]
fn one_file_in_memory_is_written_to() {
    whole_life("one_file_in_memory_is_written_to", &[]);
}

#[test]
fn processes_write_to_one_file() {
    let open = whole_life("processes_write_to_one_file", &[("clients", "processes")]);
    let Some(open) = open else { return };
    assert_eq!(open.len(), 3);
    assert!(open.iter().all(|files| files.len() == 1 && *files == open[0]), "{open:?}");
}

#[test]
fn each_process_writes_to_a_file_of_its_own() {
    let texts = [("clients", "processes"), ("files", "per-client")];
    let open = whole_life("each_process_writes_to_a_file_of_its_own", &texts);
    let Some(open) = open else { return };
    assert!(open.iter().all(|files| files.len() == 1), "{open:?}");
    let different: BTreeSet<_> = open.iter().flatten().collect();
    assert_eq!(different.len(), 3, "{open:?}");
    let folders: BTreeSet<_> = different.iter().filter_map(|file| file.parent()).collect();
    assert_eq!(folders.len(), 3, "{open:?}");
}

#[test]
fn a_killed_process_among_several_gives_no_number() {
    let settings = settings(&[("clients", "processes"), ("files", "per-client")]);
    if !can("a_killed_process_among_several_gives_no_number", &settings) {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let mut system = FileWrite::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(3, Nanos::from_millis(900))).unwrap();
    let second = Pid::from_raw(i32::try_from(system.pids()[1]).unwrap()).unwrap();
    kill_process(second, Signal::KILL).unwrap();
    let error = format!("{:#}", system.finish().unwrap_err());
    assert!(error.contains("killed by signal 9"), "{error}");
    check_slice(system.as_mut(), 2, true);
    drop(system);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn many_files_are_written_to() {
    whole_life("many_files_are_written_to", &[("files", "64"), ("block_size", "4096")]);
}

#[test]
fn ext4_is_made_and_gone() {
    let texts = [("filesystem", "ext4"), ("clients", "processes"), ("files", "per-client")];
    whole_life("ext4_is_made_and_gone", &texts);
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

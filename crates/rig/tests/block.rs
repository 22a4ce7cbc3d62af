//! Readers of block devices as they really run: devices made, read, counted and gone.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;
#[path = "support/variant.rs"]
mod variant;

use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::workload::block_read::BlockRead;
use kneepoint_rig::{Drive, System, Workload as _};
use kneepoint_vocab::Nanos;
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use variant::setup;

/// Zram devices bear no mark, so tests that compare the machine go one after the other.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn settings(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    variant::settings(&[("size", "16MiB")], texts)
}

fn can(test: &str, settings: &BTreeMap<String, String>) -> bool {
    variant::can(test, &BlockRead::STANDARD, settings)
}

/// One slice with so many readers: threads, counts, response times.
fn check_slice(system: &mut dyn System, clients: u32, dd: bool) {
    let threads = system.begin(&Drive::new(clients, Nanos::from_millis(1000))).unwrap();
    assert_eq!(threads.len(), clients as usize);
    let pids = system.pids();
    for thread in &threads {
        let own = pids.iter().any(|pid| Path::new(&format!("/proc/{pid}/task/{thread}")).exists());
        assert!(own, "{thread} is no thread of {pids:?}");
    }
    assert!(system.working().unwrap());
    system.mark().unwrap();
    sleep(Duration::from_millis(200));
    let slice = system.finish().unwrap();
    assert!(system.pids().is_empty());
    assert_eq!(slice.per_client.len(), clients as usize);
    assert!(slice.per_client.iter().all(|&reads| reads > 0), "{slice:?}");
    assert_eq!(slice.operations, slice.per_client.iter().sum::<u64>());
    assert!(slice.counted_over >= Nanos::from_millis(190), "{slice:?}");
    let counts = slice.counts.unwrap();
    assert!(counts.generator >= slice.operations, "{counts:?}");
    assert!(counts.disagreement().0 <= 0.01, "{counts:?}");
    let Some(latency) = slice.latency else { return assert!(dd, "fio tells response times") };
    assert!(
        Some(latency.p50) <= latency.p95 && Some(latency.p99) <= latency.longest,
        "{latency:?}"
    );
}

/// Brings one kind up, proves it, takes two slices, ends it, and compares the machine.
fn whole_life(test: &str, texts: &[(&str, &str)]) {
    let settings = settings(texts);
    if !can(test, &settings) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let dd = settings.get("engine").is_some_and(|engine| engine == "dd");
    let mut system = BlockRead::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    let (proofs, reported) = system.describe().unwrap();
    assert!(proofs.len() >= 3 && proofs.iter().all(|proof| proof.active), "{proofs:#?}");
    assert!(!reported.is_empty());
    check_slice(system.as_mut(), 1, dd);
    check_slice(system.as_mut(), 4, dd);
    system.stop().unwrap();
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn a_loop_device_is_read_and_gone() {
    whole_life("a_loop_device_is_read_and_gone", &[]);
}

#[test]
fn two_devices_are_read_through_rings() {
    let texts = [("engine", "io_uring"), ("devices", "2"), ("block_size", "4096")];
    whole_life("two_devices_are_read_through_rings", &texts);
}

#[test]
fn compressed_memory_is_read_and_gone() {
    let texts = [("device", "zram"), ("block_size", "4096")];
    whole_life("compressed_memory_is_read_and_gone", &texts);
}

#[test]
fn dd_reads_and_reports() {
    whole_life("dd_reads_and_reports", &[("engine", "dd")]);
}

#[test]
fn readers_that_are_killed_give_no_number_and_leave_nothing() {
    let settings = settings(&[]);
    if !can("readers_that_are_killed_give_no_number_and_leave_nothing", &settings) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let mut system = BlockRead::STANDARD.start(&setup(scratch.path(), settings)).unwrap();
    system.begin(&Drive::new(3, Nanos::from_millis(5000))).unwrap();
    let fio = Pid::from_raw(i32::try_from(system.pids()[0]).unwrap()).unwrap();
    kill_process(fio, Signal::KILL).unwrap();
    let error = format!("{:#}", system.finish().unwrap_err());
    assert!(error.contains("killed by signal 9"), "{error}");
    // And dropped in the midst of a slice, without a stop.
    system.begin(&Drive::new(2, Nanos::from_millis(5000))).unwrap();
    assert!(before.left(&mark).iter().any(|line| line.starts_with("loop ")));
    drop(system);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn a_named_device_is_only_read_and_a_file_is_refused() {
    let base = settings(&[]);
    if !can("a_named_device_is_only_read_and_a_file_is_refused", &base) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let file = scratch.path().join("no-device");
    fs::write(&file, "x").unwrap();
    let named = settings(&[("device", file.to_str().unwrap())]);
    let refused = BlockRead::STANDARD.start(&setup(scratch.path(), named));
    let error = format!("{:#}", refused.err().unwrap());
    assert!(error.contains("is no block device"), "{error}");
    // A device that somebody else made, here another system.
    let owner = BlockRead::STANDARD.start(&setup(scratch.path(), base)).unwrap();
    let left = before.left(&mark);
    let device = left.iter().find_map(|line| line.strip_prefix("loop ")?.split(' ').next());
    let device = format!("/dev/{}", device.unwrap());
    let named = settings(&[("device", &device)]);
    let mut system = BlockRead::STANDARD.start(&setup(scratch.path(), named)).unwrap();
    check_slice(system.as_mut(), 2, false);
    system.stop().unwrap();
    assert!(before.left(&mark).iter().any(|line| line.starts_with("loop ")), "the owner's stays");
    owner.stop().unwrap();
    drop(scratch);
    before.assert_nothing_left(&mark);
}

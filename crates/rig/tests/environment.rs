//! Variables that a recipe sets, and where and how threads run, reach the processes of every
//! workload, and are read back there.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/variant.rs"]
mod variant;

use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::workload::{block_read::BlockRead, file_write::FileWrite, overload::Overload};
use kneepoint_rig::workload::{command::Command, sqlite::SqliteOltp};
use kneepoint_rig::{Drive, SearchPath, Workload};
use kneepoint_vocab::Nanos;
use variant::setup;

/// Starts a workload with a variable and, where the machine has one, another allocator, and looks
/// at its proofs.
fn read_back(test: &str, workload: &dyn Workload, texts: &[(&str, &str)]) {
    let preload = "KNEEPOINT_SHOWN=yes LD_PRELOAD=libjemalloc.so.2";
    let jemalloc = variant::settings(&[("run", "true")], &[("environment", preload)]);
    let here = Command.needs(&jemalloc, &SearchPath::own()).iter().all(|need| need.here);
    let set = if here { preload } else { "KNEEPOINT_SHOWN=yes" };
    let settings = variant::settings(texts, &[("environment", set)]);
    if !variant::can(test, workload, &settings) {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), settings);
    workload.prepare(&setup).unwrap();
    let mut system = workload.start(&setup).unwrap();
    let (proofs, reported) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    let found = |words: &str| proofs.iter().any(|proof| proof.what.contains(words));
    assert!(found("KNEEPOINT_SHOWN in /proc/PID/environ"), "{proofs:?}");
    assert_eq!(found("libjemalloc.so.2 in /proc/PID/maps"), here, "{proofs:?}");
    assert!(reported.iter().any(|(name, _)| name == "environment"), "{reported:?}");
    system.stop().unwrap();
}

/// Starts a workload on one CPU, with a nice value and a policy, looks at its proofs, then runs a
/// slice of it.
fn scheduled(test: &str, workload: &dyn Workload, texts: &[(&str, &str)]) {
    let settings = variant::settings(texts, &[]);
    if !variant::can(test, workload, &settings) {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let mut setup = setup(scratch.path(), settings);
    let cpu = *kneepoint_rig::placement::allowed().last().unwrap();
    for (key, text) in [("cpus", cpu.to_string().as_str()), ("nice", "7"), ("policy", "batch")] {
        setup.scheduling.set(key, text).unwrap();
    }
    workload.prepare(&setup).unwrap();
    let mut system = workload.start(&setup).unwrap();
    let (proofs, _) = system.describe().unwrap();
    for words in ["CPUs of its threads", "nice of its threads", "policy of its threads"] {
        let shown = proofs.iter().find(|proof| proof.what.contains(words));
        assert!(shown.is_some_and(|proof| proof.active), "{words}: {proofs:?}");
    }
    system.begin(&Drive::new(4, Nanos::from_millis(100))).unwrap();
    let pid = system.pids()[0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
    assert!(allowed.is_none_or(|line| line.ends_with(&format!("\t{cpu}"))), "{allowed:?}");
    system.mark().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let _ = system.finish();
    system.stop().unwrap();
}

#[test]
fn of_sqlite_scheduled() {
    scheduled("of_sqlite_scheduled", &SqliteOltp::STANDARD, &[("rows", "1000")]);
}

#[test]
fn of_a_command_scheduled() {
    let run = "timeout 1 sh -c 'while :; do :; done'; echo rate: 5";
    let texts = [("run", run), ("shell", "yes"), ("throughput", "rate: ([0-9]+)")];
    scheduled("of_a_command_scheduled", &Command, &texts);
}

#[test]
fn of_writers_of_files_scheduled() {
    let texts = [("total_size", "16MiB"), ("clients", "processes")];
    scheduled("of_writers_of_files_scheduled", &FileWrite::STANDARD, &texts);
}

#[test]
fn of_sqlite() {
    read_back("of_sqlite", &SqliteOltp::STANDARD, &[("rows", "1000")]);
}

#[test]
fn of_writers_of_files() {
    let texts = [("total_size", "16MiB"), ("clients", "processes")];
    read_back("of_writers_of_files", &FileWrite::STANDARD, &texts);
}

#[test]
fn of_readers_of_devices() {
    read_back("of_readers_of_devices", &BlockRead::STANDARD, &[("size", "16MiB")]);
}

#[test]
fn of_an_overload() {
    read_back("of_an_overload", &Overload, &[("classes", "cpu")]);
}

//! Variables that a recipe sets reach the processes of every workload, and are read back there.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/variant.rs"]
mod variant;

use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::workload::{block_read::BlockRead, file_write::FileWrite, overload::Overload};
use kneepoint_rig::workload::{command::Command, sqlite::SqliteOltp};
use kneepoint_rig::{SearchPath, Workload};
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

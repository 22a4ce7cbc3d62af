//! The workload `overload` with the real stress-ng: it counts, and what breaks is a finding.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;

use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::overload::Overload;
use kneepoint_rig::{Drive, SearchPath, Setup, Workload as _};
use kneepoint_vocab::{Nanos, VariantId};
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

#[test]
fn classes_run_and_a_killed_one_is_a_finding() {
    const NAME: &str = "classes_run_and_a_killed_one_is_a_finding";
    if SearchPath::own().find("stress-ng").is_none() {
        println!("SKIP {NAME}: stress-ng is not installed");
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let setup = Setup {
        server: SERVER.into(),
        scratch: scratch.path().to_owned(),
        variant: VariantId::new("baseline"),
        settings: [("classes".to_owned(), "cpu vm switch".to_owned())].into(),
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 2,
        seed: 1,
        undo: Undo::begin(scratch.path(), Path::new(SERVER)),
    };
    let mut system = Overload.start(&setup).unwrap();
    let drive = Drive::new(1, Nanos::from_millis(500));

    system.begin(&drive).unwrap();
    assert_eq!(system.pids().len(), 3);
    for pid in system.pids() {
        // Kernels without such groups have no such file.
        let group = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap_or_default();
        assert!(group.is_empty() || group.trim_end().ends_with("nice 0"), "{group}");
    }
    system.mark().unwrap();
    let output = system.finish().unwrap();
    assert!(output.operations > 0, "{output:?}");
    let seen = system.stability().unwrap();
    assert!(["cpu", "vm", "switch"].iter().all(|class| seen.classes.contains(&(*class).into())));
    let own: Vec<_> = seen.failures.iter().filter(|failure| failure.class != "kernel").collect();
    assert!(own.is_empty(), "{own:?}");

    system.begin(&drive).unwrap();
    system.mark().unwrap();
    let victim = i32::try_from(system.pids()[1]).ok().and_then(Pid::from_raw).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    system.finish().unwrap();
    let seen = system.stability().unwrap();
    let failure = seen.failures.iter().find(|failure| failure.class == "vm").unwrap();
    assert!(failure.text.contains("killed by signal 9") && failure.after.0 > 0, "{failure:?}");
    assert!(system.stability().is_none(), "it is reported once");

    system.stop().unwrap();
    drop(setup);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

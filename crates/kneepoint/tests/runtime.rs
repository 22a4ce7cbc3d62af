//! A program whose language lets one thread run at a time: one cause, by the lock's name.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, fixture, is_root};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{Cause, CauseKind, ThreadName};
use std::path::Path;
use std::process::Command;

/// Threads that compute in Python alone.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/threads.py");

/// One cause is the interpreter's lock, under its name, and no other lock comes near it.
fn assert_one_lock_of_that_name(findings: &Findings) -> &Cause {
    let reported: Vec<String> = findings
        .causes
        .iter()
        .map(|cause| format!("{}: {:.3}", cause.key, cause.share.value.0))
        .collect();
    let named: Vec<_> = findings
        .causes
        .iter()
        .filter(|cause| cause.name.to_string().contains("take_gil"))
        .collect();
    assert_eq!(named.len(), 1, "{reported:?}");
    assert_eq!((named[0].kind, named[0].key.frame.as_str()), (CauseKind::Lock, "take_gil"));
    // Its parts - a mutex, two conditions of two words each - are nowhere else.
    let waits = [CauseKind::Lock, CauseKind::Thread];
    let most = named[0].share.value.0 / 3.0;
    let others = findings.causes.iter().filter(|cause| {
        waits.contains(&cause.kind) && cause.key != named[0].key && cause.share.value.0 > most
    });
    assert_eq!(others.count(), 0, "{reported:?}");
    named[0]
}

/// Whatever else runs on the machine: where the threads' time goes, the lock is one wait, and the
/// greatest. A core that it leaves idle may be lost to nobody, since others use it.
fn assert_one_wait_of_that_name(findings: &Findings) {
    let last = findings.ledgers.iter().max_by_key(|ledger| ledger.level.clients).unwrap();
    let waits = last.thread.lines.iter().filter_map(|line| match &line.name {
        ThreadName::Wait { name } => Some((line.per_operation.value.0, name.to_string())),
        _ => None,
    });
    let mut waits: Vec<(f64, String)> = waits.collect();
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named = waits.iter().filter(|(_, name)| name.contains("take_gil")).count();
    assert_eq!(named, 1, "{waits:?}");
    assert!(waits[0].1.contains("take_gil"), "{waits:?}");
}

/// Besides, it is most of the loss: of a run on a quiet machine.
fn assert_one_interpreter_lock(findings: &Findings) {
    let lock = assert_one_lock_of_that_name(findings);
    assert!(lock.share.value.0 > 0.8, "{}: {:?}", lock.key, lock.share);
    assert_eq!(findings.causes[0].key, lock.key);
}

#[test]
fn the_interpreter_s_lock_is_one_cause() {
    let _alone = alone();
    let test = "the_interpreter_s_lock_is_one_cause";
    if !is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("SKIP {test}: needs root and a kernel with BTF");
        return;
    }
    // What `python3` starts may be a script that chooses one.
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Some(asked) = asked.ok().filter(|asked| asked.status.success()) else {
        println!("SKIP {test}: no python3");
        return;
    };
    let python = String::from_utf8(asked.stdout).unwrap();
    let sandbox = Sandbox::new();
    let how = ["run", "--levels", "1,2,4", "--budget", "20s", "--out", "run", "--json", "--"];
    let program = [python.trim(), PROGRAM, "{clients}", "{seconds}"];
    let ran = sandbox.run(&[&how[..], &program[..]].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    assert_one_wait_of_that_name(&ran.json());
}

/// The same of a run that was recorded.
#[test]
fn recorded_threads_of_python_have_one_cause() {
    let record = kneepoint_lab::open(&fixture("python-threads")).unwrap();
    assert_one_interpreter_lock(&kneepoint_analysis::analyse(&record));
}

/// Of a Python without symbols its exported functions tell as much.
#[test]
fn recorded_threads_of_a_stripped_python_have_one_cause() {
    let record = kneepoint_lab::open(&fixture("python-stripped")).unwrap();
    assert_one_interpreter_lock(&kneepoint_analysis::analyse(&record));
}

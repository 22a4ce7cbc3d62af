//! What runs as root has no more of root's rights than its work needs.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, eventually, finished, is_root};
use std::fs;
use std::process::Command;

/// Bits of `CapEff`: capabilities(7).
const NEVER: [u32; 6] = [12, 13, 16, 17, 22, 27];
const KILL: u32 = 5;

fn effective(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The effective rights of each process of a run, by the words of its command line.
fn rights(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let of = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((String::from_utf8_lossy(&line).replace('\0', " "), effective(pid)?))
    };
    sandbox.processes().into_iter().filter_map(of).collect()
}

fn ended(child: std::process::Child) {
    let line = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    finished(child);
}

#[test]
fn kneepoint_keeps_what_it_needs_and_the_embedded_workload_nothing() {
    let _alone = alone();
    if !is_root() {
        println!("SKIP kneepoint_keeps_what_it_needs: not root");
        return;
    }
    let sandbox = Sandbox::new();
    let child = sandbox.spawn(&["run", "--tier", "fallback", "--budget", "60s", "--out", "run"]);
    let process = child.id();
    let serving = |(line, held): &(String, u64)| line.contains("sqlite") && *held == 0;
    eventually("the workload has given up its rights", || rights(&sandbox).iter().any(serving));
    let held = effective(process).unwrap();
    let all = effective(std::process::id()).unwrap();
    assert!(NEVER.iter().all(|bit| held >> bit & 1 == 0), "{held:x} of {all:x}");
    assert!(held >> KILL & 1 == all >> KILL & 1, "{held:x} of {all:x}");
    ended(child);
}

/// A command is run as its user runs it.
#[test]
fn a_measured_command_has_the_rights_of_its_user() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let script = "sleep 77; : {clients}";
    let words = ["run", "--tier", "fallback", "--out", "run", "--work", "1", "--", "sh", "-c"];
    let child = sandbox.spawn(&[&words[..], &[script]].concat());
    let all = effective(std::process::id()).unwrap();
    let command = |(line, held): &(String, u64)| line.starts_with("sleep 77") && *held == all;
    eventually("the command has its rights", || rights(&sandbox).iter().any(command));
    ended(child);
}

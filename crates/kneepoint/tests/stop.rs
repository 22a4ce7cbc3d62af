//! Stop means stop, and nothing outlives a run: what hangs, ignores signals, goes off as a daemon.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, eventually, finished, scratch_of};
use std::fs;
use std::path::Path;
use std::process::Command;

const RUN: [&str; 9] =
    ["run", "--levels", "1", "--budget", "60s", "--tier", "fallback", "--out", "run"];

fn started(sandbox: &Sandbox, script: &str) -> std::process::Child {
    sandbox.spawn(&[&RUN[..], &["--work", "1", "--", "sh", "-c", script]].concat())
}

fn send(signal: &str, process: u32) {
    let line = format!("kill -{signal} {process}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
}

/// A command that would be waited for ten minutes, and that takes no hint.
#[test]
fn one_signal_ends_a_command_that_hangs() {
    let _alone = alone();
    for signal in ["INT", "TERM"] {
        let sandbox = Sandbox::new();
        let script = ": {clients}; trap '' TERM INT HUP; touch begun; while :; do sleep 600; done";
        let child = started(&sandbox, &format!("cd {}; {script}", sandbox.path("").display()));
        let process = child.id();
        eventually("the command has begun", || sandbox.path("begun").exists());
        send(signal, process);
        let done = finished(child);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("kneepoint: interrupted"), "{done:?}");
        assert!(sandbox.path("run/end.json").exists() && done.out.contains("report"), "{done:?}");
        sandbox.assert_clean(Some(process), &["begun", "run"]);
    }
}

/// Somebody has stopped the guardian: it is not waited for, and all is put back without it.
#[test]
fn a_stopped_guardian_is_not_waited_for() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let folder = sandbox.path("");
    let script = format!("cd {}; : {{clients}}; touch begun; sleep 600", folder.display());
    let child = started(&sandbox, &script);
    let process = child.id();
    eventually("the command has begun", || sandbox.path("begun").exists());
    let is_guardian = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"guardian")
    };
    let guardian = sandbox.processes().into_iter().find(is_guardian).unwrap();
    send("STOP", guardian);
    send("INT", process);
    let done = finished(child);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("kneepoint: interrupted"), "{done:?}");
    sandbox.assert_clean(Some(process), &["begun", "run"]);
}

/// A daemon of the command ends with it, whether the run ends in order or is killed.
#[test]
fn daemons_end_with_the_run() {
    let _alone = alone();
    let script = "setsid sleep 611 & (setsid sh -c 'sleep 612 & wait' &) ; sleep 0.3; : {clients}";
    let sandbox = Sandbox::new();
    let child = started(&sandbox, script);
    let process = child.id();
    eventually("a daemon runs", || sandbox.processes().len() > 4);
    send("INT", process);
    finished(child);
    sandbox.assert_clean(Some(process), &["run"]);

    let sandbox = Sandbox::new();
    let child = started(&sandbox, script);
    let process = child.id();
    eventually("a daemon runs", || sandbox.processes().len() > 4);
    send("KILL", process);
    finished(child);
    eventually("the daemons have ended", || sandbox.processes().is_empty());
    eventually("the scratch directory is gone", || scratch_of(process).is_empty());
}

/// A server that rewrites its environment, so that only its control group tells whose it is.
#[test]
fn a_server_that_daemonises_ends_with_the_run() {
    let _alone = alone();
    if !Path::new("/usr/bin/redis-server").exists() {
        println!("SKIP a_server_that_daemonises_ends_with_the_run: no redis-server");
        return;
    }
    let sandbox = Sandbox::new();
    let folder = sandbox.path("");
    let script = format!(
        "cd {}; redis-server --port 0 --unixsocket $PWD/s.$$ --save '' --daemonize yes \
         --pidfile $PWD/pid.$$ >/dev/null; sleep 0.3; : {{clients}}",
        folder.display()
    );
    let pids = || -> Vec<u32> {
        let files = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        let ours = files.filter(|path| path.to_string_lossy().contains("/pid."));
        ours.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).collect()
    };
    let named = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("redis-server")
    };
    for signal in ["INT", "KILL"] {
        let child = started(&sandbox, &script);
        let process = child.id();
        eventually("a daemon runs", || pids().iter().any(named));
        send(signal, process);
        finished(child);
        eventually("the scratch directory is gone", || scratch_of(process).is_empty());
        // One that has ended keeps its name until process 1 has taken note of it.
        eventually("no daemon runs", || !pids().iter().any(named));
        fs::remove_dir_all(sandbox.path("run")).unwrap();
    }
}

/// Kills at moments that fall into the making of the scratch directory and the first starts.
#[test]
fn a_kill_at_any_moment_leaves_nothing() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    for moment in 0..24_u64 {
        let child =
            sandbox.spawn(&["run", "--tier", "fallback", "--budget", "20s", "--out", "run"]);
        let process = child.id();
        std::thread::sleep(std::time::Duration::from_millis(4 * moment * moment / 4));
        send("KILL", process);
        finished(child);
        eventually("everybody has ended", || sandbox.processes().is_empty());
        eventually("the scratch directory is gone", || scratch_of(process).is_empty());
        let _ = fs::remove_dir_all(sandbox.path("run"));
    }
}

/// There is no room for the page: what was measured is reported all the same, and where it lies.
#[test]
fn a_failure_at_the_end_tells_what_was_measured() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("table.csv"), "clients,throughput\n1,10\n2,18\n4,20\n").unwrap();
    let Some(_mounted) = common::Mounted::tmpfs(&sandbox.path("small"), "size=24k") else {
        println!("SKIP a_failure_at_the_end_tells_what_was_measured: cannot mount (not root)");
        return;
    };
    let import = ["import", "table.csv", "--cores", "4", "--out", "small/run"];
    let done = sandbox.run(&import);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("small/run") && done.out.contains("clients"), "{done:?}");
    assert!(done.err.contains("report DIR --html FILE"), "{done:?}");
    assert_eq!(kneepoint_lab::open(&sandbox.path("small/run")).unwrap().trials.len(), 3);
}

/// A slice that fails after others were kept: the error says where they are.
#[test]
fn a_failure_on_the_way_says_where_the_rest_lies() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let script = format!(
        "cd {}; : {{clients}}; echo x >> count; test $(wc -l < count) -lt 4 || exit 9; sleep 0.4",
        sandbox.path("").display()
    );
    let done = finished(started(&sandbox, &script));
    done.refused(1, &["exit code 9", "kneepoint report run"]);
    let report = sandbox.run(&["report", "run", "--json"]);
    assert_eq!(report.code, Some(4), "{report:?}");
    assert!(report.out.contains("\"trustworthy\": false"), "{report:?}");
}

/// Where no more processes or threads may be had, that is said in a line. It takes somebody whose
/// processes the kernel counts: root may have any number.
#[test]
fn without_processes_there_is_one_line() {
    if !common::is_root() {
        println!("SKIP without_processes_there_is_one_line: needs root to become nobody");
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let arguments = ["run", "--tier", "fallback", "--budget", "3s", "--out", "run"];
    let mut refused = 0;
    for most in 1..=8 {
        let asked = sandbox.as_nobody(&arguments);
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "prlimit"]);
        command.arg(format!("--nproc={most}")).arg(asked.get_program()).args(asked.get_args());
        let output = command.current_dir(sandbox.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{most}: {said}");
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{most}: {output:?}");
        refused += usize::from(output.status.code() == Some(1) && said.contains("kneepoint: "));
        let _ = fs::remove_dir_all(sandbox.path("run"));
    }
    assert!(refused > 0, "eight processes are too many to be few");
}

/// Where no more files or memory may be had, that is said in a line.
#[test]
fn without_files_or_memory_there_is_one_line() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let memory = [55, 70].map(|mib| format!("ulimit -v {}", mib * 1024));
    let files = ["-n 12", "-f 0", "-s 64"].map(|limit| format!("ulimit {limit}"));
    for limit in files.into_iter().chain(memory) {
        let program = env!("CARGO_BIN_EXE_kneepoint");
        let line =
            format!("{limit}; exec {program} run --tier fallback --levels 1 --budget 2s --out run");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).current_dir(sandbox.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{limit}: {said}");
        assert!(output.status.code().is_some(), "{limit}: {:?}: {said}", output.status);
        let _ = fs::remove_dir_all(sandbox.path("run"));
    }
}

//! The whole loop against the real kernel: what it writes, and that nothing outlives it.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Ran, Sandbox, eventually, finished, is_root, scratch_of, short_recipe};
use kneepoint_vocab::{Disposition, Findings, RunRecord, StoppedBy, Tier};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const FILES: [&str; 7] = [
    "arms.jsonl",
    "end.json",
    "host.json",
    "plan.toml",
    "report.html",
    "stacks.jsonl",
    "trials.jsonl",
];

/// A sandbox with a recipe that ends soon, and one that does not end by itself.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let short = short_recipe(1000);
    fs::write(sandbox.path("short.toml"), &short).unwrap();
    // One start only, so that the variants live as long as the run.
    let long = short.replace("effect_blocks = [2, 2]", "effect_blocks = [9000, 9000]");
    let long = long.replace("budget_s = 120", "budget_s = 3000\nblocks_per_start = 9000");
    fs::write(sandbox.path("long.toml"), long).unwrap();
    sandbox
}

fn has_bpf(test: &str) -> bool {
    if is_root() && Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    println!("SKIP {test}: needs root and a kernel with BTF");
    false
}

fn send(signal: &str, process: u32) {
    let line = format!("kill -{signal} {process}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
}

fn trials(sandbox: &Sandbox) -> usize {
    let text = fs::read_to_string(sandbox.path("run/trials.jsonl")).unwrap_or_default();
    text.matches('\n').count()
}

/// Ids of the eBPF programs that a process holds.
fn programs_of(process: u32) -> BTreeSet<u64> {
    let entries = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
    let infos = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let id = |info: String| {
        let line = info.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        line.trim().parse().ok()
    };
    infos.filter_map(id).collect()
}

/// Ids of all eBPF programs in the kernel; `None` without bpftool.
fn programs_in_kernel() -> Option<BTreeSet<u64>> {
    let output = Command::new("bpftool").args(["--json", "prog", "show"]).output().ok()?;
    let programs: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
    Some(programs.iter().filter_map(|program| program["id"].as_u64()).collect())
}

/// None of these programs is left in the kernel.
fn assert_gone(test: &str, programs: &BTreeSet<u64>) {
    assert!(!programs.is_empty(), "the run held no program");
    if programs_in_kernel().is_none() {
        println!("SKIP {test}, the kernel's list of programs: bpftool is not installed");
        return;
    }
    // The kernel frees programs some time after their last holder has gone.
    eventually("no program of the run is left", || {
        programs_in_kernel().is_some_and(|left| left.is_disjoint(programs))
    });
}

/// The run directory is whole, every variant is what it claims to be, and the ledgers close.
fn assert_whole(sandbox: &Sandbox, done: &Ran, tier: Tier) -> (RunRecord, Findings) {
    assert!(matches!(done.code, Some(0 | 4)), "{done:?}");
    let directory = sandbox.path("run");
    for name in FILES {
        assert!(directory.join(name).exists(), "{name} is missing");
    }
    let record = kneepoint_lab::open(&directory).unwrap();
    assert_eq!(record.torn, Vec::<String>::new());
    // On a quiet machine the last look may decide what the planned blocks would have ended.
    let stopped_by = &record.end.as_ref().unwrap().stopped_by;
    assert!(matches!(stopped_by, StoppedBy::Decided | StoppedBy::PlannedBlocks), "{stopped_by:?}");
    // Further starts, if any, are of further blocks of the sweep.
    let planned = record.variants.iter().filter(|start| start.start < 2);
    assert_eq!(planned.count(), 2 * 3, "starts times variants with a process");
    for start in &record.variants {
        assert_eq!(start.proven(), kneepoint_vocab::Proven::Yes, "{start:?}");
    }
    let json = sandbox.run(&["report", "run", "--json"]).out;
    let findings: Findings = serde_json::from_str(&json).unwrap();
    assert_eq!(findings.collector.tier, Some(tier));
    assert_eq!(findings.curve.points.len(), 2);
    assert_eq!(findings.ledgers.len(), 2);
    // The fallback reads threads and processes by different clocks, a few milliseconds apart, and
    // the windows of this test are a tenth of a second.
    let open = if tier == Tier::Full { 0.02 } else { 0.10 };
    // Beside other work a client may not have had a core in such a window.
    let disturbed = |level| {
        let mut trials = record.trials.iter().filter(|trial| trial.id.level == level);
        trials.any(|trial| trial.disposition != Disposition::Kept)
    };
    for ledger in &findings.ledgers {
        let (core, thread) = (ledger.core.unaccounted.0, ledger.thread.unaccounted.0);
        assert!(core <= open, "{:?}: the core ledger leaves {core} open", ledger.level);
        let closes = thread <= open || disturbed(ledger.level);
        assert!(closes, "{:?}: the thread ledger leaves {thread} open", ledger.level);
    }
    (record, findings)
}

/// `report` says again, to the byte, what `run` said.
fn assert_repeats(sandbox: &Sandbox, done: &Ran) {
    let page = sandbox.path("run/report.html");
    let first = fs::read(&page).unwrap();
    let json = sandbox.run(&["report", "run", "--json"]).out;
    for _ in 0..2 {
        assert_eq!(sandbox.run(&["report", "run"]).out, done.out);
        assert!(fs::read(&page).unwrap() == first, "the page differs");
        assert_eq!(sandbox.run(&["report", "run", "--json"]).out, json);
    }
}

#[test]
fn the_full_collector_end_to_end() {
    let _alone = common::alone();
    if !has_bpf("the_full_collector_end_to_end") {
        return;
    }
    let sandbox = sandbox();
    let child = sandbox.spawn(&["run", "short.toml", "--out", "run"]);
    let process = child.id();
    eventually("a trial is on disk", || trials(&sandbox) >= 1);
    let programs = programs_of(process);
    let done = finished(child);
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    let (record, findings) = assert_whole(&sandbox, &done, Tier::Full);
    assert!(!record.stacks.is_empty() && findings.collector.stacks > 0);
    assert_repeats(&sandbox, &done);
    assert_gone("the_full_collector_end_to_end", &programs);
}

#[test]
fn the_fallback_collector_end_to_end() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let child = sandbox.spawn(&["run", "short.toml", "--out", "run", "--tier", "fallback"]);
    let process = child.id();
    let done = finished(child);
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    assert_whole(&sandbox, &done, Tier::Fallback);
    assert_repeats(&sandbox, &done);
}

#[test]
fn an_ordinary_user_gets_the_fallback_and_the_reason() {
    let _alone = common::alone();
    if !is_root() {
        println!(
            "SKIP an_ordinary_user_gets_the_fallback_and_the_reason: needs root to become nobody"
        );
        return;
    }
    let sandbox = sandbox();
    let mut command = sandbox.as_nobody(&["run", "short.toml", "--out", "run"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let done = finished(child);
    assert!(done.err.contains("eBPF accounting: "), "{done:?}");
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    let (record, _) = assert_whole(&sandbox, &done, Tier::Fallback);
    let remarks = record.end.unwrap().remarks;
    assert!(remarks.iter().any(|remark| remark.contains("eBPF")), "{remarks:?}");
}

#[test]
fn a_run_outlives_its_terminal_where_it_was_told_to() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let arguments = ["run", "short.toml", "--out", "run", "--tier", "fallback"];
    let child = sandbox.spawn_by(&["env", "--ignore-signal=HUP,INT"], &arguments);
    let process = child.id();
    eventually("a trial is on disk", || trials(&sandbox) >= 1);
    send("HUP", process);
    send("INT", process);
    let done = finished(child);
    assert_whole(&sandbox, &done, Tier::Fallback);
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let arguments = ["run", "long.toml", "--out", "run", "--tier", "fallback"];
    // As timeout(1) does: one signal to the process and at once another to its group.
    for (signal, again, least) in [("INT", "TERM", 1), ("HUP", "TERM", 1), ("TERM", "HUP", 12)] {
        let child = sandbox.spawn(&arguments);
        let process = child.id();
        eventually("a trial is on disk", || trials(&sandbox) >= least);
        send(&format!("{signal} {process}; kill -{again}"), process);
        let done = finished(child);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("kneepoint: interrupted"), "{done:?}");
        assert!(done.out.contains("report  run/report.html"), "{done:?}");
        sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
        let report = sandbox.run(&["report", "run"]);
        assert_eq!(report.out, done.out);
        let record = kneepoint_lab::open(&sandbox.path("run")).unwrap();
        assert_eq!(record.end.unwrap().stopped_by.as_str(), "interrupted");
        fs::remove_dir_all(sandbox.path("run")).unwrap();
    }
}

#[test]
fn a_killed_kneepoint_takes_its_systems_along() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let child = sandbox.spawn(&["run", "long.toml", "--out", "run"]);
    let process = child.id();
    eventually("a trial is on disk", || trials(&sandbox) >= 1);
    assert!(sandbox.processes().len() > 1, "no system is running");
    assert!(!scratch_of(process).is_empty(), "there is no scratch directory");
    let programs = programs_of(process);
    send("KILL", process);
    assert_eq!(finished(child).code, None, "killed by the signal");
    eventually("the systems have ended", || sandbox.processes().is_empty());
    let recovered = sandbox.run(&["recover"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    let report = sandbox.run(&["report", "run"]);
    assert_eq!((report.code, report.err.as_str()), (Some(4), ""));
    if has_bpf("a_killed_kneepoint_takes_its_systems_along, programs") {
        assert_gone("a_killed_kneepoint_takes_its_systems_along", &programs);
    }
}

/// What the systems of a killed run would remove, had they not been killed too.
#[test]
fn what_is_left_when_all_are_killed_is_recovered() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let child = sandbox.spawn(&["run", "long.toml", "--out", "run", "--tier", "fallback"]);
    let process = child.id();
    eventually("a trial is on disk", || trials(&sandbox) >= 1);
    let systems = sandbox.processes();
    send("KILL", process);
    for system in systems.into_iter().filter(|&system| system != process) {
        // It may have noticed already.
        let line = format!("kill -KILL {system} 2>/dev/null || true");
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }
    finished(child);
    eventually("the systems have ended", || sandbox.processes().is_empty());
    let recovered = sandbox.run(&["recover"]);
    assert_eq!((recovered.code, recovered.err.as_str()), (Some(0), ""));
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    let again = sandbox.run(&["recover"]);
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""));
}

#[test]
fn a_system_that_dies_is_named() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let child = sandbox.spawn(&["run", "long.toml", "--out", "run", "--tier", "fallback"]);
    let process = child.id();
    eventually("a trial is on disk", || trials(&sandbox) >= 1);
    let is_system = |other: &u32| {
        let reported = fs::read(format!("/proc/{other}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&reported).contains("sqlite-oltp")
    };
    let system = sandbox.processes().into_iter().find(is_system).unwrap();
    send("KILL", system);
    let done = finished(child);
    let record = kneepoint_lab::open(&sandbox.path("run")).unwrap();
    let failed = record.trials.last().unwrap();
    let Disposition::Failed { reason } = &failed.disposition else { panic!("{failed:?}") };
    let place = format!("{} at {} clients: ", failed.id.variant, failed.id.level.clients);
    let process_of_it = format!("process {system}");
    done.refused(1, &[&place, reason, &process_of_it, "SIGKILL"]);
    sandbox.assert_clean(Some(process), &["long.toml", "run", "short.toml"]);
    assert!(record.end.unwrap().stopped_by.as_str().contains(&place));
    assert_eq!(sandbox.run(&["report", "run"]).code, Some(4));
}

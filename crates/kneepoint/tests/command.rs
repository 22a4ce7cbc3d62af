//! A command of one's own, without a recipe: `kneepoint run -- COMMAND`.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, ran, together};
use kneepoint_vocab::findings::{Interaction, Verdict};
use kneepoint_vocab::{Findings, Proven};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Threads that do what they are reported, for as long as they are reported, and say how fast they
/// were.
const BENCH: &str = "timeout {seconds} sleep 60; echo rate: {clients}000";

#[test]
fn its_throughput_is_read_at_every_level() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let measured = ["run", "--levels", "1,3", "--budget", "14s", "--throughput", "rate: ([0-9]+)"];
    let reported = ["--out", "run", "--json", "--", "sh", "-c", BENCH];
    let ran = sandbox.run(&[&measured[..], &reported[..]].concat());
    // So short a run may call itself not trustworthy; it may not fail.
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    let findings: Findings = ran.json();
    let curve: Vec<(u32, f64)> = findings
        .curve
        .points
        .iter()
        .map(|point| (point.level.clients, point.throughput.value.0))
        .collect();
    assert_eq!(curve.len(), 2, "{curve:?}");
    for (clients, throughput) in curve {
        let expected = f64::from(clients) * 1000.0;
        assert!((throughput / expected - 1.0).abs() < 1e-3, "{clients}: {throughput}");
    }
    let shown = sandbox.run(&["report", "run"]);
    assert!(shown.prints("Still rises at 3 clients"), "{shown:?}");
    // What the tests' own Cargo has set is kept from what is measured.
    let starts = fs::read_to_string(sandbox.path("run/arms.jsonl")).unwrap();
    assert!(!starts.contains("RUST_RECURSION_COUNT"), "{starts}");
}

#[test]
fn as_much_is_said_as_was_asked_for() {
    let _together = together();
    let sandbox = Sandbox::new();
    let measured = ["run", "--levels", "1", "--budget", "10s", "--throughput", "rate: ([0-9]+)"];
    let of = |volume: &'static str| {
        let reported = [volume, "--out", volume.trim_start_matches('-'), "--", "sh", "-c", BENCH];
        sandbox.run(&[&measured[..], &reported[..]].concat())
    };
    let quiet = of("--quiet");
    assert!(matches!(quiet.code, Some(0 | 4)), "{quiet:?}");
    assert_eq!(quiet.err, "");
    let verbose = of("--verbose");
    assert!(verbose.err.contains("1.00k operations/s  baseline at 1 client"), "{verbose:?}");
}

/// A variant of one's own is tried, shown to be active or called unproven, and judged.
#[test]
fn variants_are_tried_proven_and_judged() {
    let _together = together();
    let sandbox = Sandbox::new();
    let bench = "#!/bin/sh\nsleep 0.9\necho rate: ${RATE:-1000}\n";
    for name in ["old", "new"] {
        let text = if name == "new" { bench.replace("-1000", "-3000") } else { bench.to_owned() };
        fs::write(sandbox.path(name), text).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(sandbox.path(name), mode).unwrap();
    }
    let measured = ["run", "--levels", "1", "--throughput", "rate: ([0-9]+)", "--budget", "90s"];
    let variants = [
        ["--variant", "Patched: ./new {clients}"],
        ["--variant", "faster: RATE=2000"],
        ["--variant", "patient: set.patience_s=60"],
    ];
    let reported = ["--tier", "fallback", "--out", "run", "--json", "--", "./old", "{clients}"];
    let ran = sandbox.run(&[&measured[..], &variants.concat(), &reported].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    let findings: Findings = ran.json();
    let effect = |id: &str| {
        let found = findings.effects.iter().find(|effect| effect.variant.0 == id);
        found.unwrap_or_else(|| panic!("{id}: {:?}", findings.effects))
    };
    for (id, ratio, proven) in [
        ("patched", 3.0, Proven::Yes),
        ("faster", 2.0, Proven::Yes),
        ("patient", 1.0, Proven::Unproven),
    ] {
        let effect = effect(id);
        let found = effect.ratio.as_ref().unwrap().value.0;
        assert!((found / ratio - 1.0).abs() < 0.01, "{id}: {found}");
        let better = matches!(effect.verdict, Verdict::Better);
        assert_eq!((better, effect.proven), (ratio > 1.0, proven), "{effect:?}");
    }
    let shown = sandbox.run(&["report", "run"]);
    assert!(shown.out.contains("Patched") && shown.out.contains("3.00"), "{}", shown.out);
}

/// Two variants of one's own, alone and together; and where and how the command runs.
#[test]
fn variants_are_crossed_and_threads_run_where_and_how_they_should() {
    let _together = together();
    let sandbox = Sandbox::new();
    let bench = "#!/bin/sh\nsleep 0.9\necho rate: $(( ${A:-10} * ${B:-100} ))\n";
    fs::write(sandbox.path("bench"), bench).unwrap();
    fs::set_permissions(sandbox.path("bench"), fs::Permissions::from_mode(0o755)).unwrap();
    let measured = ["run", "--levels", "1", "--throughput", "rate: ([0-9]+)", "--budget", "120s"];
    let variants = ["--variant", "one: A=12", "--variant", "other: B=130", "--cross", "one,other"];
    let cpu = kneepoint_rig::placement::allowed()[0];
    let placed = format!("placed: cpus={cpu} nice=5 policy=batch");
    let placed = ["--variant", &placed];
    let reported = ["--tier", "fallback", "--out", "run", "--json", "--", "./bench"];
    let ran = sandbox.run(&[&measured[..], &variants, &placed, &reported].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    let findings: Findings = ran.json();
    let [cross] = &findings.crosses[..] else { panic!("{:?}", findings.crosses) };
    let figures = cross.figures.as_ref().unwrap();
    for (found, wanted) in [
        (figures.alone, 1.2),
        (figures.other_alone, 1.3),
        (figures.together, 1.56),
        (figures.interaction, 1.0),
    ] {
        assert!((found.value.0 / wanted - 1.0).abs() < 1e-6, "{found:?}");
    }
    assert_eq!(figures.verdict, Interaction::AddUp);
    let placed = findings.effects.iter().find(|effect| effect.variant.0 == "placed").unwrap();
    assert_eq!(placed.proven, Proven::Yes, "{:?}", placed.proofs);
    for words in ["CPUs of its threads", "nice of its threads", "policy of its threads"] {
        let shown = placed.proofs.iter().find(|proof| proof.what.contains(words));
        assert!(shown.is_some_and(|proof| proof.active), "{:?}", placed.proofs);
    }
    let shown = sandbox.run(&["report", "run"]);
    for words in ["one with other: together 1.56", "they add up", "neither 1.0"] {
        assert!(shown.prints(words), "{}", shown.out);
    }
}

/// What fits is shown, asked for by its name, or tried without one, each with a reason.
#[test]
fn what_fits_is_listed_and_tried() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["list", "--variants"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let text = listed.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["a command of your own", "can be tried", "policy = batch", "patience_s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let listed = sandbox.run(&["list", "--variants", "sqlite-shared-cache", "--json"]);
    let all: serde_json::Value = listed.json();
    let ids: Vec<&str> =
        all["variants"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.contains(&"sqlite-private-cache") && ids.contains(&"batch"), "{ids:?}");
    let planned = |variants: &[&str]| {
        let arguments = [&["run", "--dry-run"][..], variants, &["--", "sleep", "1"]].concat();
        let ran = sandbox.run(&arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    };
    let named = planned(&["--variant", "batch"]);
    assert!(named.out.contains("threads that do not preempt"), "{named:?}");
    let auto = planned(&["--variant", "auto"]);
    assert!(auto.err.contains("auto tries batch (policy = batch): fewer switches"), "{auto:?}");
    assert!(auto.out.contains("threads that do not preempt"), "{auto:?}");
    // Of a run whose causes nothing from outside relieves, nothing is tried.
    let earlier = format!("auto:{}", common::fixture("sqlite-shared-cache").display());
    let causes = planned(&["--variant", &earlier]);
    let said = ["found: ", "auto adds no variant: no cause"];
    assert!(said.iter().any(|words| causes.err.contains(words)), "{causes:?}");
}

#[test]
fn variants_are_tried_at_the_level_that_is_asked_for() {
    let sandbox = Sandbox::new();
    let dry = |at: &str| {
        let words =
            ["run", "--dry-run", "--levels", "1,2,4", "--try-at", at, "--variant", "x: A=1"];
        sandbox.run(&[&words[..], &["--", "sleep", "{clients}"]].concat())
    };
    let one = dry("1");
    assert!(one.out.contains("at 1 client:") && one.code == Some(0), "{one:?}");
    dry("3").refused(1, &["--try-at 3 is no level of the sweep: it has 1, 2, 4 clients"]);
}

#[test]
fn output_without_a_figure_is_an_error_that_shows_it() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let measured = ["run", "--levels", "1", "--budget", "20s", "--throughput", "rate: ([0-9]+)"];
    let reported = ["--out", "run", "--", "sh", "-c", "echo no figure for {clients}"];
    let ran = sandbox.run(&[&measured[..], &reported[..]].concat());
    ran.refused(1, &["no figure for 1"]);
}

#[test]
fn output_that_is_not_understood_is_refused_with_its_numbers_and_the_way_out() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let measured = ["run", "--levels", "1", "--budget", "20s", "--out", "run", "--"];
    let reported = ["sh", "-c", "sleep 1; echo done 30 rounds with {clients}"];
    let ran = sandbox.run(&[&measured[..], &reported[..]].concat());
    ran.refused(1, &["done 30 rounds", "--throughput 'done ([0-9.,]+)'", "--work 1"]);
}

#[test]
fn a_dry_run_refuses_a_command_that_is_not_there() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["run", "--dry-run", "--", "no-such-program-here", "{clients}"]);
    ran.refused(1, &["no-such-program-here", "not found here"]);
}

#[test]
fn a_dry_run_refuses_a_recipe_whose_server_is_not_there() {
    let sandbox = Sandbox::new();
    let mut dry = sandbox.command(&["run", "--dry-run", "redis"]);
    dry.env("PATH", "/nowhere");
    let ran = ran(dry);
    ran.refused(1, &["redis needs", "redis-server", "apt-get install"]);
}

#[test]
fn a_pattern_that_is_none_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["run", "--throughput", "rate: ([0-9", "--", "true"]);
    assert!(matches!(ran.code, Some(1 | 2)) && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.contains("rate: ([0-9"), "{ran:?}");
    assert!(sandbox.listed().is_empty(), "{:?}", sandbox.listed());
}

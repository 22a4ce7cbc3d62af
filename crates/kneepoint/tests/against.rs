//! What an earlier run measured, measured again between the slices of a new one.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, fixture};
use kneepoint_vocab::findings::Verdict;
use kneepoint_vocab::{Findings, Phase, Proven};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// A recipe of a command, of a second or two for each variant.
fn recipe(run: &str) -> String {
    format!(
        r#"name = "bench"
summary = "a bench of its own"
operation = "rounds"

[workload]
kind = "command"

[workload.settings]
run = "{run}"
throughput = "rate: ([0-9]+)"

[sweep]
clients = ["1", "2"]
focus = "2"

[protocol]
slice_ms = 50
ramp_ms = 10
sweep_blocks = 4
effect_blocks = [4, 4]
budget_s = 120
"#
    )
}

/// Two benches, of which the new one is three times as fast, and a recipe of each.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, rate) in [("old", 1000), ("new", 3000)] {
        let text = format!("#!/bin/sh\nsleep 0.25\necho rate: $(( {rate} * $1 ))\n");
        fs::write(sandbox.path(name), text).unwrap();
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        let recipe = recipe(&format!("./{name} {{clients}}"));
        fs::write(sandbox.path(&format!("{name}.toml")), recipe).unwrap();
    }
    sandbox
}

fn before(sandbox: &Sandbox, words: &[&str]) {
    let ran = sandbox.run(&[&["run", "--tier", "fallback", "--out", "before"], words].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
}

#[test]
fn an_earlier_command_is_a_variant_in_the_same_blocks() {
    let _alone = alone();
    let sandbox = sandbox();
    before(&sandbox, &["old.toml"]);
    let words = ["run", "new.toml", "--against", "before", "--tier", "fallback"];
    let ran = sandbox.run(&[&words[..], &["--out", "after", "--json"]].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    for words in ["--against before: another binary, ", "/old; the baseline runs ", "/new"] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let findings: Findings = ran.json();
    let effect = findings.effects.iter().find(|effect| effect.variant.0 == "against").unwrap();
    // Where everything was grossly disturbed there is no ratio, and the rates are what they are.
    if let Some(ratio) = &effect.ratio {
        assert!((ratio.value.0 * 3.0 - 1.0).abs() < 0.01, "{ratio:?}");
        assert!(!matches!(effect.verdict, Verdict::Better), "{effect:?}");
    }
    assert_eq!(
        (effect.proven, effect.label.as_str()),
        (Proven::Yes, "as in before, another binary")
    );
    // At every level too, in each block beside the baseline.
    let record = kneepoint_lab::open(&sandbox.path("after")).unwrap();
    for trial in record.trials.iter().filter(|trial| trial.operations > 0) {
        let of = if trial.id.variant.0 == "against" { 1000.0 } else { 3000.0 };
        let ratio = trial.throughput().0 / (of * f64::from(trial.id.level.clients));
        assert!((ratio - 1.0).abs() < 0.01, "{:?}: {ratio}", trial.id);
    }
    let sweep = record.trials.iter().filter(|trial| trial.id.phase == Phase::Sweep);
    let places: BTreeSet<(u32, u32, &str)> = sweep
        .map(|trial| (trial.id.block, trial.id.level.clients, trial.id.variant.0.as_str()))
        .collect();
    for (block, clients) in [(0, 1), (0, 2), (3, 1), (3, 2)] {
        for variant in ["baseline", "against"] {
            assert!(places.contains(&(block, clients, variant)), "{places:?}");
        }
    }
    let shown = sandbox.run(&["report", "after"]);
    assert!(shown.prints("as in before, another binary"), "{}", shown.out);
    let compared = sandbox.run(&["compare", "before", "after"]);
    let next = "next    kneepoint run --against before new.toml\n";
    assert!(compared.out.contains(next), "{}", compared.out);
    let plain = sandbox.run(&["compare", "before", "after", "--markdown"]);
    assert!(!plain.out.contains("--against"), "{}", plain.out);
}

/// Each line is all that is printed, and nothing is made.
#[test]
fn what_cannot_be_measured_again_is_refused_in_one_line() {
    let _alone = alone();
    let sandbox = sandbox();
    before(&sandbox, &["old.toml"]);
    let refused = |words: &[&str], reported: &[&str]| {
        let words = [&["run", "--dry-run"], words].concat();
        sandbox.run(&words).refused(2, &[&["--against"], reported].concat());
    };
    refused(&["--against", "before", "old.toml"], &["before", "A/A control"]);
    let other = &["it is a run of bench, and this is one of "];
    refused(&["--against", "before", "sqlite-shared-cache"], other);
    refused(&["--against", "before", "--", "./new", "{clients}"], other);
    let recorded = fixture("sqlite-shared-cache").display().to_string();
    refused(&["--against", &recorded], &["short.toml: cannot be read"]);
    fs::write(sandbox.path("table.csv"), "clients,throughput\n1,10\n2,15\n4,17\n").unwrap();
    let imported = sandbox.run(&["import", "table.csv", "--cores", "2", "--out", "imported"]);
    assert!(matches!(imported.code, Some(0 | 4)), "{imported:?}");
    refused(&["--against", "imported", "new.toml"], &["another tool measured it"]);
    let nowhere = sandbox.run(&["run", "--dry-run", "--against", "nowhere", "new.toml"]);
    nowhere.refused(1, &["--against", "nowhere", "not a run directory"]);
    let both = ["run", "--resume", "before", "--against", "before"];
    sandbox.run(&both).refused(2, &["cannot be used with"]);
    // Files that changed since: what they held is not on record.
    let later = SystemTime::now() + Duration::from_secs(60);
    for (file, put_back) in [("old", true), ("old.toml", false)] {
        let changed = fs::File::options().append(true).open(sandbox.path(file)).unwrap();
        let then = changed.metadata().unwrap().modified().unwrap();
        changed.set_modified(later).unwrap();
        refused(&["--against", "before", "new.toml"], &[file, "was changed since"]);
        if put_back {
            changed.set_modified(then).unwrap();
        }
    }
    fs::write(sandbox.path("old.toml"), recipe("./new {clients}")).unwrap();
    refused(&["--against", "before", "new.toml"], &["its program was ", "lead to "]);
    fs::write(sandbox.path("old.toml"), recipe("./old {clients}")).unwrap();
    fs::remove_file(sandbox.path("old")).unwrap();
    refused(&["--against", "before", "new.toml"], &["/old is gone"]);
    fs::remove_file(sandbox.path("old.toml")).unwrap();
    refused(&["--against", "before", "new.toml"], &["old.toml"]);
    let names = ["before", "imported", "new", "new.toml", "table.csv"];
    sandbox.assert_clean(None, &names);
}

/// A program that says how many rounds it makes a second.
fn built(sandbox: &Sandbox, name: &str, rate: u32) -> bool {
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\n\
         int main(void) {{ usleep(900000); printf(\"rate: {rate}\\n\"); return 0; }}\n"
    );
    fs::write(sandbox.path("bench.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg("-Wl,--build-id").arg("-o").arg(sandbox.path(name)).arg(sandbox.path("bench.c"));
    compiler.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn the_same_binary_and_another_build_are_told_apart() {
    const TEST: &str = "the_same_binary_and_another_build_are_told_apart";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !built(&sandbox, "bench", 1000) {
        println!("SKIP {TEST}: needs a C compiler");
        return;
    }
    let counting = ["--levels", "1", "--throughput", "rate: ([0-9]+)"];
    let words = [&counting[..], &["--budget", "10s", "--", "./bench", "{clients}"]].concat();
    before(&sandbox, &words);
    let planned = |command: &[&str]| {
        let words = ["run", "--dry-run", "--against", "before"];
        sandbox.run(&[&words[..], &counting, &["--"], command].concat())
    };
    let same = planned(&["./bench", "{clients}", "--fast"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.err.contains("the same binary, ") && same.err.contains(", build "), "{same:?}");
    assert!(same.prints("as in before, the same binary over baseline"), "{same:?}");
    assert!(same.prints("also with as in before"), "{same:?}");
    assert!(built(&sandbox, "newer", 2000));
    let other = planned(&["./newer", "{clients}"]);
    assert!(other.err.contains("another binary, ") && other.code == Some(0), "{other:?}");
    planned(&["./bench", "{clients}"]).refused(2, &["A/A control"]);
    assert!(built(&sandbox, "bench", 2000));
    planned(&["./newer", "{clients}"])
        .refused(2, &["was built anew since: build ", "another name"]);
}

//! A run that was cut off goes on, and its report is that of its record.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, copy_run, eventually, finished};
use kneepoint_vocab::{Disposition, Phase, RunRecord, TrialRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const RECIPE: &str = r#"
name = "short"
summary = "a run that is cut off"
operation = "transactions"
treatments = ["sqlite-private-cache"]
[workload]
kind = "sqlite-oltp"
[workload.settings]
rows = 1000
[sweep]
clients = ["1", "2"]
focus = "2"
[protocol]
slice_ms = 60
ramp_ms = 10
sweep_blocks = 2
effect_blocks = [2, 2]
budget_s = 120
"#;

fn begun() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("short.toml"), RECIPE).unwrap();
    sandbox
}

const RUN: [&str; 6] = ["run", "short.toml", "--tier", "fallback", "--out", "run"];

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().split_inclusive('\n').map(str::to_owned).collect()
}

/// The run as it was when so many slices were on disk, with a piece of the next.
fn cut(whole: &Path, to: &Path, slices: usize) {
    copy_run(whole, to);
    fs::remove_file(to.join("end.json")).unwrap();
    let trials = lines(&whole.join("trials.jsonl"));
    let kept = trials[..slices].concat();
    let piece = trials.get(slices).map_or("", |next| &next[..next.len() / 2]);
    fs::write(to.join("trials.jsonl"), kept + piece).unwrap();
    let last_start = trials[..slices].last().map_or(0, |line| {
        let trial: TrialRecord = serde_json::from_str(line).unwrap();
        trial.id.start
    });
    let started = |line: &String| {
        let value: Value = serde_json::from_str(line).unwrap();
        value["start"].as_u64().unwrap() <= u64::from(last_start)
    };
    let starts: Vec<_> = lines(&whole.join("arms.jsonl")).into_iter().filter(started).collect();
    fs::write(to.join("arms.jsonl"), starts.concat()).unwrap();
}

/// How many slices stand for each place of the design.
fn standing(record: &RunRecord) -> BTreeMap<(Phase, u32, u32), usize> {
    let mut places = BTreeMap::new();
    for trial in record.trials.iter().filter(|trial| trial.id.phase != Phase::WarmUp) {
        let stands = trial.disposition != Disposition::Disturbed;
        let place = (trial.id.phase, trial.id.block, trial.id.position);
        *places.entry(place).or_default() += usize::from(stands);
    }
    places
}

/// Findings without what a clock has reported.
fn findings(sandbox: &Sandbox, directory: &str) -> Value {
    fn timeless(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("elapsed");
                fields.values_mut().for_each(timeless);
            }
            Value::Array(items) => items.iter_mut().for_each(timeless),
            _ => {}
        }
    }
    let done = sandbox.run(&["report", directory, "--json"]);
    let mut value = done.json();
    timeless(&mut value);
    value
}

/// The run goes on where it was cut off, after so many slices.
fn goes_on(sandbox: &Sandbox, trials: &[String], slices: usize) {
    let name = format!("cut-{slices}");
    cut(&sandbox.path("run"), &sandbox.path(&name), slices);
    let done = sandbox.run(&["run", "--resume", &name]);
    assert!(matches!(done.code, Some(0 | 4)), "{slices} of {}: {done:?}", trials.len());
    let record = kneepoint_lab::open(&sandbox.path(&name)).unwrap();
    assert_eq!(record.torn, Vec::<String>::new(), "{slices}");
    assert!(record.end.is_some(), "{slices}");
    let places = standing(&record);
    assert!(places.values().all(|count| *count == 1), "{slices}: {places:?}");
    let planned = |place: &&(Phase, u32, u32)| place.0 == Phase::Effects || place.1 < 2;
    // Two blocks of two levels, and two of four variants.
    assert_eq!(places.keys().filter(planned).count(), 2 * 2 + 2 * 4, "{slices}");
    let text = fs::read_to_string(sandbox.path(&name).join("trials.jsonl")).unwrap();
    let kept = trials[..slices].iter().filter(|line| text.contains(line.as_str())).count();
    // What is not there as it was is of the block in which it was cut off.
    assert!(kept + 4 >= slices, "{kept} of {slices}");
    let reported = sandbox.run(&["report", &name]);
    assert_eq!(reported.out, done.out, "{slices}");
}

/// With all on record it has the report that it would have had.
fn ends_as_it_would_have(sandbox: &Sandbox) {
    copy_run(&sandbox.path("run"), &sandbox.path("cut"));
    fs::remove_file(sandbox.path("cut/end.json")).unwrap();
    assert!(matches!(sandbox.run(&["run", "--resume", "cut"]).code, Some(0 | 4)));
    for name in ["trials.jsonl", "arms.jsonl", "stacks.jsonl"] {
        let read = |run: &str| fs::read(sandbox.path(run).join(name)).unwrap();
        assert!(read("cut") == read("run"), "{name}");
    }
    assert_eq!(findings(sandbox, "cut"), findings(sandbox, "run"));
}

fn another_plan_is_refused(sandbox: &Sandbox) {
    fs::remove_file(sandbox.path("run/end.json")).unwrap();
    fs::write(sandbox.path("short.toml"), RECIPE.replace("slice_ms = 60", "slice_ms = 70"))
        .unwrap();
    let done = sandbox.run(&["run", "--resume", "run"]);
    done.refused(1, &["run: ", "not what they were"]);
}

/// One run for all: each is some seconds of the suite.
#[test]
fn a_run_goes_on_wherever_it_was_cut_off() {
    let _alone = alone();
    let sandbox = begun();
    let done = sandbox.run(&RUN);
    assert!(matches!(done.code, Some(0 | 4)), "{done:?}");
    let trials = lines(&sandbox.path("run/trials.jsonl"));
    let all = trials.len();
    let warm = trials.iter().filter(|line| line.contains("warm-up")).count();
    for slices in [0, warm + 1, warm + (all - warm) / 2] {
        goes_on(&sandbox, &trials, slices);
    }
    ends_as_it_would_have(&sandbox);
    another_plan_is_refused(&sandbox);
}

#[test]
fn a_run_that_was_killed_or_interrupted_goes_on() {
    let _alone = alone();
    for signal in ["KILL", "INT"] {
        let sandbox = begun();
        let child = sandbox.spawn(&RUN);
        let trials = sandbox.path("run/trials.jsonl");
        eventually("some slices are on disk", || {
            fs::read_to_string(&trials).is_ok_and(|text| text.matches("\"sweep\"").count() > 2)
        });
        let other = sandbox.run(&["run", "--resume", "run"]);
        other.refused(1, &["another Kneepoint is writing it"]);
        let line = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
        finished(child);
        let done = sandbox.run(&["run", "--resume", "run"]);
        assert!(matches!(done.code, Some(0 | 4)), "{done:?}");
        let places = standing(&kneepoint_lab::open(&sandbox.path("run")).unwrap());
        assert!(places.values().all(|count| *count == 1), "{places:?}");
        let again = sandbox.run(&["run", "--resume", "run"]);
        again.refused(1, &["run: ", "has ended", "kneepoint report"]);
    }
}

#[test]
fn what_cannot_go_on_is_refused() {
    let sandbox = begun();
    let done = sandbox.run(&["run", "--resume", "nowhere"]);
    done.refused(1, &["nowhere: not a run directory"]);
    let done = sandbox.run(&["run", "short.toml", "--resume", "run"]);
    done.refused(2, &["--resume"]);
}

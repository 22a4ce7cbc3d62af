//! Runs beside each other: recorded ones, copies of them with planted differences, and tables.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, fixture};
use kneepoint_analysis::compare::condition::Condition;
use kneepoint_analysis::compare::{Run, compare};
use kneepoint_vocab::comparison::{Answer, ComparedPart, ComparisonCaveat, RatioVerdict, Unlike};
use kneepoint_vocab::findings::{Name, Place};
use kneepoint_vocab::{Comparison, RunRecord};
use serde_json::Value;
use std::fs;

fn recorded() -> RunRecord {
    kneepoint_lab::open(&fixture("sqlite-shared-cache")).unwrap()
}

/// The run with so many times the operations.
fn times(mut record: RunRecord, part: (u64, u64)) -> RunRecord {
    for trial in &mut record.trials {
        trial.operations = trial.operations * part.0 / part.1;
    }
    record
}

fn compared(before: &RunRecord, after: &RunRecord, asked: &[&str]) -> Comparison {
    let asked: Vec<_> = asked.iter().map(|text| Condition::parse(text).unwrap()).collect();
    let findings = [before, after].map(kneepoint_analysis::analyse);
    let run = |name, record, findings| Run { name, record, findings };
    let runs = [run("before", before, &findings[0]), run("after", after, &findings[1])];
    compare(&runs, &asked).unwrap()
}

#[test]
fn a_planted_slow_down_is_found_at_every_level() {
    let before = recorded();
    let found = compared(&before, &times(before.clone(), (6, 10)), &["throughput < -5%"]);
    let [pair] = &found.pairs[..] else { panic!("{:?}", found.pairs) };
    assert_eq!(pair.levels.len(), 3);
    for level in pair.levels.iter().chain([&pair.peak]) {
        assert!((level.ratio.value.0 - 0.6).abs() < 0.01, "{level:?}");
        assert!(level.ratio.low.0 < 0.59 && level.ratio.high.0 > 0.61, "{level:?}");
        assert_eq!(level.verdict, RatioVerdict::Slower, "{level:?}");
    }
    assert_eq!(found.conditions[0].answer, Answer::Holds, "{:?}", found.conditions);
    let faster = compared(&times(before.clone(), (6, 10)), &before, &["throughput < -5%"]);
    assert!(faster.pairs[0].levels.iter().all(|level| level.verdict == RatioVerdict::Faster));
    assert_eq!(faster.conditions[0].answer, Answer::DoesNotHold);
}

/// One page with the curves of all runs in one picture, the tables, and what limits them.
#[test]
fn a_page_shows_the_curves_in_one_picture() {
    let sandbox = Sandbox::new();
    let runs = ["sqlite-shared-cache", "fallback"].map(fixture);
    let arguments = ["compare", runs[0].to_str().unwrap(), runs[1].to_str().unwrap()];
    let ran = sandbox.run(&[&arguments[..], &["--html", "page.html"]].concat());
    assert!(ran.out.ends_with("report  page.html\n"), "{ran:?}");
    let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
    for words in [
        "<title>sqlite-shared-cache: sqlite-shared-cache, fallback · Kneepoint</title>",
        "fallback gives 0.93×",
        "fallback over sqlite-shared-cache",
        "core-seconds, idle ones too",
        "Not alike: collector",
        "Two dates are not a pair",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Two widths of the picture, and the legend.
    assert_eq!(page.matches("class=\"beside b0\"").count(), 3);
    assert_eq!(page.matches("<svg class=\"wide\"").count(), 1);
    let again = sandbox.run(&[&arguments[..], &["--html", "again.html", "--json"]].concat());
    assert!(serde_json::from_str::<Value>(&again.out).is_ok());
    assert_eq!(fs::read_to_string(sandbox.path("again.html")).unwrap(), page);
    let nowhere = sandbox.run(&[&arguments[..], &["--html", "no/page.html"]].concat());
    nowhere.refused(1, &["no/page.html", "cannot write"]);
}

#[test]
fn two_percent_within_the_error_are_not_distinguishable() {
    let before = recorded();
    let found = compared(&before, &times(before.clone(), (102, 100)), &["throughput < -1%"]);
    for level in &found.pairs[0].levels {
        let RatioVerdict::NotDistinguishable { difference, needs } = level.verdict else {
            panic!("{level:?}")
        };
        assert!((difference.0 - 0.02).abs() < 0.002, "{level:?}");
        assert!(needs.unwrap().0 > 1.0, "{level:?}");
    }
    assert_eq!(found.conditions[0].answer, Answer::Undecided);
}

/// One operation costs C ÷ X; its lines add up to that, and a lock's price is what it loses.
#[test]
fn the_price_of_an_operation_is_the_sum_of_its_lines() {
    let before = recorded();
    let found = compared(&before, &times(before.clone(), (1, 2)), &[]);
    let price = found.pairs[0].price.as_ref().unwrap();
    let sum = |of: fn(&kneepoint_vocab::comparison::PriceLine) -> f64| -> f64 {
        price.lines.iter().map(of).sum()
    };
    let over = sum(|line| line.over.map_or(0.0, |price| price.value.0));
    let run = sum(|line| line.run.map_or(0.0, |price| price.value.0));
    assert!((over / price.over.value.0 - 1.0).abs() < 1e-6, "{over} {price:?}");
    assert!((run / price.run.value.0 - 1.0).abs() < 1e-6, "{run} {price:?}");
    assert!((price.run.value.0 / price.over.value.0 - 2.0).abs() < 0.02);
    let place = Place::In("sqlite3BtreeEnter".to_owned());
    let part = ComparedPart::Cause { name: Name::object("mutex", place) };
    let lock = price.lines.iter().find(|line| line.part == part).unwrap();
    let findings = kneepoint_analysis::analyse(&before);
    let cause =
        findings.causes.iter().find(|cause| cause.name.to_string() == "mutex in sqlite3BtreeEnter");
    let cause = cause.unwrap();
    let point = findings.curve.points.iter().find(|point| point.level == findings.focus).unwrap();
    let lost = cause.lost.value.0 / point.throughput.value.0;
    assert!((lock.over.unwrap().value.0 / lost - 1.0).abs() < 0.05, "{lost} {lock:?}");
}

#[test]
fn what_is_not_alike_is_reported() {
    let before = recorded();
    let mut after = before.clone();
    after.host.kernel = "Linux 6.1.90".to_owned();
    after.host.cores = 16;
    for start in &mut after.variants {
        let cache = start.settings.iter_mut().find(|(name, _)| name == "cache size").unwrap();
        cache.1 = "-4000".to_owned();
        start.environment.push(("LD_PRELOAD".to_owned(), "libjemalloc.so.2".to_owned()));
    }
    let found = compared(&before, &after, &[]);
    let values = ["-2000", "-4000"].map(|value| Some(value.to_owned())).to_vec();
    let [Unlike::Cores { .. }, Unlike::Kernel { .. }, setting] = &found.not_alike[..] else {
        panic!("{:?}", found.not_alike);
    };
    assert_eq!(*setting, Unlike::Named { name: "cache size".to_owned(), values });
    assert!(
        compared(&before, &before.clone(), &[]).not_alike.is_empty(),
        "nor what starts differ in"
    );
}

/// With few starts the interval is wider than what the blocks say.
#[test]
fn the_luck_of_one_start_is_allowed_for() {
    let before = recorded();
    let mut once = before.clone();
    once.trials.iter_mut().for_each(|trial| trial.id.start = 0);
    let width = |found: &Comparison| {
        let ratio = found.pairs[0].levels[0].ratio;
        (ratio.high.0 / ratio.low.0).ln() / 2.0
    };
    let found = compared(&before, &once, &[]);
    let luck = 1.5 * before.plan.smallest_effect.0.ln_1p();
    assert!(width(&found) > luck, "{} {luck}", width(&found));
    assert!(width(&compared(&before, &before.clone(), &[])) < luck);
    let one_start =
        |caveat: &ComparisonCaveat| matches!(caveat, ComparisonCaveat::FewStarts { starts: 1, .. });
    assert!(found.caveats.iter().any(one_start), "{:?}", found.caveats);
}

#[test]
fn recorded_runs_are_reported_as_they_were() {
    let sandbox = Sandbox::new();
    let (before, after) = (fixture("sqlite-shared-cache"), fixture("fallback"));
    let words = |form: &[&str]| {
        let paths = [before.to_str().unwrap(), after.to_str().unwrap()];
        let ran = sandbox.run(&[&["compare"], &paths[..], form].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(4), ""), "one is not trustworthy: {ran:?}");
        ran.out
    };
    let text = words(&[]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!("compare-terminal", text);
    insta::assert_snapshot!(
        "compare-markdown",
        words(&["--markdown", "--fail-if", "throughput<-5%"])
    );
    let json: Comparison = serde_json::from_str(&words(&["--json"])).unwrap();
    assert_eq!(json.pairs[0].unmatched, [4]);
    sandbox.assert_clean(None, &[]);
}

/// Results of another tool as a run directory `name`: three repetitions at two levels.
fn table(sandbox: &Sandbox, name: &str, rates: [f64; 2]) {
    let mut text = "clients,throughput,block\n".to_owned();
    for (block, noise) in [0.99, 1.0, 1.01].into_iter().enumerate() {
        for (clients, rate) in [1, 8].into_iter().zip(rates) {
            text += &format!("{clients},{:.1},{block}\n", rate * noise);
        }
    }
    fs::write(sandbox.path("table.csv"), text).unwrap();
    let ran = sandbox.run(&["import", "table.csv", "--cores", "2", "--out", name]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_condition_that_holds_has_an_exit_code_of_its_own() {
    let sandbox = Sandbox::new();
    table(&sandbox, "before", [1000.0, 4000.0]);
    table(&sandbox, "same", [1001.0, 4010.0]);
    table(&sandbox, "after", [1000.0, 3000.0]);
    let asked = |run: &str, condition: &str| {
        let ran = sandbox.run(&["compare", "before", run, "--fail-if", condition]);
        assert_eq!(ran.err, "", "{ran:?}");
        let words: Vec<&str> = ran.out.split_whitespace().collect();
        (ran.code, words.join(" "))
    };
    let (code, text) = asked("after", "throughput < -5%");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("throughput < -5% holds: after at"), "{text}");
    assert!(text.contains("Two dates are not a pair"), "{text}");
    let (code, text) = asked("after", "throughput@1 < -5%");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("does not hold"), "{text}");
    let (code, text) = asked("same", "throughput > 0.5%");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("is undecided") && text.contains("Measure longer"), "{text}");
    let json: Value =
        serde_json::from_str(&sandbox.run(&["compare", "before", "after", "same", "--json"]).out)
            .unwrap();
    assert_eq!(json["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(json["pairs"][0]["levels"][1]["verdict"]["verdict"], "slower");
    assert!(json["pairs"][0]["price"].is_null(), "nobody counted cores");
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let given = |name: &str| fixture(name).to_str().unwrap().to_owned();
    let (shared, treated) = (given("sqlite-shared-cache"), given("treated-curve"));
    table(&sandbox, "imported", [1000.0, 2000.0]);
    let refused = |directories: &[&str], code, words: &[&str]| {
        sandbox.run(&[&["compare"], directories].concat()).refused(code, words);
    };
    refused(&[&shared], 2, &["two run directories"]);
    refused(&[&shared, &shared], 2, &["given twice"]);
    refused(&[&shared, &treated], 2, &["one experiment"]);
    refused(&[&shared, "imported"], 2, &["one experiment"]);
    refused(&[&shared, "nowhere"], 1, &["nowhere"]);
    refused(&[&shared, "imported", "--fail-if", "speed < 1%"], 2, &["throughput < -5%"]);
    common::copy_run(&fixture("sqlite-shared-cache"), &sandbox.path("empty"));
    fs::write(sandbox.path("empty/trials.jsonl"), "").unwrap();
    refused(&[&shared, "empty"], 2, &["empty: nothing was measured"]);
}

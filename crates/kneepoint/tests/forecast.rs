//! `kneepoint predict` and `kneepoint simulate` from files to what they print.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn kneepoint(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kneepoint")).args(words).output().expect("the binary runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A run directory of a curve on so many cores.
fn measured(folder: &Path, levels: &[u32], cores: u32) -> String {
    let mut table = "clients,throughput,block\n".to_owned();
    for block in 1..=3_u32 {
        for &clients in levels {
            let n = f64::from(clients.min(cores));
            let x = 1000.0 * n / (1.0 + 0.03 * (n - 1.0)) * (1.0 + 0.002 * f64::from(block));
            table.push_str(&format!("{clients},{x},{block}\n"));
        }
    }
    let csv = folder.join("curve.csv");
    fs::write(&csv, table).expect("written");
    let run = folder.join("run").display().to_string();
    let csv = csv.display().to_string();
    let made = kneepoint(&["import", &csv, "--cores", &cores.to_string(), "--out", &run]);
    assert!(Path::new(&run).is_dir(), "{}", String::from_utf8_lossy(&made.stderr));
    run
}

#[test]
fn a_curve_is_continued_with_an_interval_that_holds_the_truth() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = measured(folder.path(), &[1, 2, 4, 8, 16], 64);
    let output = kneepoint(&["predict", &run, "--clients", "32,64", "--json"]);
    let printed = json(&output);
    let forecasts = printed["forecasts"].as_array().expect("a list");
    assert_eq!(forecasts.len(), 2);
    for (forecast, n) in forecasts.iter().zip([32.0, 64.0]) {
        let truth = 1000.0 * n / (1.0 + 0.03 * (n - 1.0));
        let at = |name: &str| forecast[name].as_f64().expect("a number");
        assert!(at("low") < truth && truth < at("high"), "{truth}: {forecast}");
        assert!((at("throughput") / truth - 1.0).abs() < 0.4, "{truth}: {forecast}");
    }
    assert_eq!(printed["measured"].as_array().map(Vec::len), Some(5));
    let text = String::from_utf8(kneepoint(&["predict", &run]).stdout).expect("text");
    let last = text.lines().find(|line| line.trim_start().starts_with("32 ")).expect("a line");
    assert!(last.contains(" – "), "twice the most clients, with an interval: {text}");
}

#[test]
fn what_the_levels_do_not_tell_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = measured(folder.path(), &[1, 2, 4, 8], 2);
    let refused = |words: &[&str]| {
        let output = kneepoint(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let said = refused(&["predict", &run, "--cores", "64", "--clients", "64"]);
    assert!(said.contains("2 levels with different min(clients, cores)"), "{said}");
    let other = tempfile::tempdir().expect("a folder");
    let run = measured(other.path(), &[1, 2, 4], 64);
    let said = refused(&["predict", &run, "--clients", "64"]);
    assert!(said.contains("measure up to 8"), "{said}");
}

#[test]
fn the_same_seed_simulates_the_same_bytes() {
    let twin = "../../crates/model/tests/twins/threads.toml";
    let words = ["simulate", twin, "--cores", "1..8", "--precision", "5%", "--json", "--seed"];
    let run = |seed: &str| {
        let mut all = words.to_vec();
        all.push(seed);
        let output = kneepoint(&all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first, run("8"));
    let levels: Value = serde_json::from_slice(&first).expect("JSON");
    let levels = levels["levels"].as_array().expect("a list");
    let rates: Vec<f64> =
        levels.iter().map(|it| it["throughput"].as_f64().expect("a number")).collect();
    assert_eq!(rates.len(), 4);
    assert!(rates[3] > 2.0 * rates[0], "more cores help here: {rates:?}");
}

/// Clients of four cores that share one lock.
const LOCKED: &str = r#"
name = "locked"
[cores]
count = 4
[scheduler]
switch = "1 us"
wake = "1 us"
idle_wake = "5 us"
[lock.pool]
kind = "futex"
[[thread]]
name = "client"
count = "clients"
program = [
  { run = "30 us", cv = 1.0 },
  { hold = "pool", steps = [{ run = "15 us", cv = 1.0 }] },
]
"#;

#[test]
fn a_simulated_run_is_reported_calibrated_and_asked_what_if() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("locked.toml"), LOCKED).expect("written");
    let words = ["simulate", &at("locked.toml"), "--clients", "1..8", "--precision", "3%"];
    let output = kneepoint(&[&words[..], &["--out", &at("run")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = json(&kneepoint(&["report", &at("run"), "--json"]));
    let first = report["causes"][0]["name"].as_str().expect("a cause").to_owned();
    assert!(first.contains("pool"), "{first}");
    assert_eq!(report["next"]["why_not"], Value::Null, "{}", report["next"]);
    let twin = String::from_utf8(kneepoint(&["calibrate", &at("run")]).stdout).expect("text");
    fs::write(at("twin.toml"), &twin).expect("written");
    let again = kneepoint(&["simulate", &at("twin.toml"), "--clients", "8", "--precision", "5%"]);
    assert!(again.status.success(), "{twin}\n{}", String::from_utf8_lossy(&again.stderr));
    let asked = ["predict", &at("run"), "--clients", "8", "--json", "--without", "pool"];
    let said = json(&kneepoint(&asked));
    let ratio = |name: &str| said["twin"]["forecasts"][0][name].as_f64().expect("a number");
    assert!(ratio("ratio_low") > 1.0 && ratio("ratio") < ratio("ratio_high"), "{said}");
    let wrong = kneepoint(&["predict", &at("run"), "--without", "no such lock"]);
    let said = String::from_utf8(wrong.stderr).expect("text");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(wrong.status.code() == Some(1) && said.contains("pool"), "{said}");
}

#[test]
fn a_variant_is_forecast_by_what_it_brought() {
    let run = "../../fixtures/runs/sqlite-shared-cache";
    let asked =
        |words: &[&str]| kneepoint(&[&["predict", run, "--json", "--clients"], words].concat());
    let said = json(&asked(&["2", "--variant", "private"]));
    assert_eq!(said["variant"], "private page caches");
    let own = |said: &Value, name: &str| {
        said["twin"]["forecasts"][0][name].as_f64().unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let plain = json(&asked(&["2"]));
    let ratio = own(&said, "throughput") / own(&plain, "throughput");
    assert!((own(&said, "ratio") / ratio - 1.0).abs() < 1e-9, "{said}");
    assert!(own(&said, "ratio_low") > 1.0, "it was measured there: {said}");
    let far = json(&asked(&["4", "--variant", "sqlite-private-cache"]));
    let wide = |said: &Value| own(said, "ratio_high") / own(said, "ratio_low");
    assert!(wide(&far) > wide(&said), "{far}");
    let both = json(&asked(&["2", "--variant", "private", "--without", "BtreeEnter"]));
    let same = own(&both, "ratio") / own(&said, "ratio");
    assert!((same - 1.0).abs() < 1e-9, "where it was tried, it brings what it brought: {both}");
    let lock = own(&json(&asked(&["4", "--without", "BtreeEnter"])), "ratio");
    let both = json(&asked(&["4", "--variant", "private", "--without", "BtreeEnter"]));
    let there = own(&json(&asked(&["2", "--without", "BtreeEnter"])), "ratio");
    let rest = own(&said, "ratio") / there;
    assert!((own(&both, "ratio") / (lock * rest) - 1.0).abs() < 1e-9, "{both}");
    for (name, why) in [("sqlite", "give more of it"), ("nothing", "no variant is called")] {
        let refused = String::from_utf8(asked(&["2", "--variant", name]).stderr).expect("text");
        assert!(refused.lines().count() == 1 && refused.contains(why), "{refused}");
    }
    let run = "../../fixtures/runs/treated-curve";
    let far = kneepoint(&["predict", run, "--variant", "private", "--clients", "64"]);
    let said = String::from_utf8(far.stdout).expect("text");
    assert!(said.contains("at its cores"), "its own curve is continued: {said}");
    let refused =
        kneepoint(&["predict", run, "--variant", "private", "--clients", "64", "--cores", "64"]);
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(said.contains("2 levels with different"), "its own curve is continued: {said}");
}

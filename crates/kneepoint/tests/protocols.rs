//! Beyond the default plan: a published protocol, numbers of cores, results of other tools.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, short_recipe};
use kneepoint_vocab::{Findings, Phase, ProtocolName};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const SYSBENCH: &str = include_str!("../../rig/tests/output/sysbench-oltp.txt");

/// A folder with the short recipe, and the same with a published protocol.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let short = short_recipe(1000);
    fs::write(sandbox.path("short.toml"), &short).unwrap();
    let published = "\n[protocol.published]\nwarm_up_s = 1\nslice_s = 1\nclients = [1, 2]\n\
        [protocol.published.settings]\nrows = 3000\n";
    fs::write(sandbox.path("published.toml"), format!("{short}{published}")).unwrap();
    sandbox
}

#[test]
fn a_published_protocol_runs_the_baseline_alone_and_says_so() {
    let _alone = common::alone();
    let sandbox = sandbox();
    let protocol = ["run", "published.toml", "--protocol", "published"];
    let plan = sandbox.run(&[&protocol[..], &["--dry-run"]].concat());
    assert!(
        plan.prints("published: 1 s a level, once, after 1 s of warm-up") && plan.code == Some(0),
        "{plan:?}"
    );
    let ran = sandbox.run(&[&protocol[..], &["--out", "run", "--json"]].concat());
    let findings: Findings = ran.json();
    assert_eq!(findings.protocol.name, ProtocolName::Published);
    assert_eq!(findings.protocol.stopped_by.as_str(), "planned blocks");
    assert!(findings.effects.is_empty(), "{findings:?}");
    let run = kneepoint_lab::open(&sandbox.path("run")).unwrap();
    assert_eq!(run.variants.len(), 1, "the baseline is started once, and nothing else");
    let rows = run.variants[0].proofs.iter().find(|proof| proof.what.starts_with("rows"));
    assert_eq!(rows.map(|proof| proof.found.as_str()), Some("3000"), "{:?}", run.variants);
    let sweep: Vec<_> = run.trials.iter().filter(|t| t.id.phase == Phase::Sweep).collect();
    assert_eq!(sweep.iter().map(|trial| trial.id.level.clients).collect::<Vec<_>>(), [1, 2]);
    // On a machine that stood still meanwhile a slice is not one to count, nor taken once more.
    let counted = sweep.iter().filter(|trial| trial.counts()).count();
    assert_eq!(findings.curve.points.len(), counted, "{findings:?}");
    let reported = sandbox.run(&["report", "run"]);
    assert!(reported.prints("published protocol"), "{reported:?}");
}

/// A treatment named in the sweep is measured at every level of every block, and a published
/// protocol does without it.
#[test]
fn a_treatment_of_the_sweep_has_its_curve() {
    let _alone = common::alone();
    let sandbox = sandbox();
    for name in ["short.toml", "published.toml"] {
        let text = fs::read_to_string(sandbox.path(name)).unwrap();
        let asked = "focus = \"2\"\ntreatments = [\"sqlite-private-cache\"]";
        fs::write(sandbox.path(name), text.replacen("focus = \"2\"", asked, 1)).unwrap();
    }
    let plan = sandbox.run(&["run", "short.toml", "--dry-run"]);
    assert!(plan.out.contains("sweep       also with "), "{plan:?}");
    let protocol = ["run", "published.toml", "--protocol", "published", "--dry-run"];
    let plan = sandbox.run(&protocol);
    assert!(plan.code == Some(0) && !plan.out.contains("also with"), "{plan:?}");
    let ran = sandbox.run(&["run", "short.toml", "--levels", "1,2,3", "--out", "run", "--json"]);
    let findings: Findings = ran.json();
    let [treated] = &findings.treated[..] else { panic!("{ran:?}") };
    let clients = |curve: &kneepoint_vocab::findings::Curve| -> Vec<u32> {
        curve.points.iter().map(|point| point.level.clients).collect()
    };
    assert_eq!(clients(&treated.curve), [1, 2, 3]);
    assert_eq!(clients(&findings.curve), [1, 2, 3]);
    let run = kneepoint_lab::open(&sandbox.path("run")).unwrap();
    let of_sweep =
        |trial: &&kneepoint_vocab::TrialRecord| trial.id.phase == Phase::Sweep && trial.counts();
    let cells: BTreeSet<(u32, String, u32)> = run
        .trials
        .iter()
        .filter(of_sweep)
        .filter(|trial| trial.id.block < 2)
        .map(|trial| (trial.id.block, trial.id.variant.0.clone(), trial.id.level.clients))
        .collect();
    assert_eq!(cells.len(), 2 * 2 * 3, "{cells:?}");
    let reported = sandbox.run(&["report", "run"]);
    assert!(reported.out.lines().any(|line| line.starts_with("treated ")), "{reported:?}");
}

#[test]
fn a_published_protocol_that_cannot_be_is_refused() {
    let sandbox = sandbox();
    let run = |more: &[&str]| sandbox.run(&[&["run"], more, &["--protocol", "published"]].concat());
    run(&["short.toml"]).refused(2, &["short has no published protocol", "those that have one"]);
    run(&["published.toml", "--budget", "1s"]).refused(1, &["budget ends before the first slice"]);
    assert_eq!(sandbox.listed(), ["published.toml", "short.toml"]);
}

#[test]
fn cores_are_a_second_axis() {
    let _alone = common::alone();
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("SKIP cores_are_a_second_axis: needs two cores");
        return;
    }
    let sandbox = sandbox();
    let arguments = ["run", "short.toml", "--cores", "1,2"];
    let plan = sandbox.run(&[&arguments[..], &["--dry-run"]].concat());
    assert!(plan.out.contains("cores       1, 2") && plan.out.contains("1, 2"), "{plan:?}");
    let ran = sandbox.run(&[&arguments[..], &["--out", "run", "--json"]].concat());
    let findings: Findings = ran.json();
    let cores: Vec<u32> = findings.by_cores.iter().map(|curve| curve.cores).collect();
    assert_eq!(cores, [1, 2]);
    let measured: BTreeSet<(u32, u32)> = kneepoint_lab::open(&sandbox.path("run"))
        .unwrap()
        .trials
        .iter()
        .filter(|trial| trial.id.phase == Phase::Sweep && trial.counts())
        .map(|trial| (trial.id.level.cores, trial.id.level.clients))
        .collect();
    assert_eq!(measured, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn cores_that_are_not_there_are_refused() {
    let sandbox = sandbox();
    sandbox.run(&["run", "short.toml", "--cores", "0"]).refused(2, &["--cores"]);
    let refused = sandbox.run(&["run", "short.toml", "--cores", "5000"]);
    refused.refused(1, &["the system cannot have 5000 cores"]);
    let refused = sandbox.run(&["run", "short.toml", "--generator-cores", "5000"]);
    refused.refused(1, &["cannot have 5000 of"]);
}

#[test]
fn results_of_a_tool_become_a_report() {
    let sandbox = Sandbox::new();
    for threads in ["2", "4", "8"] {
        let text = SYSBENCH.replace("threads: 2", &format!("threads: {threads}"));
        fs::write(sandbox.path(threads), text).unwrap();
    }
    let ran = sandbox.run(&["import", "2", "4", "8", "--cores", "2", "--out", "run", "--json"]);
    let findings: Findings = ran.json();
    assert_eq!(findings.protocol.name, ProtocolName::Imported);
    assert_eq!(findings.curve.points.len(), 3);
    assert_eq!((findings.operation.as_str(), findings.host.cores), ("transactions", 2));
    let again = sandbox.run(&["report", "run"]);
    assert!(again.out.contains("imported from sysbench") || again.out.contains("imported"));
    assert!(sandbox.path("run/report.html").exists());
    sandbox.run(&["import", "2"]).refused(1, &["2:4: ", "--cores N"]);
    sandbox.run(&["import", "absent"]).refused(1, &["absent: cannot be read"]);
    sandbox.run(&["import", "2", "--format", "fio"]).refused(1, &["not the JSON report of fio"]);
    sandbox.run(&["import"]).refused(2, &["<FILES>"]);
}

#[test]
fn published_series_can_be_imported() {
    let series = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/series");
    let Ok(text) = fs::read_to_string(series.join("usl_examples.csv")) else {
        println!("SKIP published_series_can_be_imported: no usl_examples.csv beside the checkout");
        return;
    };
    let sandbox = Sandbox::new();
    let rows = text.lines().filter_map(|line| line.strip_prefix("cisco-schwartz,"));
    let table = format!("clients,throughput\n{}\n", rows.collect::<Vec<_>>().join("\n"));
    fs::write(sandbox.path("table.csv"), table).unwrap();
    let ran = sandbox.run(&["import", "table.csv", "--cores", "32", "--out", "run", "--json"]);
    let findings: Findings = ran.json();
    assert_eq!(findings.curve.points.len(), 32);
    assert!(findings.curve.fits.iter().any(|fit| fit.law == "USL"), "{:?}", findings.curve.fits);
}

//! `report` on run directories that are whole, torn, of others, closed or none.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Mounted, Sandbox, copy_run, fixture, is_root, ran};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

/// A sandbox with the golden run in `run`.
fn with_run() -> Sandbox {
    let sandbox = Sandbox::new();
    copy_run(&fixture("sqlite-shared-cache"), &sandbox.path("run"));
    sandbox
}

/// The first half of a file.
fn halve(sandbox: &Sandbox, name: &str) {
    let path = sandbox.path("run").join(name);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_report_is_the_same_to_the_byte() {
    let sandbox = with_run();
    let page = sandbox.path("run/report.html");
    let once = (sandbox.run(&["report", "run"]), fs::read(&page).unwrap());
    let twice = (sandbox.run(&["report", "run"]), fs::read(&page).unwrap());
    assert_eq!(once.0.out, twice.0.out);
    assert_eq!(once.1, twice.1);
    let json = || sandbox.run(&["report", "run", "--json"]);
    assert_eq!(json().out, json().out);
    let elsewhere = sandbox.run(&["report", "run", "--html", "page.html"]);
    assert_eq!(elsewhere.err, "");
    assert_eq!(fs::read(sandbox.path("page.html")).unwrap(), once.1);
    assert_eq!(sandbox.listed(), ["page.html", "run"]);
}

/// The golden run with every slice taken at its first attempt on an idle machine, and with effects
/// of interest that its noise allows to see.
#[test]
fn the_exit_code_says_whether_to_rely_on_it() {
    let sandbox = with_run();
    let report = sandbox.run(&["report", "run"]);
    assert_eq!((report.code, report.err.as_str()), (Some(4), ""));
    assert!(report.prints("Not trustworthy"), "{}", report.out);
    let path = sandbox.path("run/trials.jsonl");
    let trials = fs::read_to_string(&path).unwrap();
    let quiet: Vec<_> = trials.lines().filter(|line| !line.contains("\"polluted\"")).collect();
    fs::write(&path, quiet.join("\n").replace("\"kept-polluted\"", "\"kept\"")).unwrap();
    let plan = sandbox.path("run/plan.toml");
    let asked = fs::read_to_string(&plan).unwrap();
    let less = asked.replace("smallest_effect = 0.1\n", "smallest_effect = 0.4\n");
    assert_ne!(less, asked);
    fs::write(&plan, less).unwrap();
    let report = sandbox.run(&["report", "run"]);
    assert_eq!((report.code, report.err.as_str()), (Some(0), ""));
    assert!(!report.prints("Not trustworthy"), "{}", report.out);
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.run(&["report", "run", "--json"]).out).unwrap();
    assert_eq!(json["trustworthy"], true);
}

#[test]
fn a_place_without_a_run_says_what_to_give() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("empty")).unwrap();
    fs::write(sandbox.path("file"), "").unwrap();
    for place in ["absent", "empty", "empty/deeper"] {
        let words = [place, "not a run directory", "host.json", "`run`"];
        sandbox.run(&["report", place]).refused(1, &words);
        sandbox.run(&["report", place, "--json"]).refused(1, &words);
    }
    sandbox.run(&["report", "file"]).refused(1, &["file", "not a run directory"]);
    sandbox.assert_clean(None, &["empty", "file"]);
}

#[test]
fn another_schema_says_which_version_reads_it() {
    let sandbox = with_run();
    let path = sandbox.path("run/host.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"schema\": 1", "\"schema\": 7", 1)).unwrap();
    let words = ["run/host.json", "schema 7", "schema 1", "use Kneepoint 0.1.0"];
    sandbox.run(&["report", "run"]).refused(1, &words);
    assert!(!sandbox.path("run/report.html").exists());
}

#[test]
fn a_cut_file_that_nothing_can_replace_is_named() {
    for name in ["host.json", "plan.toml"] {
        let sandbox = with_run();
        halve(&sandbox, name);
        sandbox.run(&["report", "run"]).refused(1, &[&format!("run/{name}: damaged")]);
        assert!(!sandbox.path("run/report.html").exists());
    }
}

/// As where there is none: the run was cut off while it wrote that file.
#[test]
fn a_cut_end_is_none() {
    let sandbox = with_run();
    halve(&sandbox, "end.json");
    let report = sandbox.run(&["report", "run"]);
    assert_eq!((report.code, report.err.as_str()), (Some(4), ""));
    // One of several caveats: the terminal has room for the gravest only.
    let reported = sandbox.run(&["report", "run", "--json"]);
    assert!(reported.prints("end.json is not readable"), "{}", reported.out);
}

/// Trials cut at any byte are still a report.
#[test]
fn trials_cut_anywhere_are_still_a_report() {
    let sandbox = with_run();
    let path = sandbox.path("run/trials.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::remove_file(sandbox.path("run/end.json")).unwrap();
    for part in 0..=8 {
        let cut = whole.len() * part / 8;
        fs::write(&path, &whole[..cut]).unwrap();
        let report = sandbox.run(&["report", "run"]);
        assert_eq!((report.code, report.err.as_str()), (Some(4), ""), "cut at {cut}: {report:?}");
        assert!(report.prints("Not trustworthy"), "cut at {cut}: {}", report.out);
        assert!(sandbox.path("run/report.html").exists());
    }
}

#[test]
fn missing_tables_are_still_a_report() {
    for name in ["trials.jsonl", "stacks.jsonl", "arms.jsonl", "end.json"] {
        let sandbox = with_run();
        fs::remove_file(sandbox.path("run").join(name)).unwrap();
        let report = sandbox.run(&["report", "run"]);
        assert_eq!((report.code, report.err.as_str()), (Some(4), ""), "{name}: {report:?}");
    }
}

#[test]
fn a_read_only_run_names_html() {
    let sandbox = with_run();
    let Some(_mounted) = Mounted::tmpfs(&sandbox.path("closed"), "size=1m") else {
        println!("SKIP a_read_only_run_names_html: cannot mount (not root)");
        return;
    };
    copy_run(&fixture("cut-off"), &sandbox.path("closed/run"));
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,ro"]).arg(sandbox.path("closed"));
    assert!(remount.status().unwrap().success());
    let words = ["closed/run/report.html", "Read-only", "--html"];
    sandbox.run(&["report", "closed/run"]).refused(1, &words);
    assert_eq!(sandbox.run(&["report", "closed/run", "--json"]).code, Some(4));
    let elsewhere = sandbox.run(&["report", "closed/run", "--html", "page.html"]);
    assert_eq!(elsewhere.code, Some(4), "{elsewhere:?}");
    sandbox.assert_clean(None, &["closed", "page.html", "run"]);
}

#[test]
fn a_run_of_someone_else_is_reported() {
    if !is_root() {
        println!("SKIP a_run_of_someone_else_is_reported: needs root to become nobody");
        return;
    }
    let sandbox = with_run();
    let mode = |bits| fs::Permissions::from_mode(bits);
    fs::set_permissions(sandbox.path("run"), mode(0o700)).unwrap();
    let words = ["run/host.json", "Permission denied"];
    ran(sandbox.as_nobody(&["report", "run"])).refused(1, &words);
    fs::set_permissions(sandbox.path("run"), mode(0o755)).unwrap();
    let words = ["run/report.html", "Permission denied", "--html"];
    ran(sandbox.as_nobody(&["report", "run"])).refused(1, &words);
    let report = ran(sandbox.as_nobody(&["report", "run", "--html", "page.html"]));
    assert_eq!(report.code, Some(4), "{report:?}");
}

/// `--html /dev/stdout` writes there, rather than putting a file in its place.
#[test]
fn a_device_stays_a_device() {
    let sandbox = with_run();
    for (device, code) in [("null", 4), ("full", 1)] {
        let link = sandbox.path(device);
        std::os::unix::fs::symlink(format!("/dev/{device}"), &link).unwrap();
        let report = sandbox.run(&["report", "run", "--html", device]);
        assert_eq!(report.code, Some(code), "{report:?}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{device} was replaced");
        assert_eq!(report.err.contains("--html"), code == 1, "{report:?}");
    }
    sandbox.assert_clean(None, &["full", "null", "run"]);
}

/// `kneepoint report DIR --json | head -1`: the findings are longer than a pipe holds.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = with_run();
    for arguments in [&["report", "run", "--json"][..], &["--generate", "man"], &["--help"]] {
        let mut command = sandbox.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(errors, "", "{arguments:?}");
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 4)), "{arguments:?}: {code:?}");
    }
}

/// Colours go to terminals that know them.
#[test]
fn a_dumb_terminal_gets_no_colours() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("SKIP a_dumb_terminal_gets_no_colours: script(1) is not installed");
        return;
    }
    let sandbox = with_run();
    let line = format!("{} report run", env!("CARGO_BIN_EXE_kneepoint"));
    for (terminal, coloured) in [("dumb", false), ("xterm", true)] {
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script.current_dir(sandbox.path("")).env("TERM", terminal).env_remove("NO_COLOR");
        let output = script.stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("sqlite-shared-cache"), "{output:?}");
        assert_eq!(printed.contains('\u{1b}'), coloured, "{terminal}: {printed:?}");
    }
}

#[test]
fn a_run_of_nothing_has_no_numbers() {
    let sandbox = Sandbox::new();
    copy_run(&fixture("cut-off"), &sandbox.path("run"));
    fs::write(sandbox.path("run/trials.jsonl"), "").unwrap();
    let done = sandbox.run(&["report", "run", "--json"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    let findings: serde_json::Value = done.json();
    for name in ["/curve/peak", "/curve/knee", "/curve/last_over_peak", "/lost", "/at_bound"] {
        assert!(findings.pointer(name).is_some_and(serde_json::Value::is_null), "{name}: {done:?}");
    }
    for name in ["/curve/points", "/ledgers", "/causes"] {
        assert_eq!(findings.pointer(name), Some(&serde_json::json!([])), "{name}: {done:?}");
    }
    for effect in findings["effects"].as_array().unwrap() {
        assert!(effect["ratio"].is_null() && effect["throughput"].is_null(), "{effect}");
    }
}

//! Directories, files and text that somebody else has made: nothing is followed, waited for or
//! obeyed, and what is refused is refused in one line.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, copy_run, finished, fixture};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::Command;

fn with_run() -> Sandbox {
    let sandbox = Sandbox::new();
    copy_run(&fixture("cut-off"), &sandbox.path("run"));
    sandbox
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_report_is_written_through_no_link() {
    let sandbox = with_run();
    let victim = sandbox.path("victim");
    fs::write(&victim, "precious").unwrap();
    // The draft of older versions, and any name that can be guessed.
    for name in ["report.html.draft", ".report.html.draft"] {
        symlink(&victim, sandbox.path("run").join(name)).unwrap();
    }
    let report = sandbox.run(&["report", "run"]);
    assert_eq!((report.code, report.err.as_str()), (Some(4), ""));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    let page = sandbox.path("run/report.html");
    fs::remove_file(&page).unwrap();
    symlink(&victim, &page).unwrap();
    sandbox.run(&["report", "run"]).refused(1, &["run/report.html", "no regular file"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(&page).unwrap();
    pipe(&page);
    sandbox.run(&["report", "run"]).refused(1, &["run/report.html", "no regular file"]);
    assert!(fs::symlink_metadata(&page).unwrap().file_type().is_fifo());
}

#[test]
fn nothing_but_a_regular_file_is_read() {
    let sandbox = with_run();
    symlink("/dev/zero", sandbox.path("zero")).unwrap();
    pipe(&sandbox.path("pipe"));
    for name in ["host.json", "plan.toml", "arms.jsonl", "trials.jsonl", "end.json"] {
        let path = sandbox.path("run").join(name);
        let whole = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        for (target, word) in [("zero", "link"), ("pipe", "link")] {
            symlink(sandbox.path(target), &path).unwrap();
            sandbox.run(&["report", "run"]).refused(1, &[name, word]);
            fs::remove_file(&path).unwrap();
        }
        pipe(&path);
        sandbox.run(&["report", "run"]).refused(1, &[name, "not a regular file"]);
        fs::remove_file(&path).unwrap();
        if let Some(bytes) = whole {
            fs::write(&path, bytes).unwrap();
        }
    }
    for (file, word) in [("zero", "link"), ("pipe", "regular"), ("/dev/zero", "regular")] {
        sandbox.run(&["import", file, "--cores", "2"]).refused(1, &[file, word]);
    }
}

#[test]
fn names_steer_no_terminal() {
    let sandbox = Sandbox::new();
    let armed = "a\u{1b}]0;title\u{7}\r\u{202e}b\u{61c}c\u{e0041}d\u{9b}31m";
    let harmless = |text: &str| {
        let one_line = text.trim_end_matches('\n');
        assert!(!one_line.contains(char::is_control), "{text:?}");
        let hidden = ['\u{202e}', '\u{61c}', '\u{e0041}'];
        assert!(!one_line.contains(hidden), "{text:?}");
    };
    fs::write(sandbox.path(armed), "no table").unwrap();
    for arguments in [
        &["report", armed][..],
        &["import", armed],
        &["run", armed],
        &[armed],
        &["run", "--levels", armed],
    ] {
        let refused = sandbox.run(arguments);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        harmless(&refused.err);
    }
    let long = "x".repeat(1 << 20);
    fs::write(sandbox.path("long.csv"), format!("clients,throughput\n1,{long}\n")).unwrap();
    let refused = sandbox.run(&["import", "long.csv", "--cores", "2"]);
    assert!(refused.err.len() < 20_000, "{} bytes of message", refused.err.len());
}

/// What a command says before it fails is quoted, and cannot do more than be read.
#[test]
fn last_words_steer_no_terminal() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let script = r": {clients}; printf '\033]0;owned\007\033[2J\r\342\200\256evil' >&2; exit 3";
    let arguments = ["run", "--levels", "1", "--budget", "20s", "--tier", "fallback"];
    let ran = sandbox.run(&[&arguments[..], &["--out", "run", "--", "sh", "-c", script]].concat());
    ran.refused(1, &["exit code 3", "evil"]);
    assert!(!ran.err.trim_end().contains(char::is_control), "{ran:?}");
    assert!(!ran.err.contains('\u{202e}'), "{ran:?}");
    for arguments in [&["report", "run"][..], &["report", "run", "--json"]] {
        let report = sandbox.run(arguments);
        assert!(!report.out.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}']), "{report:?}");
        // A run that failed is not to be relied on, whoever asks.
        assert_eq!(report.code, Some(4), "{report:?}");
    }
}

#[test]
fn names_that_are_no_text_are_names() {
    let sandbox = Sandbox::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff");
    fs::write(sandbox.path("table.csv"), "clients,throughput\n1,10\n2,18\n4,20\n").unwrap();
    fs::copy(sandbox.path("table.csv"), sandbox.path("x").with_file_name(odd)).unwrap();
    let mut command = sandbox.command(&["import", "--cores", "4", "--out"]);
    let done = common::ran({
        command.arg(std::ffi::OsStr::from_bytes(b"run-\xff")).arg(odd);
        command
    });
    assert!(matches!(done.code, Some(0 | 4)) && !done.err.contains("panicked"), "{done:?}");
    let mut command = sandbox.command(&["run", "--budget", "5s", "--dry-run", "--out"]);
    command.arg(std::ffi::OsStr::from_bytes(b"other-\xff"));
    let done = common::ran(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Six runs that begin within one second.
#[test]
fn runs_at_once_share_no_directory() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("table.csv"), "clients,throughput\n1,10\n2,18\n4,20\n").unwrap();
    let import = ["import", "table.csv", "--cores", "4", "--json"];
    let children: Vec<_> = (0..6).map(|_| sandbox.spawn(&import)).collect();
    for child in children {
        let done = finished(child);
        assert!(matches!(done.code, Some(0 | 4)), "{done:?}");
    }
    let made: BTreeSet<_> = fs::read_dir(sandbox.path("kneepoint-runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(made.len(), 6, "{made:?}");
    for directory in made {
        let record = kneepoint_lab::open(&directory).unwrap();
        assert_eq!((record.trials.len(), record.torn.len()), (3, 0), "{directory:?}");
    }
    let explicit = [&import[..], &["--out", "one"]].concat();
    let children: Vec<_> = (0..6).map(|_| sandbox.spawn(&explicit)).collect();
    let done: Vec<_> = children.into_iter().map(finished).collect();
    let refused = done.iter().filter(|one| one.code == Some(1)).count();
    assert_eq!(refused, 5, "{done:?}");
    assert_eq!(kneepoint_lab::open(&sandbox.path("one")).unwrap().trials.len(), 3);
}

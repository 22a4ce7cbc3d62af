//! Bad input of every kind: one line that says what to do, and nothing started, left or made.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Mounted, Sandbox, copy_run, finished, fixture, is_root, ran, short_recipe};
use std::fs;

/// Runs the command in a fresh folder and asserts that it was refused and did nothing.
fn refused(code: i32, arguments: &[&str], words: &[&str]) {
    let sandbox = Sandbox::new();
    refused_in(&sandbox, code, arguments, words);
}

fn refused_in(sandbox: &Sandbox, code: i32, arguments: &[&str], words: &[&str]) {
    let before = sandbox.listed();
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let child = sandbox.spawn(arguments);
    let process = child.id();
    finished(child).refused(code, words);
    sandbox.assert_clean(Some(process), &before);
}

#[test]
fn a_wrong_command_line_is_code_2() {
    refused(2, &[], &["no command given", "--help"]);
    refused(2, &["rum"], &["'rum'", "'run'", "--help"]);
    refused(2, &["run", "--level", "1"], &["'--level'", "'--levels'"]);
    refused(2, &["run", "nonsense"], &["\"nonsense\"", "sqlite-shared-cache", ".toml"]);
    refused(2, &["run", "--tier", "best"], &["'best'", "full", "fallback"]);
    refused(2, &["run", "--seed=-1"], &["'-1'", "--seed"]);
    refused(2, &["report"], &["<DIRECTORY>"]);
    refused(2, &["--generate", "complete-cmd"], &["complete-cmd", "complete-bash"]);
}

#[test]
fn a_variant_that_cannot_be_is_code_2_before_anything_is_measured() {
    let with = |variants: &[&str], words: &[&str]| {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path("text.so"), "no library").unwrap();
        // Of another machine: a head that says so is enough.
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1]);
        (head[16], head[18]) = (3, 8);
        fs::write(sandbox.path("mips.so"), head).unwrap();
        let flags = variants.iter().flat_map(|variant| ["--variant", variant]);
        let command = ["--out", "run", "--", "sleep", "{clients}"];
        let arguments: Vec<&str> = ["run"].into_iter().chain(flags).chain(command).collect();
        refused_in(&sandbox, 2, &arguments, words);
    };
    with(&["sleep 2"], &["--variant", "write NAME: then"]);
    with(&["x:"], &["\"x\"", "changes nothing"]);
    with(&["x: A=1", "X: A=2"], &["\"X\"", "another variant has this name"]);
    with(&["control: A=1"], &["control is a variant of Kneepoint's own"]);
    with(&["x: ./absent {clients}"], &["\"x\"", "./absent, not found here"]);
    with(&["x: no-such-program-here"], &["no-such-program-here, not found here"]);
    with(&["x: LD_PRELOAD=libno-such.so.7"], &["libno-such.so.7, not found here"]);
    with(&["x: LD_PRELOAD=./text.so"], &["text.so (no shared library)"]);
    with(&["x: LD_PRELOAD=./mips.so"], &["mips.so (for machine 8 (32 bit), not for "]);
    with(&["x: set.nonsense=1"], &["no setting is named \"nonsense\""]);
    with(&["x: over=y A=1"], &["over must be one of those before it: baseline"]);
    with(&["x: sleep 'a"], &["an open quote"]);
    let of_recipe = |variant: &str, words: &[&str]| {
        refused(2, &["run", "sqlite-shared-cache", "--variant", variant], words);
    };
    of_recipe("x: ./other", &["takes no command"]);
    of_recipe("x: set.cache=none", &["cache must be shared or private"]);
    of_recipe("sqlite-mmap: A=1", &["choose another name"]);
    of_recipe("postgres-tcp", &["for the workload postgres, not for sqlite-oltp"]);
    of_recipe("no-such-variant", &["list --variants"]);
    with(&["x: cpus=1023"], &["CPU 1023: Kneepoint may use "]);
    with(&["x: cpus=1-0"], &["cpus must be numbers of CPUs", "\"1-0\""]);
    with(&["x: nice=99"], &["nice must be -20 to 19", "\"99\""]);
    with(&["x: policy=best"], &["policy must be other, batch, idle, fifo:N or rr:N"]);
    let cross = |pair: &str, words: &[&str]| {
        let variants = ["--variant", "x: A=1", "--variant", "y: A=2", "--cross", pair];
        refused(2, &[&["run"][..], &variants[..], &["--", "sleep", "{clients}"]].concat(), words);
    };
    cross("x", &["--cross", "write two names with a comma between them"]);
    cross("x,z", &["no variant is named \"z\"; there are: x, y"]);
    cross("x,X", &["cannot be crossed with itself"]);
    cross("x,y", &["x and y both change A"]);
    refused(1, &["run", "--variant", "auto:absent"], &["absent", "not a run directory"]);
    refused(2, &["list", "sqlite-shared-cache"], &["--variants"]);
    refused(2, &["list", "--variants", "nonsense"], &["\"nonsense\"", "sqlite-shared-cache"]);
    let published = ["run", "mariadb-oltp-ro", "--protocol", "published", "--variant", "x: A=1"];
    refused(2, &published, &["--variant", "baseline alone"]);
}

#[test]
fn levels_that_are_none_are_code_2() {
    for level in ["0", "-1", "99999999", "4097", "-0"] {
        refused(2, &["run", "--levels", level], &["--levels", "levels must be 1 to 4096", level]);
    }
    for level in ["abc", "", "1,,2", "1.5C", "C", "1;2"] {
        refused(2, &["run", "--levels", level], &["--levels", "a level is a number"]);
    }
}

#[test]
fn precisions_and_budgets_that_are_none_are_code_2() {
    for precision in ["0", "-5%", "101%", "nan", "abc", ""] {
        let argument = format!("--precision={precision}");
        refused(2, &["run", &argument], &["--precision", "between 0 and 100"]);
    }
    for budget in ["0", "-5s", "nan", "1e9h", "abc", ""] {
        let argument = format!("--budget={budget}");
        refused(2, &["run", &argument], &["--budget", "from 1s to 168h"]);
    }
}

#[test]
fn a_recipe_that_is_not_there_is_code_1() {
    refused(1, &["run", "absent.toml"], &["absent.toml: cannot be read", "No such file"]);
    refused(1, &["run", "a/folder/recipe"], &["a/folder/recipe", "No such file"]);
    refused(1, &["run", "./"], &["./", "Is a directory"]);
}

#[test]
fn a_recipe_that_makes_no_sense_is_reported_with_line_and_column() {
    let good = short_recipe(1000);
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let cases = [
        ("name = \"short\n".to_owned(), "1:", "invalid basic string"),
        (changed("focus = \"2\"", "focus \"2\""), "14:", "expected"),
        (changed("focus =", "fokus ="), "14:1", "fokus"),
        (changed("[\"1\", \"2\"]", "[0, 2]"), "13:12", "levels must be 1 to 4096 (found 0)"),
        (changed("[\"1\", \"2\"]", "[-1, 2]"), "13:12", "(found -1)"),
        (changed("[\"1\", \"2\"]", "[2, 99999999]"), "13:15", "(found 99999999)"),
        (changed("[\"1\", \"2\"]", "[\"abc\", 2]"), "13:12", "a level is a number"),
        (changed("[\"1\", \"2\"]", "[\"\", 2]"), "13:12", "a level is a number"),
        (changed("[\"1\", \"2\"]", "[]"), "13:11", "at least one level"),
        (changed("sqlite-oltp", "sqlite"), "7:8", "sqlite-oltp"),
        (changed("sqlite-private-cache", "magic"), "4:15", "magic"),
        (changed("slice_ms = 100", "slice_ms = 0"), "17:12", "slice_ms"),
        (changed("[2, 2]", "[3, 2]"), "20:17", "[least, most]"),
        (changed("[2, 2]", "[1, 2, 3]"), "20:17", "[least, most] (found 3 numbers)"),
        (changed("[2, 2]", "[2]"), "20:17", "[least, most] (found 1 numbers)"),
        ("\u{0}".to_owned(), "1:", "recipe.toml"),
        (String::new(), "1:1", "name"),
    ];
    for (text, place, words) in cases {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path("recipe.toml"), text).unwrap();
        let place = format!("recipe.toml:{place}");
        for more in [&[][..], &["--dry-run"], &["--json"]] {
            let arguments = [&["run", "recipe.toml"], more].concat();
            refused_in(&sandbox, 1, &arguments, &[&place, words]);
        }
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("recipe.toml"), [0xff, 0xfe, b'\n']).unwrap();
    refused_in(&sandbox, 1, &["run", "recipe.toml"], &["recipe.toml", "UTF-8"]);
}

#[test]
fn a_place_that_cannot_hold_a_run_names_out() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "in the way").unwrap();
    refused_in(&sandbox, 1, &["run", "--out", "file"], &["file", "--out"]);
    refused_in(&sandbox, 1, &["run", "--out", "file/run"], &["file/run", "--out"]);
    assert_eq!(fs::read_to_string(sandbox.path("file")).unwrap(), "in the way");
    refused_in(&sandbox, 1, &["run", "--out", "/proc/run"], &["/proc/run", "--out"]);
}

#[test]
fn a_run_that_is_there_is_not_overwritten() {
    let sandbox = Sandbox::new();
    copy_run(&fixture("sqlite-shared-cache"), &sandbox.path("run"));
    let before = fs::read(sandbox.path("run/trials.jsonl")).unwrap();
    refused_in(&sandbox, 1, &["run", "--out", "run"], &["run", "already", "--out"]);
    assert_eq!(fs::read(sandbox.path("run/trials.jsonl")).unwrap(), before);
}

#[test]
fn a_read_only_file_system_names_out() {
    let sandbox = Sandbox::new();
    let Some(_mounted) = Mounted::tmpfs(&sandbox.path("closed"), "ro,size=64k") else {
        println!("SKIP a_read_only_file_system_names_out: cannot mount (not root)");
        return;
    };
    refused_in(&sandbox, 1, &["run", "--out", "closed/run"], &["closed/run", "Read-only", "--out"]);
}

/// The error names the run directory, which `report` reads as far as it got.
#[test]
fn a_full_disk_keeps_the_trials_so_far() {
    let _alone = common::alone();
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("recipe.toml"), short_recipe(1000)).unwrap();
    let Some(_mounted) = Mounted::tmpfs(&sandbox.path("small"), "size=64k") else {
        println!("SKIP a_full_disk_keeps_the_trials_so_far: cannot mount (not root)");
        return;
    };
    let arguments = ["run", "recipe.toml", "--out", "small/run", "--tier", "fallback"];
    let full = sandbox.run(&arguments);
    assert_eq!(full.code, Some(1), "{full:?}");
    let last = full.err.lines().last().unwrap();
    for word in ["kneepoint: small/run/", "No space left", "trials are safe", "kneepoint report"] {
        assert!(last.contains(word), "{word:?} is not in {last}");
    }
    let kept = fs::read_to_string(sandbox.path("small/run/trials.jsonl")).unwrap();
    assert!(kept.matches('\n').count() > 0, "no trial was kept");
    assert_eq!(sandbox.processes(), Vec::<u32>::new(), "still running");
    sandbox.run(&["report", "small/run"]).refused(1, &["small/run/report.html", "--html"]);
    let report = sandbox.run(&["report", "small/run", "--html", "page.html"]);
    assert_eq!(report.code, Some(4), "{report:?}");
    assert!(sandbox.path("page.html").exists());
}

#[test]
fn an_unprivileged_user_is_shown_what_the_full_collector_needs() {
    if !is_root() {
        println!(
            "SKIP an_unprivileged_user_is_shown_what_the_full_collector_needs: needs root to \
             become nobody"
        );
        return;
    }
    let sandbox = Sandbox::new();
    let refused = ran(sandbox.as_nobody(&["run", "--tier", "full", "--out", "run"]));
    refused.refused(1, &["eBPF", "run as root", "fallback"]);
    let variants =
        ["--variant", "first: policy=fifo:1", "--out", "run", "--", "sleep", "{clients}"];
    let refused = ran(sandbox.as_nobody(&[&["run"][..], &variants[..]].concat()));
    let right = "the right to set policy: run as root, or with CAP_SYS_NICE";
    refused.refused(2, &["\"first\"", right]);
    sandbox.assert_clean(None, &[]);
}

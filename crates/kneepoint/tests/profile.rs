//! A running program is watched, reported, and left as it was.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, eventually, fixture, is_root};
use kneepoint_vocab::findings::{CauseKind, Caveat, CaveatReason};
use kneepoint_vocab::{Level, Phase, Plan, Profile, ProtocolName};
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Four threads that sleep for 0.2 ms each with one mutex held, count, and exit with 7 when they
/// are told to.
const QUEUE: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long done;
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
__attribute__((noinline)) void held_work(void) {
    pthread_mutex_lock(&the_lock);
    usleep(200);
    done++;
    pthread_mutex_unlock(&the_lock);
}
static void *queue(void *nothing) { while (!over) held_work(); return nothing; }
int main(void) {
    pthread_t threads[4];
    signal(SIGTERM, end);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, queue, 0);
    while (!over) {
        FILE *file = fopen("count.new", "w");
        if (file) { fprintf(file, "%lu\n", done); fclose(file); rename("count.new", "count"); }
        usleep(5000);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 7;
}
"#;

/// The program in the sandbox; none where it cannot be compiled.
fn compiled(sandbox: &Sandbox, test: &str) -> bool {
    fs::write(sandbox.path("queue.c"), QUEUE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"]);
    compiler.arg(sandbox.path("queue")).arg(sandbox.path("queue.c"));
    let done = compiler.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !done {
        println!("SKIP {test}: needs a C compiler");
    }
    done
}

/// A queue that runs, and ends with the guard.
struct Queue(Child);

impl Queue {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = Command::new(sandbox.path("queue"));
        command.current_dir(sandbox.path("."));
        let queue = Self(command.spawn().unwrap());
        eventually("the queue counts", || count(sandbox) > 0);
        queue
    }

    /// The same where it can be compiled.
    fn sleeping(sandbox: &Sandbox) -> Option<Self> {
        compiled(sandbox, "a thread of a process").then(|| Self::start(sandbox))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Its exit is its own: nobody else has told it to end.
    fn ends_as_ever(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it goes on");
        let line = format!("kill -TERM {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(7));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn count(sandbox: &Sandbox) -> u64 {
    let text = fs::read_to_string(sandbox.path("count")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn has_bpf(test: &str) -> bool {
    if is_root() && Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    println!("SKIP {test}: needs root and a kernel with BTF");
    false
}

fn profiled(sandbox: &Sandbox, words: &[&str]) -> (Profile, Value) {
    let ran = sandbox.run(&[&["profile", "--json"], words].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    (ran.json(), ran.json())
}

/// No key anywhere in it that speaks of operations has a value.
fn speaks_of_no_operations(value: &Value, path: &str) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = format!("{path}/{name}");
                let speaks = ["operation", "throughput"].iter().any(|word| name.contains(word));
                assert!(!speaks || field.is_null(), "{path} is {field}");
                speaks_of_no_operations(field, &path);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| speaks_of_no_operations(item, path));
        }
        _ => {}
    }
}

/// A level of a recorded run, as if nobody had counted there.
#[test]
fn a_recorded_level_reads_as_a_profile() {
    let mut record = kneepoint_lab::open(&fixture("sqlite-shared-cache")).unwrap();
    let level = Level { clients: 2, cores: 2 };
    record.plan.protocol = ProtocolName::Profile;
    record.plan.operation = Plan::UNCOUNTED.to_owned();
    record.plan.summary = "sqlite 42".to_owned();
    record.plan.focus = level;
    record.plan.levels = vec![level];
    record.trials.retain(|trial| {
        trial.id.level == level && trial.id.phase == Phase::Sweep && trial.counts()
    });
    record.trials.iter_mut().for_each(|trial| trial.operations = trial.counted_over.0);
    let reported = kneepoint_analysis::profile::profile(&record);
    let cores: f64 = reported.core_lines.iter().map(|line| line.cores.value.0).sum();
    assert!((cores - 2.0).abs() < 1e-6, "{:?}", reported.core_lines);
    let first = &reported.causes[0].cause;
    assert_eq!(first.name.to_string(), "mutex in sqlite3BtreeEnter");
    assert!(first.wait_per_operation.is_none());
    // What the lock loses here includes all of its calls, not only those above another level's.
    let run =
        kneepoint_analysis::analyse(&kneepoint_lab::open(&fixture("sqlite-shared-cache")).unwrap());
    assert!(first.lost.value.0 >= run.causes[0].lost.value.0 - 0.01, "{:?}", first.lost);
    let json = serde_json::to_value(&reported).unwrap();
    speaks_of_no_operations(&json, "");
    let text = kneepoint_report::terminal::profile::render(&reported, 80, false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for word in ["operation", "throughput", "clients"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    insta::assert_snapshot!("profile-terminal", text);
}

#[test]
fn a_lock_in_a_running_program_is_named_and_the_program_goes_on() {
    const TEST: &str = "a_lock_in_a_running_program_is_named_and_the_program_goes_on";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !has_bpf(TEST) || !compiled(&sandbox, TEST) {
        return;
    }
    let queue = Queue::start(&sandbox);
    let (reported, json) =
        profiled(&sandbox, &["--pid", &queue.pid(), "--seconds", "3", "--out", "seen"]);
    let (other, cause) = (&reported.causes, &reported.causes[0]);
    assert_eq!(cause.cause.kind, CauseKind::Lock, "{other:?}");
    let named = cause.cause.name.to_string().contains("held_work")
        || cause.cause.path.iter().any(|frame| frame.contains("held_work"));
    assert!(named, "{:?}", cause.cause);
    // Three of four wait while one sleeps with the lock held.
    assert!((2.0..4.0).contains(&cause.threads.value.0), "{:?}", cause.threads);
    assert!((4.5..5.5).contains(&reported.threads.0), "{}", reported.threads.0);
    let cores: f64 = reported.core_lines.iter().map(|line| line.cores.value.0).sum();
    assert!((cores - reported.cores.0).abs() < 1e-6, "{cores} of {}", reported.cores.0);
    assert!(reported.operations.is_none());
    speaks_of_no_operations(&json, "");
    let page = fs::read_to_string(sandbox.path("seen/report.html")).unwrap();
    assert!(page.contains("held_work"));
    let visible = page.split("<body>").nth(1).unwrap();
    let shown = visible.split("<script>").next().unwrap();
    for word in ["throughput", "operation", "clients"] {
        assert!(!shown.contains(word) || word == "clients", "{word} is on the page");
    }
    let bytes: u64 = fs::read_dir(sandbox.path("seen"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 1_000_000, "{bytes}");
    let metrics = sandbox.run(&["report", "seen", "--format", "openmetrics"]);
    assert!(metrics.out.contains("kneepoint_doing_threads{"), "{metrics:?}");
    let again = sandbox.run(&["report", "seen"]);
    assert_eq!(again.code, if reported.trustworthy { Some(0) } else { Some(4) }, "{again:?}");
    assert!(again.out.contains("held_work") && again.prints("What is waited for"));
    assert!(again.out.lines().all(|line| line.chars().count() <= 80), "{}", again.out);
    for word in ["operation", "throughput"] {
        assert!(!again.out.contains(word), "{word}: {}", again.out);
    }
    sandbox.run(&["compare", "seen", "nowhere"]).refused(1, &["nowhere"]);
    queue.ends_as_ever();
}

#[test]
fn what_a_command_counts_are_operations() {
    const TEST: &str = "what_a_command_counts_are_operations";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !has_bpf(TEST) || !compiled(&sandbox, TEST) {
        return;
    }
    let queue = Queue::start(&sandbox);
    let before = count(&sandbox);
    let words = ["--pid", &queue.pid(), "--seconds", "2", "--rate", "cat count", "--out", "seen"];
    let (reported, _) = profiled(&sandbox, &words);
    let record = kneepoint_lab::open(&sandbox.path("seen")).unwrap();
    let all: u64 = record.trials.iter().map(|trial| trial.operations).sum();
    assert!(all > 100 && all <= count(&sandbox) - before, "{all}");
    let over: f64 = record.trials.iter().map(|trial| trial.counted_over.seconds().0).sum();
    let counted = reported.operations.as_ref().unwrap().rate.value.0;
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let mean = all as f64 / over;
    assert!((counted / mean - 1.0).abs() < 0.1, "{counted}/s reported, {mean}/s counted");
    let each: f64 =
        reported.thread_lines.iter().map(|line| line.per_operation.unwrap().value.0).sum();
    assert!((each * counted / reported.threads.0 - 1.0).abs() < 0.05, "{each} {counted}");
    let fell = ["profile", "--pid", &queue.pid(), "--seconds", "1", "--rate"];
    sandbox.run(&[&fell[..], &["echo none"]].concat()).refused(1, &["no whole number"]);
    queue.ends_as_ever();
}

#[test]
fn an_interrupt_ends_the_profile_and_not_the_program() {
    const TEST: &str = "an_interrupt_ends_the_profile_and_not_the_program";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !has_bpf(TEST) || !compiled(&sandbox, TEST) {
        return;
    }
    let queue = Queue::start(&sandbox);
    let words = ["profile", "--pid", &queue.pid(), "--seconds", "60", "--out", "seen"];
    let mut profile = sandbox.spawn(&words);
    eventually("a window is on disk", || {
        fs::metadata(sandbox.path("seen/stacks.jsonl")).is_ok_and(|about| about.len() > 0)
    });
    let line = format!("kill -INT {}", profile.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    let mut reported = String::new();
    profile.stdout.take().unwrap().read_to_string(&mut reported).unwrap();
    profile.wait().unwrap();
    assert!(reported.contains("held_work"), "{reported}");
    queue.ends_as_ever();
}

#[test]
fn a_command_is_started_watched_and_ended() {
    const TEST: &str = "a_command_is_started_watched_and_ended";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !has_bpf(TEST) || !compiled(&sandbox, TEST) {
        return;
    }
    let (reported, _) = profiled(&sandbox, &["--seconds", "1", "--out", "seen", "--", "./queue"]);
    assert!(reported.subject.starts_with("queue "), "{}", reported.subject);
    assert!(
        reported.causes.iter().any(|one| one.cause.kind == CauseKind::Lock),
        "{:?}",
        reported.causes
    );
    assert_eq!(sandbox.processes(), Vec::<u32>::new(), "it has been ended");
    let short = ["profile", "--seconds", "9", "--out", "short", "--", "sleep", "0.8"];
    let ran = sandbox.run(&short);
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    // Another form takes the place of the summary, not of the directory and the page.
    let words = ["profile", "--seconds", "1", "--out", "line", "--format", "perfetto"];
    let ran = sandbox.run(&[&words[..], &["--", "./queue"]].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    let line: Value = ran.json();
    let events = line["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|one| one["ph"] == "X" && one["name"] == "window"), "{ran:?}");
    assert!(sandbox.path("line/report.html").exists() && sandbox.path("line/end.json").exists());
    let gone = ["profile", "--out", "gone", "--", "./no-such-program"];
    assert_eq!(sandbox.run(&gone).code, Some(1));
}

#[test]
fn who_cannot_be_watched_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let refused = |words: &[&str], code, reported: &[&str]| {
        sandbox.run(&[&["profile"], words].concat()).refused(code, reported);
    };
    refused(&[], 2, &["--pid"]);
    refused(&["--pid", "999999999"], 1, &["no process 999999999"]);
    refused(&["--pid", "0"], 2, &["--pid"]);
    refused(&["--pid", &std::process::id().to_string()], 1, &["has started this Kneepoint"]);
    refused(&["--cgroup", "no/such/group"], 1, &["no such control group"]);
    refused(&["--pid", "1", "--", "true"], 2, &["cannot be used with"]);
    sandbox.assert_clean(None, &[]);
}

/// What stands still, has ended, or is no program has its line, and is not touched.
#[test]
fn what_is_no_running_program_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let refused = |pid: u32, reported: &str| {
        sandbox.run(&["profile", "--pid", &pid.to_string()]).refused(1, &[reported]);
    };
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let state = |wanted: char| {
        let file = format!("/proc/{}/stat", child.id());
        eventually("its state", || {
            let text = fs::read_to_string(&file).unwrap();
            text.rsplit(") ").next().unwrap().starts_with(wanted)
        });
    };
    let signal = |name: &str| {
        let line = format!("kill -{name} {}", child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    };
    signal("STOP");
    state('T');
    refused(child.id(), "is stopped");
    state('T');
    signal("KILL");
    state('Z');
    refused(child.id(), "a zombie");
    child.wait().unwrap();
    match fs::read_to_string("/proc/2/comm") {
        Ok(name) if name.trim() == "kthreadd" => refused(2, "a thread of the kernel"),
        _ => println!("SKIP what_is_no_running_program_is_refused_in_one_line: no kernel threads"),
    }
    let queue = Queue::sleeping(&sandbox);
    if let Some(queue) = queue {
        let threads = fs::read_dir(format!("/proc/{}/task", queue.pid())).unwrap();
        let threads = threads.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let thread = threads.filter_map(|name| name.parse().ok()).max().unwrap();
        refused(thread, "is a thread: give its process");
        queue.ends_as_ever();
    }
}

/// Two processes that pass a byte back and forth: each core switches some 100,000 times a second.
const PASSING: &str = "
import os
to, of = os.pipe(), os.pipe()
if os.fork():
    while True:
        os.write(to[1], b'x')
        os.read(of[0], 1)
while True:
    os.read(to[0], 1)
    os.write(of[1], b'x')
";

/// Watching costs by the switch, so that of many a part is watched; the account of it closes.
#[test]
fn many_switches_are_watched_for_a_part_of_the_time() {
    if !has_bpf("many_switches_are_watched_for_a_part_of_the_time") {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let command = ["--", "taskset", "-c", "0", "python3", "-c", PASSING];
    let (passing, _) = profiled(&sandbox, &[&["--seconds", "2"][..], &command].concat());
    let covered = passing.collector.covered.unwrap().0;
    let switched = passing.switches.unwrap().0;
    // Beside other work the two may switch too seldom for that, and windows end late.
    let often = switched > 100_000.0;
    assert!(covered > 0.15 && (covered < 0.9 || !often), "{covered} at {switched} switches/s");
    assert!(passing.watched.0 < 1.3 * covered * 2.0, "{:?} of 2 s", passing.watched);
    assert!(passing.unaccounted.0 < 0.05, "{:?}", passing.unaccounted);
    let thinned = |one: &Caveat| matches!(one.reason, CaveatReason::Thinned { .. });
    assert_eq!(passing.caveats.iter().any(thinned), covered < 0.9, "{:?}", passing.caveats);
}

#[test]
fn somebody_else_s_process_is_refused() {
    if !is_root() {
        println!("SKIP somebody_else_s_process_is_refused: needs root to become nobody");
        return;
    }
    let sandbox = Sandbox::new();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let ran = common::ran(sandbox.as_nobody(&["profile", "--pid", &pid]));
    let lives = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    ran.refused(1, &["belongs to another user"]);
    assert!(lives);
}

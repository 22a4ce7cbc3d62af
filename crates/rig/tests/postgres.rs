//! The PostgreSQL workload as it really runs: its server, its backends, its counts and its end.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;

use kneepoint_rig::priority::Prompt;
use kneepoint_rig::process::Account;
use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::postgres::Postgres;
use kneepoint_rig::{Drive, SearchPath, Setup, System, Workload as _};
use kneepoint_vocab::{Nanos, VariantId};
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a slice is counted.
const WINDOW: Duration = Duration::from_millis(400);
const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

fn lacking(test: &str) -> bool {
    let needs = Postgres::STANDARD.needs(&BTreeMap::new(), &SearchPath::own());
    let lacking = needs.iter().any(|need| !need.here);
    if lacking {
        println!("SKIP {test}: no PostgreSQL");
    }
    lacking
}

fn setup(scratch: &Path, undo: &Undo, variant: &str, settings: &[(&str, &str)]) -> Setup {
    Setup {
        server: SERVER.into(),
        scratch: scratch.to_owned(),
        variant: VariantId::new(variant),
        settings: settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 4,
        seed: 11,
        undo: undo.clone(),
    }
}

/// A started system with its proofs checked.
fn start(scratch: &Path, undo: &Undo, variant: &str, settings: &[(&str, &str)]) -> Box<dyn System> {
    let mut system = Postgres::STANDARD.start(&setup(scratch, undo, variant, settings)).unwrap();
    let (proofs, reported) = system.describe().unwrap();
    let set = settings.iter().any(|(name, _)| *name == "environment");
    assert!(if set { proofs.len() > 6 } else { proofs.len() == 6 }, "{proofs:#?}");
    assert!(proofs.iter().all(|proof| proof.active), "{variant}: {proofs:#?}");
    assert!(reported.iter().any(|(name, value)| name == "PostgreSQL" && !value.is_empty()));
    system
}

fn status(process: u32, line: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let found = text.lines().find_map(|one| one.strip_prefix(&format!("{line}:")));
    found.unwrap().trim().to_owned()
}

/// One slice: each client has a backend of its own, and both sides count alike.
fn check_slice(system: &mut dyn System, clients: u32) {
    // As the lab does: clients and server are raised over everybody else.
    let _prompt = Prompt::begin();
    let postmaster = system.pids()[0];
    let backends = system.begin(&Drive::new(clients, Nanos::from_millis(500))).unwrap();
    assert_eq!(backends.len(), clients as usize);
    for backend in &backends {
        assert_eq!(status(*backend, "Name"), "postgres");
        assert_eq!(status(*backend, "PPid"), postmaster.to_string());
    }
    let generators = system.generators();
    assert_eq!(generators.len(), 1);
    assert_eq!(status(generators[0], "Name"), "pgbench");
    system.mark().unwrap();
    assert!(system.working().unwrap());
    assert!(system.begin(&Drive::new(1, Nanos(0))).is_err(), "clients already run");
    let first = system.progress().unwrap().unwrap();
    sleep(WINDOW);
    let last = system.progress().unwrap().unwrap();
    assert!(last.at > first.at && last.operations > first.operations, "{first:?} {last:?}");
    system.close().unwrap();
    let slice = system.finish().unwrap();
    let over = slice.counted_over.duration();
    assert!(slice.operations > 0 && over >= WINDOW && over < 3 * WINDOW, "{slice:?}");
    assert_eq!(slice.per_client.len(), clients as usize);
    assert_eq!(slice.per_client.iter().sum::<u64>(), slice.operations);
    let latency = slice.latency.unwrap();
    assert!(latency.p50 <= latency.p99 && Some(latency.p99) <= latency.longest, "{latency:?}");
    let counts = slice.counts.unwrap();
    assert_eq!(counts.generator, counts.server, "not one transaction is unaccounted for");
    assert!(system.generators().is_empty() && system.finish().is_err());
}

#[test]
fn clients_have_backends_and_every_transaction_is_counted_twice() {
    if lacking("clients_have_backends_and_every_transaction_is_counted_twice") {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    Postgres::STANDARD.prepare(&setup(scratch.path(), &undo, "baseline", &[])).unwrap();
    let mut system = start(scratch.path(), &undo, "select", &[]);
    if let Some(account) = Account::unprivileged("postgres") {
        let users = status(system.pids()[0], "Uid");
        assert!(users.starts_with(&account.user.to_string()), "{users}");
    }
    for clients in [1, 4] {
        check_slice(system.as_mut(), clients);
    }
    assert!(system.begin(&Drive::new(5, Nanos(0))).is_err(), "more than were asked for");
    system.stop().unwrap();
    let mut system = start(scratch.path(), &undo, "tpcb", &[("script", "tpcb-like")]);
    check_slice(system.as_mut(), 4);
    system.stop().unwrap();
    drop(undo);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn each_factor_is_proven_by_a_client() {
    if lacking("each_factor_is_proven_by_a_client") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    let settings = [
        ("script", "tpcb-like"),
        ("scale", "2"),
        ("protocol", "simple"),
        ("synchronous_commit", "off"),
        ("shared_buffers", "16MiB"),
        ("connection", "tcp"),
    ];
    let mut system = start(scratch.path(), &undo, "other", &settings);
    check_slice(system.as_mut(), 2);
    system.stop().unwrap();
    let extended = [("protocol", "extended"), ("scale", "2")];
    let mut system = start(scratch.path(), &undo, "extended", &extended);
    check_slice(system.as_mut(), 2);
}

/// System V shared memory that a process has made.
fn shared_memory(creator: u32) -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let made = |line: &&str| line.split_whitespace().nth(4) == Some(&creator.to_string());
    table.lines().filter(made).map(str::to_owned).collect()
}

#[test]
fn a_killed_server_leaves_no_number_and_nothing_else() {
    if lacking("a_killed_server_leaves_no_number_and_nothing_else") {
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    let mut system = start(scratch.path(), &undo, "victim", &[]);
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(2, Nanos::from_millis(500))).unwrap();
    let server = system.pids()[0];
    assert_eq!(shared_memory(server).len(), 1, "PostgreSQL's mark that it runs");
    let postmaster = Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    kill_process(postmaster, Signal::KILL).unwrap();
    let error = (0..1000).find_map(|_| {
        sleep(Duration::from_millis(10));
        system.working().err()
    });
    let error = error.unwrap().to_string();
    assert!(error.contains("postgres (process") && error.contains("signal: 9"), "{error}");
    assert!(error.contains("it said: "), "{error}");
    let error = system.finish().unwrap_err().to_string();
    assert!(error.contains("died under its clients"), "{error}");
    assert!(system.begin(&Drive::new(1, Nanos(0))).is_err());
    // It has been reaped by now: nothing is left to kill, but its mark stays.
    assert_eq!(shared_memory(server).len(), 1);
    drop(system);
    assert_eq!(shared_memory(server), Vec::<String>::new());
    drop(undo);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn a_killed_generator_leaves_no_number_and_a_server_that_goes_on() {
    if lacking("a_killed_generator_leaves_no_number_and_a_server_that_goes_on") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    let mut system = start(scratch.path(), &undo, "victim", &[]);
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(2, Nanos::from_millis(500))).unwrap();
    let generator = i32::try_from(system.generators()[0]).unwrap();
    kill_process(Pid::from_raw(generator).unwrap(), Signal::KILL).unwrap();
    let error = system.finish().unwrap_err().to_string();
    assert!(error.contains("pgbench (process") && error.contains("signal 9"), "{error}");
    check_slice(system.as_mut(), 1);
}

#[test]
fn a_counter_that_is_reset_leaves_no_number() {
    let Some(psql) = SearchPath::own().find("psql") else {
        println!("SKIP a_counter_that_is_reset_leaves_no_number: no psql");
        return;
    };
    if lacking("a_counter_that_is_reset_leaves_no_number") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    let mut system = start(scratch.path(), &undo, "reset", &[]);
    let home = scratch.path().join("reset-0");
    let sockets = fs::read_dir(&home).unwrap().flatten();
    let names = sockets.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let ports = names.filter_map(|name| name.strip_prefix(".s.PGSQL.").map(str::to_owned));
    let port = ports.into_iter().find(|port| port.parse::<u16>().is_ok()).unwrap();
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(2, Nanos::from_millis(500))).unwrap();
    system.mark().unwrap();
    sleep(WINDOW);
    let ask = |statement: &str| {
        let mut command = std::process::Command::new(&psql);
        command.args(["-h", home.to_str().unwrap(), "-p", &port, "-U", "postgres", "-d", "bench"]);
        let output = command.args(["-tAc", statement]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // Backends add what they have done once a second: before that there is nothing to reset.
    let counted = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'bench'";
    let begun = Instant::now();
    while ask(counted).trim().parse::<u64>().unwrap() < 2000 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the server counts nothing");
        sleep(Duration::from_millis(20));
    }
    ask("SELECT pg_stat_reset()");
    // What was done since then is far less than what was done before.
    let error = system.finish().unwrap_err().to_string();
    assert!(error.contains("more than 1 % apart"), "{error}");
    check_slice(system.as_mut(), 1);
}

#[test]
fn a_server_that_cannot_come_up_is_quoted() {
    if lacking("a_server_that_cannot_come_up_is_quoted") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    // PostgreSQL refuses sockets with names this long.
    let far = scratch.path().join("x".repeat(120));
    fs::create_dir(&far).unwrap();
    // The server's account must pass through both directories.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let undo = Undo::begin(&far, Path::new(SERVER));
    let error = Postgres::STANDARD.prepare(&setup(&far, &undo, "baseline", &[])).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("ended before it was ready") && error.contains("too long"), "{error}");
    drop(undo);
    let left: Vec<_> = fs::read_dir(&far).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.ends_with("undo.jsonl")), "{left:?}");
}

#[test]
fn what_is_set_for_the_server_is_read_back_from_it() {
    if lacking("what_is_set_for_the_server_is_read_back_from_it") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    let set = "GLIBC_TUNABLES=glibc.malloc.arena_max=1 MY_TOKEN=hidden";
    let mut system = start(scratch.path(), &undo, "tuned", &[("environment", set)]);
    let (proofs, settings) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    let found: Vec<(&str, &str)> = proofs
        .iter()
        .filter(|proof| proof.what.ends_with("in /proc/PID/environ"))
        .map(|proof| (proof.what.as_str(), proof.found.as_str()))
        .collect();
    let expected = [
        ("postgres: GLIBC_TUNABLES in /proc/PID/environ", "glibc.malloc.arena_max=1"),
        ("postgres: MY_TOKEN in /proc/PID/environ", "(left out)"),
    ];
    assert_eq!(found, expected);
    assert!(settings.contains(&("environment".to_owned(), "GLIBC_TUNABLES MY_TOKEN".to_owned())));
    check_slice(system.as_mut(), 2);
    system.stop().unwrap();
}

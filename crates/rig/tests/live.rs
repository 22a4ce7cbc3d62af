//! The SQLite workload as it really runs: a child process, its threads, its files and its end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::sqlite::SqliteOltp;
use kneepoint_rig::{Drive, Recipe, Setup, System, Workload as _};
use kneepoint_vocab::{Nanos, VariantId};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

fn setup(scratch: &Path, variant: &str, settings: &BTreeMap<String, String>) -> Setup {
    setup_in(scratch, variant, settings, Undo::begin(scratch, Path::new(SERVER)))
}

fn setup_in(
    scratch: &Path,
    variant: &str,
    settings: &BTreeMap<String, String>,
    undo: Undo,
) -> Setup {
    let mut settings = settings.clone();
    settings.insert("rows".to_owned(), "5000".to_owned());
    Setup {
        server: SERVER.into(),
        scratch: scratch.to_owned(),
        variant: VariantId::new(variant),
        settings,
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 4,
        seed: 11,
        undo,
    }
}

/// So many clients on all cores; the embedded workload runs until it is told to stop.
fn drive(clients: u32) -> Drive {
    Drive::new(clients, Nanos(0))
}

/// The settings of a variant whose database is a file.
fn file_settings() -> BTreeMap<String, String> {
    let settings = [("database", "file"), ("cache", "private")];
    settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn threads_of(process: u32) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

fn thread_name(process: u32, thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/task/{thread}/comm")).unwrap();
    name.trim().to_owned()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), signal).unwrap();
}

/// Waits until something holds; fails after a time that no working system takes.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The kernel's letter for what a process does; `None` once it is gone.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn exists(process: u32) -> bool {
    // A zombie that nobody reaps (an orphan where process 1 does not) has ended as well.
    state(process).is_some_and(|state| state != 'Z')
}

/// What systems have made there: the journal of what is to be undone is nobody's.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| !path.ends_with("undo.jsonl")).collect()
}

/// One slice with so many clients: threads, names, counts and response times.
fn check_slice(system: &mut dyn System, clients: u32) {
    let process = system.pids()[0];
    let threads = system.begin(&drive(clients)).unwrap();
    assert_eq!(threads.len(), clients as usize);
    let all = threads_of(process);
    assert_eq!(all.len(), threads.len() + 1, "clients and control, no more: {all:?}");
    assert!(all.contains(&process), "{all:?}");
    for (index, thread) in threads.iter().enumerate() {
        assert!(all.contains(thread), "{thread} is no thread of {process}: {all:?}");
        assert_eq!(thread_name(process, *thread), format!("client-{index}"));
    }
    sleep(Duration::from_millis(20));
    system.mark().unwrap();
    sleep(Duration::from_millis(250));
    let slice = system.finish().unwrap();
    assert_eq!(slice.per_client.len(), clients as usize);
    assert!(slice.per_client.iter().all(|&operations| operations > 0), "{slice:?}");
    assert_eq!(slice.operations, slice.per_client.iter().sum::<u64>());
    assert!(slice.counted_over.0 >= 250_000_000, "{slice:?}");
    let latency = slice.latency.unwrap();
    assert!(latency.mean.0 > 0 && Some(latency.mean) <= latency.longest, "{latency:?}");
    assert!(Some(latency.p50) <= latency.p95 && latency.p95 <= Some(latency.p99), "{latency:?}");
    assert!(Some(latency.p99) <= latency.longest, "{latency:?}");
    // A thread that was joined may stay visible until the kernel has released it.
    eventually("only control stays", || threads_of(process) == BTreeSet::from([process]));
}

#[test]
fn every_variant_runs_and_proves_all_its_factors() {
    let scratch = Scratch::create().unwrap();
    let recipe = Recipe::named("sqlite-shared-cache").unwrap();
    let mut systems: Vec<_> = Vec::new();
    // One run has one journal: where it ends, all that the run has started ends.
    let undo = Undo::begin(scratch.path(), Path::new(SERVER));
    for variant in recipe.variants() {
        let own = setup_in(scratch.path(), &variant.plan.id.0, &variant.settings, undo.clone());
        systems.push((variant.plan.id.clone(), recipe.workload.start(&own).unwrap()));
    }
    for (variant, system) in &mut systems {
        let process = system.pids()[0];
        assert_eq!(thread_name(process, process), "requests", "{variant}");
        for clients in [1, 2, 4] {
            check_slice(system.as_mut(), clients);
        }
        let (proofs, settings) = system.describe().unwrap();
        assert_eq!(proofs.len(), 8, "{variant}: {proofs:#?}");
        for proof in &proofs {
            assert!(proof.active, "{variant}: {proof:#?}");
        }
        let names: Vec<_> = settings.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"SQLite") && names.contains(&"scheduling group"), "{names:?}");
    }
    assert_eq!(files_in(scratch.path()).len(), 2, "two variants have their database in a file");
    for (variant, system) in systems {
        let process = system.pids()[0];
        system.stop().unwrap();
        assert!(!exists(process), "{variant}");
    }
    assert_eq!(files_in(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn one_client_is_enough_for_the_proofs() {
    let scratch = Scratch::create().unwrap();
    for settings in [BTreeMap::new(), file_settings()] {
        let setup = Setup { max_clients: 1, ..setup(scratch.path(), "one", &settings) };
        let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
        let (proofs, _) = system.describe().unwrap();
        assert!(proofs.iter().all(|proof| proof.active), "{proofs:#?}");
        system.stop().unwrap();
    }
}

#[test]
fn the_allocator_is_read_back_and_memory_is_counted_with_either() {
    let scratch = Scratch::create().unwrap();
    for (allocator, lying) in [("libc", 0), ("mimalloc", 3)] {
        for (memstatus, counted) in [("on", true), ("off", false)] {
            let settings = [("allocator", allocator), ("memstatus", memstatus)];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let setup = setup(scratch.path(), allocator, &settings);
            let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
            check_slice(system.as_mut(), 2);
            let (proofs, settings) = system.describe().unwrap();
            let found = |what: &str| {
                let proof = proofs.iter().find(|proof| proof.what.starts_with(what)).unwrap();
                assert!(proof.active, "{proof:#?}");
                proof.found.clone()
            };
            assert_eq!(found("mi_is_in_heap_region"), format!("true for {lying} of 3"));
            let used: u64 = found("sqlite3_memory_used").parse().unwrap();
            // Its 5000 rows alone are 200 bytes each.
            assert_eq!(used > 1_000_000, counted, "{allocator}, {memstatus}: {used}");
            let (_, reported) = settings.iter().find(|(name, _)| name == "allocator").unwrap();
            assert!(reported.starts_with(allocator), "{reported}");
            system.stop().unwrap();
        }
    }
}

#[test]
fn a_request_out_of_turn_is_refused_and_harms_nothing() {
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), "turns", &BTreeMap::new());
    let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
    let message = |outcome: anyhow::Result<()>| format!("{:#}", outcome.unwrap_err());
    let none = message(system.begin(&drive(0)).map(drop));
    assert_eq!(none, "sqlite-oltp: clients must be 1 to 4 (found 0)");
    let many = message(system.begin(&drive(5)).map(drop));
    assert_eq!(many, "sqlite-oltp: clients must be 1 to 4 (found 5)");
    assert!(message(system.mark()).contains("mark before begin"));
    assert!(message(system.finish().map(drop)).contains("finish before begin"));
    system.begin(&drive(1)).unwrap();
    assert!(message(system.begin(&drive(1)).map(drop)).contains("begin before finish"));
    assert!(message(system.describe().map(drop)).contains("describe before finish"));
    assert!(message(system.finish().map(drop)).contains("finish before mark"));
    check_slice(system.as_mut(), 2);
    system.begin(&drive(2)).unwrap();
    system.stop().unwrap();
}

#[test]
fn a_setup_that_cannot_be_leaves_nothing() {
    let scratch = Scratch::create().unwrap();
    let good = setup(scratch.path(), "bad", &file_settings());
    let refused = |setup: &Setup| match SqliteOltp::STANDARD.start(setup) {
        Ok(_) => panic!("it started"),
        Err(error) => format!("{error:#}"),
    };
    let message = refused(&Setup { max_clients: 0, ..good.clone() });
    assert_eq!(message, "sqlite-oltp: clients must be 1 to 4096 (found 0)");
    let message = refused(&Setup { server: "/nonexistent/kneepoint".into(), ..good.clone() });
    assert!(
        message.starts_with("/nonexistent/kneepoint: sqlite-oltp cannot be started"),
        "{message}"
    );
    let message = refused(&Setup { server: "/bin/false".into(), ..good.clone() });
    assert!(message.contains("sqlite-oltp (process "), "{message}");
    let message = refused(&Setup { scratch: "/nonexistent".into(), ..good.clone() });
    assert!(message.contains("SQLite does not open the database"), "{message}");
    let settings = BTreeMap::from([("cache".to_owned(), "private".to_owned())]);
    let message = refused(&Setup { settings, ..good });
    assert!(message.contains("cache = private needs database = file"), "{message}");
    assert_eq!(files_in(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn dropping_a_busy_system_kills_it_and_removes_its_files() {
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), "dropped", &file_settings());
    let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
    let process = system.pids()[0];
    system.begin(&drive(4)).unwrap();
    assert_eq!(files_in(scratch.path()).len(), 1);
    drop(system);
    assert!(!exists(process));
    assert_eq!(files_in(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_child_that_is_killed_is_reported() {
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), "killed", &file_settings());
    let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
    system.begin(&drive(1)).unwrap();
    signal(system.pids()[0], Signal::KILL);
    let message = system.finish().unwrap_err().to_string();
    assert!(message.contains("died") || message.contains("takes no more requests"), "{message}");
    drop(system);
    assert_eq!(files_in(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_child_that_hangs_is_given_up() {
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), "hung", &file_settings());
    let hasty = SqliteOltp { timeout: Duration::from_secs(5) };
    let mut system = hasty.start(&setup).unwrap();
    let process = system.pids()[0];
    system.begin(&drive(2)).unwrap();
    signal(process, Signal::STOP);
    eventually("the child has stopped", || state(process) == Some('T'));
    let message = system.mark().unwrap_err().to_string();
    assert!(message.contains("gave no answer within 5s"), "{message}");
    drop(system);
    assert!(!exists(process));
    assert_eq!(files_in(scratch.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_orphan_cleans_up_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Command::new(SERVER)
        .arg("hold")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let orphan: u32 = line.trim().parse().unwrap();
    assert!(exists(orphan));
    assert_eq!(files_in(directory.path()).len(), 1);
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the orphan has ended", || !exists(orphan));
}

#[test]
fn the_child_has_a_session_of_its_own() {
    let scratch = Scratch::create().unwrap();
    let setup = setup(scratch.path(), "session", &BTreeMap::new());
    let mut system = SqliteOltp::STANDARD.start(&setup).unwrap();
    let process = Pid::from_raw(i32::try_from(system.pids()[0]).unwrap());
    assert_eq!(rustix::process::getsid(process).ok(), process);
    let (_, settings) = system.describe().unwrap();
    let (_, group) = settings.iter().find(|(name, _)| name == "scheduling group").unwrap();
    if group.starts_with("not raised") {
        println!("SKIP the_child_has_a_session_of_its_own: {group}");
        return;
    }
    let file = format!("/proc/{}/autogroup", system.pids()[0]);
    assert_eq!(fs::read_to_string(file).unwrap().trim(), format!("/{group}"));
    assert_ne!(fs::read_to_string("/proc/self/autogroup").unwrap().trim(), format!("/{group}"));
}

//! The MariaDB workloads as they really run: a private server, sysbench, and their end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;
#[path = "support/script.rs"]
mod script;

use kneepoint_machine::proc::tasks;
use kneepoint_rig::placement;
use kneepoint_rig::priority::Prompt;
use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::mariadb::{MariadbSmack, MariadbSysbench};
use kneepoint_rig::{Drive, Need, SearchPath, Setup, SliceOutput, System, Workload};
use kneepoint_vocab::{Nanos, VariantId};
use leftovers::Machine;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");
const SLICE: Nanos = Nanos::from_millis(900);
/// Figures do not matter here.
const SYSBENCH: MariadbSysbench =
    MariadbSysbench { run_in: Duration::ZERO, ..MariadbSysbench::STANDARD };

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn setup(scratch: &Scratch, settings: &[(&str, &str)]) -> Setup {
    Setup {
        server: SERVER.into(),
        scratch: scratch.path().to_owned(),
        variant: VariantId::new("tested"),
        settings: texts(settings),
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 8,
        seed: 11,
        undo: Undo::begin(scratch.path(), Path::new(SERVER)),
    }
}

/// What the machine lacks for the workload, and how to get it.
fn lacks(workload: &dyn Workload, settings: &[(&str, &str)]) -> Option<String> {
    let needs = workload.needs(&texts(settings), &SearchPath::own());
    let first = needs.iter().find(|need| !need.here)?;
    let line = Need::install_line(&needs).unwrap_or_default();
    Some(format!("no {}; {line}", first.what))
}

const SMALL: [(&str, &str); 1] = [("table_size", "2000")];

/// A loaded and started system.
fn up(workload: &dyn Workload, setup: &Setup) -> Box<dyn System> {
    workload.prepare(setup).unwrap();
    workload.start(setup).unwrap()
}

/// One slice, during which the threads are looked at.
fn slice(system: &mut dyn System, clients: u32) -> SliceOutput {
    // As the lab does: clients and server are raised over everybody else.
    let _prompt = Prompt::begin();
    let threads = system.begin(&Drive::new(clients, SLICE)).unwrap();
    assert_eq!(threads.len(), clients as usize);
    assert_eq!(threads.iter().collect::<BTreeSet<_>>().len(), threads.len());
    let server = system.pids()[0];
    for thread in threads {
        let task = format!("/proc/{server}/task/{thread}");
        assert!(Path::new(&task).exists(), "{task} does not exist");
    }
    assert_eq!(fs::read_to_string(format!("/proc/{server}/comm")).unwrap().trim(), "mariadbd");
    let generator = system.generators()[0];
    assert!(Path::new(&format!("/proc/{generator}")).exists());
    system.mark().unwrap();
    let (marked, first) = (Instant::now(), system.progress().unwrap());
    std::thread::sleep(Duration::from_nanos(SLICE.0));
    if let (Some(first), Some(last)) = (first, system.progress().unwrap()) {
        assert!(last.operations > first.operations && last.at > first.at, "{first:?} {last:?}");
    }
    system.close().unwrap();
    let open = Nanos(u64::try_from(marked.elapsed().as_nanos()).unwrap());
    let output = system.finish().unwrap();
    if first.is_some() {
        assert!(SLICE <= output.counted_over && output.counted_over.0 < 2 * open.0, "{open:?}");
    }
    assert!(system.generators().is_empty());
    assert_eq!(output.per_client.len(), clients as usize);
    assert_eq!(output.per_client.iter().sum::<u64>(), output.operations);
    assert!(output.operations > 0 && output.counted_over > Nanos(0), "{output:?}");
    let counts = output.counts.clone().unwrap();
    assert!(counts.disagreement().0 <= 0.01, "{counts:?}");
    let latency = output.latency.unwrap();
    assert!(Some(latency.p50) <= latency.p95 && latency.p95 <= Some(latency.p99), "{latency:?}");
    assert!(latency.mean > Nanos(0) && Some(latency.mean) <= latency.longest, "{latency:?}");
    output
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Waits until something holds; fails after what no working system takes.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Directories of servers in a scratch directory.
fn homes(scratch: &Scratch) -> usize {
    let entries = fs::read_dir(scratch.path()).unwrap().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("mariadb-") && name != "mariadb-template").count()
}

#[test]
fn sysbench_counts_as_the_server_does_and_nothing_is_left() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP sysbench_counts_as_the_server_does_and_nothing_is_left: {lack}");
        return;
    }
    let before = Machine::now();
    let scratch = Scratch::create().unwrap();
    let mark = scratch.path().display().to_string();
    let setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let (proofs, settings) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    assert!(settings.iter().any(|(name, value)| name == "version" && value.contains("Maria")));
    for clients in [1, 4] {
        let output = slice(system.as_mut(), clients);
        // Both count the clients' whole slice, 16 statements a transaction.
        let counts = output.counts.unwrap();
        assert_eq!(counts.generator % 16, 0);
        assert!(counts.generator / 16 > output.operations, "{counts:?}");
    }
    assert!(system.begin(&Drive::new(9, SLICE)).unwrap_err().to_string().contains("1 to 8"));
    system.stop().unwrap();
    assert_eq!(homes(&scratch), 0);
    drop(setup);
    drop(scratch);
    before.assert_nothing_left(&mark);
}

#[test]
fn treatments_of_the_server_are_read_back_over_tcp() {
    let workload = SYSBENCH;
    let settings = [
        ("table_size", "2000"),
        ("connection", "tcp"),
        ("script", "oltp_update_non_index"),
        ("innodb_flush_log_at_trx_commit", "0"),
        ("table_open_cache_instances", "1"),
        ("allocator", "libc-one-arena"),
    ];
    if let Some(lack) = lacks(&workload, &settings) {
        println!("SKIP treatments_of_the_server_are_read_back_over_tcp: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &settings);
    let mut system = up(&workload, &setup);
    let (proofs, _) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    for (what, value) in settings.iter().skip(3).take(2) {
        let proof = proofs.iter().find(|proof| proof.what.ends_with(what)).unwrap();
        assert_eq!(proof.found, *value);
    }
    slice(system.as_mut(), 2);
    system.stop().unwrap();
}

#[test]
fn super_smack_does_a_fixed_number_of_rounds() {
    let workload = MariadbSmack::STANDARD;
    let settings = [("rows", "2000"), ("rounds", "300"), ("script", "update-select")];
    if let Some(lack) = lacks(&workload, &settings) {
        println!("SKIP super_smack_does_a_fixed_number_of_rounds: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let mut setup = setup(&scratch, &settings);
    let mut system = up(&workload, &setup);
    for clients in [1, 4] {
        let output = slice(system.as_mut(), clients);
        assert_eq!(output.per_client, vec![600; clients as usize]);
    }
    system.stop().unwrap();
    setup.settings.insert("engine".to_owned(), "InnoDB".to_owned());
    let mut system = workload.start(&setup).unwrap();
    let (proofs, _) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    assert_eq!(proofs.last().unwrap().found, "InnoDB");
    slice(system.as_mut(), 2);
    drop(system);
    // Without a number of rounds, a window of the clients' work is what counts.
    setup.settings.insert("rounds".to_owned(), "auto".to_owned());
    let mut system = workload.start(&setup).unwrap();
    let output = slice(system.as_mut(), 4);
    assert!(output.counted_over >= SLICE && output.counts.unwrap().generator > output.operations);
    drop(system);
    assert_eq!(homes(&scratch), 0);
}

#[test]
fn a_server_killed_while_clients_run_leaves_no_number() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP a_server_killed_while_clients_run_leaves_no_number: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(2, SLICE)).unwrap();
    kill(system.pids()[0]);
    let mut reported = None;
    eventually("the death is noticed", || {
        reported = system.working().err();
        reported.is_some()
    });
    for error in [reported.unwrap(), system.finish().unwrap_err()] {
        let message = format!("{error:#}");
        assert!(message.contains("mariadbd (process "), "{message}");
        assert!(message.contains("SIGKILL") && message.contains("; it said: "), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(system.begin(&Drive::new(1, SLICE)).is_err());
    drop(system);
    assert_eq!(homes(&scratch), 0);
}

#[test]
fn a_generator_killed_while_it_runs_leaves_no_number_and_the_server_stays() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!(
            "SKIP a_generator_killed_while_it_runs_leaves_no_number_and_the_server_stays: {lack}"
        );
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let _prompt = Prompt::begin();
    system.begin(&Drive::new(2, SLICE)).unwrap();
    system.mark().unwrap();
    let generator = system.generators()[0];
    kill(generator);
    eventually("the generator's end is seen", || system.working().is_err());
    let message = format!("{:#}", system.finish().unwrap_err());
    assert!(message.contains("sysbench (process "), "{message}");
    slice(system.as_mut(), 2);
    system.stop().unwrap();
}

#[test]
fn a_server_that_cannot_start_is_quoted() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP a_server_that_cannot_start_is_quoted: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    workload.prepare(&setup).unwrap();
    // What InnoDB finds there is no system tablespace.
    fs::write(scratch.path().join("mariadb-template/ibdata1"), "no tablespace").unwrap();
    let message = format!("{:#}", workload.start(&setup).err().unwrap());
    assert!(message.contains("mariadbd (process "), "{message}");
    assert!(message.contains("ended before it was ready"), "{message}");
    assert!(message.contains("[ERROR]"), "{message}");
    assert_eq!(homes(&scratch), 0);
}

/// What a report of sysbench looks like.
const REPORT: &str = "Number of threads: 1
SQL statistics:
    transactions: 100 (100 per sec.)
    queries: 1600 (1600 per sec.)
    ignored errors: 0 (0.00 per sec.)
General statistics:
    total time: 1.0s
    total number of events: 100
";

#[test]
fn a_generator_that_prints_nonsense_or_another_count_leaves_no_number() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP a_generator_that_prints_nonsense_or_another_count_leaves_no_number: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    workload.prepare(&setup).unwrap();
    let program = scratch.path().join("sysbench");
    let generator: &'static str = program.display().to_string().leak();
    let mut system = MariadbSysbench { generator, ..workload }.start(&setup).unwrap();
    // Its first run is of one client and some operations, whose report says what they are made of.
    let first = |report: &str| format!("echo '{report}'");
    let client_process = |script: &str| {
        format!("case \"$*\" in *--events=0*) {script};; *) exec sysbench \"$@\";; esac")
    };
    let other = "echo kneepoint: client $c is served by thread 1 from localhost >&2";
    let cases = [
        ("echo 'FATAL: no driver' >&2; exit 1".into(), "exit code 1; it said: FATAL: no driver"),
        ("true".into(), "printed no report"),
        (first("garbage"), "printed no report"),
        (first(REPORT), "reports 100 transactions, its client counted 0"),
        (first(&REPORT.replace("ons: 100", "ons: 0")), "reports 0 transactions"),
        (first(&REPORT.replace("errors: 0", "errors: 3")), "3 transactions failed"),
        (format!("echo '{REPORT}' | head -n 5"), "is it cut off"),
        (
            client_process(&format!("for c in 0 1 2 3 4 5 6 7; do {other}; done; sleep 60")),
            "thread 1 is to serve a client, but is none of mariadbd's",
        ),
        (client_process("exit 0"), "ended before it was ready"),
    ];
    for (script, expected) in cases {
        script::script(&program, &script);
        let message = format!("{:#}", system.begin(&Drive::new(1, SLICE)).unwrap_err());
        assert!(message.contains(expected), "{script}\n{message}");
        assert!(system.generators().is_empty());
    }
    system.stop().unwrap();
}

/// Clients that wait keep the threads that serve them, and use no CPU.
#[test]
fn clients_wait_between_slices_and_keep_their_threads() {
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP clients_wait_between_slices_and_keep_their_threads: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let mut of_slices = Vec::new();
    for clients in [4, 1, 8] {
        let threads = system.begin(&Drive::new(clients, SLICE)).unwrap();
        let generator = system.generators()[0];
        // Each began on one core; from here on the scheduler has them.
        let clients_of = tasks::threads(generator);
        let free = placement::allowed();
        let bound = |thread: &&u32| placement::of(**thread).unwrap() != free;
        assert_eq!(threads.iter().chain(&clients_of).find(bound), None);
        system.mark().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(system.finish().unwrap().per_client.len(), clients as usize);
        of_slices.push((generator, threads));
        let used = || {
            let stat = fs::read_to_string(format!("/proc/{generator}/stat")).unwrap();
            let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
        };
        let before = used();
        std::thread::sleep(Duration::from_millis(300));
        assert!(used() <= before + 1, "clients that wait use CPU");
    }
    let (generator, longest) = of_slices.pop().unwrap();
    for (same, threads) in of_slices {
        assert_eq!(same, generator);
        assert_eq!(threads, longest[..threads.len()]);
    }
    system.stop().unwrap();
    assert!(!Path::new(&format!("/proc/{generator}")).exists());
}

/// Begins a test anew in a process of its own with a variable that changes how programs run, as
/// from a shell that has it set; true in that process.
fn from_a_shell_with(test: &str, variable: &str, value: &str) -> bool {
    const INNER: &str = "KNEEPOINT_TEST_INNER";
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env(variable, value).env(INNER, "1");
    let status = again.status().unwrap();
    assert!(status.success(), "{test} in a process of its own: {status}");
    false
}

#[test]
fn what_the_calling_shell_has_set_does_not_reach_the_server_and_what_is_asked_for_does() {
    const NAME: &str =
        "what_the_calling_shell_has_set_does_not_reach_the_server_and_what_is_asked_for_does";
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP {NAME}: {lack}");
        return;
    }
    if !from_a_shell_with(NAME, "GLIBC_TUNABLES", "glibc.malloc.arena_max=3") {
        return;
    }
    let scratch = Scratch::create().unwrap();
    let mut setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let found = |system: &dyn System| {
        let bytes = fs::read(format!("/proc/{}/environ", system.pids()[0])).unwrap();
        let texts = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut own = texts.filter(|text| text.starts_with("GLIBC_TUNABLES="));
        own.next().map(std::borrow::Cow::into_owned)
    };
    assert_eq!(found(system.as_ref()), None);
    assert!(system.environment().iter().any(|(name, _)| name == "PATH"));
    let (proofs, settings) = system.describe().unwrap();
    assert!(!proofs.iter().any(|proof| proof.what.contains("GLIBC_TUNABLES")), "{proofs:?}");
    assert!(!settings.iter().any(|(name, _)| name == "environment"), "{settings:?}");
    // The generator is no part of it either.
    system.begin(&Drive::new(1, SLICE)).unwrap();
    let generator = fs::read(format!("/proc/{}/environ", system.generators()[0])).unwrap();
    assert!(!String::from_utf8_lossy(&generator).contains("GLIBC_TUNABLES"));
    system.mark().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    system.finish().unwrap();
    system.stop().unwrap();
    let asked = "GLIBC_TUNABLES=glibc.malloc.arena_max=1";
    setup.settings.insert("environment".to_owned(), asked.to_owned());
    let mut system = workload.start(&setup).unwrap();
    assert_eq!(found(system.as_ref()).as_deref(), Some(asked));
    let (proofs, settings) = system.describe().unwrap();
    let proof = proofs.iter().find(|proof| proof.what.contains("GLIBC_TUNABLES")).unwrap();
    assert!(proof.active && proof.found == "glibc.malloc.arena_max=1", "{proof:?}");
    assert!(settings.contains(&("environment".to_owned(), "GLIBC_TUNABLES".to_owned())));
    system.stop().unwrap();
}

#[test]
fn a_library_that_is_preloaded_is_found_in_the_server() {
    const NAME: &str = "a_library_that_is_preloaded_is_found_in_the_server";
    let workload = SYSBENCH;
    let settings = [SMALL[0], ("environment", "LD_PRELOAD=libjemalloc.so.2")];
    if let Some(lack) = lacks(&workload, &settings) {
        println!("SKIP {NAME}: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let mut setup = setup(&scratch, &settings);
    let mut system = up(&workload, &setup);
    let (proofs, _) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
    let shown = |words: &str| proofs.iter().find(|proof| proof.what.contains(words)).unwrap();
    assert_eq!(shown("libjemalloc.so.2 in /proc/PID/maps").found, "mapped");
    assert_eq!(shown("the server's allocator").found, "jemalloc");
    system.stop().unwrap();
    // One that is there and is not loaded is no proof: the loader passes over what it cannot use.
    let odd = scratch.path().join("libodd.so");
    fs::write(&odd, "no library").unwrap();
    let value = format!("LD_PRELOAD={}", odd.display());
    setup.settings.insert("environment".to_owned(), value);
    let needs = workload.needs(&setup.settings, &SearchPath::own());
    assert!(needs.iter().any(|need| !need.here && need.what.contains("no shared library")));
    let mut system = workload.start(&setup).unwrap();
    let (proofs, _) = system.describe().unwrap();
    let proof = proofs.iter().find(|proof| proof.what.contains("maps") && !proof.active).unwrap();
    assert!(proof.what.contains("libodd.so") && proof.found == "not mapped", "{proof:?}");
    system.stop().unwrap();
}

/// One slice of a client, in whose midst an administrator says something; and the server's count
/// right before and behind that.
fn disturbed(
    system: &mut dyn System,
    scratch: &Scratch,
    statements: &str,
) -> (anyhow::Result<SliceOutput>, [u64; 2]) {
    let homes = fs::read_dir(scratch.path()).unwrap().flatten().map(|entry| entry.path());
    let socket = homes.map(|home| home.join("s")).find(|socket| socket.exists()).unwrap();
    let ask = |statements: &str| {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--skip-column-names", "--execute"]);
        let said = client.arg(statements).arg(format!("--socket={}", socket.display())).output();
        let said = said.unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let questions = || {
        let reported = ask("SHOW GLOBAL STATUS LIKE 'Questions'");
        reported.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    system.begin(&Drive::new(1, SLICE)).unwrap();
    system.mark().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = questions();
    ask(statements);
    let counts = [before, questions()];
    std::thread::sleep(Duration::from_millis(300));
    system.close().unwrap();
    (system.finish(), counts)
}

/// `FLUSH STATUS` sets the server's own count back in some versions, and leaves it in others; a
/// other's questions move it in all. A slice has a number only where the count held.
#[test]
fn a_counter_that_is_moved_meanwhile_leaves_no_number() {
    const NAME: &str = "a_counter_that_is_moved_meanwhile_leaves_no_number";
    let workload = SYSBENCH;
    if let Some(lack) = lacks(&workload, &SMALL) {
        println!("SKIP {NAME}: {lack}");
        return;
    }
    let scratch = Scratch::create().unwrap();
    let setup = setup(&scratch, &SMALL);
    let mut system = up(&workload, &setup);
    let (output, [before, after]) = disturbed(system.as_mut(), &scratch, "FLUSH STATUS");
    if after < before {
        let message = format!("{:#}", output.unwrap_err());
        let reported = ["ran backwards", "the counts disagree"];
        assert!(reported.iter().any(|reported| message.contains(reported)), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    } else {
        let counts = output.unwrap().counts.unwrap();
        assert!(counts.disagreement().0 <= 0.01, "{counts:?}");
    }
    let questions = "DO 1;".repeat(20_000);
    let (output, [before, after]) = disturbed(system.as_mut(), &scratch, &questions);
    assert!(after > before + 20_000, "{before} {after}");
    let message = format!("{:#}", output.unwrap_err());
    assert!(message.contains("the counts disagree: the generator asked"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    // The server is as good as before.
    slice(system.as_mut(), 2);
    system.stop().unwrap();
}

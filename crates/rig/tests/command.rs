//! The workload `command` with real commands: figures, hooks, servers, and everything that can
//! go wrong, each time with nothing left behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/leftovers.rs"]
mod leftovers;

use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::workload::command::Command;
use kneepoint_rig::{Drive, Recipe, SearchPath, Setup, SliceOutput, System, Workload as _};
use kneepoint_vocab::{Nanos, VariantId};
use leftovers::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");
const WINDOW: Nanos = Nanos::from_millis(300);

/// A place for one test, and what was on the machine before it.
struct Stage {
    before: Machine,
    scratch: Scratch,
}

impl Stage {
    fn new() -> Self {
        Self { before: Machine::now(), scratch: Scratch::create().unwrap() }
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    fn setup(&self, settings: &[(&str, &str)]) -> Setup {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Setup {
            server: SERVER.into(),
            scratch: self.path().to_owned(),
            variant: VariantId::new("baseline"),
            settings: settings.iter().map(owned).collect::<BTreeMap<_, _>>(),
            scheduling: Scheduling::default(),
            start: 0,
            max_clients: 8,
            seed: 11,
            undo: Undo::begin(self.path(), Path::new(SERVER)),
        }
    }

    fn started(&self, settings: &[(&str, &str)]) -> anyhow::Result<Box<dyn System>> {
        let setup = self.setup(settings);
        Command.check(&setup.settings)?;
        Command.prepare(&setup)?;
        Command.start(&setup)
    }

    /// One slice of a command in a shell, and its end.
    fn slice(&self, settings: &[(&str, &str)], clients: u32) -> anyhow::Result<SliceOutput> {
        let mut system = self.started(settings)?;
        let output = slice(system.as_mut(), clients)?;
        system.stop()?;
        Ok(output)
    }

    /// What a shell command is refused for, when it runs.
    fn refused(&self, settings: &[(&str, &str)]) -> String {
        let error = format!("{:#}", self.slice(settings, 2).unwrap_err());
        assert!(!error.contains('\n'), "{error}");
        error
    }

    /// Nothing may be left, once the directory is gone.
    fn clean(self) {
        let mark = self.path().display().to_string();
        let left: Vec<_> = fs::read_dir(self.path()).unwrap().map(|e| e.unwrap().path()).collect();
        let instance = left.iter().find(|path| path.to_string_lossy().contains("baseline"));
        assert_eq!(instance, None);
        drop(self.scratch);
        self.before.assert_nothing_left(&mark);
    }
}

/// One slice as the lab takes it, with a window that a fixed amount of work may shorten.
fn slice(system: &mut dyn System, clients: u32) -> anyhow::Result<SliceOutput> {
    system.begin(&Drive::new(clients, WINDOW))?;
    system.mark()?;
    let mut left = 30;
    while left > 0 && system.working()? {
        std::thread::sleep(Duration::from_millis(10));
        left -= 1;
    }
    system.finish()
}

fn rate(output: &SliceOutput) -> f64 {
    f64::from(u32::try_from(output.operations).unwrap()) / (output.counted_over.0 as f64 / 1e9)
}

#[test]
fn what_it_prints_is_its_throughput() {
    let stage = Stage::new();
    let sh = ("shell", "yes");
    let run = ("run", "sleep 0.4; echo \"rate $(({clients} * 100)).5\"");
    let output = stage.slice(&[sh, run, ("throughput", "rate ([0-9.]+)")], 4).unwrap();
    assert!((rate(&output) - 400.5).abs() < 0.1, "{output:?}");
    let run = ("run", "sleep 0.4; echo did 30 in 0.5 >&2");
    let both = [("operations", "did ([0-9]+)"), ("elapsed", "in ([0-9.]+)")];
    let output = stage.slice(&[sh, run, both[0], both[1]], 1).unwrap();
    assert!((rate(&output) - 60.0).abs() < 0.1, "{output:?}");
    let run = ("run", "sleep 0.4; echo '{\"jobs\": [{\"rate\": 12.5}]}'");
    let output = stage.slice(&[sh, run, ("json", "/jobs/0/rate")], 1).unwrap();
    assert!((rate(&output) - 12.5).abs() < 0.1, "{output:?}");
    stage.clean();
}

#[test]
fn fixed_work_is_divided_by_the_run_s_own_time() {
    let stage = Stage::new();
    let settings = [("run", "sleep 0.5"), ("work", "1_000_000")];
    let mut system = stage.started(&settings).unwrap();
    let output = slice(system.as_mut(), 1).unwrap();
    assert!(output.operations.abs_diff(1_000_000) <= 1, "{output:?}");
    assert!(output.counted_over >= Nanos::from_millis(500), "{output:?}");
    system.stop().unwrap();
    // One operation a run has to be asked for.
    assert!(stage.refused(&[("run", "sleep 0.4")]).contains("--work 1"));
    let output = stage.slice(&[("run", "sleep 0.4"), ("work", "1")], 1).unwrap();
    assert!(output.operations == 1 && output.counted_over >= Nanos::from_millis(400));
    stage.clean();
}

#[test]
fn a_run_that_did_nothing_is_a_slice_without_operations() {
    let stage = Stage::new();
    let run = ("run", "sleep 0.4; echo 0 ops/s");
    let output = stage.slice(&[("shell", "yes"), run], 1).unwrap();
    assert!(output.operations == 0 && output.counted_over >= Nanos::from_millis(400), "{output:?}");
    stage.clean();
}

#[test]
fn what_a_command_runs_with_is_reported() {
    let stage = Stage::new();
    let set = ("environment", "MALLOC_ARENA_MAX=1 MY_TOKEN=x");
    let of = |settings: &[(&str, &str)]| {
        let mut system = stage.started(settings).unwrap();
        let (reported, reported_set) = (system.environment(), system.describe().unwrap().1);
        system.stop().unwrap();
        (reported, reported_set)
    };
    for start in [None, Some(("start", "sleep 600"))] {
        let mut settings = vec![("run", "true"), set];
        settings.extend(start);
        let (reported, names) = of(&settings);
        let value = |name: &str| {
            reported.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("MALLOC_ARENA_MAX"), Some("1"), "{start:?}");
        assert_eq!(value("MY_TOKEN"), Some("(left out)"));
        assert!(value("PATH").is_some());
        let names = names.iter().find(|(name, _)| name == "environment").unwrap();
        assert_eq!(names.1, "MALLOC_ARENA_MAX MY_TOKEN");
    }
    stage.clean();
}

#[test]
fn threads_that_work_are_the_clients() {
    let stage = Stage::new();
    let spin = "for i in $(seq {clients}); do (while :; do :; done) & p=\"$p $!\"; done; \
                trap 'kill $p; exit 0' TERM; echo 7 ops/s; wait";
    let settings = [("run", spin), ("shell", "yes"), ("until", "stopped")];
    let mut system = stage.started(&settings).unwrap();
    // On a busy machine the shell can still be at work itself when it is looked at.
    let reported = (0..20).any(|_| {
        let clients = system.begin(&Drive::new(2, WINDOW)).unwrap();
        let shell = system.pids()[0];
        system.mark().unwrap();
        assert!(system.working().unwrap());
        assert!((rate(&system.finish().unwrap()) - 7.0).abs() < 0.1);
        clients.len() == 2 && !clients.contains(&shell)
    });
    assert!(reported, "two of three processes work, and the shell waits");
    drop(system);
    let idle = [("run", "sleep 0.4"), ("work", "5")];
    let mut system = stage.started(&idle).unwrap();
    assert!(system.begin(&Drive::new(1, WINDOW)).unwrap().is_empty(), "nobody uses CPU");
    drop(system);
    stage.clean();
}

/// Who starts the others is busy first, and only waits for them then.
#[test]
fn who_waits_for_its_workers_is_no_client() {
    let stage = Stage::new();
    let run = "n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; \
               for i in 1 2; do (while :; do :; done) & p=\"$p $!\"; done; \
               trap 'kill $p; exit 0' TERM; echo 5 ops/s; wait";
    let settings = [("run", run), ("shell", "yes"), ("until", "stopped")];
    let mut system = stage.started(&settings).unwrap();
    let first = system.begin(&Drive::new(2, WINDOW)).unwrap();
    let shell = system.pids()[0];
    // On a busy machine it takes a while until both work and the shell only waits.
    let mut looks = (0..50).map(|_| system.settled_clients(2).unwrap());
    let reported = looks.any(|now| now.len() == 2 && !now.contains(&shell));
    assert!(reported, "the workers are not told from {shell}, at first {first:?}");
    drop(system);
    stage.clean();
}

/// What a program does alone before its clients begin is no part of their window.
#[test]
fn what_is_done_before_the_clients_begin_is_left_out() {
    let alone = Duration::from_millis(400);
    let stage = Stage::new();
    let run = "sleep 0.4; for i in $(seq {clients}); do (sleep 0.4; :) & done; wait; echo did 90";
    let settings = [("run", run), ("shell", "yes"), ("operations", "did ([0-9]+)")];
    let mut system = stage.started(&settings).unwrap();
    let begun = Instant::now();
    system.begin(&Drive::new(4, Nanos::from_millis(8000))).unwrap();
    assert!(begun.elapsed() >= alone, "begun after {:?}", begun.elapsed());
    system.mark().unwrap();
    let output = system.finish().unwrap();
    let whole = begun.elapsed();
    let over = Duration::from_nanos(output.counted_over.0);
    assert!(over + alone * 9 / 10 < whole, "counted over {over:?} of {whole:?}");
    drop(system);
    stage.clean();
}

#[test]
fn hooks_run_in_order_and_the_last_one_after_a_failure_too() {
    let stage = Stage::new();
    let log = stage.path().join("log").display().to_string();
    let say = |word: &str| format!("echo {word} >> {log}");
    let (setup, prepare, conclude) = (say("setup"), say("prepare"), say("conclude"));
    let run = format!("{}; test -d {{directory}} -a -d {{shared}}; sleep 0.4", say("run-$MARK"));
    let hooks = [
        ("shell", "yes"),
        ("setup", setup.as_str()),
        ("prepare", &prepare),
        ("conclude", &conclude),
        ("environment", "MARK='it is'"),
        ("work", "1"),
    ];
    let with = |run: &str| {
        let _ = fs::remove_file(&log);
        let mut settings = hooks.to_vec();
        settings.push(("run", run));
        let outcome = stage.slice(&settings, 1).map(|_| ());
        (outcome, fs::read_to_string(&log).unwrap())
    };
    let (outcome, said) = with(&run);
    outcome.unwrap();
    assert_eq!(said, "setup\nprepare\nrun-it is\nconclude\n");
    let (outcome, said) = with("echo 'no such table' >&2; exit 3");
    let error = format!("{:#}", outcome.unwrap_err());
    assert!(error.contains("exit code 3; it said: no such table"), "{error}");
    assert_eq!(said, "setup\nprepare\nconclude\n");
    stage.clean();
}

/// A server that `prepare` sends into the background serves until the instance ends, no longer.
#[test]
fn what_prepare_sends_into_the_background_ends_with_the_instance() {
    let stage = Stage::new();
    let prepare =
        "sh -c 'cd {directory}; setsid sleep 613 >/dev/null 2>&1 & echo $! > {shared}/pid'";
    let started = stage.started(&[("prepare", prepare), ("run", "sleep 0.1"), ("work", "1")]);
    let mut system = started.unwrap();
    let shared = stage.path().join("command-shared/pid");
    let pid = fs::read_to_string(shared).unwrap().trim().to_owned();
    let runs = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    assert!(runs(), "the daemon is gone");
    let _ = slice(system.as_mut(), 1);
    assert!(runs(), "the daemon went with a slice");
    system.stop().unwrap();
    assert!(!runs(), "the daemon outlives its instance");
}

#[test]
fn what_goes_wrong_is_reported_in_one_line() {
    let stage = Stage::new();
    let shell = |run: &'static str| vec![("shell", "yes"), ("run", run)];
    let with = |run, setting| [shell(run), vec![setting]].concat();
    assert!(stage.refused(&shell("sleep 0.2; kill -9 $$")).contains("killed by signal 9"));
    assert!(stage.refused(&shell("true")).contains("give it more work"));
    assert!(stage.refused(&shell("no-such-program")).contains("exit code 127"));
    let garbage = with("sleep 0.4; head -c 300 /dev/urandom", ("throughput", "x=([0-9]+)"));
    assert!(stage.refused(&garbage).contains("nothing it printed matches"));
    let silent = with("sleep 0.4", ("json", "/a"));
    assert!(stage.refused(&silent).contains("printed no JSON"));
    let none = with("sleep 0.4; echo nan ops/s", ("patience_s", "5"));
    assert!(stage.refused(&none).contains("no throughput"));
    let hanging = with("sleep 600", ("patience_s", "0.2"));
    let reported = stage.refused(&hanging);
    assert!(
        reported.contains("did not end within 200ms") && reported.contains("{seconds}"),
        "{reported}"
    );
    stage.clean();
}

#[test]
fn a_server_that_is_not_there_or_goes_is_reported() {
    let stage = Stage::new();
    let refused =
        |settings: &[(&str, &str)]| format!("{:#}", stage.slice(settings, 1).unwrap_err());
    let never = [("run", "true"), ("start", "sleep 600"), ("ready", "false")];
    let reported = refused(&[never[0], never[1], never[2], ("ready_within_s", "0.2")]);
    assert!(reported.contains("not ready within 200ms"), "{reported}");
    let crashing = [("run", "sleep 5"), ("start", "sh -c 'sleep 0.2; echo oh >&2; exit 4'")];
    let reported = refused(&crashing);
    assert!(
        reported.contains("the server") && reported.contains("exit code 4; it said: oh"),
        "{reported}"
    );
    let taken = ("start", "sh -c 'echo the port is taken >&2; exit 3'");
    let reported = refused(&[never[0], taken, never[2]]);
    assert!(reported.contains("is taken") && reported.ends_with("each its own"), "{reported}");
    let placed = ("start", "sh -c 'echo {port} is taken >&2; exit 3'");
    let reported = refused(&[never[0], placed, never[2]]);
    assert!(reported.ends_with("is taken"), "{reported}");
    stage.clean();
}

#[test]
fn redis_runs_by_its_recipe() {
    const NAME: &str = "redis_runs_by_its_recipe";
    if ["redis-server", "redis-benchmark", "redis-cli"]
        .iter()
        .any(|name| SearchPath::own().find(name).is_none())
    {
        println!("SKIP {NAME}: redis-server or redis-tools is not installed");
        return;
    }
    let stage = Stage::new();
    let recipe = Recipe::named("redis").unwrap();
    let mut setup = stage.setup(&[]);
    setup.settings = recipe.settings.clone();
    recipe.workload.prepare(&setup).unwrap();
    let mut system = recipe.workload.start(&setup).unwrap();
    let server = system.pids();
    let (proofs, settings) = system.describe().unwrap();
    assert!(proofs.iter().all(|proof| proof.active) && proofs.len() == 2, "{proofs:?}");
    // Asking for the count is a command as well.
    let own = settings.iter().find(|(name, _)| name == "a reading of the count adds").unwrap();
    assert_eq!(own.1, "1");
    for clients in [1, 4] {
        let threads = system.begin(&Drive::new(clients, WINDOW)).unwrap();
        assert!(threads.is_empty(), "which thread serves whom is not known");
        assert_eq!(system.pids(), server);
        assert_eq!(system.generators().len(), 1);
        system.mark().unwrap();
        std::thread::sleep(Duration::from_millis(600));
        system.close().unwrap();
        let output = system.finish().unwrap();
        assert!(rate(&output) > 100.0, "{output:?}");
        assert!(output.counted_over >= Nanos::from_millis(600), "{output:?}");
        assert!(system.generators().is_empty());
    }
    system.stop().unwrap();
    // redis writes its title over its variables: they are read before.
    if jemalloc() {
        let set = "LD_PRELOAD=libjemalloc.so.2 KNEEPOINT_SHOWN=yes";
        setup.settings.insert("environment".to_owned(), set.to_owned());
        setup.variant = VariantId::new("baseline");
        setup.start = 1;
        let mut system = recipe.workload.start(&setup).unwrap();
        let (proofs, _) = system.describe().unwrap();
        assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
        system.stop().unwrap();
        setup.variant = VariantId::new("v");
        let mut system = recipe.workload.start(&setup).unwrap();
        let (proofs, _) = system.describe().unwrap();
        assert!(proofs.iter().all(|proof| proof.active), "{proofs:?}");
        let found = |words: &str| proofs.iter().any(|proof| proof.what.contains(words));
        assert!(found("libjemalloc.so.2 in /proc/PID/maps"), "{proofs:?}");
        system.stop().unwrap();
    }
    // The last one who knows the journal ends its guardian.
    drop(setup);
    stage.clean();
}

/// What redis itself was asked meanwhile, by its own count, is what a slice counts.
#[test]
fn a_count_that_is_set_back_meanwhile_leaves_no_number() {
    const NAME: &str = "a_count_that_is_set_back_meanwhile_leaves_no_number";
    if ["redis-server", "redis-benchmark", "redis-cli"]
        .iter()
        .any(|name| SearchPath::own().find(name).is_none())
    {
        println!("SKIP {NAME}: redis-server or redis-tools is not installed");
        return;
    }
    let stage = Stage::new();
    let recipe = Recipe::named("redis").unwrap();
    let mut setup = stage.setup(&[]);
    setup.settings = recipe.settings.clone();
    let mut system = recipe.workload.start(&setup).unwrap();
    let socket = stage.path().join("baseline-0-command/redis.sock");
    // Early, but not so early that a machine which is disturbed before and not after makes good for
    // what was lost.
    for after in [250, 400] {
        system.begin(&Drive::new(2, Nanos::from_millis(600))).unwrap();
        system.mark().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        let mut reset = std::process::Command::new("redis-cli");
        reset.arg("-s").arg(&socket).args(["config", "resetstat"]);
        assert!(reset.stdout(std::process::Stdio::null()).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(600 - after));
        let closed = system.close();
        let reported = format!("{:#}", closed.and(system.finish().map(drop)).unwrap_err());
        assert!(reported.contains("went back from") && !reported.contains('\n'), "{reported}");
        // The next slice begins with a count that has gone back too, and the one behind it is well.
        let begun = system.begin(&Drive::new(2, Nanos::from_millis(600)));
        if begun.is_ok() {
            system.mark().unwrap();
            std::thread::sleep(Duration::from_millis(600));
            assert!(rate(&system.finish().unwrap()) > 100.0);
        }
    }
    system.stop().unwrap();
    drop(setup);
    stage.clean();
}

#[test]
fn a_count_that_is_none_or_stands_still_leaves_no_number() {
    let stage = Stage::new();
    let with = |counter: &str, pattern: &str| {
        let settings = [
            ("run", "sleep 60"),
            ("start", "sleep 600"),
            ("counter", counter),
            ("counter_pattern", pattern),
        ];
        stage.refused(&settings)
    };
    let still = with("echo total 5", "total ([0-9]+)");
    assert!(still.contains("does not grow: 5 when the window opened, 5 when it closed"), "{still}");
    let none = with("echo nothing", "total ([0-9]+)");
    assert!(none.contains("no count from `echo nothing`") && none.contains("matches"), "{none}");
    assert!(with("sh -c 'echo oh >&2; exit 3'", "(1)").contains("exit code 3; it said: oh"));
    let short = [("run", "sleep 0.2"), ("start", "sleep 600"), ("counter", "date +%s%3N")];
    let short = stage.refused(&short);
    assert!(short.contains("ended before its window closed"), "{short}");
    stage.clean();
}

#[test]
fn a_count_is_of_the_window_and_the_command_is_ended_after_it() {
    let stage = Stage::new();
    // A clock that counts milliseconds does 1000 a second.
    let settings = [("run", "sleep 60"), ("counter", "date +%s%3N")];
    let mut system = stage.started(&settings).unwrap();
    let output = slice(system.as_mut(), 2).unwrap();
    assert!((rate(&output) - 1000.0).abs() <= 110.0, "{output:?}");
    assert!(system.pids().is_empty(), "it was ended with its window");
    system.stop().unwrap();
    // Without a server the command itself is the system, and counts for itself.
    let log = stage.path().join("log").display().to_string();
    let run = format!("while :; do echo; sleep 0.01; done > {log}");
    let counter = format!("wc -l < {log}");
    let settings = [("shell", "yes"), ("run", run.as_str()), ("counter", &counter)];
    let output = stage.slice(&settings, 1).unwrap();
    assert!((1.0..=101.0).contains(&rate(&output)), "{output:?}");
    stage.clean();
}

/// The variant of a command shows its program, its variables and its libraries.
#[test]
fn a_variant_of_a_command_is_read_back_from_a_process_of_it() {
    let stage = Stage::new();
    let shown = |variant: &str, settings: &[(&str, &str)]| {
        let mut setup = stage.setup(settings);
        setup.variant = VariantId::new(variant);
        let mut system = Command.start(&setup).unwrap();
        let (proofs, _) = system.describe().unwrap();
        system.stop().unwrap();
        let reported = |what: &str| {
            let found = proofs.iter().find(|proof| proof.what.contains(what));
            found.map(|proof| (proof.found.clone(), proof.active))
        };
        let variables = ["program", "A in", "libjemalloc"].map(reported);
        assert!(proofs.len() <= 4, "{proofs:?}");
        variables
    };
    let run = ("run", "sleep 60");
    let [base, none, _] = shown("baseline", &[run]);
    assert!(base.as_ref().unwrap().0.contains("sleep") && none.is_none(), "{base:?}");
    let [same, variable, _] = shown("v", &[run, ("environment", "A=1")]);
    assert_eq!((same, variable), (base.clone(), Some(("1".to_owned(), true))));
    // A wrapper becomes what it wraps; a command that ends at once shows nothing.
    let [_, variable, _] = shown("v", &[("run", "nice sleep 60"), ("environment", "A=1")]);
    assert_eq!(variable, Some(("1".to_owned(), true)));
    let [other, ..] = shown("v", &[("run", "tail -f /dev/null")]);
    assert!(other.is_some() && other != base, "{other:?}");
    if SearchPath::own().find("sleep").is_some() && jemalloc() {
        let preload = ("environment", "LD_PRELOAD=libjemalloc.so.2");
        let [_, _, library] = shown("v", &[run, preload]);
        assert!(library.unwrap().1);
        let [_, _, library] = shown("v", &[run, preload, ("start", "sleep 600")]);
        assert!(library.unwrap().1, "a server has it too");
    } else {
        println!("SKIP a_variant_of_a_command_is_read_back_from_a_process_of_it: no libjemalloc2");
    }
    stage.clean();
}

fn jemalloc() -> bool {
    let settings = [("run", "sleep 60"), ("environment", "LD_PRELOAD=libjemalloc.so.2")];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Command.needs(&settings.into(), &SearchPath::own()).iter().all(|need| need.here)
}

/// What the guide shows is what runs.
#[test]
fn the_guide_shows_the_recipe_that_runs() {
    let guide = include_str!("../../../recipes/README.md");
    let recipe = include_str!("../../../recipes/redis.toml");
    assert!(guide.contains(&format!("```toml\n{recipe}```")), "README.md is not redis.toml");
}

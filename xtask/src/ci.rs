//! Every check in one command; ends with what passed, what failed and what was skipped.

use crate::accuracy::{self, Missed};
use crate::again::{Failed, Failures};
use crate::bpf;
use crate::faults;
use crate::require;
use crate::setup;
use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Points of faults that may be not well on a machine with other work on it; they are printed.
const STARVED: usize = 2;

/// After so long no more points and specimens are begun: on a slow machine the tests come first.
const LONGEST: Duration = Duration::from_secs(16 * 60);
/// A minute or so for each of the specimens, where they have to be tried again.
const SPECIMENS: Duration = Duration::from_secs(2 * 60);

/// By which property tests of one run of the suite draw the same cases on a second try.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A Cargo command that has to succeed.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const BEFORE_TESTS: [Step; 2] = [
    Step { name: "fmt", arguments: &["fmt", "--all", "--check"], environment: &[] },
    Step {
        name: "clippy",
        arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-Dwarnings"],
        environment: &[],
    },
];

const AFTER_TESTS: [Step; 1] = [Step {
    name: "doc",
    arguments: &["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"],
    environment: &[("RUSTDOCFLAGS", "-Dwarnings")],
}];

/// Runs every step, even after a failure, so that one run tells everything.
///
/// # Errors
/// Where a step failed, or a check was skipped although the machine has what it needs.
pub(crate) fn run(with_setup: bool) -> Result<()> {
    let begin = Instant::now();
    if with_setup {
        setup::run();
    }
    let mut failed = Vec::new();
    let mut tally = Tally::default();
    for step in &BEFORE_TESTS {
        timed(step.name, &mut failed, || cargo(step));
    }
    timed("test", &mut failed, || tests(&mut tally));
    timed("accuracy", &mut failed, || specimens(&mut tally, left(begin)));
    timed("faults", &mut failed, || points(&mut tally, left(begin)));
    for step in &AFTER_TESTS {
        timed(step.name, &mut failed, || cargo(step));
    }
    timed("tidy", &mut failed, crate::tidy);
    timed("bpf", &mut failed, || object(&mut tally));
    timed("skips", &mut failed, || skips(&tally));
    for failure in &failed {
        println!("FAILED {failure}");
    }
    for how in tally.unsteady() {
        println!("UNSTEADY {how}");
    }
    println!("{}", tally.closing_line());
    if failed.is_empty() { Ok(()) } else { bail!("not fit to land") }
}

/// Runs one step and prints its outcome and how long it took.
fn timed(name: &str, failed: &mut Vec<String>, work: impl FnOnce() -> Result<()>) {
    println!("== {name}");
    let begin = Instant::now();
    let outcome = work();
    let seconds = begin.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => println!("== {name}: ok, {seconds:.1} s"),
        Err(error) => {
            println!("== {name}: FAILED, {seconds:.1} s: {error:#}");
            failed.push(format!("{name}: {error:#}"));
        }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::cargo());
    command.args(arguments).current_dir(crate::root()).stdin(Stdio::null());
    command
}

fn cargo(step: &Step) -> Result<()> {
    let mut command = command(step.arguments);
    command.envs(step.environment.iter().copied());
    let status = command.status().context("cargo")?;
    if status.success() { Ok(()) } else { bail!("cargo {}: {status}", step.arguments.join(" ")) }
}

/// All tests of all crates; a few that failed are taken once more, alone.
fn tests(tally: &mut Tally) -> Result<()> {
    let mut failures = Failures::default();
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    let seed = seed();
    println!("{SEED}={seed}");
    let status = tested(&arguments, &seed, |line| {
        failures.take(line);
        tally.take(line)
    })?;
    if status.success() {
        return Ok(());
    }
    tally.died();
    let Some(failed) = failures.worth_another_try() else { bail!("cargo test: {status}") };
    for program in failed {
        alone(program, &seed)?;
        tally.passed_alone(&program.tests);
    }
    Ok(())
}

/// The caller's seed, or another one for each run.
fn seed() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    std::env::var(SEED).unwrap_or_else(|_| now.as_secs().to_string())
}

/// The failed tests of a program, one after another and with nothing of ours beside them.
fn alone(failed: &Failed, seed: &str) -> Result<()> {
    let mut arguments = vec!["test", "--workspace"];
    arguments.extend(failed.target.iter().map(String::as_str));
    arguments.extend(["--", "--show-output", "--test-threads=1", "--exact"]);
    arguments.extend(failed.tests.iter().map(String::as_str));
    println!("once more, alone: {}", failed.tests.join(", "));
    let mut again = Tally::default();
    let status = tested(&arguments, seed, |line| again.take(line))?;
    // Names that match no test pass too: those of examples in the docs do.
    let passed = status.success() && again.passed() >= failed.tests.len();
    ensure!(passed, "failed twice, the second time alone: {}", failed.tests.join(", "));
    Ok(())
}

/// Runs tests; prints the lines of their output, and of Cargo's, that `is_shown` asks for.
fn tested(
    arguments: &[&str],
    seed: &str,
    mut is_shown: impl FnMut(&str) -> bool,
) -> Result<ExitStatus> {
    let (output, input) = std::io::pipe().context("a pipe")?;
    // One pipe for both, so that Cargo's lines come between those of the test programs. The
    // command owns the writing ends: the output ends when it is dropped and all have ended.
    let mut child = command(arguments)
        .env("INSTA_UPDATE", "no")
        .env(SEED, seed)
        .stdout(input.try_clone().context("a pipe")?)
        .stderr(input)
        .spawn()
        .context("cargo test")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if is_shown(&line) {
            println!("{line}");
        }
    }
    Ok(child.wait()?)
}

/// What is left of [`LONGEST`].
fn left(begin: Instant) -> Duration {
    LONGEST.saturating_sub(begin.elapsed())
}

/// A few specimens live, where the full collector can be had. A machine with other work on it may
/// show one of them as something else.
fn specimens(tally: &mut Tally, left: Duration) -> Result<()> {
    if left < SPECIMENS {
        tally.skip_outside("specimens live", "the tests took so long that no time is left");
        return Ok(());
    }
    if !require::can_collect() {
        tally.skip_outside("specimens live", "bpf is missing: no root, or a kernel without BTF");
        return Ok(());
    }
    let missed = accuracy::live()?;
    let texts = accuracy::texts(&missed);
    match missed.len() {
        0 => {}
        1 => tally.in_part(format!("specimen {texts}")),
        _ if missed.iter().all(Missed::is_disturbed) => {
            println!("{texts}");
            tally.skip_outside("specimens live", "others use too much of the cores");
        }
        _ => bail!("not diagnosed: {texts}"),
    }
    Ok(())
}

/// Some hundred points of `cargo xtask faults`, on the program that the tests have built.
fn points(tally: &mut Tally, left: Duration) -> Result<()> {
    if let Some(lacking) = faults::lacking() {
        tally.skip_outside("faults", &lacking);
        return Ok(());
    }
    for lacking in faults::lacking_servers() {
        tally.skip_outside("faults with servers", &format!("no {lacking}"));
    }
    let outcome = faults::check(left)?;
    tally.points(outcome.well, outcome.not_well);
    if outcome.left_out > 0 {
        let reason = format!("no time was left for {} points", outcome.left_out);
        tally.skip_outside("some faults", &reason);
    }
    // Each of them twice: what is starved of cores, and not by a fault of Kneepoint's, may be.
    ensure!(outcome.not_well <= STARVED, "{} points are not well", outcome.not_well);
    Ok(())
}

/// The committed eBPF object against its source: the hash always, the bytes where clang is.
fn object(tally: &mut Tally) -> Result<()> {
    if setup::has_bpf_compiler() {
        return bpf::run(true);
    }
    tally.skip_outside("bpf object rebuild", "clang-19, llvm-19 or libbpf-dev is missing");
    bpf::recorded(&crate::root().join("crates/probe/bpf"))
}

/// Lists what was not checked, and objects where the machine could have checked it.
fn skips(tally: &Tally) -> Result<()> {
    let required = require::required();
    let mut contradictions = 0;
    for skip in tally.skips() {
        let present = require::contradicted(skip, &required);
        contradictions += usize::from(present.is_some());
        let remark = present.map(|name| format!("   FAILED: this machine has {name}"));
        println!("SKIP {}: {}{}", skip.name, skip.reason, remark.unwrap_or_default());
    }
    if contradictions == 0 {
        return Ok(());
    }
    bail!("{contradictions} skipped although {} asks for it", require::VARIABLE)
}

//! Every check in one command; ends with what passed, what failed and what was skipped.

use crate::bpf;
use crate::faults;
use crate::require;
use crate::setup;
use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Points of faults that may be not well on a machine with other work on it; they are printed.
const STARVED: usize = 2;

/// After so long no more points and specimens are begun: on a slow machine the tests come first.
const LONGEST: Duration = Duration::from_secs(18 * 60);
/// A minute or so for each of the specimens, where they have to be tried again.
const SPECIMENS: Duration = Duration::from_secs(2 * 60);

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
    if with_setup {
        setup::run();
    }
    let begin = Instant::now();
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
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    println!("{}", tally.closing_line());
    if failed.is_empty() { Ok(()) } else { bail!("not fit to land") }
}

/// Runs one step and prints its outcome and how long it took.
fn timed(name: &'static str, failed: &mut Vec<&'static str>, work: impl FnOnce() -> Result<()>) {
    println!("== {name}");
    let begin = Instant::now();
    let outcome = work();
    let seconds = begin.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => println!("== {name}: ok, {seconds:.1} s"),
        Err(error) => {
            println!("== {name}: FAILED, {seconds:.1} s: {error:#}");
            failed.push(name);
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

/// All tests of all crates; shows failures and result lines, counts the rest.
fn tests(tally: &mut Tally) -> Result<()> {
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    let mut child = command(&arguments)
        .env("INSTA_UPDATE", "no")
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if tally.take(&line) {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    tally.died();
    bail!("cargo test: {status}")
}

/// What is left of [`LONGEST`].
fn left(begin: Instant) -> Duration {
    LONGEST.saturating_sub(begin.elapsed())
}

/// A few specimens live, where the full collector can be had.
fn specimens(tally: &mut Tally, left: Duration) -> Result<()> {
    if left < SPECIMENS {
        tally.skip_outside("specimens live", "the tests took so long that no time is left");
        return Ok(());
    }
    if require::can_collect() {
        return crate::accuracy::live();
    }
    tally.skip_outside("specimens live", "bpf is missing: no root, or a kernel without BTF");
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

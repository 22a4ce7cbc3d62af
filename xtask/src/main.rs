//! Developer commands: `cargo xtask ci`, `setup`, `tidy`, `bpf`, `ten`, `recipes`, `by-hand`,
//! `programs`, `accuracy`, `bench-probe`, `faults` and `dist`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for developers speaks through the terminal"
)]

mod aa;
mod accuracy;
mod again;
mod bench_probe;
mod bpf;
mod by_hand;
mod ci;
mod dist;
mod error_rates;
mod faults;
#[path = "../../crates/rig/tests/support/leftovers.rs"]
mod leftovers;
mod predictors;
mod programs;
mod recipes;
mod require;
mod setup;
mod tally;
mod ten;
mod tidy;
mod variants;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  ci [--no-setup]           set up what tests need, then every check: fmt, clippy, tests, faults,
                            docs, tidy, the eBPF object
  setup                     install what tests need and this machine lacks (Debian, as root)
  tidy                      the repository's own rules
  bpf [--check]             compile the eBPF object, or compare it with the committed one
  ten [--runs N] [--out DIR] [--program FILE]
                            run the built-in experiment N times (10) with the release build, and
                            compare each verdict with the known answer
  recipes [--budget TIME] [--out DIR] [--program FILE] [NAMES]
                            run every recipe with the release build: each has to give a knee with
                            an interval, counts that agree, and a machine as it was before
  programs  [--budget TIME] [--levels LIST] [--out DIR] [--program FILE] [NAMES]
                            build the programs of programs/, run each with the release build, and
                            compare its first cause with the one that was planted
  accuracy  [--runs N] [--seed S] [--budget TIME] [--forms debug,stripped,lto] [--out DIR]
            [--program FILE] [--again DIR] [--scores FILE] [--gain TIME] [--tools] [--write]
            [--check] [NAMES]
                            build the programs of specimens/ under names that mean nothing, and
                            score the release build on each: cause, place, share, gain, false
                            alarms; --again scores what DIR keeps of runs, --scores adds to
                            FILE and makes tables of all it holds, --gain gives the twins' gains
                            a run of their own, --write puts tables into
                            docs/accuracy.md, --check only builds and runs the programs
  error-rates [--runs N]    error rates of the whole procedure by simulation, as a table
  aa [--recipes A,B] [--comparisons N] [--out DIR] [--program FILE]
                            compare systems with themselves, N times in all (40), with the release
                            build: hardly any comparison may claim a difference
  variants [--runs N] [--copies N] [--slower 5%] [--budget TIME] [--out DIR] [--program FILE]
                            compare a program with copies of itself given as variants, and with
                            one that does more work: none of the first may differ, the other has to
  predictors [--fit] [--series DIR]
                            errors of forecasts from throughput alone on public series, each by
                            weights that did not learn from it; --fit makes the weights and the
                            table of docs/prediction.md anew
  predictors --runs DIR...  errors of calibrated twins on runs: at the last level, which is kept
                            from them, and of locks gone beside the variant that cured them
  by-hand RECIPE... [--rounds N] [--seconds S] [--clients 1,2,8] [--budget TIME] [--profile]
          [--tier full|fallback] [--out DIR] [--program FILE]
                            drive the same server with plain sysbench or pgbench, in turn with
                            runs of the release build, and compare throughput level by level;
                            --profile: what `profile` of the server costs and sees
  faults [--points N] [--seed S] [--only [SEED:]NUMBER] [--program FILE] [--within TIME]
         [--at-once N] [--results FILE]
                            strike the debug build at N points (324) drawn from a seed: kills,
                            failing system calls, programs that misbehave, servers that die, hang
                            or lie, damaged directories; begins none after TIME (170s, 3m), and
                            takes none that are in FILE
  bench-probe [--loads pipe,pipe-one-cpu,block,mariadb]
              [--observers kneepoint,attached,bpftrace,perf,gdb] [--pairs N] [--seconds S]
              [--collector [NAME=]FILE]...
                            throughput with the collector, bpftrace, perf and gdb over that with
                            nothing, as interleaved pairs; attached: our programs return at once
  dist [--out DIR] [--program FILE] [--static]
                            a Debian package of the release build, with man pages and completions,
                            in target/dist; --static: an archive of a build for musl instead";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci"] => ci::run(true),
        ["ci", "--no-setup"] => ci::run(false),
        ["setup"] => {
            setup::run();
            Ok(())
        }
        ["tidy"] => tidy(),
        ["bpf"] => bpf::run(false),
        ["bpf", "--check"] => bpf::run(true),
        ["ten", flags @ ..] => ten::run(flags),
        ["by-hand", flags @ ..] => by_hand::run(flags),
        ["predictors", flags @ ..] => predictors::run(flags),
        ["recipes", flags @ ..] => recipes::run(flags),
        ["faults", flags @ ..] => faults::run(flags),
        ["bench-probe", flags @ ..] => bench_probe::run(flags),
        ["programs", flags @ ..] => programs::run(flags),
        ["accuracy", flags @ ..] => accuracy::run(flags),
        ["error-rates", flags @ ..] => error_rates::run(flags),
        ["aa", flags @ ..] => aa::run(flags),
        ["variants", flags @ ..] => variants::run(flags),
        ["dist", flags @ ..] => dist::run(flags),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> Result<()> {
    let complaints = tidy::check(&root())?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        1 => bail!("1 rule is broken"),
        count => bail!("{count} rules are broken"),
    }
}

/// The repository's root: the folder above this package.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// A file or folder that Cargo has built for the workspace.
fn built(file: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    root().join(folder).join(file)
}

/// The Cargo that runs this command.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

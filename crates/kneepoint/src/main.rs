//! Kneepoint finds where a multi-threaded system stops scaling, why, and what cures it.
//!
//! This binary parses, wires and prints; every number comes from the crates below.

mod cli;
mod commands;
mod print;
mod progress;
mod signals;

use clap::Parser;
use cli::{Cli, Command};
use kneepoint_rig::rights::Work;
use std::process::ExitCode;

/// The result can be relied on.
const OK: u8 = 0;
/// Something went wrong; the message says what and what to do.
const ERROR: u8 = 1;
/// The command line is wrong. clap uses the same number.
const USAGE: u8 = 2;
/// A condition that was to fail holds.
const CONDITION_HOLDS: u8 = 3;
/// There is a report, and it says why it should not be relied on.
const NOT_TRUSTWORTHY: u8 = 4;

#[global_allocator]
static MEMORY: kneepoint_machine::memory::OrExit = kneepoint_machine::memory::OrExit;

fn main() -> ExitCode {
    kneepoint_machine::memory::end_where_threads_have_none();
    if let Some(kib) = kneepoint_machine::memory::stack_too_small() {
        let problem = "its stack may take no more than";
        print::error(&anyhow::anyhow!("{problem} {kib} KiB: raise the limit (ulimit -s 8192)"));
        return ExitCode::from(ERROR);
    }
    print::start_log();
    if let Err(error) = signals::outlive_full_files() {
        print::error(&error);
    }
    // Not for people: what Kneepoint starts of itself. Words of programs need not be text.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "serve-workload") {
        return kneepoint_rig::serve(words);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return not_parsed(&refusal),
    };
    match dispatch(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print::error(&error);
            ExitCode::from(if is_usage(&error) { USAGE } else { ERROR })
        }
    }
}

/// Help and version are what was asked for; all else is a wrong command line, reported in one line.
fn not_parsed(refusal: &clap::Error) -> ExitCode {
    if refusal.use_stderr() {
        print::error(&cli::UsageError(cli::one_line(refusal)).into());
        return ExitCode::from(USAGE);
    }
    // A reader that has gone away is no error.
    let _ = refusal.print();
    ExitCode::from(OK)
}

/// Whether the command line is at fault, rather than a file or the machine.
fn is_usage(error: &anyhow::Error) -> bool {
    use kneepoint_rig::RecipeError::{NotPublished, Unknown};
    let no_such_recipe = matches!(error.downcast_ref(), Some(Unknown { .. } | NotPublished { .. }));
    no_such_recipe || error.is::<cli::UsageError>()
}

/// What a command is for: what reads files of others has fewer rights than what measures.
fn work(command: Option<&Command>) -> Work {
    match command {
        Some(
            Command::Run(_)
            | Command::Profile(_)
            | Command::List(_)
            | Command::Doctor(_)
            | Command::Recover(_),
        ) => Work::Measuring,
        Some(
            Command::Report(_)
            | Command::Compare(_)
            | Command::Import(_)
            | Command::Predict(_)
            | Command::Calibrate(_)
            | Command::Simulate(_),
        )
        | None => Work::Reading,
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    print::set_volume(cli.quiet, cli.verbose);
    if let Some(what) = cli.generate {
        return commands::generate::generate(what);
    }
    kneepoint_rig::rights::keep_only(work(cli.command.as_ref()));
    match cli.command {
        Some(Command::Run(args)) => commands::run::run(&args),
        Some(Command::Profile(args)) => commands::profile::profile(&args),
        Some(Command::Import(args)) => commands::import::import(&args),
        Some(Command::Report(args)) => commands::report::report(&args),
        Some(Command::Compare(args)) => commands::compare::compare(&args),
        Some(Command::Predict(args)) => commands::predict::predict(&args),
        Some(Command::Calibrate(args)) => commands::calibrate::print_twin(&args),
        Some(Command::Simulate(args)) => commands::simulate::simulate(&args),
        Some(Command::List(args)) => commands::list::list(&args),
        Some(Command::Doctor(args)) => commands::doctor::doctor(&args),
        Some(Command::Recover(args)) => commands::recover::recover(&args),
        None => {
            Err(cli::UsageError("no command given: try `kneepoint run` or --help".into()).into())
        }
    }
}

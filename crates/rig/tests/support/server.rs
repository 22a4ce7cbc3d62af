//! The executable that live tests start as a system under test, as Kneepoint would be.
//!
//! `rig-test-server serve-workload ...` serves; `rig-test-server hold SCRATCH` brings a system with
//! running clients up, prints its process id and waits: something to be killed. `rig-test-server
//! change PARENT [mount]` makes a scratch directory and registers changes of the machine: a program
//! with a child and, if said so, a tmpfs; it prints the directory and the program's process id.

use kneepoint_rig::process::Program;
use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::{Action, Undo};
use kneepoint_rig::{Drive, Setup, Workload as _, workload::sqlite::SqliteOltp};
use kneepoint_vocab::{Nanos, VariantId};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "serve-workload") {
        return Ok(kneepoint_rig::serve(words));
    }
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("hold") => hold(&args.next().unwrap_or_default()),
        Some("change") => change(&args.collect::<Vec<_>>()),
        other => anyhow::bail!("{other:?} is none of serve-workload, hold and change"),
    }
}

fn hold(scratch: &str) -> anyhow::Result<ExitCode> {
    let server = std::env::current_exe()?;
    let setup = Setup {
        undo: Undo::begin(Path::new(scratch), &server),
        server,
        scratch: scratch.into(),
        variant: VariantId::new("held"),
        settings: [("database", "file"), ("cache", "private"), ("rows", "1000")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 2,
        seed: 1,
    };
    let mut system = SqliteOltp::STANDARD.start(&setup)?;
    system.begin(&Drive::new(2, Nanos(0)))?;
    writeln!(std::io::stdout(), "{}", system.pids()[0])?;
    loop {
        std::thread::park();
    }
}

fn change(args: &[String]) -> anyhow::Result<ExitCode> {
    let Some(parent) = args.first() else { anyhow::bail!("change needs a directory") };
    let scratch = Scratch::create_in(Path::new(parent))?;
    let undo = Undo::begin(scratch.path(), &std::env::current_exe()?);
    let mount = scratch.path().join("mount");
    let mounted = if args.get(1).is_some_and(|word| word == "mount") {
        std::fs::create_dir(&mount)?;
        let change = undo.register(Action::Unmount { path: mount.clone() })?;
        let status = Command::new("mount").args(["-t", "tmpfs", "kneepoint"]).arg(&mount).status();
        anyhow::ensure!(status?.success(), "no tmpfs can be mounted");
        Some(change)
    } else {
        None
    };
    let script = ["-c", "sleep 600 & sleep 600"];
    let process = Program::new("sleepers", "sh", script, scratch.path()).spawn(&undo)?;
    writeln!(std::io::stdout(), "{}\n{}", scratch.path().display(), process.pid())?;
    let _held = mounted;
    loop {
        std::thread::park();
    }
}

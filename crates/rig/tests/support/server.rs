//! The executable that live tests start as a system under test, as Kneepoint would be.
//!
//! `rig-test-server serve-workload ...` serves; `rig-test-server hold SCRATCH` brings a system with
//! running clients up, prints its process id and waits: something to be killed.

use kneepoint_rig::undo::Undo;
use kneepoint_rig::{Drive, Setup, Workload as _, workload::sqlite::SqliteOltp};
use kneepoint_vocab::{ArmId, Nanos};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("serve-workload") => Ok(kneepoint_rig::serve(args)),
        Some("hold") => hold(&args.next().unwrap_or_default()),
        other => anyhow::bail!("{other:?} is neither serve-workload nor hold"),
    }
}

fn hold(scratch: &str) -> anyhow::Result<ExitCode> {
    let server = std::env::current_exe()?;
    let setup = Setup {
        undo: Undo::begin(Path::new(scratch), &server),
        server,
        scratch: scratch.into(),
        arm: ArmId::new("held"),
        settings: [("database", "file"), ("cache", "private"), ("rows", "1000")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
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

//! What shows that a variant of a command is what it claims to be: a process of it, looked at.

use super::settings::Settings;
use crate::process::Process;
use crate::scheduling::Scheduling;
use crate::search_path::SearchPath;
use crate::shown::{self, ProgramFile};
use crate::workload::private::PrivateServer;
use kneepoint_vocab::Proof;
use std::path::Path;

/// What proofs call the program of `run`, and that of `start`.
const COMMAND: &str = "the command's program";
const SERVER: &str = "the server's program";

/// The file of a program, by its word in a command.
fn file(program: &str, settings: &Settings) -> Option<ProgramFile> {
    let path =
        settings.path().map_or_else(SearchPath::own, |folders| SearchPath::of(folders.as_ref()));
    let found = match &settings.directory {
        Some(directory) if program.contains('/') => directory.join(program),
        _ => path.resolved(Path::new(program)),
    };
    ProgramFile::at(&found)
}

/// The programs that a baseline is going to run: what a variant's are compared with.
pub(super) fn planned(settings: &Settings) -> Vec<Proof> {
    let run = file(settings.run.program(), settings).map(|file| file.planned(COMMAND));
    let start = settings.start.as_ref().and_then(|line| file(line.program(), settings));
    run.into_iter().chain(start.map(|file| file.planned(SERVER))).collect()
}

/// The program that a server runs.
pub(super) fn of_server(settings: &Settings, server: &PrivateServer) -> Vec<Proof> {
    let program = settings.start.as_ref().and_then(|line| file(line.program(), settings));
    let program = program.and_then(|file| file.run_by(SERVER, server.pid()));
    program.into_iter().collect()
}

/// What the command shows of itself, once it is more than what launches it; nothing where it ends
/// before that. `launcher` is the program that it begins as; `own` is how its threads run, where it
/// is the system itself.
pub(super) fn of_command(
    settings: &Settings,
    process: &mut Process,
    launcher: &Path,
    own: Option<&Scheduling>,
) -> Vec<Proof> {
    let file = file(settings.run.program(), settings);
    let (mut program, mut read_back) = (None, Vec::new());
    shown::watched(process, launcher, |pid| {
        if program.is_none() {
            program = file.as_ref().and_then(|file| file.run_by(COMMAND, pid));
        }
        if let Some(scheduling) = own {
            let set = &settings.environment;
            shown::add(&mut read_back, shown::variables("the command", pid, set));
            shown::add(&mut read_back, scheduling.proofs("the command", &[pid]));
        }
        program.is_some() && read_back.iter().all(|proof| proof.active)
    });
    // One that ended while it was looked at shows nothing.
    if process.ended().is_some() && !read_back.iter().all(|proof| proof.active) {
        read_back.clear();
    }
    program.into_iter().chain(read_back).collect()
}

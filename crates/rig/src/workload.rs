//! What can be brought up, driven by closed-loop clients, and taken down again.
//!
//! A workload adapter is one file `workload/NAME.rs` and its name in [`ALL`]. The client threads
//! of a system exist only between [`System::begin`] and [`System::finish`]: a system that is up
//! but idle uses no CPU, so several arms can stay up beside each other.

mod peer;
pub mod sqlite;

use kneepoint_vocab::{ArmId, Latency, Nanos, Proof};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All workloads.
pub static ALL: &[&dyn Workload] = &[&sqlite::SqliteOltp::STANDARD];

/// The workload of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|workload| workload.name() == name)
}

/// What is needed to start one arm.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The executable whose `serve-workload` subcommand calls [`serve`]: Kneepoint itself.
    pub server: PathBuf,
    /// A directory for the system's files.
    pub scratch: PathBuf,
    /// The arm; its name becomes part of file names.
    pub arm: ArmId,
    /// Settings of the workload in this arm; what is absent has its default.
    pub settings: BTreeMap<String, String>,
    /// Which start of the arm, from 0.
    pub start: u32,
    /// The most clients that will ever be asked for.
    pub max_clients: u32,
    /// Seed of the stored rows and of what the clients ask for.
    pub seed: u64,
}

/// What a system proves and tells of itself: proofs, and `name, value` pairs.
pub type Description = (Vec<Proof>, Vec<(String, String)>);

/// A setting that cannot be: unknown, malformed, or impossible together with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct SettingError {
    /// The setting's name.
    pub setting: String,
    /// What is wrong, what is possible, and what was found.
    pub problem: String,
}

/// Something that can be brought up as a system under test.
pub trait Workload: Sync {
    /// Its name in recipes.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn summary(&self) -> &'static str;

    /// What the machine must have for it; empty where it runs anywhere.
    fn needs(&self) -> &'static [&'static str];

    /// Whether these settings make a system.
    ///
    /// # Errors
    /// The first setting that does not.
    fn check(&self, settings: &BTreeMap<String, String>) -> Result<(), SettingError>;

    /// Brings the system up, warm and idle.
    ///
    /// # Errors
    /// The settings are wrong, or it does not come up; nothing is left behind then.
    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>>;
}

/// A system that is up. Dropping it kills what it started and removes its files.
pub trait System: Send {
    /// All processes of the system.
    fn pids(&self) -> Vec<u32>;

    /// Reads back from the running system whether it is what its settings say, factor by factor,
    /// and what it tells of itself: versions and settings as `name, value`. Only while idle.
    ///
    /// # Errors
    /// The system does not answer, or clients are running.
    fn describe(&mut self) -> anyhow::Result<Description>;

    /// Starts so many closed-loop clients and returns their kernel thread ids, in client order,
    /// once all of them run.
    ///
    /// # Errors
    /// The system does not answer, clients are already running, or there are to be none or more
    /// than [`Setup::max_clients`].
    fn begin(&mut self, clients: u32) -> anyhow::Result<Vec<u32>>;

    /// Opens the counting window. Called again, it opens a new one in place of the former.
    ///
    /// # Errors
    /// The system does not answer, or no clients are running.
    fn mark(&mut self) -> anyhow::Result<()>;

    /// Closes the counting window, then ends the clients.
    ///
    /// # Errors
    /// The system does not answer, no window is open, or an operation failed; clients are ended
    /// all the same, and the system can be used again if it answers.
    fn finish(&mut self) -> anyhow::Result<SliceOutput>;

    /// Takes the system down in its own orderly way.
    ///
    /// # Errors
    /// It did not go down in order; it was killed then.
    fn stop(self: Box<Self>) -> anyhow::Result<()>;
}

/// What the clients counted in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceOutput {
    /// Operations that ended in the window.
    pub operations: u64,
    /// Length of the window by the clients' own clock.
    pub counted_over: Nanos,
    /// Operations of each client, in client order; they add up to `operations`.
    pub per_client: Vec<u64>,
    /// Response times of operations that ended in the window; absent where none did.
    pub latency: Option<Latency>,
}

/// Runs a workload's server side on standard input and output until told to stop, or until the
/// input ends because Kneepoint died. `args` are what follows `serve-workload`: the workload's
/// name. The entry point of a hidden subcommand, of no use to people.
pub fn serve(args: impl IntoIterator<Item = String>) -> std::process::ExitCode {
    use std::io::Write as _;
    let args: Vec<String> = args.into_iter().collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [sqlite::NAME] => sqlite::serve(),
        _ => Err(anyhow::anyhow!("no workload is served as {:?}", args.join(" "))),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone too, there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "serve-workload: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

//! What can be brought up, driven by closed-loop clients, and taken down again.
//!
//! A workload adapter is one file `workload/NAME.rs` and its name in [`ALL`]. The client threads
//! of a system exist only between [`System::begin`] and [`System::finish`]: a system that is up
//! but idle uses no CPU, so several variants can stay up beside each other.

pub mod block_read;
pub mod command;
pub mod file_write;
mod kernel_counts;
pub mod mariadb;
pub mod overload;
mod peer;
pub mod postgres;
mod private;
mod scheduled;
mod settings;
pub mod sqlite;

use crate::environment::{self, Variables};
use crate::launch;
pub use crate::need::Need;
use crate::rights::{self, Work};
use crate::scheduling::Scheduling;
use crate::search_path::SearchPath;
use crate::undo::{self, Undo};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{Clients, CountCheck, Latency, Nanos, Proof, Stability, VariantId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// All workloads.
pub static ALL: &[&dyn Workload] = &[
    &command::Command,
    &overload::Overload,
    &sqlite::SqliteOltp::STANDARD,
    &mariadb::MariadbSmack::STANDARD,
    &mariadb::MariadbSysbench::STANDARD,
    &block_read::BlockRead::STANDARD,
    &file_write::FileWrite::STANDARD,
    &postgres::Postgres::STANDARD,
];

/// The workload of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|workload| workload.name() == name)
}

/// Most closed-loop clients of one level.
pub const MOST_CLIENTS: u32 = 4096;

/// CPUs for one slice; all of Kneepoint's where empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSets {
    /// Those of the system under test.
    pub system: Vec<u32>,
    /// Those of the load generator.
    pub generator: Vec<u32>,
}

/// What one slice asks of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drive {
    /// Closed-loop clients.
    pub clients: u32,
    /// How long they are needed at most from [`System::begin`]'s return to [`System::finish`]:
    /// what they take to settle, and the window. A generator that has to be given a length is given
    /// at least that.
    pub lasts: Nanos,
    /// Where everything runs.
    pub cpus: CpuSets,
}

impl Drive {
    /// So many clients, for so long, on all cores.
    #[must_use]
    pub fn new(clients: u32, lasts: Nanos) -> Self {
        Self { clients, lasts, cpus: CpuSets::default() }
    }
}

/// What is needed to start one variant.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The executable whose `serve-workload` subcommand calls [`serve`]: Kneepoint itself.
    pub server: PathBuf,
    /// A directory for the system's files.
    pub scratch: PathBuf,
    /// The variant; its name becomes part of file names.
    pub variant: VariantId,
    /// Settings of the workload in this variant; what is absent has its default.
    pub settings: Texts,
    /// Where and how its threads run in this variant.
    pub scheduling: Scheduling,
    /// Which start of the variant, from 0.
    pub start: u32,
    /// The most clients that will ever be asked for.
    pub max_clients: u32,
    /// Seed of the stored rows and of what the clients ask for.
    pub seed: u64,
    /// Where changes of the machine are noted.
    pub undo: Undo,
}

impl Setup {
    /// A new directory for this start, which goes with its guard.
    fn folder(&self) -> anyhow::Result<TempDir> {
        let name = format!("{}-{}-", self.variant, self.start).replace(['/', '\0'], "-");
        tempfile::Builder::new()
            .prefix(&name)
            .tempdir_in(&self.scratch)
            .with_context(|| format!("{}: no directory can be made", self.scratch.display()))
    }
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

/// Settings as they are written.
pub type Texts = BTreeMap<String, String>;

/// A system as its settings make it, or the first setting that makes none.
pub type Configuring = Result<Arc<dyn Configured>, SettingError>;

/// Something that can be brought up as a system under test: what recipes name.
pub trait Workload: Sync {
    /// Its name in recipes.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn summary(&self) -> &'static str;

    /// Settings that [`Configured::prepare`] alone uses: they are the baseline's for all variants.
    fn made_once(&self) -> &'static [&'static str] {
        &[]
    }

    /// The system that these settings make: the one place where they are read.
    ///
    /// # Errors
    /// The first setting that makes none.
    fn configure(&self, settings: &Texts) -> Configuring;

    /// What the machine must have for it with these settings, programs being looked for in
    /// `path`; empty where the settings make no system.
    fn needs(&self, settings: &Texts, path: &SearchPath) -> Vec<Need> {
        self.configure(settings).map_or_else(|_| Vec::new(), |system| system.needs(path))
    }

    /// Whether these settings make a system.
    ///
    /// # Errors
    /// The first setting that does not.
    fn check(&self, settings: &Texts) -> Result<(), SettingError> {
        self.configure(settings).map(drop)
    }

    /// [`Configured::prepare`] of the settings in `setup`.
    ///
    /// # Errors
    /// They make no system, or like there.
    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        self.configure(&setup.settings).context(self.name())?.prepare(setup)
    }

    /// [`Configured::start`] of the settings in `setup`.
    ///
    /// # Errors
    /// They make no system, or like there.
    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let system = self.configure(&setup.settings).context(self.name())?.start(setup)?;
        scheduled::begin(system, &setup.scheduling, setup.max_clients)
    }
}

/// A workload whose settings were read.
pub trait Configured: fmt::Debug + Send + Sync {
    /// What the machine must have for it, programs being looked for in `path`; empty where it
    /// runs anywhere.
    fn needs(&self, path: &SearchPath) -> Vec<Need>;

    /// The program of the system, looked for in `path`, where it is somebody else's and known.
    fn program(&self, path: &SearchPath) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// The programs that its systems are going to run, with their builds, where they are somebody
    /// else's and known: what [`System::describe`] shows of a baseline.
    fn programs(&self) -> Vec<Proof> {
        Vec::new()
    }

    /// Where the clients of its systems live.
    fn clients(&self) -> Clients {
        Clients::Inside
    }

    /// Whether each slice is a run of a new process: such a system has nothing to warm up.
    fn fresh_each_slice(&self) -> bool {
        false
    }

    /// Whether clients do a fixed amount of work: their slice may end long before its time.
    fn fixed_work(&self) -> bool {
        self.fresh_each_slice()
    }

    /// Whether its systems tell their [`System::progress`].
    fn tells_progress(&self) -> bool {
        false
    }

    /// Makes what all starts of all variants share, such as a loaded database to copy; once a run,
    /// with the baseline's settings, before any start. It lies in [`Setup::scratch`].
    ///
    /// # Errors
    /// It cannot be made; nothing is left behind then.
    fn prepare(&self, setup: &Setup) -> anyhow::Result<()> {
        let _ = setup;
        Ok(())
    }

    /// Brings the system up, warm and idle.
    ///
    /// # Errors
    /// It does not come up; nothing is left behind then.
    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>>;
}

/// A system that is up. Dropping it kills what it started and removes its files.
pub trait System: Send {
    /// All processes of the system. Those that live only while clients do count from
    /// [`System::begin`] on. Their descendants need not be named.
    fn pids(&self) -> Vec<u32>;

    /// Processes of the load generator, while clients run; none where the clients live in the
    /// system.
    fn generators(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Reads back from the running system whether it is what its settings say, factor by factor,
    /// and what it tells of itself: versions and settings as `name, value`. Only while idle.
    ///
    /// # Errors
    /// The system does not answer, or clients are running.
    fn describe(&mut self) -> anyhow::Result<Description>;

    /// The environment of its processes, sorted by name, without secrets.
    fn environment(&self) -> Vec<(String, String)> {
        environment::of(self.pids().first().copied(), &Variables::default())
    }

    /// Starts closed-loop clients on the cores of `drive`. Once all of them run, returns the
    /// kernel ids of the threads of the system that serve them, one to one and in client order:
    /// the clients themselves where they live in the system, else the server's threads or
    /// processes. Empty where they cannot be distinguished from others.
    ///
    /// # Errors
    /// The system does not answer, clients are already running, or there are to be none or more
    /// than [`Setup::max_clients`].
    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>>;

    /// Threads that serve the clients once they have settled, where the system tells them by what
    /// they do: at their start it may have been wrong. None where what [`System::begin`] said
    /// holds.
    fn settled_clients(&mut self, _clients: u32) -> Option<Vec<u32>> {
        None
    }

    /// Whether the clients still work; false once a fixed amount of work is done. Asked now and
    /// then while the window is open, so it must be cheap.
    ///
    /// # Errors
    /// The system or the generator died: there will be no number.
    fn working(&mut self) -> anyhow::Result<bool> {
        Ok(true)
    }

    /// How many operations have ended since the clients started, where the system can tell that
    /// at any instant without being disturbed: none where it cannot. Asked several times a
    /// second.
    ///
    /// # Errors
    /// The system or the generator died, or its counts make no sense.
    fn progress(&mut self) -> anyhow::Result<Option<Tally>> {
        Ok(None)
    }

    /// Opens the counting window. Called again, it opens a new one in place of the former.
    ///
    /// # Errors
    /// The system does not answer, or no clients are running.
    fn mark(&mut self) -> anyhow::Result<()>;

    /// Closes the counting window where that can be done while clients go on; elsewhere
    /// [`System::finish`] does. The sooner it follows the end of what is watched, the more nearly
    /// are counts and ledgers of the same window.
    ///
    /// # Errors
    /// The system does not answer, or no clients are running.
    fn close(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Closes the counting window if it is still open, then ends the clients.
    ///
    /// # Errors
    /// The system does not answer, no window is open, or an operation failed; clients are ended
    /// all the same, and the system can be used again if it answers.
    fn finish(&mut self) -> anyhow::Result<SliceOutput>;

    /// What broke under the load of the slice that [`System::finish`] ended, where finding that
    /// out is what the workload is for.
    fn stability(&mut self) -> Option<Stability> {
        None
    }

    /// Takes the system down in its own orderly way.
    ///
    /// # Errors
    /// It did not go down in order; it was killed then.
    fn stop(self: Box<Self>) -> anyhow::Result<()>;
}

/// A count on its way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// When it was so much, on a clock that begins anywhere but is the same within a slice.
    pub at: Nanos,
    /// Operations that had ended by then.
    pub operations: u64,
}

/// Refuses a number of clients that is none, or more than a system was started for.
pub(crate) fn check_clients(workload: &str, clients: u32, most: u32) -> anyhow::Result<()> {
    let fits = (1..=most).contains(&clients);
    ensure!(fits, "{workload}: clients must be 1 to {most} (found {clients})");
    Ok(())
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
    /// The generator's count against the server's own, where the server has one.
    #[serde(default)]
    pub counts: Option<CountCheck>,
}

/// Runs a workload's server side on standard input and output until told to stop, or until the
/// input ends because Kneepoint died. `args` are what follows `serve-workload`: the workload's
/// name. The entry point of a hidden subcommand, of no use to people.
pub fn serve(args: impl IntoIterator<Item = impl Into<OsString>>) -> std::process::ExitCode {
    use std::io::Write as _;
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let (name, rest) = match args.split_first() {
        Some((name, rest)) => (name.to_str().unwrap_or_default(), rest),
        None => ("", &[][..]),
    };
    let outcome = match (name, rest) {
        (sqlite::NAME, []) => sqlite::serve(),
        (undo::GUARDIAN, [scratch]) => {
            rights::keep_only(Work::Measuring);
            undo::guard(std::path::Path::new(scratch))
        }
        (launch::LAUNCH, words) => launch::launch(words),
        _ => Err(anyhow::anyhow!("no workload is served as {name:?}")),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone too, there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "kneepoint {name}: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

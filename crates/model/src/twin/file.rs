//! The types of a twin file.

use super::contended::Contended;
use super::quantity::Quantity;
use crate::sim::{Placement, Prefer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

/// A machine, what its threads share, and their programs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Twin {
    /// Its name in reports.
    pub name: String,
    /// What it stands for and where it comes from.
    #[serde(default)]
    pub about: String,
    /// The cores.
    #[serde(default)]
    pub cores: Cores,
    /// The scheduler.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Locks by name.
    #[serde(default)]
    pub lock: BTreeMap<String, Lock>,
    /// Devices by name.
    #[serde(default)]
    pub device: BTreeMap<String, Device>,
    /// Queues between threads by name.
    #[serde(default)]
    pub channel: BTreeMap<String, Channel>,
    /// Semaphores by name.
    #[serde(default)]
    pub semaphore: BTreeMap<String, Semaphore>,
    /// Buses by name.
    #[serde(default)]
    pub bus: BTreeMap<String, Bus>,
    /// Items from outside by name.
    #[serde(default)]
    pub source: BTreeMap<String, Source>,
    /// Kinds of threads.
    pub thread: Vec<Class>,
    /// The text it was read from, for places of mistakes.
    #[serde(skip)]
    pub(super) text: String,
}

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cores {
    /// Hardware threads, unless the level says otherwise.
    pub count: u32,
    /// Speed relative to what the programs were written for.
    pub speed: f64,
    /// Hardware threads of one core, 1 or 2.
    pub ways: u32,
    /// Speed of a hardware thread whose sibling is busy, relative to one alone.
    pub shared_speed: f64,
    /// What CPU work costs with more clients for each core, ascending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crowding: Vec<Crowding>,
    /// What of it one core has at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contended: Option<Contended>,
}

impl Default for Cores {
    fn default() -> Self {
        Self {
            count: 1,
            speed: 1.0,
            ways: 1,
            shared_speed: 0.6,
            crowding: Vec::new(),
            contended: None,
        }
    }
}

/// CPU work at so many clients for each core. Between two of these it follows the logarithm of the
/// clients, beyond the last it stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowding {
    /// Clients for each core.
    pub clients: f64,
    /// CPU of a step, relative to what the program says.
    pub factor: f64,
}

impl Cores {
    /// What a step's CPU is to be multiplied with at a level.
    #[must_use]
    pub fn crowded(&self, clients: u32, cores: u32) -> f64 {
        let contended = self.contended.map_or(1.0, |it| it.factor(clients, cores));
        contended * self.crowded_by(clients, cores)
    }

    fn crowded_by(&self, clients: u32, cores: u32) -> f64 {
        let at = (f64::from(clients.max(1)) / f64::from(cores.max(1))).ln();
        let known = &self.crowding;
        let after = known.iter().position(|it| it.clients.ln() >= at);
        match (known.last(), after) {
            (None, _) => 1.0,
            (Some(last), None) => last.factor,
            (_, Some(0)) => known[0].factor,
            (_, Some(index)) => {
                let (low, high) = (known[index - 1], known[index]);
                let width = high.clients.ln() - low.clients.ln();
                let part = if width > 0.0 { (at - low.clients.ln()) / width } else { 1.0 };
                low.factor + part * (high.factor - low.factor)
            }
        }
    }
}

/// The scheduler. All costs are 0 unless given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduler {
    /// `global` or `per-core`.
    pub queue: QueueKind,
    /// Time slice; none if absent.
    pub slice: Option<Quantity>,
    /// CPU for putting a thread on a core.
    pub switch: Quantity,
    /// CPU for a cold cache after running elsewhere.
    pub migrate: Quantity,
    /// Time until an idle core begins with a thread.
    pub idle_wake: Quantity,
    /// CPU of the thread that wakes another.
    pub wake: Quantity,
    /// Where a woken thread goes under queues per core.
    pub wake_to: WakeTo,
    /// How long a thread is queued before an idle core takes it; never if absent.
    pub steal_after: Option<Quantity>,
    /// How long each use of a run queue holds its spin lock.
    pub queue_lock: Quantity,
}

/// Run queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// One for all cores.
    #[default]
    Global,
    /// One for each core.
    PerCore,
}

/// Where a woken thread goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeTo {
    /// Its last core if idle, else any idle one, else its last core.
    #[default]
    Idle,
    /// Its last core.
    Home,
    /// Its waker's core.
    Waker,
}

impl From<WakeTo> for Placement {
    fn from(to: WakeTo) -> Self {
        match to {
            WakeTo::Idle => Self::Idle,
            WakeTo::Home => Self::Home,
            WakeTo::Waker => Self::Waker,
        }
    }
}

/// How a lock works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockType {
    /// Spin, no order.
    TestAndSet,
    /// Spin in order.
    Ticket,
    /// Spin in order, at places of one's own.
    Mcs,
    /// Sleep in order, handed over.
    Fifo,
    /// Spin for a while, sleep, try again.
    Futex,
    /// Spin while the owner is on a core.
    Adaptive,
    /// Shared or exclusive.
    ReadWrite,
    /// Sleep; a release wakes all.
    Flag,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// How it works.
    pub kind: LockType,
    /// Equal locks, of which each visit takes one at random.
    #[serde(default = "one")]
    pub copies: u32,
    /// CPU on taking it where another core had it last.
    #[serde(default)]
    pub transfer: Quantity,
    /// CPU on being handed it, for each thread that spins.
    #[serde(default)]
    pub per_spinner: Quantity,
    /// CPU of a thread that was woken for it, before it has it or looks at it again.
    #[serde(default)]
    pub look: Quantity,
    /// Longest spin of a futex (none if absent) or an adaptive lock (no limit if absent).
    pub spin: Option<Quantity>,
    /// Its owner may take it again.
    #[serde(default)]
    pub recursive: bool,
    /// Let go while its owner sleeps.
    #[serde(default)]
    pub dropped_asleep: bool,
    /// Whom a reader-writer lock lets in first: `fifo`, `readers` or `writers`.
    pub prefer: Option<Preference>,
}

/// Whom a reader-writer lock lets in first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// Who came first.
    Fifo,
    /// Readers.
    Readers,
    /// Writers.
    Writers,
}

impl From<Preference> for Prefer {
    fn from(preference: Preference) -> Self {
        match preference {
            Preference::Fifo => Self::Fifo,
            Preference::Readers => Self::Readers,
            Preference::Writers => Self::Writers,
        }
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Requests served at once.
    #[serde(default = "one")]
    pub servers: u32,
    /// Equal devices, of which each request takes one at random.
    #[serde(default = "one")]
    pub copies: u32,
    /// Service time.
    #[serde(rename = "time")]
    pub service_time: Quantity,
    /// Its coefficient of variation.
    #[serde(default)]
    pub cv: f64,
}

/// A queue between threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Items it holds before those who put wait; no limit if absent.
    pub capacity: Option<u32>,
}

/// A semaphore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Semaphore {
    /// Units at the start.
    pub units: u32,
}

/// Bandwidth that transfers share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Bytes each second in all.
    pub bytes_per_second: f64,
    /// Bytes each second of one transfer at most; as all together if absent.
    pub each: Option<f64>,
}

/// Items from outside.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The channel they go to.
    pub to: Spanned<String>,
    /// Mean time between two.
    pub every: Quantity,
    /// Its coefficient of variation: 1 for a Poisson stream.
    #[serde(default = "exponential")]
    pub cv: f64,
}

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// This many.
    Fixed(u32),
    /// `"clients"`: as many as the level has clients.
    Level(Clients),
}

/// The word `clients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clients {
    /// As many as the level has clients.
    #[serde(rename = "clients")]
    Clients,
    /// As many as the level has cores.
    #[serde(rename = "cores")]
    Cores,
}

/// Threads of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Their name.
    pub name: String,
    /// Number of threads: a number, `"clients"` or `"cores"`.
    pub count: Count,
    /// They work for others: the end of their program is no operation.
    #[serde(default)]
    pub worker: bool,
    /// `interrupt`, `normal` or `background`.
    #[serde(default)]
    pub priority: Priority,
    /// The only core they run on, from 0.
    pub core: Option<u32>,
    /// What they do, over and over.
    pub program: Vec<Spanned<Step>>,
}

/// Who gives way to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Before all others, at once.
    Interrupt,
    /// As usual.
    #[default]
    Normal,
    /// When nobody else runs.
    Background,
}

/// One step of a program: one of the verbs, with what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// CPU work of this length.
    pub run: Option<Quantity>,
    /// Leave the core for this time.
    pub think: Option<Quantity>,
    /// Hold this lock through `steps`; `shared` as a reader.
    pub hold: Option<Spanned<String>>,
    /// As a reader.
    pub shared: bool,
    /// Wait for this device; `time` and `cv` where other than the device's own.
    pub io: Option<Spanned<String>>,
    /// Start this device for the item; when it is done the item goes to the channel `then`.
    pub start: Option<Spanned<String>>,
    /// See `start`.
    pub then: Option<Spanned<String>>,
    /// See `io`.
    #[serde(rename = "time")]
    pub service_time: Option<Quantity>,
    /// Coefficient of variation of the length: 0 fixed, 1 exponential.
    pub cv: Option<f64>,
    /// Repeat `steps` this often.
    pub repeat: Option<u32>,
    /// Do `steps` with this probability.
    pub chance: Option<f64>,
    /// The steps inside.
    pub steps: Option<Vec<Spanned<Step>>>,
    /// Hand the item on to this channel.
    pub put: Option<Spanned<String>>,
    /// Wait for an item from this channel.
    pub take: Option<Spanned<String>>,
    /// Hand an item to this channel and wait for the reply.
    pub call: Option<Spanned<String>>,
    /// `true`: wake the thread that the item came from.
    pub reply: Option<bool>,
    /// Hold a unit of this semaphore through `steps`.
    pub within: Option<Spanned<String>>,
    /// Move `bytes` over this bus.
    #[serde(rename = "move")]
    pub move_over: Option<Spanned<String>>,
    /// See `move`.
    pub bytes: Option<u32>,
}

fn one() -> u32 {
    1
}

fn exponential() -> f64 {
    1.0
}

//! What is simulated, compiled: numbers instead of names, jumps instead of nested steps.

use super::{Law, Ticks};

/// One instruction of a thread's program. Numbers are indices into [`Compiled`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// CPU work of the law's length at speed 1.
    Run(u32),
    /// Take a lock, or one of `copies` that follow it, drawn at random.
    Lock {
        /// First of the copies.
        lock: u32,
        /// Number of copies.
        copies: u32,
        /// As a reader.
        shared: bool,
    },
    /// Release the lock, or the copy of it, that was taken last.
    Unlock {
        /// First of the copies.
        lock: u32,
        /// Number of copies.
        copies: u32,
    },
    /// Wait for a device, of several copies one drawn at random; service time by the law.
    Device {
        /// First of the copies.
        device: u32,
        /// Number of copies.
        copies: u32,
        /// Service time.
        law: u32,
    },
    /// Leave the core for a time.
    Think(u32),
    /// Begin a loop of this many rounds, counted in this slot of the thread.
    Repeat {
        /// Rounds.
        rounds: u32,
        /// Slot of the counter.
        slot: u32,
    },
    /// End of a loop's body: back to `target` while rounds are left.
    Again {
        /// Slot of the counter.
        slot: u32,
        /// First instruction of the body.
        target: u32,
    },
    /// With this probability go on with the next instruction, else at `otherwise`.
    Chance {
        /// Probability of going on.
        probability: f32,
        /// Where to go otherwise.
        otherwise: u32,
    },
    /// Go on at this instruction.
    Jump(u32),
    /// Hand the item that is worked on, or a new one, to a channel.
    Put(u32),
    /// Wait for an item from a channel.
    Take(u32),
    /// Hand an item to a channel and wait for the reply.
    Call(u32),
    /// Wake the thread that the item came from; an item from a source ends as an operation.
    Reply,
    /// Start a device for the item without waiting; when it is done the item goes to a channel.
    Start {
        /// The device.
        device: u32,
        /// Service time.
        law: u32,
        /// Where the item goes.
        then: u32,
    },
    /// Take one of a semaphore's units, or wait for one.
    Acquire(u32),
    /// Give a unit back.
    Give(u32),
    /// Move bytes through a bus; the core waits meanwhile.
    Move {
        /// The bus.
        bus: u32,
        /// Bytes.
        bytes: u32,
    },
    /// End of the program: an operation, for clients, and on from the start.
    End,
}

/// How a lock works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Spin; whoever comes first among those on a core gets it.
    TestAndSet,
    /// Spin in order of arrival; each release is seen by all who spin.
    Ticket,
    /// Spin in order of arrival, each at a place of its own.
    Mcs,
    /// Sleep in order of arrival; the lock is handed to the first.
    Fifo,
    /// Spin up to the limit, then sleep; a release frees the lock and wakes one, who tries again.
    Futex,
    /// Spin while the owner is on a core, else sleep; released as a futex.
    Adaptive,
    /// Shared or exclusive; sleep.
    ReadWrite(Prefer),
    /// Sleep; a release wakes all who wait, who try again.
    Flag,
}

/// Whom a reader-writer lock lets in first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// Order of arrival.
    Fifo,
    /// A reader comes in while readers hold it, also past waiting writers.
    Readers,
    /// Waiting writers go before waiting readers.
    Writers,
}

/// A lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockSpec {
    /// Name in reports.
    pub name: String,
    /// How it works.
    pub kind: LockKind,
    /// CPU on taking it where another core had it last: the cache line's way.
    pub transfer: Ticks,
    /// CPU on being handed it, for each thread that still spins.
    pub per_spinner: Ticks,
    /// CPU of a thread that was woken for it, before it has it or looks at it again.
    pub look: Ticks,
    /// Longest spin before sleeping; `Ticks::MAX` for no limit.
    pub spin: Ticks,
    /// Its owner may take it again.
    pub recursive: bool,
    /// It is let go while its owner sleeps and taken again after that, as Giant and the lock of an
    /// interpreter are.
    pub dropped_asleep: bool,
}

/// A device: servers behind one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Name in reports.
    pub name: String,
    /// Requests served at once.
    pub servers: u32,
}

/// A queue between threads.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSpec {
    /// Name in reports.
    pub name: String,
    /// Items it holds before those who put wait.
    pub capacity: u32,
}

/// A counting semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct SemaphoreSpec {
    /// Name in reports.
    pub name: String,
    /// Units at the start.
    pub units: u32,
}

/// Bandwidth that transfers share evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct BusSpec {
    /// Name in reports.
    pub name: String,
    /// Bytes each second in all.
    pub total: f64,
    /// Bytes each second of one transfer at most.
    pub each: f64,
}

/// Items that come from outside at times of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// Name in reports.
    pub name: String,
    /// Where they go.
    pub channel: u32,
    /// Time between two.
    pub gap: u32,
}

/// Threads of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Name in reports.
    pub name: String,
    /// Number of threads.
    pub count: u32,
    /// First instruction.
    pub entry: u32,
    /// Clients: the end of the program is an operation. Others work for clients.
    pub client: bool,
    /// 0 interrupt, 1 normal, 2 background.
    pub priority: u8,
    /// The only core they run on.
    pub pinned: Option<u32>,
}

/// Where a thread that wakes goes under queues per core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Its last core, idle or not.
    Home,
    /// Its last core if that is idle, else any idle core, else its last core.
    Idle,
    /// The core of the thread that wakes it.
    Waker,
}

/// The scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerSpec {
    /// One queue for all cores, or one for each.
    pub per_core: bool,
    /// Time slice; `Ticks::MAX` for none.
    pub slice: Ticks,
    /// CPU for putting a thread on a core.
    pub switch: Ticks,
    /// CPU for going on where the thread was not before: its cache is cold.
    pub migrate: Ticks,
    /// Time until an idle core begins with a thread that wakes.
    pub idle_wake: Ticks,
    /// CPU of the thread that wakes another.
    pub wake: Ticks,
    /// Per core: where a thread that wakes goes.
    pub placement: Placement,
    /// Per core: how long a thread stays queued before an idle core takes it; `Ticks::MAX`: never.
    pub steal_after: Ticks,
    /// Time that each use of a run queue holds the queue's spin lock.
    pub queue_lock: Ticks,
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// Name of the twin.
    pub name: String,
    /// Hardware threads.
    pub cores: u32,
    /// Hardware threads of one core, 1 or 2.
    pub ways: u32,
    /// Speed of a hardware thread whose sibling is busy, relative to one alone.
    pub shared_speed: f64,
    /// CPU of the programs' steps, relative to what they take with few clients; the
    /// laws have it in them.
    pub crowding: f64,
    /// Speed of all cores relative to what the program was written for.
    pub speed: f64,
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// Instructions of all programs.
    pub ops: Vec<Op>,
    /// Laws of lengths that instructions name.
    pub laws: Vec<Law>,
    /// Locks.
    pub locks: Vec<LockSpec>,
    /// Devices.
    pub devices: Vec<DeviceSpec>,
    /// Channels.
    pub channels: Vec<ChannelSpec>,
    /// Semaphores.
    pub semaphores: Vec<SemaphoreSpec>,
    /// Buses.
    pub buses: Vec<BusSpec>,
    /// Sources.
    pub sources: Vec<SourceSpec>,
    /// Classes of threads.
    pub classes: Vec<ClassSpec>,
}

impl Compiled {
    /// Threads of classes that run operations.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.classes.iter().filter(|class| class.client).map(|class| class.count).sum()
    }

    /// All threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.classes.iter().map(|class| class.count).sum()
    }
}

//! What a probe saw in one window: a closed set of facts, never a judgement.

use crate::units::{Count, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much the collector could see.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// eBPF accounting: every switch and wake-up of every thread.
    Full,
    /// Unprivileged: `schedstat` at the edges, `/proc/PID/task/*/syscall` read at intervals.
    Fallback,
}

/// What a thread is for, within the system under test.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// Serves one closed-loop client; its life is operations.
    Client,
    /// Any other thread: control, background work, idle workers.
    Other,
}

/// Where the seconds of the threads of one role and name went. Summed over those threads.
///
/// `running + runnable_woken + runnable_preempted + blocked` = `existed`, up to the
/// collector's own error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Their role; none of those that whatever task comes next runs on.
    pub role: Option<ThreadRole>,
    /// Their name (`comm`).
    pub name: String,
    /// How many there were.
    pub threads: u32,
    /// Thread-time in the window: each thread's life within it.
    pub existed: Nanos,
    /// On a core.
    pub running: Nanos,
    /// Woken, not yet on a core.
    pub runnable_woken: Nanos,
    /// Taken off a core while willing to run.
    pub runnable_preempted: Nanos,
    /// Waiting for something; [`Wait`] says for what.
    pub blocked: Nanos,
    /// Running, as the kernel's `schedstat` counts it: the independent check.
    pub schedstat_running: Option<Nanos>,
    /// Runnable, as `schedstat` counts it.
    pub schedstat_runnable: Option<Nanos>,
    /// Switches off a core.
    pub switches: u64,
}

/// Why a thread blocked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// A word in user memory, as the call asked for it. Whether it is a lock's or a condition's,
    /// the analysis tells from the stacks.
    Futex {
        /// The operation with its flags, as in `linux/futex.h`.
        operation: u16,
        /// Whether the call had a timeout.
        timed: bool,
    },
    /// A user-space lock. Runs of schema 1 hold it as the collector judged it; since then it is
    /// what the analysis makes of [`WaitReason::Futex`].
    UserLock,
    /// A condition variable, or anything else that is no lock; as above.
    Condition,
    /// A lock inside the kernel.
    KernelLock,
    /// A block device.
    Device,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A counter of the kernel's, read as a file: `eventfd`.
    EventCounter,
    /// poll, select, epoll: readiness of some file descriptor.
    Poll,
    /// A timer: sleep.
    Timer,
    /// A page fault.
    PageFault,
    /// Reading or writing a regular file, other than the device wait.
    File,
    /// Another process: wait4, waitid.
    Process,
    /// None of these; the system call is named in the key.
    Other,
}

impl WaitReason {
    /// The word for it in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Futex { .. } => "futex",
            Self::UserLock => "user-lock",
            Self::Condition => "condition",
            Self::KernelLock => "kernel-lock",
            Self::Device => "device",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::EventCounter => "event-counter",
            Self::Poll => "poll",
            Self::Timer => "timer",
            Self::PageFault => "page-fault",
            Self::File => "file",
            Self::Process => "process",
            Self::Other => "other",
        }
    }
}

/// What a wait was for: the identity of a cause within one start of one variant.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct WaitKey {
    /// The kind of wait.
    pub reason: WaitReason,
    /// Address of the futex or kernel lock; 0 where the reason has none.
    pub object: u64,
    /// A name for the object, where one is proven: `mariadbd:LOCK_active_mi`, `mmap_lock`.
    pub object_name: Option<String>,
    /// System call number at the wait, -1 outside a call.
    pub syscall: i32,
}

/// What the holder of a user lock was doing when a thread began to wait for it, each wait by its
/// length: one that was preempted is waited for once, for long. Nanoseconds; older run directories
/// hold numbers of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holders {
    /// On a core.
    pub running: u64,
    /// Willing to run, not on a core.
    pub runnable: u64,
    /// Itself blocked.
    pub blocked: u64,
    /// Lock word held no owner that is a live thread of the system.
    pub unknown: u64,
}

/// All waits of one key by threads of one role and name in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// Who waited.
    pub role: ThreadRole,
    /// Their name (`comm`).
    pub name: String,
    /// For what.
    pub key: WaitKey,
    /// Blocked thread-time.
    pub blocked: Nanos,
    /// Number of waits that ended in the window; 0 where the tier cannot count.
    pub count: u64,
    /// Longest single wait.
    pub longest: Nanos,
    /// Idle core-time charged to these waits: a core was idle, and the thread it next ran had
    /// been blocked on this.
    pub idle_charged: Nanos,
    /// What the thread did that the futex word's owner field names; tells something for locks that
    /// have one.
    pub holders: Holders,
}

/// The thread that ended most of the waits of one key, told from the wake-ups that were looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waker {
    /// What was waited for.
    pub key: WaitKey,
    /// Its kernel thread id.
    pub tid: u32,
    /// Its name (`comm`); empty where it is no thread of the system.
    pub name: String,
    /// Whom it serves; none where it is no thread of the system.
    pub role: Option<ThreadRole>,
    /// Blocked time that it ended.
    pub ended: Nanos,
    /// Blocked time that any thread ended.
    pub of: Nanos,
    /// The same by the names of those who ended it, most first; empty in older run directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<EndedBy>,
    /// Other locks that those who ended the waits waited for themselves while they held this one,
    /// most first; empty in older run directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<Behind>,
}

/// The part of the waits for a lock in which its holder waited for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// What the holder waited for.
    pub key: WaitKey,
    /// Blocked time of those who waited for the holder meanwhile; of [`Waker::of`].
    pub blocked: Nanos,
}

/// Threads of one name that ended waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedBy {
    /// Their name (`comm`); empty where they are no threads of the system.
    pub name: String,
    /// Whom they serve; none where they are no threads of the system.
    pub role: Option<ThreadRole>,
    /// Blocked time that they ended.
    pub ended: Nanos,
}

/// Where the core-time went: `system + generator + kernel + others + kneepoint + idle` =
/// cores × window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Cores watched.
    pub cores: u32,
    /// Window × cores, by the collector's own edges.
    pub total: Nanos,
    /// Threads of the system under test.
    pub system: Nanos,
    /// A load generator in a process of its own; 0 where the clients live in the system.
    pub generator: Nanos,
    /// Other processes.
    #[serde(rename = "foreign")]
    pub others: Nanos,
    /// Threads of the kernel itself: they serve whoever uses a device or the network.
    #[serde(default)]
    pub kernel: Nanos,
    /// Kneepoint itself.
    pub kneepoint: Nanos,
    /// No thread at all.
    pub idle: Nanos,
    /// Part of `idle`: the thread that ended the stretch had already been woken.
    pub idle_scheduler: Nanos,
    /// Part of `idle`: neither charged to a [`Wait`] nor to the scheduler.
    pub idle_uncharged: Nanos,
    /// irq + softirq by `/proc/stat`; lies inside the other lines unless the kernel accounts it
    /// apart.
    pub irq: Nanos,
    /// Steal by `/proc/stat`.
    pub steal: Nanos,
}

/// Index of a stack in the run's stack table.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct StackId(pub u32);

/// What a stack was taken for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StackKind {
    /// A thread on a core; the weight is running time.
    OnCpu,
    /// A thread at the start of a wait; the weight is blocked time.
    OffCpu,
    /// The thread that ended a wait, where it did so; the weight is the blocked time it ended.
    Waker,
}

/// One distinct stack and the time it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackWeight {
    /// What for.
    pub kind: StackKind,
    /// Which stack.
    pub stack: StackId,
    /// For [`StackKind::OffCpu`] and [`StackKind::Waker`]: the wait.
    pub wait: Option<WaitKey>,
    /// For [`StackKind::OffCpu`]: who waits; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ThreadRole>,
    /// Estimated thread-time.
    pub weight: Nanos,
    /// Stacks taken.
    pub count: u64,
}

/// How one lock was used in the census: a window with probes in the functions that take locks and
/// give them back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockUse {
    /// Its address in its process.
    pub object: u64,
    /// A name for it, where one is proven.
    pub object_name: Option<String>,
    /// How often it was taken and given back.
    pub taken: u64,
    /// Of these, how often by readers, which others may hold it beside.
    pub shared: u64,
    /// How often its word was looked at, at instants that the system knows nothing of and while
    /// nothing was in its way; 0 where it was not.
    pub looks: u64,
    /// Of these, how often it was held.
    pub held: u64,
    /// Where it was taken.
    pub stacks: Vec<TakenAt>,
}

impl LockUse {
    /// The lock as a wait for it would name it.
    #[must_use]
    pub fn key(&self) -> WaitKey {
        WaitKey {
            reason: WaitReason::UserLock,
            object: self.object,
            object_name: self.object_name.clone(),
            syscall: -1,
        }
    }
}

/// Where a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenAt {
    /// The stack.
    pub stack: StackId,
    /// How many times it stands for.
    pub times: u64,
}

/// System calls of the system in the census: those of one number with one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCount {
    /// The kernel's number of the call, on x86-64.
    pub number: i32,
    /// The number of the error that it ended with; 0 where it succeeded.
    pub error: u32,
    /// How many there were.
    pub count: u64,
}

/// Something the collector did not see, counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// What was lost, e.g. `stack records`, `wait map full`.
    pub what: String,
    /// How often.
    pub count: u64,
    /// Out of how many, where known.
    pub of: Option<u64>,
}

/// What collecting cost in this window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollectorCost {
    /// Run time of the eBPF programs as the kernel counts it, over all cores.
    pub programs: Nanos,
    /// Their runs.
    pub program_runs: u64,
    /// CPU time of Kneepoint's own threads.
    pub reader: Nanos,
}

/// What `vmstat` shows, over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCounters {
    /// Wall time that it covers.
    pub over: Nanos,
    /// Mean number of runnable threads, running ones included (`r`), Kneepoint's reader left out.
    pub runnable: Count,
    /// Mean number of threads blocked on a device (`b`).
    pub blocked: Count,
    /// Readings that the two means come from.
    pub readings: u32,
    /// Context switches of the machine (`cs`).
    pub switches: u64,
    /// Interrupts (`in`).
    pub interrupts: u64,
    /// User CPU, nice included (`us`), by the kernel's ticks over all cores.
    pub user: Nanos,
    /// Kernel CPU, irq and softirq included (`sy`).
    pub system: Nanos,
    /// Idle (`id`).
    pub idle: Nanos,
    /// Idle with a device request pending (`wa`).
    pub iowait: Nanos,
    /// Taken by the hypervisor (`st`).
    pub steal: Nanos,
    /// Cores that the ticks cover.
    pub cores: u32,
}

/// Whose a thread is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TaskOwner {
    /// The system under test.
    System,
    /// The load generator.
    Generator,
    /// The kernel.
    Kernel,
    /// Kneepoint.
    Kneepoint,
    /// Anybody else.
    Other,
}

/// CPU of one thread, as `top -H` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCpu {
    /// Whose it is.
    pub owner: TaskOwner,
    /// Its name (`comm`).
    pub name: String,
    /// Its kernel thread id.
    pub tid: u32,
    /// Its CPU in the window.
    pub cpu: Nanos,
    /// Wall time that it covers.
    pub over: Nanos,
    /// CPUs that it may run on (`sched_setaffinity`, cpusets), of a thread of the system; absent
    /// where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// One block device, by the kernel's `diskstats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounters {
    /// Its name, e.g. `loop0`.
    pub name: String,
    /// Wall time that it covers.
    pub over: Nanos,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of all reads, summed over them.
    pub read_time: Nanos,
    /// Time of all writes, summed over them.
    pub write_time: Nanos,
    /// Time in which at least one request was in flight.
    pub busy: Nanos,
}

/// Time lost for want of a resource, by the kernel's pressure-stall accounting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// `cpu`, `io` or `memory`.
    pub resource: String,
    /// `machine`, or a control group's path.
    pub scope: String,
    /// Wall time that it covers.
    pub over: Nanos,
    /// Some thread was stalled.
    pub some: Nanos,
    /// All that were not idle were stalled.
    pub full: Nanos,
}

/// One thing that a probe saw in a window. A new kind needs a decision record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fact", rename_all = "kebab-case")]
pub enum Fact {
    /// Which tier spoke.
    Tier {
        /// The tier.
        tier: Tier,
    },
    /// Thread accounting.
    ThreadTime(ThreadTime),
    /// Blocked time by reason.
    Wait(Wait),
    /// Who ended waits.
    Waker(Waker),
    /// Core accounting.
    CoreTime(CoreTime),
    /// A weighted stack.
    Stack(StackWeight),
    /// A lock that was taken in the census.
    LockUse(LockUse),
    /// System calls that were made in the census.
    Calls(CallCount),
    /// What was missed.
    Loss(Loss),
    /// What it cost.
    Cost(CollectorCost),
    /// The machine as `vmstat` shows it.
    Machine(MachineCounters),
    /// One of the threads that used most CPU.
    Task(TaskCpu),
    /// A block device that was used.
    Device(DeviceCounters),
    /// Pressure.
    Pressure(Pressure),
}

//! What can happen on a machine, as data: to be generated, shrunk, printed, and given to the
//! programs (`host.rs`) and to the reference (`method.rs`) alike.

use std::fmt;

/// Cores of the machine; `bpf/host/host.c` has as many.
pub(super) const CPUS: usize = 4;

/// A name as the kernel keeps it.
pub(super) type Comm = [u8; 16];

/// `name`, zero-filled.
pub(super) fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// A task as it is from the start; `struct described`. The first [`CPUS`] are those that idle.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub tid: u32,
    pub tgid: u32,
    /// Number of its process, which has memory and a count of living threads.
    pub process: u32,
    /// 1: a thread of the kernel.
    pub kernel: u32,
    pub comm: Comm,
}

/// How a thread leaves its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Preempted,
    /// Preempted on its way to block.
    PreemptedLate,
    Yielded,
    Blocked,
    Dead,
}

/// A sleeping lock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Memory(u8),
    Inode(u8),
    Position(u8),
    Other(u8),
}

/// A system call: number and arguments 1, 2, 3 and 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub nr: i32,
    pub args: [u64; 4],
}

/// What happens. Tasks are named by their place in [`Sequence::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Open {
        own: u32,
        always_from: u64,
    },
    Edge,
    Close,
    Switch {
        prev: u8,
        next: u8,
        how: How,
    },
    Wakeup(u8),
    Waking(u8),
    New(u8),
    Fork {
        parent: u8,
        child: u8,
    },
    Lock {
        lock: Lock,
        flags: u32,
    },
    Unlock(Lock),
    Call {
        task: u8,
        call: Call,
    },
    IoWait {
        task: u8,
        on: bool,
    },
    Rename {
        task: u8,
        name: u8,
    },
    Word {
        word: u8,
        value: u32,
    },
    Live {
        process: u8,
        count: u32,
    },
    Born(u8),
    /// The process is of this class from now on; 0: of none.
    Target {
        tgid: u32,
        class: u32,
    },
    Client {
        tid: u32,
        is: bool,
    },
    Tick,
}

/// Something that happens on `cpu` at `at`. Where it is not `seen`, no program is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub at: u64,
    pub cpu: u8,
    pub seen: bool,
    pub what: What,
}

impl Event {
    /// Whether the programs may be given it; other events change what they find.
    pub(super) fn is_of_scheduler(&self) -> bool {
        use What as W;
        matches!(
            self.what,
            W::Edge
                | W::Switch { .. }
                | W::Wakeup(_)
                | W::Waking(_)
                | W::New(_)
                | W::Fork { .. }
                | W::Lock { .. }
                | W::Unlock(_)
                | W::Tick
        )
    }
}

/// A machine and what happens on it.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub seed: u64,
    pub tasks: Vec<Task>,
    pub events: Vec<Event>,
    /// No event was lost and none is impossible.
    pub legal: bool,
}

/// The name that [`What::Rename`] gives.
pub(super) fn renamed(name: u8) -> Comm {
    comm(&format!("renamed-{name}"))
}

impl Sequence {
    fn name(&self, task: u8) -> String {
        let task = &self.tasks[usize::from(task)];
        if task.tid == 0 {
            return "idle".to_owned();
        }
        format!("{}/{}", super::wire::name_of(&task.comm), task.tid)
    }

    fn what(&self, event: &Event) -> String {
        let name = |task: u8| self.name(task);
        match event.what {
            What::Switch { prev, next, how } => {
                format!("switch {} ({how:?}) -> {}", name(prev), name(next))
            }
            What::Wakeup(task) => format!("wakeup {}", name(task)),
            What::Waking(task) => format!("waking {}", name(task)),
            What::New(task) => format!("new {}", name(task)),
            What::Born(task) => format!("born {}", name(task)),
            What::Fork { parent, child } => format!("fork {} -> {}", name(parent), name(child)),
            What::Call { task, call } => {
                format!("{} in call {} {:x?}", name(task), call.nr, call.args)
            }
            What::IoWait { task, on } => format!("{} in iowait: {on}", name(task)),
            What::Rename { task, name: to } => format!("{} is renamed-{to}", name(task)),
            other => format!("{other:?}"),
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} events; ns since the first:", self.seed, self.events.len())?;
        let first = self.events.first().map_or(0, |event| event.at);
        for event in &self.events {
            let lost = if event.seen { "" } else { "  (not seen)" };
            let what = self.what(event);
            writeln!(f, "  {:>9}  cpu {}  {what}{lost}", event.at - first, event.cpu)?;
        }
        Ok(())
    }
}

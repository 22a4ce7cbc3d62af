//! What causes, waits and functions are called.
//!
//! A name is data: what kind of thing it is of, and what names that. Names of two lines or of two
//! runs are compared as such, and never read. Their one spelling stands here and not among the
//! words of the report, since files have it that the report does not write: the JSON of these
//! types, and the twin of a run.

use crate::fact::WaitReason;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// The word of what a thread waits for that sleeps for a time of its own.
const SLEEP: &str = "sleep";

/// What something that takes CPU or is waited for is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A name of its own: of a function, of a variable.
    Own(String),
    /// An object that has no name of its own.
    Object {
        /// What it is, in a word of the list of lock libraries: `mutex`, `condition`.
        word: String,
        /// What stands for its name.
        place: Place,
    },
    /// An object of which its user tells what it is: a runtime's lock, a lock of the kernel.
    Known {
        /// What it is.
        name: String,
        /// The function that tells.
        of: String,
    },
    /// The lock of a run queue.
    RunQueueLock,
    /// A pool that gives out no more permits.
    PoolLimit {
        /// How many there are.
        permits: u64,
        /// The function that takes them from a semaphore.
        taken_in: String,
    },
    /// Anything that is waited for, by no more than its kind.
    Wait(WaitReason),
    /// A wait of which only the system call is known, by its name, or its number where it has none.
    SystemCall(String),
    /// The kernel's work behind a system call, or another way into it.
    Kernel(String),
    /// Work of the kernel that has a name of its own, and the way into it.
    KernelWork {
        /// What is done.
        work: String,
        /// By which call.
        entry: String,
    },
    /// A variable that is no plain mutex or condition.
    Variable {
        /// What it is, as for an object.
        word: String,
        /// Its name.
        name: String,
    },
    /// CPU whose stack shows no function.
    UnknownFunction,
    /// Code that a compiler wrote at run time and named nowhere.
    CompiledCode,
    /// CPU that waits bring with them.
    Work {
        /// What is done.
        work: LockWork,
        /// The name of what is waited for.
        of: Box<Name>,
    },
    /// CPU above the least, of which no function has much.
    AllFunctions,
    /// Threads that were woken and are not on a core yet.
    Runnable,
    /// The same where they may not run on all cores.
    Confined {
        /// Cores that each may run on.
        cpus: u32,
        /// Cores there are.
        of: u32,
    },
    /// The load generator.
    Generator,
    /// A thread that has no more to give, by its name.
    SaturatedThread(String),
    /// A thread that does the work of all clients, by its name.
    SerialThread(String),
    /// A device, by its name.
    Device(String),
}

/// What stands for the name of an object that has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Nothing.
    Nowhere,
    /// Its address, or that within its page.
    At(String),
    /// The function that it is used in.
    In(String),
    /// A part of a variable, of which there are several, and the function that they are used in.
    Within {
        /// The function.
        function: String,
        /// The variable.
        variable: String,
    },
    /// A method of the program's own type of lock, and the function that called it.
    Method {
        /// The method.
        method: String,
        /// Its caller.
        by: String,
    },
}

/// What is done for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWork {
    /// Waiting on a core.
    Spinning,
    /// Going to sleep and waking others by futex calls.
    FutexCalls,
    /// The same by other system calls.
    SystemCalls,
    /// Its own functions.
    Functions,
}

impl Name {
    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Own(name) if name.is_empty())
    }

    /// A thread's own sleep, by the function that sleeps.
    pub fn sleep(function: impl Into<String>) -> Self {
        Self::object(SLEEP, Place::In(function.into()))
    }

    /// The function that sleeps, where it is a sleep.
    #[must_use]
    pub fn sleeps_in(&self) -> Option<&str> {
        match self {
            Self::Object { word, place: Place::In(function) } if word == SLEEP => Some(function),
            _ => None,
        }
    }

    /// An object by its place.
    pub fn object(word: impl Into<String>, place: Place) -> Self {
        Self::Object { word: word.into(), place }
    }
}

impl Place {
    /// The function that stands for the name, if one does.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        match self {
            Self::In(function)
            | Self::Within { function, .. }
            | Self::Method { method: function, .. } => Some(function),
            Self::Nowhere | Self::At(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => Ok(()),
            Self::At(name) | Self::In(name) => f.write_str(name),
            Self::Within { function, variable } => write!(f, "{function} of {variable}"),
            Self::Method { method, by } => write!(f, "{method} < {by}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = match self {
            Self::Own(name) => name.as_str(),
            Self::Object { word, place: Place::Nowhere } => {
                return write!(f, "{word}s without a name");
            }
            Self::Object { word, place: place @ Place::At(_) } => {
                return write!(f, "{word} at {place}");
            }
            Self::Object { word, place } => return write!(f, "{word} in {place}"),
            Self::Known { name, of } => return write!(f, "{name} ({of})"),
            // A pool of one is a lock, whatever it is made of.
            Self::PoolLimit { permits: 1, taken_in } => {
                return write!(f, "lock held asleep (taken in {taken_in})");
            }
            Self::PoolLimit { permits, taken_in } => {
                return write!(f, "pool limit: {permits} permits (taken in {taken_in})");
            }
            Self::SystemCall(call) => return write!(f, "system call {call}"),
            Self::Kernel(entry) => return write!(f, "kernel: {entry}"),
            Self::KernelWork { work, entry } => return write!(f, "kernel: {work} in {entry}"),
            Self::Variable { word, name } => return write!(f, "{word} {name}"),
            Self::Work { work: LockWork::Spinning, of } => return write!(f, "spinning for {of}"),
            Self::Work { work: LockWork::FutexCalls, of } => {
                return write!(f, "futex calls of {of}");
            }
            Self::Work { work: LockWork::SystemCalls, of } => {
                return write!(f, "system calls of {of}");
            }
            Self::Work { work: LockWork::Functions, of } => {
                return write!(f, "lock and unlock of {of}");
            }
            Self::SaturatedThread(name) => return write!(f, "saturated thread {name}"),
            Self::SerialThread(name) => return write!(f, "serial thread {name}"),
            Self::Device(name) => return write!(f, "device {name}"),
            Self::Confined { cpus, of: all } => {
                return write!(f, "threads confined to {cpus} of {all} cores");
            }
            Self::Wait(reason) => waited_for(*reason),
            Self::RunQueueLock => "run-queue lock",
            Self::UnknownFunction => "unknown function",
            Self::CompiledCode => "compiled code without names",
            Self::AllFunctions => "more CPU for one operation, in all functions together",
            Self::Runnable => "runnable threads beside idle cores",
            Self::Generator => "load generator",
        };
        f.write_str(fixed)
    }
}

const fn waited_for(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Futex { .. } => "a futex",
        WaitReason::UserLock => "a user lock",
        WaitReason::Condition => "a condition variable",
        WaitReason::KernelLock => "a kernel lock",
        WaitReason::Device => "a device",
        WaitReason::File => "a file",
        WaitReason::Pipe => "a pipe",
        WaitReason::Socket => "a socket",
        WaitReason::EventCounter => "an eventfd",
        WaitReason::Poll => "poll",
        WaitReason::Process => "another process",
        WaitReason::Timer => "a timer",
        WaitReason::PageFault => "a page fault",
        WaitReason::Other => "something else",
    }
}

/// By the spelling, so that no order hangs on how a name came about.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Own(one), Self::Own(other)) | (Self::Kernel(one), Self::Kernel(other)) => {
                one.cmp(other)
            }
            _ if self == other => Ordering::Equal,
            _ => {
                let spelt = self.to_string().cmp(&other.to_string());
                spelt.then_with(|| format!("{self:?}").cmp(&format!("{other:?}")))
            }
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::Own(name.to_owned())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What was spelt is a name of its own: nobody reads what it was made of.
impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::Own)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling() {
        let mutex = Name::object("mutex", Place::In("f".to_owned()));
        let method = Place::Method { method: "Fifo::lock".to_owned(), by: "post".to_owned() };
        let work = |work| Name::Work { work, of: Box::new(mutex.clone()) };
        let pool = |permits| Name::PoolLimit { permits, taken_in: "borrow".to_owned() };
        for (name, spelt) in [
            (mutex.clone(), "mutex in f"),
            (Name::object("lock", Place::At("0x40".to_owned())), "lock at 0x40"),
            (Name::object("kernel lock", Place::Nowhere), "kernel locks without a name"),
            (Name::object("lock", method), "lock in Fifo::lock < post"),
            (work(LockWork::FutexCalls), "futex calls of mutex in f"),
            (work(LockWork::Spinning), "spinning for mutex in f"),
            (pool(1), "lock held asleep (taken in borrow)"),
            (pool(2), "pool limit: 2 permits (taken in borrow)"),
            (Name::Kernel("read".to_owned()), "kernel: read"),
            (Name::SystemCall("flock".to_owned()), "system call flock"),
            (Name::Wait(WaitReason::Socket), "a socket"),
        ] {
            assert_eq!(name.to_string(), spelt);
        }
    }

    #[test]
    fn names_are_told_apart_by_what_they_are_and_ordered_by_how_they_are_spelt() {
        let spelt = Name::from("mutex in f");
        let mutex = Name::object("mutex", Place::In("f".to_owned()));
        assert!(spelt != mutex && spelt.cmp(&mutex) != Ordering::Equal);
        assert_eq!(spelt.cmp(&mutex), mutex.cmp(&spelt).reverse());
        let mut all = [Name::from("z"), mutex, Name::Generator, Name::Kernel("a".to_owned())];
        all.sort();
        let spelt = all.map(|name| name.to_string());
        assert_eq!(spelt, ["kernel: a", "load generator", "mutex in f", "z"]);
        assert!(Name::from("").is_empty() && !Name::Generator.is_empty());
    }
}

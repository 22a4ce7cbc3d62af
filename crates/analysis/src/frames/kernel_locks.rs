//! Kernel locks by the stacks of those who spin for them, and their names.
//!
//! A sleeping lock of the kernel (rwsem, mutex) is spun for first and slept for later; a spin lock
//! is only spun for. Both show on a core as frames of the lock's slow path. The first caller
//! outside lock machinery names the lock, for spinning as for blocking, so that both belong to one
//! cause. Some callers tell which lock it is:
//!
//! | class | caller | name |
//! |---|---|---|
//! | rwsem | reads, writes and path functions of a file system | `inode rwsem (CALLER)` |
//! | rwsem | mapping, unmapping, page faults | `mmap_lock (CALLER)` |
//! | spin lock | `futex_...` | `futex hash bucket (CALLER)` |
//! | spin lock | below a run queue's own lock function | `run-queue lock` |
//! | any | anything else | `kernel lock in CALLER`, `kernel spin lock in CALLER` |

use crate::frames::names::{Catalogue, in_kernel};
use crate::frames::naming::kernel_naming_frames;
use kneepoint_vocab::Frame;
use kneepoint_vocab::findings::{Name, Place};
pub(crate) use kneepoint_vocab::names::KernelLockClass as Class;
use std::cmp::Ordering;

/// What the stack of a wait shows it to be for. In the order of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machinery {
    /// A lock or a condition, by its word in `names.toml`.
    User(&'static str),
    /// A lock of the kernel, of the class that its slow path shows.
    Kernel(Option<Class>),
}

impl Machinery {
    /// What such an object is called.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::User(word) => word,
            Self::Kernel(None) => LOCK,
            Self::Kernel(Some(Class::Rwsem)) => "rwsem",
            Self::Kernel(Some(Class::Mutex)) => "kernel mutex",
            Self::Kernel(Some(Class::Spin)) => SPIN,
        }
    }
}

impl Ord for Machinery {
    fn cmp(&self, other: &Self) -> Ordering {
        let kernel = |one: &Self| matches!(one, Self::Kernel(_));
        self.word().cmp(other.word()).then_with(|| kernel(self).cmp(&kernel(other)))
    }
}

impl PartialOrd for Machinery {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

const LOCK: &str = "kernel lock";
const SPIN: &str = "kernel spin lock";

/// A lock that a stack on a core spins for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spinning {
    pub(crate) class: Class,
    /// Kernel functions that may name it, innermost first; at least one.
    pub(crate) names: Vec<String>,
}

/// The class that the slow paths among `frames` show. A sleeping lock's own waiting list is under
/// a spin lock, and `osq_lock` is a part of both sleeping locks: the outermost slow path tells.
pub(crate) fn class(known: Catalogue, frames: &[Frame]) -> Option<Class> {
    let kernel = frames.iter().filter(|frame| in_kernel(frame));
    kernel.filter_map(|frame| known.slow_path(&frame.function)).next_back()
}

/// The kernel lock that a stack taken on a core spins for, if it does.
pub(crate) fn spinning(known: Catalogue, frames: &[Frame]) -> Option<Spinning> {
    let from =
        frames.iter().position(|f| in_kernel(f) && known.slow_path(&f.function).is_some())?;
    let rest = &frames[from..];
    let run_queue = rest.iter().any(|frame| frame.function.contains("rq_lock"));
    let class = class(known, rest)?;
    if class == Class::Spin && run_queue {
        return Some(Spinning { class, names: vec![RUN_QUEUE.to_owned()] });
    }
    let names = kernel_naming_frames(known, rest);
    (!names.is_empty()).then_some(Spinning { class, names })
}

/// The function that takes or gives back a lock, without waiting for it, where the stack ends. A
/// spin lock's own function is where a core waits for the cache line of it.
pub(crate) fn touching(known: Catalogue, frames: &[Frame]) -> Option<String> {
    let kernel: Vec<&Frame> = frames.iter().take_while(|frame| in_kernel(frame)).collect();
    // Nothing but what the lock itself is made of may lie further in.
    let at = kernel.iter().position(|frame| !known.kernel_plumbing(&frame.function))?;
    let touched = at.checked_sub(1).map(|inner| kernel[inner])?;
    known.kernel_touches(&touched.function).then(|| kernel[at].function.clone())
}

/// What locks of its kind are called whose stacks show `machinery` and that `caller` wants, where
/// there is a word for them.
pub(crate) fn kind(known: Catalogue, machinery: Machinery, caller: &str) -> Option<&'static str> {
    match machinery {
        Machinery::Kernel(Some(class)) => known.kernel_lock(class, caller),
        _ => None,
    }
}

/// Stands for the function that would name it.
const RUN_QUEUE: &str = "run-queue lock";

/// The name of a lock whose stacks show `machinery`; the function of `place` is its first caller.
pub(crate) fn name(known: Catalogue, machinery: Machinery, place: &Place) -> Name {
    let class = match machinery {
        Machinery::Kernel(class) => class,
        Machinery::User(_) => None,
    };
    let Some(caller) = place.function() else { return Name::object(LOCK, place.clone()) };
    match class.and_then(|class| known.kernel_lock(class, caller)) {
        _ if class == Some(Class::Spin) && caller == RUN_QUEUE => Name::RunQueueLock,
        Some(name) if name == caller => Name::from(name),
        Some(name) => Name::Known { name: name.to_owned(), of: caller.to_owned() },
        None if class == Some(Class::Spin) => Name::object(SPIN, place.clone()),
        None => Name::object(LOCK, place.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::names::KERNEL;

    fn known() -> Catalogue {
        Catalogue::built_in()
    }

    fn stack(functions: &[&str]) -> Vec<Frame> {
        let frame =
            |function: &&str| Frame { function: (*function).to_owned(), module: KERNEL.to_owned() };
        functions.iter().map(frame).collect()
    }

    fn named(functions: &[&str]) -> Option<String> {
        let found = spinning(known(), &stack(functions))?;
        let place = Place::In(found.names[0].clone());
        Some(name(known(), Machinery::Kernel(Some(found.class)), &place).to_string())
    }

    #[test]
    fn spinning_is_named_by_the_first_caller_outside_the_lock() {
        let osq = ["osq_lock", "rwsem_optimistic_spin", "rwsem_down_write_slowpath", "down_write"];
        let write = [&osq[..], &["shmem_file_write_iter", "vfs_write", "__x64_sys_pwrite64"]];
        assert_eq!(named(&write.concat()).unwrap(), "inode rwsem (shmem_file_write_iter)");
        let unmap = [&osq[1..], &["__vm_munmap", "__x64_sys_munmap"]];
        assert_eq!(named(&unmap.concat()).unwrap(), "mmap_lock (__vm_munmap)");
        let mutex = ["mutex_spin_on_owner", "__mutex_lock.constprop.0", "pipe_write"];
        assert_eq!(named(&mutex).unwrap(), "kernel lock in pipe_write");
    }

    #[test]
    fn an_inode_lock_behind_a_wrapper_is_the_inode_s() {
        let xfs =
            ["rwsem_down_write_slowpath", "down_write", "xfs_ilock", "xfs_file_buffered_write"];
        assert_eq!(named(&xfs).unwrap(), "inode rwsem (xfs_file_buffered_write)");
    }

    #[test]
    fn spin_locks_are_distinguished() {
        let futex = ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_q_lock"];
        assert_eq!(named(&futex).unwrap(), "futex hash bucket (futex_q_lock)");
        let queue = [
            "native_queued_spin_lock_slowpath",
            "_raw_spin_lock",
            "raw_spin_rq_lock_nested",
            "__schedule",
            "futex_wait_queue",
        ];
        assert_eq!(named(&queue).unwrap(), "run-queue lock");
        let table = [&queue[..2], &["__pte_offset_map_lock", "finish_fault", "do_fault"]].concat();
        assert_eq!(named(&table).unwrap(), "page table lock (finish_fault)");
        let other =
            ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "get_page_from_freelist"];
        assert_eq!(named(&other).unwrap(), "kernel spin lock in get_page_from_freelist");
    }

    #[test]
    fn the_waiting_list_of_a_sleeping_lock_is_a_part_of_it() {
        let list = [
            "native_queued_spin_lock_slowpath",
            "_raw_spin_lock_irq",
            "rwsem_down_write_slowpath",
            "down_write",
            "ext4_buffered_write_iter",
        ];
        assert_eq!(named(&list).unwrap(), "inode rwsem (ext4_buffered_write_iter)");
    }

    #[test]
    fn taking_and_giving_back_is_the_lock_s() {
        let touched = |functions: &[&str]| touching(known(), &stack(functions));
        assert_eq!(touched(&["mutex_unlock", "pipe_write", "vfs_write"]).unwrap(), "pipe_write");
        assert_eq!(touched(&["mutex_lock", "pipe_read"]).unwrap(), "pipe_read");
        assert_eq!(touched(&["_raw_spin_lock", "posix_lock_inode"]).unwrap(), "posix_lock_inode");
        assert_eq!(
            touched(&["_raw_spin_lock_irq", "mutex_lock", "pipe_read"]).unwrap(),
            "pipe_read"
        );
        assert_eq!(touched(&["copy_page_to_iter", "pipe_read"]), None);
        assert_eq!(touched(&["copy_page", "mutex_lock"]), None);
        assert_eq!(touched(&["mutex_lock"]), None);
    }

    #[test]
    fn work_under_a_lock_is_no_spinning() {
        assert_eq!(named(&["copy_page", "shmem_file_write_iter", "vfs_write"]), None);
        assert_eq!(named(&["down_write", "shmem_file_write_iter"]), None);
        assert_eq!(named(&["osq_lock"]), None, "nothing names it");
        assert_eq!(spinning(known(), &[]), None);
    }
}

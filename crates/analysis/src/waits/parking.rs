//! Where runtimes park threads, and what a stack shows that tasks wait for or let go.

use crate::frames::names::{Catalogue, begins, in_kernel, is_unnamed, receiver};
use crate::frames::stacks::Stacks;
use kneepoint_vocab::names::Parking;
use kneepoint_vocab::{Frame, StackWeight, WaitReason};

/// The runtime at whose parking place a stack waits, and where on the stack that shows.
pub(super) fn parked(known: Catalogue, frames: &[Frame]) -> Option<(&'static Parking, &[Frame])> {
    let user = frames.iter().position(|frame| !in_kernel(frame))?;
    let user = &frames[user..];
    known
        .parking()
        .find(|row| user.iter().any(|f| begins(&f.function, &row.sleep)))
        .map(|r| (r, user))
}

/// Whether a parked thread polls for all tasks of its runtime.
pub(super) fn polls_for_tasks(stacks: &Stacks<'_>, stack: &StackWeight) -> bool {
    parked_by(stacks, stack, &[WaitReason::Poll])
}

/// The same, or whether it sleeps for a moment before it looks for a task again.
pub(super) fn looks_for_tasks(stacks: &Stacks<'_>, stack: &StackWeight) -> bool {
    parked_by(stacks, stack, &[WaitReason::Poll, WaitReason::Timer])
}

fn parked_by(stacks: &Stacks<'_>, stack: &StackWeight, reasons: &[WaitReason]) -> bool {
    stack.wait.as_ref().is_some_and(|key| reasons.contains(&key.reason))
        && parked(stacks.known, stacks.frames(stack.stack)).is_some_and(|(row, _)| row.by_wakers)
}

/// The primitive that a task waits for or lets go, and who called it: the frames from there
/// outward. Functions of the runtime between the two are left out. Where the caller has no name the
/// primitive stands alone, if the runtime's row says that this is enough.
pub(super) fn cut(known: Catalogue, row: &Parking, frames: &[Frame]) -> Option<Vec<Frame>> {
    let in_c = |frame: &Frame| known.in_c_library(frame);
    let is = |frame: &Frame, list: &[String]| begins(&frame.function, list);
    let first = frames.iter().position(|frame| is(frame, &row.primitives))?;
    let inside = |frame: &Frame| {
        is(frame, &row.primitives) || is(frame, &row.own) || is_unnamed(&frame.function)
    };
    // What a primitive calls (`sync.(*Once).Do`) is no part of it.
    if !frames[..first].iter().all(|frame| in_kernel(frame) || inside(frame) || in_c(frame)) {
        return None;
    }
    let outward = frames[first..].iter().position(|frame| !inside(frame));
    let caller = outward.map_or(frames.len(), |at| first + at);
    let primitive = frames[first..caller].iter().rfind(|frame| is(frame, &row.primitives))?;
    if caller == frames.len() && !row.alone {
        return None;
    }
    Some(std::iter::once(primitive).chain(&frames[caller..]).cloned().collect())
}

/// An address that no lock has, the same wherever the same function wants the same primitive, or
/// methods of one type do: what they share is a part of it. The words of one object (to lock, to
/// unlock) are one: only the primitive's type counts.
pub(super) fn stands_for(cut: &[Frame]) -> u64 {
    let of = |frame: &Frame| {
        let bare = frame.function.split('(').next().unwrap_or_default().to_owned();
        let typed = frame.function.starts_with("sync.(").then(|| frame.function.split(')').next());
        typed.flatten().map_or(bare, str::to_owned)
    };
    let family = cut.first().map(of).unwrap_or_default();
    let family = family.rsplit_once("::").map_or(family.as_str(), |(of, _)| of);
    let caller = cut.get(1).map_or("", |frame| frame.function.as_str());
    let caller = receiver(caller).unwrap_or(caller);
    // FNV-1a, of 64 bits; 8-byte aligned, in the half that belongs to the kernel.
    let hash =
        family.bytes().chain([0]).chain(caller.bytes()).fold(0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3_u64)
        });
    (hash | 1 << 63) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(functions: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| Frame { function: (*name).to_owned(), module: "app".to_owned() };
        functions.iter().map(frame).collect()
    }

    fn of(row: &str, functions: &[&str]) -> Option<Vec<String>> {
        let known = Catalogue::built_in();
        let row = known.parking().find(|one| one.of == row).expect("the row is there");
        let cut = cut(known, row, &frames(functions))?;
        Some(cut.into_iter().map(|frame| frame.function).collect())
    }

    #[test]
    fn a_waker_s_stack_is_cut_to_the_primitive_and_its_caller() {
        let woke = [
            "runtime.futex.abi0",
            "runtime.wakep",
            "runtime.systemstack.abi0",
            "internal/sync.(*Mutex).unlockSlow",
            "sync.(*Mutex).Unlock",
            "main.(*ledger).post",
            "main.main.func1",
        ];
        let cut = ["sync.(*Mutex).Unlock", "main.(*ledger).post", "main.main.func1"];
        assert_eq!(of("Go", &woke).unwrap(), cut);
        assert_eq!(of("Go", &["runtime.wakep", "runtime.gopreempt_m"]), None);
        let inside = ["main.load", "sync.(*Pool).Get", "main.main"];
        assert_eq!(of("Go", &inside), None, "what a primitive calls is no part of it");
        let stub = ["os::park()", "ObjectMonitor::enter(JavaThread*)", "[anonymous]+0x6aaa7"];
        assert_eq!(of("Java monitors", &stub).unwrap(), ["ObjectMonitor::enter(JavaThread*)"]);
        assert_eq!(of("Go", &["sync.(*Mutex).Lock"]), None);
    }

    #[test]
    fn locking_and_unlocking_stand_for_one_lock() {
        let object = |functions: &[&str]| stands_for(&frames(functions));
        let lock = object(&["sync.(*Mutex).Lock", "main.post"]);
        assert_eq!(lock, object(&["sync.(*Mutex).Unlock", "main.post"]));
        assert_ne!(lock, object(&["sync.(*RWMutex).Lock", "main.post"]));
        assert_ne!(lock, object(&["sync.(*Mutex).Lock", "main.log"]));
        let method = object(&["sync.(*Mutex).Lock", "main.(*book).post"]);
        assert_eq!(method, object(&["sync.(*Mutex).Unlock", "main.(*book).read.func1"]));
        assert_ne!(method, object(&["sync.(*Mutex).Lock", "main.(*page).post"]));
        let monitor = object(&["ObjectMonitor::enter(JavaThread*)", "Book.post"]);
        assert_eq!(monitor, object(&["ObjectMonitor::exit(bool)", "Book.post"]));
    }
}

//! Who waits for a lock while its holder waits for another one, told event by event.

use super::event::{CPUS, Call, Event, How, Sequence, Task, What, comm};
use super::host::{Host, compiler_is_there, sources};
use super::wire::{Behind, class, reason};

/// Numbers of threads in [`Scene::tasks`]; each has the core of the same place to itself.
const HOLDER: usize = 0;
const WAITER: usize = 1;
const OTHER: usize = 2;
const THIRD: usize = 3;
/// Words that are waited for.
const OUTER: u64 = 0x10000;
const INNER: u64 = 0x10040;
/// The call that waits and wakes.
const FUTEX: i64 = libc::SYS_futex;
/// `FUTEX_WAIT` and `FUTEX_WAKE`, private.
const WAIT: u64 = 128;
const WAKE: u64 = 129;
const PROCESS: u32 = 100;
/// One that was forked from it.
const FORKED: u32 = 200;

/// Events as they are written down, and the process of each thread.
struct Scene(Vec<Event>, [u32; CPUS]);

fn thread(number: usize) -> u8 {
    u8::try_from(CPUS + number).unwrap()
}

impl Scene {
    /// All threads run.
    fn new() -> Self {
        let mut scene = Self(Vec::new(), [PROCESS; CPUS]);
        for tgid in [PROCESS, FORKED] {
            scene.on(0, 1, What::Target { tgid, class: class::SYSTEM as u32 });
        }
        scene.on(0, 10, What::Open { own: 1, always_from: 1 });
        (0..CPUS).for_each(|number| scene.runs(20, number));
        scene
    }

    fn on(&mut self, number: usize, at: u64, what: What) {
        let cpu = u8::try_from(number).unwrap();
        self.0.push(Event { at, cpu, seen: true, what });
    }

    fn runs(&mut self, at: u64, number: usize) {
        let prev = u8::try_from(number).unwrap();
        let next = thread(number);
        self.on(number, at, What::Switch { prev, next, how: How::Preempted });
    }

    fn calls(&mut self, at: u64, number: usize, operation: u64, word: u64) {
        let call = Call { nr: FUTEX as i32, args: [word, operation, 1, 0] };
        self.on(number, at, What::Call { task: thread(number), call });
    }

    fn waits(&mut self, at: u64, number: usize, word: u64) {
        self.calls(at, number, WAIT, word);
        let next = u8::try_from(number).unwrap();
        self.on(number, at, What::Switch { prev: thread(number), next, how: How::Blocked });
    }

    /// One gives a word back to another, who then runs.
    fn gives(&mut self, at: u64, number: usize, word: u64, to: usize) {
        self.calls(at, number, WAKE, word);
        self.on(number, at, What::Waking(thread(to)));
        self.on(number, at, What::Wakeup(thread(to)));
        self.runs(at + 5, to);
    }

    /// The holder waits for the inner word, and meanwhile the waiter for the outer one.
    fn nested() -> Self {
        let mut scene = Self::new();
        scene.waits(1000, HOLDER, INNER);
        scene.waits(1400, WAITER, OUTER);
        scene
    }

    /// What the record says of the waiter's wait for the outer word.
    fn told(mut self, at: u64, host: &mut Host) -> Behind {
        self.on(0, at, What::Close);
        let idle = Task { tid: 0, tgid: 0, process: 0, kernel: 0, comm: comm("idle") };
        let processes = self.1;
        let task = |number: usize| Task {
            tid: 101 + u32::try_from(number).unwrap(),
            tgid: processes[number],
            process: 1,
            kernel: 0,
            comm: comm("worker"),
        };
        let tasks = vec![idle; CPUS].into_iter().chain((0..CPUS).map(task)).collect();
        let kept = host.run(&Sequence { seed: 1, tasks, events: self.0, legal: true });
        let waiter = kept[0].marks.iter().filter(|mark| mark.tid == 101 + WAITER as u32);
        let ids: Vec<u64> = waiter.map(|mark| mark.id).collect();
        let records = &kept[0].records;
        let found = records.iter().find(|one| one.wait.object == OUTER && ids.contains(&one.id));
        found.expect("the waiter's wait was sampled and has ended").behind
    }
}

fn host(test: &str) -> Option<Host> {
    compiler_is_there(test).then(|| Host::of(&sources(), "-O2"))
}

#[test]
fn a_wait_is_behind_what_the_holder_waits_for_meanwhile() {
    let Some(mut host) = host("waits behind another lock") else { return };
    let mut scene = Scene::nested();
    scene.gives(3000, OTHER, INNER, HOLDER);
    scene.gives(3500, HOLDER, OUTER, WAITER);
    let behind = scene.told(4000, &mut host);
    assert_eq!((behind.object, behind.length, behind.reason), (INNER, 1600, reason::FUTEX));
}

#[test]
fn who_queues_behind_others_waited_for_the_first_holder_too() {
    let Some(mut host) = host("a queue behind another lock") else { return };
    let mut scene = Scene::new();
    scene.waits(1000, HOLDER, INNER);
    scene.waits(1400, THIRD, OUTER);
    scene.waits(2000, WAITER, OUTER);
    scene.gives(3000, OTHER, INNER, HOLDER);
    scene.gives(3500, HOLDER, OUTER, THIRD);
    scene.gives(3700, THIRD, OUTER, WAITER);
    let behind = scene.told(4000, &mut host);
    assert_eq!((behind.object, behind.length), (INNER, 1000));
}

#[test]
fn a_lock_that_others_want_as_well_counts_until_it_is_given_back() {
    let Some(mut host) = host("a wanted inner lock") else { return };
    let mut scene = Scene::nested();
    scene.waits(1500, THIRD, INNER);
    scene.gives(2000, OTHER, INNER, HOLDER);
    scene.gives(3200, HOLDER, INNER, THIRD);
    scene.gives(3500, HOLDER, OUTER, WAITER);
    assert_eq!(scene.told(4000, &mut host).length, 1800, "from 1400 to 3200");
}

#[test]
fn who_has_waited_before_the_lock_was_wanted_did_not_make_it_late() {
    let Some(mut host) = host("waits before a lock was wanted") else { return };
    let mut scene = Scene::new();
    scene.waits(1000, HOLDER, INNER);
    scene.gives(1300, OTHER, INNER, HOLDER);
    scene.waits(1400, WAITER, OUTER);
    scene.gives(3500, HOLDER, OUTER, WAITER);
    assert_eq!(scene.told(4000, &mut host).length, 0);
}

#[test]
fn a_lock_that_was_given_back_meanwhile_was_another_s() {
    let Some(mut host) = host("locks that another held") else { return };
    let mut scene = Scene::new();
    scene.waits(900, THIRD, OUTER);
    scene.waits(1000, HOLDER, INNER);
    scene.waits(1400, WAITER, OUTER);
    scene.gives(2000, OTHER, OUTER, THIRD);
    scene.gives(3000, OTHER, INNER, HOLDER);
    scene.gives(3500, HOLDER, OUTER, WAITER);
    assert_eq!(scene.told(4000, &mut host).length, 0, "the third had it from 2000 on");
}

#[test]
fn a_holder_that_waits_for_a_lock_of_the_kernel_is_told_too() {
    let Some(mut host) = host("waits behind a lock of the kernel") else { return };
    let mut scene = Scene::new();
    let lock = super::event::Lock::Other(3);
    scene.on(HOLDER, 990, What::Lock { lock, flags: 0 });
    scene.waits(1000, HOLDER, INNER);
    scene.waits(1400, WAITER, OUTER);
    scene.gives(3000, OTHER, INNER, HOLDER);
    scene.on(HOLDER, 3010, What::Unlock(lock));
    scene.gives(3500, HOLDER, OUTER, WAITER);
    let address = host.address(lock);
    let behind = scene.told(4000, &mut host);
    assert_eq!((behind.object, behind.length), (address, 1600));
    assert_eq!(behind.reason, reason::KERNEL_LOCK);
}

#[test]
fn forked_processes_have_locks_of_their_own_at_the_same_address() {
    let Some(mut host) = host("locks of forked processes") else { return };
    let mut scene = Scene::new();
    (scene.1[OTHER], scene.1[THIRD]) = (FORKED, FORKED);
    scene.waits(900, OTHER, INNER);
    scene.waits(950, THIRD, OUTER);
    scene.waits(1000, WAITER, OUTER);
    scene.on(OTHER, 2000, What::Wakeup(thread(OTHER)));
    scene.runs(2005, OTHER);
    scene.gives(2100, OTHER, OUTER, THIRD);
    scene.gives(2500, HOLDER, OUTER, WAITER);
    assert_eq!(scene.told(4000, &mut host).length, 0);
}

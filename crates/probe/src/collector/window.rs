//! From the programs' raw maps to facts: open intervals are added, silent threads charged, keys
//! classified, everything summed by role and name. Pure; the collector reads, this adds up.

use super::wire::{self, Core, GroupId, GroupSum, Thread, WaitId, WaitSum, class, state};
use crate::proc::schedstat::SchedStat;
use kneepoint_vocab::{CoreTime, Nanos, ThreadRole, ThreadTime, Wait, WaitKey, WaitReason};
use std::collections::{BTreeMap, BTreeSet};

/// What is known about futex words beyond the system call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Names of words that are global variables; `None`: looked up, and it is none.
    pub names: BTreeMap<u64, Option<String>>,
}

/// A thread without any event in the window, and the state that `/proc` shows it in.
#[derive(Clone, Debug)]
pub(crate) struct Silent {
    pub tid: u32,
    pub name: String,
    pub client: bool,
    /// The wait it is in; `None` where it is runnable.
    pub wait: Option<WaitKey>,
}

/// All that was read when a window closed.
#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub begin: u64,
    pub end: u64,
    pub threads: Vec<(u32, Thread)>,
    pub waits: Vec<(WaitId, WaitSum)>,
    pub exited: Vec<(GroupId, GroupSum)>,
    /// One a watched core.
    pub cores: Vec<Core>,
    /// Scheduler counts at the begin and the end: tid to (pid, counts).
    pub counts: [BTreeMap<u32, (u32, SchedStat)>; 2],
    pub silent: Vec<Silent>,
    /// What is known about futex words.
    pub objects: Objects,
}

type GroupName = (ThreadRole, String);

/// The sums of a window.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub groups: BTreeMap<GroupName, ThreadTime>,
    pub waits: BTreeMap<(GroupName, WaitKey), Wait>,
    /// Groups with a thread whose scheduler counts are not known.
    uncounted: BTreeSet<GroupName>,
}

/// Role of a thread from the programs' flag.
pub(crate) fn role_of(flag: u64) -> ThreadRole {
    if flag == 0 { ThreadRole::Other } else { ThreadRole::Client }
}

/// The cause that a raw key stands for.
pub(crate) fn wait_key(id: &WaitId, objects: &Objects) -> WaitKey {
    use wire::reason as r;
    let reason = match id.reason {
        r::FUTEX => {
            let timed = id.op & wire::OP_TIMED != 0;
            WaitReason::Futex { operation: id.op & !wire::OP_TIMED, timed }
        }
        r::KERNEL_LOCK => WaitReason::KernelLock,
        r::DEVICE => WaitReason::Device,
        r::PIPE => WaitReason::Pipe,
        r::SOCKET => WaitReason::Socket,
        r::POLL | r::ANONYMOUS => WaitReason::Poll,
        r::TIMER => WaitReason::Timer,
        r::FAULT => WaitReason::PageFault,
        r::FILE => WaitReason::File,
        r::PROCESS => WaitReason::Process,
        _ => WaitReason::Other,
    };
    let object_name = match id.reason {
        r::KERNEL_LOCK => kernel_lock(id.op).map(str::to_owned),
        r::FUTEX => objects.names.get(&id.object).cloned().flatten(),
        _ => None,
    };
    WaitKey {
        reason,
        object: if matches!(id.reason, r::FUTEX | r::KERNEL_LOCK) { id.object } else { 0 },
        object_name,
        syscall: id.nr,
    }
}

/// The name of a kernel lock that was recognised by its address.
fn kernel_lock(op: u16) -> Option<&'static str> {
    let names = [
        (wire::OP_MMAP_LOCK, "mmap_lock"),
        (wire::OP_INODE_RWSEM, "inode rwsem"),
        (wire::OP_FILE_POSITION, "file position mutex"),
    ];
    names.into_iter().find(|(bit, _)| op & bit != 0).map(|(_, name)| name)
}

impl Sums {
    /// Everything in `harvest`, summed.
    pub(crate) fn of(harvest: &Harvest) -> Self {
        let mut sums = Self::default();
        for (id, sum) in &harvest.waits {
            sums.add_wait(id, sum, &harvest.objects);
        }
        for (tid, thread) in &harvest.threads {
            for (id, sum) in thread.waits() {
                sums.add_wait(&id, &sum, &harvest.objects);
            }
            sums.add_thread(*tid, thread, harvest);
        }
        for silent in &harvest.silent {
            sums.add_silent(silent, harvest);
        }
        for (id, sum) in &harvest.exited {
            sums.add_exited(id, sum);
        }
        for name in std::mem::take(&mut sums.uncounted) {
            if let Some(group) = sums.groups.get_mut(&name) {
                (group.schedstat_running, group.schedstat_runnable) = (None, None);
            }
        }
        sums
    }

    fn group(&mut self, name: &GroupName) -> &mut ThreadTime {
        self.groups.entry(name.clone()).or_insert_with(|| ThreadTime {
            role: Some(name.0),
            name: name.1.clone(),
            schedstat_running: Some(Nanos(0)),
            schedstat_runnable: Some(Nanos(0)),
            ..ThreadTime::default()
        })
    }

    fn wait(&mut self, name: &GroupName, key: WaitKey) -> &mut Wait {
        self.waits.entry((name.clone(), key.clone())).or_insert_with(|| Wait {
            role: name.0,
            name: name.1.clone(),
            key,
            blocked: Nanos(0),
            count: 0,
            longest: Nanos(0),
            idle_charged: Nanos(0),
            holders: kneepoint_vocab::Holders::default(),
        })
    }

    fn add_wait(&mut self, id: &WaitId, sum: &WaitSum, objects: &Objects) {
        let name = (role_of(u64::from(id.role)), wire::name_of(&id.comm));
        let wait = self.wait(&name, wait_key(id, objects));
        wait.blocked += Nanos(sum.blocked);
        wait.count += sum.count;
        wait.longest = wait.longest.max(Nanos(sum.longest));
        wait.idle_charged += Nanos(sum.idle);
        if matches!(wait.key.reason, WaitReason::Futex { .. }) {
            wait.holders.running += sum.holders[1];
            wait.holders.runnable += sum.holders[2];
            wait.holders.blocked += sum.holders[3];
            wait.holders.unknown += sum.holders[4];
        }
    }

    fn add_counts(&mut self, name: &GroupName, tid: u32, harvest: &Harvest) {
        let [begin, end] = &harvest.counts;
        let start = begin.get(&tid).map(|(_, counts)| *counts).unwrap_or_default();
        let Some((_, last)) = end.get(&tid) else {
            self.uncounted.insert(name.clone());
            return;
        };
        let delta = last.since(start);
        let group = self.group(name);
        if let (Some(running), Some(runnable)) =
            (&mut group.schedstat_running, &mut group.schedstat_runnable)
        {
            *running += Nanos(delta.running);
            *runnable += Nanos(delta.runnable);
        }
    }

    fn add_thread(&mut self, tid: u32, thread: &Thread, harvest: &Harvest) {
        let name = (role_of(u64::from(thread.role)), wire::name_of(&thread.comm));
        let open = harvest.end.saturating_sub(thread.ts);
        let group = self.group(&name);
        group.threads += 1;
        group.existed += Nanos(harvest.end.saturating_sub(thread.birth));
        group.switches += thread.switches;
        group.running += Nanos(thread.run);
        group.runnable_woken += Nanos(thread.rq_woken);
        group.runnable_preempted += Nanos(thread.rq_preempted);
        group.blocked += Nanos(thread.blocked);
        match thread.state {
            state::RUN => group.running += Nanos(open),
            state::RQ if thread.preempted != 0 => group.runnable_preempted += Nanos(open),
            state::RQ => group.runnable_woken += Nanos(open),
            state::BLK => group.blocked += Nanos(open),
            _ => {}
        }
        if thread.block_start != 0 {
            let woken = thread.wake_ts != 0;
            let until = if woken { thread.wake_ts } else { harvest.end };
            let blocked = until.saturating_sub(thread.block_start);
            let sum = WaitSum {
                blocked,
                count: u64::from(woken),
                longest: blocked,
                ..WaitSum::default()
            };
            self.add_wait(&thread.wait(), &sum, &harvest.objects);
        }
        self.add_counts(&name, tid, harvest);
    }

    fn add_silent(&mut self, silent: &Silent, harvest: &Harvest) {
        let name = (role_of(u64::from(silent.client)), silent.name.clone());
        let window = Nanos(harvest.end - harvest.begin);
        let group = self.group(&name);
        group.threads += 1;
        group.existed += window;
        match &silent.wait {
            None => group.runnable_preempted += window,
            Some(key) => {
                group.blocked += window;
                let wait = self.wait(&name, key.clone());
                wait.blocked += window;
                wait.longest = wait.longest.max(window);
            }
        }
        self.add_counts(&name, silent.tid, harvest);
    }

    fn add_exited(&mut self, id: &GroupId, sum: &GroupSum) {
        let name = (role_of(id.role), wire::name_of(&id.comm));
        let group = self.group(&name);
        group.threads += u32::try_from(sum.threads).unwrap_or(u32::MAX);
        group.existed += Nanos(sum.existed);
        group.running += Nanos(sum.run);
        group.runnable_woken += Nanos(sum.rq_woken);
        group.runnable_preempted += Nanos(sum.rq_preempted);
        group.blocked += Nanos(sum.blocked);
        group.switches += sum.switches;
        self.uncounted.insert(name);
    }
}

/// The core ledger, and how many watched cores gave no account (their time is then idle).
///
/// `charged` is the idle time charged to waits; what is neither that nor the scheduler's is
/// uncharged, so the three always add up to `idle`.
pub(crate) fn core_time(harvest: &Harvest, charged: Nanos) -> (CoreTime, u64) {
    let window = harvest.end - harvest.begin;
    let mut spent = [0_u64; class::COUNT];
    let mut scheduler = 0;
    let mut silent = 0;
    for core in &harvest.cores {
        if core.generation != harvest.begin {
            silent += 1;
            spent[class::IDLE] += window;
            continue;
        }
        for (sum, part) in spent.iter_mut().zip(core.spent) {
            *sum += part;
        }
        let running = usize::try_from(core.class).unwrap_or(class::OTHERS);
        if let Some(sum) = spent.get_mut(running) {
            *sum += harvest.end.saturating_sub(core.ts);
        }
        scheduler += core.idle_scheduler;
    }
    let idle = spent[class::IDLE];
    let cores = harvest.cores.len();
    let time = CoreTime {
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        total: Nanos(window * cores as u64),
        system: Nanos(spent[class::SYSTEM]),
        generator: Nanos(spent[class::GENERATOR]),
        others: Nanos(spent[class::OTHERS]),
        kernel: Nanos(spent[class::KERNEL]),
        kneepoint: Nanos(spent[class::KNEEPOINT]),
        idle: Nanos(idle),
        idle_scheduler: Nanos(scheduler),
        idle_uncharged: Nanos(idle.saturating_sub(scheduler + charged.0)),
        ..CoreTime::default()
    };
    (time, silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(name: &str) -> wire::Comm {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }

    fn thread(state: u8) -> Thread {
        Thread {
            owner: 1 << 32 | 8,
            ts: 1600,
            birth: 1000,
            run: 300,
            rq_woken: 100,
            rq_preempted: 0,
            blocked: 200,
            switches: 4,
            block_start: if state == state::BLK { 1600 } else { 0 },
            wake_ts: 0,
            object: 0xf00,
            expected: 0,
            mark: 0,
            mark_p: 0,
            comm: comm("worker"),
            locks: [0; 4],
            lock_flags: [0; 4],
            parts: [wire::WaitPart::default(); 2],
            past: wire::PastWait::default(),
            behind: wire::Behind::default(),
            nr: 202,
            tgid: 7,
            op: 128,
            state,
            reason: wire::reason::FUTEX,
            role: 1,
            preempted: 0,
            holder: 0,
            depth: 0,
        }
    }

    fn harvest(threads: Vec<(u32, Thread)>) -> Harvest {
        Harvest { begin: 1000, end: 2000, threads, ..Harvest::default() }
    }

    #[test]
    fn every_open_state_closes_the_ledger() {
        for open in [state::RUN, state::RQ, state::BLK] {
            let sums = Sums::of(&harvest(vec![(8, thread(open))]));
            let group = &sums.groups[&(ThreadRole::Client, "worker".to_owned())];
            let states =
                [group.running, group.runnable_woken, group.runnable_preempted, group.blocked];
            assert_eq!(states.into_iter().sum::<Nanos>(), group.existed, "{open}");
            assert_eq!(group.existed, Nanos(1000));
            assert_eq!(group.schedstat_running, None, "no counts were given");
        }
    }

    #[test]
    fn an_open_wait_goes_to_its_key_without_counting() {
        let sums = Sums::of(&harvest(vec![(8, thread(state::BLK))]));
        let wait = sums.waits.values().next().unwrap();
        assert_eq!((wait.blocked, wait.count), (Nanos(400), 0));
        let reason = WaitReason::Futex { operation: 128, timed: false };
        assert_eq!((wait.key.reason, wait.key.object), (reason, 0xf00));
    }

    #[test]
    fn waits_that_a_thread_keeps_itself_are_added_to_those_of_all() {
        let mut one = thread(state::RUN);
        let sum =
            WaitSum { blocked: 200, count: 3, longest: 90, idle: 50, holders: [0, 1, 0, 2, 0] };
        let part = wire::WaitPart { object: 0xf00, nr: 202, op: 128, reason: 1, used: 1, sum };
        one.parts[1] = part;
        one.parts[0] = wire::WaitPart { used: 0, ..part };
        let mut harvest = harvest(vec![(8, one)]);
        harvest.waits.push((one.wait(), sum));
        let sums = Sums::of(&harvest);
        assert_eq!(sums.waits.len(), 1, "the thread's and the map's have one key");
        let wait = sums.waits.values().next().unwrap();
        assert_eq!((wait.blocked, wait.count, wait.longest), (Nanos(400), 6, Nanos(90)));
        assert_eq!(
            (wait.idle_charged, wait.holders.running, wait.holders.blocked),
            (Nanos(100), 2, 4)
        );
    }

    #[test]
    fn silent_threads_are_charged_the_window() {
        let key = WaitKey { reason: WaitReason::Poll, object: 0, object_name: None, syscall: 7 };
        let silent = Silent { tid: 9, name: "main".into(), client: false, wait: Some(key) };
        let mut harvest = harvest(vec![]);
        harvest.silent.push(silent);
        let sums = Sums::of(&harvest);
        let group = &sums.groups[&(ThreadRole::Other, "main".to_owned())];
        assert_eq!((group.blocked, group.existed), (Nanos(1000), Nanos(1000)));
        assert_eq!(sums.waits.values().next().unwrap().blocked, Nanos(1000));
    }

    #[test]
    fn a_futex_wait_is_kept_as_it_was_called() {
        let mut thread = thread(state::BLK);
        thread.op = 137 | wire::OP_TIMED;
        let reason = wait_key(&thread.wait(), &Objects::default()).reason;
        assert_eq!(reason, WaitReason::Futex { operation: 137, timed: true });
    }

    #[test]
    fn a_kernel_lock_recognised_by_its_address_is_named() {
        let mut thread = thread(state::BLK);
        thread.reason = wire::reason::KERNEL_LOCK;
        let name = |op| wait_key(&WaitId { op, ..thread.wait() }, &Objects::default()).object_name;
        assert_eq!(name(4 | wire::OP_INODE_RWSEM).as_deref(), Some("inode rwsem"));
        assert_eq!(name(2 | wire::OP_MMAP_LOCK).as_deref(), Some("mmap_lock"));
        assert_eq!(name(32 | wire::OP_FILE_POSITION).as_deref(), Some("file position mutex"));
        assert_eq!(name(4), None);
    }

    #[test]
    fn cores_add_up_and_silent_ones_are_counted() {
        let mut busy = Core { generation: 1000, ts: 1900, class: 1, ..Core::default() };
        busy.spent = [400, 500, 0, 0, 0, 0];
        busy.idle_scheduler = 50;
        let mut harvest = harvest(vec![]);
        harvest.cores = vec![busy, Core::default()];
        let (time, silent) = core_time(&harvest, Nanos(300));
        assert_eq!(silent, 1);
        assert_eq!(time.system, Nanos(600));
        assert_eq!(time.idle, Nanos(1400));
        assert_eq!(time.idle_uncharged, Nanos(1050));
        assert_eq!(time.system.0 + time.idle.0, time.total.0);
    }
}

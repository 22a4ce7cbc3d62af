//! The reference: sums of a window as `docs/method.md` says, "What is counted, event by event".
//!
//! Written from that text and not from the programs. First everything that was seen is noted,
//! thread by thread and core by core; sums are made of the notes when the window closes.

use super::account::Account;
use super::event::{CPUS, Call, Comm, Event, How, Lock, Sequence, What, renamed};
use super::purpose::{Held, Purpose, purpose};
use super::tally;
use super::wire::{WaitId, class};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread was seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Found on a core when the window opened.
    Found,
    Enters,
    Leaves(How),
    /// Put on a run queue.
    Queued,
    /// Put on a run queue for the first time in its life.
    Started,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Woken,
    Preempted,
    Blocked,
}

impl Seen {
    /// What a thread does from here on.
    pub(super) fn after(self) -> State {
        match self {
            Self::Found | Self::Enters => State::Running,
            Self::Queued | Self::Started => State::Woken,
            Self::Leaves(How::Blocked | How::Dead) => State::Blocked,
            Self::Leaves(How::Preempted | How::PreemptedLate | How::Yielded) => State::Preempted,
        }
    }

    /// What a thread has done until here, if this is the first that is seen of it.
    pub(super) fn before(self) -> State {
        match self {
            Self::Found | Self::Leaves(_) => State::Running,
            Self::Enters | Self::Started => State::Woken,
            Self::Queued => State::Blocked,
        }
    }
}

/// A wait of a thread.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub begin: u64,
    /// When it was put on a run queue.
    pub woken: Option<u64>,
    /// When it was over for the thread, and the end of the wait as it counts.
    pub over: Option<u64>,
    pub purpose: Purpose,
    /// The thread's name when it was over.
    pub comm: Comm,
    /// What the thread's waits were expected to last when this one began; 0 where that is not seen.
    pub expected: u64,
}

/// A thread of the system as far as it was seen in the window.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub tid: u32,
    pub client: bool,
    pub birth: u64,
    pub death: Option<u64>,
    pub comm: Comm,
    pub seen: Vec<(u64, Seen)>,
    pub waits: Vec<Wait>,
    pub held: Held,
    pub last: Purpose,
    pub expected: u64,
}

impl Life {
    pub(super) fn state(&self) -> State {
        self.seen.last().map_or(State::Running, |(_, seen)| seen.after())
    }

    /// The wait that is not over.
    fn pending(&mut self) -> Option<&mut Wait> {
        self.waits.last_mut().filter(|wait| wait.over.is_none())
    }

    /// The pending wait is over; without a wake-up it ends at `otherwise`.
    fn end_wait(&mut self, otherwise: u64) {
        let comm = self.comm;
        let Some(wait) = self.pending() else { return };
        let end = wait.woken.unwrap_or(otherwise);
        (wait.over, wait.comm) = (Some(end), comm);
        let length = end - wait.begin;
        self.expected = self.expected - self.expected / 4 + length / 4;
    }
}

/// A thread of the system got a core: what it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub at: u64,
    /// Its life, and its wait if it comes from one; none where it cannot be reported.
    pub life: Option<usize>,
    pub wait: Option<usize>,
    /// Since when nothing had been seen of it.
    pub since: u64,
    /// Whether the window was about the core by then.
    pub watched: bool,
    /// Place in what the core did.
    pub place: usize,
}

/// A core as far as it was seen in the window.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreNotes {
    /// What it did, from when on.
    pub doing: Vec<(u64, usize)>,
    pub arrivals: Vec<Arrival>,
    pub watched: bool,
}

impl CoreNotes {
    fn is_system(&self) -> bool {
        self.doing.last().is_some_and(|(_, class)| *class == class::SYSTEM)
    }
}

/// An open window.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub begin: u64,
    pub always_from: u64,
    pub own: u32,
    pub lives: Vec<Life>,
    pub cores: Vec<CoreNotes>,
    alive: BTreeMap<u32, usize>,
}

/// A wait by thread and begin, for the check of stacks.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub blocked: u64,
    pub finished: bool,
    pub probability: u64,
    pub id: WaitId,
}

pub(super) type Log = BTreeMap<(u32, u64), Logged>;

/// The machine as events change it, and the windows on it.
pub(super) struct Method<'a> {
    sequence: &'a Sequence,
    address: &'a dyn Fn(Lock) -> u64,
    pub(super) calls: Vec<(Call, bool)>,
    pub(super) words: [u32; 64],
    comms: Vec<Comm>,
    born: Vec<u64>,
    live: [u32; 16],
    current: [u8; CPUS],
    classes: BTreeMap<u32, usize>,
    clients: BTreeSet<u32>,
    window: Option<Notes>,
    missed: [u64; 3],
}

impl<'a> Method<'a> {
    pub(super) fn of(sequence: &'a Sequence, address: &'a dyn Fn(Lock) -> u64) -> Self {
        let none = Call { nr: -1, args: [0; 4] };
        Self {
            sequence,
            address,
            calls: vec![(none, false); sequence.tasks.len()],
            words: [0; 64],
            comms: sequence.tasks.iter().map(|task| task.comm).collect(),
            born: vec![0; sequence.tasks.len()],
            live: [1; 16],
            current: std::array::from_fn(|cpu| cpu as u8),
            classes: BTreeMap::new(),
            clients: BTreeSet::new(),
            window: None,
            missed: [0; 3],
        }
    }

    /// The accounts of all windows that close.
    pub(super) fn run(mut self) -> Vec<(Account, Log)> {
        let sequence = self.sequence;
        sequence.events.iter().filter_map(|event| self.happens(event)).collect()
    }

    fn happens(&mut self, event: &Event) -> Option<(Account, Log)> {
        match event.what {
            What::Call { task, call } => self.calls[usize::from(task)].0 = call,
            What::IoWait { task, on } => self.calls[usize::from(task)].1 = on,
            What::Rename { task, name } => self.comms[usize::from(task)] = renamed(name),
            What::Word { word, value } => self.words[usize::from(word)] = value,
            What::Live { process, count } => self.live[usize::from(process)] = count,
            What::Born(task) => self.born[usize::from(task)] = event.at,
            What::Target { tgid, class: 0 } => drop(self.classes.remove(&tgid)),
            What::Target { tgid, class } => drop(self.classes.insert(tgid, class as usize)),
            What::Client { tid, is: true } => drop(self.clients.insert(tid)),
            What::Client { tid, is: false } => drop(self.clients.remove(&tid)),
            What::Open { own, always_from } => {
                let cores = vec![CoreNotes::default(); CPUS];
                let begin = event.at;
                self.window = Some(Notes { begin, always_from, own, cores, ..Notes::default() });
            }
            What::Close => {
                let notes = self.window.take()?;
                return Some(tally::account(&notes, event.at, self.missed));
            }
            _ => {}
        }
        if event.seen {
            self.sees(event);
        }
        if let What::Switch { next, .. } = event.what {
            self.current[usize::from(event.cpu)] = next;
        }
        None
    }

    fn sees(&mut self, event: &Event) {
        if let What::Fork { parent, child } = event.what {
            self.sees_fork(parent, child);
        }
        let Some(mut notes) = self.window.take() else { return };
        let (at, cpu) = (event.at, usize::from(event.cpu));
        match event.what {
            What::Edge => self.sees_edge(&mut notes, cpu),
            What::Switch { prev, next, how } => {
                self.sees_switch(&mut notes, (at, cpu), prev, next, how);
            }
            What::Wakeup(task) => self.sees_wakeup(&mut notes, at, task, Seen::Queued),
            What::New(task) => self.sees_wakeup(&mut notes, at, task, Seen::Started),
            What::Lock { lock, flags } if flags & 1 == 0 => {
                let address = (self.address)(lock);
                if let Some(life) = self.on_core(&mut notes, cpu) {
                    life.held.begins(address, flags);
                }
            }
            What::Unlock(lock) => {
                let address = (self.address)(lock);
                if let Some(life) = self.on_core(&mut notes, cpu) {
                    self.missed[2] += life.held.ends(address);
                }
            }
            _ => {}
        }
        self.window = Some(notes);
    }

    fn sees_fork(&mut self, parent: u8, child: u8) {
        let tgid = |task: u8| self.sequence.tasks[usize::from(task)].tgid;
        if let Some(class) = self.classes.get(&tgid(parent)).copied() {
            self.classes.insert(tgid(child), class);
        }
    }

    /// What a core does that runs this task.
    fn class(&self, notes: &Notes, task: u8) -> usize {
        let task = &self.sequence.tasks[usize::from(task)];
        match task {
            _ if task.tid == 0 => class::IDLE,
            _ if task.kernel == 1 => class::KERNEL,
            _ => {
                let own = if task.tgid == notes.own { class::KNEEPOINT } else { class::OTHERS };
                self.classes.get(&task.tgid).copied().unwrap_or(own)
            }
        }
    }

    /// The life of a task of which something is seen, if it is of the system.
    fn life(&self, notes: &mut Notes, task: u8) -> Option<usize> {
        let number = usize::from(task);
        let tid = self.sequence.tasks[number].tid;
        if let Some(life) = notes.alive.get(&tid) {
            return Some(*life);
        }
        if self.class(notes, task) != class::SYSTEM {
            return None;
        }
        notes.alive.insert(tid, notes.lives.len());
        notes.lives.push(Life {
            tid,
            client: self.clients.contains(&tid),
            birth: self.born[number].max(notes.begin),
            death: None,
            comm: self.comms[number],
            seen: Vec::new(),
            waits: Vec::new(),
            held: Held::default(),
            last: Purpose::default(),
            expected: 1_000_000,
        });
        Some(notes.lives.len() - 1)
    }

    /// The thread of the system that is on this core, where both are known.
    fn on_core<'n>(&self, notes: &'n mut Notes, cpu: usize) -> Option<&'n mut Life> {
        let tid = self.sequence.tasks[usize::from(self.current[cpu])].tid;
        let life = *notes.alive.get(&tid)?;
        notes.cores[cpu].is_system().then(|| &mut notes.lives[life])
    }

    /// What a core was doing is what its first event shows.
    fn first_of_core(&self, notes: &mut Notes, cpu: usize, running: u8) {
        if notes.cores[cpu].doing.is_empty() {
            let doing = (notes.begin, self.class(notes, running));
            notes.cores[cpu].doing.push(doing);
        }
    }

    fn sees_edge(&mut self, notes: &mut Notes, cpu: usize) {
        let task = self.current[cpu];
        self.first_of_core(notes, cpu, task);
        notes.cores[cpu].watched = true;
        if !notes.cores[cpu].is_system() {
            return;
        }
        let Some(life) = self.life(notes, task) else {
            self.missed[1] += 1;
            return;
        };
        let life = &mut notes.lives[life];
        if life.seen.is_empty() {
            life.seen.push((life.birth, Seen::Found));
        }
    }

    fn sees_switch(
        &mut self,
        notes: &mut Notes,
        (at, cpu): (u64, usize),
        prev: u8,
        next: u8,
        how: How,
    ) {
        self.first_of_core(notes, cpu, prev);
        let gets = self.class(notes, next);
        if notes.cores[cpu].is_system() {
            match self.life(notes, prev) {
                Some(life) => self.leaves(notes, life, at, prev, how),
                None => self.missed[1] += 1,
            }
        }
        notes.cores[cpu].doing.push((at, gets));
        if gets == class::SYSTEM {
            // Its process may have left the system by this very switch.
            let life = self.life(notes, next);
            self.missed[1] += u64::from(life.is_none());
            self.enters(notes, life, at, cpu);
        }
    }

    fn leaves(&mut self, notes: &mut Notes, number: usize, at: u64, task: u8, how: How) {
        let life = &mut notes.lives[number];
        life.comm = self.comms[usize::from(task)];
        let was = life.seen.last().map(|(at, _)| *at);
        if was.is_some() && life.state() != State::Running {
            self.missed[1] += 1;
            let begin = life.pending().map_or(at, |wait| wait.begin);
            life.end_wait(begin);
        }
        life.seen.push((at, Seen::Leaves(how)));
        if how == How::Blocked {
            self.blocks(notes, number, at, task, true);
        }
        if how != How::Dead {
            return;
        }
        let life = &mut notes.lives[number];
        life.death = Some(at);
        notes.alive.remove(&life.tid);
        let task = &self.sequence.tasks[usize::from(task)];
        if self.live[task.process as usize] == 0 {
            self.classes.remove(&task.tgid);
        }
    }

    /// A wait begins; `seen` where its begin is.
    fn blocks(&self, notes: &mut Notes, number: usize, begin: u64, task: u8, seen: bool) {
        let (call, iowait) = self.calls[usize::from(task)];
        let state_of = |tid: u32| notes.alive.get(&tid).map(|life| notes.lives[*life].state());
        let process = self.sequence.tasks[usize::from(task)].process;
        let life = &notes.lives[number];
        let address = |lock| (self.address)(lock);
        let whose = (process as u8, &self.words, seen);
        let found = purpose(&call, iowait, &life.held, whose, &address, &state_of);
        let purpose = found.unwrap_or(Purpose { holder: 0, ..life.last });
        let life = &mut notes.lives[number];
        life.last = purpose;
        let expected = if seen { life.expected } else { 0 };
        let comm = life.comm;
        let wait = Wait { begin, woken: None, over: None, purpose, comm, expected };
        life.waits.push(wait);
    }

    fn sees_wakeup(&mut self, notes: &mut Notes, at: u64, task: u8, seen: Seen) {
        if self.class(notes, task) != class::SYSTEM {
            return;
        }
        let Some(number) = self.life(notes, task) else { return };
        let life = &notes.lives[number];
        let (first, state, birth) = (life.seen.is_empty(), life.state(), life.birth);
        if !first && state != State::Blocked {
            return;
        }
        // Who was put on a run queue before any other event had waited until then.
        if first && seen == Seen::Queued {
            self.blocks(notes, number, birth, task, false);
        }
        let life = &mut notes.lives[number];
        if let Some(wait) = life.pending() {
            wait.woken = Some(at);
        }
        // A new thread is runnable from its birth on.
        let new = first && seen == Seen::Started;
        life.seen.push((if new { birth } else { at }, seen));
    }

    fn enters(&mut self, notes: &mut Notes, number: Option<usize>, at: u64, cpu: usize) {
        let watched = notes.cores[cpu].watched;
        let place = notes.cores[cpu].doing.len() - 1;
        let mut arrival = Arrival { at, life: number, wait: None, since: at, watched, place };
        if let Some(number) = number {
            let life = &mut notes.lives[number];
            let last = life.seen.last().copied();
            arrival.since = last.map_or(life.birth, |(at, _)| at);
            let wait = life.waits.len().wrapping_sub(1);
            arrival.wait = life.pending().map(|_| wait);
            match last.map(|(_, seen)| seen.after()) {
                Some(State::Blocked) => self.missed[0] += 1,
                Some(State::Running) => self.missed[1] += 1,
                _ => {}
            }
            life.end_wait(at);
            life.seen.push((at, Seen::Enters));
        }
        notes.cores[cpu].arrivals.push(arrival);
    }
}

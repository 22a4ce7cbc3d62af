//! A machine drawn by chance: its scheduler emits events as the kernel does, and where the sequence
//! is not legal some of them are not seen.

use super::event::{CPUS, Call, Event, How, Lock, Sequence, Task, What, comm};
use super::wire::class;

/// Random numbers: SplitMix64 (Steele, Lea and Flood 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in so many of a hundred.
    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Queued,
    Running,
    Blocked,
    Dead,
}

/// Processes: of whom the class may change with each window; later ones are born by forks.
const FIRST: u32 = 6;
const ALL: u32 = 12;
/// That of the kernel's threads.
const KERNEL: u32 = 14;
const OWN: u32 = 4;

/// The machine.
struct World {
    random: Random,
    at: u64,
    cpus: usize,
    tasks: Vec<Task>,
    state: Vec<State>,
    /// Kernel locks that a task waits for and has not got yet, the last one first.
    locks: Vec<Vec<Lock>>,
    iowait: Vec<bool>,
    /// Past the point where a process counts it as living.
    ending: Vec<bool>,
    live: [u32; 16],
    current: [u8; CPUS],
    queue: Vec<u8>,
    events: Vec<Event>,
    lossy: bool,
    edges: Vec<u8>,
    window: Option<usize>,
}

/// A sequence of about so many events.
pub(super) fn sequence(seed: u64, length: usize) -> Sequence {
    let mut random = Random::of(seed);
    let lossy = random.percent(40);
    let mut world = World::of(random, lossy);
    world.settle();
    while world.events.len() < length || world.window.is_some() {
        world.step();
        if world.events.len() > 2 * length {
            world.close();
        }
    }
    let World { tasks, events, .. } = world;
    Sequence { seed, tasks, events, legal: !lossy }
}

fn tasks(random: &mut Random) -> Vec<Task> {
    let idle = |_| Task { tid: 0, tgid: 0, process: 15, kernel: 0, comm: comm("swapper") };
    let mut tasks: Vec<Task> = (0..CPUS).map(idle).collect();
    for process in 1..=ALL {
        let tgid = 100 * process;
        for number in 0..=random.below(4) as u32 {
            // Some threads share the first place of another in the map.
            let far = if random.percent(15) { 32768 * (1 + random.below(3) as u32) } else { 0 };
            let shift =
                if far > 0 && number > 0 { far - 100 * (random.below(3) as u32) } else { 0 };
            let mut tid = if number == 0 { tgid } else { tgid + number + shift };
            if tasks.iter().any(|other| other.tid == tid) {
                tid = tgid + number;
            }
            let name = format!("p{process}-{}", number % 2);
            tasks.push(Task { tid, tgid, process, kernel: 0, comm: comm(&name) });
        }
    }
    for number in 0..3 {
        let tid = 10 + number;
        tasks.push(Task { tid, tgid: tid, process: KERNEL, kernel: 1, comm: comm("kworker") });
    }
    tasks
}

impl World {
    fn of(mut random: Random, lossy: bool) -> Self {
        let tasks = tasks(&mut random);
        let count = tasks.len();
        Self {
            at: 1_000_000 + random.below(1_000_000),
            cpus: 1 + random.below(CPUS as u64) as usize,
            random,
            state: vec![State::Unborn; count],
            locks: vec![Vec::new(); count],
            iowait: vec![false; count],
            ending: vec![false; count],
            tasks,
            live: [0; 16],
            current: std::array::from_fn(|cpu| cpu as u8),
            queue: Vec::new(),
            events: Vec::new(),
            lossy,
            edges: Vec::new(),
            window: None,
        }
    }

    /// Who is there before the first window.
    fn settle(&mut self) {
        for task in CPUS..self.tasks.len() {
            let Task { process, tid, tgid, .. } = self.tasks[task];
            if process < FIRST && (tid == tgid || self.random.percent(60)) || process == KERNEL {
                self.born(task as u8);
                self.state[task] = State::Blocked;
                if self.random.percent(50) {
                    self.state[task] = State::Queued;
                    self.queue.push(task as u8);
                }
            }
        }
    }

    fn put(&mut self, cpu: usize, what: What) {
        let losable = !matches!(what, What::Open { .. } | What::Close);
        let seen = !(self.lossy && losable && self.random.percent(4));
        self.events.push(Event { at: self.at, cpu: cpu as u8, seen, what });
    }

    fn born(&mut self, task: u8) {
        let process = self.tasks[usize::from(task)].process;
        self.live[process as usize] += 1;
        let count = self.live[process as usize];
        self.put(0, What::Born(task));
        self.put(0, What::Live { process: process as u8, count });
    }

    fn step(&mut self) {
        self.at += match self.random.below(10) {
            0 => 0,
            1..=4 => self.random.below(100),
            5..=8 => self.random.below(20_000),
            _ => self.random.below(5_000_000),
        };
        match self.window {
            None if self.random.percent(8) => return self.open(),
            Some(since) if self.events.len() - since > 40 && self.random.percent(2) => {
                return self.close();
            }
            _ => {}
        }
        if self.random.percent(50)
            && let Some(cpu) = self.edges.pop()
        {
            return self.put(usize::from(cpu), What::Edge);
        }
        let cpu = self.random.below(self.cpus as u64) as usize;
        let task = self.current[cpu];
        if usize::from(task) < CPUS {
            self.step_idle(cpu);
        } else {
            self.step_busy(cpu, task);
        }
    }

    /// Classes and client threads are set anew for each window.
    fn open(&mut self) {
        for process in 1..=ALL {
            let tgid = 100 * process;
            let class = match self.random.below(10) {
                0..=4 => class::SYSTEM,
                5 => class::GENERATOR,
                _ => 0,
            };
            let alive = self.live[process as usize] > 0;
            let class = if alive { class as u32 } else { 0 };
            self.put(0, What::Target { tgid, class });
        }
        for task in CPUS..self.tasks.len() {
            let is = self.random.percent(40);
            self.put(0, What::Client { tid: self.tasks[task].tid, is });
        }
        let always_from = self.random.pick(&[0, 0, 1, 100_000, 3_000_000]);
        self.put(0, What::Open { own: 100 * OWN, always_from });
        self.window = Some(self.events.len());
        self.edges = (0..CPUS as u8).filter(|_| self.random.percent(90)).collect();
    }

    fn close(&mut self) {
        self.put(0, What::Close);
        self.window = None;
        self.edges.clear();
    }

    fn step_idle(&mut self, cpu: usize) {
        if self.random.percent(60) && !self.queue.is_empty() {
            let idle = self.current[cpu];
            return self.switch(cpu, idle, How::Yielded);
        }
        self.wake_one(cpu);
    }

    fn step_busy(&mut self, cpu: usize, task: u8) {
        let number = usize::from(task);
        if self.iowait[number] {
            self.iowait[number] = false;
            self.put(cpu, What::IoWait { task, on: false });
        }
        if let Some(lock) = self.locks[number].pop() {
            if self.random.percent(25) {
                self.locks[number].push(lock);
                self.at += 1;
                return self.switch(cpu, task, How::Blocked);
            }
            return self.put(cpu, What::Unlock(lock));
        }
        if self.ending[number] && self.random.percent(60) {
            return self.switch(cpu, task, How::Dead);
        }
        match self.random.below(100) {
            0..=27 => self.block(cpu, task),
            28..=39 if !self.queue.is_empty() => {
                let how = self.random.pick(&[How::Preempted, How::Preempted, How::PreemptedLate]);
                self.switch(cpu, task, how);
            }
            40..=43 if !self.queue.is_empty() => self.switch(cpu, task, How::Yielded),
            44..=66 => self.wake_one(cpu),
            67..=70 => self.wake_in_vain(cpu),
            71..=75 if self.tasks[number].kernel == 0 => self.fork(cpu, task),
            76..=79 if self.tasks[number].kernel == 0 && !self.ending[number] => {
                self.ends(cpu, task);
            }
            80 => {
                let name = self.random.below(4) as u8;
                self.put(cpu, What::Rename { task, name });
            }
            81..=84 => {
                let (lock, flags) = (self.lock(task), self.random.pick(&[1, 2, 34]));
                self.put(cpu, What::Lock { lock, flags });
                self.put(cpu, What::Unlock(lock));
            }
            85..=90 => {
                let word = self.random.below(64) as u8;
                let tid = self.tasks[self.random.below(self.tasks.len() as u64) as usize].tid;
                let value = match self.random.below(5) {
                    0 => 0,
                    1 => self.random.below(10) as u32,
                    2 => u32::MAX - 3,
                    // Somebody waits for it.
                    3 => tid | 1 << 31,
                    _ => tid,
                };
                self.put(cpu, What::Word { word, value });
            }
            _ => self.put(cpu, What::Tick),
        }
    }

    fn lock(&mut self, task: u8) -> Lock {
        let number = self.random.below(6) as u8;
        let process = self.tasks[usize::from(task)].process as u8;
        let near = [Lock::Memory(process), Lock::Inode(number), Lock::Position(number)];
        let far = [Lock::Other(number), Lock::Memory(number)];
        if self.random.percent(70) { self.random.pick(&near) } else { self.random.pick(&far) }
    }

    fn block(&mut self, cpu: usize, task: u8) {
        self.at += 1;
        if self.random.percent(80) {
            let call = self.call();
            self.put(cpu, What::Call { task, call });
        }
        if self.random.percent(20) {
            for _ in 0..=self.random.below(2) {
                let (lock, flags) = (self.lock(task), self.random.pick(&[2, 4, 36]));
                self.locks[usize::from(task)].push(lock);
                self.put(cpu, What::Lock { lock, flags });
            }
        } else if self.random.percent(15) {
            self.iowait[usize::from(task)] = true;
            self.put(cpu, What::IoWait { task, on: true });
        }
        self.switch(cpu, task, How::Blocked);
    }

    fn call(&mut self) -> Call {
        let word = |random: &mut Random| match random.below(12) {
            0 => 0,
            1 => 0x10000 + 256,
            _ => 0x10000 + 4 * random.below(64),
        };
        let nr = match self.random.below(10) {
            0..=3 => 202,
            4 => self.random.pick(&[7, 271]),
            5 => self.random.pick(&[-1, 219, 455, 449]),
            6 => self.random.pick(&[0, 1, 17, 20, 326, 328, 74, 8]),
            _ => self.random.below(470) as i32,
        };
        let first = match nr {
            202 | 7 | 271 | 455 => word(&mut self.random),
            _ => self.random.below(10),
        };
        let second = if nr == 202 {
            self.random.pick(&[0, 128, 9, 137, 393, 6, 134, 1, 129])
        } else {
            self.random.below(3)
        };
        let third = self.random.below(10);
        let fourth = if self.random.percent(30) { 0x7fff_0000 } else { 0 };
        Call { nr, args: [first, second, third, fourth] }
    }

    /// The core goes from `prev` to the next in the queue, or to idling.
    fn switch(&mut self, cpu: usize, prev: u8, how: How) {
        let next = if self.queue.is_empty() || (how == How::Blocked && self.random.percent(30)) {
            cpu as u8
        } else {
            let place = self.random.below(self.queue.len() as u64) as usize;
            self.queue.swap_remove(place)
        };
        self.put(cpu, What::Switch { prev, next, how });
        if usize::from(prev) >= CPUS {
            self.state[usize::from(prev)] = match how {
                How::Blocked => State::Blocked,
                How::Dead => State::Dead,
                _ => State::Queued,
            };
            if !matches!(how, How::Blocked | How::Dead) {
                self.queue.push(prev);
            }
        }
        if usize::from(next) >= CPUS {
            self.state[usize::from(next)] = State::Running;
        }
        self.current[cpu] = next;
    }

    fn of_state(&mut self, wanted: impl Fn(State) -> bool) -> Option<u8> {
        let all: Vec<u8> = (CPUS..self.tasks.len())
            .filter(|task| wanted(self.state[*task]))
            .map(|task| task as u8)
            .collect();
        (!all.is_empty()).then(|| self.random.pick(&all))
    }

    fn wake_one(&mut self, cpu: usize) {
        let Some(task) = self.of_state(|state| state == State::Blocked) else { return };
        self.put(cpu, What::Waking(task));
        self.at += self.random.below(200);
        let on = self.random.below(self.cpus as u64) as usize;
        self.put(on, What::Wakeup(task));
        self.state[usize::from(task)] = State::Queued;
        self.queue.push(task);
    }

    /// The kernel also tells wake-ups of those that do not sleep.
    fn wake_in_vain(&mut self, cpu: usize) {
        let awake = |state| matches!(state, State::Running | State::Queued);
        let Some(task) = self.of_state(awake) else { return };
        self.put(cpu, What::Waking(task));
        self.put(cpu, What::Wakeup(task));
    }

    fn fork(&mut self, cpu: usize, parent: u8) {
        if self.ending[usize::from(parent)] {
            return;
        }
        let process = self.tasks[usize::from(parent)].process;
        let (live, tasks) = (self.live, self.tasks.clone());
        let mut can: Vec<u8> = Vec::new();
        for (number, task) in tasks.iter().enumerate().skip(CPUS) {
            // Numbers are given again once nobody bears them.
            let free = |number: usize| matches!(self.state[number], State::Unborn | State::Dead);
            let of = |other: &Task| other.process == task.process;
            let gone = || (CPUS..tasks.len()).all(|other| free(other) || !of(&tasks[other]));
            let sibling = task.process == process && task.tid != task.tgid;
            let begins = task.tid == task.tgid && live[task.process as usize] == 0 && gone();
            if free(number) && task.kernel == 0 && (sibling || begins) {
                can.push(number as u8);
            }
        }
        if can.is_empty() {
            return;
        }
        let child = self.random.pick(&can);
        self.ending[usize::from(child)] = false;
        self.locks[usize::from(child)].clear();
        self.born(child);
        self.put(cpu, What::Fork { parent, child });
        self.at += self.random.below(2_000);
        self.put(cpu, What::New(child));
        self.state[usize::from(child)] = State::Queued;
        self.queue.push(child);
    }

    fn ends(&mut self, cpu: usize, task: u8) {
        self.ending[usize::from(task)] = true;
        let process = self.tasks[usize::from(task)].process;
        let live = &mut self.live[process as usize];
        *live -= 1;
        let count = *live;
        self.put(cpu, What::Live { process: process as u8, count });
        if self.random.percent(60) {
            self.switch(cpu, task, How::Dead);
        }
    }
}

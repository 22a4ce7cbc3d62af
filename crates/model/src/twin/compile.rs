//! From a twin file to what is simulated: names become numbers, nested steps become jumps.

use super::file::{Class, Clients, Count, LockType, Preference, Priority, QueueKind, Step, Twin};
use super::place::TwinError;
use super::quantity::{Length, Quantity};
use crate::sim::{
    BusSpec, ChannelSpec, ClassSpec, Compiled, DeviceSpec, Law, LockKind, LockSpec, Op,
    SchedulerSpec, SemaphoreSpec, SourceSpec, Ticks, ticks,
};
use std::collections::BTreeMap;
use toml::Spanned;

/// The level to simulate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Clients; 1 if absent.
    pub clients: Option<u32>,
    /// Cores; those of the file if absent.
    pub cores: Option<u32>,
}

/// What a simulation will need, estimated before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// Events for one operation, those of all threads that work for it included.
    pub events_per_operation: f64,
    /// Bytes of memory.
    pub memory: u64,
}

/// Most threads, cores or copies.
const MOST: u32 = 1 << 20;
/// Loops within loops.
const DEEPEST: u32 = 4;
/// Bytes of one simulated thread, its timer included.
const THREAD: u64 = 400;

struct Builder<'a> {
    twin: &'a Twin,
    ops: Vec<Op>,
    laws: Vec<Law>,
    locks: BTreeMap<&'a str, (u32, u32)>,
    devices: BTreeMap<&'a str, (u32, u32)>,
    timed: bool,
    /// What CPU work costs at the level, relative to what the programs say.
    crowding: f64,
}

type Place = std::ops::Range<usize>;

impl Twin {
    /// What to simulate at a level.
    ///
    /// # Errors
    /// The first mistake, with its line and column.
    pub fn compile(&self, wanted: Wanted) -> Result<Compiled, TwinError> {
        let mut builder = Builder::new(self);
        let cores = wanted.cores.unwrap_or(self.cores.count);
        builder.check_numbers(cores)?;
        builder.crowding = self.cores.crowded(wanted.clients.unwrap_or(1), cores);
        let mut classes = Vec::new();
        for class in &self.thread {
            classes.push(builder.class(class, wanted.clients.unwrap_or(1), cores)?);
        }
        let mut sources = Vec::new();
        for (name, source) in &self.source {
            let gap = builder.law(&source.every, source.cv);
            let channel = builder.channel(&source.to)?;
            sources.push(SourceSpec { name: name.clone(), channel, gap });
        }
        if classes.iter().all(|class| !class.client) && sources.is_empty() {
            return Err(self.wrong(None, "no thread and no source runs operations"));
        }
        Ok(Compiled {
            name: self.name.clone(),
            cores,
            ways: self.cores.ways,
            shared_speed: self.cores.shared_speed,
            crowding: builder.crowding,
            speed: self.cores.speed,
            scheduler: self.scheduler_spec(),
            ops: builder.ops,
            laws: builder.laws,
            locks: self.lock_specs(),
            devices: self.device_specs(),
            channels: (self.channel.iter())
                .map(|(name, it)| ChannelSpec {
                    name: name.clone(),
                    capacity: it.capacity.unwrap_or(u32::MAX),
                })
                .collect(),
            semaphores: (self.semaphore.iter())
                .map(|(name, it)| SemaphoreSpec { name: name.clone(), units: it.units })
                .collect(),
            buses: (self.bus.iter())
                .map(|(name, it)| BusSpec {
                    name: name.clone(),
                    total: it.bytes_per_second,
                    each: it.each.unwrap_or(it.bytes_per_second),
                })
                .collect(),
            sources,
            classes,
        })
    }

    /// What simulating a level needs, before it is tried.
    #[must_use]
    pub fn estimate(&self, wanted: Wanted) -> Estimated {
        let count = |class: &Class| class.threads(wanted.clients.unwrap_or(1), self.cores.count);
        let events =
            |class: &Class| class.program.iter().map(|it| it.get_ref().events()).sum::<f64>();
        let clients = self.thread.iter().filter(|class| !class.worker);
        let own = clients.map(events).fold(0.0, f64::max);
        let workers = self.thread.iter().filter(|class| class.worker).map(events).sum::<f64>();
        let threads: u64 = self.thread.iter().map(|class| u64::from(count(class))).sum();
        Estimated {
            events_per_operation: own + workers + 1.0,
            memory: threads * THREAD + u64::from(wanted.cores.unwrap_or(self.cores.count)) * 128,
        }
    }

    /// The name in the file of a simulated object: that of all copies, where there are some.
    #[must_use]
    pub fn object<'n>(&self, name: &'n str) -> &'n str {
        let Some((base, number)) = name.rsplit_once(' ') else { return name };
        let copies = self.lock.get(base).map(|it| it.copies);
        let copies = copies.or_else(|| self.device.get(base).map(|it| it.copies)).unwrap_or(1);
        if copies > 1 && number.parse::<u32>().is_ok() { base } else { name }
    }

    pub(super) fn wrong(&self, place: Option<Place>, message: impl Into<String>) -> TwinError {
        TwinError::at(&self.text, place, message)
    }

    fn scheduler_spec(&self) -> SchedulerSpec {
        let own = &self.scheduler;
        let length = |quantity: &Quantity| ticks(quantity.value.0);
        let forever = |quantity: &Option<Quantity>| quantity.as_ref().map_or(Ticks::MAX, length);
        SchedulerSpec {
            per_core: own.queue == QueueKind::PerCore,
            slice: forever(&own.slice),
            switch: length(&own.switch),
            migrate: length(&own.migrate),
            idle_wake: length(&own.idle_wake),
            wake: length(&own.wake),
            placement: own.wake_to.into(),
            steal_after: forever(&own.steal_after),
            queue_lock: length(&own.queue_lock),
        }
    }

    fn lock_specs(&self) -> Vec<LockSpec> {
        let mut all = Vec::new();
        for (name, lock) in &self.lock {
            let limit = lock.spin.as_ref().map(|spin| ticks(spin.value.0));
            let kind = match lock.kind {
                LockType::TestAndSet => LockKind::TestAndSet,
                LockType::Ticket => LockKind::Ticket,
                LockType::Mcs => LockKind::Mcs,
                LockType::Fifo => LockKind::Fifo,
                LockType::Futex => LockKind::Futex,
                LockType::Adaptive => LockKind::Adaptive,
                LockType::ReadWrite => {
                    LockKind::ReadWrite(lock.prefer.unwrap_or(Preference::Fifo).into())
                }
                LockType::Flag => LockKind::Flag,
            };
            let unlimited = if kind == LockKind::Adaptive { Ticks::MAX } else { 0 };
            for copy in 0..lock.copies {
                all.push(LockSpec {
                    name: numbered(name, copy, lock.copies),
                    kind,
                    transfer: ticks(lock.transfer.value.0),
                    per_spinner: ticks(lock.per_spinner.value.0),
                    look: ticks(lock.look.value.0),
                    spin: limit.unwrap_or(unlimited),
                    recursive: lock.recursive,
                    dropped_asleep: lock.dropped_asleep,
                });
            }
        }
        all
    }

    fn device_specs(&self) -> Vec<DeviceSpec> {
        let mut all = Vec::new();
        for (name, device) in &self.device {
            for copy in 0..device.copies {
                let name = numbered(name, copy, device.copies);
                all.push(DeviceSpec { name, servers: device.servers });
            }
        }
        all
    }
}

fn numbered(name: &str, copy: u32, copies: u32) -> String {
    if copies > 1 { format!("{name} {}", copy + 1) } else { name.to_owned() }
}

impl Class {
    fn threads(&self, clients: u32, cores: u32) -> u32 {
        match self.count {
            Count::Fixed(count) => count,
            Count::Level(Clients::Clients) => clients,
            Count::Level(Clients::Cores) => cores,
        }
    }
}

impl Step {
    /// Events of the step, without those that contention adds.
    fn events(&self) -> f64 {
        let inner = || self.steps.iter().flatten().map(|it| it.get_ref().events()).sum::<f64>();
        if let Some(rounds) = self.repeat {
            return f64::from(rounds) * inner();
        }
        let chance = self.chance.unwrap_or(1.0);
        1.0 + chance * inner()
    }
}

impl<'a> Builder<'a> {
    fn new(twin: &'a Twin) -> Self {
        let mut builder = Self {
            twin,
            ops: Vec::new(),
            laws: Vec::new(),
            locks: BTreeMap::new(),
            devices: BTreeMap::new(),
            timed: false,
            crowding: 1.0,
        };
        let mut first = 0;
        for (name, lock) in &twin.lock {
            builder.locks.insert(name, (first, lock.copies));
            first += lock.copies.min(MOST);
        }
        first = 0;
        for (name, device) in &twin.device {
            builder.devices.insert(name, (first, device.copies));
            first += device.copies.min(MOST);
        }
        builder
    }

    fn check_numbers(&self, cores: u32) -> Result<(), TwinError> {
        let twin = self.twin;
        let check = |fine: bool, what: &str| {
            if fine { Ok(()) } else { Err(twin.wrong(None, what)) }
        };
        check((1..=MOST).contains(&cores), "[cores] count lies between 1 and 2^20")?;
        check((1..=2).contains(&twin.cores.ways), "[cores] ways is 1 or 2")?;
        check(positive(twin.cores.speed), "[cores] speed is above 0")?;
        let shared = twin.cores.shared_speed;
        check(shared > 0.0 && shared <= 1.0, "[cores] shared_speed lies above 0, to 1")?;
        let ascending = twin.cores.crowding.windows(2).all(|two| two[0].clients < two[1].clients);
        let sound =
            twin.cores.crowding.iter().all(|it| positive(it.clients) && positive(it.factor));
        check(ascending && sound, "[cores] crowding has ascending clients and factors above 0")?;
        let fine = twin.cores.contended.is_none_or(|it| {
            positive(it.part) && (it.moved || it.part <= 1.0) && (1..=MOST).contains(&it.cores)
        });
        let what = "[cores] contended has a part above 0, to 1 unless it is moved, and cores";
        check(fine, what)?;
        for (name, lock) in &twin.lock {
            let what = format!("[lock.{name}] copies lies between 1 and 2^20");
            check((1..=MOST).contains(&lock.copies), &what)?;
            let what = format!("[lock.{name}] prefer belongs to read-write locks");
            check(lock.prefer.is_none() || lock.kind == LockType::ReadWrite, &what)?;
            let spins = matches!(lock.kind, LockType::Futex | LockType::Adaptive);
            let what = format!("[lock.{name}] spin belongs to futex and adaptive locks");
            check(lock.spin.is_none() || spins, &what)?;
        }
        for (name, device) in &twin.device {
            let fine = (1..=MOST).contains(&device.copies) && (1..=MOST).contains(&device.servers);
            check(fine, &format!("[device.{name}] servers and copies lie between 1 and 2^20"))?;
            check(varies(device.cv), &format!("[device.{name}] cv lies between 0 and 100"))?;
        }
        for (name, bus) in &twin.bus {
            let fine = positive(bus.bytes_per_second) && bus.each.is_none_or(positive);
            check(fine, &format!("[bus.{name}] bytes_per_second and each are above 0"))?;
        }
        for (name, source) in &twin.source {
            let fine = source.every.value.0 > 0.0 && varies(source.cv);
            check(fine, &format!("[source.{name}] every is above 0, cv between 0 and 100"))?;
        }
        Ok(())
    }

    fn class(&mut self, class: &Class, clients: u32, cores: u32) -> Result<ClassSpec, TwinError> {
        let twin = self.twin;
        let place = class.program.first().map(|step| step.span());
        let wrong = |what: String| Err(twin.wrong(place.clone(), what));
        let count = class.threads(clients, cores);
        if count > MOST {
            return wrong(format!("thread {}: at most 2^20 threads", class.name));
        }
        if let Some(core) = class.core.filter(|core| *core >= cores) {
            return wrong(format!("thread {}: there is no core {core} of {cores}", class.name));
        }
        let entry = index(self.ops.len());
        self.timed = false;
        self.steps(&class.program, 0)?;
        self.ops.push(Op::End);
        if !self.timed {
            return wrong(format!("thread {}: no step of its program takes time", class.name));
        }
        let priority = match class.priority {
            Priority::Interrupt => 0,
            Priority::Normal => 1,
            Priority::Background => 2,
        };
        let client = !class.worker;
        let name = class.name.clone();
        Ok(ClassSpec { name, count, entry, client, priority, pinned: class.core })
    }

    fn steps(&mut self, steps: &[Spanned<Step>], depth: u32) -> Result<(), TwinError> {
        steps.iter().try_for_each(|step| self.step(step, depth))
    }

    fn step(&mut self, step: &Spanned<Step>, depth: u32) -> Result<(), TwinError> {
        let (place, own) = (step.span(), step.get_ref());
        self.check_step(own, &place, depth)?;
        let cv = own.cv.unwrap_or(0.0);
        let inner = own.steps.as_deref().unwrap_or_default();
        if let Some(length) = own.run.as_ref().or(own.think.as_ref()) {
            self.timed |= length.value > Length(0.0);
            let crowding = if own.run.is_some() { self.crowding } else { 1.0 };
            self.laws.push(Law::of(crowding * length.value.0, cv));
            let law = index(self.laws.len() - 1);
            self.ops.push(if own.run.is_some() { Op::Run(law) } else { Op::Think(law) });
        } else if let Some(name) = &own.hold {
            let (lock, copies) =
                self.named(name, "lock", |it| it.locks.get(name.get_ref().as_str()))?;
            self.ops.push(Op::Lock { lock, copies, shared: own.shared });
            self.steps(inner, depth)?;
            self.ops.push(Op::Unlock { lock, copies });
        } else if let Some(name) = own.io.as_ref().or(own.start.as_ref()) {
            self.device_step(own, name)?;
        } else if let Some(rounds) = own.repeat {
            self.ops.push(Op::Repeat { rounds, slot: depth });
            let target = index(self.ops.len());
            self.steps(inner, depth + 1)?;
            self.ops.push(Op::Again { slot: depth, target });
        } else if let Some(chance) = own.chance {
            let at = self.ops.len();
            self.ops.push(Op::End);
            self.steps(inner, depth)?;
            let otherwise = index(self.ops.len());
            #[allow(clippy::cast_possible_truncation, reason = "a probability")]
            let probability = chance as f32;
            self.ops[at] = Op::Chance { probability, otherwise };
        } else if let Some(name) = &own.within {
            let semaphore = self.position(name, "semaphore", |it| it.semaphore.keys().collect())?;
            self.ops.push(Op::Acquire(semaphore));
            self.steps(inner, depth)?;
            self.ops.push(Op::Give(semaphore));
        } else if let Some(name) = &own.move_over {
            let bus = self.position(name, "bus", |it| it.bus.keys().collect())?;
            let bytes = own.bytes.unwrap_or(0);
            self.timed |= bytes > 0;
            self.ops.push(Op::Move { bus, bytes });
        } else {
            self.channel_step(own)?;
        }
        Ok(())
    }

    fn device_step(&mut self, own: &Step, name: &Spanned<String>) -> Result<(), TwinError> {
        let (device, copies) =
            self.named(name, "device", |it| it.devices.get(name.get_ref().as_str()))?;
        let spec = &self.twin.device[name.get_ref()];
        let law = self.law(
            own.service_time.as_ref().unwrap_or(&spec.service_time),
            own.cv.unwrap_or(spec.cv),
        );
        self.timed = true;
        if own.io.is_some() {
            self.ops.push(Op::Device { device, copies, law });
        } else if let Some(then) = &own.then {
            let then = self.channel(then)?;
            self.ops.push(Op::Start { device, law, then });
        }
        Ok(())
    }

    fn channel_step(&mut self, own: &Step) -> Result<(), TwinError> {
        if let Some(name) = &own.put {
            let channel = self.channel(name)?;
            self.ops.push(Op::Put(channel));
        } else if let Some(name) = &own.take {
            let channel = self.channel(name)?;
            self.ops.push(Op::Take(channel));
            self.timed = true;
        } else if let Some(name) = &own.call {
            let channel = self.channel(name)?;
            self.ops.push(Op::Call(channel));
            self.timed = true;
        } else {
            self.ops.push(Op::Reply);
        }
        Ok(())
    }

    /// A step has one verb, and only what belongs to that.
    fn check_step(&self, own: &Step, place: &Place, depth: u32) -> Result<(), TwinError> {
        let verbs = own.verbs();
        let wrong = |what: String| Err(self.twin.wrong(Some(place.clone()), what));
        let [verb] = verbs[..] else {
            let found = if verbs.is_empty() { "none".to_owned() } else { verbs.join(" and ") };
            return wrong(format!(
                "a step has one of run, think, hold, io, start, repeat, chance, put, take, call, \
                 reply, within, move; this one has {found}"
            ));
        };
        let nests = ["hold", "repeat", "chance", "within"].contains(&verb);
        if nests != own.steps.is_some() {
            let how = if nests { "needs steps" } else { "has no steps" };
            return wrong(format!("{verb} {how}"));
        }
        let stray = [
            ("shared", own.shared && verb != "hold"),
            ("time", own.service_time.is_some() && !["io", "start"].contains(&verb)),
            ("cv", own.cv.is_some() && !["run", "think", "io", "start"].contains(&verb)),
            ("then", own.then.is_some() && verb != "start"),
            ("bytes", own.bytes.is_some() && verb != "move"),
        ];
        if let Some((name, _)) = stray.iter().find(|(_, stray)| *stray) {
            return wrong(format!("{name} does not belong to {verb}"));
        }
        if verb == "start" && own.then.is_none() {
            return wrong("start needs then, the channel that the item goes to".to_owned());
        }
        if own.chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return wrong("chance lies between 0 and 1".to_owned());
        }
        if own.cv.is_some_and(|cv| !varies(cv)) {
            return wrong("cv lies between 0 and 100".to_owned());
        }
        if own.repeat == Some(0) {
            return wrong("repeat is at least 1".to_owned());
        }
        if own.repeat.is_some() && depth >= DEEPEST {
            return wrong(format!("at most {DEEPEST} repeats within each other"));
        }
        if own.reply == Some(false) {
            return wrong("reply is true, or the step is left out".to_owned());
        }
        if let Some(name) = &own.hold {
            let lock = self.twin.lock.get(name.get_ref());
            if own.shared && lock.is_some_and(|lock| lock.kind != LockType::ReadWrite) {
                return wrong(format!("only a read-write lock is held shared, {} is not", {
                    name.get_ref()
                }));
            }
        }
        Ok(())
    }

    fn law(&mut self, length: &Quantity, cv: f64) -> u32 {
        self.laws.push(Law::of(length.value.0, cv));
        index(self.laws.len() - 1)
    }

    fn named<'b>(
        &'b self,
        name: &Spanned<String>,
        what: &str,
        find: impl FnOnce(&'b Self) -> Option<&'b (u32, u32)>,
    ) -> Result<(u32, u32), TwinError> {
        find(self).copied().ok_or_else(|| self.unknown(name, what))
    }

    fn position(
        &self,
        name: &Spanned<String>,
        what: &str,
        names: impl FnOnce(&'a Twin) -> Vec<&'a String>,
    ) -> Result<u32, TwinError> {
        let names = names(self.twin);
        let found = names.iter().position(|own| *own == name.get_ref());
        found.map(index).ok_or_else(|| self.unknown(name, what))
    }

    fn channel(&self, name: &Spanned<String>) -> Result<u32, TwinError> {
        self.position(name, "channel", |twin| twin.channel.keys().collect())
    }

    fn unknown(&self, name: &Spanned<String>, what: &str) -> TwinError {
        let said = format!("no {what} is called `{0}`: add [{what}.{0}]", name.get_ref());
        self.twin.wrong(Some(name.span()), said)
    }
}

impl Step {
    fn verbs(&self) -> Vec<&'static str> {
        let all = [
            ("run", self.run.is_some()),
            ("think", self.think.is_some()),
            ("hold", self.hold.is_some()),
            ("io", self.io.is_some()),
            ("start", self.start.is_some()),
            ("repeat", self.repeat.is_some()),
            ("chance", self.chance.is_some()),
            ("put", self.put.is_some()),
            ("take", self.take.is_some()),
            ("call", self.call.is_some()),
            ("reply", self.reply.is_some()),
            ("within", self.within.is_some()),
            ("move", self.move_over.is_some()),
        ];
        all.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect()
    }
}

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn varies(cv: f64) -> bool {
    (0.0..=100.0).contains(&cv)
}

/// Positions in programs and lists, which are far below 2^32.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

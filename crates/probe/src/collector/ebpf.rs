//! The full tier: loads the programs, opens and closes windows on them, reads their maps.

use super::facts::{self, Missed};
use super::maps::Maps;
use super::offcpu::{self, LockLore};
use super::tick;
use super::window::{Harvest, Silent};
use super::wire::{Control, TIMED, WaitRecord, class, counter, reason};
use super::{Collector, Kind, ON_CPU_HZ, Observation, ProbeError, Watch, open_stacks};
use crate::proc::schedstat::SchedStat;
use crate::proc::{stat, syscall, tasks};
use crate::stack::StackCollector;
use crate::sys;
use crate::target::Target;
use aya::programs::{BtfTracePoint, ProgramError, RawTracePoint, tp_btf::BtfTracePointLink};
use aya::{Btf, Ebpf, EbpfLoader};
use kneepoint_machine::{own_pid, proc};
use kneepoint_vocab::{CollectorCost, Nanos, Tier};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/threads.bpf.o");

/// The program that takes the stacks of those who end waits.
const WAKERS: &str = "on_waking";

/// Programs, the tracepoint of each, and whether accounting is possible without it.
const PROGRAMS: [(&str, &str, bool); 8] = [
    ("on_switch", "sched_switch", false),
    ("on_wakeup", "sched_wakeup", false),
    (WAKERS, "sched_waking", false),
    ("on_new", "sched_wakeup_new", false),
    ("on_fork", "sched_process_fork", false),
    ("on_contention_begin", "contention_begin", true),
    ("on_contention_end", "contention_end", true),
    ("on_tick", "hrtimer_expire_entry", true),
];

/// Stacks of waits aimed at, each second, and the bounds of the threshold that steers them.
const STACKS_PER_SECOND: f64 = 80.0;
/// Share of ticks until the first window has shown how many there are.
const TICK_SHARE_FIRST: u32 = u32::MAX / 4;
const ALWAYS_FROM_FIRST: u64 = 20_000_000;
const ALWAYS_FROM_LEAST: u64 = 2_000_000;
const ALWAYS_FROM_MOST: u64 = 2_000_000_000;

/// The eBPF collector.
pub(crate) struct EbpfCollector {
    ebpf: Ebpf,
    maps: Maps,
    links: Vec<BtfTracePointLink>,
    loaded: Vec<&'static str>,
    cpus: Vec<u32>,
    stacks: Option<StackCollector>,
    lore: LockLore,
    always_from: u64,
    tick: Option<u64>,
    tick_share: u32,
    /// How many windows were opened.
    windows: u32,
    window: Option<OpenWindow>,
    frozen: Option<FrozenWindow>,
}

/// A window that has ended, before its stacks are named.
struct FrozenWindow {
    harvest: Harvest,
    /// Processes of the system.
    system: Vec<u32>,
    ticks: stat::CpuTicks,
    cost: CollectorCost,
    opened: OpenWindow,
}

/// What was read when the window began.
struct OpenWindow {
    control: Control,
    /// CPUs that it is about.
    cpus: Vec<u32>,
    /// Processes of the system when it began.
    system: Vec<u32>,
    clients: BTreeSet<u32>,
    generators: BTreeSet<u32>,
    counts: BTreeMap<u32, (u32, SchedStat)>,
    counters: [u64; counter::COUNT as usize],
    skipped: u64,
    ticks: stat::CpuTicks,
    kneepoint: u64,
}

fn ebpf_error(what: &str, error: &dyn std::error::Error) -> ProbeError {
    let mut text = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        let first = inner_text.lines().next().unwrap_or_default();
        if !text.contains(first) {
            text.push_str(": ");
            text.push_str(first);
        }
        cause = inner.source();
    }
    ProbeError::Ebpf(text)
}

/// The inode of the PID namespace that the kernel starts with (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Whether ids of processes mean the same here as in the kernel's programs.
pub(crate) fn in_first_pid_namespace() -> bool {
    proc::inode("self/ns/pid").is_none_or(|inode| inode == FIRST_PID_NAMESPACE)
}

/// Every switch and every wake-up, by eBPF programs.
pub(super) const KIND: Kind = Kind {
    tier: Tier::Full,
    attach: |cpus, options, remarks| {
        let hz = if tick::handler().is_some() { 0 } else { ON_CPU_HZ };
        let stacks = open_stacks(options.stacks, &cpus, Watch::Everyone { hz }, remarks);
        Ok(Box::new(EbpfCollector::attach(cpus, stacks, remarks)?))
    },
};

impl EbpfCollector {
    /// Loads and attaches. `cpus` are the cores to account for.
    pub(crate) fn attach(
        cpus: Vec<u32>,
        stacks: Option<StackCollector>,
        remarks: &mut Vec<String>,
    ) -> Result<Self, ProbeError> {
        Self::attach_object(OBJECT, cpus, stacks, remarks)
    }

    /// The same with these programs.
    pub(crate) fn attach_object(
        object: &[u8],
        cpus: Vec<u32>,
        stacks: Option<StackCollector>,
        remarks: &mut Vec<String>,
    ) -> Result<Self, ProbeError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(ProbeError::Ebpf("the programs read x86-64 registers only".to_owned()));
        }
        if !in_first_pid_namespace() {
            return Err(ProbeError::Namespace);
        }
        let btf = Btf::from_sys_fs().map_err(|error| ebpf_error("kernel BTF", &error))?;
        let possible = tasks::possible_cpus();
        let waits = u32::try_from((1 << 20) / possible.max(64)).unwrap_or(1 << 14).max(4096);
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .map_max_entries("waits", waits)
            .load(object)
            .map_err(|error| ebpf_error("load", &error))?;
        let loaded = load_programs(&mut ebpf, &btf, remarks)?;
        let maps = Maps::take(&mut ebpf, possible)?;
        maps.set_control(&Control::default())?;
        for (cpu, fd) in stacks.iter().flat_map(StackCollector::output_fds) {
            maps.set_event(cpu, fd)?;
        }
        let mut collector = Self {
            ebpf,
            maps,
            links: Vec::new(),
            loaded,
            cpus,
            stacks,
            lore: LockLore::default(),
            always_from: ALWAYS_FROM_FIRST,
            tick: tick::handler(),
            tick_share: TICK_SHARE_FIRST,
            windows: 0,
            window: None,
            frozen: None,
        };
        collector.reattach()?;
        Ok(collector)
    }
}

impl Collector for EbpfCollector {
    fn detach(&mut self) -> Result<(), ProbeError> {
        if self.window.is_some() {
            return Err(ProbeError::Order("detach while a window is open; close it first"));
        }
        self.links.clear();
        Ok(())
    }

    fn reattach(&mut self) -> Result<(), ProbeError> {
        if !self.links.is_empty() {
            return Ok(());
        }
        // Without stacks nobody asks who ends a wait.
        let wanted = |name: &&&str| self.stacks.is_some() || **name != WAKERS;
        for name in self.loaded.iter().filter(wanted) {
            let link = attach_one(&mut self.ebpf, name)
                .map_err(|error| ebpf_error(&format!("attach {name}"), &error))?;
            self.links.push(link);
        }
        Ok(())
    }

    fn open(&mut self, target: &Target) -> Result<(), ProbeError> {
        if self.window.is_some() {
            return Err(ProbeError::Order("a window is already open; close it first"));
        }
        if self.links.is_empty() {
            return Err(ProbeError::Order("the programs are detached; reattach first"));
        }
        let system = tasks::family(&target.pids);
        let generators = tasks::family(&target.generators);
        let of = |pids: &[u32], class: usize| -> Vec<(u32, u32)> {
            pids.iter().map(|pid| (*pid, u32::try_from(class).unwrap_or(0))).collect()
        };
        let mut classes = of(&generators, class::GENERATOR);
        classes.extend(of(&system, class::SYSTEM));
        self.maps.set_targets(&classes, &target.clients)?;
        self.maps.drain_waits()?;
        self.maps.drain_exited()?;
        self.maps.records();
        self.lore.begin(&target.pids);
        let counters = self.maps.counters()?;
        if let Some(stacks) = &mut self.stacks {
            stacks.begin(&system).map_err(|error| ProbeError::Sampling(error.to_string()))?;
        }
        let cpus = target.cpus_of(&self.cpus);
        let ticks = stat::read_machine(&cpus).unwrap_or_default();
        let kneepoint = sys::process_cpu(own_pid()).unwrap_or(0);
        let counts = tasks::counts(&system);
        let control = self.start(&cpus)?;
        self.window = Some(OpenWindow {
            control,
            cpus,
            system,
            clients: target.clients.iter().copied().collect(),
            generators: generators.into_iter().collect(),
            counts,
            counters,
            skipped: self.recursion_misses(),
            ticks,
            kneepoint,
        });
        Ok(())
    }

    /// Ends the window: reads all that must be read while the threads live.
    fn freeze(&mut self) -> Result<(), ProbeError> {
        let window = self.window.take().ok_or(ProbeError::Order("no window is open"))?;
        let mut control = window.control;
        control.active = 0;
        self.maps.set_control(&control)?;
        let end = sys::monotonic();
        if let Some(stacks) = &self.stacks {
            stacks.pause();
        }
        let cost = self.cost(control.window, window.kneepoint)?;
        let ticks = stat::read_machine(&window.cpus).unwrap_or_default().since(window.ticks);
        // Those that were there at the start may be gone by now; what was learnt of them is not.
        let mut system = window.system.clone();
        system.extend(self.maps.targets()?);
        system.sort_unstable();
        system.dedup();
        system.retain(|pid| !window.generators.contains(pid));
        let counts = tasks::counts(&system);
        // Programs that were on their way when `active` fell must have ended.
        std::thread::sleep(Duration::from_millis(1));
        let mut harvest = Harvest {
            begin: control.window,
            end,
            threads: self.maps.threads(control.number),
            waits: self.maps.drain_waits()?,
            exited: self.maps.drain_exited()?,
            cores: self.watched_cores(&window.cpus)?,
            counts: [window.counts.clone(), counts],
            ..Harvest::default()
        };
        harvest.silent = silent_threads(&harvest, &window.clients);
        if let Some(stacks) = &self.stacks {
            stacks.read_maps();
        }
        self.frozen = Some(FrozenWindow { harvest, system, ticks, cost, opened: window });
        Ok(())
    }

    /// The facts of the frozen window. Its threads may be gone; naming stacks takes its time.
    fn collect(&mut self) -> Result<Observation, ProbeError> {
        let frozen = self.frozen.take().ok_or(ProbeError::Order("no window is frozen"))?;
        let FrozenWindow { mut harvest, system, ticks, cost, opened } = frozen;
        let mut stacks = self.stacks.as_mut().map(StackCollector::end).unwrap_or_default();
        offcpu::take_ticks(&mut stacks);
        let waits = offcpu::by_mark(self.wait_records(&harvest.threads, harvest.end));
        self.name_objects(&harvest, &system);
        harvest.objects = self.lore.objects().clone();
        let counters = self.maps.counters()?;
        let counters = std::array::from_fn(|index| counters[index] - opened.counters[index]);
        self.steer(counters[counter::MARKS as usize], harvest.end - harvest.begin);
        let found = counters[counter::TICKS as usize];
        let running: u64 = harvest.cores.iter().map(|core| core.spent[class::SYSTEM]).sum();
        if let Some(share) = tick::share(found, Nanos(running).seconds().0) {
            self.tick_share = share;
        }
        let skipped = self.recursion_misses().saturating_sub(opened.skipped);
        let switches = harvest.cores.iter().map(|core| core.switches).sum();
        let wakers_share = offcpu::wakers_share(&harvest.cores);
        let missed = Missed { counters, skipped, switches, wakers_share };
        Ok(facts::assemble(&harvest, stacks, &waits, &missed, ticks, cost))
    }
}

impl EbpfCollector {
    /// Sets the programs going and shows them what each of these cores is running.
    fn start(&mut self, cpus: &[u32]) -> Result<Control, ProbeError> {
        self.windows += 1;
        let mut control = Control {
            window: sys::monotonic(),
            ahead: 0,
            ahead_at: 0,
            always_from: self.stacks.as_ref().map_or(0, |_| self.always_from),
            tick: self.tick.filter(|_| self.stacks.is_some()).unwrap_or(0),
            tick_share: self.tick_share,
            active: 0,
            self_tgid: own_pid(),
            number: self.windows,
            targets_changed: 0,
            pad: 0,
        };
        self.maps.set_control(&control)?;
        control.active = 1;
        self.maps.set_control(&control)?;
        let edge: &RawTracePoint = self
            .ebpf
            .program("on_edge")
            .and_then(|program| program.try_into().ok())
            .ok_or(ProbeError::Order("the object has no program `on_edge`"))?;
        let fd = edge.fd().map_err(|error| ebpf_error("on_edge", &error))?;
        for cpu in cpus {
            if let Err(error) = sys::run_on_cpu(fd.as_fd(), *cpu) {
                tracing::debug!("edge on CPU {cpu}: {error}");
            }
        }
        Ok(control)
    }

    /// A map of the object that user space does not use.
    #[cfg(test)]
    pub(crate) fn take_map(&mut self, name: &str) -> Option<aya::maps::Map> {
        self.ebpf.take_map(name)
    }

    /// What was read of the frozen window.
    #[cfg(test)]
    pub(crate) fn harvest(&self) -> Option<&Harvest> {
        self.frozen.as_ref().map(|frozen| &frozen.harvest)
    }

    /// Finished sampled waits, and those still open at the end.
    fn wait_records(
        &mut self,
        threads: &[(u32, super::wire::Thread)],
        end: u64,
    ) -> Vec<WaitRecord> {
        let mut records = self.maps.records();
        let open = threads.iter().filter(|(_, thread)| thread.mark != 0 && thread.block_start != 0);
        records.extend(open.map(|(_, thread)| {
            let until = if thread.wake_ts == 0 { end } else { thread.wake_ts };
            let blocked = until.saturating_sub(thread.block_start);
            let (wait, behind) = (thread.wait(), thread.behind);
            WaitRecord { id: thread.mark, p: thread.mark_p, blocked, wait, behind }
        }));
        records
    }

    /// Names futex words that are global variables of the system's processes.
    fn name_objects(&mut self, harvest: &Harvest, pids: &[u32]) {
        let Some(stacks) = &mut self.stacks else { return };
        let waits = harvest.waits.iter().map(|(id, _)| *id);
        let open = harvest.threads.iter().map(|(_, thread)| thread.wait());
        let words = waits.chain(open).filter(|id| id.reason == reason::FUTEX).map(|id| id.object);
        self.lore.name(words, |word| pids.iter().find_map(|pid| stacks.variable_at(*pid, word)));
    }

    fn watched_cores(&self, cpus: &[u32]) -> Result<Vec<super::wire::Core>, ProbeError> {
        let all = self.maps.cores()?;
        let of = |cpu: &u32| all.get(*cpu as usize).copied().unwrap_or_default();
        Ok(cpus.iter().map(of).collect())
    }

    /// Moves the threshold so that the next window takes about as many stacks as aimed at.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a bounded steering value"
    )]
    fn steer(&mut self, marks: u64, length: u64) {
        let wanted = STACKS_PER_SECOND * Nanos(length).seconds().0;
        let factor = (marks as f64 / wanted.max(1.0)).clamp(0.5, 8.0);
        self.always_from =
            ((self.always_from as f64 * factor) as u64).clamp(ALWAYS_FROM_LEAST, ALWAYS_FROM_MOST);
    }

    /// Runs that the kernel skipped since load because the CPU was already inside a program.
    fn recursion_misses(&self) -> u64 {
        let misses = |name: &&str| {
            let program: &BtfTracePoint = self.ebpf.program(name)?.try_into().ok()?;
            let fd = program.fd().ok()?.as_fd().as_raw_fd();
            let info = proc::text(&format!("self/fdinfo/{fd}")).ok()?;
            let line = info.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?;
            line.trim().parse::<u64>().ok()
        };
        self.loaded.iter().filter_map(misses).sum()
    }

    /// What the window cost. The kernel's own count of run times (`bpf_stats_enabled`) reads the
    /// clock twice in every run of every program; here one run in [`TIMED`] is timed.
    fn cost(&self, window: u64, kneepoint: u64) -> Result<CollectorCost, ProbeError> {
        let cores = self.maps.cores()?;
        let cores = cores.iter().filter(|core| core.generation == window);
        let (timed, runs) =
            cores.fold((0, 0), |(timed, runs), core| (timed + core.timed, runs + core.runs));
        let reader = sys::process_cpu(own_pid()).unwrap_or(0).saturating_sub(kneepoint);
        Ok(CollectorCost {
            programs: Nanos(timed.saturating_mul(TIMED)),
            program_runs: runs,
            reader: Nanos(reader),
        })
    }
}

fn load_programs(
    ebpf: &mut Ebpf,
    btf: &Btf,
    remarks: &mut Vec<String>,
) -> Result<Vec<&'static str>, ProbeError> {
    let mut loaded = Vec::new();
    for (name, tracepoint, optional) in PROGRAMS {
        match load_one(ebpf, btf, name, tracepoint) {
            Ok(()) => loaded.push(name),
            Err(error) if optional => {
                remarks.push(format!("kernel locks are not seen: {tracepoint}: {error}"));
            }
            Err(error) => return Err(ebpf_error(tracepoint, &error)),
        }
    }
    let edge: &mut RawTracePoint = program_mut(ebpf, "on_edge")?;
    edge.load().map_err(|error| ebpf_error("on_edge", &error))?;
    Ok(loaded)
}

fn program_mut<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, ProbeError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let missing = || ProbeError::Ebpf(format!("the object has no program `{name}`"));
    ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())
}

fn load_one(ebpf: &mut Ebpf, btf: &Btf, name: &str, tracepoint: &str) -> Result<(), ProgramError> {
    let program = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)
}

fn attach_one(ebpf: &mut Ebpf, name: &str) -> Result<BtfTracePointLink, ProgramError> {
    let program = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    let link = program.attach()?;
    program.take_link(link)
}

/// Threads that lived through the window without an event, with the state `/proc` shows now.
fn silent_threads(harvest: &Harvest, clients: &BTreeSet<u32>) -> Vec<Silent> {
    let seen: BTreeSet<u32> = harvest.threads.iter().map(|(tid, _)| *tid).collect();
    let [begin, end] = &harvest.counts;
    let quiet = end.iter().filter(|(tid, _)| begin.contains_key(tid) && !seen.contains(tid));
    quiet
        .filter_map(|(tid, (pid, _))| {
            let stat = stat::read_task(*pid, *tid)?;
            let client = clients.contains(tid);
            Some(Silent {
                tid: *tid,
                name: stat.comm,
                client,
                wait: syscall::wait(*pid, *tid, stat.state),
            })
        })
        .collect()
}

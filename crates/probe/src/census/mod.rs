//! A census: how often one client takes each lock and how long it holds it, and what system calls
//! it makes.
//!
//! Probes stand in the functions of the C library that take locks and give them back, in the
//! processes of the system alone. Locks that a program makes of futexes itself (Rust's standard
//! library, Go) pass none of them and are not counted. Calls are counted where they return. How
//! long locks are held their own words tell, before the probes count.

mod counts;
mod wire;
mod words;

use crate::calls::counter::probe_source;
use crate::calls::places::in_c_library;
use crate::collector::in_first_pid_namespace;
use crate::proc::tasks;
use crate::stack::{StackCollector, StackOptions};
use crate::sys::{self, Whose};
use crate::target::Target;
use anyhow::Context as _;
use aya::maps::{Map, MapData};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};
use counts::Counted;
use kneepoint_machine::own_pid;
use kneepoint_machine::proc::process::path_of_descriptor;
use kneepoint_machine::windows::{Observation, Windows};
use kneepoint_vocab::{CallCount, Fact, Loss, MachineName, Nanos};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;
use wire::{CallKey, Control, Held, HeldKey, Use, UseKey, kind};
use words::Looked;

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/census.bpf.o");

/// Functions that take locks and give them back, of mutexes and of reader-writer locks, and the
/// program for each. Each more costs a tenth of a second: so long the kernel takes for taking a
/// probe off.
const MUTEX: [(&str, &str); 3] = [
    ("pthread_mutex_lock", "on_lock"),
    ("pthread_mutex_trylock", "on_try"),
    ("pthread_mutex_unlock", GIVE_BACK),
];
const READ_WRITE: [(&str, &str); 5] = [
    ("pthread_rwlock_wrlock", "on_write"),
    ("pthread_rwlock_trywrlock", "on_try_write"),
    ("pthread_rwlock_rdlock", "on_read"),
    ("pthread_rwlock_tryrdlock", "on_try_read"),
    ("pthread_rwlock_unlock", GIVE_BACK),
];
const GIVE_BACK: &str = "on_give_back";
const PROGRAMS: [&str; 7] =
    ["on_lock", "on_try", "on_write", "on_try_write", "on_read", "on_try_read", GIVE_BACK];
/// The kernel's `ENOTSUPP`, which has no name in user space.
const NOT_SUPPORTED: i32 = 524;
const ON_CALL: &str = "on_call";

/// Processes that get probes: each needs probes of its own, which take their time.
const MOST_PROCESSES: usize = 4;
/// So long probes stand to find out which locks there are.
const FINDING: Duration = Duration::from_millis(100);

/// Counts locks, window by window.
pub struct Census {
    ebpf: Ebpf,
    control: MapData,
    held: MapData,
    uses: MapData,
    callers: MapData,
    calls: MapData,
    stacks: StackCollector,
    /// Where programs write stacks to: forgotten by the kernel where nobody has it open.
    _events: MapData,
    /// What stands for the next window.
    prepared: Option<Prepared>,
    window: Option<Window>,
    frozen: Option<Frozen>,
}

impl std::fmt::Debug for Census {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Census").finish_non_exhaustive()
    }
}

/// Probes that stand.
struct Probes {
    /// They are gone with these.
    _events: Vec<OwnedFd>,
    /// What was found of the locks' words before.
    looked: Looked,
}

/// Locks may have none while calls are counted.
struct Prepared {
    locks: Result<Probes, String>,
    /// It is gone with this.
    _calls: BtfTracePointLink,
}

/// A window that is open.
struct Window {
    begin: u64,
    prepared: Prepared,
}

/// What was read when it ended. The probes stand until it is collected: to take them off takes
/// time in which the system goes on.
struct Frozen {
    length: Nanos,
    uses: Vec<(UseKey, Use)>,
    calls: Vec<CallCount>,
    control: Control,
    prepared: Prepared,
}

impl Census {
    /// About what [`Windows::prepare`] takes.
    pub const PREPARING: Nanos = Nanos::from_millis(2_500);

    /// Loads the programs. Nothing has a probe yet.
    ///
    /// # Errors
    /// The kernel refuses the programs or takes no stacks.
    pub fn load() -> anyhow::Result<Self> {
        anyhow::ensure!(in_first_pid_namespace(), "the programs see the host's process ids");
        let mut ebpf = EbpfLoader::new().load(OBJECT).context("the census's programs")?;
        for name in PROGRAMS {
            program(&mut ebpf, name)?.load().with_context(|| name.to_owned())?;
        }
        let btf = Btf::from_sys_fs().context("kernel BTF")?;
        call_program(&mut ebpf)?.load("sys_exit", &btf).context(ON_CALL)?;
        let [control, held, uses, callers, calls, events] =
            ["census", "held", "uses", "callers", "calls", "stack_events"]
                .map(|name| map(&mut ebpf, name));
        let stacks = StackOptions { on_cpu_hz: 0, ..StackOptions::new(tasks::allowed_cpus()) };
        let stacks = StackCollector::open(&stacks)?;
        let events = events?;
        for (cpu, event) in stacks.output_fds() {
            sys::map_set_event(events.fd().as_fd(), cpu, event)?;
        }
        Ok(Self {
            ebpf,
            control: control?,
            held: held?,
            uses: uses?,
            callers: callers?,
            calls: calls?,
            stacks,
            _events: events,
            prepared: None,
            window: None,
            frozen: None,
        })
    }

    fn set(&self, active: bool) -> anyhow::Result<()> {
        let control = Control { active: u64::from(active), ..Control::default() };
        Ok(sys::map_set(self.control.fd().as_fd(), &0_u32, &control)?)
    }

    fn read(&self) -> anyhow::Result<Control> {
        Ok(sys::map_get(self.control.fd().as_fd(), 0)?)
    }

    fn drain(&self) -> anyhow::Result<Vec<(UseKey, Use)>> {
        sys::map_drain::<HeldKey, Held>(self.held.fd().as_fd(), 1)?;
        let uses = sys::map_drain::<UseKey, Use>(self.uses.fd().as_fd(), 1)?;
        let one = |(key, all): (UseKey, Vec<Use>)| Some((key, *all.first()?));
        Ok(uses.into_iter().filter_map(one).collect())
    }

    /// Empties what was counted of calls, in order of their numbers.
    fn drain_calls(&self) -> anyhow::Result<Vec<CallCount>> {
        let calls = sys::map_drain::<CallKey, u64>(self.calls.fd().as_fd(), 1)?;
        let one = |(key, all): (CallKey, Vec<u64>)| {
            let count = *all.first()?;
            Some(CallCount { number: key.number, error: key.error, count })
        };
        let mut calls: Vec<CallCount> = calls.into_iter().filter_map(one).collect();
        calls.sort_by_key(|call| (call.number, call.error));
        Ok(calls)
    }

    /// Has the calls of these processes counted, and of no others.
    fn count_calls(&mut self, pids: &[u32]) -> anyhow::Result<BtfTracePointLink> {
        sys::map_drain::<u32, u32>(self.callers.fd().as_fd(), 1)?;
        for pid in pids {
            sys::map_set(self.callers.fd().as_fd(), pid, &1_u32)?;
        }
        self.drain_calls()?;
        let program = call_program(&mut self.ebpf)?;
        let link = program.attach()?;
        Ok(program.take_link(link)?)
    }

    /// Probes in these functions of these processes.
    fn probes(&mut self, pids: &[u32], functions: &[(&str, &str)]) -> anyhow::Result<Vec<OwnedFd>> {
        let kind = probe_source().context("this kernel has no probes in programs")?;
        let names: Vec<&str> = functions.iter().map(|(function, _)| *function).collect();
        let mut probes = Vec::new();
        for pid in pids {
            for (number, place) in in_c_library(*pid, &names) {
                let path = path_of_descriptor(own_pid(), place.file.as_raw_fd());
                let path = CString::new(path.as_os_str().as_bytes())?;
                let program = program(&mut self.ebpf, functions[number].1)?.fd()?.as_fd();
                let place = (path.as_c_str(), place.offset, 0);
                match sys::open_probe(kind, place, Whose::Process(*pid), program) {
                    Ok(probe) => probes.push(probe),
                    // No probe can stand at some instructions.
                    Err(error) if error.raw_os_error() == Some(NOT_SUPPORTED) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        anyhow::ensure!(!probes.is_empty(), "it has none of the C library's");
        Ok(probes)
    }

    /// Finds the locks that are used, looks at their words while nothing is in the way, and has
    /// probes stand for a window.
    fn attach(&mut self, pids: &[u32]) -> anyhow::Result<Probes> {
        let all = || MUTEX.into_iter().chain(READ_WRITE);
        let takers: Vec<_> = all().filter(|(_, program)| *program != GIVE_BACK).collect();
        let finding = self.probes(pids, &takers)?;
        self.set(true)?;
        std::thread::sleep(FINDING);
        self.set(false)?;
        drop(finding);
        let found: Vec<(UseKey, u64)> =
            self.drain()?.into_iter().map(|(key, one)| (key, one.begun)).collect();
        anyhow::ensure!(!found.is_empty(), "it takes no lock of the C library's");
        let looked = words::look(&found);
        let shared = found.iter().any(|(key, _)| key.how != kind::MUTEX);
        let wanted: Vec<_> = if shared { all().collect() } else { MUTEX.to_vec() };
        let events = self.probes(pids, &wanted)?;
        self.stacks.begin(pids)?;
        Ok(Probes { _events: events, looked })
    }
}

/// Of these processes those that serve clients, where some do; few.
fn busiest(target: &Target, pids: &[u32]) -> Vec<u32> {
    let clients = pids.iter().copied().filter(|pid| target.clients.contains(pid));
    let clients: Vec<u32> = clients.take(MOST_PROCESSES).collect();
    let all = || pids.iter().copied().take(MOST_PROCESSES).collect();
    if clients.is_empty() { all() } else { clients }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> anyhow::Result<&'a mut UProbe> {
    let found = ebpf.program_mut(name).with_context(|| format!("no program `{name}`"))?;
    Ok(found.try_into()?)
}

fn call_program(ebpf: &mut Ebpf) -> anyhow::Result<&mut BtfTracePoint> {
    let found = ebpf.program_mut(ON_CALL).with_context(|| format!("no program `{ON_CALL}`"))?;
    Ok(found.try_into()?)
}

fn map(ebpf: &mut Ebpf, name: &str) -> anyhow::Result<MapData> {
    match ebpf.take_map(name) {
        Some(Map::Array(data) | Map::HashMap(data) | Map::PerfEventArray(data)) => Ok(data),
        _ => anyhow::bail!("the census's programs have no map `{name}`"),
    }
}

impl Windows for Census {
    fn machine(&self) -> MachineName {
        kneepoint_machine::here().machine()
    }

    /// Where no lock can be counted, the window has none and says why: the system goes on.
    fn prepare(&mut self, target: &Target) -> anyhow::Result<()> {
        let pids = tasks::family(&target.pids);
        let locks = self.attach(&busiest(target, &pids)).map_err(|error| format!("{error:#}"));
        let calls = self.count_calls(&pids)?;
        self.prepared = Some(Prepared { locks, _calls: calls });
        Ok(())
    }

    fn open(&mut self, _: &Target) -> anyhow::Result<()> {
        let prepared = self.prepared.take().context("no census is prepared")?;
        self.set(true)?;
        self.window = Some(Window { begin: sys::monotonic(), prepared });
        Ok(())
    }

    fn freeze(&mut self) -> anyhow::Result<()> {
        let Window { begin, prepared } = self.window.take().context("no census is open")?;
        let length = Nanos(sys::monotonic().saturating_sub(begin));
        let control = self.read()?;
        self.set(false)?;
        self.stacks.pause();
        let (uses, calls) = (self.drain()?, self.drain_calls()?);
        self.frozen = Some(Frozen { length, uses, calls, control, prepared });
        Ok(())
    }

    fn collect(&mut self) -> anyhow::Result<Observation> {
        let Frozen { length, uses, calls, control, prepared } =
            self.frozen.take().context("no census is frozen")?;
        let (looked, refused) = match prepared.locks {
            Ok(probes) => (probes.looked, None),
            Err(why) => (Looked::new(), Some(why)),
        };
        let stacks = self.stacks.end();
        let mut names: BTreeMap<(u32, u64), Option<String>> = BTreeMap::new();
        for (key, _) in &uses {
            let name = || self.stacks.variable_at(key.process, key.lock);
            names.entry((key.process, key.lock)).or_insert_with(name);
        }
        let counted =
            Counted { uses: &uses, marked: &stacks.marked, names: &names, looked: &looked };
        let (locks, left_out) = counted.locks();
        let mut facts: Vec<Fact> = locks.into_iter().map(Fact::LockUse).collect();
        facts.extend(calls.into_iter().map(Fact::Calls));
        let losses = [
            ("locks beyond those that are kept", left_out),
            ("locks beyond the census's room", control.uses_lost + control.held_lost),
            ("stacks of locks refused", control.stacks_lost),
        ];
        let lost = |what: &str, count| Fact::Loss(Loss { what: what.to_owned(), count, of: None });
        facts.extend(losses.iter().filter(|one| one.1 > 0).map(|(what, count)| lost(what, *count)));
        facts.extend(refused.map(|why| lost(&format!("census of locks: {why}"), 1)));
        Ok(Observation { facts, new_stacks: stacks.new_stacks, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_processes_few_that_serve_clients_get_probes() {
        let target = |clients: &[u32]| Target { clients: clients.to_vec(), ..Target::default() };
        let pids: Vec<u32> = (10..30).collect();
        assert_eq!(busiest(&target(&[17, 12, 99]), &pids), [12, 17]);
        assert_eq!(busiest(&target(&[99]), &pids), [10, 11, 12, 13], "clients are threads");
        assert_eq!(busiest(&target(&pids), &pids).len(), MOST_PROCESSES);
    }
}

//! Which events are opened: one timer and one BPF output a CPU with privileges, else timers on
//! the threads of the watched processes.

use super::perf::{self, Event, EventOptions, Ring, Source};
use super::{StackError, StackOptions};
use kneepoint_machine::proc::tasks::threads;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages of a ring of a privileged event; at 13 kB a stack this holds about 40.
const WIDE_PAGES: usize = 128;
/// Pages of a ring of marked stacks, which come in bursts.
const OUTPUT_PAGES: usize = 256;
/// Pages of a ring of a user, who may lock little memory.
const USER_PAGES: usize = 64;

const OPEN: &str = "open a perf event";
const NO_PRIVILEGE: &str = "stacks: no privilege for CPU-wide perf events; only running threads of \
                            own processes are seen, in user mode, and no waiting threads";
const TOO_MANY_THREADS: &str = "stacks: more threads than files may be open; some running threads \
                                are not seen (raise the limit with ulimit -n)";

/// Timers that take stacks. Whoever has a clone may take them off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks(Arc<Mutex<Vec<Event>>>);

impl Clocks {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enable(&self) -> Result<(), StackError> {
        for clock in self.lock().iter() {
            clock.enable().map_err(|source| StackError::Event {
                what: "start a perf timer",
                cpu: clock.cpu(),
                source,
            })?;
        }
        Ok(())
    }

    fn disable(&self) {
        for clock in self.lock().iter() {
            // Disabling fails only for a closed descriptor, and ours are open.
            let _ = clock.disable();
        }
    }

    /// Stops and closes them: a thread that has a timer pays for it at each switch, a stopped one
    /// too. What they wrote stays to be read.
    pub(crate) fn take_off(&self) {
        self.disable();
        self.lock().clear();
    }
}

/// The open events.
#[derive(Debug)]
pub(crate) struct Events {
    clocks: Clocks,
    outputs: Vec<Event>,
    /// Options of the timers on single threads; `None` where CPUs are watched.
    by_thread: Option<EventOptions>,
    cpus: Vec<u32>,
    remarks: Vec<String>,
}

impl Events {
    /// Opens what is allowed, and the rings of that.
    pub(crate) fn open(options: &StackOptions) -> Result<(Self, Vec<Ring>), StackError> {
        if !options.system_wide {
            return Ok((Self::for_threads(options, Vec::new()), Vec::new()));
        }
        match Self::for_cpus(options) {
            Err(StackError::Event { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM)) =>
            {
                let paranoid = perf::paranoid_level().unwrap_or(i32::MAX);
                if paranoid > 2 {
                    return Err(StackError::Denied { paranoid });
                }
                Ok((Self::for_threads(options, vec![NO_PRIVILEGE.to_owned()]), Vec::new()))
            }
            result => result,
        }
    }

    fn for_cpus(options: &StackOptions) -> Result<(Self, Vec<Ring>), StackError> {
        let StackOptions { cpus, on_cpu_hz: hz, stack_bytes, .. } = options.clone();
        let with = |source| EventOptions { source, stack_bytes, kernel: true, inherit: false };
        let mut events = Self {
            clocks: Clocks::default(),
            outputs: Vec::new(),
            by_thread: None,
            cpus,
            remarks: Vec::new(),
        };
        let mut rings = Vec::new();
        for cpu in events.cpus.clone() {
            if hz > 0 {
                let clock = open(&with(Source::CpuClock { hz }), None, cpu)?;
                rings.push(map(&clock, WIDE_PAGES)?);
                events.clocks.lock().push(clock);
            }
            let output = open(&with(Source::BpfOutput), None, cpu)?;
            rings.push(map(&output, OUTPUT_PAGES)?);
            events.outputs.push(output);
        }
        Ok((events, rings))
    }

    fn for_threads(options: &StackOptions, remarks: Vec<String>) -> Self {
        let source = Source::CpuClock { hz: options.on_cpu_hz };
        let stack_bytes = options.stack_bytes;
        let events = EventOptions { source, stack_bytes, kernel: false, inherit: true };
        Self {
            clocks: Clocks::default(),
            outputs: Vec::new(),
            by_thread: (options.on_cpu_hz > 0).then_some(events),
            cpus: options.cpus.clone(),
            remarks,
        }
    }

    /// Puts timers on the threads of `pids`, of this frequency where one is given; the rings
    /// replace those of the last window. `None` where CPUs are watched: nothing changes.
    pub(crate) fn watch(
        &mut self,
        pids: &[u32],
        hz: Option<u64>,
    ) -> Result<Option<Vec<Ring>>, StackError> {
        let Some(mut options) = self.by_thread else { return Ok(None) };
        if let Some(hz) = hz {
            options.source = Source::CpuClock { hz };
        }
        let clocks = self.clocks.clone();
        let mut clocks = clocks.lock();
        clocks.clear();
        let mut rings = Vec::new();
        let mut first_of_cpu = BTreeMap::new();
        for tid in pids.iter().flat_map(|pid| threads(*pid)) {
            for cpu in self.cpus.clone() {
                let event = match Event::open(&options, Some(tid), cpu) {
                    Ok(event) => event,
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                        self.remark(TOO_MANY_THREADS);
                        return Ok(Some(rings));
                    }
                    Err(source) => return Err(StackError::Event { what: OPEN, cpu, source }),
                };
                let first = *first_of_cpu.entry(cpu).or_insert(clocks.len());
                match clocks.get(first) {
                    None => rings.push(map(&event, USER_PAGES)?),
                    Some(first) => event.redirect_to(first).map_err(|source| {
                        StackError::Event { what: "share a perf ring", cpu, source }
                    })?,
                }
                clocks.push(event);
            }
        }
        Ok(Some(rings))
    }

    fn remark(&mut self, text: &str) {
        if !self.remarks.iter().any(|known| known == text) {
            self.remarks.push(text.to_owned());
        }
    }

    /// Starts the timers.
    pub(crate) fn enable(&self) -> Result<(), StackError> {
        self.clocks.enable()
    }

    /// Stops the timers.
    pub(crate) fn disable(&self) {
        self.clocks.disable();
    }

    /// The timers.
    pub(crate) fn clocks(&self) -> Clocks {
        self.clocks.clone()
    }

    /// What could not be had.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The output event of each CPU.
    pub(crate) fn output_fds(&self) -> Vec<(u32, BorrowedFd<'_>)> {
        self.outputs.iter().map(|event| (event.cpu(), event.fd())).collect()
    }
}

fn open(options: &EventOptions, thread: Option<u32>, cpu: u32) -> Result<Event, StackError> {
    Event::open(options, thread, cpu).map_err(|source| StackError::Event {
        what: OPEN,
        cpu,
        source,
    })
}

/// Maps a ring, a smaller one where the memory that may be locked is short.
fn map(event: &Event, pages: usize) -> Result<Ring, StackError> {
    const LEAST_PAGES: usize = 8;
    let refused = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) && pages > LEAST_PAGES
    };
    match event.ring(pages) {
        Err(error) if refused(&error) => map(event, pages / 2),
        result => result.map_err(|source| StackError::Event {
            what: "map a perf ring",
            cpu: event.cpu(),
            source,
        }),
    }
}

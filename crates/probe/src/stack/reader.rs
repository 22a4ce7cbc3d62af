//! Drains the rings and unwinds at once, so that no stack copy has to be kept.
//!
//! The thread sleeps until a ring is half full. It does not look at the rings by the clock: where
//! the holder of a quickly passed lock is interrupted, the others fall asleep on it, and each
//! interruption costs many times its own length. Only where processes are born in the windows it
//! does, for their mappings can be read while they live and no longer; it learns that from the
//! window before, and takes it for granted in the first.

use super::jit::{self, PerfMap};
use super::jvm;
use super::names::{RawId, RawStacks};
use super::perf::Ring;
use super::process::{Images, Process, RawFrame, Taken, Walk};
use super::record::{Record, Sample, parse_record, split_record};
use crate::proc::tasks;
use framehop::x86_64::CacheX86_64;
use kneepoint_machine::proc::process;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often rings are looked at by the clock.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What a BPF program says along with a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of the wait.
    pub(crate) id: u64,
    /// Probability with which it was taken, × 2^32.
    pub(crate) p: u64,
    /// What for, as the program numbers it.
    pub(crate) kind: u32,
    /// The thread.
    pub(crate) tid: u32,
    /// The thread that was running.
    pub(crate) taken_in: u32,
}

impl Mark {
    fn parse(raw: &[u8], taken_in: u32) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(raw.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_ne_bytes(raw.get(at..at + 4)?.try_into().ok()?));
        Some(Self { id: word(0)?, p: word(8)?, kind: half(16)?, tid: half(20)?, taken_in })
    }
}

/// One window, in numbers.
#[derive(Debug, Default)]
pub(crate) struct RawWindow {
    pids: BTreeSet<u32>,
    /// Whether a stack of a process came that was not there when it opened.
    births: bool,
    /// How often each stack was on a core.
    pub(crate) on_cpu: BTreeMap<RawId, u64>,
    /// Stacks that a BPF program asked for.
    pub(crate) marked: Vec<(Mark, RawId)>,
    /// Stacks kept.
    pub(crate) taken: u64,
    /// Of these, those whose root was not reached.
    pub(crate) truncated: u64,
    /// Records that did not fit into a ring, or were not laid out as asked for.
    pub(crate) lost: u64,
    /// Times that the kernel paused the clock.
    pub(crate) throttled: u64,
}

/// Everything that the rounds work on.
#[derive(Default)]
pub(crate) struct Reader {
    /// Rings of all events.
    pub(crate) rings: Vec<Ring>,
    /// Images seen in this run.
    pub(crate) images: Images,
    /// Distinct stacks of this run.
    pub(crate) stacks: RawStacks,
    /// Watched processes.
    pub(crate) processes: BTreeMap<u32, Process>,
    /// What just-in-time compilers said of their code, by process.
    pub(crate) maps: BTreeMap<u32, PerfMap>,
    cache: CacheX86_64,
    window: Option<RawWindow>,
    /// Whether a window has passed, and without births.
    settled: bool,
    stop: bool,
    buffer: Vec<u8>,
    frames: Vec<RawFrame>,
}

impl Reader {
    /// Begins a window over these processes; what lies in the rings is thrown away.
    pub(crate) fn begin(&mut self, pids: &[u32]) {
        self.window = None;
        self.drain();
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let images = &mut self.images;
            self.processes
                .entry(*pid)
                .and_modify(|process| {
                    process.scan(images);
                })
                .or_insert_with(|| Process::new(*pid, images));
        }
        self.window =
            Some(RawWindow { pids: pids.iter().copied().collect(), ..RawWindow::default() });
    }

    /// Reads the maps of processes in whose stacks code was found that lies in no file.
    pub(crate) fn read_maps(&mut self) {
        let ours = tasks::family(&[kneepoint_machine::own_pid()]);
        for (pid, process) in &self.processes {
            if !process.has_anonymous_code() {
                continue;
            }
            if process.maps_library(jvm::LIBRARY)
                && ours.contains(pid)
                && let Err(error) = jvm::write_map(*pid)
            {
                tracing::debug!("no map of the virtual machine {pid}: {error}");
            }
            match jit::read(*pid) {
                Ok(mut map) => {
                    if let Ok(memory) = process::memory(*pid) {
                        map.look_at(&memory, self.compiled(*pid));
                    }
                    self.maps.insert(*pid, map);
                }
                Err(error) => tracing::debug!("no map of compiled code of {pid}: {error}"),
            }
        }
    }

    /// Addresses of a process's code without a file that threads were found at. Where a BPF program
    /// asks for the stack of one on a core, frames of the kernel lie before.
    fn compiled(&self, pid: u32) -> impl Iterator<Item = u64> {
        let taken = self
            .window
            .iter()
            .flat_map(|window| window.on_cpu.keys().chain(window.marked.iter().map(|(_, id)| id)));
        let distinct: BTreeSet<RawId> = taken.copied().collect();
        distinct.into_iter().filter_map(move |id| {
            let mut frames = self.stacks.get(id)?.frames.iter();
            match frames.find(|frame| !matches!(frame, RawFrame::Kernel(_)))? {
                RawFrame::Anonymous(at) if at.pid == pid => Some(at.address),
                _ => None,
            }
        })
    }

    /// Reads what is left and ends the window.
    pub(crate) fn end(&mut self) -> RawWindow {
        self.drain();
        let window = self.window.take();
        self.settled = window.as_ref().is_some_and(|window| !window.births);
        window.unwrap_or_default()
    }

    /// One round over all rings.
    pub(crate) fn drain(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rings = std::mem::take(&mut self.rings);
        for ring in &mut rings {
            ring.take(&mut buffer);
            let mut rest = &buffer[..];
            while let Some((record, after)) = split_record(rest) {
                self.record(record, ring.raw);
                rest = after;
            }
        }
        self.rings = rings;
        self.buffer = buffer;
    }

    fn record(&mut self, bytes: &[u8], raw: bool) {
        let Some(window) = &mut self.window else { return };
        match parse_record(bytes, raw) {
            Ok(Record::Sample(sample)) if raw => self.marked(&sample),
            Ok(Record::Sample(sample)) if window.pids.contains(&sample.pid) => {
                self.on_cpu(&sample);
            }
            Ok(Record::Lost(count)) => window.lost += count,
            Ok(Record::Throttle) => window.throttled += 1,
            Ok(Record::Fork { pid, parent }) if window.pids.contains(&parent) => {
                window.pids.insert(pid);
            }
            Ok(_) => {}
            Err(_) => window.lost += 1,
        }
    }

    fn on_cpu(&mut self, sample: &Sample<'_>) {
        let stack = self.unwind(sample);
        if let Some(window) = &mut self.window {
            *window.on_cpu.entry(stack).or_default() += 1;
        }
    }

    fn marked(&mut self, sample: &Sample<'_>) {
        let Some(mark) = Mark::parse(sample.raw, sample.tid) else {
            if let Some(window) = &mut self.window {
                window.lost += 1;
            }
            return;
        };
        let stack = self.unwind(sample);
        if let Some(window) = &mut self.window {
            window.marked.push((mark, stack));
        }
    }

    fn unwind(&mut self, sample: &Sample<'_>) -> RawId {
        let Self { images, processes, cache, frames, window, .. } = self;
        frames.clear();
        frames.extend(kernel_frames(&sample.kernel));
        let process = processes.entry(sample.pid).or_insert_with(|| {
            if let Some(window) = window {
                window.births = true;
            }
            Process::new(sample.pid, images)
        });
        let walk = sample.registers.map_or(Walk::Cut, |registers| {
            let taken = Taken { registers, stack: sample.stack, chain: &sample.user };
            process.walk(&taken, images, cache, frames)
        });
        let truncated = walk != Walk::Complete;
        if let Some(window) = &mut self.window {
            window.taken += 1;
            window.truncated += u64::from(truncated);
        }
        self.stacks.intern(&self.frames, truncated)
    }
}

/// All but the innermost are return addresses, which may lie in the function after the call.
fn kernel_frames(addresses: &[u64]) -> impl Iterator<Item = RawFrame> {
    let lookup = |(index, address): (usize, &u64)| address.saturating_sub(u64::from(index > 0));
    addresses.iter().enumerate().map(lookup).map(RawFrame::Kernel)
}

/// What the reader's thread and its owner share.
pub(crate) struct Shared {
    reader: Mutex<Reader>,
    /// Readable when the thread has to look at what has changed.
    doorbell: OwnedFd,
    cpu: AtomicU64,
}

impl Shared {
    /// A reader of these rings.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub(crate) fn new(rings: Vec<Ring>) -> io::Result<Self> {
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let reader = Mutex::new(Reader { rings, ..Reader::default() });
        Ok(Self { reader, doorbell, cpu: AtomicU64::new(0) })
    }

    /// The reader, between two rounds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread that a window began.
    pub(crate) fn wake(&self) {
        // It can only fail where 2^64 calls went unheard.
        let _ = rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes());
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.wake();
    }

    /// CPU time of the thread so far, in ns.
    pub(crate) fn cpu(&self) -> u64 {
        self.cpu.load(Ordering::Relaxed)
    }

    /// The body of the reader's thread: a round whenever a ring is half full, else sleep.
    pub(crate) fn run(&self) {
        crate::sys::run_first();
        let mut waiting = Vec::new();
        loop {
            let mut reader = self.lock();
            if reader.stop {
                return;
            }
            let rung = self.rung();
            if reader.window.is_none() {
                waiting.clear();
            } else if rung {
                waiting = reader.rings.iter().map(Ring::descriptor).map(Some).collect();
            }
            reader.drain();
            let by_clock = reader.window.is_some() && !reader.settled;
            drop(reader);
            self.cpu.store(own_cpu_time(), Ordering::Relaxed);
            self.rest(&mut waiting, by_clock);
        }
    }

    /// Whether the doorbell was rung since it was last asked.
    fn rung(&self) -> bool {
        rustix::io::read(&self.doorbell, &mut [0; 8]).is_ok()
    }

    /// Sleeps until there is something to do. A ring that an ended thread leaves behind becomes
    /// `None` and is looked at by the clock: its descriptor would never let anybody sleep again.
    fn rest(&self, waiting: &mut [Option<Arc<OwnedFd>>], by_clock: bool) {
        let round = (by_clock || waiting.iter().any(Option::is_none)).then_some(&ROUND);
        let watched = waiting.iter().flatten().map(|ring| PollFd::new(ring, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> =
            watched.chain([PollFd::new(&self.doorbell, PollFlags::IN)]).collect();
        // An interrupted sleep is a short one.
        let _ = poll(&mut polled, round);
        let left: Vec<bool> =
            polled.iter().map(|fd| fd.revents().intersects(PollFlags::HUP)).collect();
        for (ring, left) in waiting.iter_mut().filter(|ring| ring.is_some()).zip(left) {
            if left {
                *ring = None;
            }
        }
    }
}

fn own_cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::process::Anonymous;
    use super::*;

    #[test]
    fn compiled_code_is_found_whoever_asked_for_the_stack() {
        let at = |address| RawFrame::Anonymous(Anonymous { pid: 7, address, offset: address });
        let mut reader = Reader::default();
        let by_clock = reader.stacks.intern(&[at(16)], false);
        let by_program = reader.stacks.intern(&[RawFrame::Kernel(1), at(32), at(48)], false);
        let mark = Mark { id: 0, p: 1 << 32, kind: 3, tid: 7, taken_in: 7 };
        reader.window = Some(RawWindow {
            on_cpu: BTreeMap::from([(by_clock, 1)]),
            marked: vec![(mark, by_program), (mark, by_program)],
            ..RawWindow::default()
        });
        assert_eq!(reader.compiled(7).collect::<Vec<_>>(), [16, 32]);
        assert_eq!(reader.compiled(8).count(), 0);
    }

    #[test]
    fn a_mark_is_read_as_the_program_lays_it_out() {
        let mut raw = 5_u64.to_ne_bytes().to_vec();
        raw.extend((1_u64 << 32).to_ne_bytes());
        raw.extend(2_u32.to_ne_bytes());
        raw.extend(77_u32.to_ne_bytes());
        assert_eq!(Mark::parse(&raw[..23], 9), None);
        raw.extend([0; 4]);
        let mark = Mark { id: 5, p: 1 << 32, kind: 2, tid: 77, taken_in: 9 };
        assert_eq!(Mark::parse(&raw, 9), Some(mark));
    }

    #[test]
    fn calls_are_looked_up_not_returns() {
        let frames: Vec<_> = kernel_frames(&[100, 200, 300]).collect();
        assert_eq!(frames, [100, 199, 299].map(RawFrame::Kernel));
    }
}

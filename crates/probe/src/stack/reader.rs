//! Drains the rings and unwinds at once, so that no stack copy has to be kept.

use super::names::{RawId, RawStacks};
use super::perf::Ring;
use super::process::{Images, Process, RawFrame, Walk};
use super::record::{Record, Sample, parse_record, split_record};
use framehop::x86_64::CacheX86_64;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the reader sleeps between two rounds over the rings.
const ROUND: Duration = Duration::from_millis(20);

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
}

impl Mark {
    fn parse(raw: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(raw.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_ne_bytes(raw.get(at..at + 4)?.try_into().ok()?));
        Some(Self { id: word(0)?, p: word(8)?, kind: half(16)?, tid: half(20)? })
    }
}

/// One window, in numbers.
#[derive(Debug, Default)]
pub(crate) struct RawWindow {
    pids: BTreeSet<u32>,
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
    cache: CacheX86_64,
    window: Option<RawWindow>,
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

    /// Reads what is left and ends the window.
    pub(crate) fn end(&mut self) -> RawWindow {
        self.drain();
        self.window.take().unwrap_or_default()
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
        let Some(mark) = Mark::parse(sample.raw) else {
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
        let Self { images, processes, cache, frames, .. } = self;
        frames.clear();
        frames.extend(kernel_frames(&sample.kernel));
        let process =
            processes.entry(sample.pid).or_insert_with(|| Process::new(sample.pid, images));
        let walk = sample.registers.map_or(Walk::Cut, |registers| {
            process.walk(registers, sample.stack, images, cache, frames)
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
#[derive(Default)]
pub(crate) struct Shared {
    reader: Mutex<Reader>,
    woken: Condvar,
    cpu: AtomicU64,
}

impl Shared {
    /// The reader, between two rounds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread that a window began.
    pub(crate) fn wake(&self) {
        self.woken.notify_all();
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

    /// The body of the reader's thread: rounds while a window is open, else sleep.
    pub(crate) fn run(&self) {
        crate::sys::run_first();
        loop {
            let mut reader = self.lock();
            while reader.window.is_none() && !reader.stop {
                reader = self.woken.wait(reader).unwrap_or_else(PoisonError::into_inner);
            }
            if reader.stop {
                return;
            }
            reader.drain();
            drop(reader);
            self.cpu.store(own_cpu_time(), Ordering::Relaxed);
            std::thread::sleep(ROUND);
        }
    }
}

fn own_cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_the_program_lays_it_out() {
        let mut raw = 5_u64.to_ne_bytes().to_vec();
        raw.extend((1_u64 << 32).to_ne_bytes());
        raw.extend(2_u32.to_ne_bytes());
        raw.extend(77_u32.to_ne_bytes());
        assert_eq!(Mark::parse(&raw[..23]), None);
        raw.extend([0; 4]);
        assert_eq!(Mark::parse(&raw), Some(Mark { id: 5, p: 1 << 32, kind: 2, tid: 77 }));
    }

    #[test]
    fn calls_are_looked_up_not_returns() {
        let frames: Vec<_> = kernel_frames(&[100, 200, 300]).collect();
        assert_eq!(frames, [100, 199, 299].map(RawFrame::Kernel));
    }
}

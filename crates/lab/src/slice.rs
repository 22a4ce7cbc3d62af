//! One slice: clients start, the ramp passes, a window is watched and counted, clients stop.

use crate::clock::{Clock, sleep};
use anyhow::Result;
use kneepoint_probe::{CpuMeter, Probe, Target};
use kneepoint_rig::{SliceOutput, System};
use kneepoint_vocab::{Fact, Nanos, Pollution, StackRecord, Window};
use std::sync::atomic::AtomicBool;

/// How to take a slice.
pub(crate) struct Shape {
    pub(crate) clients: u32,
    pub(crate) ramp: Nanos,
    pub(crate) length: Nanos,
}

/// What a slice brought.
pub(crate) struct Taken {
    pub(crate) window: Window,
    pub(crate) output: SliceOutput,
    pub(crate) pollution: Pollution,
    pub(crate) facts: Vec<Fact>,
    pub(crate) stacks: Vec<StackRecord>,
}

/// Takes a slice, watched by `probe` where there is one.
///
/// The counting window opens before and closes after the probe's, by the time a request to the
/// system takes; both are divided by their own lengths.
pub(crate) fn take(
    system: &mut dyn System,
    mut probe: Option<&mut Probe>,
    shape: &Shape,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Taken> {
    let clients = system.begin(shape.clients)?;
    let target = Target { pids: system.pids(), clients, generators: Vec::new() };
    sleep(shape.ramp, stop);
    let meter = CpuMeter::start(&target);
    system.mark()?;
    if let Some(probe) = probe.as_deref_mut() {
        probe.open(&target)?;
    }
    let begin = clock.now();
    sleep(shape.length, stop);
    if let Some(probe) = probe.as_deref_mut() {
        probe.freeze()?;
    }
    let end = clock.now();
    let reading = meter.finish();
    let output = system.finish()?;
    let observation = probe.map(Probe::collect).transpose()?;
    let (facts, stacks) =
        observation.map_or((Vec::new(), Vec::new()), |seen| (seen.facts, seen.new_stacks));
    let exact = facts.iter().find_map(|fact| match fact {
        Fact::CoreTime(core) if core.total.0 > 0 => {
            Some(kneepoint_vocab::Ratio(core.foreign.seconds().0 / core.total.seconds().0))
        }
        _ => None,
    });
    Ok(Taken {
        window: Window { begin, length: Nanos(end.0 - begin.0) },
        output,
        pollution: Pollution { foreign: exact.unwrap_or(reading.foreign), steal: reading.steal },
        facts,
        stacks,
    })
}

//! One slice: clients start and settle, a window is watched and counted, clients stop.

use crate::clock::{Clock, sleep};
use crate::settle::{Course, STEP};
use anyhow::Result;
use kneepoint_probe::{CpuMeter, Instruments, Probe, Target};
use kneepoint_rig::{CpuSets, Drive, SliceOutput, System};
use kneepoint_vocab::{Fact, Interference, Nanos, Settling, Stability, StackRecord, Window};
use std::sync::atomic::{AtomicBool, Ordering};

/// How to take a slice.
pub(crate) struct Shape {
    pub(crate) clients: u32,
    pub(crate) cpus: CpuSets,
    /// The least from the start of the clients to the window,
    pub(crate) ramp: Nanos,
    /// and the most, where they tell whether they have settled.
    pub(crate) settle: Nanos,
    pub(crate) length: Nanos,
}

/// What a slice brought.
pub(crate) struct Taken {
    pub(crate) window: Window,
    pub(crate) output: SliceOutput,
    pub(crate) stability: Option<Stability>,
    pub(crate) settling: Option<Settling>,
    pub(crate) interference: Interference,
    pub(crate) facts: Vec<Fact>,
    pub(crate) stacks: Vec<StackRecord>,
}

/// Takes a slice, watched by `probe` where there is one.
///
/// The counting window opens before and closes after the probe's, by the time that takes the
/// system and the probe; both are divided by their own lengths.
pub(crate) fn take(
    system: &mut dyn System,
    mut probe: Option<&mut Probe>,
    shape: &Shape,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Taken> {
    let drive = Drive {
        clients: shape.clients,
        lasts: shape.ramp.max(shape.settle) + shape.length,
        cpus: shape.cpus.clone(),
    };
    let clients = system.begin(&drive)?;
    let started = clock.now();
    let mut target = Target {
        pids: system.pids(),
        clients,
        generators: system.generators(),
        cpus: shape.cpus.system.clone(),
    };
    let mut course = Course::default();
    settle(system, shape, clock, stop, &mut course)?;
    target.clients = system.settled_clients(shape.clients).unwrap_or(target.clients);
    // Only beside the collector: slices without it show what watching costs, all of it.
    let mut instruments = probe.is_some().then(|| Instruments::start(&target));
    let meter = CpuMeter::start(&target);
    system.mark()?;
    if let Some(probe) = probe.as_deref_mut() {
        probe.open(&target)?;
    }
    let begin = clock.now();
    while_working(system, shape.length, clock, stop, instruments.as_mut(), &mut course)?;
    if let Some(probe) = probe.as_deref_mut() {
        probe.freeze()?;
    }
    let end = clock.now();
    system.close()?;
    let reading = meter.finish();
    let shown = instruments.map(Instruments::finish);
    let output = system.finish()?;
    let stability = system.stability();
    let observation = probe.map(Probe::collect).transpose()?;
    let (mut facts, stacks) =
        observation.map_or((Vec::new(), Vec::new()), |seen| (seen.facts, seen.new_stacks));
    facts.extend(shown.into_iter().flatten());
    let exact = facts.iter().find_map(|fact| match fact {
        Fact::CoreTime(core) if core.total.0 > 0 => {
            Some(kneepoint_vocab::Ratio(core.others.seconds().0 / core.total.seconds().0))
        }
        _ => None,
    });
    Ok(Taken {
        window: Window { begin, length: Nanos(end.0 - begin.0) },
        output,
        stability,
        settling: course.settling(Nanos(begin.0 - started.0)),
        interference: Interference {
            others: exact.unwrap_or(reading.others),
            steal: reading.steal,
        },
        facts,
        stacks,
    })
}

/// Waits until the clients have settled, where they can tell, at least for the ramp.
fn settle(
    system: &mut dyn System,
    shape: &Shape,
    clock: &Clock,
    stop: &AtomicBool,
    course: &mut Course,
) -> Result<()> {
    let begun = clock.now();
    let most = shape.settle.max(shape.ramp);
    if shape.settle == Nanos(0) || !course.look(system)? {
        sleep(shape.ramp, stop);
        return Ok(());
    }
    loop {
        let passed = Nanos(clock.now().0 - begun.0);
        let enough = passed >= shape.ramp && course.settled();
        if enough || passed >= most || stop.load(Ordering::Relaxed) || !system.working()? {
            return Ok(());
        }
        sleep(STEP.min(Nanos(most.0 - passed.0)), stop);
        course.look(system)?;
    }
}

/// How often a working system is asked whether it still works. Each look interrupts what is
/// measured, and a quickly passed lock pays for that many times over.
const GLANCE: Nanos = Nanos::from_millis(100);

/// Sleeps so long, or until the clients have done all that they were to do. Meanwhile the
/// instruments look now and then.
fn while_working(
    system: &mut dyn System,
    length: Nanos,
    clock: &Clock,
    stop: &AtomicBool,
    mut instruments: Option<&mut Instruments>,
    course: &mut Course,
) -> Result<()> {
    let until = clock.now() + length;
    loop {
        let left = Nanos(until.0.saturating_sub(clock.now().0));
        if left.0 == 0 || stop.load(Ordering::Relaxed) || !system.working()? {
            return Ok(());
        }
        sleep(left.min(GLANCE), stop);
        course.look(system)?;
        if let Some(instruments) = instruments.as_deref_mut() {
            instruments.look();
        }
    }
}

//! One slice: clients start and settle, a window is watched and counted, clients stop.

use crate::clock::{Clock, sleep};
use crate::settle::{Course, STEP};
use anyhow::Result;
use kneepoint_machine::here;
use kneepoint_machine::windows::{Target, Windows};
use kneepoint_probe::proc::tasks;
use kneepoint_probe::{CpuMeter, Instruments, MeterReading, Switching};
use kneepoint_rig::{CpuSets, Drive, SliceOutput, System};
use kneepoint_vocab::{
    Fact, Interference, MachineName, Nanos, Ratio, Settling, Stability, StackRecord, Window,
};
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
    /// What it takes beside that to prepare the window.
    pub(crate) preparing: Nanos,
    /// Whether only a part of it is watched where that costs much: not where the clients may be
    /// done long before its end.
    pub(crate) thinned: bool,
}

/// What a slice brought.
pub(crate) struct Taken {
    /// The machine that the facts are of.
    pub(crate) machine: MachineName,
    /// What was watched; all of the slice where nobody watched.
    pub(crate) window: Window,
    /// From edge to edge of what was counted.
    pub(crate) counted: Nanos,
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
/// system and the probe, and where watching costs much by the beginning of the slice, which is not
/// watched; both are divided by their own lengths.
pub(crate) fn take(
    system: &mut dyn System,
    mut probe: Option<&mut dyn Windows>,
    shape: &Shape,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<Taken> {
    let drive = Drive {
        clients: shape.clients,
        lasts: shape.ramp.max(shape.settle) + shape.preparing + shape.length,
        cpus: shape.cpus.clone(),
    };
    if let Some(probe) = probe.as_deref_mut().filter(|_| !shape.thinned) {
        probe.ready()?;
    }
    let machine = probe.as_ref().map_or_else(|| here().machine(), |probe| probe.machine());
    let clients = system.begin(&drive)?;
    let started = clock.now();
    let mut target = Target {
        pids: system.pids(),
        clients,
        generators: system.generators(),
        cpus: shape.cpus.system.clone(),
    };
    // To read every process parts clients from the threads that serve them, and it takes them a
    // second to find each other: they have the time to settle for that. The instruments read only
    // beside the collector: slices without it show what watching costs, all of it.
    let mut instruments = probe.is_some().then(|| Instruments::start(&target));
    let meter = CpuMeter::start(&target);
    let mut course = Course::default();
    let switching = Switching::start();
    settle(system, shape, clock, stop, &mut course)?;
    target.clients = system.settled_clients(shape.clients).unwrap_or(target.clients);
    let share = probe
        .as_deref()
        .map_or(Ratio(1.0), |probe| watched_share(probe, shape, &switching, &target, stop));
    let watched = part(shape.length, share);
    let before = Nanos(shape.length.0 - watched.0);
    if let Some(probe) = probe.as_deref_mut() {
        probe.prepare(&target)?;
    }
    system.mark()?;
    let begin = clock.now();
    let mut work = |system: &mut dyn System, until: Nanos| {
        while_working(system, until, clock, stop, instruments.as_mut(), &mut course)
    };
    work(system, begin + before)?;
    if let Some(probe) = probe.as_deref_mut() {
        probe.open(&target)?;
    }
    let opened = clock.now();
    work(system, opened + watched)?;
    if let Some(probe) = probe.as_deref_mut() {
        probe.freeze()?;
    }
    let frozen = clock.now();
    system.close()?;
    let counted = Nanos(clock.now().0 - begin.0);
    let reading = meter.finish();
    let shown = instruments.map(Instruments::finish);
    let output = system.finish()?;
    let stability = system.stability();
    let observation = probe.map(Windows::collect).transpose()?;
    let (mut facts, stacks) =
        observation.map_or((Vec::new(), Vec::new()), |seen| (seen.facts, seen.new_stacks));
    facts.extend(shown.into_iter().flatten());
    Ok(Taken {
        machine,
        window: Window { begin: opened, length: Nanos(frozen.0 - opened.0) },
        counted,
        output,
        stability,
        settling: course.settling(Nanos(begin.0 - started.0)),
        // Of all that was counted, not only of what was watched.
        interference: interference(&reading, if before == Nanos(0) { &facts } else { &[] }),
        facts,
        stacks,
    })
}

/// What others took: as the collector saw it where it did, else by the clocks of processes.
fn interference(reading: &MeterReading, facts: &[Fact]) -> Interference {
    let exact = facts.iter().find_map(|fact| match fact {
        Fact::CoreTime(core) if core.total.0 > 0 => {
            Some(Ratio(core.others.seconds().0 / core.total.seconds().0))
        }
        _ => None,
    });
    Interference { others: exact.unwrap_or(reading.others), steal: reading.steal }
}

/// The part of a slice to watch, by how often threads switch.
fn watched_share(
    probe: &dyn Windows,
    shape: &Shape,
    switching: &Switching,
    target: &Target,
    stop: &AtomicBool,
) -> Ratio {
    if !shape.thinned {
        return Ratio(1.0);
    }
    sleep(switching.left(), stop);
    let cores = target.cpus_of(&tasks::allowed_cpus()).len();
    probe.share(switching.per_core(cores))
}

/// How long it is watched: its end.
fn part(length: Nanos, share: Ratio) -> Nanos {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a part of a slice, which is seconds"
    )]
    let watched = (length.0 as f64 * share.0) as u64;
    Nanos(watched.min(length.0))
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

/// Sleeps until then, or until the clients have done all that they were to do. Meanwhile the
/// instruments look now and then.
fn while_working(
    system: &mut dyn System,
    until: Nanos,
    clock: &Clock,
    stop: &AtomicBool,
    mut instruments: Option<&mut Instruments>,
    course: &mut Course,
) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_watched_than_there_is() {
        let second = Nanos::from_millis(1000);
        assert_eq!(part(second, Ratio(1.0)), second);
        assert_eq!(part(second, Ratio(0.4)), Nanos::from_millis(400));
        assert_eq!(part(second, Ratio(1.5)), second);
    }
}

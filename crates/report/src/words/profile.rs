//! Words of a profile, the same in every format.

use super::line::of_profile;
use crate::number;
use crate::number::sentence;
use kneepoint_vocab::findings::{CauseKind, Collector, CoreLine, LineKind};
use kneepoint_vocab::{Cores, Profile, Ratio, Unit};

/// A line below this part of C, or of the threads, has no word in the headline.
const LEAST: f64 = 0.01;

/// What a line is. CPU of a function is neither more nor less than it should be: nobody knows.
pub(crate) const fn kind(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Useful | LineKind::ExtraCpu => "CPU",
        LineKind::Kernel => "kernel",
        LineKind::Generator => "generator",
        LineKind::Interrupt => "interrupts",
        LineKind::Others => "others",
        LineKind::IdleLock | LineKind::IdleKernelLock => "lock",
        LineKind::IdleDevice => "device",
        LineKind::IdleThread => "thread",
        LineKind::IdleOther => "wait",
        LineKind::IdleScheduler => "scheduler",
        LineKind::IdleNoWork => "no work",
        LineKind::Running => "running",
        LineKind::Runnable => "runnable",
        LineKind::Unaccounted => "open",
    }
}

/// `collector 1.1 % of CPU`: its programs and its reader together.
pub(crate) fn cost(collector: &Collector) -> Option<String> {
    let programs = collector.programs.as_ref().map_or(0.0, |cost| cost.value.get());
    let reader = collector.reader.map_or(0.0, Unit::get);
    let all = programs + reader;
    (all > 0.0).then(|| format!("collector {} of CPU", number::plain_percent(Ratio(all))))
}

/// How many threads there were: whole where that is nearly so.
pub(crate) fn threads(profile: &Profile) -> String {
    let threads = profile.threads.0;
    let whole = (threads - threads.round()).abs() < 0.05;
    if whole { format!("{threads:.0}") } else { number::plain_mean(profile.threads) }
}

/// `Busy 9.8 of 16 cores; 3.1 idle for mutex in f; 3.1 idle with nothing to do, or for others.` It
/// speaks of where time goes, never of scaling.
pub(crate) fn headline(profile: &Profile) -> String {
    if profile.windows == 0 {
        return format!("Nothing was seen of {}.", profile.subject);
    }
    let mut text = where_cores_go(profile).join("; ") + ".";
    if let Some(operations) = &profile.operations {
        text += &format!(
            " {} operations/s, {} of CPU each.",
            sentence::quantity(operations.rate.value),
            sentence::duration(operations.cpu.value)
        );
    }
    let waits = profile.causes.iter().filter(|one| one.cause.kind != CauseKind::Scheduler);
    if let Some(first) = waits.max_by(|a, b| a.threads.value.0.total_cmp(&b.threads.value.0))
        && first.threads.value.0 >= LEAST * profile.threads.0
    {
        text += &format!(
            " Of {} threads {} wait for {}.",
            sentence::quantity(profile.threads),
            sentence::quantity(first.threads.value),
            first.cause.name
        );
    }
    text
}

/// What is busy, and what idles for whom.
fn where_cores_go(profile: &Profile) -> Vec<String> {
    let least = |cores: Cores| cores.0 >= LEAST * profile.cores.0;
    let busy = sentence::quantity(profile.busy.value);
    let mut parts = vec![format!("Busy {busy} of {} cores", sentence::quantity(profile.cores))];
    let lines = || profile.core_lines.iter();
    let others = sum(lines().filter(|line| line.kind == LineKind::Others));
    if least(others) {
        parts.push(format!("{} used by others", sentence::quantity(others)));
    }
    let (blamed, idle): (Vec<&CoreLine>, Vec<&CoreLine>) = lines()
        .filter(|line| line.kind.is_idle())
        .partition(|line| line.cause.is_some() && least(line.cores.value));
    for line in blamed {
        parts.push(format!("{} {}", sentence::quantity(line.cores.value), of_profile(&line.name)));
    }
    let rest = sum(idle);
    if least(rest) {
        let quantity = sentence::quantity(rest);
        parts.push(format!("{quantity} idle with nothing to do, or for others"));
    }
    parts
}

fn sum<'a>(lines: impl IntoIterator<Item = &'a CoreLine>) -> Cores {
    lines.into_iter().map(|line| line.cores.value).sum()
}

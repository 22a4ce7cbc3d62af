//! Words of a profile, the same in every format.

use crate::number;
use kneepoint_vocab::findings::{Collector, LineKind};
use kneepoint_vocab::{Profile, Ratio, Unit};

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

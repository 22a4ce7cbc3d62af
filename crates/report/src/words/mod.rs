//! The words for what findings name by kind, the same in every format.

mod aside;
mod cause;
pub(crate) mod caveat;
pub(crate) mod chain;
pub(crate) mod comparison;
pub(crate) mod cross;
pub(crate) mod difference;
mod evidence;
mod headline;
mod limits;
pub(crate) mod line;
pub(crate) mod locks;
mod loss;
pub(crate) mod next;
pub(crate) mod price;
pub(crate) mod profile;
pub(crate) mod stability;
mod stalls;
mod trust;

pub(crate) use aside::{at_bound, busy_functions, idle_account, shared_out, superlinear};
pub(crate) use cause::{evidence, source_line};
pub(crate) use evidence::{
    bench_price, counts, generator, imported, odd_sum, owner, precision, protocol, saturated,
    source, whole_percent,
};
pub(crate) use headline::headline;
pub(crate) use limits::bottleneck;
pub(crate) use loss::{Loss, busiest, functions, loss};
pub(crate) use trust::{Trust, TrustWord, overhead, trust};

use crate::number;
pub(crate) use crate::number::counted;
use kneepoint_vocab::findings::{
    Cause, CauseKind, Charge, Curve, Effect, LineKind, Severity, Shape, TreatedCurve, Verdict,
};
use kneepoint_vocab::{CodeKind, Findings, Level, Proven, Tier, VariantRole};

/// What varies along a run's levels, and so how a level is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Clients,
    Cores,
    Both,
}

impl Axis {
    /// What varies over the whole run.
    pub(crate) fn of(findings: &Findings) -> Self {
        let others = findings.by_cores.iter().map(|one| &one.curve);
        let curves = std::iter::once(&findings.curve).chain(others);
        Self::along(curves.flat_map(|curve| &curve.points).map(|point| point.level))
    }

    /// What varies along these levels.
    pub(crate) fn along(mut levels: impl Iterator<Item = Level>) -> Self {
        let Some(first) = levels.next() else { return Self::Clients };
        let (mut clients, mut cores) = (false, false);
        for level in levels {
            clients |= level.clients != first.clients;
            cores |= level.cores != first.cores;
        }
        match (clients, cores) {
            (true, true) => Self::Both,
            (false, true) => Self::Cores,
            _ => Self::Clients,
        }
    }

    /// The word along the axis.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Cores => "cores",
            Self::Both => "clients on cores",
        }
    }

    /// A tick label.
    pub(crate) fn tick(self, level: Level) -> String {
        match self {
            Self::Clients => level.clients.to_string(),
            Self::Cores => level.cores.to_string(),
            Self::Both => format!("{}/{}", level.clients, level.cores),
        }
    }

    /// In a sentence: `2 clients`.
    pub(crate) fn phrase(self, level: Level) -> String {
        let clients = counted(level.clients, "client");
        let cores = counted(level.cores, "core");
        match self {
            Self::Clients => clients,
            Self::Cores => cores,
            Self::Both => format!("{clients} on {cores}"),
        }
    }
}

/// CSS class and colour family of a kind of line.
pub(crate) const fn class(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Useful => "k-useful",
        LineKind::ExtraCpu => "k-extra-cpu",
        LineKind::Kernel => "k-kernel",
        LineKind::Generator => "k-generator",
        LineKind::Interrupt => "k-interrupt",
        LineKind::Others => "k-others",
        LineKind::IdleLock => "k-idle-lock",
        LineKind::IdleKernelLock => "k-idle-kernel-lock",
        LineKind::IdleDevice => "k-idle-device",
        LineKind::IdleThread => "k-idle-thread",
        LineKind::IdleOther => "k-idle-other",
        LineKind::IdleScheduler => "k-idle-scheduler",
        LineKind::IdleNoWork => "k-idle-no-work",
        LineKind::Running => "k-running",
        LineKind::Runnable => "k-runnable",
        LineKind::Unaccounted => "k-unaccounted",
    }
}

/// Where a kind stands in a stack, from the ground up: busy first, then idle.
pub(crate) const fn order(kind: LineKind) -> u8 {
    match kind {
        LineKind::Useful => 0,
        LineKind::Running => 1,
        LineKind::ExtraCpu => 2,
        LineKind::Kernel => 3,
        LineKind::Generator => 4,
        LineKind::Interrupt => 5,
        LineKind::Others => 6,
        LineKind::Runnable => 7,
        LineKind::IdleScheduler => 8,
        LineKind::IdleLock => 9,
        LineKind::IdleKernelLock => 10,
        LineKind::IdleDevice => 11,
        LineKind::IdleThread => 12,
        LineKind::IdleOther => 13,
        LineKind::IdleNoWork => 14,
        LineKind::Unaccounted => 15,
    }
}

/// A short word for a kind of line, for narrow columns.
pub(crate) const fn line_word(kind: LineKind) -> &'static str {
    match kind {
        LineKind::Useful => "useful",
        LineKind::ExtraCpu => "extra CPU",
        LineKind::Kernel => "kernel",
        LineKind::Generator => "generator",
        LineKind::Interrupt => "interrupts",
        LineKind::Others => "others",
        LineKind::IdleLock => "idle: lock",
        LineKind::IdleKernelLock => "idle: kernel",
        LineKind::IdleDevice => "idle: device",
        LineKind::IdleThread => "idle: thread",
        LineKind::IdleOther => "idle: other",
        LineKind::IdleScheduler => "idle: sched",
        LineKind::IdleNoWork => "unused",
        LineKind::Running => "running",
        LineKind::Runnable => "runnable",
        LineKind::Unaccounted => "unaccounted",
    }
}

/// The word for what a cause is: what its code does, where that is known, else its kind.
pub(crate) fn word_of(cause: &Cause) -> &'static str {
    match cause.evidence.charge.code() {
        Some(CodeKind::Spin) => "spin",
        Some(CodeKind::Atomic) => "cache line",
        Some(CodeKind::Retry) => "retry",
        Some(CodeKind::Memory) => "memory",
        Some(CodeKind::Other) | None => match &cause.evidence.charge {
            Charge::Wait { wait } if wait.polls => "polling",
            _ => cause_word(cause.kind),
        },
    }
}

/// The word for a kind of cause.
pub(crate) const fn cause_word(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Lock => "lock",
        CauseKind::KernelLock => "kernel lock",
        CauseKind::Kernel => "kernel",
        CauseKind::Function => "function",
        CauseKind::Device => "device",
        CauseKind::Thread => "thread",
        CauseKind::Scheduler => "scheduler",
        CauseKind::Generator => "generator",
        CauseKind::Other => "other",
    }
}

/// The kind of ledger line, and so the colour, that a cause has.
pub(crate) const fn cause_line(kind: CauseKind) -> LineKind {
    match kind {
        CauseKind::Lock => LineKind::IdleLock,
        CauseKind::KernelLock => LineKind::IdleKernelLock,
        CauseKind::Kernel => LineKind::Kernel,
        CauseKind::Function => LineKind::ExtraCpu,
        CauseKind::Device => LineKind::IdleDevice,
        CauseKind::Thread => LineKind::IdleThread,
        CauseKind::Scheduler => LineKind::IdleScheduler,
        CauseKind::Generator => LineKind::Generator,
        CauseKind::Other => LineKind::IdleOther,
    }
}

/// The verdict in words, with the number that bounds it.
pub(crate) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Better => "better".to_owned(),
        Verdict::Worse => "worse".to_owned(),
        Verdict::NoEffect { smallest } => {
            let smallest = number::plain_percent(smallest).replace(".0 %", " %");
            format!("no effect (under {smallest})")
        }
        Verdict::Undecided { needs } => {
            format!("undecided; needs {} more", number::brief_seconds(needs))
        }
        Verdict::Invalid => "not proven active".to_owned(),
    }
}

/// The verdict on an effect, and whether its change was proven active at all.
pub(crate) fn outcome(effect: &Effect) -> String {
    if effect.role != VariantRole::Treatment && matches!(effect.verdict, Verdict::Undecided { .. })
    {
        // No verdict is asked of a control.
        return "a check".to_owned();
    }
    let verdict = verdict(effect.verdict);
    match effect.proven {
        Proven::Unproven if effect.role == VariantRole::Treatment => format!("{verdict}; unproven"),
        _ => verdict,
    }
}

/// CSS class of a verdict.
pub(crate) const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "v-better",
        Verdict::Worse => "v-worse",
        Verdict::NoEffect { .. } => "v-none",
        Verdict::Undecided { .. } => "v-undecided",
        Verdict::Invalid => "v-invalid",
    }
}

/// What the curve does after its peak, to follow the words 'the curve'.
pub(crate) const fn shape(shape: Shape) -> &'static str {
    match shape {
        Shape::Rising => "still rises at the last level",
        Shape::Flat => "stays level after its peak",
        Shape::Retrograde => "is retrograde: it falls after its peak",
        Shape::Collapse => "collapses: it falls below 0.7 of its peak",
    }
}

/// How much a caveat matters.
pub(crate) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Serious => "serious",
    }
}

/// How much the collector saw.
pub(crate) const fn tier(tier: Option<Tier>) -> &'static str {
    match tier {
        Some(Tier::Full) => "full: eBPF, every switch and wake-up of every thread",
        Some(Tier::Fallback) => "fallback: unprivileged, by reading /proc at intervals",
        None => "none: throughput only",
    }
}

/// The knee: `at 4 clients [2–8]`, bare where one repetition gives no interval, or why there is
/// none.
pub(crate) fn knee(curve: &Curve, axis: Axis) -> String {
    knee_place(curve, axis).map_or_else(|| no_knee(curve, axis), |place| format!("at {place}"))
}

/// The same as the value of a field: `4 clients [2–8]`.
pub(crate) fn knee_value(curve: &Curve, axis: Axis) -> String {
    knee_place(curve, axis).unwrap_or_else(|| no_knee(curve, axis))
}

fn knee_place(curve: &Curve, axis: Axis) -> Option<String> {
    let knee = &curve.knee;
    if curve.points.len() == 1 || knee.beyond_last {
        return None;
    }
    let within = Axis::along(curve.points.iter().map(|point| point.level));
    let tick = if axis == Axis::Both { within } else { axis };
    let at = axis.phrase(knee.level);
    if curve.points.iter().all(|point| number::is_bare(&point.throughput)) {
        return Some(at);
    }
    Some(format!("{at} [{}–{}]", tick.tick(knee.low), tick.tick(knee.high)))
}

fn no_knee(curve: &Curve, axis: Axis) -> String {
    match &curve.points[..] {
        [_] => "not shown by one level".to_owned(),
        [.., last] => format!("beyond {}", axis.phrase(last.level)),
        [] => "not reached".to_owned(),
    }
}

/// How far a treated variant scales, in a clause: `rises to 1.90× at 2`.
pub(crate) fn rise(treated: &TreatedCurve, axis: Axis) -> String {
    let rises = treated.speedup.value.0 > 1.0;
    let first = treated.curve.points.first().map(|point| axis.tick(point.level));
    match first {
        Some(first) if !rises => format!("most at {first}"),
        _ => {
            let times = number::factor(&treated.speedup).value;
            format!("rises to {times} at {}", axis.tick(treated.curve.peak))
        }
    }
}

/// A treated variant's curve in sentences, beside the baseline's.
pub(crate) fn treated(treated: &TreatedCurve, axis: Axis) -> String {
    let further = number::factor(&treated.further);
    let verdict = if treated.further.low.0 > 1.0 {
        format!("It scales further than the baseline: {further} of its speed-up.")
    } else if treated.further.high.0 < 1.0 {
        format!("It scales less far than the baseline: {further} of its speed-up.")
    } else {
        format!("That it scales further than the baseline is not shown: {further} of its speed-up.")
    };
    let first = treated.curve.points.first().map(|point| axis.phrase(point.level));
    format!(
        "With {}: knee {}; the curve {}. Its peak at {} is {} of its throughput at {}, the \
         baseline's {}. {verdict} Peak over peak it is {} of the baseline.",
        treated.label,
        knee(&treated.curve, axis),
        shape(treated.curve.shape),
        axis.phrase(treated.curve.peak),
        number::factor(&treated.speedup),
        first.unwrap_or_default(),
        number::factor(&treated.baseline_speedup),
        number::factor(&treated.over_baseline)
    )
}

/// `Linux 6.18.44-vendor` as `Linux 6.18`; anything else as it is.
pub(crate) fn short_kernel(kernel: &str) -> String {
    let mut parts = kernel.splitn(3, '.');
    let (Some(name), Some(minor)) = (parts.next(), parts.next()) else {
        return kernel.to_owned();
    };
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    if digits.is_empty() { kernel.to_owned() } else { format!("{name}.{digits}") }
}

/// `Debian GNU/Linux 12 (bookworm)` as `Debian 12`.
pub(crate) fn short_distribution(name: &str) -> String {
    let named = name.split('(').next().unwrap_or(name);
    let kept = named.split_whitespace().filter(|word| !matches!(*word, "GNU/Linux" | "Linux"));
    kept.collect::<Vec<_>>().join(" ")
}

/// The label of the variant that cured a cause, with its ratio.
pub(crate) fn cure<'a>(findings: &'a Findings, cause: &Cause) -> Option<&'a Effect> {
    let variant = cause.cured_by.as_ref()?;
    findings.effects.iter().find(|effect| &effect.variant == variant)
}

/// What a decided effect did to throughput: `6.8k → 20.7k`; nothing where that is not known.
pub(crate) fn gain(findings: &Findings, effect: &Effect) -> Option<String> {
    if !matches!(effect.verdict, Verdict::Better | Verdict::Worse) {
        return None;
    }
    let before = match findings.effects.iter().find(|other| other.variant == effect.over) {
        Some(other) => other.throughput?.value,
        None => {
            let tried = findings.effects_at.unwrap_or(findings.focus);
            findings.curve.points.iter().find(|one| one.level == tried)?.throughput.value
        }
    };
    let after = effect.throughput?.value;
    Some(format!("{} → {}", number::plain_rate(before), number::plain_rate(after)))
}

/// What an effect is measured against: nothing where that is the baseline.
pub(crate) fn over(findings: &Findings, effect: &Effect) -> Option<String> {
    if effect.over.0 == kneepoint_vocab::VariantId::BASELINE {
        return None;
    }
    let named = findings.effects.iter().find(|other| other.variant == effect.over);
    Some(named.map_or_else(|| effect.over.0.clone(), |other| other.label.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_shortly() {
        assert_eq!(short_kernel("Linux 6.18.44-fc-v657"), "Linux 6.18");
        assert_eq!(short_kernel("Linux 6.1-rc3"), "Linux 6.1");
        assert_eq!(short_kernel("Linux"), "Linux");
        assert_eq!(short_distribution("Debian GNU/Linux 12 (bookworm)"), "Debian 12");
        assert_eq!(short_distribution("Ubuntu 24.04.1 LTS"), "Ubuntu 24.04.1 LTS");
        assert_eq!(short_distribution("Fedora Linux 40 (Server)"), "Fedora 40");
    }
}

//! The story in one sentence.

use crate::by_cores::Fewer;
use crate::generator::remedy;
use crate::saturation::words_of;
use crate::{Limits, Swept, words};
use kneepoint_vocab::findings::{Cause, CauseKind, Curve, Effect, Shape, TreatedCurve, Verdict};
use kneepoint_vocab::{ArmId, ArmRole, Estimate, Ratio, TaskOwner};

/// What the sentence is made from.
pub(crate) struct Told<'a> {
    pub(crate) sweep: &'a Swept,
    pub(crate) causes: &'a [Cause],
    pub(crate) scales: bool,
    pub(crate) limits: &'a Limits,
    pub(crate) effects: &'a [Effect],
}

/// Where it stops scaling, why, and what cures it.
pub(crate) fn headline(told: &Told<'_>) -> String {
    if told.sweep.curve.points.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let mut parts = vec![scaling(told)];
    parts.extend(told.sweep.fewer.as_ref().map(fewer_cores));
    let limits = told.limits.limiting_generator();
    parts.extend(limits.map(|one| format!("the load generator limits it: {}", remedy(one))));
    parts.extend(told.causes.first().map(reason));
    parts.extend(saturated(told, limits.is_some()));
    let (cured, by) = cure(told.causes, told.effects);
    parts.extend(cured);
    if let Some(further) = furthest(&told.sweep.treated.curves) {
        let treated = scales_with(further);
        match (parts.last_mut(), by) {
            (Some(cured), Some(arm)) if *arm == further.arm => {
                cured.push_str(&format!(", which {treated}"));
            }
            _ => parts.push(format!("{} {treated}", further.label)),
        }
    }
    format!("{}.", parts.join("; "))
}

/// The treatment that scales furthest, of those that do so further than the baseline.
fn furthest(treated: &[TreatedCurve]) -> Option<&TreatedCurve> {
    let known = |one: &&TreatedCurve| one.further.half_width() > 0.0;
    let further = treated.iter().filter(known).filter(|one| one.further.low.0 > 1.0);
    further.max_by(|a, b| a.speedup.value.0.total_cmp(&b.speedup.value.0))
}

/// `scales 1.90× to 2 clients`.
fn scales_with(treated: &TreatedCurve) -> String {
    let clients = words::counted(treated.curve.peak.clients, "client");
    format!("scales {} to {clients}", rounded(&treated.speedup))
}

fn fewer_cores(fewer: &Fewer) -> String {
    let times = words::times(fewer.ratio.value.0);
    format!("fastest on {} of {} cores, {times} of what all give", fewer.cores, fewer.than)
}

/// The busiest saturated thread, unless a cause or the word on the generator names it already.
fn saturated(told: &Told<'_>, generator_limits: bool) -> Option<String> {
    let first = told.limits.saturated.iter().find(|task| {
        let named = told.causes.first().is_some_and(|cause| cause.name.contains(&task.name));
        !(named || generator_limits && task.owner == TaskOwner::Generator)
    });
    first.map(words_of)
}

fn scaling(told: &Told<'_>) -> String {
    let (curve, scales) = (&told.sweep.curve, told.scales);
    let mut knee = words::counted(curve.knee.level.clients, "client");
    if told.sweep.by_cores.len() > 1 {
        knee.push_str(&format!(" on {}", words::counted(curve.knee.level.cores, "core")));
    }
    if curve.points.len() == 1 {
        return format!("Measured at {knee} only");
    }
    if curve.knee.beyond_last {
        return format!("Still rises at {knee}: the knee lies beyond");
    }
    let fall = match (curve.shape, lowest_after_peak(curve)) {
        (Shape::Collapse | Shape::Retrograde, Some((clients, ratio))) => {
            format!(", falls to {} at {clients}", words::times(ratio))
        }
        _ => String::new(),
    };
    if scales && fall.is_empty() {
        return format!("Scales as far as the cores reach, full at {knee}");
    }
    format!("Stops scaling at {knee}{fall}")
}

/// The deepest point behind the peak, over the peak.
fn lowest_after_peak(curve: &Curve) -> Option<(u32, f64)> {
    let peak = curve.points.iter().position(|point| point.level == curve.peak)?;
    let most = curve.points[peak].throughput.value.0;
    curve.points[peak + 1..]
        .iter()
        .map(|point| {
            let ratio = crate::number::quotient(point.throughput.value.0, most);
            (point.level.clients, ratio)
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

fn reason(cause: &Cause) -> String {
    let share = words::percent(cause.share.value.0);
    let one = match cause.kind {
        CauseKind::Lock => "one lock",
        CauseKind::KernelLock => "one kernel lock",
        CauseKind::Kernel => "kernel work",
        CauseKind::Function => "more CPU for one operation",
        CauseKind::Device => "a device",
        CauseKind::Peer => "waiting for a peer",
        CauseKind::Scheduler => "the scheduler",
        CauseKind::Generator => "the load generator",
        CauseKind::Other => "one kind of wait",
    };
    if cause.kind == CauseKind::KernelLock {
        return format!("{share} of the loss is {one}, {}", cause.name);
    }
    let name = cause.path.first().unwrap_or(&cause.name);
    if name.is_empty() || cause.kind == CauseKind::Generator {
        return format!("{share} of the loss is {one}");
    }
    format!("{share} of the loss is {one} ({name})")
}

/// The greatest proven cure, and its arm; of the first cause, if there is one for it.
fn cure<'a>(causes: &[Cause], effects: &'a [Effect]) -> (Option<String>, Option<&'a ArmId>) {
    let ratio = |effect: &Effect| effect.ratio.map_or(0.0, |ratio| ratio.value.0);
    let better = || {
        effects
            .iter()
            .filter(|effect| effect.role == ArmRole::Treatment && effect.verdict == Verdict::Better)
    };
    let of_first = causes
        .first()
        .and_then(|cause| cause.cured_by.as_ref())
        .and_then(|arm| better().find(|effect| &effect.arm == arm));
    let best = better().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    if let Some(effect) = of_first.or(best) {
        let factor = effect.ratio.as_ref().map(rounded).unwrap_or_default();
        return (Some(format!("{factor} with {}", effect.label)), Some(&effect.arm));
    }
    let tried = effects.iter().filter(|effect| effect.role == ArmRole::Treatment).count();
    ((tried > 0).then(|| "no treatment tried helps".to_owned()), None)
}

/// A ratio with as many decimals as its interval allows.
fn rounded(ratio: &Estimate<Ratio>) -> String {
    let half = ratio.half_width();
    if half < 0.29 || ratio.value.0 >= 10.0 {
        return words::times(ratio.value.0);
    }
    if half < 2.9 { format!("{:.1}×", ratio.value.0) } else { format!("{:.0}×", ratio.value.0) }
}

//! The story in one sentence.

use crate::diagnosis::at_bound;
use crate::limits::generator::remedy;
use crate::limits::saturation::words_of;
use crate::scaling::by_cores::Fewer;
use crate::{Limits, Swept, words};
use kneepoint_vocab::findings::price::{Price, PriceLine};
use kneepoint_vocab::findings::{
    AtBound, Cause, CauseKind, Curve, CurvePoint, Effect, Lost, Shape, TreatedCurve, Verdict,
};
use kneepoint_vocab::{
    Estimate, Level, PerSecond, Proven, Ratio, TaskOwner, VariantId, VariantRole,
};

/// A share whose interval begins below this might as well be nothing.
const NEARLY_NONE: f64 = 0.05;

/// What the sentence is made from.
pub(crate) struct Reported<'a> {
    pub(crate) sweep: &'a Swept,
    pub(crate) causes: &'a [Cause],
    pub(crate) lost: Option<&'a Lost>,
    pub(crate) price: Option<&'a Price>,
    pub(crate) at_bound: Option<&'a AtBound>,
    pub(crate) scales: bool,
    pub(crate) limits: &'a Limits,
    pub(crate) effects: &'a [Effect],
}

/// Where it stops scaling, why, and what cures it.
pub(crate) fn headline(reported: &Reported<'_>) -> String {
    if reported.sweep.curve.points.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let mut parts = vec![scaling(reported)];
    parts.extend(reported.sweep.fewer.as_ref().map(fewer_cores));
    let limits = reported.limits.limiting_generator();
    parts.extend(limits.map(|one| format!("the load generator limits it: {}", remedy(one))));
    parts.extend(why(reported));
    parts.extend(falls_for_another(reported));
    parts.extend(saturated(reported, limits.is_some()));
    let (cured, by) = cure(reported.causes, reported.effects);
    parts.extend(cured);
    if let Some(further) = furthest(&reported.sweep.treated.curves) {
        let treated = scales_with(further);
        match (parts.last_mut(), by) {
            (Some(cured), Some(variant)) if *variant == further.variant => {
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
fn saturated(reported: &Reported<'_>, generator_limits: bool) -> Option<String> {
    let first = reported.limits.saturated.iter().find(|task| {
        let named = reported.causes.first().is_some_and(|cause| cause.name.contains(&task.name));
        !(named || generator_limits && task.owner == TaskOwner::Generator)
    });
    first.map(words_of)
}

fn scaling(reported: &Reported<'_>) -> String {
    let (curve, scales) = (&reported.sweep.curve, reported.scales);
    let several = reported.sweep.by_cores.len() > 1;
    let on = |clients: String| match curve.knee.level.cores {
        cores if several => format!("{clients} on {}", words::counted(cores, "core")),
        _ => clients,
    };
    let knee = on(words::counted(curve.knee.level.clients, "client"));
    let point = |level: Level| curve.points.iter().find(|point| point.level == level);
    let (Some(at_knee), Some(peak)) = (point(curve.knee.level), point(curve.peak)) else {
        return format!("Measured at {knee} only");
    };
    if curve.points.len() == 1 {
        return format!("Measured at {knee} only");
    }
    if curve.knee.beyond_last {
        return format!("Still rises at {knee} ({}): the knee lies beyond", rate(at_knee));
    }
    let falls = matches!(curve.shape, Shape::Collapse | Shape::Retrograde);
    let Some(lowest) = lowest_after(curve, peak).filter(|_| falls) else {
        if scales {
            return format!("Scales as far as the cores reach, full at {knee} ({})", rate(at_knee));
        }
        return format!("Stops scaling at {knee}{} ({})", range(curve), rate(at_knee));
    };
    let fall = format!("{} do {}", lowest.level.clients, rate(lowest));
    if curve.points.first().is_some_and(|first| first.level == peak.level) {
        let fewest = on(words::counted(lowest.level.clients, "client"));
        let does = if peak.level.clients == 1 { "does" } else { "do" };
        let (low, high) = (rate(lowest), rate(peak));
        return format!("Does not scale: {fewest} do {low}, {} {does} {high}", peak.level.clients);
    }
    let best = on(words::counted(peak.level.clients, "client"));
    format!("Best at {best} ({}); {fall}{}", rate(peak), over_peak(curve, lowest))
}

/// ` (0.43× [0.40–0.46])`, where that ratio was estimated.
fn over_peak(curve: &Curve, lowest: &CurvePoint) -> String {
    let is_last = curve.points.last().is_some_and(|last| last.level == lowest.level);
    let known = is_last && curve.last_over_peak.half_width() > 0.0;
    if known { format!(" ({})", with_interval(&curve.last_over_peak)) } else { String::new() }
}

/// ` [2–8]`, where the knee may lie at several levels.
fn range(curve: &Curve) -> String {
    let (low, high) = (curve.knee.low.clients, curve.knee.high.clients);
    if low == high { String::new() } else { format!(" [{low}–{high}]") }
}

/// The deepest point behind the peak.
fn lowest_after<'a>(curve: &'a Curve, peak: &CurvePoint) -> Option<&'a CurvePoint> {
    let after = curve.points.iter().filter(|point| point.level > peak.level);
    after.min_by(|a, b| a.throughput.value.0.total_cmp(&b.throughput.value.0))
}

/// `6.8k/s`, with a digit less where the interval is wide.
fn rate(point: &CurvePoint) -> String {
    let Estimate { value: PerSecond(value), .. } = point.throughput;
    let wide = point.throughput.half_width() > 0.05 * value.abs();
    let digits = if wide { 2 } else { 3 };
    format!("{}/s", words::quantity(words::significant(value, digits)))
}

/// Why throughput is lost, as far as the intervals tell.
fn why(reported: &Reported<'_>) -> Option<String> {
    if let Some(at) = reported.at_bound {
        return Some(at_bound::clause(at));
    }
    if let Some(little) = nothing_lost(reported) {
        return Some(little);
    }
    let first = reported.causes.first()?;
    let (share, object) = (&first.share, object(first));
    let of = words::percent(share.value.0);
    if !reported.sweep.has_intervals {
        return Some(format!("the cause is not settled (first: {object}; measured once)"));
    }
    if share.low.0 < NEARLY_NONE {
        let high = share.high.0 * 100.0;
        return Some(format!("the cause is not settled (first: {object}, 0 to {high:.0} %)"));
    }
    if share.half_width() < 1e-9 {
        return Some(format!("{of} of the loss is {object}"));
    }
    let (low, high) = (share.low.0 * 100.0, share.high.0 * 100.0);
    Some(format!("{of} [{low:.0}–{high:.0}] of the loss is {object}"))
}

/// What makes throughput fall, where that is something else than what is lost most to at the level
/// of the causes. What limits the best level as well may be first there without any part in the
/// fall.
fn falls_for_another(reported: &Reported<'_>) -> Option<String> {
    let fall = reported.price?.fall.as_ref()?;
    let first = fall.steps.first()?;
    let share = first.share.filter(|share| share.low.0 >= NEARLY_NONE)?;
    let name = match &first.line {
        PriceLine::Wait { name, .. } | PriceLine::Function { name, .. } => name,
        _ => return None,
    };
    if reported.causes.first().is_none_or(|cause| &cause.name == name) {
        return None;
    }
    let of = words::percent(share.value.0);
    let dearer = matches!(first.line, PriceLine::Function { kernel: false, .. });
    let object = if dearer { format!("more CPU in {name}") } else { name.clone() };
    if share.half_width() < 1e-9 {
        return Some(format!("{of} of the fall is {object}"));
    }
    let (low, high) = (share.low.0 * 100.0, share.high.0 * 100.0);
    Some(format!("{of} [{low:.0}–{high:.0}] of the fall is {object}"))
}

/// That hardly anything is lost, where that is so and the level is not at its bound anyway.
fn nothing_lost(reported: &Reported<'_>) -> Option<String> {
    let lost = reported.lost.filter(|lost| !lost.explained && !reported.scales)?;
    let (cores, of) = (words::quantity(lost.cores.value.0.max(0.0)), words::quantity(lost.of.0));
    Some(format!("nothing to explain: {cores} of {of} cores lost"))
}

/// The kind of a cause and its name.
fn object(cause: &Cause) -> String {
    let name = &cause.name;
    let (kind, named) = match cause.kind {
        CauseKind::Lock => ("one lock", true),
        CauseKind::KernelLock => ("one kernel lock", true),
        CauseKind::Kernel => ("kernel work", true),
        CauseKind::Function => ("more CPU per operation", !name.starts_with("more CPU")),
        CauseKind::Device => ("a device", true),
        CauseKind::Thread => ("waiting for another thread", true),
        CauseKind::Scheduler => ("the scheduler", false),
        CauseKind::Generator => ("the load generator", false),
        CauseKind::Other => ("one kind of wait", true),
    };
    if !named || name.is_empty() {
        return kind.to_owned();
    }
    if cause.kind == CauseKind::Device {
        return format!("{kind} ({})", name.strip_prefix("device ").unwrap_or(name));
    }
    format!("{kind}, {name}")
}

/// The greatest proven cure, and its variant; of the first cause, if there is one for it.
fn cure<'a>(causes: &[Cause], effects: &'a [Effect]) -> (Option<String>, Option<&'a VariantId>) {
    let ratio = |effect: &Effect| effect.ratio.map_or(0.0, |ratio| ratio.value.0);
    let better = || {
        effects.iter().filter(|effect| {
            effect.role == VariantRole::Treatment && effect.verdict == Verdict::Better
        })
    };
    let of_first = causes
        .first()
        .and_then(|cause| cause.cured_by.as_ref())
        .and_then(|variant| better().find(|effect| &effect.variant == variant));
    let best = better().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    if let Some(effect) = of_first.or(best) {
        let factor = effect.ratio.as_ref().map(with_interval).unwrap_or_default();
        let open = if effect.proven == Proven::Unproven { " (unproven)" } else { "" };
        return (Some(format!("{factor} with {}{open}", effect.label)), Some(&effect.variant));
    }
    (uncured(effects), None)
}

/// What the verdicts say where none is 'better': that nothing helps is said only where each says
/// so.
fn uncured(effects: &[Effect]) -> Option<String> {
    let tried: Vec<&Effect> =
        effects.iter().filter(|effect| effect.role == VariantRole::Treatment).collect();
    let open = |effect: &&&Effect| matches!(effect.verdict, Verdict::Undecided { .. });
    let unproven = tried.iter().filter(|effect| effect.verdict == Verdict::Invalid).count();
    let undecided = tried.iter().filter(open).count();
    let all = tried.len();
    let reported = match (undecided, unproven) {
        _ if all == 0 => return None,
        (0, 0) => return Some("no variant tried helps".to_owned()),
        (0, _) => format!("{unproven} of {all} not proven active"),
        _ if undecided == all && all == 1 => {
            return Some(format!("whether {} helps is undecided", tried[0].label));
        }
        _ if undecided == all => return Some(format!("all {all} variants tried are undecided")),
        _ => format!("{undecided} of {all} undecided"),
    };
    Some(format!("no variant is shown to help ({reported})"))
}

/// `3.4× [2.8–4.2]`; bare where there is no interval.
fn with_interval(ratio: &Estimate<Ratio>) -> String {
    let half = ratio.half_width();
    if half <= 0.0 {
        return rounded(ratio);
    }
    let places = if half < 0.29 && ratio.value.0 < 10.0 { 2 } else { usize::from(half < 2.9) };
    format!("{} [{:.places$}–{:.places$}]", rounded(ratio), ratio.low.0, ratio.high.0)
}

/// A ratio with as many decimals as its interval allows.
fn rounded(ratio: &Estimate<Ratio>) -> String {
    let half = ratio.half_width();
    if half < 0.29 || ratio.value.0 >= 10.0 {
        return words::times(ratio.value.0);
    }
    if half < 2.9 { format!("{:.1}×", ratio.value.0) } else { format!("{:.0}×", ratio.value.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Seconds;

    fn effect(label: &str, verdict: Verdict) -> Effect {
        Effect {
            variant: VariantId(label.to_owned()),
            role: VariantRole::Treatment,
            label: label.to_owned(),
            over: VariantId(VariantId::BASELINE.to_owned()),
            changes: Vec::new(),
            ratio: Some(Estimate::of(1.1, 0.7, 1.7)),
            throughput: None,
            pairs: 2,
            starts: 1,
            verdict,
            p_holm: None,
            proven: Proven::Yes,
            proofs: Vec::new(),
            pair_ratios: Vec::new(),
        }
    }

    #[test]
    fn only_verdicts_say_that_nothing_helps() {
        let none = Verdict::NoEffect { smallest: Ratio(0.05) };
        let open = Verdict::Undecided { needs: Seconds(3.0) };
        let said = |verdicts: &[Verdict]| {
            let tried: Vec<Effect> = verdicts.iter().map(|one| effect("a", *one)).collect();
            uncured(&tried).unwrap_or_default()
        };
        assert_eq!(said(&[none, Verdict::Worse]), "no variant tried helps");
        assert_eq!(said(&[open]), "whether a helps is undecided");
        assert_eq!(said(&[open, open]), "all 2 variants tried are undecided");
        assert_eq!(said(&[none, open]), "no variant is shown to help (1 of 2 undecided)");
        let unproven = said(&[none, Verdict::Invalid]);
        assert_eq!(unproven, "no variant is shown to help (1 of 2 not proven active)");
        assert_eq!(said(&[]), "");
    }

    #[test]
    fn a_cure_has_its_interval() {
        let mut cured = effect("private caches", Verdict::Better);
        cured.ratio = Some(Estimate::of(3.4, 2.8, 4.2));
        let (said, variant) = cure(&[], std::slice::from_ref(&cured));
        assert_eq!(said.as_deref(), Some("3.4× [2.8–4.2] with private caches"));
        assert_eq!(variant, Some(&cured.variant));
        cured.proven = Proven::Unproven;
        cured.ratio = Some(Estimate::of(3.401, 3.401, 3.401));
        let (said, _) = cure(&[], std::slice::from_ref(&cured));
        assert_eq!(said.as_deref(), Some("3.40× with private caches (unproven)"));
    }
}

//! The story, clause by clause: what the headline says.

use crate::number::tally;
use crate::scaling::by_cores::Fewer;
use crate::{Limits, Swept};
use kneepoint_vocab::findings::price::{Price, PriceLine};
use kneepoint_vocab::findings::{
    AtBound, Cause, CauseKind, Charge, Conclusion, Curve, CurvePoint, Effect, Lost, Name, Shape,
    Stall, TreatedCurve, Verdict,
};
use kneepoint_vocab::{Cores, Estimate, Level, Proven, Ratio, TaskOwner, VariantRole};

/// A share whose interval begins below this might as well be nothing.
const NEARLY_NONE: f64 = 0.05;

/// What the story is made from.
pub(crate) struct Reported<'a> {
    pub(crate) stalled: Option<Stall>,
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
pub(crate) fn conclusions(reported: &Reported<'_>) -> Vec<Conclusion> {
    let stalled = reported.stalled.clone().map(|stall| Conclusion::Stalled { stall });
    let mut said: Vec<Conclusion> = stalled.into_iter().collect();
    if reported.sweep.curve.points.is_empty() {
        said.push(Conclusion::NothingMeasured);
        return said;
    }
    said.push(scaling(reported));
    said.extend(reported.sweep.fewer.as_ref().map(fewer_cores));
    let limits = reported.limits.limiting_generator();
    said.extend(limits.map(|one| Conclusion::GeneratorLimits { own_cores: one.own_cores }));
    said.extend(why(reported));
    said.extend(falls_for_another(reported));
    said.extend(saturated(reported, limits.is_some()));
    said.extend(cure(reported.causes, reported.effects));
    said.extend(furthest(&reported.sweep.treated.curves).map(scales_further));
    said
}

/// The treatment that scales furthest, of those that do so further than the baseline.
fn furthest(treated: &[TreatedCurve]) -> Option<&TreatedCurve> {
    let known = |one: &&TreatedCurve| one.further.half_width() > 0.0;
    let further = treated.iter().filter(known).filter(|one| one.further.low.0 > 1.0);
    further.max_by(|a, b| a.speedup.value.0.total_cmp(&b.speedup.value.0))
}

fn scales_further(treated: &TreatedCurve) -> Conclusion {
    Conclusion::ScalesFurther {
        variant: treated.variant.clone(),
        label: treated.label.clone(),
        speedup: treated.speedup,
        peak: treated.curve.peak,
    }
}

fn fewer_cores(fewer: &Fewer) -> Conclusion {
    let Fewer { cores, than, ratio } = *fewer;
    Conclusion::FewerCores { cores, than, ratio }
}

/// The busiest saturated thread, unless a cause or the word on the generator names it already.
fn saturated(reported: &Reported<'_>, generator_limits: bool) -> Option<Conclusion> {
    let first = reported.limits.saturated.iter().find(|task| {
        let named = reported.causes.first().is_some_and(|cause| is_thread(&cause.name, &task.name));
        !(named || generator_limits && task.owner == TaskOwner::Generator)
    });
    first.map(|task| Conclusion::SaturatedThread { name: task.name.clone(), busiest: task.busiest })
}

fn is_thread(name: &Name, thread: &str) -> bool {
    matches!(name, Name::SaturatedThread(one) if one == thread)
}

fn scaling(reported: &Reported<'_>) -> Conclusion {
    let (curve, scales) = (&reported.sweep.curve, reported.scales);
    let level = curve.knee.level;
    let point = |level: Level| curve.points.iter().find(|point| point.level == level);
    let (Some(at_knee), Some(peak)) = (point(level), point(curve.peak)) else {
        return Conclusion::SingleLevel { level };
    };
    if curve.points.len() == 1 {
        return Conclusion::SingleLevel { level };
    }
    let throughput = at_knee.throughput;
    if curve.knee.beyond_last {
        return Conclusion::StillRises { level, throughput };
    }
    let falls = matches!(curve.shape, Shape::Collapse | Shape::Retrograde);
    let Some(lowest) = lowest_after(curve, peak).filter(|_| falls) else {
        if scales {
            return Conclusion::ScalesFully { level, throughput };
        }
        return Conclusion::StopsScaling { knee: curve.knee.clone(), throughput };
    };
    let (best, throughput) = (peak.level, peak.throughput);
    let (worst, worst_throughput) = (lowest.level, lowest.throughput);
    if curve.points.first().is_some_and(|first| first.level == best) {
        return Conclusion::NeverScales { best, throughput, worst, worst_throughput };
    }
    let ratio = over_peak(curve, lowest);
    Conclusion::Falls { best, throughput, worst, worst_throughput, ratio }
}

/// The lowest point over the peak, where that ratio was estimated.
fn over_peak(curve: &Curve, lowest: &CurvePoint) -> Option<Estimate<Ratio>> {
    let is_last = curve.points.last().is_some_and(|last| last.level == lowest.level);
    (is_last && curve.last_over_peak.half_width() > 0.0).then_some(curve.last_over_peak)
}

/// The deepest point behind the peak.
fn lowest_after<'a>(curve: &'a Curve, peak: &CurvePoint) -> Option<&'a CurvePoint> {
    let after = curve.points.iter().filter(|point| point.level > peak.level);
    after.min_by(|a, b| a.throughput.value.0.total_cmp(&b.throughput.value.0))
}

/// Why throughput is lost, as far as the intervals tell.
fn why(reported: &Reported<'_>) -> Option<Conclusion> {
    if let Some(at) = reported.at_bound {
        return Some(Conclusion::AtBound { at: at.clone() });
    }
    if let Some(little) = nothing_lost(reported) {
        return Some(little);
    }
    let first = reported.causes.first()?;
    let (kind, name, share) = (first.kind, name_of(first), first.share);
    let code = first.evidence.charge.code();
    if !reported.sweep.has_intervals {
        return Some(Conclusion::Unsettled { kind, name, code, share_at_most: None });
    }
    if share.low.0 < NEARLY_NONE {
        return Some(Conclusion::Unsettled { kind, name, code, share_at_most: Some(share.high) });
    }
    Some(Conclusion::Loss { kind, name, code, share })
}

/// What makes throughput fall, where that is something else than what is lost most to at the level
/// of the causes. What limits the best level as well may be first there without any part in the
/// fall.
fn falls_for_another(reported: &Reported<'_>) -> Option<Conclusion> {
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
    Some(Conclusion::Fall { line: first.line.clone(), share })
}

/// That hardly anything is lost, where that is so and the level is not at its bound anyway.
fn nothing_lost(reported: &Reported<'_>) -> Option<Conclusion> {
    let lost = reported.lost.filter(|lost| !lost.explained && !reported.scales)?;
    let cores = Cores(lost.cores.value.0.max(0.0));
    Some(Conclusion::NothingLost { cores, of: lost.of })
}

/// The name of a cause, where its kind alone does not tell which it is.
fn name_of(cause: &Cause) -> Option<Name> {
    let name = match (cause.kind, &cause.name) {
        (CauseKind::Scheduler, Name::Runnable) | (CauseKind::Generator, _) => return None,
        (CauseKind::Function, _)
            if matches!(cause.evidence.charge, Charge::OtherFunctions { .. }) =>
        {
            return None;
        }
        (CauseKind::Device, Name::Device(device)) => Name::Own(device.clone()),
        (_, name) => name.clone(),
    };
    (!name.is_empty()).then_some(name)
}

/// The greatest proven cure; of the first cause, if there is one for it. Else what the verdicts say
/// where none is 'better'.
fn cure(causes: &[Cause], effects: &[Effect]) -> Option<Conclusion> {
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
    let Some(effect) = of_first.or(best) else { return uncured(effects) };
    Some(Conclusion::Cure {
        variant: effect.variant.clone(),
        label: effect.label.clone(),
        ratio: effect.ratio,
        proven: effect.proven != Proven::Unproven,
    })
}

/// That nothing helps is said only where each verdict says so.
fn uncured(effects: &[Effect]) -> Option<Conclusion> {
    let tried: Vec<&Effect> =
        effects.iter().filter(|effect| effect.role == VariantRole::Treatment).collect();
    let open = |effect: &&&Effect| matches!(effect.verdict, Verdict::Undecided { .. });
    let unproven = tried.iter().filter(|effect| effect.verdict == Verdict::Invalid).count();
    let undecided = tried.iter().filter(open).count();
    match (&tried[..], undecided, unproven) {
        ([], ..) => None,
        (_, 0, 0) => Some(Conclusion::NothingHelps),
        ([one], 1, _) => Some(Conclusion::Undecided { label: one.label.clone() }),
        _ => Some(Conclusion::NoneShown {
            tried: tally(tried.len()),
            undecided: tally(undecided),
            unproven: tally(unproven),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{Seconds, VariantId};

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
            uncured(&tried)
        };
        let shown =
            |tried, undecided, unproven| Some(Conclusion::NoneShown { tried, undecided, unproven });
        assert_eq!(said(&[none, Verdict::Worse]), Some(Conclusion::NothingHelps));
        assert_eq!(said(&[open]), Some(Conclusion::Undecided { label: "a".to_owned() }));
        assert_eq!(said(&[open, open]), shown(2, 2, 0));
        assert_eq!(said(&[none, open]), shown(2, 1, 0));
        assert_eq!(said(&[none, Verdict::Invalid]), shown(2, 0, 1));
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn a_cure_has_its_interval() {
        let mut cured = effect("private caches", Verdict::Better);
        cured.proven = Proven::Unproven;
        let said = cure(&[], std::slice::from_ref(&cured));
        let wanted = Conclusion::Cure {
            variant: cured.variant.clone(),
            label: "private caches".to_owned(),
            ratio: cured.ratio,
            proven: false,
        };
        assert_eq!(said, Some(wanted));
    }
}

//! Records with a planted effect of a variant: what is said of it, and how far it is trusted.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{CauseKind, CaveatReason, Conclusion, Severity, Verdict};
use kneepoint_vocab::*;

fn with_effects(treated: f64, blocks: u32, active: bool) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    record.plan.variants.push(variant("private", VariantRole::Treatment, VariantId::BASELINE));
    record.plan.variants.push(variant(
        VariantId::CONTROL,
        VariantRole::Control,
        VariantId::BASELINE,
    ));
    record.plan.variants.push(variant(
        VariantId::UNPROBED,
        VariantRole::Unprobed,
        VariantId::BASELINE,
    ));
    for at in 0..blocks.div_ceil(2) {
        record.variants.push(start(VariantId::BASELINE, at, true));
        record.variants.push(start("private", at, active));
        record.variants.push(start(VariantId::CONTROL, at, true));
    }
    sweep(&mut record, 5, locked);
    for block in 0..blocks {
        let variants = [
            (VariantId::BASELINE, 1.0),
            ("private", treated),
            ("control", 1.0),
            ("unprobed", 1.02),
        ];
        for (place, (name, factor)) in variants.into_iter().enumerate() {
            let mut cell = locked(2);
            cell.throughput *= factor * wobble(block, 100 + place as u32);
            if name == "private" && treated > 1.5 {
                cell = Cell { throughput: cell.throughput, ..scaling(2) };
            }
            record.trials.push(trial(Phase::Effects, block, name, block / 2, 2, &cell));
        }
    }
    record
}

#[test]
fn a_cure_is_found_and_assigned_to_its_cause() {
    let findings = analyse(&with_effects(4.0, 8, true));
    let effect = &findings.effects[0];
    assert_eq!(effect.verdict, Verdict::Better);
    assert!((effect.ratio.unwrap().value.0 - 4.0).abs() < 0.1);
    assert_eq!(effect.pairs, 6, "the look after six blocks made it final");
    assert!(effect.p_holm.unwrap() < 0.05);
    assert_eq!(findings.causes[0].cured_by, Some(VariantId::new("private")));
    let cure = Conclusion::Cure {
        variant: effect.variant.clone(),
        label: "private label".to_owned(),
        ratio: effect.ratio,
        proven: effect.proven == Proven::Yes,
    };
    assert_eq!(findings.conclusions.last(), Some(&cure));
    assert!(findings.noise.floor.0 < 0.05, "{:?}", findings.noise);
    let on_off = findings.collector.on_off.unwrap();
    assert!((on_off.value.0 - 1.0 / 1.02).abs() < 0.02);
    let (covered, active) =
        (findings.collector.covered.unwrap(), findings.collector.on_off_active.unwrap());
    assert!(((1.0 - active.value.0) * covered.0 - (1.0 - on_off.value.0)).abs() < 1e-9);
    assert!(findings.collector.programs.unwrap().value.0 > 0.0);
}

/// What idles for the lock is gone; the function that takes half as much CPU again still does.
#[test]
fn a_cure_of_one_cause_is_not_said_to_cure_another() {
    let base = Cell {
        system: 0.8,
        idle_lock: 1.1,
        blocked: 1.1,
        on_cpu: vec![(0, 0.6), (1, 0.2)],
        ..locked(2)
    };
    let treated = Cell {
        throughput: 2.5 * base.throughput,
        system: 1.5,
        idle_uncharged: 0.5,
        on_cpu: vec![(0, 1.5)],
        ..Cell::default()
    };
    let mut record = with_effects(2.5, 8, true);
    for one in record.trials.iter_mut().filter(|one| one.id.level.clients == 2) {
        let (id, cell) = (&one.id, if one.id.variant.0 == "private" { &treated } else { &base });
        let throughput = cell.throughput * wobble(id.block, id.position + 7);
        let cell = Cell { throughput, ..cell.clone() };
        *one = trial(id.phase, id.block, &id.variant.0, id.start, 2, &cell);
    }
    let findings = analyse(&record);
    assert_eq!(findings.effects[0].verdict, Verdict::Better);
    let cured: Vec<_> =
        findings.causes.iter().map(|one| (one.kind, one.cured_by.is_some())).collect();
    assert_eq!(cured, [(CauseKind::Lock, true), (CauseKind::Function, false)]);
}

#[test]
fn a_decoy_has_no_effect() {
    let findings = analyse(&with_effects(1.0, 8, true));
    let Verdict::NoEffect { smallest } = findings.effects[0].verdict else {
        panic!("{:?}", findings.effects[0])
    };
    assert!(smallest.0 <= 0.05);
    assert_eq!(findings.causes[0].cured_by, None);
    assert_eq!(findings.conclusions.last(), Some(&Conclusion::NothingHelps));
}

#[test]
fn an_unproven_treatment_shows_no_ratio() {
    let findings = analyse(&with_effects(4.0, 8, false));
    let effect = &findings.effects[0];
    assert_eq!(effect.verdict, Verdict::Invalid);
    assert!(effect.ratio.is_none() && effect.pair_ratios.is_empty() && effect.throughput.is_none());
}

#[test]
fn a_run_that_failed_and_one_that_was_changed_are_not_trusted() {
    let sound = with_effects(4.0, 8, true);
    assert!(analyse(&sound).trustworthy, "{:?}", analyse(&sound).caveats);
    let mut failed = sound.clone();
    failed.end.as_mut().unwrap().stopped_by =
        StoppedBy::Failed("baseline at 2 clients: it died".to_owned());
    let mut changed = sound;
    changed.torn.push("trials.jsonl is not what was written: 3 lines of 4".to_owned());
    let error = "baseline at 2 clients: it died".to_owned();
    let first = "trials.jsonl is not what was written: 3 lines of 4".to_owned();
    for (record, reason) in [
        (failed, CaveatReason::Failed { error }),
        (changed, CaveatReason::Damaged { places: 1, first }),
    ] {
        let findings = analyse(&record);
        assert!(!findings.trustworthy);
        let reported = caveat(&findings, |one| *one == reason).map(|one| one.severity);
        assert_eq!(reported, Some(Severity::Serious), "{:?}", findings.caveats);
    }
}

#[test]
fn a_start_that_is_not_on_record_proves_nothing() {
    for torn in [0, 3, 10] {
        let mut record = with_effects(4.0, 8, true);
        record.variants.truncate(torn);
        assert_eq!(analyse(&record).effects[0].verdict, Verdict::Invalid, "{torn} starts");
    }
}

#[test]
fn a_control_that_is_wider_than_the_smallest_effect_is_not_trusted() {
    let mut record = with_effects(4.0, 8, true);
    for trial in record.trials.iter_mut().filter(|trial| trial.id.variant.0 == VariantId::CONTROL) {
        let loud = if (trial.id.block / 2).is_multiple_of(2) { 13 } else { 8 };
        trial.operations = trial.operations * loud / 10;
    }
    let findings = analyse(&record);
    assert_eq!(findings.effects[0].verdict, Verdict::Better, "a check, and no hurdle");
    assert!(!findings.trustworthy);
    let gravest = &findings.caveats[0].reason;
    assert!(matches!(gravest, CaveatReason::ControlTooWide { .. }), "{gravest:?}");
}

#[test]
fn a_collector_that_costs_much_is_warned_of_and_one_that_costs_more_is_not_trusted() {
    let at = |percent: u64| {
        let mut record = with_effects(1.0, 8, true);
        for trial in record.trials.iter_mut().filter(|trial| trial.id.variant.0 == "unprobed") {
            trial.operations = trial.operations * percent / 100;
        }
        let findings = analyse(&record);
        let costs = |one: &CaveatReason| matches!(one, CaveatReason::CollectorCosts { .. });
        (findings.trustworthy, caveat(&findings, costs).map(|one| one.severity))
    };
    assert_eq!(at(101), (true, Some(Severity::Note)));
    assert_eq!(at(108), (true, Some(Severity::Warning)));
    assert_eq!(at(125), (false, Some(Severity::Serious)));
}

#[test]
fn a_run_that_failed_is_not_trusted() {
    let mut record = with_effects(1.0, 8, true);
    assert!(analyse(&record).trustworthy);
    record.end.as_mut().unwrap().stopped_by =
        StoppedBy::Failed("baseline at 2 clients: gone".to_owned());
    let findings = analyse(&record);
    let error = "baseline at 2 clients: gone".to_owned();
    assert!(!findings.trustworthy);
    assert_eq!(findings.caveats[0].reason, CaveatReason::Failed { error });
}

#[test]
fn one_pair_decides_nothing() {
    let findings = analyse(&with_effects(4.0, 1, true));
    let Verdict::Undecided { needs } = findings.effects[0].verdict else {
        panic!("{:?}", findings.effects[0])
    };
    assert!(needs.0 > 0.0);
    assert!(!findings.trustworthy);
    let open = Conclusion::Undecided { label: "private label".to_owned() };
    assert_eq!(findings.conclusions.last(), Some(&open));
}

#[test]
fn a_control_that_differs_is_not_trusted() {
    let mut record = with_effects(1.0, 8, true);
    for trial in &mut record.trials {
        if trial.id.variant.0 == VariantId::CONTROL {
            trial.operations = trial.operations * 13 / 10;
        }
    }
    let findings = analyse(&record);
    assert!(!findings.trustworthy);
    assert!(findings.noise.floor.0 > 0.25);
    assert!(says(&findings, |one| matches!(one, CaveatReason::ControlDiffers { .. })));
}

#[test]
fn a_better_variant_that_keeps_the_lock_cures_nothing() {
    let findings = analyse(&with_effects(1.3, 8, true));
    assert_eq!(findings.effects[0].verdict, Verdict::Better);
    assert_eq!(findings.causes[0].cured_by, None);
    assert!(findings.effects[0].p_holm.is_some());
    assert_eq!(findings.effects[1].p_holm, None, "a control is no question of its own");
}

//! Two variants alone and together: what was planted is found, and nothing where it was not.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::Interaction;
use kneepoint_vocab::*;

/// A run of `blocks` blocks in which `one` and `other` change throughput so, and both together so;
/// each block of a start of its own.
fn crossed(blocks: u32, one: f64, other: f64, both: f64) -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let of = |name: &str, over: &str, change: &str| VariantPlan {
        changes: vec![change.to_owned()],
        ..variant(name, VariantRole::Treatment, over)
    };
    let base = VariantId::BASELINE;
    record.plan.variants.extend([
        variant(VariantId::CONTROL, VariantRole::Control, base),
        of("one", base, "a = 1"),
        of("other", base, "b = 2"),
        of("both", "one", "b = 2"),
    ]);
    sweep(&mut record, 5, scaling);
    let all = [(base, 1.0), ("control", 1.0), ("one", one), ("other", other), ("both", both)];
    for block in 0..blocks {
        for (place, (name, factor)) in all.into_iter().enumerate() {
            record.variants.push(start(name, block, true));
            let mut cell = scaling(2);
            cell.throughput *= factor * wobble(block, 100 + place as u32);
            record.trials.push(trial(Phase::Effects, block, name, block, 2, &cell));
        }
    }
    record
}

fn close(found: f64, wanted: f64) -> bool {
    (found / wanted - 1.0).abs() < 0.02
}

/// A program that prints the same rates each time: only logarithms differ, in the last digit.
#[test]
fn rates_without_any_noise_add_up() {
    for (one, other) in (2..30).map(|tenths| (f64::from(tenths) / 10.0, 1.3)) {
        let mut record = crossed(4, one, other, one * other);
        let steady = |trial: &TrialRecord| match trial.id.variant.0.as_str() {
            "one" => one,
            "other" => other,
            "both" => one * other,
            _ => 1.0,
        };
        for trial in record.trials.iter_mut().filter(|it| it.id.phase == Phase::Effects) {
            trial.operations = (1e6 * steady(trial)).round() as u64;
        }
        let findings = analyse(&record);
        let figures = findings.crosses[0].figures.as_ref().unwrap();
        assert_eq!(figures.verdict, Interaction::AddUp, "{figures:?}");
    }
}

#[test]
fn what_two_variants_do_together_is_found() {
    for (together, verdict) in [
        (1.2 * 1.3, Interaction::AddUp),
        (1.2 * 1.3 * 1.25, Interaction::More),
        (1.3, Interaction::Less),
    ] {
        let findings = analyse(&crossed(8, 1.2, 1.3, together));
        let [cross] = &findings.crosses[..] else { panic!("{:?}", findings.crosses) };
        let names = [&cross.base, &cross.one, &cross.other, &cross.both];
        assert_eq!(names.map(|id| id.0.as_str()), ["baseline", "one", "other", "both"]);
        let figures = cross.figures.as_ref().unwrap();
        assert_eq!((figures.blocks, figures.verdict), (8, verdict), "{figures:?}");
        for (found, wanted) in [
            (figures.alone, 1.2),
            (figures.other_alone, 1.3),
            (figures.together, together),
            (figures.interaction, together / 1.2 / 1.3),
        ] {
            assert!(close(found.value.0, wanted) && found.low < found.high, "{found:?} {wanted}");
        }
        for (found, wanted) in [
            (figures.base, 1.0),
            (figures.one, 1.2),
            (figures.other, 1.3),
            (figures.both, together),
        ] {
            assert!(close(found.value.0, 2000.0 * wanted), "{found:?} {wanted}");
        }
        // The four cells say exactly what the ratios say.
        let product = figures.alone.value.0 * figures.other_alone.value.0;
        let of_ratios = figures.together.value.0 / product;
        assert!((figures.interaction.value.0 / of_ratios - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_cell_that_is_not_active_or_blocks_that_lack_one_make_no_claim() {
    let mut unproven = crossed(8, 1.2, 1.3, 2.0);
    unproven.variants.push(start("other", 0, false));
    let mut lacking = crossed(8, 1.2, 1.3, 2.0);
    lacking.trials.retain(|trial| trial.id.variant.0 != "one" || trial.id.block == 3);
    for record in [unproven, lacking] {
        let findings = analyse(&record);
        assert_eq!(findings.crosses.len(), 1);
        assert_eq!(findings.crosses[0].figures, None);
    }
    let mut alone = crossed(4, 1.2, 1.3, 2.0);
    alone.plan.variants.pop();
    assert!(analyse(&alone).crosses.is_empty());
}

/// Few starts have luck of their own: what they show is told with an interval that allows for it.
#[test]
fn two_starts_say_less_than_eight() {
    let width = |starts: u32| {
        let mut record = crossed(8, 1.2, 1.3, 1.56);
        record.trials.iter_mut().for_each(|trial| trial.id.start %= starts);
        let figures = analyse(&record).crosses[0].figures.clone().unwrap();
        (figures.interaction.half_width(), figures.verdict)
    };
    assert!(width(2).0 > 2.0 * width(8).0, "{:?} {:?}", width(2), width(8));
    assert_eq!(width(2).1, Interaction::Undecided);
}

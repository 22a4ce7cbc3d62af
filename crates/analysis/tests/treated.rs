//! Curves of treatments beside the baseline's: found where planted, and never mixed with it.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{CaveatReason, Conclusion, Severity, Shape};
use kneepoint_vocab::*;
use proptest::prelude::*;

const TREATED: &str = "private";

/// A record whose sweep measured a treatment too; each block's drift is common to both variants.
fn beside(
    blocks: u32,
    drift: impl Fn(u32) -> f64,
    baseline: impl Fn(u32) -> Cell,
    treated: impl Fn(u32) -> Cell,
) -> RunRecord {
    let mut record = empty(&[1, 2, 4], 2);
    record.plan.variants.push(variant(TREATED, VariantRole::Treatment, VariantId::BASELINE));
    record.plan.sweep_variants = vec![VariantId::new(TREATED)];
    record.variants = vec![start(VariantId::BASELINE, 0, true), start(TREATED, 0, true)];
    sweep(&mut record, blocks, baseline);
    for trial in &mut record.trials {
        trial.operations = drifted(trial.operations, drift(trial.id.block));
    }
    for block in 0..blocks {
        for at in record.plan.levels.clone() {
            let mut cell = treated(at.clients);
            cell.throughput *= wobble(block, 50 + at.clients) * drift(block);
            record.trials.push(trial(Phase::Sweep, block, TREATED, 0, at.clients, &cell));
        }
    }
    record
}

fn drifted(operations: u64, by: f64) -> u64 {
    (operations as f64 * by).round() as u64
}

fn none(_: u32) -> f64 {
    1.0
}

#[test]
fn a_treatment_that_scales_is_distinguished_from_a_baseline_that_does_not() {
    let findings = analyse(&beside(5, none, locked, scaling));
    let [treated] = &findings.treated[..] else { panic!("{:?}", findings.treated) };
    assert_eq!((treated.variant.0.as_str(), treated.label.as_str()), (TREATED, "private label"));
    assert_eq!(treated.curve.points.len(), 3);
    for (point, truth) in treated.curve.points.iter().zip([1000.0, 2000.0, 2000.0]) {
        assert!((point.throughput.value.0 / truth - 1.0).abs() < 0.02, "{point:?}");
        assert_eq!(point.slices, 5);
        // Its own bound: 2 cores at its own CPU second for 1000 operations.
        assert!(point.ideal.0 < 2100.0, "{point:?}");
    }
    assert_eq!(treated.curve.knee.level.clients, 2);
    assert_ne!(treated.curve.shape, Shape::Collapse);
    for (ratio, truth) in [
        (treated.speedup, 2.0),
        (treated.baseline_speedup, 1.0),
        (treated.further, 2.0),
        (treated.over_baseline, 2.0),
    ] {
        assert!((ratio.value.0 / truth - 1.0).abs() < 0.03, "{ratio:?}");
        assert!(ratio.low <= ratio.value && ratio.value <= ratio.high);
    }
    assert!(treated.further.low.0 > 1.9 && treated.further.high.0 < 2.1, "{:?}", treated.further);
    assert_eq!(findings.curve.shape, Shape::Collapse);
    let scales = Conclusion::ScalesFurther {
        variant: treated.variant.clone(),
        label: "private label".to_owned(),
        speedup: treated.speedup,
        peak: treated.curve.peak,
    };
    assert_eq!(findings.conclusions.last(), Some(&scales));
    assert_eq!(findings.protocol.slices, 30);
    assert_eq!(findings.protocol.sweep_blocks, 5);
}

fn scales_further(one: &Conclusion) -> bool {
    matches!(one, Conclusion::ScalesFurther { .. })
}

#[test]
fn a_treatment_that_only_makes_all_levels_faster_scales_no_further() {
    let faster = |clients| {
        let cell = locked(clients);
        Cell { throughput: 3.0 * cell.throughput, ..cell }
    };
    let findings = analyse(&beside(6, none, locked, faster));
    let treated = &findings.treated[0];
    assert!((treated.over_baseline.value.0 - 3.0).abs() < 0.1, "{treated:?}");
    assert!(treated.further.low.0 <= 1.0 && treated.further.high.0 >= 1.0, "{treated:?}");
    assert!(!concludes(&findings, scales_further), "{:?}", findings.conclusions);
}

/// Blocks in which everything is half or twice as fast leave the ratios of the two variants alone.
#[test]
fn drift_that_both_variants_share_is_not_in_their_ratios() {
    let drift = |block: u32| [1.0, 2.0, 0.5, 1.5, 0.7, 1.2][block as usize];
    let treated = &analyse(&beside(6, drift, locked, scaling)).treated[0];
    let wide = treated.curve.points[0].throughput;
    assert!(wide.high.0 / wide.low.0 > 1.5, "levels carry the drift: {wide:?}");
    for ratio in [treated.over_baseline, treated.further, treated.speedup] {
        assert!(ratio.high.0 - ratio.low.0 < 0.15, "{ratio:?}");
        assert!((ratio.value.0 - 2.0).abs() < 0.06, "{ratio:?}");
    }
}

#[test]
fn an_unproven_treatment_shows_no_curve_and_says_so() {
    let mut record = beside(5, none, locked, scaling);
    record.variants.push(start(TREATED, 1, false));
    let findings = analyse(&record);
    assert!(findings.treated.is_empty());
    let left_out = CaveatReason::UnprovenCurve { label: "private label".to_owned() };
    let said = caveat(&findings, |one| *one == left_out).expect("a caveat");
    assert_eq!(said.severity, Severity::Warning);
    assert!(!concludes(&findings, scales_further), "{:?}", findings.conclusions);
}

#[test]
fn one_block_or_none_of_a_treatment_makes_no_claim() {
    let one = analyse(&beside(1, none, locked, scaling));
    let treated = &one.treated[0];
    assert!((treated.further.low.0 - treated.further.high.0).abs() < 1e-9, "{treated:?}");
    assert!(!concludes(&one, scales_further), "{:?}", one.conclusions);
    let mut record = beside(4, none, locked, scaling);
    record.trials.retain(|trial| trial.id.variant.0 == VariantId::BASELINE);
    let findings = analyse(&record);
    assert!(findings.treated.is_empty() && findings.curve.points.len() == 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What the sweep measured with a treatment changes nothing that is said of the baseline,
    /// whatever it waited for and ran meanwhile.
    #[test]
    fn the_baseline_is_what_it_is_without_the_treatment(
        rates in prop::collection::vec(1.0_f64..1e6, 3),
        (idle, system, blocked) in (0.0_f64..2.0, 0.0_f64..2.0, 0.0_f64..4.0),
        stack in 0_u32..5,
        object in any::<u64>(),
    ) {
        let cell = |clients: u32| Cell {
            throughput: rates[clients as usize / 2],
            system,
            idle_lock: idle,
            blocked,
            on_cpu: vec![(stack, 1.0)],
            lock_stack: stack,
            waits: 7e4,
            ..Cell::default()
        };
        let mut record = beside(4, none, locked, cell);
        for trial in record.trials.iter_mut().filter(|trial| trial.id.variant.0 == TREATED) {
            for fact in &mut trial.facts {
                if let Fact::Wait(wait) = fact {
                    wait.key = key(object);
                }
            }
        }
        let with = analyse(&record);
        record.trials.retain(|trial| trial.id.variant.0 == VariantId::BASELINE);
        let without = analyse(&record);
        prop_assert_eq!(with.treated.len(), 1);
        prop_assert_eq!(&with.curve, &without.curve);
        prop_assert_eq!(&with.by_cores, &without.by_cores);
        prop_assert_eq!(&with.ledgers, &without.ledgers);
        prop_assert_eq!(&with.causes, &without.causes);
        prop_assert_eq!(&with.on_cpu, &without.on_cpu);
        prop_assert_eq!(&with.effects, &without.effects);
        prop_assert_eq!(&with.noise, &without.noise);
        prop_assert_eq!(&with.generator, &without.generator);
        prop_assert_eq!(&with.instruments, &without.instruments);
        prop_assert_eq!(&with.caveats, &without.caveats);
        prop_assert_eq!(with.protocol.precision, without.protocol.precision);
        prop_assert_eq!(with.collector.programs, without.collector.programs);
    }
}

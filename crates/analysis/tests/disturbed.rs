//! Slices that something else disturbed.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{CaveatReason, Disturbance, Findings, Severity};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::*;

/// Every slice was kept although disturbed, by this much.
fn disturbed(others: f64, steal: f64) -> Findings {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 4, locked);
    for trial in &mut record.trials {
        trial.disposition = Disposition::KeptDisturbed;
        trial.interference = Interference { others: Ratio(others), steal: Ratio(steal) };
    }
    analyse(&record)
}

/// How grave it is that disturbed slices were kept, whether it spoils the run, and what others and
/// the hypervisor took in the worst.
fn worst(findings: &Findings) -> Option<(Severity, bool, [f64; 2])> {
    findings.caveats.iter().find_map(|caveat| match &caveat.reason {
        CaveatReason::KeptDisturbed { worst: Disturbance { others, steal }, spoils, .. } => {
            Some((caveat.severity, *spoils, [others.0, steal.0]))
        }
        _ => None,
    })
}

#[test]
fn interference_is_judged_by_its_size() {
    let much = disturbed(0.08, 0.04);
    assert!(!much.trustworthy, "{:?}", much.caveats);
    assert_eq!(worst(&much), Some((Severity::Serious, true, [0.08, 0.04])));
    let little = disturbed(0.04, 0.02);
    assert!(little.trustworthy, "{:?}", little.caveats);
    assert_eq!(worst(&little), Some((Severity::Warning, false, [0.04, 0.02])));
}

#[test]
fn a_gross_slice_does_not_count_and_the_worst_is_reported() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 6, locked);
    let clean = analyse(&record);
    let mut gross = record.trials[0].clone();
    gross.id.attempt = 1;
    gross.interference = Interference { others: Ratio(0.5), steal: Ratio(0.0) };
    gross.operations *= 5;
    gross.disposition = Disposition::KeptDisturbed;
    record.trials.push(gross.clone());
    gross.id.attempt = 2;
    gross.disposition = Disposition::Spoiled { reason: "its window lasted 9 s".to_owned() };
    record.trials.push(gross);
    record.trials[3].disposition = Disposition::KeptDisturbed;
    record.trials[3].interference.others = Ratio(0.15);
    let findings = analyse(&record);
    assert_eq!(findings.curve.points[0], clean.curve.points[0]);
    let (_, _, [others, _]) = worst(&findings).unwrap();
    assert!(near(others, 0.15), "{others}");
    let left_out = |one: &CaveatReason| matches!(one, CaveatReason::TooDisturbed { slices: 2, .. });
    assert!(says(&findings, left_out), "{:?}", findings.caveats);
}

/// A machine that is never quiet still gives a curve, which nobody should rely on.
#[test]
fn gross_slices_count_where_there_are_no_others() {
    let mut record = empty(&[1, 2], 2);
    sweep(&mut record, 6, locked);
    for trial in &mut record.trials {
        trial.disposition = Disposition::KeptDisturbed;
        trial.interference.others = Ratio(0.5);
    }
    let findings = analyse(&record);
    assert_eq!(findings.curve.points.len(), 2);
    assert!(!findings.trustworthy);
}

//! Slices that something else disturbed.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{Findings, Severity};
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

#[test]
fn interference_is_judged_by_its_size() {
    let much = disturbed(0.08, 0.04);
    assert!(!much.trustworthy, "{:?}", much.caveats);
    assert!(says(&much, "other processes took 8.0 % and the hypervisor 4.0 %"));
    let little = disturbed(0.04, 0.02);
    assert!(little.trustworthy, "{:?}", little.caveats);
    let warning = little.caveats.iter().find(|caveat| caveat.text.contains("disturbed")).unwrap();
    assert_eq!(warning.severity, Severity::Warning);
    assert!(warning.text.contains("other processes took 4.0 % and the hypervisor 2.0 %"));
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
    assert!(says(&findings, "in the worst other processes took 15"), "{:?}", findings.caveats);
    assert!(says(&findings, "2 slices too disturbed to count"), "{:?}", findings.caveats);
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

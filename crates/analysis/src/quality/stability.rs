//! What still worked under overload, by class, over all slices that looked for it.

use kneepoint_vocab::{ClassStability, FirstFailure, StabilityFindings, TrialRecord};

/// None where no slice looked for what breaks. Slices that count and those that do not are reported
/// alike: what broke has broken.
pub(crate) fn stability(trials: &[TrialRecord]) -> Option<StabilityFindings> {
    let mut classes: Vec<ClassStability> = Vec::new();
    let (mut slices, mut watched) = (0, 0);
    for trial in trials {
        let Some(seen) = &trial.stability else { continue };
        slices += 1;
        watched += u32::from(seen.kernel_log);
        for class in &seen.classes {
            let at = match classes.iter().position(|known| &known.class == class) {
                Some(at) => at,
                None => {
                    let class = class.clone();
                    classes.push(ClassStability { class, runs: 0, failed: 0, first: None });
                    classes.len() - 1
                }
            };
            let known = &mut classes[at];
            known.runs += 1;
            let failures = seen.failures.iter().filter(|failure| &failure.class == class);
            let Some(earliest) = failures.min_by_key(|failure| failure.after) else { continue };
            known.failed += 1;
            if known.first.as_ref().is_none_or(|first| earliest.after < first.after) {
                known.first = Some(FirstFailure {
                    level: trial.id.level,
                    after: earliest.after,
                    text: earliest.text.clone(),
                });
            }
        }
    }
    (slices > 0).then_some(StabilityFindings {
        classes,
        kernel_watched: watched,
        kernel_always: watched == slices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::units::Nanos;
    use kneepoint_vocab::{
        Disposition, Failure, Interference, Level, Phase, Stability, TrialId, VariantId, Window,
    };

    fn slice(clients: u32, seen: Option<Stability>) -> TrialRecord {
        TrialRecord {
            id: TrialId {
                phase: Phase::Sweep,
                block: 0,
                position: 0,
                attempt: 0,
                variant: VariantId::new(VariantId::BASELINE),
                start: 0,
                level: Level { clients, cores: 2 },
            },
            window: Window { begin: Nanos(0), length: Nanos(1) },
            operations: 1,
            counted_over: Nanos(1),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: seen,
            settling: None,
            interference: Interference::default(),
            disposition: Disposition::Kept,
            facts: Vec::new(),
        }
    }

    fn seen(classes: &[&str], kernel_log: bool, failures: &[(&str, u64)]) -> Option<Stability> {
        let failure = |(class, after): &(&str, u64)| Failure {
            class: (*class).to_owned(),
            after: Nanos(*after),
            text: format!("{class} broke"),
        };
        Some(Stability {
            classes: classes.iter().map(|class| (*class).to_owned()).collect(),
            kernel_log,
            failures: failures.iter().map(failure).collect(),
        })
    }

    #[test]
    fn a_class_that_fails_twice_in_a_slice_failed_in_one_run() {
        let slices = [
            slice(1, seen(&["cpu", "vm"], true, &[])),
            slice(4, seen(&["cpu", "vm"], true, &[("vm", 900), ("vm", 700)])),
            slice(8, seen(&["vm", "kernel"], true, &[("kernel", 50), ("vm", 800)])),
        ];
        let found = stability(&slices).unwrap();
        let reported: Vec<_> =
            found.classes.iter().map(|c| (c.class.as_str(), c.runs, c.failed)).collect();
        assert_eq!(reported, [("cpu", 2, 0), ("vm", 3, 2), ("kernel", 1, 1)]);
        let first = found.classes[1].first.as_ref().unwrap();
        assert_eq!((first.level.clients, first.after), (4, Nanos(700)));
        assert!(found.classes[0].first.is_none());
        assert!(found.kernel_always && found.kernel_watched == 3);
    }

    #[test]
    fn slices_that_did_not_look_say_nothing() {
        assert!(stability(&[slice(1, None)]).is_none());
        let some = [slice(1, None), slice(2, seen(&["cpu"], false, &[]))];
        let found = stability(&some).unwrap();
        assert!(!found.kernel_always && found.kernel_watched == 0 && found.classes[0].runs == 1);
    }
}

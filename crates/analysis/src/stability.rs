//! What still worked under overload, by class, over all slices that looked for it.

use kneepoint_vocab::{ClassStability, FirstFailure, StabilityFindings, TrialRecord};

/// None where no slice looked for what breaks. Slices that count and those that do not are told
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

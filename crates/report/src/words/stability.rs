//! What broke under the load, in sentences.

use super::counted;
use crate::number;
use kneepoint_vocab::{ClassStability, StabilityFindings};

/// One sentence over all, and one for each class that broke.
pub(crate) fn sentences(found: &StabilityFindings) -> (String, Vec<String>) {
    let sum = |of: fn(&ClassStability) -> u32| found.classes.iter().map(of).sum::<u32>();
    let (runs, failed) = (sum(|class| class.runs), sum(|class| class.failed));
    let log = match (found.kernel_watched, found.kernel_always) {
        (0, _) => "; the kernel's log could not be watched",
        (_, false) => "; the kernel's log could not be watched in every slice",
        (_, true) => "; the kernel's log was watched",
    };
    let summary = format!("Stability: {failed} of {runs} class-runs failed{log}.");
    (summary, found.classes.iter().filter_map(sentence).collect())
}

fn sentence(class: &ClassStability) -> Option<String> {
    let first = class.first.as_ref()?;
    let after = number::plain_seconds(first.after.seconds());
    Some(format!(
        "{} failed in {} of {}, first {after} into {}: {}",
        class.class,
        class.failed,
        counted(class.runs, "slice"),
        counted(first.level.clients, "worker"),
        first.text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{FirstFailure, Level, Nanos};

    #[test]
    fn failures_are_counted_and_the_first_is_reported() {
        let fine = ClassStability { class: "cpu".into(), runs: 3, failed: 0, first: None };
        let first = Some(FirstFailure {
            level: Level { clients: 8, cores: 2 },
            after: Nanos::from_millis(3100),
            text: "exit code 2".into(),
        });
        let bad = ClassStability { class: "vm".into(), runs: 3, failed: 1, first };
        let classes = vec![fine, bad];
        let found = StabilityFindings { classes, kernel_watched: 3, kernel_always: true };
        let (summary, broken) = sentences(&found);
        assert_eq!(summary, "Stability: 1 of 6 class-runs failed; the kernel's log was watched.");
        assert_eq!(
            broken,
            ["vm failed in 1 of 3 slices, first 3.10 s into 8 workers: exit code 2"]
        );
    }
}

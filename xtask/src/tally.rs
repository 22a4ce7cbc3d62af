//! Counts what the tests print: results, and the checks that this machine could not make.

use std::collections::BTreeSet;

/// A live test that could not run: it printed `SKIP name: reason` and returned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// The check.
    pub(crate) name: String,
    /// What it lacks.
    pub(crate) reason: String,
}

/// What the output of all test programs adds up to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    skips: BTreeSet<Skip>,
    /// Skipped checks that are no tests of the harness.
    outside: usize,
    in_successes: bool,
    /// Checks that passed in part, and how.
    unsteady: Vec<String>,
}

impl Tally {
    /// Takes a line of output; says whether it is worth showing.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        if let Some(skip) = skip_in(line) {
            self.skips.insert(skip);
            return false;
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count_before(counts, " passed");
            self.failed += count_before(counts, " failed");
            self.ignored += count_before(counts, " ignored");
            self.in_successes = false;
            return true;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        let routine = line.trim().is_empty()
            || (line.starts_with("test ") && line.ends_with(" ok"))
            || (line.starts_with("running ")
                && (line.ends_with(" tests") || line.ends_with(" test")));
        !self.in_successes && !routine
    }

    /// A check made outside the test programs could not run.
    pub(crate) fn skip_outside(&mut self, name: &str, reason: &str) {
        let skip = Skip { name: name.to_owned(), reason: reason.to_owned() };
        self.outside += usize::from(self.skips.insert(skip));
    }

    /// Points of faults, each of which is a check.
    pub(crate) fn points(&mut self, well: usize, not_well: usize) {
        self.passed += well;
        self.failed += not_well;
    }

    /// A test program died without a result line.
    pub(crate) fn died(&mut self) {
        self.failed = self.failed.max(1);
    }

    /// Tests that passed.
    pub(crate) fn passed(&self) -> usize {
        self.passed
    }

    /// These tests failed and have passed since.
    pub(crate) fn passed_alone(&mut self, tests: &[String]) {
        self.failed = self.failed.saturating_sub(tests.len());
        self.passed += tests.len();
        let alone = |test| format!("{test}: failed beside other work, passed alone");
        self.unsteady.extend(tests.iter().map(alone));
    }

    /// A check that passed in part.
    pub(crate) fn in_part(&mut self, how: String) {
        self.unsteady.push(how);
    }

    /// The checks that passed in part, and how.
    pub(crate) fn unsteady(&self) -> &[String] {
        &self.unsteady
    }

    /// The skipped checks, in order of name.
    pub(crate) fn skips(&self) -> impl Iterator<Item = &Skip> {
        self.skips.iter()
    }

    /// The closing line. A skipped check returned early from a test that the harness counts as
    /// passed, so it is taken off there.
    pub(crate) fn closing_line(&self) -> String {
        let passed = self.passed.saturating_sub(self.skips.len() - self.outside);
        let skipped = self.skips.len() + self.ignored;
        format!("{passed} passed, {} failed, {skipped} skipped", self.failed)
    }
}

fn skip_in(line: &str) -> Option<Skip> {
    let at = line.find("SKIP ")?;
    if !line[..at].is_empty() && !line[..at].ends_with("... ") {
        return None;
    }
    let (name, reason) = line[at + "SKIP ".len()..].split_once(": ")?;
    Some(Skip { name: name.trim().to_owned(), reason: reason.trim().to_owned() })
}

fn count_before(counts: &str, word: &str) -> usize {
    let before = counts.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> (Tally, Vec<&str>) {
        let mut tally = Tally::default();
        let shown = output.lines().filter(|line| tally.take(line)).collect();
        (tally, shown)
    }

    #[test]
    fn results_add_up_and_skips_are_taken_off() {
        let output = "\nrunning 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... ok\n\n\
            successes:\n\n---- b stdout ----\nSKIP b: chromium not found\nnoise\n\n\
            successes:\n    a\n    b\n\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let (tally, shown) = tally(output);
        assert_eq!(tally.closing_line(), "4 passed, 0 failed, 2 skipped");
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert!(shown.iter().all(|line| line.starts_with("test result:")));
        let skip = tally.skips().next().unwrap();
        assert_eq!((skip.name.as_str(), skip.reason.as_str()), ("b", "chromium not found"));
    }

    #[test]
    fn failures_are_shown() {
        let output = "test a ... FAILED\n\nsuccesses:\nnoise\n\nfailures:\n\n---- a stdout ----\n\
            assertion failed\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        let (tally, shown) = tally(output);
        assert_eq!(tally.closing_line(), "0 passed, 1 failed, 0 skipped");
        assert!(shown.contains(&"assertion failed") && shown.contains(&"test a ... FAILED"));
        assert!(!shown.contains(&"noise"));
    }

    #[test]
    fn a_skip_outside_the_harness_takes_nothing_off() {
        let (mut tally, _) = tally("test result: ok. 2 passed; 0 failed; 0 ignored\n");
        tally.skip_outside("object", "no compiler");
        assert_eq!(tally.closing_line(), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn points_count_like_tests() {
        let (mut tally, _) = tally("test result: ok. 2 passed; 0 failed; 0 ignored\n");
        tally.points(7, 1);
        assert_eq!(tally.closing_line(), "9 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_test_that_passed_alone_has_passed_and_is_named() {
        let (mut tally, _) = tally("test result: FAILED. 3 passed; 1 failed; 0 ignored\n");
        tally.passed_alone(&["slow".to_owned()]);
        assert_eq!(tally.closing_line(), "4 passed, 0 failed, 0 skipped");
        assert_eq!(tally.unsteady(), ["slow: failed beside other work, passed alone"]);
        tally.in_part("one of three".to_owned());
        assert_eq!(tally.unsteady()[1], "one of three");
    }

    #[test]
    fn a_program_that_died_counts_as_failed() {
        let (mut tally, _) = tally("running 1 test\n");
        tally.died();
        assert_eq!(tally.closing_line(), "0 passed, 1 failed, 0 skipped");
    }
}

//! Tests that failed beside other work, taken once more, alone.
//!
//! Live tests share the machine with whatever else runs on it. A test that fails there and passes
//! alone is named and counted; one that fails twice has failed.

use std::mem;

/// More failed tests than these are a fault of the program, or the machine is not one to test on.
const MOST: usize = 4;

/// Words that name the package of a test program, `-p NAME`.
const PACKAGE: usize = 2;

/// The failed tests of one test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The arguments by which Cargo knows this test program among those of the workspace. Without
    /// its package: for one package alone Cargo would choose other features, and build anew.
    pub(crate) target: Vec<String>,
    /// The names of the tests.
    pub(crate) tests: Vec<String>,
}

/// Reads off the output of Cargo and the harness which tests failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Those of the test program whose end was not seen yet.
    tests: Vec<String>,
    programs: Vec<Failed>,
}

impl Failures {
    /// Takes a line of output.
    pub(crate) fn take(&mut self, line: &str) {
        let result = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        if let Some(name) = result {
            // A test that is to panic says so behind its name.
            let name = name.split(" - ").next().unwrap_or(name);
            self.tests.push(name.to_owned());
        }
        let rerun = line.split_once("to rerun pass `").and_then(|(_, rest)| rest.split_once('`'));
        if let Some((target, _)) = rerun {
            self.programs.push(Failed {
                target: target.split(' ').skip(PACKAGE).map(str::to_owned).collect(),
                tests: mem::take(&mut self.tests),
            });
        }
    }

    /// What is worth a second try: a few tests by name. None where there are many, or where a test
    /// program ended without naming one.
    pub(crate) fn worth_another_try(&self) -> Option<&[Failed]> {
        let count: usize = self.programs.iter().map(|program| program.tests.len()).sum();
        let named = self.programs.iter().all(|program| !program.tests.is_empty());
        (named && self.tests.is_empty() && (1..=MOST).contains(&count)).then_some(&self.programs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(output: &str) -> Failures {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.take(line));
        failures
    }

    const TWO: &str = "     Running tests/stop.rs (target/debug/deps/stop-0291d697cd7e77de)\n\
        test a ... ok\ntest b ... FAILED\ntest c - should panic ... FAILED\n\
        test result: FAILED. 1 passed; 2 failed\n\
        error: test failed, to rerun pass `-p kneepoint --test stop`\n\
        test d ... ok\n";

    #[test]
    fn failed_tests_are_known_by_program_and_name() {
        let failures = failures(TWO);
        let [failed] = failures.worth_another_try().unwrap() else { panic!("{failures:?}") };
        assert_eq!(failed.target, ["--test", "stop"]);
        assert_eq!(failed.tests, ["b", "c"]);
    }

    #[test]
    fn many_failures_are_no_accident() {
        let many = (0..=MOST).map(|test| format!("test t{test} ... FAILED\n"));
        let output = many.collect::<String>() + "error: test failed, to rerun pass `-p a --lib`\n";
        assert_eq!(failures(&output).worth_another_try(), None);
    }

    #[test]
    fn a_program_that_died_gets_no_second_try() {
        let died = "test a ... ok\nerror: test failed, to rerun pass `-p kneepoint --lib`\n";
        assert_eq!(failures(died).worth_another_try(), None);
        assert_eq!(failures(&format!("{TWO}{died}")).worth_another_try(), None);
        assert_eq!(failures("test a ... FAILED\n").worth_another_try(), None);
    }
}

//! The helper that looks for what tests leave must itself find what is left.

#[path = "support/leftovers.rs"]
mod leftovers;

use leftovers::Machine;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_process_and_its_directory_are_found_and_another_s_are_not() {
    let before = Machine::now();
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().display().to_string();
    let spawned = Command::new("sleep").arg("600").current_dir(directory.path()).spawn();
    let mut child = spawned.unwrap();
    let left = before.left(&mark);
    assert!(left.iter().any(|line| line.starts_with(&format!("process {}", child.id()))));
    assert!(left.iter().any(|line| line.starts_with("path ")), "{left:?}");
    let other_processes = before.left("no such mark anywhere");
    assert!(!other_processes.iter().any(|line| line.contains(&mark)), "{other_processes:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(directory);
    before.assert_nothing_left(&mark);
}

#[test]
#[should_panic(expected = "left behind")]
fn what_stays_fails_the_test() {
    let before = Machine::now();
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().display().to_string();
    before.assert_nothing_left_within(&mark, Duration::from_millis(50));
}

//! Live: systems of several processes, which come and go within a window.

#[cfg(test)]
mod common;

use common::{alone, assert_closed, groups, probe, ratio, waits, window};
use kneepoint_probe::Target;
use kneepoint_vocab::{Fact, StackKind, StackRecord, Tier};
use std::process::{Child, Command};
use std::time::Duration;

/// A process that a test started; gone when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(script: &str) -> Killed {
    Killed(Command::new("sh").args(["-c", script]).spawn().expect("a shell"))
}

/// A command that does its work and ends may be gone before its window is.
#[test]
fn a_system_that_ends_within_its_window_is_accounted_for() {
    let _alone = alone();
    for tier in [Tier::Full, Tier::Fallback] {
        let test = format!("ends early, {tier:?}");
        let Some(mut probe) = probe(&test, tier, true) else { continue };
        probe.reattach().unwrap();
        let mut system =
            shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done & sleep 0.2; wait");
        let target = Target { pids: vec![system.0.id()], ..Target::default() };
        probe.open(&target).unwrap();
        system.0.wait().unwrap();
        probe.freeze().unwrap();
        let seen = probe.collect().unwrap();
        assert_closed(&test, &seen);
        assert!(seen.length.0 > 0);
        if tier == Tier::Full {
            let shells: u32 =
                groups(&seen).iter().filter(|g| g.name == "sh").map(|g| g.threads).sum();
            assert!(shells >= 2, "{test}: {:?}", groups(&seen));
            let running: u64 = groups(&seen).iter().map(|group| group.running.0).sum();
            assert!(running > 0 && !waits(&seen).is_empty());
        }
        assert!(probe.open(&target).is_err(), "it is gone");
    }
}

/// A process a connection: every child is born in the window, and all run the same program.
const SERVER: &str = "
import os, time
def serve():
    end = time.monotonic() + 0.15
    while time.monotonic() < end:
        sum(i * i for i in range(2000))
        time.sleep(0.002)
while True:
    for _ in range(4):
        if os.fork() == 0:
            serve(); os._exit(0)
    for _ in range(4):
        os.wait()
";

#[test]
fn stacks_of_processes_born_in_the_window_have_names() {
    let _alone = alone();
    let test = "born in the window";
    let Some(mut probe) = probe(test, Tier::Full, true) else { return };
    let python = Command::new("/usr/bin/python3").args(["-c", SERVER]).spawn();
    let Ok(python) = python else {
        println!("SKIP {test}: no /usr/bin/python3");
        return;
    };
    let python = Killed(python);
    std::thread::sleep(Duration::from_millis(300));
    let target = Target { pids: vec![python.0.id()], ..Target::default() };
    let (mut all, mut whole, mut inside) = (0, 0, 0);
    let mut records: Vec<StackRecord> = Vec::new();
    for _ in 0..3 {
        let seen = window(&mut probe, &target, Duration::from_millis(700));
        assert_closed(test, &seen);
        records.extend(seen.new_stacks.iter().cloned());
        for fact in &seen.facts {
            let Fact::Stack(stack) = fact else { continue };
            let record = records.iter().find(|record| record.id == stack.stack).unwrap();
            if stack.kind == StackKind::OffCpu {
                all += stack.count;
                whole += if record.truncated { 0 } else { stack.count };
                let python = |frame: &kneepoint_vocab::Frame| frame.module.starts_with("python3");
                inside += if record.frames.iter().any(python) { stack.count } else { 0 };
            }
        }
        let python = groups(&seen).into_iter().find(|group| group.name.starts_with("python3"));
        assert!(python.is_some_and(|group| group.threads > 4), "{:?}", groups(&seen));
    }
    println!("{test}: {all} stacks of waits, {whole} whole, {inside} in the program");
    assert!(all > 20 && ratio(whole, all) > 0.8 && ratio(inside, all) > 0.8);
}

//! Live: what the instruments show of a load that is known. No privilege needed.

use kneepoint_probe::{Instruments, Target};
use kneepoint_vocab::{Fact, MachineCounters, TaskCpu, TaskOwner};
use std::process::{Child, Command};
use std::time::Duration;

/// A shell running `script` until dropped.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn machine(facts: &[Fact]) -> MachineCounters {
    let of = |fact: &Fact| if let Fact::Machine(machine) = fact { Some(*machine) } else { None };
    facts.iter().find_map(of).expect("machine counters")
}

fn tasks(facts: &[Fact]) -> Vec<&TaskCpu> {
    let of = |fact: &'_ Fact| matches!(fact, Fact::Task(_));
    let tasks = facts.iter().filter(|fact| of(fact));
    tasks.filter_map(|fact| if let Fact::Task(task) = fact { Some(task) } else { None }).collect()
}

#[test]
fn computing_processes_are_shown_with_their_owners() {
    let [system, generator, other] = [(); 3].map(|()| Shell::start("while :; do :; done"));
    let target = Target {
        pids: vec![system.0.id()],
        generators: vec![generator.0.id()],
        ..Target::default()
    };
    let mut instruments = Instruments::start(&target);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(50));
        instruments.look();
    }
    let facts = instruments.finish();
    println!("{facts:#?}");
    let machine = machine(&facts);
    assert_eq!(machine.readings, 10);
    assert!(machine.user.0 > 0 && machine.switches > 0, "{machine:?}");
    assert!(machine.runnable.0 > 1.0, "three compute: {machine:?}");
    let all = [machine.user, machine.system, machine.idle, machine.iowait, machine.steal];
    let sum: u64 = all.iter().map(|part| part.0).sum();
    let capacity = u64::from(machine.cores) * machine.over.0;
    let tick = u64::from(machine.cores) * 30_000_000;
    assert!(sum.abs_diff(capacity) < capacity / 5 + tick, "{sum} of {capacity}");
    let tasks = tasks(&facts);
    for (shell, owner) in [
        (&system, TaskOwner::System),
        (&generator, TaskOwner::Generator),
        (&other, TaskOwner::Other),
    ] {
        let row = tasks.iter().find(|task| task.tid == shell.0.id());
        assert!(row.is_some_and(|row| row.owner == owner && row.name == "sh"), "{tasks:?}");
    }
    assert!(tasks.iter().all(|task| task.cpu.0 <= task.over.0 + task.over.0 / 5), "{tasks:?}");
}

/// Processes that end in between are no error.
#[test]
fn a_system_that_is_gone_leaves_the_machine() {
    let system = Shell::start("while :; do :; done");
    let target = Target { pids: vec![system.0.id()], ..Target::default() };
    let instruments = Instruments::start(&target);
    drop(system);
    std::thread::sleep(Duration::from_millis(20));
    let facts = instruments.finish();
    assert!(machine(&facts).cores > 0);
    assert!(tasks(&facts).iter().all(|task| task.owner != TaskOwner::System), "{facts:?}");
}

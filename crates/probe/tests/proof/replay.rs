//! Windows of real systems, recorded by `perf` beside the collector, told to the programs on the
//! host and to the reference; and compared with what the collector itself said of them.
//!
//! A recording has a line for each task (`task TID TGID CLASS NAME`), for what each core ran when
//! it began (`core CPU TASK`), the length and the collector's sums (`window`, `sums`, in ns), and
//! for each event its ns since the one before, its CPU, and `s PREV HOW NEXT`, `w TASK` or
//! `n TASK`. Tasks count from 0.

use super::account::Account;
use super::event::{CPUS, Event, How, Sequence, Task, What, comm};
use super::host::{Host, compiler_is_there, sources};
use super::{Reported, difference};
use std::path::{Path, PathBuf};

/// A recorded window.
struct Recording {
    sequence: Sequence,
    /// Running, runnable and blocked time of all threads, and that of cores in the system.
    sums: [u64; 4],
    switches: usize,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/windows")
}

/// Ns before the first event.
const FIRST: u64 = 1_000_000;

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

fn read(path: &Path) -> Recording {
    let text = std::fs::read_to_string(path).unwrap();
    let idle = |_| Task { tid: 0, tgid: 0, process: 0, kernel: 0, comm: comm("swapper") };
    let mut tasks: Vec<Task> = (0..CPUS).map(idle).collect();
    let mut before = Vec::new();
    let mut during = Vec::new();
    let (mut length, mut sums, mut at, mut switches) = (0, [0; 4], FIRST, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut setup = |cpu: u8, what| before.push(Event { at: FIRST, cpu, seen: true, what });
        match words[..] {
            ["task", tid, tgid, class, name] => {
                let (tid, tgid) = (number(tid), number(tgid));
                let kernel = u32::from(class == "kernel");
                tasks.push(Task { tid, tgid, process: 1, kernel, comm: comm(name) });
                if class == "system" {
                    setup(0, What::Target { tgid, class: 1 });
                }
            }
            ["core", cpu, task] => {
                let cpu: u8 = number(cpu);
                let next = place(task, cpu);
                setup(cpu, What::Switch { prev: cpu, next, how: How::Yielded });
            }
            ["window", ns] => length = number(ns),
            ["sums", a, b, c, d] => sums = [a, b, c, d].map(number),
            [after, cpu, ref what @ ..] => {
                at += number::<u64>(after);
                let cpu: u8 = number(cpu);
                let what = match *what {
                    ["s", prev, how, next] => {
                        switches += 1;
                        let (prev, next) = (place(prev, cpu), place(next, cpu));
                        What::Switch { prev, next, how: way(how) }
                    }
                    ["w", task] => What::Wakeup(place(task, cpu)),
                    ["n", task] => What::New(place(task, cpu)),
                    _ => panic!("`{line}` is no event"),
                };
                during.push(Event { at, cpu, seen: true, what });
            }
            _ => panic!("`{line}` is not of a recording"),
        }
    }
    let edge = |cpu: usize, what| Event { at: FIRST, cpu: cpu as u8, seen: true, what };
    before.push(edge(0, What::Open { own: u32::MAX, always_from: 0 }));
    let cores = before.iter().filter(|event| matches!(event.what, What::Switch { .. })).count();
    before.extend((0..cores).map(|cpu| edge(cpu, What::Edge)));
    before.extend(during);
    before.push(Event { at: FIRST + length, ..edge(0, What::Close) });
    let sequence = Sequence { seed: 0, tasks, events: before, legal: true };
    Recording { sequence, sums, switches }
}

/// A task of the recording, or the one that idles on this core.
fn place(word: &str, cpu: u8) -> u8 {
    if word == "i" { cpu } else { number::<u8>(word) + CPUS as u8 }
}

fn way(word: &str) -> How {
    match word {
        "p" => How::Preempted,
        "d" => How::Dead,
        _ => How::Blocked,
    }
}

/// Sums of the programs on the host, in the order of a recording's.
fn sums(account: &Account) -> [u64; 4] {
    let mut sums = [0, 0, 0, account.machine.0[1]];
    for (_, [_, running, woken, preempted, blocked, _]) in account.groups.values() {
        sums[0] += running;
        sums[1] += woken + preempted;
        sums[2] += blocked;
    }
    sums
}

#[test]
#[allow(clippy::print_stdout, reason = "how near the recordings are")]
fn recorded_windows_come_to_what_the_collector_said() {
    let test = "recorded windows";
    if !compiler_is_there(test) {
        return;
    }
    let mut host = Host::of(&sources(), "-O2");
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "events") {
            continue;
        }
        let recording = read(&path);
        let reported = &mut Reported::default();
        let found = difference(&mut host, &recording.sequence, reported);
        assert_eq!(found, None, "{}", path.display());
        let account = Account::of(&host.run(&recording.sequence)[0]);
        let here = sums(&account);
        let name = path.file_stem().unwrap().to_string_lossy();
        println!(
            "{name}: {} switches, {here:?} ns here, {:?} live",
            recording.switches, recording.sums
        );
        // The collector's programs run between their reading of the clock and perf's: at each
        // switch onto a core, and longer where the core had idled.
        let whole = recording.sums.iter().take(3).sum::<u64>();
        for (here, live) in here.iter().zip(recording.sums) {
            assert!(here.abs_diff(live) * 20 < whole, "{name}: {here} here, {live} ns live");
        }
        count += 1;
    }
    assert!(count > 0, "{} holds no recording", folder().display());
}

//! Windows of real systems, replayed to the programs on the host and to the reference; and compared
//! with what the collector itself said of them.
//!
//! A recording has a line for each task (`task TID TGID CLASS NAME`), for what each core ran when
//! it began (`core CPU TASK`), the length and the collector's sums (`window`, `sums`, in ns), and
//! for each event its ns since the one before, its CPU, and `s PREV HOW NEXT`, `w TASK`,
//! `n TASK AGE` or `e`, where the core was shown to the programs. Tasks count from 0.
//!
//! Where the programs wrote it down themselves, every sum is the same to the nanosecond. One was
//! written down by `perf` beside them, as a witness that sees the same events: its clock is read
//! after the programs have run, a microsecond and more later where the core had idled.

use super::account::Account;
use super::event::{CPUS, Event, How, Sequence, Task, What, comm};
use super::host::{Host, compiler_is_there, sources};
use super::{Reported, difference};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A recorded window.
struct Recording {
    sequence: Sequence,
    /// Running, runnable and blocked time of all threads, and that of cores in the system; where
    /// the programs recorded it, idle time charged to waits, to the scheduler, to nobody.
    sums: Vec<u64>,
    switches: usize,
    length: u64,
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
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if path.extension().is_some_and(|kind| kind == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    let idle = |_| Task { tid: 0, tgid: 0, process: 0, kernel: 0, comm: comm("swapper") };
    let mut tasks: Vec<Task> = (0..CPUS).map(idle).collect();
    let mut before = Vec::new();
    let mut during = Vec::new();
    let (mut length, mut sums, mut at, mut switches) = (0, Vec::new(), FIRST, 0);
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
            ["sums", ref all @ ..] => sums = all.iter().map(|word| number(word)).collect(),
            [after, cpu, ref what @ ..] => {
                at = at.checked_add_signed(number(after)).expect("a time after the begin");
                let cpu: u8 = number(cpu);
                let what = match *what {
                    ["s", prev, how, next] => {
                        switches += 1;
                        let (prev, next) = (place(prev, cpu), place(next, cpu));
                        What::Switch { prev, next, how: way(how) }
                    }
                    ["w", task] => What::Wakeup(place(task, cpu)),
                    ["n", task, ref age @ ..] => {
                        let task = place(task, cpu);
                        let age: u64 = age.first().map_or(0, |age| number(age));
                        let (born, what) = (at.saturating_sub(age), What::Born(task));
                        during.push(Event { at: born, cpu, seen: true, what });
                        What::New(task)
                    }
                    ["e"] => What::Edge,
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
    if !during.iter().any(|event: &Event| event.what == What::Edge) {
        before.extend((0..cores).map(|cpu| edge(cpu, What::Edge)));
    }
    before.extend(during);
    before.push(Event { at: FIRST + length, ..edge(0, What::Close) });
    let sequence = Sequence { seed: 0, tasks, events: before, legal: true };
    Recording { sequence, sums, switches, length }
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

/// Sums of the programs on the host, in the order of a recording's. Cores that the recorded machine
/// does not have idle for the whole `length` here.
fn sums(account: &Account, length: u64) -> [u64; 7] {
    let [_, system, .., scheduler, nobody] = account.machine.0;
    let charged = account.waits.values().map(|sums| sums[3]).sum();
    let nobody = nobody - account.machine.1 * length;
    let mut sums = [0, 0, 0, system, charged, scheduler, nobody];
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
        let recording = read(&path);
        let reported = &mut Reported::default();
        let found = difference(&mut host, &recording.sequence, reported);
        assert_eq!(found, None, "{}", path.display());
        let account = Account::of(&host.run(&recording.sequence)[0]);
        let here = sums(&account, recording.length);
        let name = path.file_stem().unwrap().to_string_lossy();
        println!(
            "{name}: {} switches, {here:?} ns here, {:?} live",
            recording.switches, recording.sums
        );
        count += 1;
        if recording.sums.len() == here.len() {
            assert_eq!(here[..], recording.sums, "{name}");
            continue;
        }
        let whole = recording.sums.iter().take(3).sum::<u64>();
        for (here, live) in here.iter().zip(&recording.sums) {
            assert!(here.abs_diff(*live) * 20 < whole, "{name}: {here} here, {live} ns live");
        }
    }
    assert!(count > 0, "{} holds no recording", folder().display());
}

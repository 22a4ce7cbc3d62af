//! Records a window of a running system for `replay.rs`: `perf` writes the scheduler's events down,
//! while the collector keeps its account of the same window.
//!
//! As root, `KNEEPOINT_RECORD=PID:FILE` before
//! `cargo test -p kneepoint-probe --lib -- --ignored proof::record`.

use super::super::Collector as _;
use super::super::Target;
use super::super::ebpf::EbpfCollector;
use super::super::window::{Harvest, Sums};
use crate::proc::{stat, tasks};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

const PERF: [&str; 12] = [
    "record",
    "-k",
    "CLOCK_MONOTONIC",
    "-a",
    "-m",
    "8M",
    "-e",
    "sched:sched_switch",
    "-e",
    "sched:sched_wakeup",
    "-e",
    "sched:sched_wakeup_new",
];

/// An event of `perf script`: ns, CPU, and its words.
struct Line {
    at: u64,
    cpu: usize,
    text: String,
}

/// `pid=N` of this name, or the number after the last colon before ` [`.
fn number(text: &str, field: &str) -> u32 {
    let named = text.split_once(&format!("{field}=")).map(|(_, rest)| rest);
    let number = named.unwrap_or_else(|| {
        let before = text.split(" [").next().unwrap_or_default();
        before.rsplit_once(':').map_or("", |(_, number)| number)
    });
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    number.parse().unwrap_or_else(|_| panic!("{field} of `{text}`"))
}

fn lines(script: &str) -> Vec<Line> {
    let line = |line: &str| {
        let (cpu, rest) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
        let (time, text) = rest.trim_start().split_once(": ")?;
        let (seconds, ns) = time.split_once('.')?;
        let at = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        Some(Line { at, cpu: cpu.parse().ok()?, text: text.trim().to_owned() })
    };
    script.lines().filter_map(line).collect()
}

/// Names tasks by their place in the recording, in the order in which they come.
struct Places {
    system: BTreeMap<u32, u32>,
    found: BTreeMap<u32, usize>,
    text: String,
}

impl Places {
    fn of(&mut self, tid: u32) -> String {
        if tid == 0 {
            return "i".to_owned();
        }
        let next = self.found.len();
        if let Some(place) = self.found.get(&tid) {
            return place.to_string();
        }
        self.found.insert(tid, next);
        let (tgid, class, name) = match self.system.get(&tid) {
            Some(pid) => (*pid, "system", format!("thread-{tid}")),
            None if stat::read_task(tid, tid).is_some() && is_kernel(tid) => {
                (tid, "kernel", "kernel".to_owned())
            }
            None => (tid, "other", "other".to_owned()),
        };
        let _ = writeln!(self.text, "task {tid} {tgid} {class} {name}");
        next.to_string()
    }

    fn event(&mut self, line: &Line, last: u64) -> String {
        let (kind, rest) = line.text.split_once(": ").expect("an event and its fields");
        let after = line.at - last;
        if kind.ends_with("sched_switch") {
            let (prev, next) = rest.split_once("==>").expect("a switch");
            let state = prev.trim_end().rsplit([' ', '=']).next().unwrap_or_default();
            let how = match state {
                "R" | "R+" => "p",
                "X" | "Z" => "d",
                _ => "b",
            };
            let (prev, next) = (number(prev, "prev_pid"), number(next, "next_pid"));
            let (prev, next) = (self.of(prev), self.of(next));
            return format!("{after} {} s {prev} {how} {next}\n", line.cpu);
        }
        let what = if kind.ends_with("_new") { "n" } else { "w" };
        let task = self.of(number(rest, " pid"));
        format!("{after} {} {what} {task}\n", line.cpu)
    }
}

/// A thread of the kernel has no executable.
fn is_kernel(tid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{tid}/cmdline")).is_ok_and(|text| text.is_empty())
}

#[test]
#[ignore = "records a fixture: KNEEPOINT_RECORD=PID:FILE, as root"]
fn record() {
    let asked = std::env::var("KNEEPOINT_RECORD").expect("KNEEPOINT_RECORD=PID:FILE");
    let (pid, file) = asked.split_once(':').expect("KNEEPOINT_RECORD=PID:FILE");
    let pid = pid.parse().expect("a process id");
    let cpus = tasks::allowed_cpus();
    let mut collector = EbpfCollector::attach(cpus, None, &mut Vec::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("perf.data");
    let mut perf = Command::new("perf");
    let perf = perf.args(PERF).arg("-o").arg(&out).args(["--", "sleep", "1"]);
    let mut perf = perf.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pids = tasks::family(&[pid]);
    let of_pid = |pid: &u32| {
        let pid = *pid;
        tasks::threads(pid).into_iter().map(move |tid| (tid, pid))
    };
    let mut system: BTreeMap<u32, u32> = pids.iter().flat_map(of_pid).collect();
    collector.open(&Target { pids, ..Target::default() }).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    collector.freeze().unwrap();
    system.extend(tasks::family(&[pid]).iter().flat_map(of_pid));
    let mut places = Places { system, found: BTreeMap::new(), text: String::new() };
    perf.wait().unwrap();
    let harvest = collector.harvest().expect("a frozen window");
    let script = Command::new("perf")
        .args(["script", "--ns", "-F", "cpu,time,event,trace", "-i"])
        .arg(&out)
        .output()
        .unwrap();
    let all = lines(&String::from_utf8_lossy(&script.stdout));
    let mut running: BTreeMap<usize, u32> = BTreeMap::new();
    for line in all.iter().filter(|line| line.text.contains("sched_switch")) {
        let (prev, next) = line.text.split_once("==>").expect("a switch");
        if line.at < harvest.begin {
            running.insert(line.cpu, number(next, "next_pid"));
        } else {
            running.entry(line.cpu).or_insert_with(|| number(prev, "prev_pid"));
        }
    }
    let mut text = String::new();
    for (cpu, tid) in running {
        let _ = writeln!(text, "core {cpu} {}", places.of(tid));
    }
    let mut last = harvest.begin;
    for line in all.iter().filter(|line| (harvest.begin..harvest.end).contains(&line.at)) {
        text.push_str(&places.event(line, last));
        last = line.at;
    }
    // Threads without an event are none of the recording's.
    let seen = Harvest {
        begin: harvest.begin,
        end: harvest.end,
        threads: harvest.threads.clone(),
        exited: harvest.exited.clone(),
        ..Harvest::default()
    };
    let sums = Sums::of(&seen);
    let of = |pick: fn(&kneepoint_vocab::ThreadTime) -> u64| sums.groups.values().map(pick).sum();
    let times: [u64; 3] = [
        of(|group| group.running.0),
        of(|group| group.runnable_woken.0 + group.runnable_preempted.0),
        of(|group| group.blocked.0),
    ];
    let (cores, _) = super::window::core_time(harvest, kneepoint_vocab::Nanos(0));
    let [run, queued, blocked] = times;
    let length = harvest.end - harvest.begin;
    let head = format!("window {length}\nsums {run} {queued} {blocked} {}\n", cores.system.0);
    std::fs::write(file, format!("{}{head}{text}", places.text)).unwrap();
}

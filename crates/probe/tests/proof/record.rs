//! Records a window of a running system for `replay.rs`: the programs, compiled with `TRACE`, write
//! down what they are called with and when, while they keep their account of the same window.
//!
//! As root and with clang-19, `KNEEPOINT_RECORD=PID:FILE` before
//! `cargo test -p kneepoint-probe --lib -- --ignored proof::record`. FILE is compressed by gzip.

use super::super::Collector as _;
use super::super::Target;
use super::super::ebpf::EbpfCollector;
use super::super::window::{self, Harvest, Sums};
use super::host::sources;
use crate::proc::tasks;
use crate::sys::{self, Wire};
use aya::maps::RingBuf;
use flate2::Compression;
use flate2::write::GzEncoder;
use kneepoint_vocab::Nanos;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

/// How much of the system is recorded.
const WINDOW: Duration = Duration::from_millis(100);

/// `struct traced` of `trace.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Traced {
    at: u64,
    born: u64,
    cpu: u32,
    what: u32,
    a: u32,
    a_of: u32,
    b: u32,
    b_of: u32,
}

// SAFETY: only numbers, and no padding.
unsafe impl Wire for Traced {}

/// The bit of a thread of the kernel.
const KERNEL: u32 = 1 << 31;

/// The programs with their trace.
fn object() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("traced.o");
    let flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-DTRACE", "-I/usr/include", "-c"];
    let compiled = Command::new("clang-19")
        .args(flags)
        .arg(sources().join("threads.bpf.c"))
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang-19");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::read(object).unwrap()
}

/// Names tasks by their place in the recording, in the order in which they come.
struct Places {
    system: Vec<u32>,
    found: BTreeMap<u32, usize>,
    text: String,
}

impl Places {
    fn of(&mut self, tid: u32, process: u32) -> String {
        if tid == 0 {
            return "i".to_owned();
        }
        let next = self.found.len();
        if let Some(place) = self.found.get(&tid) {
            return place.to_string();
        }
        self.found.insert(tid, next);
        let pid = process & !KERNEL;
        let (class, name) = match self.system.contains(&pid) {
            _ if process & KERNEL != 0 => ("kernel", "kernel".to_owned()),
            true => ("system", format!("thread-{tid}")),
            false => ("other", "other".to_owned()),
        };
        let _ = writeln!(self.text, "task {tid} {pid} {class} {name}");
        next.to_string()
    }

    /// The line of an event, so many ns after the one before. Cores read clocks of their own, so it
    /// may be a few before.
    fn event(&mut self, event: &Traced, after: i64) -> String {
        let (cpu, a) = (event.cpu, self.of(event.a, event.a_of));
        let how = match event.what {
            1 => "b",
            2 => "p",
            3 => "d",
            4 => return format!("{after} {cpu} w {a}\n"),
            5 => return format!("{after} {cpu} n {a} {}\n", event.at.saturating_sub(event.born)),
            _ => return format!("{after} {cpu} e\n"),
        };
        format!("{after} {cpu} s {a} {how} {}\n", self.of(event.b, event.b_of))
    }
}

/// What the collector said of the window, in the order of `replay::sums`. Threads without an event
/// are none of the recording's.
fn sums(harvest: &Harvest) -> String {
    let seen = Harvest {
        begin: harvest.begin,
        end: harvest.end,
        threads: harvest.threads.clone(),
        waits: harvest.waits.clone(),
        exited: harvest.exited.clone(),
        ..Harvest::default()
    };
    let sums = Sums::of(&seen);
    let charged: Nanos = sums.waits.values().map(|wait| wait.idle_charged).sum();
    let (cores, _) = window::core_time(harvest, charged);
    let of = |pick: fn(&kneepoint_vocab::ThreadTime) -> u64| -> u64 {
        sums.groups.values().map(pick).sum()
    };
    let all = [
        of(|group| group.running.0),
        of(|group| group.runnable_woken.0 + group.runnable_preempted.0),
        of(|group| group.blocked.0),
        cores.system.0,
        charged.0,
        cores.idle_scheduler.0,
        cores.idle_uncharged.0,
    ];
    all.map(|sum| sum.to_string()).join(" ")
}

#[test]
#[ignore = "records a fixture: KNEEPOINT_RECORD=PID:FILE, as root"]
fn record() {
    let asked = std::env::var("KNEEPOINT_RECORD").expect("KNEEPOINT_RECORD=PID:FILE");
    let (pid, file) = asked.split_once(':').expect("KNEEPOINT_RECORD=PID:FILE");
    let pid = pid.parse().expect("a process id");
    let cpus = tasks::allowed_cpus();
    let mut collector =
        EbpfCollector::attach_object(&object(), cpus, None, &mut Vec::new()).unwrap();
    let trace = collector.take_map("trace").expect("the map `trace`");
    let mut trace = RingBuf::try_from(trace).unwrap();
    let mut system = tasks::family(&[pid]);
    collector.open(&Target { pids: system.clone(), ..Target::default() }).unwrap();
    std::thread::sleep(WINDOW);
    collector.freeze().unwrap();
    system.extend(tasks::family(&[pid]));
    let harvest = collector.harvest().expect("a frozen window");
    let mut events: Vec<Traced> = Vec::new();
    while let Some(item) = trace.next() {
        events.extend(sys::read_wire::<Traced>(&item));
    }
    let mut places = Places { system, found: BTreeMap::new(), text: String::new() };
    let mut running: BTreeMap<u32, &Traced> = BTreeMap::new();
    for event in events.iter().filter(|event| matches!(event.what, 1..=3 | 6)) {
        running.entry(event.cpu).or_insert(event);
    }
    let mut text = String::new();
    for (cpu, event) in running {
        let _ = writeln!(text, "core {cpu} {}", places.of(event.a, event.a_of));
    }
    let _ = writeln!(text, "window {}\nsums {}", harvest.end - harvest.begin, sums(harvest));
    let mut last = harvest.begin;
    for event in &events {
        text.push_str(&places.event(event, event.at.wrapping_sub(last).cast_signed()));
        last = event.at;
    }
    let file = std::fs::File::create(file).unwrap();
    let mut out = GzEncoder::new(file, Compression::best());
    out.write_all(places.text.as_bytes()).unwrap();
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap();
}

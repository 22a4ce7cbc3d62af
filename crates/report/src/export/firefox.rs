//! Stacks in the processed format of the Firefox Profiler (profiler.firefox.com), version 48, which
//! later ones of it bring up to date as they read it.
//!
//! A variant at a level is a process; what its threads did is a thread of it: on a core, or waiting
//! for one kind of thing. A sample's weight is the thread-time that its stack stands for. When
//! within its slice a stack was taken is not recorded, so a slice's stacks are spread over it.

use super::slices::{counted, level};
use super::{Export, Made, epoch};
use crate::text;
use kneepoint_vocab::recording::{RecordedFunction, RecordedSlice, Recording, ThreadState};
use kneepoint_vocab::{Level, Nanos};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Stacks on a core and of waits, on the run's time line.
pub const STACKS: Export =
    Export { name: "firefox", holds: "stacks", binary: None, made: Made::Recorded(render) };

/// Version of the format.
const VERSION: u32 = 48;
/// Of the profiler's own older form; readers want to see one.
const GECKO: u32 = 24;

/// What frames are told apart by, as positions in the list of categories.
const USER: usize = 1;
const KERNEL: usize = 2;

/// Renders the stacks of all slices that count; empty where there are none.
#[must_use]
pub fn render(recording: &Recording) -> Vec<u8> {
    let mut threads: BTreeMap<Place<'_>, Vec<Sample>> = BTreeMap::new();
    for slice in counted(recording) {
        for (place, sample) in samples(slice) {
            threads.entry(place).or_default().push(sample);
        }
    }
    if threads.is_empty() {
        return Vec::new();
    }
    let mut processes: Vec<(&str, Level)> =
        threads.keys().map(|place| (place.variant, place.level)).collect();
    processes.dedup();
    let libs = libs(recording);
    let threads = threads.iter().enumerate().map(|(index, (place, samples))| {
        let process = processes.iter().position(|one| *one == (place.variant, place.level));
        let mut tables = Tables::new(recording, &libs);
        let stacks = samples.iter().map(|sample| tables.stack(sample.stack)).collect::<Vec<_>>();
        let mut thread = tables.written();
        let level = level(recording, place.level);
        let more = about(place, process.unwrap_or(0), index, &level, samples, &stacks);
        if let (Value::Object(thread), Value::Object(more)) = (&mut thread, more) {
            thread.extend(more);
        }
        thread
    });
    let document = json!({
        "meta": meta(recording),
        "libs": libs.iter().map(|lib| library(lib, recording)).collect::<Vec<Value>>(),
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads.collect::<Vec<Value>>(),
    });
    let mut text = text::inert_json(&document.to_string()).into_owned();
    text.push('\n');
    text.into_bytes()
}

/// Where samples belong: a process, and a thread in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    variant: &'a str,
    level: Level,
    state: ThreadState,
    label: &'a str,
}

/// A stack at an instant.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Milliseconds since the begin of the run.
    at: f64,
    stack: usize,
    /// Milliseconds of threads.
    weight: f64,
}

/// The samples of a slice, spread over its window state by state.
fn samples(slice: &RecordedSlice) -> Vec<(Place<'_>, Sample)> {
    let mut totals: BTreeMap<ThreadState, usize> = BTreeMap::new();
    for taken in &slice.stacks {
        *totals.entry(taken.state).or_default() += 1;
    }
    let mut before: BTreeMap<ThreadState, usize> = BTreeMap::new();
    let placed = slice.stacks.iter().map(|taken| {
        let before = before.entry(taken.state).or_default();
        let part = (*before as f64 + 0.5) / totals[&taken.state] as f64;
        *before += 1;
        let place = Place {
            variant: &slice.variant.0,
            level: slice.level,
            state: taken.state,
            label: &slice.label,
        };
        let at = millis(slice.window.begin) + part * millis(slice.window.length);
        (place, Sample { at, stack: taken.stack, weight: millis(taken.weight) })
    });
    placed.collect()
}

fn millis(nanos: Nanos) -> f64 {
    nanos.seconds().0 * 1e3
}

fn meta(recording: &Recording) -> Value {
    let host = &recording.host;
    let begun = epoch::seconds(&host.begun).unwrap_or(0);
    let category =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    json!({
        "version": GECKO,
        "preprocessedProfileVersion": VERSION,
        "product": format!("Kneepoint: {}", recording.title),
        "importedFrom": format!("Kneepoint {}", host.kneepoint),
        "startTime": begun as f64 * 1e3,
        "interval": 1.0,
        "processType": 0,
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "sourceCodeIsNotOnSearchfox": true,
        "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true,
        "oscpu": host.kernel,
        "CPUName": host.cpu,
        "logicalCPUs": host.cores,
        "categories": [
            category("Other", "grey"),
            category("User", "yellow"),
            category("Kernel", "orange"),
        ],
        "markerSchema": [],
        "pausedRanges": [],
        "extensions": {"id": [], "name": [], "baseURL": [], "length": 0},
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
    })
}

/// Modules of the run, by name.
fn libs(recording: &Recording) -> Vec<&str> {
    let mut modules: Vec<&str> =
        recording.functions.iter().map(|one| one.module.as_str()).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

fn library(name: &str, recording: &Recording) -> Value {
    let own = recording.functions.iter().find(|one| one.module == name);
    json!({
        "arch": "x86_64",
        "name": name,
        "path": name,
        "debugName": name,
        "debugPath": name,
        "breakpadId": "",
        "codeId": own.and_then(|one| one.build_id.as_deref()),
    })
}

/// What a thread is, and its samples.
fn about(
    place: &Place<'_>,
    process: usize,
    index: usize,
    level: &str,
    samples: &[Sample],
    stacks: &[Option<usize>],
) -> Value {
    let name = match place.state {
        ThreadState::Running => "on a core".to_owned(),
        ThreadState::Waiting(reason) => format!("waiting: {}", reason.as_str()),
    };
    json!({
        "name": name,
        "processName": format!("{}, {level}", place.label),
        "processType": "default",
        "pid": (process + 1).to_string(),
        "tid": index + 1,
        "isMainThread": place.state == ThreadState::Running,
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": 0.0,
        "unregisterTime": null,
        "pausedRanges": [],
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [],
            "startTime": [],
        },
        "samples": {
            "length": samples.len(),
            "stack": stacks,
            "time": samples.iter().map(|sample| sample.at).collect::<Vec<f64>>(),
            "weight": samples.iter().map(|sample| sample.weight).collect::<Vec<f64>>(),
            "weightType": "tracing-ms",
        },
    })
}

/// The tables of one thread: strings, functions with a frame each, and stacks as a tree.
struct Tables<'a> {
    recording: &'a Recording,
    libs: &'a [&'a str],
    strings: Vec<&'a str>,
    string_of: BTreeMap<&'a str, usize>,
    functions: Vec<&'a RecordedFunction>,
    function_of: BTreeMap<usize, usize>,
    modules: Vec<&'a str>,
    /// The frame of a stack and that of its caller.
    stacks: Vec<(usize, Option<usize>)>,
    stack_of: BTreeMap<(usize, Option<usize>), usize>,
}

impl<'a> Tables<'a> {
    fn new(recording: &'a Recording, libs: &'a [&'a str]) -> Self {
        Self {
            recording,
            libs,
            strings: Vec::new(),
            string_of: BTreeMap::new(),
            functions: Vec::new(),
            function_of: BTreeMap::new(),
            modules: Vec::new(),
            stacks: Vec::new(),
            stack_of: BTreeMap::new(),
        }
    }

    fn string(&mut self, words: &'a str) -> usize {
        let next = self.strings.len();
        *self.string_of.entry(words).or_insert_with(|| {
            self.strings.push(words);
            next
        })
    }

    /// The stack as it is written; none where it has no frame.
    fn stack(&mut self, stack: usize) -> Option<usize> {
        let mut caller = None;
        for &function in self.recording.stacks[stack].iter().rev() {
            let frame = self.function(function);
            let next = self.stacks.len();
            let at = *self.stack_of.entry((frame, caller)).or_insert_with(|| {
                self.stacks.push((frame, caller));
                next
            });
            caller = Some(at);
        }
        caller
    }

    fn function(&mut self, function: usize) -> usize {
        if let Some(&known) = self.function_of.get(&function) {
            return known;
        }
        let one = &self.recording.functions[function];
        if !self.modules.contains(&one.module.as_str()) {
            self.modules.push(&one.module);
        }
        self.functions.push(one);
        self.function_of.insert(function, self.functions.len() - 1);
        self.functions.len() - 1
    }

    fn written(mut self) -> Value {
        let functions = std::mem::take(&mut self.functions);
        let modules = std::mem::take(&mut self.modules);
        let names: Vec<usize> = functions.iter().map(|one| self.string(&one.name)).collect();
        let files: Vec<Option<usize>> = functions
            .iter()
            .map(|one| one.source.as_ref().map(|source| self.string(&source.file)))
            .collect();
        let lines: Vec<Option<u32>> =
            functions.iter().map(|one| one.source.as_ref().map(|source| source.line)).collect();
        let resources: Vec<Option<usize>> = functions
            .iter()
            .map(|one| modules.iter().position(|module| *module == one.module))
            .collect();
        let of_modules: Vec<usize> = modules.iter().map(|&module| self.string(module)).collect();
        let kinds: Vec<usize> =
            functions.iter().map(|one| if one.kernel { KERNEL } else { USER }).collect();
        let libs: Vec<Option<usize>> =
            modules.iter().map(|module| self.libs.iter().position(|lib| lib == module)).collect();
        let (frames, resource_count) = (functions.len(), modules.len());
        json!({
            "stringArray": self.strings,
            "funcTable": {
                "length": frames,
                "name": names,
                "isJS": vec![false; frames],
                "relevantForJS": vec![false; frames],
                "resource": resources,
                "fileName": files,
                "lineNumber": lines,
                "columnNumber": vec![Value::Null; frames],
            },
            "frameTable": {
                "length": frames,
                "address": vec![-1; frames],
                "inlineDepth": vec![0; frames],
                "category": kinds,
                "subcategory": vec![0; frames],
                "func": (0..frames).collect::<Vec<usize>>(),
                "nativeSymbol": vec![Value::Null; frames],
                "innerWindowID": vec![0; frames],
                "implementation": vec![Value::Null; frames],
                "line": lines,
                "column": vec![Value::Null; frames],
            },
            "stackTable": {
                "length": self.stacks.len(),
                "frame": self.stacks.iter().map(|(frame, _)| *frame).collect::<Vec<usize>>(),
                "prefix": self.stacks.iter().map(|(_, caller)| *caller).collect::<Vec<_>>(),
                "category": self.stacks.iter().map(|(frame, _)| kinds[*frame]).collect::<Vec<_>>(),
                "subcategory": vec![0; self.stacks.len()],
            },
            "resourceTable": {
                "length": resource_count,
                "name": of_modules,
                "lib": libs,
                "host": vec![Value::Null; resource_count],
                "type": vec![1; resource_count],
            },
            "nativeSymbols": {
                "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [],
            },
        })
    }
}

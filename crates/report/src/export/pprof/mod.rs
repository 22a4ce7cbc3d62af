//! Stacks in the form of pprof: `profile.proto`, compressed by gzip.
//!
//! A stack has two values, its time on a core and its time of waiting, and labels for where it was
//! seen: `variant`, `clients`, `cores`, `phase` and `state`. So one file holds all levels and
//! variants, and `-tagfocus` picks. The lines are those at which functions begin: stacks are of
//! functions here, not of lines in them.

mod message;

use super::slices::{counted, phase};
use super::{Export, Made, epoch};
use crate::text;
use flate2::Compression;
use flate2::write::GzEncoder;
use kneepoint_vocab::Phase;
use kneepoint_vocab::recording::{RecordedFunction, Recording, ThreadState};
use message::Message;
use std::collections::BTreeMap;
use std::io::Write as _;

/// Stacks on a core and of waits.
pub const STACKS: Export =
    Export { name: "pprof", holds: "stacks", binary: Some("pb.gz"), made: Made::Recorded(render) };

/// Renders the stacks of all slices that count. The values are nanoseconds of threads; empty where
/// there are no stacks.
#[must_use]
pub fn render(recording: &Recording) -> Vec<u8> {
    let samples = samples(recording);
    if samples.is_empty() {
        return Vec::new();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&profile(recording, &samples));
    // Writing to memory fails nowhere.
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

/// The form's numbers have a sign.
const MOST: u64 = i64::MAX as u64;

/// Where and how a stack was seen; all that is alike is one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    phase: Phase,
    variant: &'a str,
    clients: u32,
    cores: u32,
    state: ThreadState,
    stack: usize,
}

/// Nanoseconds by key.
fn samples(recording: &Recording) -> BTreeMap<Key<'_>, u64> {
    let mut samples = BTreeMap::new();
    for slice in counted(recording) {
        for taken in slice.stacks.iter().filter(|taken| taken.weight.0 > 0) {
            let key = Key {
                phase: slice.phase,
                variant: &slice.variant.0,
                clients: slice.level.clients,
                cores: slice.level.cores,
                state: taken.state,
                stack: taken.stack,
            };
            let sum: &mut u64 = samples.entry(key).or_default();
            *sum = sum.saturating_add(taken.weight.0).min(MOST);
        }
    }
    samples
}

/// The table of strings, of which the first is empty.
struct Strings {
    list: Vec<String>,
    by_text: BTreeMap<String, u64>,
}

impl Strings {
    fn new() -> Self {
        let mut strings = Self { list: Vec::new(), by_text: BTreeMap::new() };
        strings.index("");
        strings
    }

    fn index(&mut self, words: &str) -> u64 {
        let words = text::disarm(words).into_owned();
        let next = self.list.len() as u64;
        *self.by_text.entry(words).or_insert_with_key(|words| {
            self.list.push(words.clone());
            next
        })
    }
}

fn profile(recording: &Recording, samples: &BTreeMap<Key<'_>, u64>) -> Vec<u8> {
    let mut strings = Strings::new();
    let modules = modules(recording, samples);
    let types = [("on-cpu", "nanoseconds"), ("off-cpu", "nanoseconds")].map(|(name, unit)| {
        Message::default().number(1, strings.index(name)).number(2, strings.index(unit))
    });
    let samples: Vec<Message> =
        samples.iter().map(|(key, nanos)| sample(recording, key, *nanos, &mut strings)).collect();
    let mappings: Vec<Message> = modules
        .iter()
        .enumerate()
        .map(|(index, module)| mapping(index, module, recording, &mut strings))
        .collect();
    let functions: Vec<Message> = recording
        .functions
        .iter()
        .enumerate()
        .map(|(index, one)| function(index, one, &mut strings))
        .collect();
    let locations = recording.functions.iter().enumerate().map(|(index, one)| {
        let mapping = modules.iter().position(|module| *module == one.module);
        location(index, one, mapping)
    });
    let lengths = counted(recording).map(|slice| slice.window.length.0);
    let duration = lengths.fold(0, u64::saturating_add).min(MOST);
    let first = counted(recording).map(|slice| slice.window.begin.0).min().unwrap_or(0);
    let begun = epoch::seconds(&recording.host.begun).and_then(|begun| u64::try_from(begun).ok());
    let begun = begun
        .map_or(0, |begun| begun.saturating_mul(1_000_000_000).saturating_add(first).min(MOST));
    let comments = comments(recording).map(|comment| strings.index(&comment));
    let preferred = strings.index("on-cpu");
    Message::default()
        .messages(1, types)
        .messages(2, samples)
        .messages(3, mappings)
        .messages(4, locations)
        .messages(5, functions)
        .number(9, begun)
        .number(10, duration)
        .numbers(13, comments)
        .number(14, preferred)
        .texts(6, &strings.list)
        .done()
}

fn comments(recording: &Recording) -> [String; 2] {
    let host = &recording.host;
    [
        format!("{}, {}, {} cores, {}", recording.title, host.cpu, host.cores, host.kernel),
        format!("Kneepoint {}; thread-time of all slices that count", host.kneepoint),
    ]
}

fn sample(recording: &Recording, key: &Key<'_>, nanos: u64, strings: &mut Strings) -> Message {
    let running = key.state == ThreadState::Running;
    let values = if running { [nanos, 0] } else { [0, nanos] };
    let seen = [
        ("variant", key.variant.to_owned()),
        ("clients", key.clients.to_string()),
        ("phase", phase(key.phase).to_owned()),
    ];
    let always = [("cores", key.cores.to_string()), ("state", key.state.as_str().to_owned())];
    // A profile has one level and no variants.
    let labels = always.into_iter().chain(seen.into_iter().filter(|_| recording.has_levels));
    let labels = labels.map(|(name, value)| {
        Message::default().number(1, strings.index(name)).number(2, strings.index(&value))
    });
    let frames = recording.stacks[key.stack].iter();
    Message::default()
        .numbers(1, frames.map(|&function| id(function)))
        .numbers(2, values)
        .messages(3, labels)
}

/// Ids begin with 1.
fn id(index: usize) -> u64 {
    index as u64 + 1
}

fn mapping(index: usize, module: &str, recording: &Recording, strings: &mut Strings) -> Message {
    let own = || recording.functions.iter().filter(|one| one.module == module);
    let build = own().find_map(|one| one.build_id.as_deref()).unwrap_or_default();
    let sources = own().any(|one| one.source.is_some());
    Message::default()
        .number(1, id(index))
        .number(5, strings.index(module))
        .number(6, strings.index(build))
        .number(7, 1)
        .number(8, u64::from(sources))
        .number(9, u64::from(sources))
}

fn location(index: usize, one: &RecordedFunction, mapping: Option<usize>) -> Message {
    let line = one.source.as_ref().map_or(0, |source| u64::from(source.line));
    let line = Message::default().number(1, id(index)).number(2, line);
    Message::default().number(1, id(index)).number(2, mapping.map_or(0, id)).message(4, &line)
}

fn function(index: usize, one: &RecordedFunction, strings: &mut Strings) -> Message {
    let name = strings.index(&one.name);
    let (file, line) = match &one.source {
        Some(source) => (strings.index(&source.file), u64::from(source.line)),
        None => (0, 0),
    };
    Message::default()
        .number(1, id(index))
        .number(2, name)
        .number(3, name)
        .number(4, file)
        .number(5, line)
}

/// The modules, the program's own first: readers take the first for the program. It is the one
/// with most frames in most time, the kernel left aside.
fn modules<'a>(recording: &'a Recording, samples: &BTreeMap<Key<'_>, u64>) -> Vec<&'a str> {
    let mut weights: BTreeMap<&str, (bool, f64)> = BTreeMap::new();
    for one in &recording.functions {
        weights.entry(&one.module).or_insert((one.kernel, 0.0));
    }
    for (key, nanos) in samples {
        for &frame in &recording.stacks[key.stack] {
            if let Some(weight) = weights.get_mut(recording.functions[frame].module.as_str()) {
                weight.1 += *nanos as f64;
            }
        }
    }
    let mut modules: Vec<(&str, (bool, f64))> = weights.into_iter().collect();
    modules.sort_by(|a, b| (a.1.0.cmp(&b.1.0)).then(b.1.1.total_cmp(&a.1.1)).then(a.0.cmp(b.0)));
    modules.into_iter().map(|(name, _)| name).collect()
}

//! Slices on a time line, as trace events in JSON, which Perfetto (ui.perfetto.dev) and Chrome's
//! own viewer open.
//!
//! A variant is a process, a level a thread of it, a slice what that thread did; throughput and
//! cores are counters of the variant. Between slices nothing is measured: there the counters are 0.
//! Why JSON and not Perfetto's own form: a run has some hundred slices, and text can be read.

use super::slices::{level, phase};
use super::{Export, Made};
use crate::text;
use kneepoint_vocab::recording::{RecordedSlice, Recording};
use kneepoint_vocab::{CoreTime, Level, Nanos};
use serde_json::{Value, json};

/// All slices, warm-up and what was left out included.
pub const SLICES: Export =
    Export { name: "perfetto", holds: "slices", binary: None, made: Made::Recorded(render) };

/// Renders the time line; empty where there is no slice. Times are microseconds since the begin of
/// the run.
#[must_use]
pub fn render(recording: &Recording) -> Vec<u8> {
    if recording.slices.is_empty() {
        return Vec::new();
    }
    let tracks = Tracks::of(recording);
    let mut events = tracks.named(recording);
    for slice in &recording.slices {
        let (process, thread) = tracks.place(slice);
        events.push(drawn(slice, recording, process, thread));
        events.extend(counters(slice, recording, process));
    }
    let host = &recording.host;
    let document = json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "title": recording.title,
            "begun": host.begun,
            "machine": format!("{}, {} cores, {}", host.cpu, host.cores, host.kernel),
            "kneepoint": host.kneepoint,
        },
        "traceEvents": events,
    });
    let mut text = text::inert_json(&document.to_string()).into_owned();
    text.push('\n');
    text.into_bytes()
}

/// Processes and threads of the time line: variants as they first ran, levels ascending.
struct Tracks<'a> {
    variants: Vec<(&'a str, &'a str)>,
    levels: Vec<Level>,
}

impl<'a> Tracks<'a> {
    fn of(recording: &'a Recording) -> Self {
        let mut variants: Vec<(&str, &str)> = Vec::new();
        for slice in &recording.slices {
            if !variants.iter().any(|(variant, _)| *variant == slice.variant.0) {
                variants.push((&slice.variant.0, &slice.label));
            }
        }
        let mut levels: Vec<Level> = recording.slices.iter().map(|slice| slice.level).collect();
        levels.sort_unstable();
        levels.dedup();
        Self { variants, levels }
    }

    /// Process and thread, from 1.
    fn place(&self, slice: &RecordedSlice) -> (usize, usize) {
        let variant = self.variants.iter().position(|(id, _)| *id == slice.variant.0);
        let level = self.levels.iter().position(|level| *level == slice.level);
        (variant.map_or(0, |at| at + 1), level.map_or(0, |at| at + 1))
    }

    /// What the tracks are called, and in which order they stand.
    fn named(&self, recording: &Recording) -> Vec<Value> {
        let mut events = Vec::new();
        for (at, (_, label)) in self.variants.iter().enumerate() {
            let process = at + 1;
            events.push(json!({
                "ph": "M", "name": "process_name", "pid": process, "tid": 0,
                "args": {"name": label},
            }));
            events.push(json!({
                "ph": "M", "name": "process_sort_index", "pid": process, "tid": 0,
                "args": {"sort_index": at},
            }));
            for (at, one) in self.levels.iter().enumerate() {
                events.push(json!({
                    "ph": "M", "name": "thread_name", "pid": process, "tid": at + 1,
                    "args": {"name": level(recording, *one)},
                }));
                events.push(json!({
                    "ph": "M", "name": "thread_sort_index", "pid": process, "tid": at + 1,
                    "args": {"sort_index": at},
                }));
            }
        }
        events
    }
}

fn drawn(slice: &RecordedSlice, recording: &Recording, process: usize, thread: usize) -> Value {
    let name = if recording.has_levels { phase(slice.phase) } else { "window" };
    let kind = if slice.counts { name } else { "not counted" };
    let mut arguments = json!({
        "block": slice.block,
        "counts": slice.counts,
        "others_share": slice.interference.others.0,
        "steal_share": slice.interference.steal.0,
    });
    if let (Some(throughput), Some(operation)) = (slice.throughput, &recording.operation) {
        arguments[format!("{operation}_per_second")] = json!(throughput.0);
    }
    json!({
        "ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread,
        "ts": micros(slice.window.begin), "dur": micros(slice.window.length),
        "args": arguments,
    })
}

/// Throughput and cores over the slice, and nothing after it.
fn counters(slice: &RecordedSlice, recording: &Recording, process: usize) -> Vec<Value> {
    let begin = slice.window.begin;
    let end = Nanos(begin.0.saturating_add(slice.window.length.0));
    let counter = |name: &str, at: Nanos, values: Value| {
        let at = micros(at);
        json!({"ph": "C", "name": name, "pid": process, "tid": 0, "ts": at, "args": values})
    };
    let mut events = Vec::new();
    if let (Some(throughput), Some(operation)) = (slice.throughput, &recording.operation) {
        let name = format!("{operation}/s");
        events.push(counter(&name, begin, json!({"throughput": throughput.0})));
        events.push(counter(&name, end, json!({"throughput": 0.0})));
    }
    if let Some(core) = &slice.cores {
        events.push(counter("cores", begin, cores(core, 1.0)));
        events.push(counter("cores", end, cores(core, 0.0)));
    }
    events
}

/// Cores by what they did, of one window; `part` 0 for none.
fn cores(core: &CoreTime, part: f64) -> Value {
    let window = core.total.seconds().0 / f64::from(core.cores) / part;
    let cores = |time: Nanos| time.seconds().0 / window;
    json!({
        "system": cores(core.system),
        "generator": cores(core.generator),
        "kernel": cores(core.kernel),
        "others": cores(core.others) + cores(core.kneepoint),
        "idle": cores(core.idle),
    })
}

fn micros(nanos: Nanos) -> f64 {
    nanos.seconds().0 * 1e6
}

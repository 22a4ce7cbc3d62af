//! What the fixtures hold in the forms of other tools, read back by the rules of each form.

#![allow(clippy::unwrap_used, reason = "in tests")]

mod common;
#[path = "exports/metrics.rs"]
mod metrics;
#[path = "exports/protobuf.rs"]
mod protobuf;

use common::{FIXTURES, fixture};
use kneepoint_report::export::{firefox, openmetrics, perfetto, pprof};
use kneepoint_vocab::recording::ThreadState;
use kneepoint_vocab::{ProtocolName, Recording, RunRecord};
use protobuf::Fields;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::Command;

fn record(name: &str) -> RunRecord {
    kneepoint_lab::open(&fixture(name)).unwrap()
}

fn recording(name: &str) -> Recording {
    kneepoint_analysis::recording::recording(&record(name))
}

/// Nanoseconds of slices that count: on a core, and waiting.
fn sums(recording: &Recording) -> [u64; 2] {
    let mut sums = [0, 0];
    for slice in recording.slices.iter().filter(|slice| slice.counts) {
        for taken in &slice.stacks {
            sums[usize::from(taken.state != ThreadState::Running)] += taken.weight.0;
        }
    }
    sums
}

/// A file of pprof, read by the numbers of `profile.proto`.
struct Pprof {
    file: Vec<u8>,
}

impl Pprof {
    fn of(compressed: &[u8]) -> Self {
        let mut file = Vec::new();
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut file).unwrap();
        Self { file }
    }

    fn fields(&self) -> Fields<'_> {
        Fields::of(&self.file)
    }

    fn strings(&self) -> Vec<&str> {
        self.fields().texts(6)
    }

    /// Ids of the messages of a field, which have to be distinct and not 0.
    fn ids(&self, field: u64) -> BTreeSet<u64> {
        let ids: Vec<u64> = self.fields().messages(field).iter().map(|one| one.number(1)).collect();
        let set: BTreeSet<u64> = ids.iter().copied().collect();
        assert!(set.len() == ids.len() && !set.contains(&0), "{ids:?}");
        set
    }

    /// Seconds of functions' own, by name: what `-top` of a sample type shows.
    fn top(&self, kind: usize) -> Vec<(String, f64)> {
        let strings = self.strings();
        let fields = self.fields();
        let functions: BTreeMap<u64, &str> = fields
            .messages(5)
            .iter()
            .map(|one| (one.number(1), strings[usize::try_from(one.number(2)).unwrap()]))
            .collect();
        let locations: BTreeMap<u64, u64> = fields
            .messages(4)
            .iter()
            .map(|one| (one.number(1), one.messages(4)[0].number(1)))
            .collect();
        let mut own: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in fields.messages(2) {
            let Some(leaf) = sample.packed(1).first().copied() else { continue };
            *own.entry(functions[&locations[&leaf]]).or_default() += sample.packed(2)[kind];
        }
        let mut rows: Vec<(String, f64)> = own
            .into_iter()
            .map(|(name, nanos)| (name.to_owned(), nanos as f64 / 1e9))
            .filter(|(_, seconds)| *seconds > 0.0)
            .collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        rows
    }
}

#[test]
fn pprof_holds_every_stack_that_counts() {
    for name in FIXTURES {
        let recording = recording(name);
        let written = pprof::render(&recording);
        assert_eq!(written, pprof::render(&recording), "the same bytes");
        let read = Pprof::of(&written);
        let strings = read.strings();
        assert_eq!(strings[0], "", "{name}");
        assert_eq!(strings.iter().collect::<BTreeSet<_>>().len(), strings.len(), "{name}");
        let fields = read.fields();
        let types: Vec<[&str; 2]> = fields
            .messages(1)
            .iter()
            .map(|one| [1, 2].map(|at| strings[usize::try_from(one.number(at)).unwrap()]))
            .collect();
        assert_eq!(types, [["on-cpu", "nanoseconds"], ["off-cpu", "nanoseconds"]]);
        let (mappings, locations, functions) = (read.ids(3), read.ids(4), read.ids(5));
        for location in fields.messages(4) {
            assert!(mappings.contains(&location.number(2)), "{name}");
            assert!(functions.contains(&location.messages(4)[0].number(1)), "{name}");
        }
        let mut read_sums = [0, 0];
        for sample in fields.messages(2) {
            assert!(sample.packed(1).iter().all(|location| locations.contains(location)));
            let values = sample.packed(2);
            assert_eq!(values.len(), 2);
            read_sums[0] += values[0];
            read_sums[1] += values[1];
            let labels: BTreeSet<&str> = sample
                .messages(3)
                .iter()
                .map(|label| strings[usize::try_from(label.number(1)).unwrap()])
                .collect();
            let all = BTreeSet::from(["variant", "clients", "cores", "phase", "state"]);
            assert_eq!(labels, all);
        }
        assert_eq!(read_sums, sums(&recording), "{name}");
        assert!(fields.number(9) > 1_700_000_000_000_000_000 && fields.number(10) > 0);
    }
}

#[test]
fn the_heaviest_functions_of_pprof() {
    let read = Pprof::of(&pprof::render(&recording("sqlite-shared-cache")));
    let mut text = String::new();
    for (kind, name) in ["on-cpu", "off-cpu"].into_iter().enumerate() {
        for (function, seconds) in read.top(kind).into_iter().take(8) {
            text.push_str(&format!("{name:8}{seconds:9.3} s  {function}\n"));
        }
    }
    insta::assert_snapshot!(text);
}

/// Go's own reader, where it is there.
#[test]
fn go_reads_what_is_written_for_pprof() {
    if !Command::new("go").arg("version").output().is_ok_and(|ran| ran.status.success()) {
        println!("SKIP go_reads_what_is_written_for_pprof: go not found");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pb.gz");
    std::fs::write(&file, pprof::render(&recording("sqlite-shared-cache"))).unwrap();
    let top = |more: &[&str]| {
        let ran = Command::new("go")
            .args(["tool", "pprof", "-top", "-nodecount=5"])
            .args(more)
            .arg(&file)
            .env("PPROF_TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let on_cpu = top(&[]);
    assert!(on_cpu.contains("Type: on-cpu") && on_cpu.contains("sqlite3"), "{on_cpu}");
    let waits = top(&["-sample_index=off-cpu", "-tagfocus=state=user-lock"]);
    assert!(waits.contains("Type: off-cpu") && waits.contains("futex"), "{waits}");
}

/// Lengths, and indices into other tables.
fn check_table(table: &Value, columns: &[(&str, usize)]) -> usize {
    let length = usize::try_from(table["length"].as_u64().unwrap()).unwrap();
    for (name, column) in table.as_object().unwrap() {
        if let Value::Array(column) = column {
            assert_eq!(column.len(), length, "{name}");
        }
    }
    for (name, bound) in columns {
        for value in table[name].as_array().unwrap() {
            assert!(value.is_null() || value.as_u64().unwrap() < *bound as u64, "{name}: {value}");
        }
    }
    length
}

#[test]
fn firefox_finds_its_tables_whole() {
    for name in FIXTURES {
        let recording = recording(name);
        let document: Value = serde_json::from_slice(&firefox::render(&recording)).unwrap();
        let meta = &document["meta"];
        assert_eq!(meta["preprocessedProfileVersion"], 48);
        assert!(meta["startTime"].as_f64().unwrap() > 1.7e12);
        let categories = meta["categories"].as_array().unwrap().len();
        let libs = document["libs"].as_array().unwrap().len();
        let mut sums_read = [0.0, 0.0];
        let mut mains: BTreeMap<String, u32> = BTreeMap::new();
        for thread in document["threads"].as_array().unwrap() {
            let strings = thread["stringArray"].as_array().unwrap().len();
            let resources =
                check_table(&thread["resourceTable"], &[("name", strings), ("lib", libs)]);
            let functions = check_table(
                &thread["funcTable"],
                &[("name", strings), ("fileName", strings), ("resource", resources)],
            );
            let frames = check_table(
                &thread["frameTable"],
                &[("func", functions), ("category", categories)],
            );
            let stacks = thread["stackTable"]["length"].as_u64().unwrap();
            let stacks = usize::try_from(stacks).unwrap();
            check_table(
                &thread["stackTable"],
                &[("frame", frames), ("prefix", stacks), ("category", categories)],
            );
            // A caller stands before whom it calls.
            let prefixes = thread["stackTable"]["prefix"].as_array().unwrap();
            for (at, prefix) in prefixes.iter().enumerate() {
                assert!(prefix.as_u64().is_none_or(|prefix| prefix < at as u64));
            }
            let samples = &thread["samples"];
            check_table(samples, &[("stack", stacks)]);
            assert_eq!(samples["weightType"], "tracing-ms");
            let times = samples["time"].as_array().unwrap();
            let times: Vec<f64> = times.iter().map(|one| one.as_f64().unwrap()).collect();
            assert!(times.is_sorted(), "{name}: {}", thread["name"]);
            let weights = samples["weight"].as_array().unwrap();
            let weight: f64 = weights.iter().map(|one| one.as_f64().unwrap()).sum();
            let main = thread["isMainThread"].as_bool().unwrap();
            sums_read[usize::from(!main)] += weight;
            let pid = thread["pid"].as_str().unwrap().to_owned();
            *mains.entry(pid).or_default() += u32::from(main);
        }
        assert!(mains.values().all(|count| *count <= 1), "{name}: {mains:?}");
        for (read, recorded) in sums_read.iter().zip(sums(&recording)) {
            let recorded = recorded as f64 / 1e6;
            assert!((read - recorded).abs() <= 1e-6 * recorded.max(1.0), "{name}");
        }
    }
}

#[test]
fn perfetto_has_a_track_for_every_level_of_every_variant() {
    for name in FIXTURES {
        let recording = recording(name);
        let document: Value = serde_json::from_slice(&perfetto::render(&recording)).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let of = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["ph"] == kind).collect()
        };
        let track = |event: &Value| (event["pid"].as_u64(), event["tid"].as_u64());
        let called = |what: &str| -> BTreeSet<_> {
            of("M").into_iter().filter(|one| one["name"] == what).map(track).collect()
        };
        let slices = of("X");
        assert_eq!(slices.len(), recording.slices.len(), "{name}");
        let threads = called("thread_name");
        let mut ends: f64 = 0.0;
        for (slice, recorded) in slices.iter().zip(&recording.slices) {
            assert!(threads.contains(&track(slice)), "{name}: {slice}");
            let (at, long) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            assert!(at >= ends - 1.0 && long > 0.0, "{name}: windows do not overlap");
            ends = at + long;
            let counter = of("C")
                .into_iter()
                .find(|one| one["ts"] == slice["ts"] && !one["args"]["throughput"].is_null());
            let throughput = counter.unwrap()["args"]["throughput"].as_f64().unwrap();
            assert!((throughput - recorded.throughput.unwrap().0).abs() < 1e-6, "{name}");
        }
    }
}

#[test]
fn openmetrics_is_by_its_rules() {
    for name in FIXTURES {
        let record = record(name);
        let text = openmetrics::render(&kneepoint_analysis::analyse(&record));
        let families = metrics::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}\n{text}"));
        assert!(families.contains("kneepoint_throughput_operations_per_second"), "{name}");
    }
    let text = openmetrics::render(&kneepoint_analysis::analyse(&record("sqlite-shared-cache")));
    insta::assert_snapshot!(text.lines().map(rounded).collect::<Vec<String>>().join("\n"));
}

/// A line with six significant digits: the last bits differ between machines.
fn rounded(line: &str) -> String {
    match line.rsplit_once(' ').map(|(labels, value)| (labels, value.parse::<f64>())) {
        Some((labels, Ok(value))) if !line.starts_with('#') => {
            let text = format!("{value:.5e}");
            format!("{labels} {}", text.parse::<f64>().unwrap())
        }
        _ => line.to_owned(),
    }
}

/// Slices are all there, and a futex wait is told from a lock's.
#[test]
fn a_recording_is_the_record_in_order() {
    for name in FIXTURES {
        let (record, recording) = (record(name), recording(name));
        assert_eq!(recording.slices.len(), record.trials.len(), "{name}");
        assert!(recording.slices.iter().any(|slice| slice.counts), "{name}");
        let functions: BTreeSet<(&str, &str)> = recording
            .functions
            .iter()
            .map(|one| (one.name.as_str(), one.module.as_str()))
            .collect();
        assert_eq!(functions.len(), recording.functions.len(), "{name}");
        for (slice, trial) in recording.slices.iter().zip(&record.trials) {
            assert_eq!((slice.window, slice.level), (trial.window, trial.id.level));
            assert!(slice.stacks.iter().all(|taken| taken.state.as_str() != "futex"));
        }
    }
}

/// A profile has the same slices, and figures of its own.
#[test]
fn a_profile_has_these_forms_too() {
    let mut record = record("python-threads");
    record.plan.protocol = ProtocolName::Profile;
    record.plan.summary = "python3 42".to_owned();
    let profile = kneepoint_analysis::profile::profile(&record);
    let text = openmetrics::profile(&profile);
    let families = metrics::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert!(families.contains("kneepoint_busy_cores"), "{text}");
    assert!(families.contains("kneepoint_doing_threads"), "{text}");
    let recording = kneepoint_analysis::recording::recording(&record);
    assert_eq!(recording.title, record.plan.summary);
    // Nobody knows how many clients there were.
    let written = [firefox::render(&recording), perfetto::render(&recording)];
    for text in written.map(|bytes| String::from_utf8(bytes).unwrap()) {
        assert!(text.contains("2 cores") && !text.contains("client"), "{text:.400}");
    }
    let read = Pprof::of(&pprof::render(&recording));
    let labels = ["cores", "state"].map(|label| read.strings().contains(&label));
    assert!(labels == [true, true] && !read.strings().contains(&"clients"));
}

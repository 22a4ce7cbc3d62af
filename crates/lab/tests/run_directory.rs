//! The run directory survives what befalls it: cuts anywhere, other schemas, full disks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kneepoint_lab::open::{OpenError, open};
use kneepoint_lab::store::{self, Store};
use kneepoint_vocab::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn host() -> Host {
    Host {
        machine: kneepoint_vocab::MachineName::default(),
        schema: SCHEMA,
        kneepoint: "0.1.0".into(),
        begun: "2026-01-02T03:04:05Z".into(),
        arguments: vec!["run".into()],
        cores: 2,
        cpu: "a CPU".into(),
        memory: 1 << 34,
        kernel: "Linux 6".into(),
        distribution: "Debian".into(),
        notes: vec![("governor".into(), "none".into())],
    }
}

fn plan() -> Plan {
    let level = Level { clients: 2, cores: 2 };
    Plan {
        recipe: "r".into(),
        summary: "s \"quoted\" = [x]".into(),
        operation: "operations".into(),
        clients: kneepoint_vocab::Clients::Inside,
        generator_cores: 0,
        sweep_variants: Vec::new(),
        protocol: kneepoint_vocab::ProtocolName::Default,
        level_order: kneepoint_vocab::LevelOrder::Random,
        warm_up: None,
        census: false,
        seed: i64::MAX as u64,
        levels: vec![level],
        focus: level,
        variants: vec![VariantPlan {
            id: VariantId::new(VariantId::BASELINE),
            role: VariantRole::Baseline,
            label: "baseline".into(),
            over: VariantId::new(VariantId::BASELINE),
            changes: vec!["a = b".into()],
        }],
        slice: Nanos::from_millis(500),
        ramp: Nanos::from_millis(100),
        settle: Nanos(0),
        sweep_blocks: 1,
        effect_blocks: (1, 2),
        blocks_per_start: 1,
        precision: Ratio(0.05),
        smallest_effect: Ratio(0.1),
        allowed_overhead: None,
        sweep_precision: None,
        budget: Nanos::from_millis(1000),
        others_limit: Ratio(0.03),
        steal_limit: Ratio(0.01),
        names: kneepoint_vocab::Names::default(),
    }
}

fn trial(block: u32) -> TrialRecord {
    TrialRecord {
        machine: kneepoint_vocab::MachineName::default(),
        id: TrialId {
            phase: Phase::Sweep,
            block,
            position: 0,
            attempt: 0,
            variant: VariantId::new(VariantId::BASELINE),
            start: 0,
            level: Level { clients: 2, cores: 2 },
        },
        window: Window { begin: Nanos(u64::from(block)), length: Nanos(500) },
        operations: 10,
        counted_over: Nanos(500),
        per_client: vec![5, 5],
        latency: Some(Latency::default()),
        counts: None,
        stability: None,
        settling: None,
        interference: Interference::default(),
        disposition: Disposition::Kept,
        facts: vec![
            Fact::Tier { tier: Tier::Full },
            Fact::Stack(StackWeight {
                kind: StackKind::OnCpu,
                stack: StackId(block),
                wait: None,
                role: None,
                weight: Nanos(7),
                count: 1,
            }),
        ],
    }
}

fn stack(id: u32) -> StackRecord {
    let frame = Frame { function: "f\u{7f}<b>\"".into(), module: "m".into() };
    let module = Module { name: "m".into(), build_id: format!("{id:040x}") };
    StackRecord {
        id: StackId(id),
        frames: vec![frame],
        truncated: false,
        code: CodeKind::Other,
        sources: Vec::new(),
        modules: vec![module],
    }
}

/// A run of so many trials, and the folder that it lies in.
fn written(trials: u32) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("run");
    write(&directory, trials);
    (root, directory)
}

fn write(directory: &Path, trials: u32) {
    let mut store = Store::create(directory, &host(), &plan()).unwrap();
    let start = VariantStart {
        variant: VariantId::new(VariantId::BASELINE),
        start: 0,
        proofs: vec![],
        ready_after: Seconds(0.5),
        environment: Vec::new(),
        settings: vec![],
    };
    store.variant(&start).unwrap();
    for block in 0..trials {
        store.trial(&trial(block), &[stack(block)]).unwrap();
    }
    let end = RunEnd {
        elapsed: Nanos(1),
        stopped_by: "decided".to_owned().into(),
        steady: true,
        remarks: vec![],
    };
    store.end(&end).unwrap();
}

#[test]
fn what_was_written_is_read_back() {
    let (_root, directory) = written(3);
    let record = open(&directory).unwrap();
    assert_eq!(record.host, host());
    assert_eq!(record.plan, plan());
    assert_eq!(record.trials, (0..3).map(trial).collect::<Vec<_>>());
    assert_eq!(record.stacks, (0..3).map(stack).collect::<Vec<_>>());
    assert_eq!(record.variants.len(), 1);
    assert!(record.end.is_some() && record.torn.is_empty());
}

#[test]
fn a_second_run_does_not_overwrite_the_first() {
    let (_root, directory) = written(1);
    let error = Store::create(&directory, &host(), &plan()).unwrap_err();
    assert!(error.to_string().contains("--out"), "{error}");
    assert_eq!(open(&directory).unwrap().trials.len(), 1);
}

/// Cuts each appended file at each byte: every whole line before the cut is kept.
#[test]
fn a_cut_loses_at_most_the_line_it_falls_into() {
    let (_root, directory) = written(3);
    for name in [store::TRIALS, store::STACKS, store::VARIANTS] {
        let path = directory.join(name);
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let record = open(&directory).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let kept = match name {
                store::TRIALS => record.trials.len(),
                store::STACKS => record.stacks.len(),
                _ => record.variants.len(),
            };
            // A cut just before the newline leaves a whole record.
            assert!(kept == lines || kept == lines + 1, "{name} cut at {cut}: {kept} of {lines}");
            assert_eq!(!record.torn.is_empty(), cut < whole.len(), "{name} cut at {cut}");
            for trial in &record.trials {
                for fact in &trial.facts {
                    if let Fact::Stack(weight) = fact {
                        assert!(record.stacks.iter().any(|stack| stack.id == weight.stack));
                    }
                }
            }
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_cut_in_a_whole_file_is_named() {
    let (_root, directory) = written(1);
    for name in [store::HOST, store::PLAN] {
        let path = directory.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = open(&directory).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("damaged"), "{error}");
        assert!(!error.contains('\n'), "more than one line: {error}");
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn another_schema_is_refused_and_says_who_wrote_it() {
    let (_root, directory) = written(1);
    let path = directory.join(store::HOST);
    let text = fs::read_to_string(&path).unwrap();
    let other = text.replace("\"schema\": 2", "\"schema\": 99").replace("0.1.0", "9.9.9");
    fs::write(&path, other).unwrap();
    let error = open(&directory).unwrap_err();
    assert!(matches!(error, OpenError::Schema { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("9.9.9"), "{error}");
}

/// Two that begin at once never share a directory: each name is given once.
#[test]
fn runs_at_once_get_directories_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("deep/2026-01-02");
    let made: Vec<PathBuf> = std::thread::scope(|scope| {
        let begin = || {
            let store = Store::create_beside(&place, &host(), &plan()).unwrap();
            store.directory().to_owned()
        };
        let handles: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), 16, "{made:?}");
    for number in 2..=16 {
        assert!(made.contains(&root.path().join(format!("deep/2026-01-02-{number}"))));
    }
    let explicit: Vec<bool> = std::thread::scope(|scope| {
        let begin = || Store::create(&root.path().join("out"), &host(), &plan()).is_ok();
        let handles: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(explicit.iter().filter(|made| **made).count(), 1);
}

/// Whatever is flipped or cut in a finished run is noticed, or leaves what was written.
#[test]
fn a_changed_byte_anywhere_is_noticed() {
    let (_root, directory) = written(2);
    for name in [store::TRIALS, store::STACKS, store::VARIANTS, store::HOST, store::PLAN] {
        let path = directory.join(name);
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            fs::write(&path, &flipped).unwrap();
            let noticed = open(&directory).map_or(true, |record| !record.torn.is_empty());
            assert!(noticed, "{name}: byte {place} was flipped");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn an_end_that_cannot_be_read_is_none() {
    let (_root, directory) = written(1);
    let path = directory.join(store::END);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 3] {
        fs::write(&path, &whole[..cut]).unwrap();
        let record = open(&directory).unwrap();
        assert_eq!((record.end, record.trials.len()), (None, 1), "cut at {cut}");
        assert_eq!(record.torn, ["end.json is not readable"]);
    }
}

#[test]
fn nothing_but_regular_files_is_read() {
    let (root, directory) = written(1);
    let outside = root.path().join("outside");
    for name in
        [store::TRIALS, store::STACKS, store::VARIANTS, store::HOST, store::PLAN, store::END]
    {
        let path = directory.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&outside, &whole).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        let error = open(&directory).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("link"), "{error}");
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let error = open(&directory).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("regular"), "{error}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(open(&directory).unwrap().torn, Vec::<String>::new());
}

#[test]
fn a_directory_without_a_run_is_called_so() {
    let root = tempfile::tempdir().unwrap();
    for path in [root.path().to_owned(), root.path().join("absent")] {
        assert!(matches!(open(&path).unwrap_err(), OpenError::NotARun { .. }));
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let error = Store::create(&file.join("run"), &host(), &plan()).unwrap_err().to_string();
    assert!(error.contains("--out") && error.contains("file/run"), "{error}");
}

/// Writes trials into a file system of 64 KiB until it is full.
#[test]
fn a_full_disk_keeps_what_was_written() {
    let root = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(root.path())
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("SKIP a_full_disk_keeps_what_was_written: cannot mount a file system (not root)");
        return;
    }
    let directory = root.path().join("run");
    let mut store = Store::create(&directory, &host(), &plan()).unwrap();
    let mut kept = 0;
    let error = loop {
        match store.trial(&trial(kept), &[stack(kept)]) {
            Ok(()) => kept += 1,
            Err(error) => break error.to_string(),
        }
    };
    let read = open(&directory);
    drop(store);
    let unmounted = std::process::Command::new("umount").arg(root.path()).status();
    assert!(unmounted.unwrap().success(), "the test's file system stayed mounted");
    assert!(error.contains(&format!("{kept} trials are safe")), "{error}");
    assert!(kept > 0, "nothing fitted");
    assert_eq!(read.unwrap().trials.len(), kept as usize);
}

#[test]
fn a_run_that_goes_on_is_whole() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("run");
    let mut store = Store::create(&directory, &host(), &plan()).unwrap();
    for block in 0..3 {
        store.trial(&trial(block), &[stack(block)]).unwrap();
    }
    let busy = Store::reopen(&directory).unwrap_err().to_string();
    assert!(busy.contains("another Kneepoint is writing it"), "{busy}");
    drop(store);
    let torn = fs::OpenOptions::new().append(true).open(directory.join(store::TRIALS));
    std::io::Write::write_all(&mut torn.unwrap(), b"{\"id\":{\"ph").unwrap();
    fs::write(directory.join(".end.json.draft"), "half").unwrap();

    let mut store = Store::reopen(&directory).unwrap();
    assert_eq!(store.written(), 3);
    store.put_back(&BTreeSet::from([trial(1).id])).unwrap();
    store.trial(&trial(3), &[stack(3)]).unwrap();
    let end = RunEnd {
        elapsed: Nanos(1),
        stopped_by: StoppedBy::PlannedBlocks,
        steady: true,
        remarks: Vec::new(),
    };
    store.end(&end).unwrap();
    let record = open(&directory).unwrap();
    assert_eq!(record.torn, Vec::<String>::new());
    let kept: Vec<_> = record.trials.iter().map(|trial| trial.disposition.clone()).collect();
    let [kept_one, put_back] = [Disposition::Kept, Disposition::Disturbed];
    assert_eq!(kept, [kept_one.clone(), put_back, kept_one.clone(), kept_one]);
    let names = fs::read_dir(&directory).unwrap().flatten();
    let hidden = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
    assert!(!names.map(|entry| entry.file_name()).any(|name| hidden(&name)));
}

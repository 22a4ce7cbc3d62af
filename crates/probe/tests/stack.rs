//! Stacks of running threads through the public interface, against the real kernel.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it saw and fails by panicking"
)]

use kneepoint_probe::stack::{StackCollector, StackError, StackOptions, WindowStacks};
use kneepoint_vocab::{StackId, StackRecord};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn cpus() -> Vec<u32> {
    let count = std::thread::available_parallelism().unwrap().get();
    (0..u32::try_from(count).unwrap()).collect()
}

fn collector(test: &str, options: &StackOptions) -> Option<StackCollector> {
    match StackCollector::open(options) {
        Ok(collector) => Some(collector),
        Err(error) => {
            println!("SKIP {test}: {error}");
            None
        }
    }
}

#[inline(never)]
fn burns(stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for step in 0..1000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(step));
        }
    }
    sum
}

#[inline(never)]
fn calls_burns(stop: &AtomicBool) -> u64 {
    black_box(burns(stop)) + 1
}

#[inline(never)]
fn calls_calls_burns(stop: &AtomicBool) -> u64 {
    black_box(calls_burns(stop)) + 1
}

/// Windows of 300 ms over this very process, in which a thread computes.
fn windows(collector: &mut StackCollector, count: usize) -> Vec<WindowStacks> {
    let stop = Arc::new(AtomicBool::new(false));
    let burner = Arc::clone(&stop);
    let thread = std::thread::spawn(move || calls_calls_burns(&burner));
    let mut found = Vec::new();
    for _ in 0..count {
        collector.begin(&[std::process::id()]).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        found.push(collector.end());
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    found
}

fn user_names(record: &StackRecord) -> Vec<&str> {
    let user = record.frames.iter().filter(|frame| frame.module != "[kernel]");
    user.map(|frame| frame.function.rsplit("::").next().unwrap_or("")).collect()
}

/// How often a stack that satisfies `which` was found.
fn found(
    windows: &[WindowStacks],
    records: &BTreeMap<StackId, StackRecord>,
    which: impl Fn(&StackRecord) -> bool,
) -> u64 {
    let counts = windows.iter().flat_map(|window| &window.on_cpu);
    counts.filter(|(stack, _)| which(&records[stack])).map(|(_, count)| count).sum()
}

fn is_whole(record: &StackRecord) -> bool {
    let chain = ["burns", "calls_burns", "calls_calls_burns"];
    !record.truncated && user_names(record).windows(3).any(|three| three == chain)
}

/// Name and build id of this very program; no id where its linker noted none.
fn own_module() -> (String, Option<String>) {
    use object::Object as _;
    let program = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&program).unwrap();
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let id = elf.build_id().unwrap();
    let id = id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    (program.file_name().unwrap().to_string_lossy().into_owned(), id)
}

/// Each module that bears a build id stands in the line of one stack that has frames of it.
fn builds_are_recorded_once(records: &BTreeMap<StackId, StackRecord>) {
    let (name, id) = own_module();
    let all =
        || records.values().flat_map(|record| record.modules.iter().map(move |m| (record, m)));
    let own: Vec<_> =
        all().filter(|(_, module)| module.name == name).map(|(_, m)| m.build_id.clone()).collect();
    assert_eq!(own, id.into_iter().collect::<Vec<_>>(), "{name}");
    for (record, module) in all() {
        assert!(record.frames.iter().any(|frame| frame.module == module.name), "{module:?}");
        assert_eq!(all().filter(|(_, other)| *other == module).count(), 1, "{module:?}");
    }
}

fn whole_chain_is_found(test: &str, options: &StackOptions) {
    let Some(mut collector) = collector(test, options) else { return };
    let windows = windows(&mut collector, 3);
    let mut records = BTreeMap::new();
    for window in &windows {
        for record in &window.new_stacks {
            assert_eq!(record.id.0 as usize, records.len(), "numbers go on without gaps");
            records.insert(record.id, record.clone());
        }
        assert!(window.on_cpu.keys().all(|stack| records.contains_key(stack)));
        assert_eq!(window.taken, window.on_cpu.values().sum::<u64>());
    }
    builds_are_recorded_once(&records);
    let whole = found(&windows, &records, is_whole);
    let burning = found(&windows, &records, |record| user_names(record).contains(&"burns"));
    let all = found(&windows, &records, |_| true);
    let cut = found(&windows, &records, |record| record.truncated);
    println!("{test}: {all} stacks, {cut} cut, {burning} in the loop, {whole} of them whole");
    for record in records.values().filter(|record| record.truncated) {
        println!("{test}: cut: {}", user_names(record).join(" < "));
    }
    println!("{test}: reader {} ns, {:?}", collector.reader_cpu().0, collector.remarks());
    let sample = records.values().find(|record| is_whole(record)).expect("the loop ran");
    println!("{test}: {}", user_names(sample).join(" < "));
    assert!(whole * 20 >= burning * 19, "{records:#?}");
    assert_eq!(collector.unreadable_files(), Vec::<String>::new());
}

#[test]
fn a_running_thread_is_seen_up_to_its_entry() {
    whole_chain_is_found("a_running_thread", &StackOptions::new(cpus()));
}

#[test]
fn without_privileges_own_threads_are_seen() {
    let options = StackOptions { system_wide: false, ..StackOptions::new(cpus()) };
    whole_chain_is_found("without_privileges", &options);
}

/// A shell whose child computes while the shell waits for it.
const FORKS: &str = "sleep 0.2; (i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); exit 0";

fn forked_child_is_seen(test: &str, options: &StackOptions) {
    let Some(mut collector) = collector(test, options) else { return };
    let mut shell = std::process::Command::new("/bin/sh").args(["-c", FORKS]).spawn().unwrap();
    collector.begin(&[shell.id()]).unwrap();
    shell.wait().unwrap();
    let window = collector.end();
    println!("{test}: {} stacks, {} cut", window.taken, window.truncated);
    let names: Vec<_> = window.new_stacks.iter().map(user_names).collect();
    assert!(window.taken >= 5, "{names:?}");
    assert!(window.truncated * 2 < window.taken, "{names:?}");
}

#[test]
fn a_forked_child_belongs_to_the_system() {
    forked_child_is_seen("a_forked_child", &StackOptions::new(cpus()));
    let options = StackOptions { system_wide: false, ..StackOptions::new(cpus()) };
    forked_child_is_seen("a_forked_child_without_privileges", &options);
}

#[test]
fn marks_need_an_event_on_each_cpu() {
    let test = "marks_need_an_event_on_each_cpu";
    let options = StackOptions { on_cpu_hz: 0, ..StackOptions::new(cpus()) };
    let Some(mut collector) = collector(test, &options) else { return };
    if !collector.remarks().is_empty() {
        println!("SKIP {test}: {:?}", collector.remarks());
        return;
    }
    let watched: Vec<_> = collector.output_fds().iter().map(|(cpu, _)| *cpu).collect();
    assert_eq!(watched, cpus());
    collector.begin(&[std::process::id()]).unwrap();
    assert_eq!(collector.end(), WindowStacks::default());
}

#[test]
fn stack_sizes_out_of_range_are_refused() {
    for stack_bytes in [0, 12, 65_536] {
        let options = StackOptions { stack_bytes, ..StackOptions::new(cpus()) };
        let error = StackCollector::open(&options).expect_err("must be refused");
        assert!(matches!(error, StackError::StackBytes(found) if found == stack_bytes), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

static NAMED: AtomicBool = AtomicBool::new(true);

#[test]
fn a_global_variable_is_named() {
    let test = "a_global_variable_is_named";
    let options = StackOptions { system_wide: false, ..StackOptions::new(cpus()) };
    let Some(mut collector) = collector(test, &options) else { return };
    let pid = std::process::id();
    collector.begin(&[pid]).unwrap();
    let address = std::ptr::from_ref(&NAMED) as u64;
    let name = collector.variable_at(pid, address).expect("it has a symbol");
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.split_once(':').unwrap().0, program);
    assert!(name.ends_with("::NAMED"), "{name}");
    let on_stack = 0_u64;
    assert_eq!(collector.variable_at(pid, std::ptr::from_ref(&on_stack) as u64), None);
    assert!(NAMED.load(Ordering::Relaxed));
}

//! Stacks that the BPF programs ask for, against the real kernel: where threads block, and who
//! wakes them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it saw and fails by panicking"
)]

use kneepoint_probe::{Probe, ProbeOptions, Target};
use kneepoint_vocab::{Fact, StackId, StackKind, StackRecord, StackWeight, Tier};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[inline(never)]
fn holds_the_lock(lock: &Mutex<u64>) {
    let mut held = lock.lock().unwrap();
    std::thread::sleep(Duration::from_micros(500));
    *held += 1;
}

fn text(record: &StackRecord) -> String {
    record.frames.iter().map(|frame| frame.function.as_str()).collect::<Vec<_>>().join(" < ")
}

fn heaviest<'a>(
    stacks: &[&'a StackWeight],
    kind: StackKind,
    within: &dyn Fn(StackId) -> bool,
) -> &'a StackWeight {
    let of_kind = stacks.iter().filter(|stack| stack.kind == kind && within(stack.stack));
    of_kind.max_by_key(|stack| stack.weight).unwrap_or_else(|| panic!("no {kind:?} in {stacks:?}"))
}

#[test]
fn waiters_and_wakers_are_seen_where_they_are() {
    let test = "waiters_and_wakers";
    let options = ProbeOptions { tier: Some(Tier::Full), stacks: true, ..ProbeOptions::default() };
    let (mut probe, remarks) = match Probe::attach(&options) {
        Ok(attached) => attached,
        Err(error) => return println!("SKIP {test}: {error}"),
    };
    if remarks.iter().any(|remark| remark.contains("stacks")) {
        return println!("SKIP {test}: {remarks:?}");
    }
    let (lock, stop) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (lock, stop) = (Arc::clone(&lock), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    holds_the_lock(&lock);
                }
            })
        })
        .collect();
    let target = Target {
        pids: vec![std::process::id()],
        clients: vec![],
        generators: vec![],
        cpus: vec![],
    };
    probe.open(&target).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let seen = probe.close().unwrap();
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().unwrap());

    let table: BTreeMap<_, _> = seen.new_stacks.iter().map(|record| (record.id, record)).collect();
    let mut stacks = Vec::new();
    for fact in &seen.facts {
        if let Fact::Stack(stack) = fact {
            stacks.push(stack);
        }
    }
    let of_marks = stacks.iter().filter(|stack| stack.kind != StackKind::OnCpu);
    let (mut taken, mut cut) = (0, 0);
    for stack in of_marks {
        taken += stack.count;
        cut += if table[&stack.stack].truncated { stack.count } else { 0 };
    }
    println!("{test}: {taken} marked stacks, {cut} cut");
    let ours = |id: StackId| text(table[&id]).contains("holds_the_lock");
    let waiter = heaviest(&stacks, StackKind::OffCpu, &|id| {
        ours(id) && text(table[&id]).contains("lock_contended")
    });
    let waker = heaviest(&stacks, StackKind::Waker, &ours);
    for (stack, call) in [(waiter, "futex_wait"), (waker, "futex_wake")] {
        let record = table[&stack.stack];
        println!("{test}: {:?} {}", stack.kind, text(record));
        assert!(!record.truncated, "{}", text(record));
        assert!(text(record).contains(call), "{}", text(record));
        assert_eq!(record.frames[0].module, "[kernel]");
        assert!(!record.frames[0].function.contains("bpf"), "{}", text(record));
        assert_ne!(record.frames[0].function, "[kernel]+unknown");
    }
    assert!(cut * 10 <= taken);
}

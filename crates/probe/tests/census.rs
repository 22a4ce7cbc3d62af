//! A census of a program that knows how often it takes which lock, and for how long.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it saw and fails by panicking"
)]

#[path = "common/shop.rs"]
mod shop;

use kneepoint_machine::windows::{Observation, Target, Windows as _};
use kneepoint_probe::Census;
use kneepoint_vocab::{CallCount, Fact, LockUse, StackId};
use shop::{Shop, compiled};
use tempfile::TempDir;

/// All the time a thread of it has `kettle` for 200 µs and lets go of it for 200 µs. At each line
/// that it reads: 400 times `till` for 50 µs, 100 times `shelf` by readers, 50 times `door` with a
/// wait for a condition inside, which ends after a millisecond. It closes 30 times what is not
/// open. `never` is tried while another thread has it. Then it says `done`.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER, door = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER, kettle = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void busy(long ns) { for (long end = now() + ns; now() < end;); }
__attribute__((noinline)) void sells(void) {
    pthread_mutex_lock(&till);
    busy(50000);
    pthread_mutex_unlock(&till);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) void looks(void) {
    pthread_rwlock_rdlock(&shelf);
    busy(1000);
    pthread_rwlock_unlock(&shelf);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) void waits(void) {
    struct timespec until;
    pthread_mutex_lock(&door);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) { until.tv_sec += 1; until.tv_nsec -= 1000000000; }
    pthread_cond_timedwait(&bell, &door, &until);
    pthread_mutex_unlock(&door);
    __asm__ volatile("" ::: "memory");
}
static void *tries(void *nothing) {
    for (int i = 0; i < 20; i++) pthread_mutex_trylock(&never);
    return nothing;
}
static void *boils(void *nothing) {
    for (;;) {
        pthread_mutex_lock(&kettle);
        busy(200000);
        pthread_mutex_unlock(&kettle);
        looks();
        busy(200000);
    }
    return nothing;
}
int main(void) {
    char line[64];
    pthread_t cook;
    pthread_create(&cook, 0, boils, 0);
    pthread_mutex_lock(&never);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        pthread_t other;
        pthread_create(&other, 0, tries, 0);
        pthread_join(other, 0);
        for (int i = 0; i < 400; i++) sells();
        for (int i = 0; i < 100; i++) looks();
        for (int i = 0; i < 50; i++) waits();
        for (int i = 0; i < 30; i++) close(-1);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"#;

fn census(test: &str) -> Option<Census> {
    match Census::load() {
        Ok(census) => Some(census),
        Err(error) => {
            println!("SKIP {test}: bpf: {error:#}");
            None
        }
    }
}

fn locks(seen: &Observation) -> Vec<&LockUse> {
    let of = |fact: &'_ Fact| matches!(fact, Fact::LockUse(_));
    let all = seen.facts.iter().filter(|fact| of(fact));
    all.filter_map(|fact| if let Fact::LockUse(lock) = fact { Some(lock) } else { None }).collect()
}

#[test]
fn locks_are_counted_and_looked_at() {
    const TEST: &str = "locks_are_counted_and_looked_at";
    let folder = TempDir::new().unwrap();
    let Some(program) = compiled(TEST, folder.path(), ("till", PROGRAM), &["-g"]) else { return };
    let Some(mut census) = census(TEST) else { return };
    let mut shop = Shop::open(&program);
    let target = Target { pids: vec![shop.child.id()], ..Target::default() };
    census.prepare(&target).unwrap();
    census.open(&target).unwrap();
    shop.serves("go");
    census.freeze().unwrap();
    let seen = census.collect().unwrap();
    println!("{TEST}: {:#?}", seen.facts);
    let found = locks(&seen);
    let named = |name: &str| {
        let full = format!("till:{name}");
        found.iter().find(|lock| lock.object_name.as_deref() == Some(&full)).copied()
    };
    let till = named("till").unwrap();
    assert_eq!((till.taken, till.shared), (400, 0));
    let shelf = named("shelf").unwrap();
    assert!(shelf.taken >= 100 && shelf.shared == shelf.taken, "{shelf:?}");
    let door = named("door").unwrap();
    assert_eq!(door.taken, 50, "not counted when who waits has it again");
    assert_eq!(named("never"), None, "what was never had is not counted");
    let functions = |id: StackId| {
        let stack = seen.new_stacks.iter().find(|stack| stack.id == id).unwrap();
        stack.frames.iter().map(|frame| frame.function.clone()).collect::<Vec<_>>()
    };
    let at = functions(till.stacks[0].stack);
    assert!(at.iter().any(|name| name == "sells"), "{at:?}");
    assert_eq!(till.stacks.iter().map(|at| at.times).sum::<u64>(), 400);

    let kettle = named("kettle").unwrap();
    let (looks, held) = (kettle.looks, kettle.held);
    assert!(
        looks > 500 && looks / 5 < held && held < looks - looks / 5,
        "half of the time: {held}"
    );
    let close = Fact::Calls(CallCount { number: 3, error: 9, count: 30 });
    assert!(seen.facts.contains(&close), "30 times EBADF");

    // Nothing is left: the next window begins anew, and without one nothing is counted.
    shop.serves("go");
    census.prepare(&target).unwrap();
    census.open(&target).unwrap();
    census.freeze().unwrap();
    let seen = census.collect().unwrap();
    let named = |lock: &&LockUse| lock.object_name.as_deref() == Some("till:till");
    assert!(!locks(&seen).iter().any(named), "{:?}", seen.facts);
}

#[test]
fn who_is_gone_is_no_error() {
    const TEST: &str = "who_is_gone_is_no_error";
    let Some(mut census) = census(TEST) else { return };
    let target = Target { pids: vec![u32::MAX >> 1], ..Target::default() };
    census.prepare(&target).unwrap();
    census.open(&target).unwrap();
    census.freeze().unwrap();
    let seen = census.collect().unwrap();
    let why =
        |fact: &Fact| matches!(fact, Fact::Loss(loss) if loss.what.contains("census of locks"));
    assert!(seen.facts.iter().any(why), "{:?}", seen.facts);
}

//! Calls of a program that knows how many it makes, counted from outside.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it saw and fails by panicking"
)]

#[path = "common/shop.rs"]
mod shop;

use kneepoint_probe::calls::{Calls, CallsError, Wanted};
use shop::{Shop, compiled};
use tempfile::TempDir;

/// At each word that it reads, four threads call `serve` 500 times each, and at `fork` a process
/// that it forks 300 times. Each call passes the probe `shop:order`; `shop:paid` is passed by every
/// second one, if it is switched on. Then it says `done`.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
unsigned short paid_switch __attribute__((section(".probes"), used));
#define PROBE(name, sw) __asm__ volatile( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"\",\"note\"\n" \
    ".balign 4\n" \
    ".4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n" \
    "992: .balign 4\n" \
    "993: .8byte 990b, 0, " sw "\n" \
    ".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"\"\n" \
    "994: .balign 4\n" \
    ".popsection\n")
__attribute__((noinline)) int serve(int number) {
    PROBE("order", "0");
    if (number % 2 && *(volatile unsigned short *)&paid_switch) PROBE("paid", "paid_switch");
    __asm__ volatile("" ::: "memory");
    return number + 1;
}
__attribute__((noinline)) static int server_of(int number) { return serve(number); }
static void *work(void *nothing) {
    for (int i = 0; i < 500; i++) server_of(i);
    return nothing;
}
int main(void) {
    char line[64];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        if (line[0] == 'f') {
            pid_t child = fork();
            if (!child) {
                for (int i = 0; i < 300; i++) server_of(i);
                _exit(0);
            }
            waitpid(child, 0, 0);
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"#;
/// Calls at `fork`.
const CALLS: u64 = 4 * 500 + 300;

/// None, after saying why, where the machine does not let calls be counted.
fn counted(test: &str, wanted: &str, shop: &Shop) -> Option<Calls> {
    match Calls::attach(&Wanted::parse(wanted).unwrap(), &[shop.child.id()]) {
        Ok(calls) => Some(calls),
        Err(why @ (CallsError::Right | CallsError::Namespace | CallsError::NoProbes)) => {
            println!("SKIP {test}: {why}");
            None
        }
        Err(why) => panic!("{wanted}: {why}"),
    }
}

#[test]
fn every_call_is_counted_and_those_of_others_are_not() {
    const TEST: &str = "every_call_is_counted_and_those_of_others_are_not";
    let folder = TempDir::new().unwrap();
    let Some(program) = compiled(TEST, folder.path(), ("shop", PROGRAM), &[]) else { return };
    let (mut shop, mut other) = (Shop::open(&program), Shop::open(&program));
    let Some(mut calls) = counted(TEST, "shop:serve", &shop) else { return };
    for _ in 0..2 {
        shop.serves("fork");
        calls.open().unwrap();
        shop.serves("fork");
        other.serves("go");
        calls.look().unwrap();
        shop.serves("fork");
        assert_eq!(calls.close().unwrap(), 2 * CALLS);
    }
    calls.open().unwrap();
    assert_eq!(calls.close().unwrap(), 0);
    drop(calls);
    // It goes on as ever.
    shop.serves("fork");
    assert!(shop.child.try_wait().unwrap().is_none());
}

/// As a program of many names is: who started it knows it by the one that was asked for.
#[test]
fn a_program_is_known_by_the_link_that_it_was_started_by() {
    const TEST: &str = "a_program_is_known_by_the_link_that_it_was_started_by";
    let folder = TempDir::new().unwrap();
    let Some(program) = compiled(TEST, folder.path(), ("shop", PROGRAM), &[]) else { return };
    for link in ["counter", "counter-of-the-corner"] {
        let path = folder.path().join(link);
        std::os::unix::fs::symlink(&program, &path).unwrap();
        let mut shop = Shop::open(&path);
        for name in [link, "shop"] {
            let Some(mut calls) = counted(TEST, &format!("{name}:serve"), &shop) else { return };
            calls.open().unwrap();
            shop.serves("fork");
            assert_eq!(calls.close().unwrap(), CALLS, "{name}");
        }
    }
}

#[test]
fn probes_that_a_program_was_written_with_are_counted() {
    const TEST: &str = "probes_that_a_program_was_written_with_are_counted";
    let folder = TempDir::new().unwrap();
    let Some(program) = compiled(TEST, folder.path(), ("shop", PROGRAM), &[]) else { return };
    let mut shop = Shop::open(&program);
    let Some(mut orders) = counted(TEST, "usdt:shop:order", &shop) else { return };
    let mut paid = counted(TEST, "usdt:shop:paid", &shop).unwrap();
    orders.open().unwrap();
    paid.open().unwrap();
    shop.serves("fork");
    assert_eq!((orders.close().unwrap(), paid.close().unwrap()), (CALLS, CALLS / 2));
    let wanted = Wanted::parse("usdt:shop:sold").unwrap();
    let why = Calls::attach(&wanted, &[shop.child.id()]).unwrap_err().to_string();
    assert!(why.contains("shop:order, shop:paid"), "{why}");
}

#[test]
fn what_has_no_name_is_reported_and_a_debug_file_is_not_needed_for_what_is_exported() {
    const TEST: &str = "what_has_no_name_is_reported";
    let folder = TempDir::new().unwrap();
    let Some(program) = compiled(TEST, folder.path(), ("shop", PROGRAM), &["-s", "-rdynamic"])
    else {
        return;
    };
    let shop = Shop::open(&program);
    let refused = |wanted: &str| {
        Calls::attach(&Wanted::parse(wanted).unwrap(), &[shop.child.id()]).unwrap_err().to_string()
    };
    let why = refused("shop:server_of");
    assert!(why.starts_with("shop is stripped: ") && why.contains("debug symbols"), "{why}");
    assert!(
        refused("shopping:serve").contains("they have shop, "),
        "{}",
        refused("shopping:serve")
    );
    let Some(mut calls) = counted(TEST, "shop:serve", &shop) else { return };
    calls.open().unwrap();
    assert_eq!(calls.close().unwrap(), 0);
}

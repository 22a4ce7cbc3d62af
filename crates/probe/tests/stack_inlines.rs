//! Inlined functions and what code does, in stacks of C programs that are compiled here, against
//! the real kernel.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it saw and fails by panicking"
)]

use kneepoint_probe::stack::{StackCollector, StackOptions};
use kneepoint_vocab::{CodeKind, StackRecord};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// `burns` is called by way of two functions that have no code of their own.
const PROGRAM: &str = "
#include <unistd.h>
#define INLINED static inline __attribute__((always_inline)) void
#define APART __attribute__((noinline)) void
static volatile unsigned long sum;
APART burns(void) { for (int step = 0; step < 1000000; step++) sum += step; }
INLINED takes_the_lock(void) { burns(); sum++; }
INLINED enters(void) { takes_the_lock(); sum++; }
APART steps(void) { while (sum != 1) { enters(); sum++; } }
int main(void) { alarm(60); steps(); return (int)sum; }
";

/// `counts` does nothing but to add to a word that all could.
const COUNTER: &str = "
#include <unistd.h>
static unsigned long total;
__attribute__((noinline)) void counts(void)
{
	for (int step = 0; step < 1000000; step++)
		__atomic_fetch_add(&total, 1, __ATOMIC_SEQ_CST);
}
int main(void) { alarm(60); while (total != 1) counts(); return 0; }
";

/// `rests` has no line in any unwind table, and no frame.
const BARE: &str = "
#include <unistd.h>
__asm__(\".type rests, @function\\nrests: mov $100000, %ecx\\n\"
	\"1: pause\\ndec %ecx\\njnz 1b\\nret\\n\"
	\".size rests, . - rests\\n\");
void rests(void);
static volatile unsigned long sum;
__attribute__((noinline)) void tries(void) { rests(); sum++; }
int main(void) { alarm(60); while (sum != ~0UL) tries(); return 0; }
";

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles the program; `None`, after saying why, where that cannot be done.
fn compiled(test: &str, folder: &Path, text: &str, options: &[&str]) -> Option<PathBuf> {
    let source = folder.join("program.c");
    std::fs::write(&source, text).unwrap();
    let program = folder.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(&program).arg(&source).args(options);
    match compiler.status() {
        Ok(status) if status.success() => Some(program),
        Ok(status) => {
            println!("SKIP {test}: cc {options:?}: {status}");
            None
        }
        Err(error) => {
            println!("SKIP {test}: cc: {error}");
            None
        }
    }
}

/// Stacks of a program while it runs.
fn stacks(test: &str, text: &str, options: &[&str]) -> Option<Vec<StackRecord>> {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(test, folder.path(), text, options)?;
    let cpus = std::thread::available_parallelism().unwrap().get();
    let cpus = (0..u32::try_from(cpus).unwrap()).collect();
    let options = StackOptions { system_wide: false, ..StackOptions::new(cpus) };
    let mut collector = match StackCollector::open(&options) {
        Ok(collector) => collector,
        Err(error) => {
            println!("SKIP {test}: {error}");
            return None;
        }
    };
    let program = Killed(Command::new(program).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    collector.begin(&[program.0.id()]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    Some(collector.end().new_stacks)
}

/// Functions of the program's own file in each stack of it that goes through `burns`.
fn chains(test: &str, options: &[&str]) -> Option<Vec<Vec<String>>> {
    let stacks = stacks(test, PROGRAM, options)?;
    let of_program = |record: &StackRecord| -> Vec<String> {
        let frames = record.frames.iter().filter(|frame| frame.module == "program");
        frames.map(|frame| frame.function.clone()).collect()
    };
    let mut found: Vec<_> = stacks.iter().map(of_program).collect();
    found.retain(|names| names.first().is_some_and(|name| name == "burns"));
    for names in &found {
        println!("{test}: {}", names.join(" < "));
    }
    assert!(!found.is_empty(), "{stacks:?}");
    Some(found)
}

fn inlined_functions_are_frames(test: &str, options: &[&str]) {
    let Some(chains) = chains(test, options) else { return };
    let expected = ["burns", "takes_the_lock", "enters", "steps", "main"];
    let whole = |names: &Vec<String>| names.iter().zip(expected).all(|(name, other)| name == other);
    assert!(chains.iter().all(|names| names.len() >= 5 && whole(names)), "{chains:?}");
}

#[test]
fn inlined_functions_stand_between_their_neighbours() {
    inlined_functions_are_frames("inlined_functions", &["-g"]);
}

#[test]
fn little_debug_information_is_enough() {
    inlined_functions_are_frames("little_debug_information", &["-g1"]);
}

#[test]
fn compressed_debug_information_is_read() {
    inlined_functions_are_frames("compressed_debug_information", &["-g", "-gz=zlib"]);
}

#[test]
fn old_debug_information_is_read() {
    inlined_functions_are_frames("old_debug_information", &["-gdwarf-4"]);
}

#[test]
fn without_debug_information_only_functions_with_code_are_seen() {
    let Some(chains) = chains("without_debug_information", &["-g0"]) else { return };
    let whole = |names: &Vec<String>| names[..3] == ["burns", "steps", "main"];
    assert!(chains.iter().all(whole), "{chains:?}");
}

#[test]
fn what_code_does_is_known_without_unwind_tables() {
    let test = "code_without_unwind_tables";
    let bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for options in [&bare[..], &[]] {
        let Some(stacks) = stacks(test, COUNTER, options) else { return };
        let counts = |record: &&StackRecord| {
            record.frames.first().is_some_and(|frame| frame.function == "counts")
        };
        let kinds: Vec<CodeKind> = stacks.iter().filter(counts).map(|it| it.code).collect();
        println!("{test}: {options:?}: {kinds:?}");
        assert!(kinds.contains(&CodeKind::Atomic), "{options:?}: {stacks:?}");
    }
}

#[test]
fn who_calls_a_function_without_unwind_tables_is_found() {
    let test = "who_calls_a_function_without_unwind_tables_is_found";
    let Some(stacks) = stacks(test, BARE, &["-fomit-frame-pointer"]) else { return };
    let of_program = |record: &StackRecord| -> Vec<String> {
        let frames = record.frames.iter().filter(|frame| frame.module == "program");
        frames.map(|frame| frame.function.clone()).collect()
    };
    let found: Vec<_> = stacks.iter().map(of_program).collect();
    let known = ["rests", "tries", "main"];
    let whole = found.iter().any(|names| names.iter().take(3).eq(known));
    assert!(whole, "{found:?}");
}

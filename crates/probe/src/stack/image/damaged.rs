//! Programs that were damaged, or made to harm: no byte of one ends the process that reads it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Image, Mapping, Opened};
use proptest::prelude::*;
use std::fs;
use std::process::Command;
use std::sync::LazyLock;

const SOURCE: &str = "
static inline __attribute__((always_inline)) int inner(int a) { return a * a; }
__attribute__((noinline)) int outer(int a) { return inner(a) + 1; }
int main(int count, char **words) { return outer(count) + inner(words[0][0]); }
";

/// A program with frames, symbols and debug information; without a compiler, one that is there.
static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    let made = compiler.args(["-g", "-O2", "-o"]).arg(&program).arg(&source).status();
    let made = made.is_ok_and(|status| status.success());
    fs::read(if made { program } else { "/bin/true".into() }).unwrap()
});

/// Asks an image everything that it is ever asked.
fn read(bytes: Vec<u8>) {
    let image = Image::load(0, "odd", Opened::Memory(bytes), &[]);
    let (symbols, inlines) = (image.symbols(), image.inlines());
    for address in [0, 1, 0x1000, 0x1040, 0x1060, 0x1139, 0x1160, 0x2010, u64::MAX - 1, u64::MAX] {
        let _ = (image.holds(address), symbols.function(address), symbols.variable(address));
        let _ = (symbols.in_part(address), inlines.chain(address));
        if let Some(frames) = &image.frames {
            let _ = (frames.kind(address), frames.function_start(address), frames.frames.range());
        }
        let mapping =
            Mapping { range: 0x5000..0x9000, offset: address, inode: 1, path: "/odd".to_owned() };
        let _ = image.bias(&mapping);
    }
}

#[test]
fn the_whole_program_is_read() {
    let image = Image::load(0, "program", Opened::Memory(PROGRAM.clone()), &[]);
    assert!(image.frames.is_some());
    read(PROGRAM.clone());
}

proptest! {
    #[test]
    fn no_damage_to_a_program_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        header: bool,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = PROGRAM.clone();
        // Half of the time where it hurts most: in the headers.
        let most = if header { 1024.min(bytes.len()) } else { bytes.len() };
        for (at, value) in changes {
            bytes[at.index(most)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read(bytes);
    }

    #[test]
    fn no_bytes_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = PROGRAM[..64].to_vec();
        bytes.extend(tail);
        read(bytes);
    }
}

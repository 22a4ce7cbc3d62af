//! What the head of an ELF file says: which machine it is for, what it is, and which build.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of the longest file header.
const HEADER: usize = 64;
/// Most bytes of program headers, and of one note segment, that are read.
const MOST: u64 = 1 << 16;
/// The segment that names the loader.
const PT_INTERP: u64 = 3;
/// A segment of notes.
const PT_NOTE: u64 = 4;
/// The note that holds the build id.
const NT_GNU_BUILD_ID: u64 = 3;
/// A shared object; a program that can be loaded anywhere is one too.
const ET_DYN: u64 = 3;

/// The machine that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// 1 for 32 bit, 2 for 64 bit.
    class: u8,
    /// 1 for the least significant byte first.
    order: u8,
    /// Number of the processor's kind.
    kind: u16,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.class == 2 { 64 } else { 32 };
        match self.kind {
            3 => write!(f, "x86 ({bits} bit)"),
            62 => write!(f, "x86-64 ({bits} bit)"),
            40 => write!(f, "Arm ({bits} bit)"),
            183 => write!(f, "AArch64 ({bits} bit)"),
            243 => write!(f, "RISC-V ({bits} bit)"),
            other => write!(f, "machine {other} ({bits} bit)"),
        }
    }
}

/// An ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    /// Whether it can be loaded into another program.
    pub(crate) shared: bool,
    /// Whether the loader brings it up, with the libraries that it needs.
    pub(crate) loaded: bool,
    /// In hexadecimal digits, where it has one.
    pub(crate) build_id: Option<String>,
}

/// Reads a file's head; none where it is no ELF file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Option<Elf>> {
    let file = File::open(path)?;
    let mut head = [0; HEADER];
    let mut length = 0;
    while length < HEADER {
        match file.read_at(&mut head[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(parse(&head[..length], &file))
}

fn parse(head: &[u8], file: &File) -> Option<Elf> {
    let [0x7f, b'E', b'L', b'F', class @ 1..=2, order @ 1..=2, ..] = *head else { return None };
    let reader = Reader { wide: class == 2, least_first: order == 1 };
    let machine = Machine { class, order, kind: u16::try_from(reader.at(head, 18, 2)?).ok()? };
    let shared = reader.at(head, 16, 2)? == ET_DYN;
    let segments = reader.segments(head, file);
    let build_id = segments.as_ref().and_then(|(table, each)| reader.build_id(table, *each, file));
    let loaded = segments.is_some_and(|(table, each)| reader.has(&table, each, PT_INTERP));
    Some(Elf { machine, shared, loaded, build_id })
}

/// Reads numbers as the file has them.
#[derive(Clone, Copy)]
struct Reader {
    wide: bool,
    least_first: bool,
}

impl Reader {
    fn at(self, bytes: &[u8], offset: usize, length: usize) -> Option<u64> {
        let part = bytes.get(offset..offset.checked_add(length)?)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match self.least_first {
            true => part.iter().rev().fold(0, add),
            false => part.iter().fold(0, add),
        })
    }

    /// The program headers, and the length of each.
    fn segments(self, head: &[u8], file: &File) -> Option<(Vec<u8>, usize)> {
        let (offset, sizes) = if self.wide { ((32, 8), 54) } else { ((28, 4), 42) };
        let table = self.at(head, offset.0, offset.1)?;
        let each = usize::try_from(self.at(head, sizes, 2)?).ok()?;
        let number = usize::try_from(self.at(head, sizes + 2, 2)?).ok()?;
        Some((part(file, table, (each * number) as u64)?, each.max(1)))
    }

    fn has(self, table: &[u8], each: usize, kind: u64) -> bool {
        table.chunks_exact(each).any(|segment| self.at(segment, 0, 4) == Some(kind))
    }

    fn build_id(self, table: &[u8], each: usize, file: &File) -> Option<String> {
        let (place, length) = if self.wide { ((8, 8), 32) } else { ((4, 4), 16) };
        let notes = table.chunks_exact(each).filter_map(|segment| {
            (self.at(segment, 0, 4)? == PT_NOTE).then_some(())?;
            let begin = self.at(segment, place.0, place.1)?;
            part(file, begin, self.at(segment, length, place.1)?)
        });
        notes.filter_map(|notes| self.note(&notes)).next()
    }

    /// The build id among notes.
    fn note(self, mut notes: &[u8]) -> Option<String> {
        loop {
            let name = usize::try_from(self.at(notes, 0, 4)?).ok()?;
            let length = usize::try_from(self.at(notes, 4, 4)?).ok()?;
            let kind = self.at(notes, 8, 4)?;
            let begin = 12 + name.next_multiple_of(4);
            let content = notes.get(begin..begin.checked_add(length)?)?;
            if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
                return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            notes = notes.get(begin + length.next_multiple_of(4)..)?;
        }
    }
}

fn part(file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length.min(MOST)).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;

    #[test]
    fn this_program_is_one_and_text_is_none() {
        let own = read(Path::new("/proc/self/exe")).unwrap().unwrap();
        assert_eq!(own.machine.class, if cfg!(target_pointer_width = "64") { 2 } else { 1 });
        // A test of Rust's is linked with the C library, unless its target is without.
        assert_eq!(own.loaded, !cfg!(target_feature = "crt-static"));
        let folder = tempfile::TempDir::new().unwrap();
        let text = folder.path().join("text");
        fs::write(&text, "#!/bin/sh\n").unwrap();
        assert_eq!(read(&text).unwrap(), None);
        assert!(read(&folder.path().join("absent")).is_err());
        assert!(read(folder.path()).is_err());
    }

    #[test]
    fn another_machine_is_reported_and_a_build_id_is_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("lib.so");
        fs::write(&path, small(2, 183, &[0xab, 0x01])).unwrap();
        let found = read(&path).unwrap().unwrap();
        assert_eq!(found.machine.to_string(), "AArch64 (64 bit)");
        assert_eq!((found.shared, found.build_id.as_deref()), (true, Some("ab01")));
        assert!(!found.loaded);
        fs::write(&path, small(1, 3, &[7, 8, 9])).unwrap();
        let found = read(&path).unwrap().unwrap();
        assert_eq!(found.machine.to_string(), "x86 (32 bit)");
        assert_eq!(found.build_id.as_deref(), Some("070809"));
    }

    /// A shared object with nothing but its build id.
    fn small(class: u8, kind: u8, id: &[u8]) -> Vec<u8> {
        let wide = class == 2;
        let (head, each) = if wide { (64, 56) } else { (52, 32) };
        let mut bytes = vec![0; head + each];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        (bytes[16], bytes[18]) = (3, kind);
        let size = u8::try_from(16 + id.len()).unwrap();
        let number = |value: usize| u8::try_from(value).unwrap();
        let (table, sizes) = if wide { (32, 54) } else { (28, 42) };
        (bytes[table], bytes[sizes], bytes[sizes + 2]) = (number(head), number(each), 1);
        let (place, length) = if wide { (8, 32) } else { (4, 16) };
        bytes[head] = 4;
        (bytes[head + place], bytes[head + length]) = (number(head + each), size);
        for word in [4, number(id.len()), 3] {
            bytes.extend([word, 0, 0, 0]);
        }
        bytes.extend(b"GNU\0");
        bytes.extend(id);
        bytes
    }

    proptest! {
        #[test]
        fn no_damage_to_a_library_makes_it_panic(
            class in 1_u8..=2,
            changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..8),
            cut: Index,
        ) {
            let folder = tempfile::TempDir::new().unwrap();
            let path = folder.path().join("lib.so");
            let mut bytes = small(class, 62, &[1, 2, 3, 4]);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            // Half of them whole.
            bytes.truncate(bytes.len().min(cut.index(2 * bytes.len()) + 1));
            fs::write(&path, bytes).unwrap();
            let _ = read(&path);
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), elf: bool
        ) {
            let folder = tempfile::TempDir::new().unwrap();
            let path = folder.path().join("odd");
            let mut bytes = bytes;
            if elf && bytes.len() > 6 {
                bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
            }
            fs::write(&path, bytes).unwrap();
            let _ = read(&path);
        }
    }
}

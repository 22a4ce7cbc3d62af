//! Probes that a program was written with: the notes of SystemTap's `sys/sdt.h` say where they are.
//! The form is described at <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;

/// The section of the notes, and the one whose address they were made with.
const NOTES: &str = ".note.stapsdt";
const BASE: &str = ".stapsdt.base";
/// What a note is called, and its kind.
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;
/// A longer section is read no further.
const MOST_BYTES: u64 = 16 << 20;

/// One place at which a probe is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) provider: String,
    pub(super) name: String,
    /// Where it is passed.
    pub(super) address: u64,
    /// The counter that has to be higher than 0 for the program to pass there, where it has one.
    pub(super) switch: Option<u64>,
}

/// All probes of a file; none where it has none, or is no ELF file.
pub(super) fn of(file: &File) -> Vec<Mark> {
    read(&ReadCache::new(file)).unwrap_or_default()
}

fn read<'data>(data: impl ReadRef<'data>) -> Option<Vec<Mark>> {
    let elf = ElfFile64::<Endianness, _>::parse(data).ok()?;
    let notes = elf.section_by_name(NOTES).filter(|section| section.size() <= MOST_BYTES)?;
    let base = elf.section_by_name(BASE).map(|section| section.address());
    Some(parse(notes.data().ok()?, base))
}

/// The marks of these notes. Where the file was moved as a whole since they were made, all its
/// addresses were, by as much as that of `base`.
fn parse(mut notes: &[u8], base: Option<u64>) -> Vec<Mark> {
    let mut marks = Vec::new();
    while let Some((mark, rest)) = note(notes, base) {
        marks.extend(mark);
        notes = rest;
    }
    marks
}

/// The first note, if it is a mark, and those behind it.
fn note(notes: &[u8], base: Option<u64>) -> Option<(Option<Mark>, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    let (owner, length, kind) = (word(0)?, word(4)?, word(8)?);
    let padded = |length: u32| usize::try_from(length).ok()?.checked_next_multiple_of(4);
    let begin = 12_usize.checked_add(padded(owner)?)?;
    let end = begin.checked_add(usize::try_from(length).ok()?)?;
    let described = notes.get(begin..end)?;
    let is_mark = kind == KIND && notes.get(12..12 + OWNER.len()) == Some(OWNER);
    let mark = is_mark.then(|| mark(described, base)).flatten();
    let next = begin.checked_add(padded(length)?)?;
    Some((mark, notes.get(next..).unwrap_or_default()))
}

/// Three addresses, then texts that end with 0: provider, name, arguments.
fn mark(described: &[u8], base: Option<u64>) -> Option<Mark> {
    let word = |at: usize| Some(u64::from_le_bytes(described.get(at..at + 8)?.try_into().ok()?));
    let (address, noted, switch) = (word(0)?, word(8)?, word(16)?);
    let moved = base.filter(|_| noted != 0).map_or(0, |base| base.wrapping_sub(noted));
    let mut texts = described.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some(Mark {
        provider: text()?,
        name: text()?,
        address: address.wrapping_add(moved),
        switch: (switch != 0).then(|| switch.wrapping_add(moved)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noted(owner: &[u8], kind: u32, described: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for length in [owner.len(), described.len()] {
            bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
        }
        bytes.extend(kind.to_le_bytes());
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(described);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn described(addresses: [u64; 3], texts: &[u8]) -> Vec<u8> {
        addresses.iter().flat_map(|one| one.to_le_bytes()).chain(texts.iter().copied()).collect()
    }

    #[test]
    fn marks_are_read_and_other_notes_passed_over() {
        let mut notes = noted(b"GNU\0", 3, &[1, 2, 3]);
        notes.extend(noted(OWNER, KIND, &described([100, 50, 0], b"shop\0order\0-4@%eax\0")));
        notes.extend(noted(OWNER, KIND, &described([200, 0, 300], b"shop\0paid\0\0")));
        let mark = |name: &str, address, switch| Mark {
            provider: "shop".to_owned(),
            name: name.to_owned(),
            address,
            switch,
        };
        assert_eq!(
            parse(&notes, Some(60)),
            [mark("order", 110, None), mark("paid", 200, Some(300))]
        );
        assert_eq!(parse(&notes, None)[0].address, 100);
        assert_eq!(parse(&notes[..notes.len() - 30], None).len(), 1, "a cut note is none");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, Some(1));
            let _ = parse(&noted(OWNER, KIND, &bytes), None);
        }
    }
}

//! Functions that the compiler put into others: an address read as its chain of calls, by DWARF.
//!
//! A symbol table knows only functions that have code of their own. Where a file or its debug
//! file has `.debug_info`, the entries `DW_TAG_inlined_subroutine` (DWARF 5, §3.3.8) tell which
//! functions were put into one another around an address.

use super::symbols::readable;
use addr2line::{Context, Location};
use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadRef};
use std::sync::Arc;

type Bytes = EndianArcSlice<LittleEndian>;

/// Bytes of debug information, decompressed, above which a file is not read: they stay in memory
/// beside the system under test.
pub(super) const MOST_BYTES: u64 = 256 << 20;

/// What chains and names need; types' and variables' whereabouts do not matter.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// One function of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inlined {
    /// As the debug information names it.
    pub(crate) name: String,
    /// The file and line at which it was.
    pub(crate) line: Option<(String, u32)>,
}

/// Where the headers of C++'s standard library lie, whoever made it.
const STANDARD: &str = "/include/c++/";

impl Inlined {
    /// The function as people write it. Debug information has no linkage name for what a compiler
    /// makes of a lambda, and its plain names tell neither namespace nor file: `wait<...>` of a
    /// header of the standard library is `std::wait<...>`, a lambda's `operator()` bears its file.
    pub(crate) fn readable(&self) -> String {
        let name = readable(&self.name);
        let Some((file, _)) = self.line.as_ref().filter(|_| name == self.name) else { return name };
        if file.contains(STANDARD) && !name.starts_with("std::") {
            return format!("std::{name}");
        }
        match (name.as_str(), file.rsplit('/').next()) {
            ("operator()", Some(file)) => format!("operator() in {file}"),
            _ => name,
        }
    }
}

/// The debug information of one image and of its debug file.
#[derive(Default)]
pub(crate) struct Inlines {
    sources: Vec<Context<Bytes>>,
}

impl Inlines {
    /// Adds a file; one without debug information, with too much of it, or with some in a form
    /// that cannot be read adds nothing.
    pub(crate) fn add<'data>(&mut self, data: impl ReadRef<'data>) {
        self.sources.extend(read(data));
    }

    /// Functions around `address` as the debug information names them (linkage names where there
    /// are any), innermost first; the last is the one with code of its own. `None` where nothing
    /// is known, or one of them has no name.
    ///
    /// A function directly inside itself counts once. GCC splits functions and then inlines the
    /// part into the rest, which is no call in the source; a recursion that really was inlined
    /// loses a level by this.
    pub(crate) fn chain(&self, address: u64) -> Option<Vec<Inlined>> {
        // The last address of all is no function's, and addr2line adds 1 to what it looks up.
        address.checked_add(1)?;
        self.sources.iter().find_map(|source| chain(source, address))
    }

    /// The file and line that the code at `address` was made of.
    pub(crate) fn line(&self, address: u64) -> Option<(String, u32)> {
        address.checked_add(1)?;
        self.sources.iter().find_map(|source| place(&source.find_location(address).ok()??))
    }
}

fn chain(source: &Context<Bytes>, address: u64) -> Option<Vec<Inlined>> {
    let mut frames = source.find_frames(address).skip_all_loads().ok()?;
    let mut chain = Vec::new();
    while let Some(frame) = frames.next().ok()? {
        let name = frame.function?.raw_name().ok()?.into_owned();
        chain.push(Inlined { name, line: frame.location.as_ref().and_then(place) });
    }
    chain.dedup_by(|next, last| next.name == last.name);
    (!chain.is_empty()).then_some(chain)
}

fn place(location: &Location<'_>) -> Option<(String, u32)> {
    Some((location.file?.to_owned(), location.line.filter(|line| *line > 0)?))
}

fn read<'data>(data: impl ReadRef<'data>) -> Option<Context<Bytes>> {
    let elf = ElfFile64::<Endianness, _>::parse(data).ok()?;
    elf.section_by_name(SectionId::DebugInfo.name())?;
    let mut left = MOST_BYTES;
    let section = |id: SectionId| {
        let bytes = match elf.section_by_name(id.name()) {
            Some(section) if NEEDED.contains(&id) => contents(&section, &mut left).ok_or(())?,
            _ => Arc::from([]),
        };
        Ok::<_, ()>(Bytes::new(bytes, LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}

/// The bytes of `section`, taken off those that are `left`; `None` where these do not suffice.
pub(super) fn contents<'data>(
    section: &impl ObjectSection<'data>,
    left: &mut u64,
) -> Option<Arc<[u8]>> {
    let data = section.compressed_data().ok()?;
    *left = left.checked_sub(data.uncompressed_size)?;
    Some(Arc::from(data.decompress().ok()?.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_or_a_lambda_is_called_tells_where_it_is_from() {
        let read = |name: &str, file: &str| {
            Inlined { name: name.to_owned(), line: Some((file.to_owned(), 9)) }.readable()
        };
        let header = "/usr/include/c++/12/condition_variable";
        assert_eq!(read("wait<f()::<lambda()> >", header), "std::wait<f()::<lambda()> >");
        assert_eq!(
            read("_ZNSt5mutex4lockEv", "/usr/include/c++/12/bits/std_mutex.h"),
            "std::mutex::lock"
        );
        assert_eq!(read("operator()", "/home/me/bench.cpp"), "operator() in bench.cpp");
        assert_eq!(read("post", "/home/me/bench.cpp"), "post");
        assert_eq!(Inlined { name: "operator()".to_owned(), line: None }.readable(), "operator()");
    }

    #[test]
    fn bytes_that_are_no_program_have_no_chains() {
        let mut inlines = Inlines::default();
        inlines.add(&b"\x7fELF and then nothing of the kind"[..]);
        inlines.add(&[][..]);
        assert!(inlines.sources.is_empty());
        assert_eq!(inlines.chain(4096), None);
    }
}

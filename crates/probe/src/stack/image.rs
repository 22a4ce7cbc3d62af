//! One ELF file (or the vDSO) as processes map it: segments, frame information, symbol sources.

use super::cfi::{FrameInfo, Section};
use super::inlines::{Inlines, MOST_BYTES, contents};
use super::maps::Mapping;
use super::symbols::{Kind, Symbol, SymbolTable};
use kneepoint_machine::proc;
use object::elf::FileHeader64;
use object::read::elf::{self, ElfFile64, Sym as _};
use object::{
    Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, ReadRef,
    SegmentFlags, SymbolFlags,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod damaged;

type ElfSymbols<'data, R> = elf::SymbolTable<'data, FileHeader64<Endianness>, R>;

/// What tells one mapped file from another, also after a rebuild in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageKey {
    /// A file: device, inode, length, change time in seconds and nanoseconds.
    File(u64, u64, u64, i64, i64),
    /// Bytes read from memory: the vDSO.
    Memory(Vec<u8>),
}

/// An image; addresses in it are those before relocation, as `objdump` shows them.
#[derive(Debug)]
pub(crate) struct Image {
    /// Number of the image within this run.
    pub(crate) id: u32,
    /// Base name of the file.
    pub(crate) name: String,
    /// The note that tells this build from any other.
    pub(crate) build_id: Option<Vec<u8>>,
    /// Loaded segments.
    segments: Vec<Segment>,
    /// Frame information, where there is any.
    pub(crate) frames: Option<FrameInfo>,
    /// Files that hold symbols: the image itself, then its debug file.
    sources: Vec<Source>,
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    in_file: u64,
    in_memory: u64,
    executable: bool,
}

impl Image {
    /// Reads what unwinding needs; symbols are left for [`Image::symbols`].
    ///
    /// A file that is no 64-bit ELF gives an image without segments: its frames are numbers.
    pub(crate) fn load(id: u32, name: &str, opened: Opened, debug_roots: &[PathBuf]) -> Self {
        let mut image = Self {
            id,
            name: name.to_owned(),
            build_id: None,
            segments: Vec::new(),
            frames: None,
            sources: Vec::new(),
        };
        image.build_id = match opened {
            Opened::File(file, _) => {
                let build_id = image.read_layout(&ReadCache::new(&file));
                image.sources.push(Source::File(file));
                build_id
            }
            Opened::Memory(bytes) => {
                let build_id = image.read_layout(&bytes[..]);
                image.sources.push(Source::Memory(bytes));
                build_id
            }
        };
        let debug = image.build_id.as_ref().and_then(|id| open_debug_file(id, debug_roots));
        if let Some(debug) = debug {
            image.sources.push(Source::File(debug));
        }
        image
    }

    /// Fills in segments and frames; the result is the build id.
    fn read_layout<'data>(&mut self, data: impl ReadRef<'data>) -> Option<Vec<u8>> {
        let elf = ElfFile64::<Endianness, _>::parse(data).ok()?;
        self.segments = elf
            .segments()
            .map(|segment| Segment {
                address: segment.address(),
                offset: segment.file_range().0,
                in_file: segment.file_range().1,
                in_memory: segment.size(),
                executable: matches!(segment.flags(),
                    SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0),
            })
            .collect();
        let mut left = MOST_BYTES;
        let mut section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let bytes = contents(&section, &mut left)?;
            (!bytes.is_empty()).then(|| Section { address: section.address(), bytes })
        };
        let address = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().saturating_add(section.size()))
        };
        self.frames = section(".eh_frame").map(|frames| FrameInfo {
            frames,
            index: section(".eh_frame_hdr"),
            text: address(".text").map_or(0, |text| text.start),
            got: address(".got"),
        });
        elf.build_id().ok().flatten().map(<[u8]>::to_vec)
    }

    /// What has to be added to an address of the image to get that in the process, where
    /// `mapping` maps executable code of it. `None` where the file says nothing of such code.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        const PAGE_MASK: u64 = 4095;
        let segment = self.segments.iter().find(|segment| {
            let begin = segment.offset & !PAGE_MASK;
            segment.executable
                && (begin..segment.offset.saturating_add(segment.in_file)).contains(&mapping.offset)
        })?;
        let at_offset = segment.address.wrapping_add(mapping.offset).wrapping_sub(segment.offset);
        Some(mapping.range.start.wrapping_sub(at_offset))
    }

    /// Whether `address` lies in a loaded segment, zeroed data included.
    pub(crate) fn holds(&self, address: u64) -> bool {
        let extent =
            |segment: &Segment| segment.address..segment.address.saturating_add(segment.in_memory);
        self.segments.iter().any(|segment| extent(segment).contains(&address))
    }

    /// Bytes of code at these addresses, fewer where the file has no more. `None` where no code
    /// lies at the first.
    pub(crate) fn code(&self, addresses: Range<u64>) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|segment| {
            let end = segment.address.saturating_add(segment.in_file);
            segment.executable && (segment.address..end).contains(&addresses.start)
        })?;
        let inside = addresses.start - segment.address;
        let length = (addresses.end - addresses.start).min(segment.in_file - inside);
        let (from, length) = (segment.offset.checked_add(inside)?, usize::try_from(length).ok()?);
        match self.sources.first()? {
            Source::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, from).ok()?;
                Some(bytes)
            }
            Source::Memory(bytes) => {
                let from = usize::try_from(from).ok()?;
                bytes.get(from..from.checked_add(length)?).map(<[u8]>::to_vec)
            }
        }
    }

    /// Where in the file the byte lies that is loaded at `address`; none where it is in none.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            let end = segment.address.saturating_add(segment.in_file);
            (segment.address..end).contains(&address)
        };
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// Every sized function and variable that the image and its debug file name.
    pub(crate) fn symbols(&self) -> SymbolTable {
        SymbolTable::new(self.named().0)
    }

    /// Every sized function that the image and its debug file name, and whether one of the two
    /// names more than what others may link with: whether it is not stripped.
    pub(crate) fn functions(&self) -> (Vec<Symbol>, bool) {
        let (mut symbols, whole) = self.named();
        symbols.retain(|symbol| symbol.kind == Kind::Function);
        (symbols, whole)
    }

    fn named(&self) -> (Vec<Symbol>, bool) {
        let (mut symbols, mut whole) = (Vec::new(), false);
        for source in &self.sources {
            whole |= match source {
                Source::File(file) => read_symbols(&ReadCache::new(file), &mut symbols),
                Source::Memory(bytes) => read_symbols(&bytes[..], &mut symbols),
            };
        }
        (symbols, whole)
    }

    /// What the debug information of the image and its debug file tells of inlined functions.
    pub(crate) fn inlines(&self) -> Inlines {
        let mut inlines = Inlines::default();
        for source in &self.sources {
            match source {
                Source::File(file) => inlines.add(&ReadCache::new(file)),
                Source::Memory(bytes) => inlines.add(&bytes[..]),
            }
        }
        inlines
    }
}

/// Adds the symbols of a file, and says whether it has a table beside that for linking.
fn read_symbols<'data>(data: impl ReadRef<'data>, into: &mut Vec<Symbol>) -> bool {
    const STT_OBJECT: u8 = 1;
    const STT_FUNC: u8 = 2;
    const STT_NOTYPE: u8 = 0;
    const STB_LOCAL: u8 = 0;
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(data) else { return false };
    // A table of names is read at once: name by name it is thousands of reads of a file.
    let names_of = |table: &ElfSymbols<'data, _>| {
        let section = elf.section_by_index(table.string_section()).ok();
        section.and_then(|section| section.data().ok()).unwrap_or_default()
    };
    let names = names_of(elf.elf_symbol_table());
    let dynamic_names = names_of(elf.elf_dynamic_symbol_table());
    let own = elf.symbols().map(|symbol| (symbol, names));
    let executable = |symbol: &object::read::elf::ElfSymbol64<'data, '_, Endianness, _>| {
        let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
        section.is_some_and(|section| section.kind() == object::SectionKind::Text)
    };
    let dynamic = elf.dynamic_symbols().map(|symbol| (symbol, dynamic_names));
    for (symbol, names) in own.chain(dynamic) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        if symbol.is_undefined() || symbol.size() == 0 {
            continue;
        }
        let kind = match st_info & 0xf {
            STT_FUNC => Kind::Function,
            STT_NOTYPE if executable(&symbol) => Kind::Function,
            STT_OBJECT => Kind::Variable,
            _ => continue,
        };
        let name = name_at(names, symbol.elf_symbol().st_name(elf.endian()));
        if !name.is_empty() {
            into.push(Symbol {
                address: symbol.address(),
                size: symbol.size(),
                kind,
                local: st_info >> 4 == STB_LOCAL,
                name: String::from_utf8_lossy(name).into(),
            });
        }
    }
    elf.symbols().next().is_some()
}

/// The name that begins at an offset of a table of names; empty where that has no end.
fn name_at(names: &[u8], offset: u32) -> &[u8] {
    let rest = usize::try_from(offset).ok().and_then(|offset| names.get(offset..));
    let end = |rest: &[u8]| rest.iter().position(|byte| *byte == 0);
    rest.and_then(|rest| rest.get(..end(rest)?)).unwrap_or_default()
}

/// A mapped file, opened by whichever way still leads to it.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The file and what tells it from others.
    File(File, ImageKey),
    /// The vDSO's bytes.
    Memory(Vec<u8>),
}

impl Opened {
    /// What tells it from others.
    pub(crate) fn key(&self) -> ImageKey {
        match self {
            Self::File(_, key) => key.clone(),
            Self::Memory(bytes) => ImageKey::Memory(bytes.clone()),
        }
    }
}

/// Opens the file behind `mapping` of process `pid`.
///
/// # Errors
/// Where no way leads to the very file that is mapped, or it may not be read.
pub(crate) fn open(pid: u32, mapping: &Mapping) -> io::Result<Opened> {
    if mapping.path == "[vdso]" {
        return read_memory(pid, mapping).map(Opened::Memory);
    }
    if !mapping.path.starts_with('/') {
        return Err(io::ErrorKind::NotFound.into());
    }
    let Mapping { range, .. } = mapping;
    let by_range = format!("{pid}/map_files/{:x}-{:x}", range.start, range.end);
    let file = if mapping.deleted() {
        proc::open(&by_range).or_else(|_| open_program(pid, mapping.inode))?
    } else {
        proc::open(&format!("{pid}/root{}", mapping.path))
            .or_else(|_| proc::open(&by_range))
            .or_else(|_| open_program(pid, mapping.inode))?
    };
    let meta = file.metadata()?;
    let key = ImageKey::File(meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    Ok(Opened::File(file, key))
}

/// The program of a process may be opened even where its path is gone.
fn open_program(pid: u32, inode: u64) -> io::Result<File> {
    let file = proc::open(&format!("{pid}/exe"))?;
    if file.metadata()?.ino() == inode { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn read_memory(pid: u32, mapping: &Mapping) -> io::Result<Vec<u8>> {
    const MOST: u64 = 1 << 20;
    let length = (mapping.range.end - mapping.range.start).min(MOST);
    let mut memory = proc::process::memory(pid)?;
    memory.seek(SeekFrom::Start(mapping.range.start))?;
    let mut bytes = Vec::new();
    memory.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Two digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Folders below which distributions keep separate debug files, as seen by us and by `pid`.
pub(crate) fn debug_roots(pid: u32) -> Vec<PathBuf> {
    const FOLDER: &str = "usr/lib/debug/.build-id";
    vec![Path::new("/").join(FOLDER), proc::process::root(pid).join(FOLDER)]
}

fn open_debug_file(build_id: &[u8], roots: &[PathBuf]) -> Option<File> {
    let (first, rest) = build_id.split_at_checked(1)?;
    let below = format!("{}/{}.debug", hexadecimal(first), hexadecimal(rest));
    roots.iter().filter_map(|root| File::open(root.join(&below)).ok()).find(|file| {
        let cache = ReadCache::new(file);
        let parsed = ElfFile64::<Endianness, _>::parse(&cache);
        parsed.is_ok_and(|elf| elf.build_id().ok().flatten() == Some(build_id))
    })
}

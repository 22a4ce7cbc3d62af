//! One watched process: its code mappings and the unwinder over them.

use super::cfi::{FrameKind, Section};
use super::code;
use super::image::{self, Image, ImageKey, Opened};
use super::maps::{self, Mapping};
use super::record::UserRegisters;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use kneepoint_machine::proc::process::mappings;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Deeper stacks are cut: a frame loop would not end else.
const MOST_FRAMES: usize = 1024;
/// Mappings are read again at most this often because of an unknown address.
const RESCAN_EVERY: Duration = Duration::from_millis(100);

/// A frame as numbers that stay the same in every start of a program.
///
/// Addresses are those to look up: of the call, not of the return, except in the innermost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RawFrame {
    /// Kernel address.
    Kernel(u64),
    /// Image and address in it.
    User(u32, u64),
    /// Code that lies in no file.
    Anonymous(Anonymous),
}

/// An address of code that lies in no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Anonymous {
    /// The process.
    pub(crate) pid: u32,
    /// Where it lies in the process.
    pub(crate) address: u64,
    /// Where it lies in the mapping.
    pub(crate) offset: u64,
}

/// What the kernel took of a thread's user side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    /// Registers.
    pub(crate) registers: UserRegisters,
    /// The stack from the stack pointer upwards.
    pub(crate) stack: &'a [u8],
    /// Addresses along the frame pointers, innermost first.
    pub(crate) chain: &'a [u64],
}

/// All images that any watched process mapped in this run.
#[derive(Default)]
pub(crate) struct Images {
    by_key: BTreeMap<ImageKey, u32>,
    /// The layout read last: processes forked from one another share it.
    latest: Option<Layout>,
    images: Vec<Arc<Image>>,
    kinds: HashMap<(u32, u64), FrameKind>,
}

impl Images {
    /// The image of this number.
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Image>> {
        self.images.get(usize::try_from(id).ok()?)
    }

    fn intern(&mut self, pid: u32, name: &str, opened: Opened) -> Arc<Image> {
        let next = u32::try_from(self.images.len()).unwrap_or(u32::MAX);
        let id = *self.by_key.entry(opened.key()).or_insert(next);
        if id == next {
            let image = Image::load(id, name, opened, &image::debug_roots(pid));
            self.images.push(Arc::new(image));
        }
        Arc::clone(&self.images[id as usize])
    }

    fn kind(&mut self, image: &Image, address: u64) -> FrameKind {
        let ask = || image.frames.as_ref().map_or(FrameKind::Plain, |frames| frames.kind(address));
        *self.kinds.entry((image.id, address)).or_insert_with(ask)
    }
}

/// Where code lies in a process, and how to unwind there.
#[derive(Clone, Default)]
struct Layout {
    spans: Vec<Span>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    unreadable: Vec<String>,
}

impl Layout {
    fn is_of(&self, mappings: &[Mapping]) -> bool {
        self.spans.iter().map(|span| &span.mapping).eq(mappings)
    }
}

#[derive(Clone, Debug)]
struct Span {
    mapping: Mapping,
    /// The image and what was added to its addresses.
    image: Option<(Arc<Image>, u64)>,
}

impl Span {
    /// The frame at `address`, which lies in the span, of process `pid`.
    fn frame(&self, pid: u32, address: u64) -> RawFrame {
        match &self.image {
            Some((image, bias)) => RawFrame::User(image.id, address.wrapping_sub(*bias)),
            None => {
                let Mapping { range, offset, .. } = &self.mapping;
                RawFrame::Anonymous(Anonymous {
                    pid,
                    address,
                    offset: address - range.start + offset,
                })
            }
        }
    }

    /// Whether frame pointers are all that its callers can be found by.
    fn keeps_frame_pointers(&self) -> bool {
        self.image.as_ref().is_none_or(|(image, _)| image.frames.is_none())
    }
}

/// A process whose stacks can be unwound.
pub(crate) struct Process {
    pid: u32,
    text: String,
    spans: Vec<Span>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    scanned: Instant,
    /// Files that could not be opened: their frames have offsets instead of names.
    pub(crate) unreadable: Vec<String>,
}

/// How far a walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// To the root.
    Complete,
    /// Not further than the frames found.
    Cut,
    /// To an address in no known mapping.
    Unknown,
}

impl Process {
    /// Reads the mappings of `pid`; without any where it is gone.
    pub(crate) fn new(pid: u32, images: &mut Images) -> Self {
        let mut process = Self {
            pid,
            text: String::new(),
            spans: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            scanned: Instant::now(),
            unreadable: Vec::new(),
        };
        process.scan(images);
        process
    }

    /// Reads the mappings again, and says whether they had changed. Those last known stay where
    /// the process is gone.
    pub(crate) fn scan(&mut self, images: &mut Images) -> bool {
        self.scanned = Instant::now();
        let text = mappings(self.pid).unwrap_or_default();
        if text.is_empty() || text == self.text {
            return false;
        }
        self.text = text;
        let mappings = maps::executable(&self.text);
        if let Some(known) = images.latest.as_ref().filter(|known| known.is_of(&mappings)) {
            let Layout { spans, unwinder, unreadable } = known.clone();
            (self.spans, self.unwinder, self.unreadable) = (spans, unwinder, unreadable);
            return true;
        }
        self.unwinder = UnwinderX86_64::new();
        self.unreadable.clear();
        self.spans = mappings.into_iter().map(|m| self.span(m, images)).collect();
        images.latest = Some(Layout {
            spans: self.spans.clone(),
            unwinder: self.unwinder.clone(),
            unreadable: self.unreadable.clone(),
        });
        true
    }

    fn span(&mut self, mapping: Mapping, images: &mut Images) -> Span {
        let opened = image::open(self.pid, &mapping);
        if let (Err(error), true) = (&opened, mapping.path.starts_with('/')) {
            self.unreadable.push(format!("{}: {error}", mapping.path));
        }
        let image = opened.ok().and_then(|opened| {
            let image = images.intern(self.pid, mapping.base_name(), opened);
            let bias = image.bias(&mapping)?;
            Some((image, bias))
        });
        if let Some((image, bias)) = &image {
            self.unwinder.add_module(module(image, &mapping, *bias));
        }
        Span { mapping, image }
    }

    fn find(&self, address: u64) -> Option<&Span> {
        let after = self.spans.partition_point(|span| span.mapping.range.start <= address);
        self.spans.get(after.checked_sub(1)?).filter(|s| s.mapping.range.contains(&address))
    }

    /// Appends the user frames to `frames`, innermost first, and says whether the root was
    /// reached. Reads the mappings again where code has appeared since.
    pub(crate) fn walk(
        &mut self,
        taken: &Taken<'_>,
        images: &mut Images,
        cache: &mut CacheX86_64,
        frames: &mut Vec<RawFrame>,
    ) -> Walk {
        let kept = frames.len();
        let first = self.walk_known(taken, images, cache, frames);
        let may_scan = first == Walk::Unknown && self.scanned.elapsed() >= RESCAN_EVERY;
        if !may_scan || !self.scan(images) {
            return first;
        }
        frames.truncate(kept);
        self.walk_known(taken, images, cache, frames)
    }

    fn walk_known(
        &self,
        taken: &Taken<'_>,
        images: &mut Images,
        cache: &mut CacheX86_64,
        frames: &mut Vec<RawFrame>,
    ) -> Walk {
        let Taken { registers, stack, .. } = *taken;
        let mut state = UnwindRegsX86_64::new(registers.ip, registers.sp, registers.bp);
        let mut address = FrameAddress::from_instruction_pointer(registers.ip);
        for depth in 0..MOST_FRAMES {
            let lookup = address.address_for_lookup();
            let Some(span) = self.find(lookup) else { return Walk::Unknown };
            frames.push(span.frame(self.pid, lookup));
            let caller = match &span.image {
                None => self.by_frame_pointer(&mut state, stack, registers.sp),
                Some((image, bias)) => match images.kind(image, lookup.wrapping_sub(*bias)) {
                    FrameKind::Root => return Walk::Complete,
                    FrameKind::Opaque if depth == 0 => {
                        self.caller_of_bare(&mut state, stack, registers.sp)
                    }
                    FrameKind::Opaque => return Walk::Cut,
                    FrameKind::Signal => interrupted(&mut state, stack, registers.sp),
                    FrameKind::Plain => {
                        self.caller(address, &mut state, stack, registers.sp, cache)
                    }
                },
            };
            match caller {
                Caller::At(caller) => address = caller,
                Caller::None => return Walk::Complete,
                Caller::Unknown => {
                    if span.keeps_frame_pointers() {
                        self.follow_chain(taken.chain, lookup, frames);
                    }
                    return Walk::Cut;
                }
            }
        }
        Walk::Cut
    }

    /// Goes on where the copied stack ends: a runtime may have changed to another stack, which the
    /// kernel's own chain of frame pointers crosses. `last` is the address of the last frame.
    fn follow_chain(&self, chain: &[u64], last: u64, frames: &mut Vec<RawFrame>) {
        let same = |address: &u64| *address == last || *address == last.wrapping_add(1);
        let Some(at) = chain.iter().position(same) else { return };
        for address in &chain[at + 1..] {
            let lookup = address.wrapping_sub(1);
            let Some(span) = self.find(lookup).filter(|_| frames.len() < MOST_FRAMES) else {
                return;
            };
            frames.push(span.frame(self.pid, lookup));
        }
    }

    /// The caller of code that comes from no file, as a just-in-time compiler keeps frame pointers
    /// for profilers: the word that the register shows leads to the next frame, outward on the
    /// copied stack, and the one after it back into known code.
    fn by_frame_pointer(&self, state: &mut UnwindRegsX86_64, stack: &[u8], sp: u64) -> Caller {
        let bp = state.bp();
        let words = (bp >= state.sp() && bp.is_multiple_of(8))
            .then(|| Some((word_at(stack, sp, bp)?, word_at(stack, sp, bp.checked_add(8)?)?)))
            .flatten();
        let Some((outer, back)) = words else { return Caller::Unknown };
        if self.find(back.wrapping_sub(1)).is_none() {
            return Caller::Unknown;
        }
        *state = UnwindRegsX86_64::new(back, bp.wrapping_add(16), outer);
        FrameAddress::from_return_address(back).map_or(Caller::Unknown, Caller::At)
    }

    /// The caller of a function that no table has, as of those written in assembly, where it has
    /// put nothing on the stack: the word there is an address behind a call.
    fn caller_of_bare(&self, state: &mut UnwindRegsX86_64, stack: &[u8], sp: u64) -> Caller {
        let Some(back) = word_at(stack, sp, sp).filter(|back| self.is_behind_a_call(*back)) else {
            return Caller::Unknown;
        };
        *state = UnwindRegsX86_64::new(back, sp.wrapping_add(8), state.bp());
        FrameAddress::from_return_address(back).map_or(Caller::Unknown, Caller::At)
    }

    fn is_behind_a_call(&self, address: u64) -> bool {
        let span = self.find(address.wrapping_sub(1));
        let Some((image, bias)) = span.and_then(|span| span.image.as_ref()) else { return false };
        let end = address.wrapping_sub(*bias);
        let before = end.checked_sub(code::LONGEST_CALL).and_then(|from| image.code(from..end));
        before.is_some_and(|bytes| code::ends_with_a_call(&bytes))
    }

    fn caller(
        &self,
        address: FrameAddress,
        state: &mut UnwindRegsX86_64,
        stack: &[u8],
        sp: u64,
        cache: &mut CacheX86_64,
    ) -> Caller {
        let mut last_read = None;
        let mut read = |at: u64| {
            last_read = word_at(stack, sp, at);
            last_read.ok_or(())
        };
        let found = self.unwinder.unwind_frame(address, state, cache, &mut read);
        match found.map(|caller| caller.and_then(FrameAddress::from_return_address)) {
            Ok(Some(caller)) => Caller::At(caller),
            Ok(None) if last_read == Some(0) => Caller::None,
            // Here the unwinder fell back to a frame pointer of 0, which is no evidence of a
            // root: code may use that register for anything.
            Ok(None) | Err(_) => Caller::Unknown,
        }
    }

    /// Whether code is mapped here that lies in no file, other than the kernel's own pages.
    pub(crate) fn has_anonymous_code(&self) -> bool {
        self.spans.iter().any(|span| span.image.is_none() && span.mapping.path.is_empty())
    }

    /// Whether a file of this name is mapped.
    pub(crate) fn maps_library(&self, name: &str) -> bool {
        self.spans.iter().any(|span| span.mapping.base_name() == name)
    }

    /// The image that holds `address` in this process, and the address in it; data included.
    pub(crate) fn image_at(&self, address: u64) -> Option<(&Arc<Image>, u64)> {
        self.spans.iter().filter_map(|span| span.image.as_ref()).find_map(|(image, bias)| {
            let in_image = address.wrapping_sub(*bias);
            image.holds(in_image).then_some((image, in_image))
        })
    }
}

/// What follows a frame.
enum Caller {
    At(FrameAddress),
    /// The return address is 0: the stack was made to end here.
    None,
    Unknown,
}

/// What a signal interrupted: the kernel left its registers in the `ucontext` that the stack
/// pointer shows when the handler returns (`struct rt_sigframe` of the x86-64 kernel).
fn interrupted(state: &mut UnwindRegsX86_64, stack: &[u8], sp: u64) -> Caller {
    const RBP: u64 = 120;
    const RSP: u64 = 160;
    const RIP: u64 = 168;
    let context = state.sp();
    let word = |offset: u64| word_at(stack, sp, context.checked_add(offset)?);
    let (Some(ip), Some(new_sp), Some(bp)) = (word(RIP), word(RSP), word(RBP)) else {
        return Caller::Unknown;
    };
    *state = UnwindRegsX86_64::new(ip, new_sp, bp);
    Caller::At(FrameAddress::from_instruction_pointer(ip))
}

fn module(image: &Image, mapping: &Mapping, bias: u64) -> Module<Arc<[u8]>> {
    let mut sections = ExplicitModuleSectionInfo::default();
    if let Some(info) = &image.frames {
        sections.text_svma = Some(info.text..info.text);
        sections.got_svma.clone_from(&info.got);
        sections.eh_frame_svma = Some(info.frames.range());
        sections.eh_frame = Some(Arc::clone(&info.frames.bytes));
        sections.eh_frame_hdr_svma = info.index.as_ref().map(Section::range);
        sections.eh_frame_hdr = info.index.as_ref().map(|index| Arc::clone(&index.bytes));
    }
    Module::new(image.name.clone(), mapping.range.clone(), bias, sections)
}

/// The 8 bytes at address `at` of a stack copied from `sp` upwards.
fn word_at(stack: &[u8], sp: u64, at: u64) -> Option<u64> {
    let begin = usize::try_from(at.checked_sub(sp)?).ok()?;
    let bytes = stack.get(begin..begin.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_only_from_the_copied_bytes() {
        let stack: Vec<u8> = (0..16).collect();
        assert_eq!(word_at(&stack, 1000, 1000), Some(u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7])));
        assert!(word_at(&stack, 1000, 1008).is_some());
        assert_eq!(word_at(&stack, 1000, 1009), None);
        assert_eq!(word_at(&stack, 1000, 992), None);
        assert_eq!(word_at(&stack, 1000, u64::MAX), None);
    }

    #[test]
    fn a_layout_is_shared_only_where_every_mapping_is_the_same() {
        let mut images = Images::default();
        let own = Process::new(std::process::id(), &mut images);
        let mut mappings: Vec<_> = own.spans.iter().map(|span| span.mapping.clone()).collect();
        let latest = images.latest.as_ref().expect("it has just been read");
        assert!(!mappings.is_empty() && latest.is_of(&mappings));
        mappings[0].inode += 1;
        assert!(!latest.is_of(&mappings));
        mappings.remove(0);
        assert!(!latest.is_of(&mappings));
    }

    #[test]
    fn our_own_code_belongs_to_our_own_file() {
        let mut images = Images::default();
        let process = Process::new(std::process::id(), &mut images);
        let address = our_own_code_belongs_to_our_own_file as fn() as usize as u64;
        let span = process.find(address).expect("our code is mapped");
        let (image, bias) = span.image.as_ref().expect("our file can be read");
        let symbols = image.symbols();
        let name = symbols.function(address - bias).expect("tests are not stripped");
        assert!(super::super::symbols::readable(name).contains("our_own_code"), "{name}");
        assert_eq!(process.unreadable, Vec::<String>::new());
        let frames = image.frames.as_ref().expect("Rust programs have frame information");
        assert_eq!(frames.function_start(address - bias + 1), Some(address - bias));
        assert_eq!(frames.kind(address - bias + 1), FrameKind::Plain);
        assert_eq!(frames.function_start(1), None);
        assert_eq!(frames.kind(1), FrameKind::Opaque);
    }
}

//! Call frame information of one image, asked for what unwinding does not tell: where the
//! function around an address begins, and whether it is the root of a stack or a signal's frame.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use std::ops::Range;
use std::sync::Arc;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A section in memory with its address in the image.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Address in the image, before any relocation.
    pub(crate) address: u64,
    /// Contents.
    pub(crate) bytes: Arc<[u8]>,
}

impl Section {
    /// Addresses it takes in the image.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// What a frame is to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Called, and its caller can be found.
    Plain,
    /// Put there by the kernel around a signal handler.
    Signal,
    /// Not covered, or its caller can only be found from registers that are not followed.
    Opaque,
    /// Without a caller: its return address is undefined, as thread entries and `_start`
    /// declare it (DWARF 5, §6.4.4).
    Root,
}

/// `.eh_frame` with its index and the bases that its pointers refer to.
#[derive(Clone, Debug)]
pub(crate) struct FrameInfo {
    /// `.eh_frame`.
    pub(crate) frames: Section,
    /// `.eh_frame_hdr`, the sorted index.
    pub(crate) index: Option<Section>,
    /// Address of `.text`.
    pub(crate) text: u64,
    /// Addresses of `.got`.
    pub(crate) got: Option<Range<u64>>,
}

impl FrameInfo {
    /// Address of the first instruction of the function around `address`, by its frame
    /// description entry. `None` where no entry covers the address.
    pub(crate) fn function_start(&self, address: u64) -> Option<u64> {
        Some(self.entry(address)?.initial_address())
    }

    /// What the frame at `address` is, by the entry that covers it.
    pub(crate) fn kind(&self, address: u64) -> FrameKind {
        let Some(entry) = self.entry(address) else { return FrameKind::Opaque };
        if entry.is_signal_trampoline() {
            return FrameKind::Signal;
        }
        let (section, bases) = (self.section(), self.bases());
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &bases, &mut context, address);
        let Ok(row) = row else { return FrameKind::Opaque };
        if matches!(row.register(X86_64::RA), None | Some(RegisterRule::Undefined)) {
            return FrameKind::Root;
        }
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, .. }
                if ![X86_64::RSP, X86_64::RBP].contains(register) =>
            {
                FrameKind::Opaque
            }
            _ => FrameKind::Plain,
        }
    }

    fn entry(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let (section, bases) = (self.section(), self.bases());
        let Some(index) = &self.index else {
            return section.fde_for_address(&bases, address, EhFrame::cie_from_offset).ok();
        };
        let header = EhFrameHdr::new(&index.bytes, LittleEndian).parse(&bases, 8).ok()?;
        let table = header.table()?;
        let place = table.lookup(address, &bases).ok()?;
        // Damaged, it may lie before its section, and the distance is taken unchecked.
        if place.direct().ok()? < header.eh_frame_ptr().direct().ok()? {
            return None;
        }
        let offset = table.pointer_to_offset(place).ok()?;
        let entry = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        entry.contains(address).then_some(entry)
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        EhFrame::new(&self.frames.bytes, LittleEndian)
    }

    fn bases(&self) -> BaseAddresses {
        let mut bases =
            BaseAddresses::default().set_eh_frame(self.frames.address).set_text(self.text);
        if let Some(index) = &self.index {
            bases = bases.set_eh_frame_hdr(index.address);
        }
        if let Some(got) = &self.got {
            bases = bases.set_got(got.start);
        }
        bases
    }
}

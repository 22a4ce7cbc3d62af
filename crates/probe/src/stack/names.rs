//! From numbers to named stacks: each distinct address is looked up once in a run, and stacks
//! that read alike are one stack.

use super::image::Image;
use super::kernel::{self, KERNEL, KernelSymbols};
use super::maps::ANONYMOUS;
use super::process::{Images, RawFrame};
use super::symbols::{SymbolTable, readable};
use kneepoint_vocab::{Frame, StackId, StackRecord};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

/// A stack as numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawStack {
    /// Kernel frames, then user frames; innermost first.
    pub(crate) frames: Box<[RawFrame]>,
    /// The root was not reached.
    pub(crate) truncated: bool,
}

/// Number of a [`RawStack`] within this run.
pub(crate) type RawId = usize;

/// Gives each distinct stack of numbers a number.
#[derive(Debug, Default)]
pub(crate) struct RawStacks {
    ids: HashMap<Arc<RawStack>, RawId>,
    stacks: Vec<Arc<RawStack>>,
}

impl RawStacks {
    /// The number of this stack, the next free one if it is new.
    pub(crate) fn intern(&mut self, frames: &[RawFrame], truncated: bool) -> RawId {
        let stack = RawStack { frames: frames.into(), truncated };
        if let Some(known) = self.ids.get(&stack) {
            return *known;
        }
        let (stack, id) = (Arc::new(stack), self.stacks.len());
        self.stacks.push(Arc::clone(&stack));
        self.ids.insert(stack, id);
        id
    }

    /// The stack of this number.
    pub(crate) fn get(&self, id: RawId) -> Option<&RawStack> {
        self.stacks.get(id).map(Arc::as_ref)
    }
}

/// Names of addresses, and the run's stack table.
#[derive(Default)]
pub(crate) struct Names {
    kernel: Option<KernelSymbols>,
    tables: BTreeMap<u32, SymbolTable>,
    frames: HashMap<RawFrame, Frame>,
    by_raw: HashMap<RawId, StackId>,
    by_name: HashMap<(Vec<(String, String)>, bool), StackId>,
}

impl Names {
    /// The stack's number in the run's table, and its record if it was not there yet.
    pub(crate) fn resolve(
        &mut self,
        id: RawId,
        stack: &RawStack,
        images: &Images,
    ) -> (StackId, Option<StackRecord>) {
        if let Some(known) = self.by_raw.get(&id) {
            return (*known, None);
        }
        let frames = self.named(stack, images);
        let key = frames.iter().map(|f| (f.function.clone(), f.module.clone())).collect();
        let next = StackId(u32::try_from(self.by_name.len()).unwrap_or(u32::MAX));
        let found = *self.by_name.entry((key, stack.truncated)).or_insert(next);
        self.by_raw.insert(id, found);
        let new = found == next;
        let record = new.then_some(StackRecord { id: found, frames, truncated: stack.truncated });
        (found, record)
    }

    fn named(&mut self, stack: &RawStack, images: &Images) -> Vec<Frame> {
        let frames: Vec<_> = stack.frames.iter().map(|frame| self.frame(*frame, images)).collect();
        let kernel = frames.iter().take_while(|frame| frame.module == KERNEL);
        let skip = kernel::collector_frames(kernel.map(|frame| frame.function.as_str()));
        frames.into_iter().skip(skip).collect()
    }

    fn frame(&mut self, raw: RawFrame, images: &Images) -> Frame {
        if let Some(known) = self.frames.get(&raw) {
            return known.clone();
        }
        let frame = match raw {
            RawFrame::Kernel(address) => {
                let kernel = self.kernel.get_or_insert_with(read_kernel);
                Frame { function: kernel.name(address), module: KERNEL.to_owned() }
            }
            RawFrame::Anonymous(offset) => {
                Frame { function: format!("{ANONYMOUS}+{offset:#x}"), module: ANONYMOUS.to_owned() }
            }
            RawFrame::User(id, address) => match images.get(id) {
                Some(image) => user_frame(image, self.table(image), address),
                None => Frame { function: format!("?+{address:#x}"), module: "?".to_owned() },
            },
        };
        self.frames.insert(raw, frame.clone());
        frame
    }

    fn table(&mut self, image: &Image) -> &SymbolTable {
        self.tables.entry(image.id).or_insert_with(|| image.symbols())
    }

    /// `module:variable` for an address of data in `image`, with `+0xN` within the variable.
    pub(crate) fn variable(&mut self, image: &Image, address: u64) -> Option<String> {
        let (name, begin) = self.table(image).variable(address)?;
        let name = readable(name);
        let module = printable(&image.name);
        Some(match address - begin {
            0 => format!("{module}:{name}"),
            inside => format!("{module}:{name}+{inside:#x}"),
        })
    }
}

fn read_kernel() -> KernelSymbols {
    let file = File::open("/proc/kallsyms");
    file.and_then(|file| KernelSymbols::read(BufReader::new(file))).unwrap_or_default()
}

fn user_frame(image: &Image, table: &SymbolTable, address: u64) -> Frame {
    let module = printable(&image.name);
    let start = || image.frames.as_ref().and_then(|frames| frames.function_start(address));
    Frame { function: function_name(&module, table.function(address), start, address), module }
}

/// The symbol if there is one; else where the function begins, so that one function is one name;
/// else the address itself.
fn function_name(
    module: &str,
    symbol: Option<&str>,
    start: impl FnOnce() -> Option<u64>,
    address: u64,
) -> String {
    match symbol {
        Some(symbol) => readable(symbol),
        None => format!("{module}+{:#x}", start().unwrap_or(address)),
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_symbol_is_named_by_its_start() {
        assert_eq!(function_name("m", Some("f"), || Some(16), 20), "f");
        assert_eq!(function_name("m", None, || Some(16), 20), "m+0x10");
        assert_eq!(function_name("m", None, || None, 20), "m+0x14");
    }

    #[test]
    fn equal_stacks_share_a_number_and_cut_ones_do_not() {
        let mut stacks = RawStacks::default();
        let frames = [RawFrame::Kernel(1), RawFrame::User(0, 2)];
        let first = stacks.intern(&frames, false);
        assert_eq!(stacks.intern(&frames[..1], false), 1);
        assert_eq!(stacks.intern(&frames, false), first);
        assert_ne!(stacks.intern(&frames, true), first);
        assert_eq!(stacks.get(first).map(|stack| &*stack.frames), Some(&frames[..]));
    }

    #[test]
    fn stacks_that_read_alike_are_one_over_all_windows() {
        let (mut names, images) = (Names::default(), Images::default());
        let stack = |frame| RawStack { frames: [frame].into(), truncated: false };
        let one = stack(RawFrame::Anonymous(16));
        let (first, record) = names.resolve(0, &one, &images);
        assert_eq!(first, StackId(0));
        assert_eq!(record.expect("it is new").frames[0].function, "[anonymous]+0x10");
        assert_eq!(names.resolve(0, &one, &images), (first, None));
        assert_eq!(names.resolve(1, &one, &images), (first, None));
        let (second, record) = names.resolve(2, &stack(RawFrame::Anonymous(17)), &images);
        assert_eq!((second, record.is_some()), (StackId(1), true));
    }
}

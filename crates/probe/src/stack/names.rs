//! From numbers to named stacks: each distinct address is looked up once in a run, and stacks
//! that read alike are one stack.

use super::code;
use super::image::{Image, hexadecimal};
use super::inlines::{Inlined, Inlines};
use super::jit::PerfMap;
use super::kernel::{self, KERNEL, KernelSymbols};
use super::maps::ANONYMOUS;
use super::process::{Anonymous, Images, RawFrame};
use super::symbols::{SymbolTable, readable};
use kneepoint_vocab::{CodeKind, Frame, Module, SourceLine, StackId, StackRecord};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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

/// Callers of a function that may be what tries again what it computes.
const CALLERS: usize = 3;

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

/// What an address reads as.
#[derive(Debug)]
struct Calls {
    /// The function, and before it those that were inlined into it around the address.
    frames: Vec<Frame>,
    /// The function is a part; its caller is the rest of it.
    part: bool,
}

/// What a stack reads as: functions with their modules, whether it is cut, what its code does.
type Reading = (Vec<(String, String)>, bool, CodeKind);

/// Names of addresses, and the run's stack table.
#[derive(Default)]
pub(crate) struct Names {
    kernel: Option<KernelSymbols>,
    tables: BTreeMap<u32, SymbolTable>,
    inlines: BTreeMap<u32, Inlines>,
    calls: HashMap<RawFrame, Arc<Calls>>,
    by_raw: HashMap<RawId, StackId>,
    by_name: HashMap<Reading, StackId>,
    /// What the code does at addresses that threads were found at.
    code: HashMap<(u32, u64), CodeKind>,
    /// Whether what was called at an address is tried again where it was too late.
    retried: HashMap<(u32, u64), bool>,
    /// Source lines of functions that no record has told yet.
    sources: HashMap<(String, String), SourceLine>,
    /// Functions whose source line was looked for.
    looked_for: HashSet<(String, String)>,
    /// Images that a record has named.
    recorded: BTreeSet<u32>,
}

impl Names {
    /// The stack's number in the run's table, and its record if it was not there yet.
    pub(crate) fn resolve(
        &mut self,
        id: RawId,
        stack: &RawStack,
        images: &Images,
        maps: &BTreeMap<u32, PerfMap>,
    ) -> (StackId, Option<StackRecord>) {
        if let Some(known) = self.by_raw.get(&id) {
            return (*known, None);
        }
        let frames = self.named(stack, images, maps);
        let in_user = frames.first().is_some_and(|frame| frame.module != KERNEL);
        let code = if in_user { self.code(stack, images, maps) } else { CodeKind::Other };
        let key = frames.iter().map(|f| (f.function.clone(), f.module.clone())).collect();
        let next = StackId(u32::try_from(self.by_name.len()).unwrap_or(u32::MAX));
        let truncated = stack.truncated;
        let found = *self.by_name.entry((key, truncated, code)).or_insert(next);
        self.by_raw.insert(id, found);
        if found != next {
            return (found, None);
        }
        let modules = self.new_modules(stack, images);
        let key = |frame: &Frame| (frame.function.clone(), frame.module.clone());
        let sources = frames.iter().filter_map(|frame| self.sources.remove(&key(frame))).collect();
        (found, Some(StackRecord { id: found, frames, truncated, code, sources, modules }))
    }

    /// What the code does where the thread was in user mode.
    fn code(
        &mut self,
        stack: &RawStack,
        images: &Images,
        maps: &BTreeMap<u32, PerfMap>,
    ) -> CodeKind {
        let mut user = stack.frames.iter().filter(|raw| !matches!(raw, RawFrame::Kernel(_)));
        let (id, address) = match user.next() {
            Some(RawFrame::User(id, address)) => (id, address),
            Some(RawFrame::Anonymous(at)) => {
                return maps.get(&at.pid).map_or(CodeKind::Other, |map| map.code(at.address));
            }
            _ => return CodeKind::Other,
        };
        let (id, address) = (*id, *address);
        let own = match self.code.get(&(id, address)) {
            Some(known) => *known,
            None => {
                let around = self.around(images, id, address);
                let kind = around.map(|(bytes, start)| code::kind_of(&bytes, start, address));
                *self.code.entry((id, address)).or_insert(kind.unwrap_or_default())
            }
        };
        let computes = matches!(own, CodeKind::Other | CodeKind::Memory);
        if computes && user.take(CALLERS).any(|raw| self.is_retried(*raw, images)) {
            return CodeKind::Retry;
        }
        own
    }

    /// Whether a function was called from there for a change that is tried again.
    fn is_retried(&mut self, raw: RawFrame, images: &Images) -> bool {
        let RawFrame::User(id, address) = raw else { return false };
        if let Some(known) = self.retried.get(&(id, address)) {
            return *known;
        }
        let around = self.around(images, id, address);
        let retried = around.is_some_and(|(bytes, start)| code::is_retried(&bytes, start, address));
        self.retried.insert((id, address), retried);
        retried
    }

    /// The code of the function around an address, as far as it matters, and where it begins: by
    /// the unwind tables, and where it has none, as Go's, by the symbols.
    fn around(&mut self, images: &Images, id: u32, address: u64) -> Option<(Vec<u8>, u64)> {
        let image = images.get(id)?;
        let by_tables = image.frames.as_ref().and_then(|frames| frames.function_start(address));
        let start = by_tables.or_else(|| self.table(image).begin(address))?;
        let begin = address.checked_sub(start).filter(|before| *before <= code::BEFORE)?;
        let length = begin.checked_add(code::BEHIND)?;
        Some((image.code(start..start.checked_add(length)?)?, start))
    }

    /// Modules of the stack that no record has named yet, as far as they have a build id.
    fn new_modules(&mut self, stack: &RawStack, images: &Images) -> Vec<Module> {
        let mut modules = Vec::new();
        for frame in &stack.frames {
            let RawFrame::User(id, _) = frame else { continue };
            let Some(image) = images.get(*id) else { continue };
            if let Some(build_id) = &image.build_id
                && self.recorded.insert(*id)
            {
                let build_id = hexadecimal(build_id);
                modules.push(Module { name: image.name.clone(), build_id });
            }
        }
        modules
    }

    fn named(
        &mut self,
        stack: &RawStack,
        images: &Images,
        maps: &BTreeMap<u32, PerfMap>,
    ) -> Vec<Frame> {
        let calls: Vec<_> = stack.frames.iter().map(|raw| self.calls(*raw, images, maps)).collect();
        let frames = joined(&calls);
        let kernel = frames.iter().take_while(|frame| frame.module == KERNEL);
        let skip = kernel::collector_frames(kernel.map(|frame| frame.function.as_str()));
        frames.into_iter().skip(skip).collect()
    }

    fn calls(
        &mut self,
        raw: RawFrame,
        images: &Images,
        maps: &BTreeMap<u32, PerfMap>,
    ) -> Arc<Calls> {
        if let Some(known) = self.calls.get(&raw) {
            return Arc::clone(known);
        }
        let one = |function, module: &str| Calls {
            frames: vec![Frame { function, module: module.to_owned() }],
            part: false,
        };
        let calls = match raw {
            RawFrame::Kernel(address) => {
                let kernel = self.kernel.get_or_insert_with(read_kernel);
                one(kernel.name(address), KERNEL)
            }
            RawFrame::Anonymous(Anonymous { pid, address, offset }) => {
                let compiled = maps.get(&pid).and_then(|map| map.name(address));
                let unnamed = || format!("{ANONYMOUS}+{offset:#x}");
                one(compiled.map_or_else(unnamed, str::to_owned), ANONYMOUS)
            }
            RawFrame::User(id, address) => match images.get(id) {
                Some(image) => self.user_calls(image, address),
                None => one(format!("?+{address:#x}"), "?"),
            },
        };
        let calls = Arc::new(calls);
        self.calls.insert(raw, Arc::clone(&calls));
        calls
    }

    fn user_calls(&mut self, image: &Image, address: u64) -> Calls {
        let table = self.tables.entry(image.id).or_insert_with(|| image.symbols());
        let inlines = self.inlines.entry(image.id).or_insert_with(|| image.inlines());
        let module = printable(&image.name);
        let start = || image.frames.as_ref().and_then(|frames| frames.function_start(address));
        let outer = function_name(&module, table.function(address), start, address);
        let chain = inlines.chain(address).unwrap_or_default();
        let inlined = proven_inlines(&chain, table, address);
        let part = table.in_part(address);
        let begin = table.begin(address).or_else(start).unwrap_or(address);
        let mut lines: Vec<_> = inlined.iter().map(|one| one.line.clone()).collect();
        let functions = inlined.iter().map(Inlined::readable).chain([outer]);
        let frames: Vec<Frame> =
            functions.map(|function| Frame { function, module: module.clone() }).collect();
        lines.push(inlines.line(begin));
        for (frame, line) in frames.iter().zip(lines) {
            self.learn(frame, line);
        }
        Calls { frames, part }
    }

    /// Notes the source line of a function that was not looked for before.
    fn learn(&mut self, frame: &Frame, line: Option<(String, u32)>) {
        let key = (frame.function.clone(), frame.module.clone());
        if self.looked_for.insert(key.clone())
            && let Some((file, line)) = line
        {
            let (function, module) = key.clone();
            self.sources.insert(key, SourceLine { function, module, file, line });
        }
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
    let file = kneepoint_machine::proc::open("kallsyms");
    file.and_then(|file| KernelSymbols::read(BufReader::new(file))).unwrap_or_default()
}

/// The frames of a stack, a part of a function and the rest that calls it as one.
fn joined(stack: &[Arc<Calls>]) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut part = false;
    for calls in stack {
        let rest_of_last = part && frames.last() == calls.frames.first();
        frames.extend_from_slice(&calls.frames[usize::from(rest_of_last)..]);
        part = calls.part;
    }
    frames
}

/// The inlined functions of a chain. None where the symbol table has another name than the debug
/// information for the function that has the code: then these are not about the same code.
fn proven_inlines<'a>(chain: &'a [Inlined], table: &SymbolTable, address: u64) -> &'a [Inlined] {
    match chain.split_last() {
        Some((outer, inlined)) if table.bears(address, &outer.name) => inlined,
        _ => &[],
    }
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
    use super::super::symbols::{Kind, Symbol};
    use super::*;

    #[test]
    fn a_function_without_symbol_is_named_by_its_start() {
        assert_eq!(function_name("m", Some("f"), || Some(16), 20), "f");
        assert_eq!(function_name("m", None, || Some(16), 20), "m+0x10");
        assert_eq!(function_name("m", None, || None, 20), "m+0x14");
    }

    #[test]
    fn a_chain_counts_only_where_the_symbols_agree() {
        let symbol = |address, name: &str| Symbol {
            address,
            size: 10,
            kind: Kind::Function,
            local: true,
            name: name.into(),
        };
        let table = SymbolTable::new(vec![symbol(100, "outer.part.0"), symbol(110, "other")]);
        let chain = ["inner", "outer"].map(|name| Inlined { name: name.to_owned(), line: None });
        assert_eq!(proven_inlines(&chain, &table, 105), &chain[..1]);
        assert_eq!(proven_inlines(&chain, &table, 115), []);
        assert_eq!(proven_inlines(&chain, &table, 125), []);
        assert_eq!(proven_inlines(&chain[1..], &table, 105), []);
        assert_eq!(proven_inlines(&[], &table, 105), []);
    }

    #[test]
    fn a_part_and_its_rest_are_one_call_and_recursion_is_two() {
        let calls = |functions: &[&str], part| {
            let frame = |name: &&str| Frame { function: (*name).into(), module: "m".into() };
            Arc::new(Calls { frames: functions.iter().map(frame).collect(), part })
        };
        let read = |stack: &[Arc<Calls>]| -> Vec<String> {
            joined(stack).into_iter().map(|frame| frame.function).collect()
        };
        let part = calls(&["lock", "enter"], true);
        assert_eq!(
            read(&[part.clone(), calls(&["enter", "run"], false)]),
            ["lock", "enter", "run"]
        );
        assert_eq!(read(&[part.clone(), calls(&["enter"], false)]), ["lock", "enter"]);
        assert_eq!(read(&[part, calls(&["run"], false)]), ["lock", "enter", "run"]);
        let whole = calls(&["walk"], false);
        assert_eq!(read(&[whole.clone(), whole]), ["walk", "walk"]);
        let recursive = calls(&["walk", "walk"], true);
        assert_eq!(read(&[recursive, calls(&["walk", "run"], false)]), ["walk", "walk", "run"]);
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
        let maps = BTreeMap::new();
        let stack = |offset| {
            let frame = RawFrame::Anonymous(Anonymous { pid: 1, address: 4096 + offset, offset });
            RawStack { frames: [frame].into(), truncated: false }
        };
        let one = stack(16);
        let (first, record) = names.resolve(0, &one, &images, &maps);
        assert_eq!(first, StackId(0));
        assert_eq!(record.expect("it is new").frames[0].function, "[anonymous]+0x10");
        assert_eq!(names.resolve(0, &one, &images, &maps), (first, None));
        assert_eq!(names.resolve(1, &one, &images, &maps), (first, None));
        let (second, record) = names.resolve(2, &stack(17), &images, &maps);
        assert_eq!((second, record.is_some()), (StackId(1), true));
    }
}

//! Which symbol an address belongs to: only one whose own extent holds the address.
//!
//! The nearest symbol before an address is often that of another function, because stripped
//! files keep exported symbols alone. So a symbol without a size is no evidence at all.

use std::ops::Range;

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code.
    Function,
    /// Data.
    Variable,
}

/// One symbol of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// First address.
    pub(crate) address: u64,
    /// Bytes; more than 0.
    pub(crate) size: u64,
    /// Code or data.
    pub(crate) kind: Kind,
    /// Visible within its own object file only.
    pub(crate) local: bool,
    /// Name as the file has it.
    pub(crate) name: Box<str>,
}

impl Symbol {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Name of the function in its source. Compilers cut functions in parts and make copies for
    /// known arguments, as local symbols `name.part.0`, `name.cold` and the like; these are the
    /// same function of the source, and reading them alike makes them one node.
    pub(crate) fn source_name(&self) -> &str {
        if self.local { without_clone(&self.name) } else { &self.name }
    }

    /// Least for the alias that people know: `poll` before `__poll` before `__GI___poll`.
    fn rank(&self) -> (usize, bool, usize, &str) {
        let underscores = self.name.bytes().take_while(|byte| *byte == b'_').count();
        let mangled = self.name.starts_with("_Z") || self.name.starts_with("_R");
        let hidden = if mangled { 0 } else { underscores };
        (hidden, self.local, self.name.len(), &self.name)
    }
}

/// The symbols of one image, in order.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    functions: Extents,
    variables: Extents,
}

impl SymbolTable {
    /// Takes symbols in any order, duplicates included; those of size 0 are left out.
    pub(crate) fn new(symbols: Vec<Symbol>) -> Self {
        let sized = symbols.into_iter().filter(|symbol| symbol.size > 0);
        let (functions, variables): (Vec<_>, Vec<_>) =
            sized.partition(|symbol| symbol.kind == Kind::Function);
        Self { functions: Extents::new(functions), variables: Extents::new(variables) }
    }

    /// The function whose extent holds `address`, by its name in the source.
    pub(crate) fn function(&self, address: u64) -> Option<&str> {
        self.functions.find(address).map(Symbol::source_name)
    }

    /// Where the function begins whose extent holds `address`.
    pub(crate) fn begin(&self, address: u64) -> Option<u64> {
        self.functions.find(address).map(|symbol| symbol.address)
    }

    /// Whether `address` lies in a part that the compiler cut off a function. The rest of the
    /// function, wherever it was inlined, calls the part: two frames of one call in the source.
    pub(crate) fn in_part(&self, address: u64) -> bool {
        let found = self.functions.find(address);
        found.is_some_and(|symbol| symbol.local && symbol.name.contains(".part."))
    }

    /// Whether the function that holds `address` bears this name of the source, be it as an alias.
    pub(crate) fn bears(&self, address: u64, name: &str) -> bool {
        self.functions.find(address).is_some_and(|found| {
            let aliases = self.functions.holding(address).filter(|s| s.address == found.address);
            aliases.map(Symbol::source_name).any(|alias| alias == name || is_plainly(alias, name))
        })
    }

    /// The variable whose extent holds `address`, and its first address.
    pub(crate) fn variable(&self, address: u64) -> Option<(&str, u64)> {
        self.variables.find(address).map(|symbol| (&*symbol.name, symbol.address))
    }
}

/// Whether `symbol` reads as a function called `name` of some type or space: of functions of types
/// without linkage, such as what runs a closure in a thread, GCC notes no more than that.
fn is_plainly(symbol: &str, name: &str) -> bool {
    if !symbol.starts_with("_Z") || name.starts_with("_Z") {
        return false;
    }
    let read = readable(symbol);
    let own = &read[own_name(&read)..];
    own.split_once("[abi:").map_or(own, |(before, _)| before) == name
}

/// Where a function's own name begins, behind the spaces and types it is in: `::` within
/// parentheses and template arguments belongs to these.
fn own_name(read: &str) -> usize {
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, character) in read.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ':' if depth == 0 => begin = at + 1,
            _ => {}
        }
    }
    begin
}

/// Symbols by address; aliases of one address with the best known last.
#[derive(Debug, Default)]
struct Extents {
    symbols: Vec<Symbol>,
    /// Greatest end of the symbols up to each index: bounds the walk back over nested ones.
    reach: Vec<u64>,
}

impl Extents {
    fn new(mut symbols: Vec<Symbol>) -> Self {
        symbols.sort_by_key(|symbol| symbol.address);
        for aliases in symbols.chunk_by_mut(|a, b| a.address == b.address) {
            aliases.sort_by(|a, b| b.rank().cmp(&a.rank()));
        }
        let reach = symbols
            .iter()
            .scan(0, |furthest, symbol| {
                *furthest = symbol.end().max(*furthest);
                Some(*furthest)
            })
            .collect();
        Self { symbols, reach }
    }

    fn find(&self, address: u64) -> Option<&Symbol> {
        self.holding(address).next()
    }

    /// Those whose extent holds `address`, the one that begins last and is known best first.
    fn holding(&self, address: u64) -> impl Iterator<Item = &Symbol> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        (0..after)
            .rev()
            .take_while(move |index| self.reach[*index] > address)
            .map(|index| &self.symbols[index])
            .filter(move |symbol| extent(symbol).contains(&address))
    }
}

fn extent(symbol: &Symbol) -> Range<u64> {
    symbol.address..symbol.end()
}

/// A symbol's name without the endings that GCC and clang give to parts and copies of functions.
fn without_clone(name: &str) -> &str {
    const NUMBERED: [&str; 5] = [".cold", ".part", ".constprop", ".isra", ".lto_priv"];
    let parted = match name.rsplit_once('.') {
        Some((before, digits)) if is_number(digits) => {
            NUMBERED.iter().find_map(|ending| before.strip_suffix(ending))
        }
        _ => name.strip_suffix(".cold"),
    };
    parted.filter(|rest| !rest.is_empty()).map_or(name, without_clone)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What `std::string` is short for.
const STRING: &str =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

/// A name as people say it: C++ and Rust demangled, without types of arguments and results, which
/// can be pages long, without Rust's hash, without control characters.
pub(crate) fn readable(name: &str) -> String {
    written(name, cpp_demangle::DemangleOptions::new().no_params().no_return_type())
}

/// The same with the types of arguments and results, which tell functions of one name apart.
pub(crate) fn signature(name: &str) -> String {
    written(name, cpp_demangle::DemangleOptions::new())
}

fn written(name: &str, options: cpp_demangle::DemangleOptions) -> String {
    let cpp = || {
        name.starts_with("_Z").then_some(())?;
        cpp_demangle::Symbol::new(name).ok()?.demangle_with_options(&options).ok()
    };
    let plain = match rustc_demangle::try_demangle(name) {
        Ok(rust) => format!("{rust:#}"),
        Err(_) => cpp().unwrap_or_else(|| name.to_owned()),
    };
    let plain = plain.replace(STRING, "std::string");
    plain.chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn function(address: u64, size: u64, name: &str) -> Symbol {
        Symbol { address, size, kind: Kind::Function, local: false, name: name.into() }
    }

    #[test]
    fn a_closure_s_thread_bears_the_name_that_its_debug_information_has() {
        let run = "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZ4mainEUlvE_EEEEE6_M_runEv";
        let table = SymbolTable::new(vec![function(100, 10, run), function(200, 10, "_M_run")]);
        assert!(table.bears(105, run) && table.bears(105, "_M_run"));
        assert!(!table.bears(105, "_M_ru") && !table.bears(105, "main"));
        assert!(table.bears(205, "_M_run") && !table.bears(205, run));
    }

    #[test]
    fn a_function_of_a_space_without_a_name_bears_its_own() {
        let serve = "_ZN12_GLOBAL__N_15serveERNS_4HeapERKN3net6SocketE";
        let read = "_Z4readIN12_GLOBAL__N_16SocketEET_v";
        let table = SymbolTable::new(vec![function(100, 10, serve), function(200, 10, read)]);
        assert!(table.bears(105, "serve") && !table.bears(105, "Socket"));
        assert_eq!(table.function(105).map(readable).unwrap(), "(anonymous namespace)::serve");
        assert!(table.bears(205, "read<(anonymous namespace)::Socket>"));
    }

    #[test]
    fn an_address_after_the_end_has_no_name() {
        let table =
            SymbolTable::new(vec![function(100, 10, "exported"), function(200, 0, "label")]);
        assert_eq!(table.function(99), None);
        assert_eq!(table.function(100), Some("exported"));
        assert_eq!(table.function(109), Some("exported"));
        assert_eq!(table.function(110), None);
        assert_eq!(table.function(200), None);
    }

    #[test]
    fn the_known_alias_wins() {
        let mut inner = function(100, 10, "GI_poll");
        inner.local = true;
        let names = ["__poll", "poll", "__GI___poll"].map(|name| function(100, 10, name));
        let mut symbols = names.to_vec();
        symbols.push(inner);
        assert_eq!(SymbolTable::new(symbols).function(104), Some("poll"));
    }

    #[test]
    fn a_nested_symbol_hides_its_surroundings_only_within_itself() {
        let table = SymbolTable::new(vec![function(100, 100, "outer"), function(120, 5, "inner")]);
        assert_eq!(table.function(122), Some("inner"));
        assert_eq!(table.function(130), Some("outer"));
    }

    #[test]
    fn data_is_no_function() {
        let mut lock = function(100, 40, "LOCK_open");
        lock.kind = Kind::Variable;
        let table = SymbolTable::new(vec![lock]);
        assert_eq!(table.function(104), None);
        assert_eq!(table.variable(104), Some(("LOCK_open", 100)));
    }

    #[test]
    fn parts_and_copies_bear_the_name_of_their_source() {
        let clone = |address, name: &str, local| Symbol { local, ..function(address, 10, name) };
        let table = SymbolTable::new(vec![
            clone(100, "lock.part.0", true),
            clone(110, "lock.constprop.0.isra.3.cold", true),
            clone(120, "_ZL4findi.lto_priv.1", true),
            clone(130, "main.cold", false),
            clone(140, "lock.v2", true),
            clone(150, ".cold", true),
        ]);
        let expected = ["lock", "lock", "_ZL4findi", "main.cold", "lock.v2", ".cold"];
        for (index, name) in expected.into_iter().enumerate() {
            let address = 105 + 10 * index as u64;
            assert_eq!(table.function(address), Some(name));
            assert!(table.bears(address, name));
        }
        assert!(!table.bears(105, "lock.part.0"));
        assert!(table.in_part(105) && !table.in_part(115) && !table.in_part(99));
    }

    #[test]
    fn a_function_bears_its_aliases_but_not_its_surroundings() {
        let names = ["__poll", "poll"].map(|name| function(120, 10, name));
        let mut symbols = names.to_vec();
        symbols.push(function(100, 100, "outer"));
        let table = SymbolTable::new(symbols);
        assert!(table.bears(125, "poll") && table.bears(125, "__poll"));
        assert!(!table.bears(125, "outer") && table.bears(150, "outer"));
        assert!(!table.bears(99, "outer") && !table.bears(250, "poll"));
    }

    #[test]
    fn names_are_demangled() {
        assert_eq!(
            readable("_ZN3std2io5Write9write_all17h0123456789abcdefE"),
            "std::io::Write::write_all"
        );
        assert_eq!(readable("_Z10do_commandP3THDb"), "do_command");
        let string = "_ZN3Log6appendERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
        assert_eq!(readable(string), "Log::append");
        assert_eq!(signature(string), "Log::append(std::string const&)");
        assert_eq!(readable("pthread_mutex_lock"), "pthread_mutex_lock");
        assert_eq!(readable("od\u{1b}[31md\n"), "od[31md");
    }

    proptest! {
        #[test]
        fn a_name_is_given_only_within_an_extent_that_bears_it(
            extents in prop::collection::vec((0_u64..500, 0_u64..50), 0..40), address in 0_u64..600
        ) {
            let symbols: Vec<_> = extents
                .iter()
                .enumerate()
                .map(|(index, (begin, size))| function(*begin, *size, &format!("f{index}")))
                .collect();
            let holding: Vec<_> = symbols
                .iter()
                .filter(|symbol| extent(symbol).contains(&address))
                .map(|symbol| symbol.name.clone())
                .collect();
            let table = SymbolTable::new(symbols);
            match table.function(address) {
                Some(name) => prop_assert!(holding.iter().any(|other| **other == *name)),
                None => prop_assert!(holding.is_empty()),
            }
        }
    }
}

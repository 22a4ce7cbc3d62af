//! Which symbols a name means that somebody typed: as the file has it, or as people read it, with
//! or without its arguments and the spaces that it is in.

use crate::stack::symbols::{Symbol, signature};
use std::collections::{BTreeMap, BTreeSet};

/// Names that are proposed, and those that are told apart.
const MOST: usize = 5;
/// More mangled names than this are not all read when one is looked for that is like another: only
/// those that hold so many of its first letters.
const MOST_READ: usize = 20_000;
const BEGIN: usize = 4;

/// Why a name means no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfound {
    /// It means several.
    Several(Vec<String>),
    /// It means none; these are like it.
    None(Vec<String>),
}

/// A symbol at which calls begin.
struct Entry<'a> {
    symbol: &'a Symbol,
    /// Its name without what a compiler adds to copies for known arguments.
    name: &'a str,
}

impl Entry<'_> {
    /// Whether it is a copy that the compiler made.
    fn is_copy(&self) -> bool {
        self.name.len() < self.symbol.name.len()
    }
}

/// Addresses at which calls of the function begin: its own, and those of its copies.
pub(super) fn find(functions: &[Symbol], wanted: &str) -> Result<Vec<u64>, Unfound> {
    let literal: BTreeSet<u64> = functions
        .iter()
        .filter(|symbol| wanted.contains('.') && &*symbol.name == wanted)
        .map(|symbol| symbol.address)
        .collect();
    if !literal.is_empty() {
        return Ok(literal.into_iter().collect());
    }
    let entries: Vec<Entry<'_>> = functions.iter().filter_map(entry).collect();
    let same: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.name == wanted).collect();
    if !same.is_empty() {
        return addresses(&same);
    }
    let ident = identifier(wanted);
    let may = |entry: &&Entry<'_>| ident.is_empty() || entry.name.contains(ident);
    let read: Vec<(String, &Entry<'_>)> =
        entries.iter().filter(may).map(|entry| (signature(entry.name), entry)).collect();
    let compact = without_spaces(wanted);
    let rules: [&dyn Fn(&str) -> bool; 3] = [
        &|name: &str| without_spaces(name) == compact,
        &|name: &str| [plain(name), untyped(plain(name))].contains(&wanted),
        &|name: &str| [plain(name), untyped(plain(name))].iter().any(|name| ends(name, wanted)),
    ];
    for rule in rules {
        let mut found: BTreeMap<&str, Vec<&Entry<'_>>> = BTreeMap::new();
        for (name, entry) in read.iter().filter(|(name, _)| rule(name)) {
            found.entry(name).or_default().push(entry);
        }
        let mut names = found.keys();
        if let (Some(_), Some(_)) = (names.next(), names.next()) {
            return Err(Unfound::Several(some(found.keys().map(|name| (*name).to_owned()))));
        }
        if let Some(all) = found.into_values().next() {
            return addresses(&all);
        }
    }
    Err(Unfound::None(near(&entries, ident)))
}

/// The addresses of one function, unless two functions bear the name, each in a file of its own.
fn addresses(entries: &[&Entry<'_>]) -> Result<Vec<u64>, Unfound> {
    let mut own: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_copy()) {
        own.entry(entry.name).or_default().insert(entry.symbol.address);
    }
    if let Some((name, all)) = own.iter().find(|(_, all)| all.len() > 1) {
        let at = |address: &u64| format!("{} at {address:#x}", signature(name));
        return Err(Unfound::Several(some(all.iter().map(at))));
    }
    let all: BTreeSet<u64> = entries.iter().map(|entry| entry.symbol.address).collect();
    Ok(all.into_iter().collect())
}

fn some(names: impl Iterator<Item = String>) -> Vec<String> {
    names.take(MOST).collect()
}

/// None for a part that the compiler has cut off: nobody calls that who has not begun the function.
fn entry(symbol: &Symbol) -> Option<Entry<'_>> {
    let parts = [".part.", ".cold"];
    let is_part = symbol.local && parts.iter().any(|part| symbol.name.contains(part));
    (!is_part).then(|| Entry { symbol, name: symbol.source_name() })
}

fn without_spaces(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Begins of names that hold a bracket which opens no arguments.
const BRACKETS: [&str; 2] = ["(anonymous namespace)", "operator()"];

/// A name without arguments and without the type of what it returns.
fn plain(name: &str) -> &str {
    let (mut depth, mut begin, mut skip) = (0_usize, 0, 0);
    for (at, c) in name.char_indices() {
        let bracket = BRACKETS.iter().find(|bracket| name[at..].starts_with(**bracket));
        if let Some(bracket) = bracket.filter(|_| at >= skip) {
            skip = at + bracket.len();
        }
        match c {
            _ if at < skip => {}
            '(' if depth == 0 => return &name[begin..at],
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => begin = at + 1,
            _ => {}
        }
    }
    &name[begin..]
}

/// A name without the types that its template was made for.
fn untyped(name: &str) -> &str {
    let mut depth = 0_usize;
    if !name.ends_with('>') {
        return name;
    }
    for (at, c) in name.char_indices().rev() {
        match c {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &name[..at];
        }
    }
    name
}

/// Whether a name is `wanted` in some space.
fn ends(name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.ends_with("::"))
}

/// The last word of a name, which its mangled form has too; empty where it is an operator.
fn identifier(wanted: &str) -> &str {
    let name = untyped(plain(wanted));
    let last = name.rsplit("::").next().unwrap_or(name);
    let is_word = last.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_word && !last.starts_with("operator") { last } else { "" }
}

/// Functions whose last word is like this one, the most alike first.
fn near(entries: &[Entry<'_>], ident: &str) -> Vec<String> {
    if ident.is_empty() {
        return Vec::new();
    }
    let wanted = ident.to_lowercase();
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    let begin: String = wanted.chars().take(BEGIN).collect();
    let is_mangled = |name: &str| name.starts_with("_Z") || name.starts_with("_R");
    let mut found: BTreeSet<(usize, String)> = BTreeSet::new();
    for entry in entries {
        let few = entries.len() <= MOST_READ || !is_mangled(entry.name);
        if !few && !entry.name.to_lowercase().contains(&begin) {
            continue;
        }
        let name = signature(entry.name);
        let name = untyped(plain(&name));
        let last = name.rsplit("::").next().unwrap_or(name).to_lowercase();
        let away = match last.contains(&wanted) {
            true => Some(1 + (last.len() - wanted.len()) / 8),
            false => distance(&last, &wanted, allowed),
        };
        if let Some(away) = away {
            found.insert((away, name.to_owned()));
            if found.len() > MOST {
                found.pop_last();
            }
        }
    }
    found.into_iter().map(|(_, name)| name).collect()
}

/// How many letters have to be put in, taken out or changed; none where it is more than `most`.
fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, c) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, d) in other.iter().enumerate() {
            let changed = corner + usize::from(c != *d);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().filter(|away| *away <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::symbols::Kind;
    use proptest::prelude::*;

    fn symbol(address: u64, name: &str, local: bool) -> Symbol {
        Symbol { address, size: 8, kind: Kind::Function, local, name: name.into() }
    }

    fn of(names: &[(u64, &str)]) -> Vec<Symbol> {
        names.iter().map(|(address, name)| symbol(*address, name, name.contains('.'))).collect()
    }

    const DISPATCH: &str = "_Z16dispatch_commandP3THDPK8COM_DATA19enum_server_command";

    #[test]
    fn a_function_is_found_by_any_of_its_names() {
        let all = of(&[
            (16, DISPATCH),
            (32, "_ZN4shop5order4makeIiEEvT_"),
            (48, "plain"),
            (64, "_ZN12_GLOBAL__N_16hiddenEv"),
        ]);
        for (wanted, address) in [
            (DISPATCH, 16),
            ("dispatch_command", 16),
            ("dispatch_command(THD*,COM_DATA const*,enum_server_command)", 16),
            ("make", 32),
            ("order::make", 32),
            ("shop::order::make", 32),
            ("shop::order::make<int>", 32),
            ("plain", 48),
            ("hidden", 64),
            ("(anonymous namespace)::hidden", 64),
        ] {
            assert_eq!(find(&all, wanted), Ok(vec![address]), "{wanted}");
        }
    }

    #[test]
    fn copies_count_with_their_function_and_parts_do_not() {
        let all = of(&[
            (16, "work"),
            (32, "work.constprop.0"),
            (48, "work.part.0"),
            (64, "work.cold"),
            (80, "only.isra.0"),
        ]);
        assert_eq!(find(&all, "work"), Ok(vec![16, 32]));
        assert_eq!(find(&all, "work.constprop.0"), Ok(vec![32]));
        assert_eq!(find(&all, "only"), Ok(vec![80]));
        // An alias is the same function.
        assert_eq!(find(&of(&[(16, "a"), (16, "a")]), "a"), Ok(vec![16]));
    }

    #[test]
    fn several_functions_of_one_name_are_distinguished() {
        let all = of(&[(16, "_ZN1a3runEv"), (32, "_ZN1b3runEv"), (48, "tick"), (64, "tick")]);
        let several = |names: &[&str]| {
            Err(Unfound::Several(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(find(&all, "run"), several(&["a::run()", "b::run()"]));
        assert_eq!(find(&all, "b::run"), Ok(vec![32]));
        assert_eq!(find(&all, "tick"), several(&["tick at 0x30", "tick at 0x40"]));
        // Two entries of one constructor are one function.
        let whole = of(&[(16, "_ZN1aC1Ev"), (32, "_ZN1aC2Ev")]);
        assert_eq!(find(&whole, "a::a"), Ok(vec![16, 32]));
    }

    #[test]
    fn names_that_are_like_it_are_proposed() {
        let all = of(&[(16, DISPATCH), (32, "dispatch_comand"), (48, "other"), (64, "do_command")]);
        let Err(Unfound::None(near)) = find(&all, "dispatch_commands") else { panic!() };
        assert_eq!(near, ["dispatch_command", "dispatch_comand"]);
        let Err(Unfound::None(near)) = find(&all, "COMMAND") else { panic!() };
        assert_eq!(near, ["do_command", "dispatch_command"]);
        assert_eq!(find(&all, "nothing_of_that"), Err(Unfound::None(Vec::new())));
        assert_eq!(find(&[], "x"), Err(Unfound::None(Vec::new())));
    }

    #[test]
    fn names_lose_arguments_and_types() {
        for (name, wanted) in [
            ("f", "f"),
            ("a::f(int, char)", "a::f"),
            ("void a::f<int>(int)", "a::f<int>"),
            ("a::operator()(int) const", "a::operator()"),
            ("std::map<int, int (*)(int)>::at(int)", "std::map<int, int (*)(int)>::at"),
        ] {
            assert_eq!(plain(name), wanted);
        }
        assert_eq!((untyped("a<b<c>>"), untyped("a")), ("a", "a"));
        assert_eq!((identifier("a::b<int>(c)"), identifier("a::operator+")), ("b", ""));
    }

    proptest! {
        #[test]
        fn no_names_make_it_panic(name in "\\PC{0,30}", wanted in "\\PC{0,20}") {
            let _ = find(&of(&[(16, &name), (32, "_Z1fv")]), &wanted);
        }
    }
}

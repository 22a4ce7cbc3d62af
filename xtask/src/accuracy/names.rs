//! Names that a build draws for the functions and objects of a specimen, and the way back.

use kneepoint_stats::random::Generator;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// How a source names what it defines.
const MACRO: &str = "NAME(";
const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
const VOWELS: &[u8] = b"aeiou";
/// Short words of so many syllables are no function of the C library.
const SYLLABLES: usize = 4;

/// What a build is called inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Names {
    /// The program's file.
    pub(super) module: String,
    /// Roles by the names drawn for them.
    pub(super) drawn: BTreeMap<String, String>,
    /// Addresses where functions and objects of the program begin, ascending.
    pub(super) symbols: Vec<(u64, String)>,
}

/// Roles that a source names.
pub(super) fn roles(source: &str) -> BTreeSet<String> {
    let named = source.split(MACRO).skip(1).filter_map(|rest| rest.split_once(')'));
    named.map(|(role, _)| role.to_owned()).filter(|role| role != "role").collect()
}

/// A word that means nothing.
pub(super) fn word(generator: &mut Generator) -> String {
    let mut word = String::new();
    for _ in 0..SYLLABLES {
        for letters in [CONSONANTS, VOWELS] {
            word.push(char::from(letters[generator.below(letters.len())]));
        }
    }
    word
}

impl Names {
    /// Draws the program's name and one for each role.
    pub(super) fn draw(roles: &BTreeSet<String>, generator: &mut Generator) -> Self {
        let mut taken = BTreeSet::new();
        let mut fresh = || loop {
            let word = word(generator);
            if taken.insert(word.clone()) {
                return word;
            }
        };
        let module = fresh();
        let drawn = roles.iter().map(|role| (fresh(), role.clone())).collect();
        Self { module, drawn, symbols: Vec::new() }
    }

    /// The header that gives each role its name.
    pub(super) fn header(&self) -> String {
        self.drawn.iter().fold(String::new(), |mut text, (drawn, role)| {
            let _ = writeln!(text, "#define NAME_{role} {drawn}");
            text
        })
    }

    /// Takes the addresses of symbols from what nm(1) prints.
    pub(super) fn learn(&mut self, printed: &str) {
        let symbols = printed.lines().filter_map(|line| {
            let mut fields = line.split_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let own = fields.next().is_some_and(|kind| "tTdDbBwW".contains(kind));
            // Copies that the compiler makes have a point and a word behind the name.
            let name = fields.next()?.split('.').next()?;
            own.then(|| (address, name.to_owned()))
        });
        self.symbols = symbols.collect();
        self.symbols.sort();
    }

    /// Roles that stand in a text, by their names or by addresses of the program.
    pub(super) fn roles_in(&self, text: &str) -> BTreeSet<&str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c: char| !is_word(c));
        let mut found: BTreeSet<&str> =
            words.filter_map(|word| self.drawn.get(word)).map(String::as_str).collect();
        let place = format!("{}+0x", self.module);
        for (at, _) in text.match_indices(&place) {
            let digits: String =
                text[at + place.len()..].chars().take_while(char::is_ascii_hexdigit).collect();
            found.extend(u64::from_str_radix(&digits, 16).ok().and_then(|at| self.role_at(at)));
        }
        found
    }

    fn role_at(&self, address: u64) -> Option<&str> {
        let behind = self.symbols.partition_point(|(begin, _)| *begin <= address);
        let (_, name) = &self.symbols[behind.checked_sub(1)?];
        self.drawn.get(name).map(String::as_str)
    }

    /// A text without what was drawn: a word found in it was meant.
    pub(super) fn without(&self, text: &str) -> String {
        let all = self.drawn.keys().chain([&self.module]);
        all.fold(text.to_owned(), |text, name| text.replace(name.as_str(), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let roles = roles("static NAME(post)(x) { NAME(ledger) }\n#define NAME(role) role\n");
        assert_eq!(roles, BTreeSet::from(["post".to_owned(), "ledger".to_owned()]));
        Names::draw(&roles, &mut Generator::new(3))
    }

    fn name_of(names: &Names, role: &str) -> String {
        let found = names.drawn.iter().find(|(_, its)| *its == role);
        found.unwrap().0.clone()
    }

    #[test]
    fn names_are_drawn_apart_and_from_the_seed() {
        let many: BTreeSet<String> = (0..200).map(|number| format!("role_{number}")).collect();
        let names = Names::draw(&many, &mut Generator::new(1));
        assert_eq!(names.drawn.len(), 200);
        assert!(names.drawn.keys().all(|name| name.len() == 2 * SYLLABLES));
        assert_eq!(names.drawn, Names::draw(&many, &mut Generator::new(1)).drawn);
        assert_ne!(names.drawn, Names::draw(&many, &mut Generator::new(2)).drawn);
        assert_eq!(names.header().lines().count(), 200);
        assert!(names.header().contains("#define NAME_role_7 "));
    }

    #[test]
    fn roles_are_found_by_name_and_by_address() {
        let mut names = names();
        let (post, ledger) = (name_of(&names, "post"), name_of(&names, "ledger"));
        let printed = format!(
            "0000000000001100 T main\n0000000000001200 t {post}.lto_priv.0\n\
             0000000000001300 t other\n0000000000004000 b {ledger}\n                 U malloc\n"
        );
        names.learn(&printed);
        assert_eq!(names.symbols.len(), 4);
        let found = |text: &str| names.roles_in(text).into_iter().collect::<Vec<_>>();
        assert_eq!(found(&format!("mutex in {post} < main")), ["post"]);
        assert_eq!(found(&format!("{}:{ledger}+0x40", names.module)), ["ledger"]);
        assert_eq!(found(&format!("mutex in {}+0x12f0", names.module)), ["post"]);
        assert_eq!(found(&format!("mutex in {}+0x1100", names.module)), [""; 0]);
        assert_eq!(found("libc.so.6+0x1200"), [""; 0]);
        assert_eq!(names.without(&format!("mutex in {post}")), "mutex in ");
    }
}

//! The environment that a measured process runs in: what a recipe sets, what is kept from it, and
//! what it is found to have, without what is nobody's business.

use crate::cargo_run;
use crate::ending::MARK;
use crate::library;
use crate::need::Need;
use kneepoint_vocab::environment::changes_programs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// The setting that holds the variables which a system is started with.
pub const ENVIRONMENT: &str = "environment";
/// Libraries that are loaded before all others.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";
/// Settings of the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Folders in which libraries are looked for first.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// A variable whose name holds one of these is a secret, for all that one can tell.
const SECRET: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE"];
/// What stands in place of a secret.
pub const LEFT_OUT: &str = "(left out)";

/// Variables that a recipe sets for the programs of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads `NAME=VALUE` words, quoted as for a shell.
    ///
    /// # Errors
    /// What they must be, to be put after the setting's name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).unwrap_or_default();
        let pair = |word: &String| word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
        let pairs: Option<BTreeMap<String, String>> = words.iter().map(pair).collect();
        let named = |pairs: &BTreeMap<String, String>| {
            let good = |(name, value): (&String, &String)| {
                !name.is_empty() && !name.contains('\0') && !value.contains('\0')
            };
            !pairs.is_empty() && pairs.iter().all(good)
        };
        let mut pairs = pairs.filter(named).ok_or("is NAME=VALUE words")?;
        if let Some(preload) = pairs.get_mut(PRELOAD) {
            *preload = library::absolute(preload);
        }
        Ok(Self(pairs))
    }

    /// The variables, sorted by name.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The same for [`crate::process::Program`].
    pub(crate) fn for_program(&self) -> Vec<(OsString, OsString)> {
        self.pairs().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets one; libraries to be loaded first are added to those that are there.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let joined = match self.get(name) {
            Some(there) if name == PRELOAD => format!("{value}:{there}"),
            _ => value.to_owned(),
        };
        self.0.insert(name.to_owned(), joined);
    }

    /// Their names, parted by spaces; what a report calls what a recipe has set.
    #[must_use]
    pub fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Their names as what a system tells of itself; none where nothing is set.
    pub(crate) fn reported(&self) -> Option<(String, String)> {
        (!self.is_empty()).then(|| (ENVIRONMENT.to_owned(), self.names()))
    }

    /// The libraries that are loaded into a program because of them, as they are named, each with
    /// its file or why it is not loaded.
    pub(crate) fn libraries(
        &self,
        program: Option<&Path>,
    ) -> Vec<(&str, Result<std::path::PathBuf, String>)> {
        let folders = self.get(LIBRARIES).unwrap_or_default();
        let found = |name| (name, library::find(name, folders, program));
        library::named(self.get(PRELOAD).unwrap_or_default()).map(found).collect()
    }

    /// Those of these libraries as things that the machine must have.
    pub(crate) fn needs(&self, program: Option<&Path>) -> Vec<Need> {
        let need = |(name, found): (&str, Result<_, String>)| {
            let here = found.is_ok();
            let what = match found.err() {
                Some(why) if why != "not found" => format!("{name} ({why})"),
                _ => name.to_owned(),
            };
            Need { what, package: package(name).to_owned(), here }
        };
        self.libraries(program).into_iter().map(need).collect()
    }
}

/// The Debian package that brings a library that people like to load.
fn package(library: &str) -> &'static str {
    match library {
        "libjemalloc.so.2" => "libjemalloc2",
        "libtcmalloc_minimal.so.4" => "libtcmalloc-minimal4",
        "libmimalloc.so.3" => "libmimalloc3",
        _ => "",
    }
}

/// The setting `environment` of a variant that adds variables to those of what it changes.
/// Libraries to be loaded first stand before those that are there.
#[must_use]
pub(crate) fn added(base: Option<&String>, more: &BTreeMap<String, String>) -> String {
    // What makes no sense is kept, so that the check of the settings refuses it.
    let words = base.map(|text| shlex::split(text).unwrap_or_else(|| vec![text.clone()]));
    let replaced = |word: &String| word.split_once('=').is_some_and(|(n, _)| more.contains_key(n));
    let kept = words.iter().flatten().filter(|word| !replaced(word)).cloned();
    let there = |name: &str| {
        let mut pairs = words.iter().flatten().filter_map(|word| word.split_once('='));
        pairs.find(|(other, _)| *other == name && name == PRELOAD).map(|(_, value)| value)
    };
    let added = more.iter().map(|(name, value)| match there(name) {
        Some(before) => format!("{name}={value}:{before}"),
        None => format!("{name}={value}"),
    });
    let all: Vec<String> = kept.chain(added).collect();
    words_of(&all)
}

/// Words as one text that splits into them again.
#[must_use]
pub fn words_of(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,+@%-".contains(c);
    let quoted = |word: &String| match shlex::try_quote(word) {
        Ok(quoted) if word.is_empty() || !word.chars().all(plain) => quoted.into_owned(),
        _ => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A variable and its value for people: without the value where that may be a secret.
pub(crate) fn reported(name: &str, value: &str) -> (String, String) {
    censored(name.to_owned(), value.to_owned())
}

/// Names of the variables of the calling shell that change how a server runs, and that nobody
/// asked for.
pub(crate) fn leaking() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(changes_programs)).collect()
}

/// The environment of a process, sorted by name, without secrets; where there is no process yet
/// or it may not be looked at, what it is given: Kneepoint's own and what is `set` besides.
#[must_use]
pub fn of(process: Option<u32>, set: &Variables) -> Vec<(String, String)> {
    // A process that has written its title over them has no variables to show.
    let own = process.and_then(found).filter(|found| found.contains_key(MARK));
    let all: BTreeMap<String, String> = match own {
        Some(found) => found,
        None => cargo_run::own_variables().into_iter().chain(set.0.clone()).collect(),
    };
    all.into_iter().map(|(name, value)| censored(name, value)).collect()
}

/// The variables of a process as it was started with them.
pub(crate) fn found(process: u32) -> Option<BTreeMap<String, String>> {
    let bytes = kneepoint_machine::proc::process::environment(process).ok();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| pairs(&bytes))
}

/// The variables of a text like `/proc/PID/environ`. The C library ends each of its tunables where
/// it stands (glibc before 2.39, `parse_tunables`), so that a list of them is found in pieces.
fn pairs(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut in_tunables = false;
    for text in bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy) {
        let Some((name, value)) = text.split_once('=') else { continue };
        let tunables = all.get_mut(TUNABLES).filter(|_| in_tunables && name.starts_with("glibc."));
        match tunables {
            Some(tunables) => *tunables += &format!(":{text}"),
            None => {
                in_tunables = name == TUNABLES;
                all.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    all
}

fn censored(name: String, value: String) -> (String, String) {
    let upper = name.to_uppercase();
    // An address may hold a password: scheme://user:password@host.
    let login = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    if login || SECRET.iter().any(|word| upper.contains(word)) {
        return (name, LEFT_OUT.to_owned());
    }
    (name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_and_the_rest_is_kept() {
        let text = b"LD_PRELOAD=/x.so\0AWS_SECRET_ACCESS_KEY=1\0npm_token=2\0A=b=c\0odd\0\
            DB=mysql://me:word@host/x\0SITE=http://host/\0";
        let found: Vec<_> = pairs(text).into_iter().map(|(n, v)| censored(n, v)).collect();
        let expected = [
            ("A", "b=c"),
            ("AWS_SECRET_ACCESS_KEY", LEFT_OUT),
            ("DB", LEFT_OUT),
            ("LD_PRELOAD", "/x.so"),
            ("SITE", "http://host/"),
            ("npm_token", LEFT_OUT),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_process_is_asked_and_without_one_what_it_will_get_is_reported() {
        let own = of(Some(std::process::id()), &Variables::default());
        assert!(own.iter().any(|(name, _)| name == "PATH"), "{own:?}");
        let given = of(None, &Variables::parse("KNEEPOINT_TEST=7").unwrap());
        let set = ("KNEEPOINT_TEST".to_owned(), "7".to_owned());
        assert!(given.contains(&set) && given.len() > 1, "{given:?}");
        assert!(given.is_sorted());
    }

    #[test]
    fn variables_are_words_and_add_up() {
        let set = Variables::parse("B=x A='a b' LD_PRELOAD='liba.so /b.so'").unwrap();
        let pairs = [("A", "a b"), ("B", "x"), ("LD_PRELOAD", "liba.so:/b.so")];
        assert!(set.pairs().eq(pairs), "{set:?}");
        for bad in ["", "A", "=b", "A=1 b", "A='"] {
            assert_eq!(Variables::parse(bad), Err("is NAME=VALUE words".to_owned()), "{bad}");
        }
        let more = BTreeMap::from([("A".to_owned(), "it's".to_owned())]);
        let both = added(Some(&"A=1 B='2 3'".to_owned()), &more);
        let both = Variables::parse(&both).unwrap();
        assert!(both.pairs().eq([("A", "it's"), ("B", "2 3")]), "{both:?}");
        assert_eq!(added(None, &more), added(Some(&"A=9".to_owned()), &more));
        let mut both = both;
        both.set(PRELOAD, "one.so");
        both.set(PRELOAD, "two.so");
        assert_eq!(both.get(PRELOAD), Some("two.so:one.so"));
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_a_need_that_says_why() {
        let set = Variables::parse("LD_PRELOAD=/etc/passwd:libno-such.so.1").unwrap();
        let needs = set.needs(None);
        assert!(needs.iter().all(|need| !need.here), "{needs:?}");
        assert_eq!(needs[0].what, "/etc/passwd (no shared library)");
        assert_eq!(needs[1].what, "libno-such.so.1");
        assert!(Variables::default().needs(None).is_empty());
    }

    #[test]
    fn tunables_that_the_c_library_has_parted_are_one_variable() {
        let found = pairs(b"A=1\0GLIBC_TUNABLES=glibc.x=1\0glibc.y=2\0B=2\0glibc.z=3\0");
        assert_eq!(found["GLIBC_TUNABLES"], "glibc.x=1:glibc.y=2");
        assert_eq!((found["B"].as_str(), found["glibc.z"].as_str()), ("2", "3"));
    }
}

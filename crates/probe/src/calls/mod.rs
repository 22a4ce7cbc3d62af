//! How often the processes of a system call a function, or pass a probe that it was written with:
//! operations, counted where nobody else counts them.
//!
//! A probe of the kernel's stands at each place where calls begin, in every process that maps the
//! file. It counts by process, so that others which run the same file count for themselves.

pub(crate) mod counter;
mod marks;
mod named;
pub(crate) mod places;

use crate::collector::in_first_pid_namespace;
use crate::proc::tasks;
use crate::stack::image::{self, Image, Opened};
use crate::stack::maps::Mapping;
use counter::Counter;
use kneepoint_machine::proc::process;
use named::Unfound;
use places::{Place, mapped, open, place};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Names that are listed in a message.
const MOST_LISTED: usize = 8;
/// Bytes that the kernel keeps of what a process is called (`TASK_COMM_LEN` without the end).
const LONGEST_NAME: usize = 15;
/// How the name of a probe begins.
const PROBE: &str = "usdt";

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Calls of a function.
    Function {
        /// The file that holds it: its base name, its path, or what a process that runs it is
        /// called, which differs where the program was started by a link.
        program: String,
        /// The function.
        function: String,
    },
    /// Passes of a probe that the program was written with.
    Probe {
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
    },
}

impl Wanted {
    /// Reads `PROGRAM:FUNCTION` or `usdt:PROVIDER:NAME`.
    ///
    /// # Errors
    /// It has neither form.
    pub fn parse(text: &str) -> Result<Self, CallsError> {
        let form = || CallsError::Form(text.to_owned());
        let (program, rest) = text.split_once(':').ok_or_else(form)?;
        let (program, rest) = (program.trim(), rest.trim());
        if program.is_empty() || rest.is_empty() || rest.starts_with(':') {
            return Err(form());
        }
        if program != PROBE {
            return Ok(Self::Function { program: program.to_owned(), function: rest.to_owned() });
        }
        match rest.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                Ok(Self::Probe { provider: provider.to_owned(), name: name.to_owned() })
            }
            _ => Err(form()),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function { program, function } => write!(f, "{program}:{function}"),
            Self::Probe { provider, name } => write!(f, "{PROBE}:{provider}:{name}"),
        }
    }
}

/// Why calls cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    /// A text names no function.
    #[error(
        "write PROGRAM:FUNCTION, e.g. mysqld:dispatch_command, or usdt:PROVIDER:NAME (found {0:?})"
    )]
    Form(String),
    /// No process has such a file.
    #[error("none of these processes runs or has loaded {name:?}; they have {there}")]
    NoFile {
        /// The file.
        name: String,
        /// What they have.
        there: String,
    },
    /// A file is there and cannot be read.
    #[error("{file}: cannot read it: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// No function is called so.
    #[error("{file} has no function {function:?}{near}")]
    NoFunction {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// Some that are like it, as the end of the sentence.
        near: String,
    },
    /// No function is called so, and few have names at all.
    #[error(
        "{file} is stripped: it names {named} functions, and none is {function:?}; install its \
         debug symbols"
    )]
    Stripped {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// How many functions it names.
        named: usize,
    },
    /// Several functions are called so.
    #[error("{function:?} is the name of several functions of {file}: {all}; write the whole name")]
    Several {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// Some of them.
        all: String,
    },
    /// No file has such a probe.
    #[error("no file of these processes has a probe {wanted}; {there}")]
    NoProbe {
        /// The probe.
        wanted: String,
        /// Those that there are.
        there: String,
    },
    /// The kernel cannot raise the counter that switches a probe on.
    #[error("the kernel cannot switch such probes on (Linux 4.20 or later can): name a function")]
    NoSwitches,
    /// Not allowed.
    #[error("counting calls needs root, or CAP_BPF and CAP_PERFMON")]
    Right,
    /// Process ids mean something else to the kernel than here.
    #[error("counting calls needs the host's process ids, and this container has its own")]
    Namespace,
    /// The kernel has no probes in programs.
    #[error("this kernel has no probes in programs (CONFIG_UPROBE_EVENTS): use --rate")]
    NoProbes,
    /// The kernel refused something else.
    #[error("{what}: {source}")]
    Kernel {
        /// What.
        what: String,
        /// Why.
        source: io::Error,
    },
}

impl CallsError {
    /// Whether a process that has just begun may still load the file.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::NoFile { .. } | Self::NoProbe { .. })
    }
}

/// Counts calls of some processes and all that descends from them, as long as it lives.
#[derive(Debug)]
pub struct Calls {
    counter: Counter,
    ours: BTreeSet<u32>,
    others: BTreeSet<u32>,
    /// What everybody had counted when the window opened.
    opened: BTreeMap<u32, u64>,
}

impl Calls {
    /// Begins to count what these processes call.
    ///
    /// # Errors
    /// It cannot be found in their files, or may not be counted.
    pub fn attach(wanted: &Wanted, roots: &[u32]) -> Result<Self, CallsError> {
        let family = tasks::family(roots);
        let places = match wanted {
            Wanted::Function { program, function } => of_function(&family, program, function)?,
            Wanted::Probe { provider, name } => of_probe(&family, wanted, provider, name)?,
        };
        if !in_first_pid_namespace() {
            return Err(CallsError::Namespace);
        }
        let counter = Counter::begin(&places)?;
        let ours = family.into_iter().collect();
        Ok(Self { counter, ours, others: BTreeSet::new(), opened: BTreeMap::new() })
    }

    /// Begins a window.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub fn open(&mut self) -> Result<(), CallsError> {
        self.opened = self.counter.counts()?;
        Ok(())
    }

    /// Tells processes that have begun meanwhile from others that run the same file; to be called
    /// now and then, since nobody knows whose a process was that has ended.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub fn look(&mut self) -> Result<(), CallsError> {
        let counts = self.counter.counts()?;
        self.distinguish(&counts);
        Ok(())
    }

    /// Ends a window, and says how often it was called. What was not seen to belong to others
    /// counts.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub fn close(&mut self) -> Result<u64, CallsError> {
        let counts = self.counter.counts()?;
        self.distinguish(&counts);
        let ours = counts.iter().filter(|(process, _)| !self.others.contains(process));
        let added = ours.map(|(process, count)| {
            count.saturating_sub(self.opened.get(process).copied().unwrap_or(0))
        });
        Ok(added.sum())
    }

    fn distinguish(&mut self, counts: &BTreeMap<u32, u64>) {
        let is_known = |one: &u32| self.ours.contains(one) || self.others.contains(one);
        let new: Vec<u32> = counts.keys().copied().filter(|one| !is_known(one)).collect();
        if new.is_empty() {
            return;
        }
        let known: Vec<u32> = self.ours.iter().copied().collect();
        self.ours.extend(tasks::family(&known));
        let is_other = |one: &u32| !self.ours.contains(one) && process::birth(*one).is_some();
        self.others.extend(new.into_iter().filter(is_other));
    }
}

/// The programs of processes that are called so, whatever the files are called.
fn started_as(family: &[u32], name: &str) -> BTreeSet<PathBuf> {
    let short = name.get(..LONGEST_NAME).unwrap_or(name);
    let called = family.iter().filter(|pid| process::name(**pid) == short);
    called.filter_map(|pid| process::image(*pid)).collect()
}

/// Begins of a function in each file of this name.
fn of_function(family: &[u32], program: &str, function: &str) -> Result<Vec<Place>, CallsError> {
    let all = mapped(family);
    let started = started_as(family, program);
    let is_it = |mapping: &Mapping| {
        [mapping.base_name(), mapping.clean_path()].contains(&program)
            || started.iter().any(|image| image.as_os_str() == mapping.clean_path())
    };
    let (mut seen, mut places, mut unfound) = (BTreeSet::new(), Vec::new(), None);
    for (pid, mapping) in all.iter().filter(|(_, mapping)| is_it(mapping)) {
        let (file, key) = open(*pid, mapping)?;
        if !seen.insert(key.clone()) {
            continue;
        }
        let unreadable = |source| CallsError::Unreadable { file: mapping.path.clone(), source };
        let opened = Opened::File(file.try_clone().map_err(unreadable)?, key);
        let image = Image::load(0, mapping.base_name(), opened, &image::debug_roots(*pid));
        match begins(&image, &file, function) {
            Ok(found) => places.extend(found),
            Err(why) => unfound = unfound.or(Some(why)),
        }
    }
    match (places.is_empty(), unfound) {
        (false, _) => Ok(places),
        (true, Some(why)) => Err(why),
        (true, None) => {
            let names = all.iter().map(|(_, mapping)| mapping.base_name());
            Err(CallsError::NoFile { name: program.to_owned(), there: listed(names, "nothing") })
        }
    }
}

/// Where calls of a function begin in an image.
fn begins(image: &Image, file: &File, function: &str) -> Result<Vec<Place>, CallsError> {
    let (functions, whole) = image.functions();
    let of = || (image.name.clone(), function.to_owned());
    let addresses = named::find(&functions, function).map_err(|why| {
        let (file, function) = of();
        match why {
            Unfound::Several(all) => CallsError::Several { file, function, all: all.join(", ") },
            Unfound::None(_) if !whole => {
                CallsError::Stripped { file, function, named: functions.len() }
            }
            Unfound::None(near) => {
                let near = match near.is_empty() {
                    true => String::new(),
                    false => format!("; near are {}", near.join(", ")),
                };
                CallsError::NoFunction { file, function, near }
            }
        }
    })?;
    addresses.into_iter().map(|address| place(image, file, address, None)).collect()
}

/// Every place where a probe is passed, in every file that has it.
fn of_probe(
    family: &[u32],
    wanted: &Wanted,
    provider: &str,
    name: &str,
) -> Result<Vec<Place>, CallsError> {
    let (mut seen, mut places, mut others) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (pid, mapping) in mapped(family) {
        // Who asks for a probe does not ask for every file: one that cannot be read has none.
        let Ok((file, key)) = open(pid, &mapping) else { continue };
        if !seen.insert(key.clone()) {
            continue;
        }
        let marks = marks::of(&file);
        let is_it = |mark: &&marks::Mark| mark.provider == provider && mark.name == name;
        if marks.iter().any(|mark| is_it(&mark)) {
            let unreadable = |source| CallsError::Unreadable { file: mapping.path.clone(), source };
            let opened = Opened::File(file.try_clone().map_err(unreadable)?, key);
            let image = Image::load(0, mapping.base_name(), opened, &[]);
            for mark in marks.iter().filter(is_it) {
                places.push(place(&image, &file, mark.address, mark.switch)?);
            }
        }
        others.extend(marks.iter().map(|mark| format!("{}:{}", mark.provider, mark.name)));
    }
    if !places.is_empty() {
        return Ok(places);
    }
    let there = match others.is_empty() {
        true => "they have none at all".to_owned(),
        false => format!("there are {}", listed(others.iter().map(String::as_str), "")),
    };
    Err(CallsError::NoProbe { wanted: wanted.to_string(), there })
}

/// Some of these names, each once.
fn listed<'a>(names: impl Iterator<Item = &'a str>, none: &str) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    let more = distinct.len().saturating_sub(MOST_LISTED);
    distinct.truncate(MOST_LISTED);
    match (distinct.is_empty(), more) {
        (true, _) => none.to_owned(),
        (false, 0) => distinct.join(", "),
        (false, more) => format!("{} and {more} more", distinct.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_written_with_colons() {
        let function = |program: &str, function: &str| Wanted::Function {
            program: program.to_owned(),
            function: function.to_owned(),
        };
        for (text, wanted) in [
            ("mysqld:dispatch_command", function("mysqld", "dispatch_command")),
            ("a:b::c(int)", function("a", "b::c(int)")),
            ("/usr/bin/a:b", function("/usr/bin/a", "b")),
        ] {
            let read = Wanted::parse(text).unwrap();
            assert_eq!((&read, read.to_string()), (&wanted, text.to_owned()));
        }
        let probe = Wanted::parse("usdt:mysql:query__start").unwrap();
        assert_eq!(probe.to_string(), "usdt:mysql:query__start");
        assert!(matches!(probe, Wanted::Probe { .. }));
        for bad in ["", "f", ":f", "a:", "usdt:a", "usdt::a", "usdt:a:", "a::f"] {
            let why = Wanted::parse(bad).unwrap_err().to_string();
            assert!(why.starts_with("write PROGRAM:FUNCTION"), "{bad}: {why}");
        }
    }

    #[test]
    fn who_has_no_such_file_is_shown_what_there_is() {
        let own = [kneepoint_machine::own_pid()];
        let why = of_function(&own, "no-such-file", "f").unwrap_err();
        assert!(why.may_pass() && why.to_string().contains("libc"), "{why}");
        let image = std::env::current_exe().unwrap();
        let image = image.file_name().unwrap().to_str().unwrap();
        let why = of_function(&own, image, "who_has_no_such_file_is_shown_what_there_iz");
        let why = why.unwrap_err();
        assert!(!why.may_pass() && why.to_string().contains("; near are "), "{why}");
        let wanted = Wanted::parse("usdt:nobody:nothing").unwrap();
        let why = of_probe(&own, &wanted, "nobody", "nothing").unwrap_err();
        assert!(why.may_pass() && why.to_string().contains("usdt:nobody:nothing"), "{why}");
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b", "a"].into_iter(), "none"), "a, b");
        assert_eq!(listed([].into_iter(), "none"), "none");
        let many: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        let many = listed(many.iter().map(String::as_str), "");
        assert!(many.ends_with("7 and 2 more"), "{many}");
    }
}

//! Names of code that a just-in-time compiler made, from the file that profilers agree on:
//! `/tmp/perf-PID.map`, a line `START SIZE NAME` for each function, both numbers in hexadecimal
//! (Linux, `tools/perf/Documentation/jit-interface.txt`). The process's own `/tmp` and its own
//! number count, where it lives in namespaces.

use super::code;
use kneepoint_machine::proc::process;
use kneepoint_vocab::CodeKind;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// A map longer than this is read no further.
const MOST_BYTES: u64 = 64 << 20;

/// Functions by where they begin, in ascending order, and what their code does where threads were
/// found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfMap {
    entries: Vec<Entry>,
    code: BTreeMap<u64, CodeKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    begin: u64,
    size: u64,
    name: Box<str>,
}

impl PerfMap {
    /// Lines of another form are passed over. Of several functions that begin at one address the
    /// last counts: compilers write a new line when they use memory again.
    fn parse(text: &str) -> Self {
        let mut entries: Vec<Entry> = text.lines().filter_map(entry).collect();
        entries.sort_by_key(|entry| entry.begin);
        entries.reverse();
        entries.dedup_by_key(|entry| entry.begin);
        entries.reverse();
        Self { entries, code: BTreeMap::new() }
    }

    /// The function that has code at `address`.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        self.entry(address).map(|entry| &*entry.name)
    }

    fn entry(&self, address: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.begin <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        (address - entry.begin < entry.size).then_some(entry)
    }

    /// What the code does at an address that was [looked at](PerfMap::look_at).
    pub(crate) fn code(&self, address: u64) -> CodeKind {
        self.code.get(&address).copied().unwrap_or_default()
    }

    /// Reads what the code does at these addresses of the process that the map is of; a compiler
    /// may use their memory again for other code.
    pub(crate) fn look_at(&mut self, memory: &File, addresses: impl Iterator<Item = u64>) {
        for address in addresses {
            if let Some(kind) = self.kind_at(memory, address) {
                self.code.insert(address, kind);
            }
        }
    }

    fn kind_at(&self, memory: &File, address: u64) -> Option<CodeKind> {
        let Entry { begin, size, .. } = *self.entry(address)?;
        let length = (address - begin).checked_add(code::BEHIND)?.min(size);
        let longest = code::BEFORE + code::BEHIND;
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= longest)?];
        memory.read_exact_at(&mut bytes, begin).ok()?;
        Some(code::kind_of(&bytes, begin, address))
    }
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || {
        let field = fields.next()?;
        u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
    };
    let (begin, size) = (number()?, number()?);
    let name = readable(fields.next()?);
    (size > 0 && !name.is_empty()).then(|| Entry { begin, size, name: name.into() })
}

/// `void Book.post(long)` -> `Book.post`: a method's types are not needed to find it.
fn readable(name: &str) -> String {
    let name: String = name.trim().chars().filter(|character| !character.is_control()).collect();
    let Some((before, rest)) = name.split_once('(') else { return name };
    match before.rsplit_once(' ') {
        Some((_, method)) if rest.ends_with(')') && method.contains('.') => method.to_owned(),
        _ => name,
    }
}

/// The process's number in its own namespace, and its folder of temporary files.
pub(super) fn at_home(pid: u32) -> Option<(u32, String)> {
    let numbers = process::status(pid, "NSpid")?;
    Some((own_number(&numbers)?, process::root(pid).join("tmp").display().to_string()))
}

/// The last of the numbers that a process has, from the outermost namespace to its own.
fn own_number(numbers: &str) -> Option<u32> {
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// Reads the process's map.
///
/// # Errors
/// Where there is none, or it is not a plain file of the process's user or of root.
pub(crate) fn read(pid: u32) -> io::Result<PerfMap> {
    let (own, folder) = at_home(pid).ok_or(io::ErrorKind::NotFound)?;
    let path = format!("{folder}/perf-{own}.map");
    let found = std::fs::symlink_metadata(&path)?;
    let user = process::owner(pid).ok_or(io::ErrorKind::NotFound)?;
    if !found.is_file() || ![0, user].contains(&found.uid()) {
        return Err(io::Error::other("not a plain file of the process's user"));
    }
    // Another may have taken its place: a pipe would be waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return Err(io::Error::other("replaced while it was opened"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(PerfMap::parse(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_map_makes_it_panic_or_name_what_it_does_not_hold(
            lines in prop::collection::vec("(0x)?[0-9a-f]{0,18} [0-9a-f]{0,18} \\PC{0,12}", 0..12),
            address: u64,
        ) {
            let text = lines.join("\n");
            let map = PerfMap::parse(&text);
            let begins = map.entries.iter().map(|it| it.begin);
            for address in begins.chain([address, 0, u64::MAX]) {
                let Some(name) = map.name(address) else { continue };
                let held = map.entries.iter().any(|it| {
                    it.begin <= address && address - it.begin < it.size && &*it.name == name
                });
                prop_assert!(held, "{address:x} in {text}");
            }
        }
    }

    #[test]
    fn a_name_is_given_only_within_its_function() {
        let map = PerfMap::parse(
            "7f00 20 void Monitor$Book.post(long)\n7f40 10 Interpreter\nnonsense\n7f60 0 empty\n",
        );
        assert_eq!(map.name(0x7eff), None);
        assert_eq!(map.name(0x7f00), Some("Monitor$Book.post"));
        assert_eq!(map.name(0x7f1f), Some("Monitor$Book.post"));
        assert_eq!(map.name(0x7f20), None);
        assert_eq!(map.name(0x7f4f), Some("Interpreter"));
        assert_eq!(map.name(0x7f60), None);
    }

    #[test]
    fn memory_that_is_used_again_bears_its_last_name() {
        let map = PerfMap::parse("10 8 first\n20 8 other\n10 4 second\n");
        assert_eq!(map.name(0x11), Some("second"));
        assert_eq!(map.name(0x15), None);
    }

    #[test]
    fn only_a_method_s_types_are_left_out() {
        assert_eq!(readable("int[] a.b.C.run(java.lang.Object, int)"), "a.b.C.run");
        assert_eq!(readable("JS:*post /srv/app.js:3:5"), "JS:*post /srv/app.js:3:5");
        assert_eq!(readable("StubRoutines (2)"), "StubRoutines (2)");
        assert_eq!(readable("complete_monitor_locking"), "complete_monitor_locking");
    }

    #[test]
    fn code_without_a_file_is_told_by_its_bytes_in_memory() {
        // lock inc dword ptr [rdi]; ret
        let bytes: [u8; 4] = [0xf0, 0xff, 0x07, 0xc3];
        let begin = bytes.as_ptr() as u64;
        let mut map = PerfMap::parse(&format!("{begin:x} 4 count\n"));
        let memory = process::memory(std::process::id()).expect("it is our own");
        map.look_at(&memory, [begin + 3, begin + 9].into_iter());
        assert_eq!(map.code(begin + 3), CodeKind::Atomic);
        assert_eq!(map.code(begin + 9), CodeKind::Other, "no function has it");
    }

    #[test]
    fn a_process_has_its_number_in_its_own_namespace() {
        assert_eq!(own_number("4711\t7"), Some(7));
        assert_eq!(own_number(""), None);
    }

    #[test]
    fn our_own_map_is_read_where_it_is_a_plain_file() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{}.map", at_home(pid).expect("we are alive").0);
        if std::fs::write(&path, "1000 10 compiled\n").is_err() {
            return;
        }
        let read_back = read(pid);
        std::fs::remove_file(&path).expect("it was written just now");
        assert_eq!(read_back.expect("it is ours").name(0x1008), Some("compiled"));
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("nothing lies there");
        let followed = read(pid);
        std::fs::remove_file(&path).expect("it was made just now");
        assert!(followed.is_err());
    }
}

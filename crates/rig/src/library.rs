//! Shared libraries that are loaded before all others, looked for where the loader does.

use crate::elf::{self, Machine};
use std::fs;
use std::path::{Path, PathBuf};

/// The loader's own list of libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// How that begins.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes before its entries, and of each.
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// The libraries that a value of `LD_PRELOAD` names.
pub(crate) fn named(preload: &str) -> impl Iterator<Item = &str> {
    preload.split([':', ' ', '\t', '\n']).filter(|name| !name.is_empty())
}

/// A value of `LD_PRELOAD` whose relative paths are absolute: who loads it runs elsewhere.
pub(crate) fn absolute(preload: &str) -> String {
    let placed = |name: &str| match std::path::absolute(name) {
        Ok(path) if name.contains('/') && !name.contains('$') => path.display().to_string(),
        _ => name.to_owned(),
    };
    named(preload).map(placed).collect::<Vec<_>>().join(":")
}

/// The file that the loader takes for a library of this name; `folders` is `LD_LIBRARY_PATH`, and
/// `program` what it is loaded into, where that is known.
///
/// # Errors
/// Why it would not be loaded, to be put after its name.
pub(crate) fn find(name: &str, folders: &str, program: Option<&Path>) -> Result<PathBuf, String> {
    let machine = program
        .and_then(|program| elf::read(program).ok().flatten())
        .or_else(|| elf::read(Path::new("/proc/self/exe")).ok().flatten())
        .map(|elf| elf.machine);
    let mut refused = None;
    for candidate in candidates(name, folders) {
        match fits(&candidate, machine) {
            Ok(()) => return Ok(candidate),
            Err(why) => {
                refused.get_or_insert(why);
            }
        }
    }
    Err(refused.unwrap_or_else(|| "not found".to_owned()))
}

fn candidates(name: &str, folders: &str) -> Vec<PathBuf> {
    let all = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        let given = folders.split([':', ';']).filter(|folder| !folder.is_empty());
        let mut all: Vec<PathBuf> = given.map(|folder| Path::new(folder).join(name)).collect();
        all.extend(cached(&fs::read(CACHE).unwrap_or_default(), name));
        let standard = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
        all.extend(standard.map(|folder| Path::new(folder).join(name)));
        all
    };
    all.into_iter().filter(|path| path.exists()).collect()
}

fn fits(path: &Path, machine: Option<Machine>) -> Result<(), String> {
    let elf = elf::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    match elf {
        None => Err("no shared library".to_owned()),
        Some(elf) if machine.is_some_and(|own| own != elf.machine) => {
            let own = machine.map_or_else(String::new, |own| format!(", not for {own}"));
            Err(format!("for {}{own}", elf.machine))
        }
        Some(elf) if !elf.shared => Err("no shared library".to_owned()),
        Some(_) => Ok(()),
    }
}

/// The paths of a library in a text like the loader's list, as its manual has it: a header, then
/// entries of flags, offset of the name, offset of the path, and more.
fn cached(cache: &[u8], name: &str) -> Vec<PathBuf> {
    let Some(begin) = cache.windows(MAGIC.len()).position(|part| part == MAGIC) else {
        return Vec::new();
    };
    let cache = &cache[begin..];
    let number = |offset: usize| {
        let bytes = cache.get(offset..offset.checked_add(4)?)?;
        usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let text = |offset: usize| {
        let rest = cache.get(offset..)?;
        std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
    };
    let entries = (0..number(MAGIC.len()).unwrap_or(0)).map_while(|index| {
        let entry = index.checked_mul(CACHE_ENTRY)?.checked_add(CACHE_HEADER)?;
        Some((number(entry + 4)?, number(entry + 8)?))
    });
    let own = entries.filter(|(key, _)| text(*key) == Some(name));
    own.filter_map(|(_, path)| text(path)).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_is_split_and_made_absolute() {
        let here = std::env::current_dir().unwrap();
        let list = format!("libx.so:/a/b.so:{}/c/d.so", here.display());
        assert_eq!(absolute("libx.so  /a/b.so:c/d.so"), list);
        assert_eq!(named(":a: b").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn the_c_library_is_found_by_its_name_and_what_is_none_is_reported() {
        if !Path::new(CACHE).exists() {
            println!("SKIP the_c_library_is_found_by_its_name: no {CACHE}");
            return;
        }
        let found = find("libc.so.6", "", None).unwrap();
        assert!(found.is_file() && found.ends_with("libc.so.6"), "{}", found.display());
        assert_eq!(find("libno-such.so.9", "", None), Err("not found".to_owned()));
        assert_eq!(find("/nonexistent/x.so", "", None), Err("not found".to_owned()));
        assert_eq!(find("/etc/passwd", "", None), Err("no shared library".to_owned()));
    }

    #[test]
    fn another_machines_library_is_passed_over() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("libc.so.6");
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        (head[16], head[18]) = (3, 22);
        fs::write(&path, head).unwrap();
        let name = path.display().to_string();
        let reported = find(&name, "", None).unwrap_err();
        assert!(reported.starts_with("for machine 22 (64 bit), not for "), "{reported}");
        let folders = folder.path().display().to_string();
        // By a bare name the search goes on, as the loader's does.
        if Path::new(CACHE).exists() {
            assert_ne!(find("libc.so.6", &folders, None).unwrap(), path);
        }
    }

    proptest! {
        #[test]
        fn no_cache_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let whole = [MAGIC, &bytes].concat();
            let _ = cached(&whole, "libc.so.6");
            let _ = cached(&bytes, "");
        }
    }
}

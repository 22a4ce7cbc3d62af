//! What the server allocates with: the C library as it is, with one arena, or a library in its
//! place.

use crate::environment::{PRELOAD, Variables};
use crate::workload::Need;
use anyhow::Context as _;
use kneepoint_vocab::Proof;
use std::fs;
use std::path::PathBuf;

/// Where the server's allocations come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocator {
    /// The C library's `malloc`.
    Libc,
    /// The C library's `malloc` with all threads on one arena.
    LibcOneArena,
    /// jemalloc, loaded before the C library.
    Jemalloc,
    /// tcmalloc, loaded before the C library.
    Tcmalloc,
}

/// The variable that limits how many arenas the C library may make.
const ARENAS: &str = "MALLOC_ARENA_MAX";

impl Allocator {
    /// All of them, by name.
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("libc", Self::Libc),
        ("libc-one-arena", Self::LibcOneArena),
        ("jemalloc", Self::Jemalloc),
        ("tcmalloc", Self::Tcmalloc),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Its library and the package that brings it.
    fn library(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Libc | Self::LibcOneArena => None,
            Self::Jemalloc => Some(("libjemalloc.so.2", "libjemalloc2")),
            Self::Tcmalloc => Some(("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")),
        }
    }

    /// The library that has to be there, if any.
    pub(super) fn need(self) -> Option<Need> {
        let (file, package) = self.library()?;
        let (what, package) = (file.to_owned(), package.to_owned());
        Some(Need { what, package, here: find(file).is_some() })
    }

    /// What has to stand in the server's environment.
    pub(super) fn environment(self) -> anyhow::Result<Option<(&'static str, String)>> {
        if self == Self::LibcOneArena {
            return Ok(Some((ARENAS, "1".to_owned())));
        }
        let Some((file, package)) = self.library() else { return Ok(None) };
        let path = find(file).with_context(|| {
            format!(
                "{file} is not here; apt-get install --no-install-recommends {package}, or set \
                 another allocator"
            )
        })?;
        Ok(Some((PRELOAD, path.display().to_string())))
    }

    /// Reads back what a running process has. None where the process was given `variables` that
    /// make it several allocators at once: these are proven by themselves.
    pub(super) fn proof(
        self,
        process: u32,
        variables: &Variables,
    ) -> anyhow::Result<Option<Proof>> {
        let maps = read(process, "maps")?;
        let environment = read(process, "environ")?;
        let found = of(&maps, &environment);
        let set: Vec<String> =
            variables.pairs().map(|(name, value)| format!("{name}={value}")).collect();
        let meant = of(variables.get(PRELOAD).unwrap_or_default(), &set.join("\0"));
        Ok(meant.map(|meant| Proof {
            what: "the server's allocator in /proc/PID/maps and environ".to_owned(),
            expected: meant.name().to_owned(),
            found: found.map_or("several", Self::name).to_owned(),
            active: found == Some(meant),
        }))
    }
}

/// The allocator of a process with these mappings and this environment; none where several.
fn of(maps: &str, environment: &str) -> Option<Allocator> {
    let one_arena = environment.split('\0').any(|line| line == format!("{ARENAS}=1"));
    let libraries = [("jemalloc", Allocator::Jemalloc), ("tcmalloc", Allocator::Tcmalloc)];
    let mut found: Vec<_> = libraries
        .into_iter()
        .filter(|(mark, _)| maps.lines().any(|line| line.contains(mark)))
        .map(|(_, allocator)| allocator)
        .collect();
    if one_arena || found.is_empty() {
        found.push(if one_arena { Allocator::LibcOneArena } else { Allocator::Libc });
    }
    (found.len() == 1).then(|| found[0])
}

fn read(process: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{process}/{file}");
    let bytes = fs::read(&path).with_context(|| format!("{path} cannot be read"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A shared library where the linker's standard places are.
fn find(file: &str) -> Option<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [
        format!("/usr/lib/{triplet}"),
        format!("/lib/{triplet}"),
        "/usr/lib64".into(),
        "/usr/lib".into(),
        "/usr/local/lib".into(),
    ];
    folders.iter().map(|folder| PathBuf::from(folder).join(file)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_is_known_by_its_library_or_its_variable() {
        let libc = "7f00 r-xp /usr/lib/x86_64-linux-gnu/libc.so.6\n";
        let jemalloc = format!("{libc}7f10 r-xp /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n");
        assert_eq!(of(libc, "A=1\0"), Some(Allocator::Libc));
        assert_eq!(of(libc, "A=1\0MALLOC_ARENA_MAX=1\0"), Some(Allocator::LibcOneArena));
        assert_eq!(of(libc, "MALLOC_ARENA_MAX=16\0"), Some(Allocator::Libc));
        assert_eq!(of(&jemalloc, ""), Some(Allocator::Jemalloc));
        assert_eq!(of(&jemalloc, "MALLOC_ARENA_MAX=1\0"), None);
        assert_eq!(of(&format!("{jemalloc}libtcmalloc_minimal.so.4\n"), ""), None);
    }

    #[test]
    fn a_library_that_is_not_here_is_a_need_with_its_package() {
        assert_eq!(Allocator::Libc.need(), None);
        let need = Allocator::Tcmalloc.need().unwrap();
        assert_eq!(need.package, "libtcmalloc-minimal4");
        let environment = Allocator::Tcmalloc.environment();
        assert_eq!(need.here, environment.is_ok());
        if let Err(error) = environment {
            assert!(error.to_string().contains("recommends libtcmalloc-minimal4"), "{error}");
        }
    }
}
